package engine_test

import (
	"fmt"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func previewCases() []engineCase {
	return []engineCase{{"a preview decides like a proposal and records nothing", previewRecordsNothing}}
}

// A preview returns the decision that the same proposal would get, uses up no standing
// approval and writes nothing.
func previewRecordsNothing(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	s := e.remember(e.ask("a", deploy, `{"n":0}`), toolcall.StandingTerms{Uses: 1, Scope: toolcall.ScopeSession})
	e.finished(w.key("a"))
	calls := []message.ToolCallBlock{
		call("b", echo, `{}`), call("c", rm, `{}`), call("d", deploy, `{"n":1}`), call("e", typed, `{"n":"x"}`), call("f", "unknown", `{}`),
	}
	before, _, err := w.journal.Read(w.Context(), toolcall.Key{Space: w.key("a").Space, Session: "s"}, 0, 1000)
	w.must(err)
	var previews []api.PreviewReply
	for range 2 { // a preview does not spend the one use
		for _, p := range []api.Caller{e.bot(), e.ann(), e.operator(), e.as(toolcall.RoleAuditor, "eve")} {
			out, err := api.Preview.Call(w.Context(), p, previewOf(calls...))
			w.must(err)
			previews = append(previews, out)
		}
	}
	after, _, err := w.journal.Read(w.Context(), toolcall.Key{Space: w.key("a").Space, Session: "s"}, 0, 1000)
	w.must(err)
	if len(after) != len(before) || e.standingApproval(s.ID).UsesLeft() != 1 {
		w.Errorf("previews wrote %d records and left %d uses", len(after)-len(before), e.standingApproval(s.ID).UsesLeft())
	}
	proposed := e.propose(calls...)
	for _, out := range previews {
		for i, c := range proposed {
			got := out.Calls[i]
			switch {
			case got.Call != c.Call || got.Tool != c.Tool:
				w.Errorf("preview %d is about %s %s", i, got.Call, got.Tool)
			case c.Decision == nil && (got.Refused == "" || got.Decision != nil):
				w.Errorf("%s is refused, the preview is %+v", c.Call, got)
			case c.Decision != nil && (got.Decision == nil || got.Decision.Behavior != c.Decision.Behavior || got.Decision.Reason != c.Decision.Reason || got.Decision.Standing != c.Decision.Standing):
				w.Errorf("%s is decided with %+v, the preview is %+v", c.Call, c.Decision, got.Decision)
			}
		}
	}
	if proposed[2].Decision.Standing != s.ID {
		w.Errorf("the standing approval did not answer: %+v", proposed[2].Decision)
	}
	_, err = api.Preview.Call(w.Context(), e.as(toolcall.RoleRuntime, "stranger"), previewOf(calls...))
	w.wantErr(err, message.ErrForeign)
	_, err = api.Preview.Call(w.Context(), e.bot(), previewOf())
	w.wantErr(err, message.ErrInvalid)
}

func previewOf(calls ...message.ToolCallBlock) api.PreviewRequest {
	return api.PreviewRequest{ProposeRequest: request(calls...)}
}

// A preview in a session that the engine has forgotten is decided for its runtime.
func TestPreviewInAForgottenSession(t *testing.T) {
	policy, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "mine", Tools: []string{"t"}, Behavior: message.BehaviorDeny, When: `caller.user == "bot"`},
	}}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New("default", engine.NewMemory(), policy, []engine.Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceExternal, ConcurrencySafe: true}}, engine.WithKeep(1))
	if err == nil {
		err = e.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	r := toolcall.ProposeRequest{Session: "first", Reply: "r", Calls: []message.ToolCallBlock{call("c", "t", `{}`)}}
	bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	for i := range 8200 { // more than a view keeps
		if _, err := bot.Propose(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		r.Session = message.SessionID(fmt.Sprint("s", i))
	}
	r.Session, r.Calls[0].ID = "first", "new"
	out, err := api.Preview.Call(t.Context(), e.As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "eve"}), api.PreviewRequest{ProposeRequest: r})
	if err != nil || out.Calls[0].Decision == nil || out.Calls[0].Decision.Rule != "mine" {
		t.Errorf("the preview is %+v, %v", out.Calls, err)
	}
}
