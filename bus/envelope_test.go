package bus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
)

// An error brings the present call if it fits, and is itself never too large.
func TestErrorsFitAMessage(t *testing.T) {
	call := &message.Call{Key: callKey("c1"), Input: strings.Repeat("x", 4<<10)}
	refusal := &message.Error{Code: message.CodeDigest, What: "another question is open", Call: call}
	for _, tc := range []struct {
		most int
		with bool
	}{{64 << 10, true}, {2 << 10, false}, {10, false}} {
		b := bus.EncodeError(bus.OpAnswer, refusal, tc.most)
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
	if b := bus.EncodeError(bus.OpAnswer, errors.New("something else"), 1<<10); !strings.Contains(string(b), `"code":"internal"`) {
		t.Errorf("any error: %s", b)
	}
}
