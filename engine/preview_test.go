package engine_test

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func previewCases() []engineCase {
	return []engineCase{{"a preview decides as a proposal and records nothing", previewRecordsNothing}}
}

// A preview gives the decision that the same proposal gets, uses no standing
// approval and writes nothing.
func previewRecordsNothing(w *world) {
	w.policy.use(w, remembering(nil))
	e := w.engine()
	l := e.remember(e.ask("a", deploy, `{"n":0}`), toolcall.StandingTerms{Uses: 1, Scope: toolcall.ScopeSession})
	e.finished(w.key("a"))
	calls := []message.ToolCallBlock{
		call("b", echo, `{}`), call("c", rm, `{}`), call("d", deploy, `{"n":1}`), call("e", typed, `{"n":"x"}`), call("f", "unknown", `{}`),
	}
	before, _, err := w.journal.Read(w.Context(), toolcall.Key{Space: w.key("a").Space, Session: "s"}, 0, 1000)
	w.must(err)
	var previews []api.PreviewReply
	for range 2 { // the one use is not spent by looking
		for _, p := range []api.Caller{e.bot(), e.ann(), e.operator(), e.as(toolcall.RoleAuditor, "eve")} {
			out, err := api.Preview.Call(w.Context(), p, previewOf(calls...))
			w.must(err)
			previews = append(previews, out)
		}
	}
	after, _, err := w.journal.Read(w.Context(), toolcall.Key{Space: w.key("a").Space, Session: "s"}, 0, 1000)
	w.must(err)
	if len(after) != len(before) || e.standingApproval(l.ID).UsesLeft() != 1 {
		w.Errorf("previews wrote %d records and left %d uses", len(after)-len(before), e.standingApproval(l.ID).UsesLeft())
	}
	proposed := e.propose(calls...)
	for _, out := range previews {
		for i, c := range proposed {
			got := out.Calls[i]
			switch {
			case got.Call != c.Call || got.Tool != c.Tool:
				w.Errorf("preview %d is of %s %s", i, got.Call, got.Tool)
			case c.Decision == nil && (got.Refused == "" || got.Decision != nil):
				w.Errorf("%s is refused, the preview is %+v", c.Call, got)
			case c.Decision != nil && (got.Decision == nil || got.Decision.Behavior != c.Decision.Behavior || got.Decision.Reason != c.Decision.Reason || got.Decision.Standing != c.Decision.Standing):
				w.Errorf("%s is decided with %+v, the preview is %+v", c.Call, c.Decision, got.Decision)
			}
		}
	}
	if proposed[2].Decision.Standing != l.ID {
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
