package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/api"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// dicts contains the headers of a client that speaks AgentScope 1.x.
var dicts = []string{"Content-Type", msgv1.Type, "Accept", msgv1.Type}

// msg1 contains what Msg.from_dict of AgentScope 1.x reads.
type msg1 struct {
	ID, Name, Role, Timestamp string
	Content                   []struct {
		Type, ID, Name string
		Input          map[string]any
		Output         any
	}
	Metadata struct {
		Askance struct {
			RequestID string `json:"request_id"`
			Calls     []struct {
				ID     string `json:"tool_use_id"`
				State  string
				Digest string
			}
		}
	}
}

// read returns the messages of a response.
func read(t *testing.T, a response) (api.MsgsReply, []msg1) {
	t.Helper()
	if a.status != http.StatusOK || a.header.Get("Content-Type") != msgv1.Type {
		t.Fatalf("%d %s: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	var reply api.MsgsReply
	a.into(t, &reply)
	list := make([]msg1, len(reply.Messages))
	for i, raw := range reply.Messages {
		if err := json.Unmarshal(raw, &list[i]); err != nil {
			t.Fatalf("%v in %s", err, raw)
		}
	}
	return reply, list
}

// TestMsgs: an agent of AgentScope 1.x proposes, waits and reports using the messages in its
// memory.
func TestMsgs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bot := w.A.HTTP(gatewaytest.Bot)
	const reply = "/v1/sessions/s1/replies/r1"
	turn := `{"messages":[{"id":"a1","name":"Friday","role":"assistant","content":[{"type":"text","text":"I pay."},
		{"type":"tool_use","id":"c1","name":"pay","input":{"to":"acme","amount":42}},
		{"type":"tool_use","id":"c2","name":"lookup","input":{"q":1}},
		{"type":"tool_use","id":"c3","name":"drop","input":{}}],"metadata":{},"timestamp":"2026-11-21 09:32:44.000"}]}`
	got, list := read(t, w.do(bot, post, reply+"/calls", turn, dicts...))
	call := w.A.Show(toolcall.Key{Space: w.A.ID, Session: "s1", Reply: "r1", Call: "c1"})
	if got.Done || len(list) != 2 || len(list[0].Content) != 3 || list[0].Role != "assistant" || list[0].ID != "r1" || list[1].Role != "system" || call.Agent != "Friday" || call.Input != `{"amount":42,"to":"acme"}` {
		t.Fatalf("%+v %+v", list, call)
	}
	open := list[0].Metadata.Askance
	if open.RequestID != "r1" || len(open.Calls) != 2 || open.Calls[0].ID != "c1" || open.Calls[0].State != "asking" || open.Calls[0].Digest != call.Digest || open.Calls[1].State != "submitted" || open.Calls[1].Digest != "" {
		t.Errorf("%+v", open)
	}
	if r := list[1].Content[0]; r.Type != "tool_result" || r.ID != "c3" || len(got.Lost) == 0 {
		t.Errorf("%+v %+v", r, got.Lost)
	}
	// The same proposal again returns the current state, in either format.
	var plain toolcall.ProposeReply
	w.ok(bot, post, reply+"/calls", turn, &plain, "Content-Type", msgv1.Type)
	if len(plain.Calls) != 3 {
		t.Errorf("%+v", plain)
	}
	// The agent runs its own tool and reports the result.
	result := `{"messages":[{"id":"t1","name":"system","role":"system","content":[{"type":"tool_result","id":"c2","name":"lookup","output":"found"}],"metadata":{},"timestamp":"2026-11-21 09:32:45.000"}]}`
	got, list = read(t, w.do(bot, post, "/v1/calls/s1/r1/c2/result", result, dicts...))
	if !got.Done || list[1].Content[0].Output != "found" {
		t.Errorf("%+v", list)
	}
	got, _ = read(t, w.do(bot, "GET", reply+"/wait?timeout_ms=1", "", "Accept", msgv1.Type))
	if got.Done {
		t.Error("the wait is done while an approval request is open")
	}
	w.A.Approve(gatewaytest.Ann, call.Key)
	for !got.Done {
		got, list = read(t, w.do(bot, "GET", reply+"/wait", "", "Accept", msgv1.Type))
	}
	if len(list) != 2 || len(list[1].Content) != 3 || list[1].Content[0].Output != gatewaytest.PayInput && !strings.Contains(list[1].Content[0].Output.(string), "acme") || len(list[0].Metadata.Askance.Calls) != 0 {
		t.Errorf("%+v", list)
	}
}

// TestMsgsRefused: if part of a body is not understood, nothing is proposed.
func TestMsgsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bot := w.A.HTTP(gatewaytest.Bot)
	const calls, use = "/v1/sessions/s1/replies/r1/calls", `{"type":"tool_use","id":"c1","name":"echo","input":{}}`
	body := func(role, content string) string {
		return `{"messages":[{"name":"Friday","role":"` + role + `","content":` + content + `}]}`
	}
	for name, b := range map[string]string{
		"no messages":     `{}`,
		"an unknown name": `{"messages":[],"agent":"x"}`,
		"the plain form":  `{"tool_calls":[]}`,
		"a user's calls":  body("user", `[`+use+`]`),
		"two inputs":      body("assistant", `[{"type":"tool_use","id":"c1","name":"pay","input":{"amount":1},"raw_input":"{\"amount\":1000}"}]`),
		"unknown blocks":  body("assistant", `[`+use+`,{"type":"file","url":"a"},{"type":"hologram","when":"later"}]`),
		"a member":        body("assistant", `[{"type":"tool_use","id":"c1","name":"echo","input":{},"dry_run":true}]`),
		"results":         body("assistant", `[`+use+`,{"type":"tool_result","id":"c1","name":"echo","output":"x"}]`),
		"nothing":         ``,
	} {
		if p := w.refused(bot, post, calls, b, http.StatusBadRequest, message.CodeInvalid, dicts...); p.Hint == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// The format must be declared; it is never guessed.
	w.refused(bot, post, calls, body("assistant", `[`+use+`]`), http.StatusBadRequest, message.CodeInvalid)
	w.refused(bot, post, "/v1/sessions/s1/replies/r1/interrupt", `{}`, http.StatusBadRequest, message.CodeInvalid, "Content-Type", msgv1.Type)
	var list toolcall.ListReply
	w.ok(bot, "GET", "/v1/calls?all=true", "", &list)
	if len(list.Calls) != 0 {
		t.Errorf("%+v", list.Calls)
	}
	// An Idempotency-Key belongs to one format.
	key := []string{"Idempotency-Key", "k1"}
	read(t, w.do(bot, post, calls, body("assistant", `[`+use+`]`), append(key, dicts...)...))
	again := w.do(bot, post, calls, body("assistant", `[`+use+`]`), append(key, dicts...)...)
	read(t, again)
	if again.header.Get("Idempotency-Replayed") != "true" {
		t.Error("the second reply is not marked as replayed")
	}
	w.refused(bot, post, calls, body("assistant", `[`+use+`]`), http.StatusConflict, message.CodeConflict, append(key, "Content-Type", msgv1.Type)...)
}
