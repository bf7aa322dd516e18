// Package approve handles the responses of people to open approval requests.
//
// [Responses.TakeResponse] passes a response through the ordered list of checks and moves
// its call: approved and begun, asked again after an edit, or finished. All of this is
// decided from the call's last event record and written by compare-and-swap. The package
// also handles the passing of time: escalation, deadlines, reminders.
package approve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/standing"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/engine/internal/view"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Parts are what Responses depends on.
type Parts struct {
	Space    toolcall.SpaceID
	Self     toolcall.Principal // the engine
	View     *view.View
	Judge    *decide.Judge
	Standing *standing.Approvals
	// Snapshot returns what a decision about a call depends on now, with the given rules of its session.
	Snapshot func(ctx context.Context, c *toolcall.Call, rules []message.PermissionRule) decide.Snapshot
	// Update changes a call.
	Update func(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change store.Change) (*toolcall.Call, error)
	// Begin moves an allowed call as far as it can go within the same event record.
	Begin func(m *toolcall.Machine) error
	// Groups returns a person's groups, and where they come from.
	Groups func(ctx context.Context, by toolcall.Principal) (groups []string, source string, err error)
	// Keys returns the keys with which approvers sign now, or nil if this engine knows none.
	Keys func() toolcall.ApproverKeys
}

// Responses handles responses to the open approval requests of a space.
type Responses struct{ Parts }

// TakeResponse passes a response through the checks and moves its call.
func (s *Responses) TakeResponse(ctx context.Context, by toolcall.Principal, resp toolcall.Response) (*toolcall.Call, error) {
	resp.Space = s.Space
	if err := checkForm(resp); err != nil {
		return nil, err
	}
	r := &response{Responses: s, voter: s.newVoter(by), limit: limit{ledger: &s.View.Reviewers}}
	c, err := s.Update(ctx, "submit_response", resp.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		r.m, r.call, r.in, r.now, r.late = m, m.Call(), resp, store.JournalTime(), false
		for _, c := range checks {
			if err := c.pass(ctx, r); err != nil || r.late {
				return err // if late, the update writes the end of the approval request
			}
		}
		return s.moveCall(ctx, r)
	})
	r.limit.settleVote(err)
	if err == nil && r.late {
		return nil, &message.Error{Code: message.CodeFinished, Call: toolcall.ErrorCall(c), What: "the response came too late: the approval request has ended (" + c.Cause + ")", Hint: "nothing to do: see the call's result"}
	}
	return c, err
}

// response is one response on its way through the checks.
type response struct {
	*Responses
	voter *voter
	limit limit
	m     *toolcall.Machine
	call  *toolcall.Call // of m
	in    toolcall.Response
	vote  toolcall.Vote // the response as event records store it
	now   time.Time
	late  bool // the approval request had already ended
}

// isEdit reports whether the response changes the arguments.
func (r *response) isEdit() bool { return r.in.Input != nil && *r.in.Input != r.call.Input }

// moveCall moves the call according to a response that passed the checks.
func (s *Responses) moveCall(ctx context.Context, r *response) error {
	switch {
	case r.in.Kind == toolcall.ResponseSkip || r.in.Kind == toolcall.ResponseDelegate:
		return s.leaveOpen(r)
	case r.in.Kind != toolcall.ResponseApprove:
		return r.m.Step(toolcall.Responded{Base: baseNow(), Vote: r.vote, Output: r.in.Output})
	case r.isEdit():
		return s.approveEdited(ctx, r)
	}
	return s.countApproval(ctx, r)
}

// leaveOpen records a response that leaves the approval request open.
func (s *Responses) leaveOpen(r *response) error {
	if err := checkRoom(r.call, r.vote); err != nil {
		return err
	}
	return r.m.Step(toolcall.Voted{Base: baseNow(), Vote: r.vote})
}

// countApproval counts an approval of the unedited call. The approval that completes the
// requirement allows the call, unless a deny rule has come into force meanwhile.
func (s *Responses) countApproval(ctx context.Context, r *response) error {
	c := r.call
	now := s.Snapshot(ctx, c, s.View.Rules(c))
	if d, denied := s.Judge.IsDeniedNow(ctx, now); denied {
		return r.m.Step(toolcall.Denied{Base: toolcall.Base{At: r.vote.At}, Decision: decide.StoredDecision(d), Vote: &r.vote, Explanation: s.Judge.WhyDenied(ctx, now, d)})
	}
	after := c.Clone()
	after.Votes = append(slices.Clone(c.Votes), r.vote)
	keys := s.Keys()
	tally, err := keys.Tally(after, r.vote.At)
	switch {
	case tally.Agreed:
	case after.Tally(mayCount(keys, r.vote.At)).Agreed: // on record, it would complete the requirement for other engines only, and no one would respond again
		return err
	default:
		return s.leaveOpen(r)
	}
	standings, err := s.Standing.Grant(ctx, after, tally.Approvals, r.vote.At)
	if err != nil {
		return err
	}
	if err := r.m.Step(toolcall.Responded{Base: toolcall.Base{At: r.vote.At}, Vote: r.vote, Remember: standing.AgreedRules(tally.Approvals), StandingApprovals: standings}); err != nil {
		return err
	}
	return s.Begin(r.m)
}

