package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func rememberCases() []engineCase {
	return []engineCase{
		{"counted uses in a session", countedUses},
		{"calls like this one", callsLikeThis},
		{"a budget", budgeted},
		{"an end, and a clock that was set back", endBeforeTheNewestRecord},
		{"revoked at once, by the person who gave it", revokedStandingApproval},
		{"revoked where another replica lags", revokedElsewhere},
		{"allowed calls that have not begun are revoked", revokedTakesBack},
		{"terms that are refused", refusedTerms},
		{"all required approvers agree to the same terms", sameTermsAll},
		{"it outlives an engine", standingApprovalStays},
		{"a use that cannot be written is not granted", useNotWritten},
		{"a crash between a use and what it allows", crashAfterUse},
		{"the last uses, on three engines", racingUses},
	}
}

// remember approves a call with terms to remember, and returns the standing approval.
func (r *replica) remember(q *toolcall.Call, t toolcall.StandingTerms) *toolcall.StandingApproval {
	r.w.Helper()
	resp := approve(q)
	resp.Remember = &t
	c := r.answers("ann", resp)
	if len(c.StandingApprovals) != 1 {
		r.w.Fatalf("the approved call created %d standing approvals", len(c.StandingApprovals))
	}
	return r.standingApproval(c.StandingApprovals[0].ID)
}

func (r *replica) standingApproval(id toolcall.StandingID) *toolcall.StandingApproval {
	r.w.Helper()
	out, err := r.operator().ShowStandingApproval(r.w.Context(), toolcall.ShowStandingApprovalRequest{ID: id})
	r.w.must(err)
	return out.Standing
}

func (r *replica) standingApprovals(all bool) []*toolcall.StandingApproval {
	r.w.Helper()
	out, err := r.operator().StandingApprovals(r.w.Context(), toolcall.StandingApprovalsRequest{All: all})
	r.w.must(err)
	return out.StandingApprovals
}

// knows waits until the replica has read a standing approval.
func (r *replica) knows(s *toolcall.StandingApproval) {
	r.w.Helper()
	r.w.until("the replica knows "+string(s.ID), func() bool {
		return slices.ContainsFunc(r.standingApprovals(true), func(k *toolcall.StandingApproval) bool { return k.ID == s.ID })
	})
}

// wantBy checks that the standing approval allowed the call, or, for "", that the call asks.
func (w *world) wantBy(c *toolcall.Call, id toolcall.StandingID) {
	w.Helper()
	switch {
	case c.Decision == nil:
		w.Errorf("%s is %s and undecided", c.Key, describe(c))
	case id == "" && c.State != message.ToolCallAsking:
		w.Errorf("%s is %s, allowed by %q; want it to ask", c.Key, describe(c), c.Decision.Standing)
	case id != "" && (c.State == message.ToolCallAsking || c.Decision.Standing != id || c.Decision.Behavior != message.BehaviorAllow):
		w.Errorf("%s is %s with %+v; want it allowed by %s", c.Key, describe(c), c.Decision, id)
	}
}

// in proposes one call of another session as the named runtime.
func (r *replica) in(runtime, session, agent string, b message.ToolCallBlock) *toolcall.Call {
	r.w.Helper()
	out, err := r.as(toolcall.RoleRuntime, runtime).Propose(r.w.Context(), toolcall.ProposeRequest{Session: message.SessionID(session), Reply: "r", Agent: agent, Calls: []message.ToolCallBlock{b}})
	r.w.must(err)
	return out.Calls[0]
}

