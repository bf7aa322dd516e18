package bus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// An error contains the current call if it fits, and is itself never too large.
func TestErrorsFitAMessage(t *testing.T) {
	call := &toolcall.Call{Key: bustest.CallKey("c1"), Input: strings.Repeat("x", 4<<10)}
	refusal := &message.Error{Code: message.CodeDigest, What: "another approval request is open", Call: toolcall.ErrorCall(call)}
	for _, tc := range []struct {
		most int
		with bool
	}{{64 << 10, true}, {2 << 10, false}, {10, false}} {
		b := bus.EncodeError("submit_response", refusal, tc.most)
		var r struct {
			V     int            `json:"v"`
			Error *message.Error `json:"error"`
		}
		if err := json.Unmarshal(b, &r); err != nil || r.V != 1 || r.Error == nil {
			t.Fatalf("most %d: %s: %v", tc.most, b, err)
		}
		if with := r.Error.Call != nil; with != tc.with || len(b) > max(tc.most, 200) {
			t.Errorf("most %d: %d bytes, with the call %v, want %v", tc.most, len(b), with, tc.with)
		}
	}
	if refusal.Call == nil {
		t.Error("the error itself was changed")
	}
	if b := bus.EncodeError("submit_response", errors.New("something else"), 1<<10); !strings.Contains(string(b), `"code":"internal"`) {
		t.Errorf("any error: %s", b)
	}
}

// For any body an envelope equals what the JSON codec makes of it.
func TestEnvelopesAreJSON(t *testing.T) {
	type request struct {
		V    int    `json:"v"`
		Op   string `json:"op"`
		Body any    `json:"body"`
	}
	type reply struct {
		V    int `json:"v"`
		Body any `json:"body"`
	}
	for _, body := range []any{
		struct{}{}, nil, []string{}, "text", message.RawJSON(` {"a" : [1, 2]} `),
		toolcall.Response{Key: bustest.CallKey("c\"1"), Kind: toolcall.ResponseApprove, Feedback: "}\u2028"}, bus.NextReply{State: bus.TaskHere, Record: message.RawJSON(`{ }`)},
	} {
		got, err := bus.EncodeRequest("submit_response", body)
		want, werr := strictjson.Marshal(request{1, "submit_response", body})
		if err != nil || werr != nil || string(got) != string(want) {
			t.Errorf("request: %s, %v; want %s, %v", got, err, want, werr)
		}
		got, err = bus.EncodeReply("submit_response", body, 1<<20)
		want, werr = strictjson.Marshal(reply{1, body})
		if err != nil || werr != nil || string(got) != string(want) {
			t.Errorf("reply: %s, %v; want %s, %v", got, err, want, werr)
		}
	}
	for _, bad := range []any{message.RawJSON(`{"a":1,"a":2}`), message.RawJSON(`{}}{`), "\xff"} {
		if b, err := bus.EncodeReply("submit_response", bad, 1<<20); err == nil {
			t.Errorf("%q became %s", bad, b)
		}
		if b, err := bus.EncodeRequest("submit_response", bad); err == nil {
			t.Errorf("%q became %s", bad, b)
		}
	}
}
