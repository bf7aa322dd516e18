package engine_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// people is the directory of the tests.
var people = engine.StaticDirectory{"ann": {"finance"}, "fay": {"finance"}, "sam": {"security"}, "sue": {"security", "finance"}, "max": {"managers"}}

func quorumCases() []engineCase {
	return []engineCase{
		{"two people", twoPeople},
		{"groups that must all agree", allGroups},
		{"two of each group", twoOfEach},
		{"two of one group, one of another", twoOfOneGroup},
		{"one veto ends it", oneVeto},
		{"the requester is excluded", notRequester},
		{"an edit voids what was approved", editVoids},
		{"an editor is not the last", notEditor},
		{"an approval withdrawn", withdrawn},
		{"skipped and delegated", handedOver},
		{"delegated to a group", delegatedToGroup},
		{"no single person supplies a result", notAlone},
		{"votes outlive an engine", votesStay},
		{"a grant names those who agreed", grantNames},
		{"only people who may answer can revoke", revokedByWho},
		{"answers that race on three engines", racingAnswers},
		{"a policy that changes meanwhile", policyChanges},
		{"a revoke that races a start", revokeRace},
		{"many words", manyWords},
	}
}

func rule(name string, change func(*permission.Rule)) permission.Rule {
	r := permission.Rule{Name: name, Tools: []string{deploy, askRemote}, Behavior: message.BehaviorAsk}
	change(&r)
	return r
}

func quorum(n int) permission.Rule {
	return rule("several", func(r *permission.Rule) { r.Quorum = n })
}

func groupRule(group string, n int) permission.Rule {
	return rule("by-"+group, func(r *permission.Rule) { r.Approvers.Groups, r.Quorum = []string{group}, n })
}

// answers sends a person's answer and returns the call after it.
func (r *replica) answers(name string, resp toolcall.Response) *toolcall.Call {
	r.w.Helper()
	c, err := r.as(toolcall.RoleApprover, name).SubmitResponse(r.w.Context(), resp)
	if err != nil {
		r.w.Fatalf("%s answers %s: %v", name, resp.Kind, err)
	}
	return c
}

// refuses checks that an answer is refused and writes nothing.
func (r *replica) refuses(name string, resp toolcall.Response, want *message.Error) {
	r.w.Helper()
	_ = r.refusalOf(name, resp, want)
}

// refusalOf is like refuses, but returns the error.
func (r *replica) refusalOf(name string, resp toolcall.Response, want *message.Error) *message.Error {
	r.w.Helper()
	size := len(r.w.records())
	_, err := r.as(toolcall.RoleApprover, name).SubmitResponse(r.w.Context(), resp)
	e := r.w.refusal(err, want)
	r.w.wantSize(size)
	return e
}

func missing(c *toolcall.Call) string {
	var out []string
	for _, p := range c.Tally().Parts {
		if p.Missing > 0 {
			out = append(out, strings.Join(append([]string{p.Rule}, p.Groups...), " ")+":"+string(rune('0'+p.Missing)))
		}
	}
	return strings.Join(out, ", ")
}

func (w *world) wantMissing(c *toolcall.Call, want string) {
	w.Helper()
	if got := missing(c); got != want || c.State != message.ToolCallAsking {
		w.Errorf("the call is %s and still needs %q, want %q", describe(c), got, want)
	}
}

func twoPeople(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	c := e.answers("ann", approve(q))
	w.wantMissing(c, ":1")
	size := len(w.records())
	if c = e.answers("ann", approve(q)); len(c.Votes) != 1 { // the same answer again changes nothing
		w.Errorf("the votes are %+v", c.Votes)
	}
	w.wantSize(size)
	w.wantRuns(q.Key, 0)
	e.answers("bob", approve(q))
	e.finished(q.Key)
	w.wantRuns(q.Key, 1)
	w.wantPath(q.Key, "propose+ask vote approve+start result")
}

func allGroups(w *world) {
	w.policy.use(w, groupRule("finance", 0), groupRule("security", 0))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	e.refuses("bob", approve(q), message.ErrForbidden)
	e.refuses("bob", reject(q), message.ErrForbidden)
	c := e.answers("ann", approve(q))
	w.wantMissing(c, "by-security security:1")
	if v := c.Votes[0]; !slices.Equal(v.Groups, []string{"finance"}) || v.GroupsFrom != "static" || v.By.Auth != "test" {
		w.Errorf("the vote does not name the groups that entitle the voter: %+v", v)
	}
	w.wantMissing(e.answers("fay", approve(q)), "by-security security:1")
	e.answers("sam", approve(q))
	e.finished(q.Key)
	q = e.ask("d", deploy, `{}`)
	e.answers("sue", approve(q)) // in both
	e.finished(q.Key)
}

