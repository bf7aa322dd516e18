package approve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// check is one check that a response has to pass.
type check struct {
	name  string
	wants string
	other string // what happens to a response that does not pass
	pass  func(ctx context.Context, r *response) error
	// counts is set if the check counts the response, which a preview must not do.
	counts bool
}

// checks are all checks in order. Who may respond is checked before the approval request
// itself, so that only those who may respond learn about it.
var checks = []check{
	{name: "resent", wants: "the `response_id` is new", other: "returns the call unchanged; a known id with another response is a `conflict`", pass: checkResent},
	{name: "approver", wants: "the requirement accepts the person, who is not an excluded requester", other: "`forbidden`", pass: checkApprover},
	{name: "in time", wants: "the deadline has not passed, and the reply is not interrupted", other: "the request ends, and the response is refused as `finished`", pass: checkInTime},
	{name: "same approval request", wants: "the call is asking, and the response names the digest of the open request", other: "`digest_mismatch`, `state` or `finished`, with the current call", pass: checkRequest},
	{name: "redaction", wants: "edited arguments keep the marks of redacted values where they were", other: "`invalid`", pass: revealInput},
	{name: "kind", wants: "`delegate` names a person who can approve and did not `skip` or `delegate` (any group is possible until that person responds); `approve` has a valid signature if one is needed, and is not by an excluded editor; `respond` is by a person who could approve alone", other: "`forbidden` or `invalid`", pass: checkKind},
	{name: "suggested rules", wants: "each rule to remember is exactly one that the request suggests", other: "`forbidden`", pass: checkRules},
	{name: "terms", wants: "the limits of what to remember cover this call and are within those of the policy", other: "`forbidden` or `invalid`", pass: checkTerms},
	{name: "last word", wants: "the response differs from the person's last one and is more careful", other: "returns the call unchanged, or `conflict`", pass: checkLastWord},
	{name: "limits", wants: "the person, and the person that `delegate` names, are within the limits of reviewers", other: "`over_limit`", pass: checkLimits, counts: true},
}

// checkResent ends a response that was already recorded and is sent again, because
// the reply to it was lost.
func checkResent(_ context.Context, r *response) error {
	if r.in.ID == "" {
		return nil
	}
	i := slices.IndexFunc(r.call.Votes, func(v toolcall.Vote) bool { return v.ID == r.in.ID && v.By.Name == r.voter.by.Name })
	switch {
	case i < 0:
		return nil
	case !r.isOther(i):
		return store.ErrNoChange
	}
	return &message.Error{Code: message.CodeConflict, Call: toolcall.ErrorCall(r.call), What: "another response of " + r.voter.by.Name + " to this call has the same response_id", Hint: "give each response its own id"}
}

// isOther reports whether the response is certainly not the one of the call's vote i. What a response
// with arguments sent is unknown after a later edit, and what an edit sent also if rules hide it.
func (r *response) isOther(i int) bool {
	c, in, v := r.call, r.in, r.call.Votes[i]
	switch {
	case v.Kind != in.Kind || v.Digest != in.Digest || v.Note != in.Note || v.To != in.To || in.Input == nil && v.Edited:
		return true
	case v.Kind == toolcall.ResponseReject && v.Feedback != in.Feedback:
		return true
	case v.Kind == toolcall.ResponseRespond && (c.Result == nil || c.Result.Output.Text != in.Output):
		return true
	case !isSameSignature(v.Signature, in.Signature) || !standing.HasRules(v.Rules, in.Rules) || !standing.HasTerms(c, v, in.Remember):
		return true
	case in.Input == nil || c.Hides() && v.Edited || slices.ContainsFunc(c.Votes[i+1:], func(o toolcall.Vote) bool { return o.Edited }):
		return false
	case c.Request == nil:
		return true
	}
	input, err := c.Request.Revealed(*in.Input)
	return err != nil || input != c.Input
}

func isSameSignature(a, b *toolcall.ApproverSignature) bool {
	return a == b || a != nil && b != nil && a.Sig == b.Sig
}

