package agentscope_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestConfirm shows what a confirmation can and cannot do: rows 1 to 7 and 10 of the package
// documentation.
func TestConfirm(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const path = "/sessions/s1/events"
	ask := func(call string) (toolcall.Key, *message.RequireUserConfirm) {
		k := s.A.Ask("s1", call, call)
		next, end := s.stream(s.me(), "s1", "?after=0", "")
		defer end()
		for {
			if a := asks(t, until(next, message.EventRequireUserConfirm)); a.ToolCalls[0].ID == k.Call {
				return k, a
			}
		}
	}
	edit := func(input string) func(*message.ConfirmResult) {
		return func(r *message.ConfirmResult) { r.ToolCall.Input = input }
	}

	k, a := ask("tool")
	if a.RequestDigest() != s.A.Show(k).Digest {
		t.Errorf("row 10: the id %s does not end in the digest", a.ID)
	}
	s.refused(s.me(), "POST", path, confirm(a, true, func(r *message.ConfirmResult) { r.ToolCall.Name = gatewaytest.Echo }), message.CodeForbidden)
	s.refused(s.me(), "POST", path, confirm(a, true, edit(`{"to":7}`)), message.CodeInvalid)
	rule := message.PermissionRule{ToolName: "drop", Behavior: message.BehaviorAllow, Source: "userSettings"}
	s.refused(s.me(), "POST", path, confirm(a, true, func(r *message.ConfirmResult) { r.Rules = []message.PermissionRule{rule} }), message.CodeForbidden)
	other := confirm(a, true)
	other.Reply = "another"
	s.refused(s.me(), "POST", path, other, message.CodeNotFound)
	twice := confirm(a, true)
	twice.ConfirmResults = append(twice.ConfirmResults, twice.ConfirmResults[0])
	s.refused(s.me(), "POST", path, twice, message.CodeInvalid)
	if c := s.A.Show(k); c.State != message.ToolCallAsking || len(c.Votes) != 0 {
		t.Fatalf("a refused confirmation changed the call: %+v", c)
	}

	// Row 4: the rules of a rejection are dropped. Row 7: a late answer is a conflict.
	s.ok(s.me(), "POST", path, confirm(a, false, func(r *message.ConfirmResult) { r.Rules = []message.PermissionRule{rule} }), nil)
	if c := s.A.Finished(k); len(c.Remember) != 0 || c.Result.State != message.ToolResultDenied {
		t.Errorf("after the rejection the call is %+v", c)
	}
	s.refused(s.me(), "POST", path, confirm(a, true), message.CodeFinished)

	// Row 2: the edited arguments are what runs, after another decision about them.
	k, a = ask("edit")
	s.ok(s.me(), "POST", path, confirm(a, true, edit(`{"to":"acme","amount":2}`)), nil)
	if c := s.A.Finished(k); !strings.Contains(c.Input, "2") || c.Result.State != message.ToolResultSuccess {
		t.Errorf("after the edit the call is %+v", c)
	}
}

// TestShown answers approval requests that are no longer open. A confirmation answers only the
// request that its sender saw.
func TestShown(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const path = "/sessions/s1/events"
	ann, bob := s.A.HTTP(gatewaytest.Ann), s.A.HTTP(gatewaytest.Bob)
	deploy := s.A.Propose("s1", "r1", "c1", gatewaytest.Deploy, `{"version":"1"}`) // two approvers of ops must agree
	next, _ := s.stream(ann, "s1", "", "")
	old := asks(t, until(next, message.EventRequireUserConfirm))
	// Bob edits, which opens a new approval request for Ann. Her confirmation returns the old
	// arguments, so she has not seen it.
	input := `{"version":"2"}`
	s.A.SubmitResponse(gatewaytest.Bob, toolcall.Response{Key: deploy.Key, Kind: toolcall.ResponseApprove, Input: &input})
	now := s.A.Show(deploy.Key)
	if now.State != message.ToolCallAsking || now.Digest == old.RequestDigest() {
		t.Fatalf("after the edit the call is %+v", now)
	}
	p := s.refused(ann, "POST", path, confirm(old, true), message.CodeDigest)
	if p.Call == nil || p.Call.Digest != now.Digest {
		t.Errorf("the refusal lacks the current approval request: %+v", p)
	}
	// A client to which this server has shown nothing must return the current request or read it
	// first.
	s.refused(bob, "POST", path, confirm(old, true), message.CodeConflict)
	s.refused(bob, "POST", path, confirm(old, true, func(r *message.ConfirmResult) { r.ToolCall.Input = `{"version":"3"}` }), message.CodeConflict)
	fresh := asks(t, until(next, message.EventRequireUserConfirm))
	s.ok(ann, "POST", path, confirm(fresh, true), nil)
	if c := s.A.Finished(deploy.Key); c.Input != input || c.Result.State != message.ToolResultSuccess {
		t.Errorf("the call is %+v", c)
	}
}