// countedUses checks that two more calls of the session are each counted once.
func countedUses(w *world) {
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{"n":0}`), toolcall.StandingTerms{Uses: 2})
	if s.Terms.Scope != toolcall.ScopeSession || s.UsesLeft() != 2 || len(s.GrantedBy) != 1 || s.GrantedBy[0].By.Name != "ann" || s.From != w.key("c") {
		w.Errorf("the standing approval is %+v", s)
	}
	first := e.propose(call("d", deploy, `{"n":1}`))[0]
	w.wantBy(first, s.ID)
	w.wantBy(e.propose(call("d", deploy, `{"n":1}`))[0], s.ID)
	w.wantBy(e.in("bot", "s2", "agent", call("d", deploy, `{}`)), "")
	if left := e.standingApproval(s.ID).UsesLeft(); left != 1 {
		w.Errorf("%d uses are left, want 1", left)
	}
	second := e.propose(call("e", deploy, `{"n":2}`))[0]
	w.wantBy(second, s.ID)
	w.wantBy(e.propose(call("f", deploy, `{"n":3}`))[0], "")
	w.wantResult(e.finished(second.Key), message.ToolResultSuccess, `{"n":2}`)
	if len(e.standingApprovals(false)) != 0 || len(e.standingApprovals(true)) != 1 {
		w.Errorf("active %+v, all %+v", e.standingApprovals(false), e.standingApprovals(true))
	}
	out, err := e.ann().ShowStandingApproval(w.Context(), toolcall.ShowStandingApprovalRequest{ID: s.ID})
	w.must(err)
	if len(out.Uses) != 2 || out.Uses[0].Call != first.Key || out.Uses[1].Call != second.Key || out.Standing.State(time.Now()) != toolcall.StandingUsedUp {
		w.Errorf("the standing approval is %+v with the uses %+v", out.Standing, out.Uses)
	}
	_, err = e.ann().ShowStandingApproval(w.Context(), toolcall.ShowStandingApprovalRequest{ID: "sta_unknown"})
	w.wantErr(err, message.ErrNotFound)
}

func callsLikeThis(w *world) {
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{"n":1}`), toolcall.StandingTerms{Scope: toolcall.ScopeCallLike})
	w.wantBy(e.propose(call("d", deploy, `{ "n": 1 }`))[0], s.ID)
	w.wantBy(e.propose(call("e", deploy, `{"n":2}`))[0], "")
	w.wantBy(e.propose(call("f", deploy, `{"n":1.0}`))[0], "")
	w.wantBy(e.in("bot", "s2", "agent", call("d", deploy, `{"n":1}`)), "")
}