func twoOfEach(w *world) {
	w.policy.use(w, groupRule("finance", 2), groupRule("security", 2))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	w.wantMissing(e.answers("sue", approve(q)), "by-finance finance:1, by-security security:1")
	w.wantMissing(e.answers("ann", approve(q)), "by-security security:1")
	e.answers("sam", approve(q))
	e.finished(q.Key)
}

// Each group approves as often as its own rule says, so a group of one person can agree.
func twoOfOneGroup(w *world) {
	w.policy.use(w, groupRule("finance", 2), groupRule("security", 1))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	w.wantMissing(e.answers("sam", approve(q)), "by-finance finance:2")
	w.wantMissing(e.answers("ann", approve(q)), "by-finance finance:1")
	e.answers("fay", approve(q))
	e.finished(q.Key)
}

func oneVeto(w *world) {
	w.policy.use(w, quorum(3))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	e.answers("ann", approve(q))
	e.answers("bob", approve(q))
	c := e.answers("ann", reject(q)) // a person who approved can still reject
	w.wantResult(c, message.ToolResultDenied, "not today")
	e.refuses("cy", approve(q), message.ErrFinished)
	w.wantRuns(q.Key, 0)
}

func notRequester(w *world) {
	w.policy.use(w, rule("four-eyes", func(r *permission.Rule) { r.Approvers.ExcludeRequester = true }))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	for _, resp := range []toolcall.Response{approve(q), reject(q), edit(q, `{"a":1}`), {Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest}, {Key: q.Key, Kind: toolcall.ResponseSkip, Digest: q.Digest}} {
		e.refuses("bot", resp, message.ErrForbidden)
	}
	e.refuses("ann", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseDelegate, To: "bot", Digest: q.Digest}, message.ErrForbidden)
	e.answers("ann", approve(q))
	e.finished(q.Key)
}

func editVoids(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q := e.ask("c", deploy, `{"n":1}`)
	e.answers("ann", approve(q))
	again := e.answers("bob", edit(q, `{"n":2}`))
	w.wantMissing(again, ":1") // bob has approved what he wrote
	if again.Digest == q.Digest || again.Votes[0].On(again.Digest) || !again.Votes[1].On(again.Digest) {
		w.Errorf("the votes on %s are %+v", again.Digest, again.Votes)
	}
	if err := e.refusalOf("ann", approve(q), message.ErrDigest); toolcall.CallOf(err) == nil || toolcall.CallOf(err).Digest != again.Digest || toolcall.CallOf(err).Request.Input != `{"n":2}` {
		w.Errorf("the error for an answer to the old approval request does not show the current one: %+v", toolcall.CallOf(err))
	}
	e.answers("bob", approve(again)) // he has already approved it
	w.wantRuns(q.Key, 0)
	e.answers("ann", approve(again))
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, `{"n":2}`)
	w.wantPath(q.Key, "propose+ask vote edit+ask approve+start result")
}

func notEditor(w *world) {
	w.policy.use(w, rule("other-eyes", func(r *permission.Rule) { r.Approvers.ExcludeEditor = true }))
	e := w.engine()
	q := e.ask("c", deploy, `{"n":1}`)
	again := e.answers("ann", edit(q, `{"n":2}`))
	w.wantMissing(again, ":1")
	e.refuses("ann", approve(again), message.ErrForbidden)
	e.refuses("ann", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseRespond, Digest: again.Digest}, message.ErrForbidden)
	last := e.answers("bob", edit(again, `{"n":3}`))
	e.refuses("ann", approve(last), message.ErrForbidden) // ann edited these arguments as well
	e.refuses("bob", approve(last), message.ErrForbidden)
	c := e.answers("cy", approve(last))
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, `{"n":3}`)
	q = e.ask("d", deploy, `{"n":1}`)
	e.answers("ann", approve(q)) // ann did not edit this one
	e.finished(q.Key)
	q = e.ask("e", deploy, `{"n":1}`)
	again = e.answers("ann", edit(q, `{"n":2}`))
	e.answers("ann", reject(again))
}

func withdrawn(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	e.answers("ann", approve(q))
	e.answers("ann", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseSkip, Digest: q.Digest, Note: "I was wrong"})
	w.wantMissing(e.answers("bob", approve(q)), ":1")
	e.refuses("ann", approve(q), message.ErrConflict) // an old answer that is sent again does not count
	e.answers("cy", approve(q))
	c := e.finished(q.Key)
	if got := voters(c.Tally().Approvals); got != "bob cy" {
		w.Errorf("approved by %s", got)
	}
}