// mayCount reports for each vote whether its signature counts here, or may count on an engine that
// learned of its key earlier.
func mayCount(keys toolcall.ApproverKeys, now time.Time) func(toolcall.Vote) bool {
	return func(v toolcall.Vote) bool {
		err := v.CheckSignature(keys, now)
		return err == nil || errors.Is(err, message.ErrUnavailable) && (keys == nil || now.Before(v.At.Add(toolcall.KeyLag)))
	}
}

// CheckRevoke restricts approvers to the calls for which they may respond.
func (s *Responses) CheckRevoke(ctx context.Context, by toolcall.Principal, c *toolcall.Call) error {
	if by.Role != toolcall.RoleApprover || c.Request == nil {
		return nil
	}
	if !c.Request.Requirement.Accepts(s.newVoter(by).voteOf(ctx, c, toolcall.Response{}, store.JournalTime())) {
		return decide.ForbiddenError(by.Name+" is not an approver of this call", "ask one of them, or an operator")
	}
	return nil
}

// Assign checks the reviewers' limits for a new call whose approval request is about to be
// sent to the people it names. done must be called once the call is written, or is not.
func (s *Responses) Assign(c *toolcall.Call) (done func(), err error) {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return func() {}, nil
	}
	done, err = s.View.Reviewers.Assign(c.Key, c.Request.Requirement)
	if errors.Is(err, message.ErrOverLimit) {
		s.View.Reviewers.Refused()
	}
	return done, err
}

func baseNow() toolcall.Base { return toolcall.Base{At: store.JournalTime()} }

// approveEdited treats an edit as a new proposal by the approver, which is checked
// against the schema and decided again. If the policy denies it, the edit is refused and the
// approval request stays open unchanged. If other rules ask, a new request is opened. If the
// same rules ask as before the edit, it counts as this approver's approval, because they
// wrote the new arguments. All others who must approve are asked again, and earlier
// approvals are void.
func (s *Responses) approveEdited(ctx context.Context, r *response) error {
	c, vote := r.call, r.vote
	asked, before := c.Decision, c.Request
	if err := checkRoom(c, vote); err != nil {
		return err
	}
	if err := r.m.Step(toolcall.Edited{Base: toolcall.Base{At: vote.At}, Vote: vote, Input: *r.in.Input, Remember: vote.Rules}); err != nil {
		return err
	}
	ev, err := s.decideEdited(ctx, r, asked, before)
	if err != nil {
		return err
	}
	if err := s.rememberEdited(ctx, c, &ev, r.in); err != nil {
		return err
	}
	if d := &ev.Decision; d.Behavior == message.BehaviorAsk && ev.EditCounts && decide.EditSuffices(ev, vote) {
		d.Behavior, d.Reason = message.BehaviorAllow, toolcall.EditedReason(vote.By.Name, d.Reason)
	}
	if err := r.m.Step(ev); err != nil || r.m.Call().State != message.ToolCallAllowed {
		return err
	}
	return s.Begin(r.m)
}