func budgeted(w *world) {
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{"sum":{"cents":9999}}`), toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args.sum.cents", Limit: "100.5"}})
	for i, want := range []struct{ input, left string }{
		{`{"sum":{"cents":60}}`, "40.5"}, {`{"sum":{"cents":40.25}}`, "0.25"}, {`{"sum":{"cents":0.5}}`, ""}, {`{"sum":{"cents":-1}}`, ""}, {`{"sum":{"cents":"0"}}`, ""},
		{`{"sum":{"cents":1e-1}}`, ""}, {`{"sum":{}}`, ""}, {`{"sum":{"cents":0.25}}`, "0"}, {`{"sum":{"cents":0}}`, "0"},
	} {
		c := e.propose(call(message.CallID(fmt.Sprint("d", i)), deploy, want.input))[0]
		if want.left == "" {
			w.wantBy(c, "")
			continue
		}
		w.wantBy(c, s.ID)
		if left := e.standingApproval(s.ID).Left; left != want.left {
			w.Errorf("after %s, %s is left, want %s", want.input, left, want.left)
		}
	}
}

// inBubble runs a case on a fake clock.
func inBubble(t *testing.T, run func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(newWorld(t.Context(), t, newMemory)) })
}

// Terms that end at a time end then.
func TestStandingApprovalEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		e := w.engine()
		end := time.Now().Add(time.Hour)
		s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Until: end})
		time.Sleep(time.Until(end) - time.Millisecond)
		w.wantBy(e.propose(call("d", deploy, `{}`))[0], s.ID)
		time.Sleep(time.Millisecond)
		w.wantBy(e.propose(call("e", deploy, `{}`))[0], "")
		_, err := e.ann().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})
		w.wantErr(err, message.ErrFinished)
		if all := e.standingApprovals(true); len(all) != 1 || all[0].State(time.Now()) != toolcall.StandingExpired || len(e.standingApprovals(false)) != 0 {
			w.Errorf("listed: %+v", all)
		}
	})
}

// endBeforeTheNewestRecord checks that a standing approval is over once the journal has a
// record written after its end, even if the clock now shows an earlier time.
func endBeforeTheNewestRecord(w *world) {
	e := w.engine()
	end := time.Now().Add(time.Hour).UTC().Round(0)
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Until: end})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], s.ID)
	_, err := w.journal.Append(w.Context(), &toolcall.EventRecord{
		V: toolcall.RecordVersion, ID: "later", At: end.Add(time.Hour), Engine: "e-later", By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"},
		Session: &toolcall.SessionState{Key: toolcall.Key{Space: w.space, Session: "later"}, Runtime: "bot"},
	}, 0)
	w.must(err)
	w.until("the standing approval has ended", func() bool { return len(e.standingApprovals(false)) == 0 })
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], "")
	shown, err := e.ann().ShowStandingApproval(w.Context(), toolcall.ShowStandingApprovalRequest{ID: s.ID})
	w.must(err)
	why, err := e.ann().Explain(w.Context(), toolcall.ExplainRequest{Key: callKey("d")})
	w.must(err)
	if all := e.standingApprovals(true); all[0].State(time.Now()) != toolcall.StandingExpired || shown.Standing.State(time.Now()) != toolcall.StandingExpired || len(why.StandingApprovals) != 1 || why.StandingApprovals[0].State != toolcall.StandingExpired {
		w.Errorf("the engine judges it as expired, and says list %s, show %s, explain %+v", all[0].State(time.Now()), shown.Standing.State(time.Now()), why.StandingApprovals)
	}
	again := e.remember(e.ask("f", deploy, `{}`), toolcall.StandingTerms{Until: end}) // that engine's clock was wrong
	w.wantBy(e.propose(call("g", deploy, `{}`))[0], again.ID)
	if all := e.standingApprovals(false); len(all) != 1 || all[0].ID != again.ID {
		w.Errorf("in force after the clock was corrected: %+v, want only %s", all, again.ID)
	}
}

func revokedStandingApproval(w *world) {
	e, other := w.engine(), w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], s.ID)
	_, err := e.bob().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})
	w.wantErr(err, message.ErrForbidden)
	_, err = e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: "sta_unknown"})
	w.wantErr(err, message.ErrNotFound)
	gone, err := e.as(toolcall.RoleApprover, "Ann").RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID, Reason: "over"})
	w.must(err)
	if gone.Revoked == nil || gone.Revoked.By.Name != "Ann" || gone.Revoked.Reason != "over" {
		w.Errorf("revoked: %+v", gone)
	}
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], "")
	w.wantBy(other.propose(call("f", deploy, `{}`))[0], "")
	e.finished(w.key("c"))
	e.finished(w.key("d"))
	size := len(w.records())
	again, err := other.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})
	if err != nil || again.Revoked.By.Name != "Ann" {
		w.Errorf("revoked again: %+v, %v", again, err)
	}
	w.wantSize(size)
}

// revokedElsewhere checks that a replica that has not read the revocation yet still does not
// apply the standing approval.
func revokedElsewhere(w *world) {
	e, other := w.engine(), w.engine()
	free := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{})
	other.knows(free)
	w.wantBy(other.propose(call("d", deploy, `{}`))[0], free.ID)
	catchUp := other.cord.lag()
	w.must(second(e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: free.ID})))
	w.wantBy(other.propose(call("e", deploy, `{}`))[0], "")
	catchUp()
}

// revokedTakesBack checks that an allowed call that has not begun is revoked: at once by a
// replica that knows of the call, otherwise when the call is about to begin.
func revokedTakesBack(w *world) {
	w.policy.use(w, remembering(nil))
	e, other := w.engine(), w.engine()
	s := e.remember(e.ask("c", askRemote, `{}`), toolcall.StandingTerms{Uses: 3})
	begun, waiting := e.propose(call("d", askRemote, `{}`))[0], e.propose(call("e", askRemote, `{}`))[0]
	w.wantBy(begun, s.ID)
	w.wantBy(waiting, s.ID)
	e.start(begun, "w1", "x")
	out := e.remember(e.ask("out", askOut, `{}`), toolcall.StandingTerms{})
	unsure := e.state(e.propose(call("unsure", askOut, `{}`))[0].Key, message.ToolCallSubmitted)
	w.wantBy(unsure, out.ID)
	unsure, err := e.bot().Report(w.Context(), toolcall.ReportRequest{Key: unsure.Key, Unknown: true})
	w.must(err)
	w.must(second(e.ann().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: out.ID})))
	if c := e.held(unsure.Key, toolcall.BlockedUnknown); c.Seq != unsure.Seq { // it may have run, which only an operator finds out
		w.Errorf("a call with an unknown outcome is %s after its standing approval was revoked", describe(c))
	}
	other.state(waiting.Key, message.ToolCallSubmitted)
	w.must(second(e.ann().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})))
	w.wantResult(e.finished(waiting.Key), message.ToolResultDenied, string(s.ID))
	_, err = other.worker("w2").Start(w.Context(), startRequest(waiting, "y"))
	w.wantErr(err, message.ErrFinished)
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(begun, "x", "done"))))
	w.wantResult(e.finished(begun.Key), message.ToolResultSuccess, "done")
}

func refusedTerms(w *world) {
	w.policy.use(w, append(rules(), permission.Rule{Name: "no-memory", Tools: []string{note}, Behavior: message.BehaviorAsk})...)
	e := w.engine()
	q, byRule := e.ask("c", deploy, `{"cents":5,"text":"x"}`), e.ask("d", pay, `{"amount":500}`)
	size := len(w.records())
	allow := func(tool, content string) message.PermissionRule {
		return message.PermissionRule{ToolName: tool, RuleContent: &content, Behavior: message.BehaviorAllow}
	}
	for name, c := range map[string]struct {
		call  *toolcall.Call
		terms toolcall.StandingTerms
		want  *message.Error
	}{
		"an unknown scope":          {q, toolcall.StandingTerms{Scope: "world"}, message.ErrInvalid},
		"wider than the session":    {q, toolcall.StandingTerms{Scope: toolcall.ScopeSpace}, message.ErrForbidden},
		"for every agent":           {q, toolcall.StandingTerms{Scope: toolcall.ScopeAgent}, message.ErrForbidden},
		"fewer than no uses":        {q, toolcall.StandingTerms{Uses: -1}, message.ErrInvalid},
		"too many uses":             {q, toolcall.StandingTerms{Uses: toolcall.MaxStandingUses + 1}, message.ErrInvalid},
		"ends before it begins":     {q, toolcall.StandingTerms{Until: time.Now().Add(-time.Minute)}, message.ErrInvalid},
		"for ten years":             {q, toolcall.StandingTerms{Until: time.Now().AddDate(10, 0, 0)}, message.ErrInvalid},
		"another tool":              {q, toolcall.StandingTerms{Rules: []message.PermissionRule{{ToolName: note, Behavior: message.BehaviorAllow}}}, message.ErrForbidden},
		"a rule that denies":        {q, toolcall.StandingTerms{Rules: []message.PermissionRule{{ToolName: deploy, Behavior: message.BehaviorDeny}}}, message.ErrForbidden},
		"content without a meaning": {q, toolcall.StandingTerms{Rules: []message.PermissionRule{allow(deploy, "x:*")}}, message.ErrForbidden},
		"rules too long to keep":    {q, toolcall.StandingTerms{Rules: []message.PermissionRule{allow(deploy, strings.Repeat("x", toolcall.MaxStandingBytes+1))}}, message.ErrTooLarge},
		"a budget too long to keep": {q, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args." + strings.Repeat("x", toolcall.MaxStandingBytes), Limit: "1"}}, message.ErrTooLarge},
		"a budget of nothing":       {q, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args.amount", Limit: "1"}}, message.ErrInvalid},
		"a budget of text":          {q, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args.text", Limit: "1"}}, message.ErrInvalid},
		"a budget of the caller":    {q, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "caller.user", Limit: "1"}}, message.ErrInvalid},
		"a budget without a limit":  {q, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args.cents"}}, message.ErrInvalid},
		"a budget by exponent":      {q, toolcall.StandingTerms{Budget: &toolcall.Budget{Path: "args.cents", Limit: "1e9"}}, message.ErrInvalid},
		"a rule permits nothing":    {byRule, toolcall.StandingTerms{}, message.ErrForbidden},
	} {
		resp := approve(c.call)
		resp.Remember = &c.terms
		if _, err := e.ann().SubmitResponse(w.Context(), resp); message.AsError("", orUnknown(err)).Code != c.want.Code {
			w.Errorf("%s: %v, want %s", name, err, c.want.Code)
		}
	}
	no := reject(q)
	no.Remember = &toolcall.StandingTerms{}
	e.refuses("ann", no, message.ErrInvalid)
	stale := approve(q)
	stale.Digest, stale.Remember = "sha256:other", &toolcall.StandingTerms{Scope: toolcall.ScopeSpace}
	_, err := e.ann().SubmitResponse(w.Context(), stale)
	w.wantErr(err, message.ErrDigest)
	w.wantSize(size)
}

// sameTermsAll checks that one of several approvers cannot have anything remembered alone.
func sameTermsAll(w *world) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Quorum = 2 }))
	e := w.engine()
	say := func(q *toolcall.Call, who string, t *toolcall.StandingTerms) *toolcall.Call {
		resp := approve(q)
		resp.Remember = t
		return e.answers(who, resp)
	}
	q := e.ask("c", deploy, `{}`)
	say(q, "ann", &toolcall.StandingTerms{Uses: 2})
	again := approve(q)
	again.Remember = &toolcall.StandingTerms{Uses: 3}
	e.refuses("ann", again, message.ErrConflict)
	if c := say(q, "bob", &toolcall.StandingTerms{Uses: 1}); len(c.StandingApprovals) != 0 || c.State == message.ToolCallAsking {
		w.Errorf("with other terms: %s creates %+v", describe(c), c.StandingApprovals)
	}
	q = e.ask("d", deploy, `{}`)
	say(q, "ann", &toolcall.StandingTerms{Uses: 2})
	if c := say(q, "bob", nil); len(c.StandingApprovals) != 0 {
		w.Errorf("by only one approver: %+v", c.StandingApprovals)
	}
	q = e.ask("e", deploy, `{}`)
	say(q, "ann", &toolcall.StandingTerms{Uses: 2})
	c := say(q, "bob", &toolcall.StandingTerms{Uses: 2})
	if len(c.StandingApprovals) != 1 || len(c.StandingApprovals[0].GrantedBy) != 2 {
		w.Fatalf("by both: %+v", c.StandingApprovals)
	}
	w.wantBy(e.propose(call("f", deploy, `{}`))[0], c.StandingApprovals[0].ID)
}

func standingApprovalStays(w *world) {
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Uses: 3})
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], s.ID)
	e.stop()
	later := w.engine()
	w.wantBy(later.propose(call("d", deploy, `{}`))[0], s.ID)
	if left := later.standingApproval(s.ID).UsesLeft(); left != 2 {
		w.Errorf("%d uses are left, want 2", left)
	}
	w.wantBy(later.propose(call("e", deploy, `{}`))[0], s.ID)
}

func aboutStandingApproval(rec *toolcall.EventRecord) bool { return rec.Standing != nil }

func useNotWritten(w *world) {
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Uses: 1})
	e.cord.onAppend(refuse(aboutStandingApproval, &message.Error{Code: message.CodeFull, Op: "append", What: "full"}))
	w.wantBy(e.propose(call("d", deploy, `{}`))[0], "")
	e.cord.onAppend(nil)
	w.wantBy(e.propose(call("e", deploy, `{}`))[0], s.ID)
	free := e.remember(e.ask("f", note, `{}`), toolcall.StandingTerms{})
	e.finished(w.key("f"))
	e.cord.onLast(func(key toolcall.Key) error {
		if key.Entity == free.Key().Entity { // the reply stays readable
			return cutError("last")
		}
		return nil
	})
	w.wantBy(e.propose(call("g", note, `{}`))[0], "")
	e.cord.onLast(nil)
	if e.standingApproval(free.ID).Seq != 0 {
		w.Errorf("a standing approval without a limit on uses has recorded uses")
	}
}

// crashAfterUse checks that a use is counted only for its own call, and only once.
func crashAfterUse(w *world) {
	e := w.engine()
	s := e.remember(e.ask("c", deploy, `{}`), toolcall.StandingTerms{Uses: 1})
	e.cord.onAppend(cutAfter(e, aboutStandingApproval))
	_, err := e.bot().Propose(w.Context(), request(call("d", deploy, `{}`)))
	if err == nil {
		w.Errorf("the engine survived")
	}
	e.kill()
	next := w.engine()
	if left := next.standingApproval(s.ID).UsesLeft(); left != 0 {
		w.Errorf("%d uses are left after the crash", left)
	}
	w.wantBy(next.propose(call("other", deploy, `{}`))[0], "")
	c := next.propose(call("d", deploy, `{}`))[0]
	w.wantBy(c, s.ID)
	w.wantResult(next.finished(c.Key), message.ToolResultSuccess, "ran")
}

// A call that was allowed by an approval which has ended since does not begin.
func TestExpiredUseDoesNotBegin(t *testing.T) {
	inBubble(t, func(w *world) {
		w.policy.use(w, remembering(nil))
		e := w.engine()
		asked := e.ask("c", askRemote, `{}`)
		end := time.Now().Add(4 * time.Second)
		s := e.remember(asked, toolcall.StandingTerms{Until: end})
		waiting := e.propose(call("d", askRemote, `{}`))[0]
		w.wantBy(waiting, s.ID)
		time.Sleep(time.Until(end))
		_, err := e.worker("w1").Start(w.Context(), startRequest(waiting, "x"))
		w.wantErr(err, message.ErrFinished)
		w.wantResult(e.finished(waiting.Key), message.ToolResultDenied, "expired")
	})
}

// racingUses checks that a standing approval is not used more often than its terms permit,
// however many calls are proposed at once on several engines.
func racingUses(w *world) {
	engines := []*replica{w.engine(), w.engine(), w.engine()}
	const uses, each = 5, 8
	s := engines[0].remember(engines[0].ask("c", deploy, `{}`), toolcall.StandingTerms{Uses: uses})
	for _, e := range engines {
		e.knows(s)
	}
	var allowed, failed atomic.Int32
	var wg sync.WaitGroup
	for i, e := range engines {
		for n := range each {
			wg.Go(func() {
				out, err := e.bot().Propose(context.Background(), request(call(message.CallID(fmt.Sprint("d", i, "-", n)), deploy, `{}`)))
				switch {
				case err != nil:
					failed.Add(1)
				case out.Calls[0].Decision != nil && out.Calls[0].Decision.Standing == s.ID:
					allowed.Add(1)
				}
			})
		}
	}
	wg.Wait()
	if allowed.Load() != uses || failed.Load() != 0 {
		w.Errorf("%d calls were allowed and %d failed, with %d uses", allowed.Load(), failed.Load(), uses)
	}
	if left := engines[2].standingApproval(s.ID); left.UsesLeft() != 0 || len(left.Spent) != uses {
		w.Errorf("the standing approval is %+v", left)
	}
}

// auditStandingApprovals checks every standing approval against the calls it allowed.
func (w *world) auditStandingApprovals(records []toolcall.JournalEntry) {
	w.Helper()
	last := map[toolcall.StandingID]*toolcall.StandingApproval{}
	by := map[toolcall.StandingID]map[toolcall.Key]string{}
	for _, rec := range records {
		switch {
		case rec.Record == nil:
		case rec.Record.Standing != nil:
			s := rec.Record.Standing
			if before := last[s.ID]; before != nil && (len(s.Spent) < len(before.Spent) || before.Revoked != nil) {
				w.Errorf("record %d undoes a use or the revocation of the standing approval %s", rec.Seq, s.ID)
			}
			last[s.ID] = s
		case rec.Record.Call != nil && rec.Record.Call.Decision != nil && rec.Record.Call.Decision.Standing != "":
			c := rec.Record.Call
			if by[c.Decision.Standing] == nil {
				by[c.Decision.Standing] = map[toolcall.Key]string{}
			}
			by[c.Decision.Standing][c.Key] = toolcall.SpentBy(c.Key, c.Input)
			if s := last[c.Decision.Standing]; s != nil && s.Counted() && !slices.Contains(s.Spent, toolcall.SpentBy(c.Key, c.Input)) {
				w.Errorf("record %d: %s was allowed by %s before its use was counted", rec.Seq, c.Key, s.ID)
			}
		}
	}
	for id, s := range last {
		if s.Counted() && (len(by[id]) > s.Terms.Uses || len(s.Spent) > s.Terms.Uses) {
			w.Errorf("%s allowed %d calls, but permits %d", id, len(by[id]), s.Terms.Uses)
		}
	}
}

func revokeRaceCases() []engineCase {
	return []engineCase{
		{"a local call", func(w *world) { revokedWhileBeginning(w, deploy) }},
		{"an external call", func(w *world) { revokedWhileBeginning(w, askOut) }},
		{"a worker, and a replica that lags", revokedWhileStarting},
		{"by a plain rule", plainRevokedWhileBeginning},
		{"again, after the first revocation was cut off", revokedAgain},
		{"many calls on three engines", revokedAmongMany},
	}
}

// begins reports whether an event record begins a call that relies on the standing approval. From
// then on the call may have its effect.
func begins(rec *toolcall.EventRecord, id toolcall.StandingID) bool {
	return rec.Call != nil && rec.Note == nil && slices.Contains(rec.Call.Decision.StandingApprovals(), id) && slices.ContainsFunc(rec.Path, func(s toolcall.Step) bool {
		return s.Cause == "start" || s.Cause == "submit" && rec.Call.Placement == toolcall.PlaceExternal
	})
}

// blockBeginning holds back the event record with which a call that relies on the standing approval
// begins. arrived is closed when the record is about to be written, and release lets it through.
func (r *replica) blockBeginning(id toolcall.StandingID) (arrived <-chan struct{}, release func()) {
	held, free := make(chan struct{}), make(chan struct{})
	var once, end sync.Once
	r.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if begins(rec, id) {
			once.Do(func() { close(held) })
			select {
			case <-free:
			case <-ctx.Done():
			}
		}
		return store(ctx, rec, prev)
	})
	return held, func() { end.Do(func() { close(free) }) }
}

// wantNoneAfter checks that no call that relies on the standing approval began after its
// revocation was acknowledged. acknowledged is the last record at that moment.
func (w *world) wantNoneAfter(id toolcall.StandingID, acknowledged uint64) {
	w.Helper()
	for _, r := range w.records() {
		if r.Record != nil && r.Seq > acknowledged && begins(r.Record, id) {
			w.Errorf("%s began with record %d, after its rule was revoked at %d", r.Key, r.Seq, acknowledged)
		}
	}
}

// end is the sequence of the journal's last record.
func (w *world) end() uint64 {
	w.Helper()
	all := w.records()
	return all[len(all)-1].Seq
}

func revokedWhileBeginning(w *world, tool string) {
	w.policy.use(w, remembering(func(r *permission.Rule) { r.Tools = []string{tool} }))
	e, other := w.engine(), w.engine()
	s := e.remember(e.ask("c", tool, `{}`), toolcall.StandingTerms{Uses: 3})
	other.knows(s)
	w.revokeMidway(e, other, s, call("d", tool, `{}`))
}

func plainRevokedWhileBeginning(w *world) {
	e, other := w.engine(), w.engine()
	s := e.accept(e.askCommand("c", "npm install x"))
	other.knows(s)
	w.revokeMidway(e, other, s, command("d", "npm install y"))
}

// revokeMidway lets one engine begin a call while another revokes the standing approval that
// allows it.
func (w *world) revokeMidway(e, other *replica, s *toolcall.StandingApproval, b message.ToolCallBlock) {
	w.Helper()
	arrived, release := e.blockBeginning(s.ID)
	defer release()
	_, releaseOther := other.blockBeginning(s.ID) // other may think that e is dead, and begin the call itself
	defer releaseOther()
	var proposed sync.WaitGroup
	proposed.Go(func() { _, _ = e.bot().Propose(context.Background(), request(b)) })
	select {
	case <-arrived:
	case <-w.Context().Done():
		w.Fatal("the call does not begin")
	}
	w.must(second(other.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})))
	acknowledged := w.end()
	release()
	releaseOther()
	proposed.Wait()
	w.wantResult(e.finished(w.key(b.ID)), message.ToolResultDenied, string(s.ID))
	w.wantNoneAfter(s.ID, acknowledged)
	w.wantRuns(w.key(b.ID), 0)
}

func revokedWhileStarting(w *world) {
	w.policy.use(w, remembering(nil))
	e, other := w.engine(), w.engine()
	s := e.remember(e.ask("c", askRemote, `{}`), toolcall.StandingTerms{Uses: 3})
	other.knows(s)
	catchUp := other.cord.lag()
	c := e.propose(call("d", askRemote, `{}`))[0]
	arrived, release := e.blockBeginning(s.ID)
	defer release()
	var both sync.WaitGroup
	var acknowledged uint64
	both.Go(func() { _, _ = e.worker("w1").Start(context.Background(), startRequest(c, "x")) })
	<-arrived
	both.Go(func() {
		if _, err := other.operator().RevokeStandingApproval(context.Background(), toolcall.RevokeStandingApprovalRequest{ID: s.ID}); err != nil {
			w.Errorf("revoke: %v", err)
		}
		acknowledged = w.end()
		release()
	})
	w.until("the revocation is recorded", func() bool { return e.standingApproval(s.ID).Revoked != nil })
	catchUp()
	both.Wait()
	w.wantResult(e.finished(c.Key), message.ToolResultDenied, string(s.ID))
	w.wantNoneAfter(s.ID, acknowledged)
}

// revokedAgain checks that a second revocation completes the first, which was cut off.
func revokedAgain(w *world) {
	w.policy.use(w, remembering(nil))
	e, other := w.engine(), w.engine()
	s := e.remember(e.ask("c", askRemote, `{}`), toolcall.StandingTerms{})
	other.knows(s)
	c := e.propose(call("d", askRemote, `{}`))[0]
	other.state(c.Key, message.ToolCallSubmitted)
	other.cord.onAppend(refuse(func(rec *toolcall.EventRecord) bool { return rec.Call != nil }, cutError("append")))
	_, err := other.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})
	w.wantErr(err, message.ErrUnavailable)
	w.must(second(e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID})))
	if c := w.known(c.Key); c.Open() {
		w.Errorf("the revocation is acknowledged, but the call is %s", describe(c))
	}
}

func revokedAmongMany(w *world) {
	w.policy.use(w, remembering(nil))
	engines := []*replica{w.engine(), w.engine(), w.engine()}
	s := engines[0].remember(engines[0].ask("c", deploy, `{}`), toolcall.StandingTerms{})
	engines[0].finished(w.key("c"))
	for _, e := range engines {
		e.knows(s)
	}
	var acknowledged uint64
	var wg sync.WaitGroup
	const each = 12
	for i, e := range engines {
		for n := range each {
			wg.Go(func() {
				if i == 1 && n == each/2 {
					if _, err := e.operator().RevokeStandingApproval(w.Context(), toolcall.RevokeStandingApprovalRequest{ID: s.ID}); err != nil {
						w.Errorf("revoke: %v", err)
					}
					acknowledged = w.end()
				}
				if _, err := e.bot().Propose(w.Context(), request(call(message.CallID(fmt.Sprint("d", i, "-", n)), deploy, `{}`))); err != nil {
					w.Errorf("propose: %v", err)
				}
			})
		}
	}
	wg.Wait()
	w.until("no call waits to begin", func() bool {
		open, err := engines[0].operator().List(w.Context(), toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallAllowed}})
		return err == nil && len(open.Calls) == 0
	})
	w.wantNoneAfter(s.ID, acknowledged)
}
