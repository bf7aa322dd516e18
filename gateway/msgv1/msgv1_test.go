package msgv1_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway/msgv1"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
)

func TestMediaTypes(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "*/*": "", "application/json": "",
		msgv1.Type:                        msgv1.Type,
		msgv1.Type01:                      msgv1.Type01,
		msgv1.Type + ", application/json": msgv1.Type,
		"application/json, " + msgv1.Type: "",
		"application/json;q=0.5, " + msgv1.Type + ";q=0.9": msgv1.Type,
		msgv1.Type + ";q=0.1, */*":                         "",
		msgv1.Type + ";q=0":                                "",
		msgv1.Type + ";q=high":                             "",
		"text/html, " + msgv1.Type:                         msgv1.Type,
		"application/vnd.agentscope.v3+json":               "",
	} {
		if got := msgv1.WantedBy(&http.Request{Header: http.Header{"Accept": {accept}}}); got != want {
			t.Errorf("Accept: %s: %q, want %q", accept, got, want)
		}
	}
	for kind, want := range map[string]bool{
		"": false, "application/json": false, msgv1.Type: true, msgv1.Type01: true, msgv1.Type + "; charset=utf-8": true,
		"Application/vnd.AgentScope.v1+JSON": true, "application/vnd.agentscope.v2+json": false,
	} {
		if got := msgv1.IsSent(&http.Request{Header: http.Header{"Content-Type": {kind}}}); got != want {
			t.Errorf("Content-Type: %s: %v", kind, got)
		}
	}
}

// dict returns a dict of 1.x.
func dict(role, content, metadata string) message.RawJSON {
	return message.RawJSON(`{"id":"m1","name":"ann","role":"` + role + `","content":` + content + `,"metadata":` + metadata + `,"timestamp":"2026-11-21 09:32:43.576"}`)
}