// decideEdited decides edited arguments. asked and before are the decision and the approval
// request before the edit.
func (s *Responses) decideEdited(ctx context.Context, r *response, asked *toolcall.Decision, before *toolcall.ApprovalRequest) (ev toolcall.Decided, err error) {
	c := r.call
	if text := s.Judge.WhyUnfit(s.Snapshot(ctx, c, nil)); text != "" {
		if c.Hides() {
			text = "the edited arguments of the tool " + c.Tool + " are not valid for it; the reason is hidden with the arguments"
		}
		return ev, &message.Error{Code: message.CodeInvalid, What: text, Hint: "correct the edited arguments; the approval request is still open"}
	}
	v := s.Standing.Consult(ctx, c, standing.TakeNothing)
	d := v.Decision
	if decide.ShowsHidden(before, c.Input, d.Redact) {
		return ev, decide.ForbiddenError("after this edit, rules would no longer hide everything that they hide of this call", "keep the arguments that the rules match, or remove the hidden values")
	}
	if d.Behavior == message.BehaviorDeny {
		return ev, &message.Error{Code: message.CodeForbidden, What: "the policy denies the edited call: " + d.Reason + "." + d.Denial.Text(),
			Hint: "the approval request is still open: edit it differently, approve it or reject it", Err: &DeniedEditError{decide.StoredDecision(d)}}
	}
	if ev, err = s.Judge.MakeEventAgain(c, asked, d, r.vote.At); err != nil {
		return ev, err
	}
	decide.NoteStandingApprovals(&ev.Decision, v.StandingApprovals)
	ev.Explanation = decide.OnRecord(v.Why)
	ev.EditCounts = ev.EditCounts && !ev.Request.Requirement.Signed // no one can sign an approval request before it exists
	return ev, nil
}

// DeniedEditError is the cause of an error about an edit that the policy denies.
type DeniedEditError struct{ Decision toolcall.Decision }

func (d *DeniedEditError) Error() string { return "denied: " + d.Decision.Reason }

// PreviewEdit returns the call as it would be after an edit of its open approval request,
// or why the edit would be refused. It passes the response through the checks and writes
// nothing.
func (s *Responses) PreviewEdit(ctx context.Context, by toolcall.Principal, c *toolcall.Call, input string) (*toolcall.Call, error) {
	resp := toolcall.Response{Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove, Input: &input}
	if err := checkForm(resp); err != nil {
		return nil, err
	}
	dry := *s
	dry.Begin = func(*toolcall.Machine) error { return nil }
	m := toolcall.Load(c.Clone())
	r := &response{Responses: &dry, voter: dry.newVoter(by), m: m, call: m.Call(), in: resp, now: store.JournalTime()}
	for _, c := range checks {
		if c.counts {
			continue
		}
		if err := c.pass(ctx, r); errors.Is(err, store.ErrNoChange) {
			return r.call, nil
		} else if err != nil {
			return nil, err
		}
		if r.late {
			return nil, &message.Error{Code: message.CodeFinished, What: "the approval request has ended (" + r.call.Cause + ")", Hint: "nothing to do: see the call's result"}
		}
	}
	if err := dry.moveCall(ctx, r); err != nil {
		return nil, err
	}
	return m.Call(), nil
}

// rememberEdited completes the decision about edited arguments with what the editor
// wants remembered. All of that is checked against the edited call: its arguments, its
// approval request, and what the rules that ask about it allow to be remembered. c is
// the call after the edit, before the decision.
func (s *Responses) rememberEdited(ctx context.Context, c *toolcall.Call, ev *toolcall.Decided, resp toolcall.Response) error {
	if ev.Decision.Behavior == message.BehaviorAllow && (len(resp.Rules) > 0 || resp.Remember != nil) {
		return decide.ForbiddenError("the policy allows the edited call without asking, and only approvals can be remembered", "edit without anything to remember")
	}
	after := asEdited(c, *ev)
	if len(resp.Rules) > 0 {
		if after.Hides() {
			return standing.HiddenError()
		}
		if err := s.Standing.Covers(ctx, after, resp.Rules); err != nil {
			return err
		}
	}
	switch {
	case resp.Remember == nil:
		return nil
	case len(after.Tally().Approvals) == 0:
		return decide.ForbiddenError("the edit does not count as an approval of the approval request about the edited call", "edit without remember; an approver of that approval request can remember it")
	}
	terms, err := s.Standing.CompleteTerms(ctx, after, *resp.Remember, ev.At)
	if err != nil {
		return err
	}
	ev.Terms = terms
	after = asEdited(c, *ev)
	if tally := after.Tally(); tally.Agreed {
		ev.StandingApprovals, err = s.Standing.Grant(ctx, after, tally.Approvals, ev.At)
	}
	return err
}

// asEdited returns an edited call with the approval request that the decision opens.
func asEdited(c *toolcall.Call, ev toolcall.Decided) *toolcall.Call {
	after := c.Clone()
	req := ev.Request
	after.State, after.Request, after.Digest, after.Suggested, after.Step = message.ToolCallAsking, &req, ev.Digest, ev.Suggested, ev.Step
	after.Redact = nil
	after.Votes = slices.Clone(c.Votes)
	if n := len(after.Votes); ev.EditCounts && n > 0 {
		after.Votes[n-1] = ev.Counted(after.Votes[n-1])
	}
	return after
}