func voters(votes []toolcall.Vote) string {
	var out []string
	for _, v := range votes {
		out = append(out, v.By.Name)
	}
	return strings.Join(out, " ")
}

func handedOver(w *world) {
	w.policy.use(w, rule("some", func(r *permission.Rule) { r.Approvers.Users = []string{"ann", "bob"} }))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	to := func(name string) toolcall.Response {
		return toolcall.Response{Key: q.Key, Kind: toolcall.ResponseDelegate, Digest: q.Digest, To: name, Note: "you know the customer"}
	}
	e.refuses("ann", to("cy"), message.ErrForbidden)
	e.refuses("ann", to("ann"), message.ErrInvalid)
	e.refuses("cy", to("bob"), message.ErrForbidden)
	e.refuses("ann", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseDelegate, Digest: "sha256:old", To: "bob"}, message.ErrDigest)
	c := e.answers("ann", to("bob"))
	if v := c.Votes[0]; c.State != message.ToolCallAsking || v.To != "bob" || v.Note == "" {
		w.Errorf("delegated: %s, %+v", describe(c), v)
	}
	e.answers("ann", to("bob")) // the same again
	e.refuses("ann", approve(q), message.ErrConflict)
	e.refuses("ann", edit(q, `{"a":1}`), message.ErrConflict)
	e.answers("bob", approve(q))
	e.finished(q.Key)
	w.wantPath(q.Key, "propose+ask delegate approve+start result")
	q = e.ask("d", deploy, `{}`)
	e.answers("ann", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseSkip, Digest: q.Digest})
	e.answers("ann", reject(q)) // more careful is always possible
	w.wantPath(q.Key, "propose+ask skip reject")
}

func delegatedToGroup(w *world) {
	w.policy.use(w, groupRule("finance", 0), rule("four-eyes", func(r *permission.Rule) { r.Approvers.ExcludeRequester = true }))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	to := func(name string) toolcall.Response {
		return toolcall.Response{Key: q.Key, Kind: toolcall.ResponseDelegate, Digest: q.Digest, To: name}
	}
	e.refuses("ann", to("bot"), message.ErrForbidden) // bot requested it
	e.answers("ann", to("sam"))                       // the directory lists another group; the login of sam may add this one
	e.answers("fay", to("sue"))
	e.answers("sue", approve(q))
	e.finished(q.Key)
}

func notAlone(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	e.answers("ann", approve(q))
	e.refuses("bob", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseRespond, Digest: q.Digest, Output: "done"}, message.ErrForbidden)
}

func votesStay(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	e.answers("ann", approve(q))
	e.kill()
	e = w.engine()
	w.wantMissing(e.answers("ann", approve(q)), ":1")
	e.answers("bob", approve(q))
	e.finished(q.Key)
	w.wantRuns(q.Key, 1)
}

func grantNames(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q := e.ask("c", askRemote, `{"n":1}`)
	e.answers("cy", approve(q))
	e.answers("ann", edit(q, `{"n":2}`))
	q = e.state(q.Key, message.ToolCallAsking)
	e.answers("dan", toolcall.Response{Key: q.Key, Kind: toolcall.ResponseSkip, Digest: q.Digest})
	c := e.answers("bob", approve(q))
	var got []string
	for _, a := range c.Attempt.Grant.Approvals {
		got = append(got, a.By.Name)
	}
	if strings.Join(got, " ") != "ann bob" || c.Attempt.Grant.Digest != c.Digest {
		w.Errorf("the grant names %v", got)
	}
}

func revokedByWho(w *world) {
	w.policy.use(w, groupRule("finance", 0))
	e := w.engine()
	q := e.ask("c", askRemote, `{}`)
	e.answers("ann", approve(q))
	size := len(w.records())
	_, err := e.bob().Revoke(w.Context(), toolcall.RevokeRequest{Key: q.Key})
	w.wantErr(err, message.ErrForbidden)
	w.wantSize(size)
	c, err := e.as(toolcall.RoleApprover, "fay").Revoke(w.Context(), toolcall.RevokeRequest{Key: q.Key, Reason: "a typo"})
	w.must(err)
	w.wantResult(c, message.ToolResultDenied, "a typo")
}