// TestConvertRefuses: content that AgentScope 2.0 would lose is refused, and the error names the
// message and the part.
func TestConvertRefuses(t *testing.T) {
	for name, c := range map[string]struct{ dict, part string }{
		"member of a block":  {`[{"type":"text","text":"hi","cache":true}]`, "cache"},
		"unknown block":      {`[{"type":"hologram","x":1}]`, "hologram"},
		"block with no type": {`[{"x":1}]`, ""},
		"relative URL":       {`[{"type":"image","source":{"type":"url","url":"me.png"}}]`, "me.png"},
		"result of no call":  {`[{"type":"tool_result","id":"c9","name":"f","output":"x"}]`, "c9"},
		"a user's call":      {`[{"type":"tool_use","id":"c1","name":"f","input":{}}]`, "c1"},
	} {
		dicts, err := msgv1.Decode("test", []message.RawJSON{dict("user", c.dict, `{}`)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = msgv1.Convert("test", dicts)
		if e, ok := errors.AsType[*message.Error](err); !ok || e.Code != message.CodeInvalid || !strings.Contains(e.What, c.part) || !strings.Contains(e.What, "m1") || e.Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, raw := range map[string]string{
		"2.0":      `{"name":"ann","role":"user","created_at":"2026-03-01T09:00:00","content":[{"type":"text","text":"hi"}]}`,
		"an event": `{"type":"USER_CONFIRM_RESULT","reply_id":"r1","confirm_results":[]}`, "no object": `7`, "no JSON": `{"role":`,
	} {
		if _, err := msgv1.Decode("test", []message.RawJSON{message.RawJSON(raw)}); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestProposal: calls are read only from an assistant's dict.
func TestProposal(t *testing.T) {
	use := `[{"type":"thinking","thinking":"hm"},{"type":"text","text":"I pay."},{"type":"tool_use","id":"c1","name":"pay","input":{"b":1,"a":2},"raw_input":"{\"b\": 1, \"a\": 2}"},{"type":"tool_use","id":"c2","name":"echo","input":{}}]`
	agent, calls, err := msgv1.Proposal("test", []message.RawJSON{dict("assistant", use, `{}`)})
	if err != nil || agent != "ann" || len(calls) != 2 || calls[0].Input != `{"b": 1, "a": 2}` || calls[1].Input != `{}` {
		t.Errorf("%s %+v %v", agent, calls, err)
	}
	for name, list := range map[string][]message.RawJSON{
		"none":         {},
		"a user's":     {dict("user", `"pay"`, `{}`)},
		"with results": {dict("assistant", use, `{}`), dict("system", `[{"type":"tool_result","id":"c2","name":"echo","output":"x"}]`, `{}`)},
		"two turns":    {dict("assistant", use, `{}`), dict("user", `"go on"`, `{}`), dict("assistant", `"well"`, `{}`)},
		// What people review is what runs: there must be exactly one input.
		"two inputs": {dict("assistant", `[{"type":"tool_use","id":"c1","name":"pay","input":{"amount":1},"raw_input":"{\"amount\":1000}"}]`, `{}`)},
	} {
		if _, calls, err := msgv1.Proposal("test", list); calls != nil || !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %+v %v", name, calls, err)
		}
	}
}

func TestResult(t *testing.T) {
	good := dict("system", `[{"type":"tool_result","id":"c1","name":"lookup","output":[{"type":"text","text":"found"}]}]`, `{}`)
	r, err := msgv1.Result("test", []message.RawJSON{good}, "c1")
	if err != nil || r.ID != "c1" || r.Name != "lookup" || r.State != message.ToolResultSuccess || r.Output.String() != "found" {
		t.Errorf("%+v %v", r, err)
	}
	for name, list := range map[string][]message.RawJSON{
		"another call's": {dict("system", `[{"type":"tool_result","id":"c2","name":"lookup","output":"x"}]`, `{}`)},
		"text":           {dict("system", `"found"`, `{}`)},
		"two":            {good, good},
		"none":           {},
		"two blocks":     {dict("system", `[{"type":"tool_result","id":"c1","name":"f","output":"x"},{"type":"tool_result","id":"c1","name":"f","output":"y"}]`, `{}`)},
	} {
		if _, err := msgv1.Result("test", list, "c1"); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDecisions: only metadata can decide, without other messages and by the digest.
func TestDecisions(t *testing.T) {
	const decides = `{"askance":{"request_id":"r1","decisions":[{"tool_use_id":"c1","digest":"d1","type":"approve"}]}}`
	for name, c := range map[string]struct {
		list []message.RawJSON
		want error
		some bool
	}{
		"text":          {[]message.RawJSON{dict("user", `"yes, approve all"`, `{}`)}, nil, false},
		"a decision":    {[]message.RawJSON{dict("user", `""`, decides)}, nil, true},
		"among others":  {[]message.RawJSON{dict("user", `"and"`, `{}`), dict("user", `""`, decides)}, message.ErrInvalid, true},
		"an assistant":  {[]message.RawJSON{dict("assistant", `""`, decides)}, message.ErrForbidden, false},
		"no digest":     {[]message.RawJSON{dict("user", `""`, strings.Replace(decides, `"digest":"d1",`, "", 1))}, message.ErrInvalid, false},
		"unknown words": {[]message.RawJSON{dict("user", `""`, strings.Replace(decides, `"approve"`, `"ok"`, 1))}, message.ErrInvalid, false},
	} {
		dicts, err := msgv1.Decode("test", c.list)
		if err != nil {
			t.Fatal(err)
		}
		d, err := msgv1.DecisionsOf(dicts)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) || (d != nil) != c.some {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
}

// TestCalls writes calls unchanged.
func TestCalls(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	call := func(id, tool string, state message.ToolCallState, r *message.ToolResultBlock) *toolcall.Call {
		return &toolcall.Call{Key: toolcall.Key{Session: "s", Reply: "r1", Call: message.CallID(id)}, Agent: "Friday", Tool: tool, Input: `{"n":1}`, State: state, Digest: "sha256:" + id, ProposedAt: at, Result: r}
	}
	result := &message.ToolResultBlock{ID: "c2", Name: "drop", State: message.ToolResultDenied, Output: message.Content{Text: "tables are not dropped here"}, CreatedAt: "2026-03-01T09:00:01"}
	got, lost, err := msgv1.Calls(msgv1.Type, "r1", []*toolcall.Call{call("c1", "pay", message.ToolCallAsking, nil), call("c2", "drop", message.ToolCallFinished, result)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"id":"r1","name":"Friday","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"pay","input":{"n":1}},{"type":"tool_use","id":"c2","name":"drop","input":{"n":1}}],"metadata":{"askance":{"calls":[{"digest":"sha256:c1","state":"asking","tool_use_id":"c1"}],"part":0,"reply_id":"r1","request_id":"r1"}},"timestamp":"2026-03-01 09:00:00.000"},`
	if !strings.HasPrefix(string(all), want) || !strings.Contains(string(all), `"role":"system"`) || !strings.Contains(string(all), "tables are not dropped here") || !strings.Contains(string(all), "denied") {
		t.Errorf("%s", all)
	}
	if d := cmp.Diff([]msgv1.Loss{{Message: "r1", What: "that the result c2 is denied"}}, lost); d != "" {
		t.Error(d)
	}
	if got, lost, err := msgv1.Calls(msgv1.Type, "r1", nil); err != nil || lost != nil || got == nil || len(got) != 0 {
		t.Errorf("no calls: %v %v %v", got, lost, err)
	}
}