// checkApprover applies the requirement as it was first issued, and makes the vote.
func checkApprover(ctx context.Context, r *response) error {
	r.vote = r.voter.voteOf(ctx, r.call, r.in, r.now)
	if r.call.State != message.ToolCallAsking || r.call.Request == nil {
		return nil // see "same approval request"
	}
	req, name := r.call.Request.Requirement, r.voter.by.Name
	switch accepted := req.Accepts(r.vote); {
	case !accepted && req.Requester != "" && req.Excludes(name):
		return decide.ForbiddenError(name+" requested this call, or one around it, and cannot respond to its approval request", "ask another approver")
	case !accepted && r.voter.err != nil:
		return decide.ForbiddenError("the groups of "+name+" cannot be looked up now, and without them "+name+" is not an approver of this approval request", "try again when the directory answers")
	case !accepted:
		return decide.ForbiddenError(name+" is not an approver of this approval request", "ask an approver of this request")
	}
	return nil
}

// checkInTime ends an approval request whose deadline has passed or whose reply was
// interrupted.
func checkInTime(_ context.Context, r *response) error {
	state, _ := r.View.ReplyState(r.call.Key)
	switch {
	case HasExpired(r.call, r.now):
		r.late = true
		return r.m.Step(toolcall.Expired{Base: toolcall.Base{At: r.now}})
	case r.call.State == message.ToolCallAsking && state != nil && state.Phase != toolcall.ReplyOpen:
		r.late = true
		return r.m.Step(toolcall.Interrupted{Base: toolcall.Base{At: r.now}})
	}
	return nil
}

func checkRequest(_ context.Context, r *response) error { return r.m.CheckRequest(r.in.Digest) }

// revealInput puts hidden values back into edited arguments, where the editor saw only
// marks.
func revealInput(_ context.Context, r *response) error {
	if r.in.Input == nil || r.call.Request == nil {
		return nil
	}
	input, err := r.call.Request.Revealed(*r.in.Input)
	r.in.Input = &input
	return err
}

func checkKind(_ context.Context, r *response) error {
	if r.call.Request == nil {
		return nil
	}
	req, name := r.call.Request.Requirement, r.voter.by.Name
	approves := r.in.Kind == toolcall.ResponseApprove && !r.isEdit()
	switch {
	case r.in.Kind == toolcall.ResponseDelegate:
		return checkDelegate(r.call, name, r.in.To)
	case approves && req.ExcludeEditor && req.IsEditor(name):
		return decide.ForbiddenError(name+" edited these arguments and cannot approve them", "ask another approver, or reject")
	case approves && (req.Signed || r.in.Signature != nil):
		return checkSignature(r)
	case r.in.Kind == toolcall.ResponseRespond && !req.ApprovesAlone(r.vote):
		return decide.ForbiddenError("one person cannot respond for the tool when others must agree", "approve it, or reject it with feedback")
	}
	return nil
}

// checkDelegate refuses to delegate an approval request to someone who certainly cannot approve
// it. Which groups that person has is known only when they respond: their login may add some.
func checkDelegate(c *toolcall.Call, from, to string) error {
	r := c.Request.Requirement
	before, _ := c.VoteOf(from)
	last, voted := c.VoteOf(to)
	if toolcall.IsSamePerson(to, from) {
		return &message.Error{Code: message.CodeInvalid, What: "you cannot delegate an approval request to yourself", Hint: "skip, or name another person"}
	}
	if voted && last.Kind != toolcall.ResponseApprove && !toolcall.IsSamePerson(before.To, to) { // else the same response is sent again
		return decide.ForbiddenError(to+" left this approval request to others and can only reject it", "name another person, or skip")
	}
	if r.NeedsGroups() && !r.Excludes(to) {
		return nil
	}
	for step := range len(r.Plan()) + 1 {
		if r.Accepts(toolcall.Vote{By: toolcall.Principal{Name: to}, Step: step}) {
			return nil
		}
	}
	return decide.ForbiddenError(to+" is not an approver of this approval request", "name an approver of this request")
}