// racingAnswers lets 64 people answer at once on three engines. The call has one outcome, and
// every engine reports it.
func racingAnswers(w *world) {
	w.policy.use(w, quorum(3))
	engines := []*replica{w.engine(), w.engine(), w.engine()}
	q := engines[0].ask("c", deploy, `{}`)
	var wg sync.WaitGroup
	for i := range 64 {
		resp := approve(q)
		switch i % 8 {
		case 3:
			resp = edit(q, `{"by":"someone"}`)
		case 5:
			resp = toolcall.Response{Key: q.Key, Kind: toolcall.ResponseSkip, Digest: q.Digest}
		case 7:
			resp = reject(q)
		}
		name := string(rune('A'+i%32)) + "x"
		wg.Go(func() {
			_, err := engines[i%3].as(toolcall.RoleApprover, name).SubmitResponse(w.Context(), resp)
			if code := message.AsError("", orUnknown(err)).Code; err != nil && !slices.Contains([]message.Code{message.CodeFinished, message.CodeState, message.CodeDigest, message.CodeConflict}, code) {
				w.Errorf("%s by %s: %v", resp.Kind, name, err)
			}
		})
	}
	wg.Wait()
	if c := engines[0].waitFor(q.Key, "resolved or asking again", func(c *toolcall.Call) bool { return !c.Open() || c.State == message.ToolCallAsking }); c.Open() {
		engines[1].answers("zoe", reject(c))
	}
	first := engines[0].finished(q.Key)
	for _, e := range engines {
		if c := e.finished(q.Key); c.Seq != first.Seq || c.Cause != first.Cause {
			w.Errorf("%s: %s, elsewhere %s", e.ID(), describe(c), describe(first))
		}
	}
}

// policyChanges checks that an open approval request does not change with the policy, except
// that a new deny rule ends it.
func policyChanges(w *world) {
	w.policy.use(w, quorum(2))
	e := w.engine()
	q, lax := e.ask("c", deploy, `{}`), e.ask("d", deploy, `{"n":1}`)
	w.policy.use(w, rule("any", func(*permission.Rule) {}))
	w.wantMissing(e.answers("ann", approve(q)), ":1")
	again := e.answers("ann", edit(lax, `{"n":2}`)) // the new policy decides about the edited call
	if again.Request.Rule != "any" || again.Tally().Agreed {
		w.Errorf("the edited call is %s by %s", describe(again), again.Request.Rule)
	}
	w.policy.use(w, noTool(deploy))
	c := e.answers("bob", approve(q))
	w.wantResult(c, message.ToolResultDenied, "no-deploy")
	w.wantRuns(q.Key, 0)
}

// revokeRace checks that either the worker starts or the approval is revoked, never both.
func revokeRace(w *world) {
	a, b := w.engine(), w.engine()
	for i := range 20 {
		q := a.ask(message.CallID("c"+strconv.Itoa(i)), askRemote, `{}`)
		a.answers("ann", approve(q))
		var started, revoked error
		var wg sync.WaitGroup
		wg.Go(func() {
			_, started = a.worker("w").Start(w.Context(), toolcall.StartRequest{Key: q.Key, Attempt: 1, Claim: "x"})
		})
		wg.Go(func() { _, revoked = b.ann().Revoke(w.Context(), toolcall.RevokeRequest{Key: q.Key}) })
		wg.Wait()
		if (started == nil) == (revoked == nil) {
			w.Errorf("start: %v, revoke: %v", started, revoked)
		}
		c := a.waitFor(q.Key, "resolved", func(c *toolcall.Call) bool { return c.Started() || !c.Open() })
		if c.Started() != (started == nil) {
			w.Errorf("the call is %s after start: %v", describe(c), started)
		}
	}
}

// manyWords checks that notes on an open approval request never make its call too large to be
// ended.
func manyWords(w *world) {
	w.policy.use(w, quorum(200))
	e := w.engine()
	q := e.ask("c", deploy, `{}`)
	note := func(i int) (string, toolcall.Response) {
		return "p" + strconv.Itoa(i), toolcall.Response{Key: q.Key, Kind: toolcall.ResponseSkip, Digest: q.Digest, Note: strings.Repeat("x", toolcall.MaxNoteBytes)}
	}
	full := 0
	for i := range 100 {
		name, resp := note(i)
		if _, err := e.as(toolcall.RoleApprover, name).SubmitResponse(w.Context(), resp); err != nil {
			w.wantErr(err, message.ErrTooLarge)
			full = i
			break
		}
	}
	if full == 0 {
		w.Fatal("any number of notes was accepted")
	}
	name, resp := note(full)
	resp.Note += "x"
	e.refuses(name, resp, message.ErrTooLarge)
	w.wantResult(e.answers(name, reject(q)), message.ToolResultDenied, "not today")
}