// TestSecondResult: row 16. A second result of an external call is refused, and the refusal
// contains the first one.
func TestSecondResult(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	r := s.say("s1", "u1", "call lookup {}")
	next, end := s.stream(s.me(), "s1", "?after=0", "")
	defer end()
	until(next, message.EventRequireExternalExecution)
	result := func(text string) message.Event {
		return &message.ExternalExecutionResult{EventHeader: message.NewHeader(r), ExecutionResults: []message.ToolResultBlock{
			{ID: "call-1-1", Name: gatewaytest.Lookup, State: message.ToolResultSuccess, Output: message.Content{Text: text}},
		}}
	}
	s.ok(s.me(), "POST", "/sessions/s1/events", result("first"), nil)
	p := s.refused(s.me(), "POST", "/sessions/s1/events", result("second"), message.CodeFinished)
	if p.Status != http.StatusConflict || p.Call == nil || p.Call.Result.Output.String() != "first" {
		t.Errorf("refused as %+v", p)
	}
	unknown := &message.ExternalExecutionResult{EventHeader: message.NewHeader(r), ExecutionResults: []message.ToolResultBlock{{ID: "other", Name: gatewaytest.Lookup, State: message.ToolResultSuccess}}}
	s.refused(s.me(), "POST", "/sessions/s1/events", unknown, message.CodeNotFound)
}

// TestNoSessionRoutes: row 14. A session begins with its first message, and its history contains
// its status.
func TestNoSessionRoutes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for _, method := range []string{"GET", "POST"} {
		s.refused(s.me(), method, "/sessions", struct{}{}, message.CodeNotFound)
	}
	r := s.say("fresh", "u1", `call pay {"to":"acme","amount":1}`)
	next, end := s.stream(s.me(), "fresh", "?after=0", "")
	defer end()
	until(next, message.EventRequireUserConfirm)
	var history struct {
		Open message.ReplyID `json:"open_reply_id"`
	}
	if s.ok(s.me(), "GET", "/sessions/fresh/messages", nil, &history); history.Open != r {
		t.Errorf("the open reply is %q, want %q", history.Open, r)
	}
}