// checkSignature checks the approver's own signature. It does not protect against a
// cheating person, but tells an honest one early that no worker would accept it.
func checkSignature(r *response) error {
	if r.vote.Signature == nil {
		return decide.ForbiddenError("this approval request needs your own signature", "approve it with --sign-key, or ask an approver who has a key")
	}
	return r.vote.Signature.Verify(r.Keys(), r.call.Digest, r.voter.by.Name, r.vote.At)
}

func checkRules(_ context.Context, r *response) error {
	return standing.CheckPlain(r.call, r.in.Rules)
}

// checkTerms completes what is to be remembered. For an edit that happens later,
// against the edited call.
func checkTerms(ctx context.Context, r *response) (err error) {
	if r.in.Remember == nil || r.isEdit() || r.call.Request == nil {
		return nil
	}
	r.vote.Remember, err = r.Standing.CompleteTerms(ctx, r.call, *r.in.Remember, r.now)
	return err
}

// checkLastWord compares a vote with the person's previous vote on this approval request.
// Repeating a vote changes nothing, unless a signature counts that did not count before, or for longer.
func checkLastWord(_ context.Context, r *response) error {
	last, voted := r.call.VoteOf(r.vote.By.Name)
	keys := r.Keys()
	tally, _ := keys.Tally(r.call, r.vote.At)
	approvesAgain := r.vote.Kind == toolcall.ResponseApprove && last.Kind == r.vote.Kind
	signsLonger := r.vote.Signature != nil && last.Signature != nil && r.vote.Signature.Until.After(last.Signature.Until)
	switch {
	case !voted, last.CanRevise(r.vote.Kind, r.isEdit(), r.vote.At), approvesAgain && (signsLonger || tally.Agreed && last.Signature != nil || last.CheckSignature(keys, r.vote.At) != nil):
		return nil //nolint:nilerr // the earlier approval does not count, or not for as long
	case !r.isEdit() && last.Kind == r.vote.Kind && last.Note == r.vote.Note && last.To == r.vote.To && slices.EqualFunc(last.Rules, r.vote.Rules, standing.SameRule) && standing.SameTerms(last.Remember, r.vote.Remember):
		return store.ErrNoChange
	}
	return &message.Error{Code: message.CodeConflict, Call: toolcall.ErrorCall(r.call), What: r.vote.By.Name + " has responded to this approval request before: " + string(last.Kind), Hint: "reject it, or leave it to the other approvers"}
}

// checkLimits comes last because it counts the response.
func checkLimits(_ context.Context, r *response) error {
	if err := escalateTo(r.m, r.vote.Step, toolcall.Base{At: r.now}); err != nil {
		return err
	}
	return r.limit.admitVote(r.call, r.vote)
}

// checkRoom refuses responses that leave an approval request open and make its call too
// large: the record that ends it needs room, too.
func checkRoom(c *toolcall.Call, vote toolcall.Vote) error {
	b, err := strictjson.Marshal(append(slices.Clone(c.Votes), vote))
	if err != nil {
		return &message.Error{Code: message.CodeInvalid, What: "the response has no JSON form", Hint: "use valid UTF-8", Err: err}
	}
	if len(b) > toolcall.MaxVotesBytes {
		return &message.Error{Code: message.CodeTooLarge, Call: toolcall.ErrorCall(c), What: fmt.Sprintf("the responses to this call would have %d bytes, the limit is %d", len(b), toolcall.MaxVotesBytes), Hint: "reject it, or let it expire"}
	}
	return nil
}

var responseKinds = []toolcall.ResponseKind{toolcall.ResponseApprove, toolcall.ResponseReject, toolcall.ResponseRespond, toolcall.ResponseSkip, toolcall.ResponseDelegate}

// maxResponseID bounds the id that a sender gives to a response.
const maxResponseID = 128

