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

// Parts are what Responses works with.
type Parts struct {
	Space    toolcall.SpaceID
	Self     toolcall.Principal // the engine
	View     *view.View
	Judge    *decide.Judge
	Standing *standing.Approvals
	// Snapshot is a call as it is decided now, with these rules of its session.
	Snapshot func(c *toolcall.Call, rules []message.PermissionRule) decide.Snapshot
	// Update moves a call on.
	Update func(ctx context.Context, op string, key toolcall.Key, by toolcall.Principal, change store.Change) (*toolcall.Call, error)
	// Begin takes an allowed call as far as it goes within the same event record.
	Begin func(m *toolcall.Machine) error
	// Groups are the groups of a person, and where they come from.
	Groups func(ctx context.Context, by toolcall.Principal) (groups []string, source string, err error)
	// Keys are the keys with which approvers sign; nil: none.
	Keys func() toolcall.ApproverKeys
}

// Responses takes responses to the open approval requests of a space.
type Responses struct{ Parts }

// New makes the responses of a space.
func New(p Parts) *Responses { return &Responses{p} }

// Take passes a response through the checks and moves its call.
func (s *Responses) Take(ctx context.Context, by toolcall.Principal, a toolcall.Response) (*toolcall.Call, error) {
	a.Space = s.Space
	if err := checkForm(a); err != nil {
		return nil, store.OpError("submit_response", err)
	}
	r := &response{Responses: s, voter: s.voter(by), limit: limit{ledger: &s.View.Reviewers}}
	c, err := s.Update(ctx, "submit_response", a.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		r.m, r.call, r.in, r.now, r.late = m, m.Call(), a, now(), false
		for _, check := range checks {
			if err := check.pass(ctx, r); err != nil {
				return err
			}
			if r.late {
				return nil // the approval request has ended, and that is what is written
			}
		}
		return s.move(ctx, r)
	})
	r.limit.end(err)
	if err == nil && r.late {
		return nil, &message.Error{Code: message.CodeFinished, Op: "submit_response", Call: toolcall.ErrorCall(c), What: "the answer came too late: the approval request is over (" + c.Cause + ")", Hint: "nothing to do: see the call's result"}
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
	vote  toolcall.Vote // the response as event records keep it
	now   time.Time
	late  bool // the approval request has ended before it
}

// move moves the call by a response that passed the checks.
func (s *Responses) move(ctx context.Context, r *response) error {
	switch {
	case r.in.Kind == toolcall.ResponseSkip || r.in.Kind == toolcall.ResponseDelegate:
		return s.leaveOpen(r)
	case r.in.Kind != toolcall.ResponseApprove:
		return r.m.Step(toolcall.Responded{Base: base(), Vote: r.vote, Output: r.in.Output})
	case decide.IsEdit(r.call, r.in):
		return s.approveEdited(ctx, r)
	}
	return s.approve(ctx, r)
}

// leaveOpen records a response that leaves the approval request open.
func (s *Responses) leaveOpen(r *response) error {
	if err := checkRoom(r.call, r.vote); err != nil {
		return err
	}
	return r.m.Step(toolcall.Voted{Base: base(), Vote: r.vote})
}

// approve counts an approval of what was asked. The one that completes the
// requirement allows the call, unless a deny rule came into force since.
func (s *Responses) approve(ctx context.Context, r *response) error {
	c := r.call
	now := s.Snapshot(c, s.View.Rules(c.SessionKey()))
	if d, denied := s.Judge.IsDeniedNow(ctx, now); denied {
		return r.m.Step(toolcall.Denied{Base: toolcall.Base{At: r.vote.At}, Decision: decide.StoredDecision(d), Vote: &r.vote, Explanation: s.Judge.WhyDenied(ctx, now, d)})
	}
	after := c.Clone()
	after.Votes = append(slices.Clone(c.Votes), r.vote)
	if !after.Tally().Agreed {
		return s.leaveOpen(r)
	}
	standings, err := s.Standing.Grant(ctx, after, r.vote.At)
	if err != nil {
		return err
	}
	if err := r.m.Step(toolcall.Responded{Base: base(), Vote: r.vote, Remember: standing.AgreedRules(after), StandingApprovals: standings}); err != nil {
		return err
	}
	return s.Begin(r.m)
}

// CheckRevoke keeps approvers to the calls for which they may answer.
func (s *Responses) CheckRevoke(ctx context.Context, by toolcall.Principal, c *toolcall.Call) error {
	if by.Role != toolcall.RoleApprover || c.Request == nil {
		return nil
	}
	if !c.Request.Requirement.Accepts(s.voter(by).vote(ctx, c, toolcall.Response{}, now())) {
		return decide.Forbid(by.Name+" is not among those who may answer for this call", "ask one of them, or an operator")
	}
	return nil
}

// Assign asks the limits of reviewers whether a new call's approval request may be put to
// the people whom it names. done must be called when the call is written, or is not.
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

// now is the time as the journal keeps it: without a monotonic reading.
func now() time.Time { return time.Now().UTC().Round(0) }

func base() toolcall.Base { return toolcall.Base{At: now()} }