// TestHistoryShowsTheCallOfTheDigest: a runtime streams other calls than it proposes, before and after
// the approval request. Every block of the call shows what the digest covers, in both forms.
func TestHistoryShowsTheCallOfTheDigest(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	stream := func(name, input string) []message.Event {
		return []message.Event{&message.ToolCallStart{ToolCallID: "c1", ToolCallName: name}, &message.ToolCallDelta{ToolCallID: "c1", Delta: input}, &message.ToolCallEnd{ToolCallID: "c1"}}
	}
	s.A.Say("s9", "r9", append([]message.Event{&message.ReplyStart{Session: "s9", Name: "bot", Role: message.RoleAssistant}},
		append(stream("read_note", `{"a":"little"}`), stream("lookup", "{}")...)...)...)
	key := s.A.Ask("s9", "r9", "c1")
	s.A.Say("s9", "r9", stream("echo", "and more")...)
	ann := s.A.HTTP(gatewaytest.Ann)
	var all struct{ Messages []*message.Msg }
	s.ok(ann, "GET", "/sessions/s9/messages", nil, &all)
	if calls := message.BlocksOf[*message.ToolCallBlock](all.Messages[0]); len(calls) != 3 || calls[0].State != message.ToolCallAsking {
		t.Errorf("the calls are %+v", calls)
	} else {
		for _, b := range calls {
			if b.Name != gatewaytest.Pay || b.Input != gatewaytest.PayInput {
				t.Errorf("AgentScope 2.0 shows %s %s", b.Name, b.Input)
			}
		}
	}
	asks := s.history(ann, "s9")[0]
	calls := asks.Metadata.Askance.Calls
	if len(calls) != 1 || calls[0].Digest != s.A.Show(key).Digest || strings.Count(string(asks.Content), `"name":"pay","input":`+gatewaytest.PayInput) != 3 {
		t.Fatalf("AgentScope 1.x shows %+v %s", asks.Metadata, asks.Content)
	}
	s.A.Approve(gatewaytest.Ann, key)
	s.A.Finished(key)
	if text := string(s.history(ann, "s9")[0].Content); !strings.Contains(text, "read_note") {
		t.Errorf("the history of the finished call no longer has what was streamed: %s", text)
	}
}

// TestHistoryShowsWhatRuns: row 15. A frontend that runs a call from the history has the arguments
// that were allowed, in both forms.
func TestHistoryShowsWhatRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.A.Say("s9", "r9", &message.ReplyStart{Session: "s9", Name: "bot", Role: message.RoleAssistant},
		&message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Lookup}, &message.ToolCallDelta{ToolCallID: "c1", Delta: `{"q":1}`}, &message.ToolCallEnd{ToolCallID: "c1"})
	s.A.Propose("s9", "r9", "c1", gatewaytest.Lookup, `{"q":2}`)
	bot := s.A.HTTP(gatewaytest.Bot)
	var all struct{ Messages []*message.Msg }
	s.ok(bot, "GET", "/sessions/s9/messages", nil, &all)
	if c := all.Messages[0].ToolCall("c1"); c.State != message.ToolCallSubmitted || c.Input != `{"q":2}` {
		t.Errorf("AgentScope 2.0 shows %+v", c)
	}
	if text := string(s.history(bot, "s9")[0].Content); !strings.Contains(text, `"input":{"q":2}`) {
		t.Errorf("AgentScope 1.x shows %s", text)
	}
}

// TestRedactedReadersAgree: row 17. A reader who may not see what rules redact builds the same calls
// from the live stream as from a later one.
func TestRedactedReadersAgree(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ann := s.A.HTTP(gatewaytest.Ann)
	s.A.Say("s9", "r9", &message.ReplyStart{Session: "s9", Name: "bot", Role: message.RoleAssistant},
		&message.ToolCallStart{ToolCallID: "c1", ToolCallName: gatewaytest.Lookup}, &message.ToolCallDelta{ToolCallID: "c1", Delta: `{"q":1}`}, &message.ToolCallEnd{ToolCallID: "c1"})
	live, endLive := s.stream(ann, "s9", "?after=0", "")
	defer endLive()
	seen := until(live, message.EventToolCallEnd)
	s.A.Propose("s9", "r9", "c1", gatewaytest.Lookup, `{"q":1}`)
	seen = append(seen, until(live, message.EventRequireExternalExecution)...)
	late, endLate := s.stream(ann, "s9", "?after=0", "")
	defer endLate()
	m, err := message.AssistantMsg("bot", message.List(), message.WithID("r9"))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range until(late, message.EventRequireExternalExecution) {
		if f.id != seen[i].id || f.raw != seen[i].raw {
			t.Errorf("a later reader gets %s, and a live one got %s", f.raw, seen[i].raw)
		}
		if err := message.Append(m, f.ev); err != nil {
			t.Error(err)
		}
	}
	if c := m.ToolCall("c1"); c.Input != `{"q":1}` {
		t.Errorf("the reader builds %+v", c)
	}
}