// checkForm checks a response on its own, before anything is looked up.
func checkForm(resp toolcall.Response) error {
	bad := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, What: what, Hint: hint}
	}
	switch {
	case !slices.Contains(responseKinds, resp.Kind):
		return bad(message.CodeInvalid, fmt.Sprintf("kind is %q", resp.Kind), "use approve, reject, respond, skip or delegate")
	case len(resp.ID) > maxResponseID:
		return bad(message.CodeTooLarge, fmt.Sprintf("response_id has %d bytes, the limit is %d", len(resp.ID), maxResponseID), "use a short random one")
	case resp.Digest == "":
		return bad(message.CodeInvalid, "digest is empty", "send the digest of the approval request that was shown")
	case resp.Input != nil && resp.Kind != toolcall.ResponseApprove:
		return bad(message.CodeInvalid, "input is only for approve", "leave it out")
	case resp.Input != nil && len(*resp.Input) > toolcall.MaxInputBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("input has %d bytes, the limit is %d", len(*resp.Input), toolcall.MaxInputBytes), "pass large content by reference")
	case len(resp.Feedback) > toolcall.MaxTextBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("feedback has %d bytes, the limit is %d", len(resp.Feedback), toolcall.MaxTextBytes), "shorten it")
	case len(resp.Output) > toolcall.MaxOutputBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("output has %d bytes, the limit is %d", len(resp.Output), toolcall.MaxOutputBytes), "store large output elsewhere and send a reference")
	case len(resp.Rules) > 0 && resp.Kind != toolcall.ResponseApprove:
		return bad(message.CodeInvalid, "rules are only for approve", "leave them out")
	case resp.Remember != nil && resp.Kind != toolcall.ResponseApprove:
		return bad(message.CodeInvalid, "remember is only for approve", "leave it out")
	case resp.Signature != nil && (resp.Kind != toolcall.ResponseApprove || resp.Input != nil || len(resp.Rules) > 0 || resp.Remember != nil):
		return bad(message.CodeInvalid, "a signature is only for approve without input, rules or remember, which it would not cover", "leave it out")
	case resp.Note != "" && resp.Kind != toolcall.ResponseSkip && resp.Kind != toolcall.ResponseDelegate:
		return bad(message.CodeInvalid, "note is only for skip and delegate", "leave it out; to tell the model something, reject with feedback")
	case len(resp.Note) > toolcall.MaxNoteBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("note has %d bytes, the limit is %d", len(resp.Note), toolcall.MaxNoteBytes), "shorten it")
	case (resp.To != "") != (resp.Kind == toolcall.ResponseDelegate):
		return bad(message.CodeInvalid, "to is required for delegate, and only for delegate", "name who should respond, or skip")
	case len(resp.To) > toolcall.MaxIDBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("to has %d bytes, the limit is %d", len(resp.To), toolcall.MaxIDBytes), "name one person")
	}
	return resp.Key.Validate()
}

// voter is a person who responds. Their groups are looked up once, and only if they
// matter.
type voter struct {
	of     *Responses
	by     toolcall.Principal
	asked  bool
	groups []string
	source string
	err    error // from the directory
}

func (s *Responses) newVoter(by toolcall.Principal) *voter { return &voter{of: s, by: by} }

// Awaits returns a function that reports whether a person can respond to an open approval
// request and has not done so, or signed with a signature that no longer counts.
func (s *Responses) Awaits(ctx context.Context, by toolcall.Principal) func(*toolcall.Call) bool {
	by.Role = toolcall.RoleApprover
	v, at := s.newVoter(by), store.JournalTime()
	v.lookUpGroups(ctx)
	keys := s.Keys()
	return func(c *toolcall.Call) bool {
		last, said := c.VoteOf(by.Name)
		counts := said && last.CheckSignature(keys, at) == nil
		return c.Request != nil && c.Request.Requirement.Accepts(v.voteOf(ctx, c, toolcall.Response{}, at)) && !counts
	}
}

// voteOf is the response as event records store it, with the person's current groups and
// the step that the approval request's plan has reached.
func (v *voter) voteOf(ctx context.Context, c *toolcall.Call, resp toolcall.Response, at time.Time) toolcall.Vote {
	out := toolcall.Vote{
		ID: resp.ID, Kind: resp.Kind, By: v.by, At: at, Digest: resp.Digest, Signature: resp.Signature,
		Note: resp.Note, To: resp.To, Rules: standing.SuggestedRules(c, resp.Rules), Step: StepAt(c, at),
	}
	if c.Request != nil && c.Request.Requirement.NeedsGroups() {
		v.lookUpGroups(ctx)
		out.Groups, out.GroupsFrom = c.Request.Requirement.Relevant(v.groups), v.source
	}
	if resp.Kind == toolcall.ResponseReject {
		out.Feedback = resp.Feedback // of other responses it is not stored
	}
	return out
}

