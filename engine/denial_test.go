package engine_test

import (
	"context"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func denialCases() []engineCase {
	return []engineCase{
		{"a denial says why, and what would be allowed", structuredDenials},
		{"a denial hides what rules redact", hiddenDenials},
		{"a denial reveals nothing else about the policy", silentDenials},
	}
}

const secretCondition = `args.n > 41 && args.n != 4711`

// hinted returns rules that give agents more than a reason.
func hinted() []permission.Rule {
	hint := permission.Denial{Allowed: "At most 41", Contact: "#finance"}
	return []permission.Rule{
		{Name: "limit", Tools: []string{echo}, Behavior: message.BehaviorDeny, When: secretCondition, Message: `"Too much."`, Denial: hint},
		{Name: "free", Tools: []string{echo}, Behavior: message.BehaviorAllow},
		{Name: "look", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Denial: hint, Expiry: 50 * time.Millisecond, When: "has(args.brief)"},
		{Name: "review", Tools: []string{deploy}, Behavior: message.BehaviorAsk, Denial: hint, When: "!has(args.brief)"},
		{Name: "out", Tools: []string{remote}, Behavior: message.BehaviorAllow},
	}
}

func structuredDenials(w *world) {
	w.policy.use(w, hinted()...)
	e := w.engine()
	denied := e.propose(call("denied", echo, `{"n":42}`))[0]
	refused := e.propose(call("refused", typed, `{"n":"x"}`))[0]
	q := e.ask("rejected", deploy, `{}`)
	if q.Denial != nil {
		w.Errorf("an open call has the denial %+v", q.Denial)
	}
	rejected := e.answers("ann", toolcall.Response{Key: q.Key, Digest: q.Digest, Kind: toolcall.ResponseReject, Feedback: "Not today."})
	expired := e.finished(e.ask("expired", deploy, `{"brief":true}`).Key)
	out := e.propose(call("revoked", remote, `{}`))[0]
	revoked, err := e.operator().Revoke(w.Context(), toolcall.RevokeRequest{Key: out.Key, Reason: "Wrong machine."})
	w.must(err)
	late := e.ask("late", deploy, `{"n":7}`)
	w.policy.use(w, append(hinted(), permission.Rule{Name: "stop", Tools: []string{deploy}, Behavior: message.BehaviorDeny, Message: `"Frozen."`, Denial: permission.Denial{Contact: "olga"}})...)
	stopped := e.answers("ann", approve(late))
	for _, row := range []struct {
		call *toolcall.Call
		want toolcall.Denial
		text string
	}{
		{denied, toolcall.Denial{Cause: "deny", Rule: "limit", Reason: "Too much.", Allowed: "At most 41", Contact: "#finance"}, `(rule limit: Too much.). Allowed instead: At most 41. Contact: #finance.`},
		{rejected, toolcall.Denial{Cause: "reject", Rule: "review", Reason: "Not today.", By: "ann", Allowed: "At most 41", Contact: "#finance"}, "They say: Not today. Allowed instead: At most 41."},
		{expired, toolcall.Denial{Cause: "expire", Rule: "look", Reason: "no approver responded in time", Allowed: "At most 41", Contact: "#finance"}, "in time. Allowed instead:"},
		{revoked, toolcall.Denial{Cause: "revoke", Rule: "out", Reason: "Wrong machine."}, "Reason: Wrong machine.<"},
		{stopped, toolcall.Denial{Cause: "deny", Rule: "stop", Reason: "Frozen.", Contact: "olga"}, "Frozen.). Contact: olga."},
		{refused, toolcall.Denial{Cause: "refuse", Reason: refused.Result.Output.Text}, "Tool 'typed' cannot run: the arguments do not fit the tool's schema: at /n: got string, want integer. Correct the arguments and call the tool again."},
	} {
		if row.call.Denial == nil || *row.call.Denial != row.want || !strings.Contains(row.call.Result.Output.Text, row.text) {
			w.Errorf("%s: %+v with the text %q, want %+v with %q", row.call.Call, row.call.Denial, row.call.Result.Output.Text, row.want, row.text)
		}
	}
	ran := e.finished(e.propose(call("ran", echo, `{"n":1}`))[0].Key)
	if ran.Denial != nil {
		w.Errorf("a call that ran has the denial %+v", ran.Denial)
	}
	w.wantEventDenial(e, "denied", "Too much.", "At most 41")
	w.wantEventDenial(e, "refused", "", "") // AgentScope's own event has no metadata
}

// wantEventDenial checks the metadata in AgentScope's event for the end of a call's result.
func (w *world) wantEventDenial(e *replica, id message.CallID, reason, allowed string) {
	w.Helper()
	events, err := e.bot().Events(context.Background(), toolcall.EventsRequest{Session: "s"})
	w.must(err)
	for _, x := range events.Events {
		ev, err := message.DecodeEvent(x.Event)
		w.must(err)
		end, ok := ev.(*message.ToolResultEnd)
		if !ok || end.ToolCallID != id {
			continue
		}
		own, _ := end.Metadata["askance"].(map[string]any)
		d, _ := own["denial"].(map[string]any)
		if reason == "" && len(end.Metadata) > 0 || reason != "" && (d["reason"] != reason || d["allowed"] != allowed) {
			w.Errorf("the event of %s has the metadata %v", id, end.Metadata)
		}
		return
	}
	w.Errorf("%s has no result event", id)
}

func hiddenDenials(w *world) {
	w.policy.use(w,
		permission.Rule{Name: "hides", Tools: []string{deploy, typed}, Behavior: message.BehaviorAsk, Redact: []string{"args.token", "args.n"}},
	)
	e := w.engine()
	q := e.ask("c", deploy, `{"token":"hunter22"}`)
	e.answers("ann", toolcall.Response{Key: q.Key, Digest: q.Digest, Kind: toolcall.ResponseReject, Feedback: "Not with hunter22."})
	refused := e.propose(call("r", typed, `{"n":"hunter22"}`))[0]
	for _, key := range []toolcall.Key{q.Key, refused.Key} {
		full, err := e.bot().Show(w.Context(), toolcall.ShowRequest{Key: key})
		w.must(err)
		shown, err := e.bob().Show(w.Context(), toolcall.ShowRequest{Key: key})
		w.must(err)
		if full.Call.Denial == nil || shown.Call.Denial == nil || strings.Contains(shown.Call.Denial.Reason, "hunter22") {
			w.Errorf("%s: the runtime sees %+v, an approver %+v", key.Call, full.Call.Denial, shown.Call.Denial)
		}
	}
}

// No text for the model contains the condition of a rule, even if a deny rule revokes an
// allowed call before it begins.
func silentDenials(w *world) {
	w.policy.use(w, hinted()...)
	e := w.engine()
	c := e.propose(call("c", echo, `{"n":42}`))[0]
	o := e.propose(call("o", remote, `{"n":42}`))[0]
	w.policy.use(w, append(hinted(), permission.Rule{Name: "frozen", Tools: []string{remote}, Behavior: message.BehaviorDeny, When: secretCondition, Denial: permission.Denial{Contact: "olga"}})...)
	_, err := e.worker("w1").Start(w.Context(), toolcall.StartRequest{Key: o.Key, Attempt: 1, Claim: "x", Nonce: o.Attempt.Grant.Nonce})
	if err == nil {
		w.Error("a call that the policy now denies was started")
	}
	o = e.finished(o.Key)
	for _, c := range []*toolcall.Call{c, o} {
		if c.Denial == nil || strings.Contains(c.Denial.Reason+c.Result.Output.Text, "4711") {
			w.Errorf("%s tells %+v, %q", c.Call, c.Denial, c.Result.Output.Text)
		}
	}
	if o.Denial.Rule != "frozen" || o.Denial.Contact != "olga" || !strings.Contains(o.Result.Output.Text, "Contact: olga.") {
		w.Errorf("the revoked call tells %+v, %q", o.Denial, o.Result.Output.Text)
	}
}