func (v *voter) lookUpGroups(ctx context.Context) {
	if !v.asked {
		v.asked = true
		v.groups, v.source, v.err = v.of.Groups(ctx, v.by)
	}
}

// limit counts one response once, however often the update is retried.
type limit struct {
	ledger *reviewers.Ledger
	done   func(taken bool)
}

// admitVote counts the response after all other checks have passed.
func (l *limit) admitVote(c *toolcall.Call, v toolcall.Vote) error {
	if l.done != nil {
		return nil
	}
	done, err := l.ledger.Admit(c.Key, v.By.Name, v.To, v.At)
	if err != nil {
		if me, ok := errors.AsType[*message.Error](err); ok {
			me.Call = toolcall.ErrorCall(c)
		}
		return err
	}
	l.done = done
	return nil
}

// settleVote tells the ledger whether the response was recorded.
func (l *limit) settleVote(err error) {
	if l.done != nil {
		l.done(err == nil)
	}
	if errors.Is(err, message.ErrOverLimit) {
		l.ledger.Refused()
	}
}

// StepAt is how many steps of the approval request's plan have begun: by the clock, or by
// the record if the clock was set back.
func StepAt(c *toolcall.Call, now time.Time) int {
	if c.Request == nil {
		return 0
	}
	n := 0
	for _, at := range c.Request.Requirement.Plan() {
		if now.Before(at) {
			break
		}
		n++
	}
	return max(n, c.Step)
}

// escalateTo records that the plan of an open approval request has reached a step, unless
// that is already recorded.
func escalateTo(m *toolcall.Machine, step int, now toolcall.Base) error {
	if c := m.Call(); c.State != message.ToolCallAsking || step <= c.Step {
		return nil
	}
	return m.Step(toolcall.Escalated{Base: now, Step: step})
}

// PassTime does what is due for an open approval request: the request expires, or more
// people are asked.
func (s *Responses) PassTime(ctx context.Context, key toolcall.Key) error {
	_, err := s.Update(ctx, "expire", key, s.Self, func(_ context.Context, m *toolcall.Machine) error {
		c, now := m.Call(), baseNow()
		switch step := StepAt(c, now.At); {
		case c.State != message.ToolCallAsking:
			return store.ErrNoChange
		case HasExpired(c, now.At):
			return m.Step(toolcall.Expired{Base: now})
		case step > c.Step:
			return escalateTo(m, step, now)
		}
		return store.ErrNoChange
	})
	return err
}

// NextLook is when an open approval request must be looked at next, or zero for never.
// People are reminded at every interval remind; 0 means never.
func NextLook(c *toolcall.Call, now time.Time, remind time.Duration) time.Time {
	r := c.Request.Requirement
	next := r.Ends()
	if plan := r.Plan(); c.Step < len(plan) {
		next = earlierOf(next, plan[c.Step])
	}
	if remind > 0 {
		next = earlierOf(next, nextReminder(c, now, remind))
	}
	return next
}

// nextReminder is when people are next reminded of an approval request: after each full
// interval since the call last changed, or from now if the clock was set back since.
func nextReminder(c *toolcall.Call, now time.Time, every time.Duration) time.Time {
	next := c.UpdatedAt.Add(max(now.Sub(c.UpdatedAt), 0).Truncate(every) + every)
	return earlierOf(next, now.Add(every))
}

// earlierOf returns the earlier of two times, ignoring zero.
func earlierOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// HasExpired reports whether an open approval request has passed its deadline.
func HasExpired(c *toolcall.Call, now time.Time) bool {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return false
	}
	d := c.Request.Requirement.Ends()
	return !d.IsZero() && !now.Before(d)
}
