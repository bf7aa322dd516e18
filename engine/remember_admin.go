package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// mostLeases is the most that one page lists, mostUses how many uses are shown.
const (
	mostLeases = 200
	mostUses   = 100
)

func (p *Port) standingApprovals(_ context.Context, r message.StandingApprovalsRequest) (message.StandingApprovalsReply, error) {
	return p.e.listStandingApprovals(r), nil
}

func (p *Port) showStandingApproval(ctx context.Context, r message.ShowStandingApprovalRequest) (message.ShowStandingApprovalReply, error) {
	rep, err := p.e.showStandingApproval(ctx, r.ID)
	if err != nil {
		return rep, opError("show_standing_approval", err)
	}
	return rep, nil
}

func (p *Port) revokeStandingApproval(ctx context.Context, r message.RevokeStandingApprovalRequest) (*message.StandingApproval, error) {
	l, err := p.e.revokeStandingApproval(ctx, p.by, r)
	if err != nil {
		return nil, opError("revoke_standing_approval", err)
	}
	return l, nil
}

func (e *Engine) listStandingApprovals(r message.StandingApprovalsRequest) message.StandingApprovalsReply {
	if r.Limit <= 0 || r.Limit > mostLeases {
		r.Limit = mostLeases
	}
	now := stamp().At
	out := message.StandingApprovalsReply{StandingApprovals: []*message.StandingApproval{}}
	for _, l := range e.view.Book.All() {
		if l.ID <= r.After || r.Tool != "" && l.Tool != r.Tool || !r.All && l.State(now) != message.StandingActive {
			continue
		}
		if len(out.StandingApprovals) == r.Limit {
			out.Next = out.StandingApprovals[r.Limit-1].ID
			break
		}
		shown := *l
		out.StandingApprovals = append(out.StandingApprovals, &shown)
	}
	return out
}

// knownStandingApproval is a standing approval as the journal has it.
func (e *Engine) knownStandingApproval(ctx context.Context, id message.StandingID) (*message.StandingApproval, error) {
	known := e.view.Book.Get(id)
	if known == nil {
		known = &message.StandingApproval{ID: id, Space: e.space}
	}
	if id == "" || len(id) > message.MaxIDBytes {
		return nil, noStandingApproval(id)
	}
	l, err := e.store.LastStandingApproval(ctx, known)
	if err == nil && l.GrantedAt.IsZero() {
		err = noStandingApproval(id)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func noStandingApproval(id message.StandingID) error {
	return &message.Error{Code: message.CodeNotFound, What: fmt.Sprintf("no standing approval %q is known", clipWord(string(id))), Hint: "look at the list of standing approvals"}
}

func (e *Engine) showStandingApproval(ctx context.Context, id message.StandingID) (message.ShowStandingApprovalReply, error) {
	l, err := e.knownStandingApproval(ctx, id)
	if err != nil {
		return message.ShowStandingApprovalReply{}, err
	}
	out := message.ShowStandingApprovalReply{Standing: l, Uses: []message.StandingUse{}}
	if l.Seq == 0 {
		return out, nil
	}
	history, err := e.journal.History(ctx, l.Key())
	if err != nil {
		return message.ShowStandingApprovalReply{}, err
	}
	for _, r := range history {
		if r.Record != nil && r.Record.Standing != nil && r.Record.Standing.Use != nil {
			out.Uses = append(out.Uses, *r.Record.Standing.Use)
		}
	}
	out.Uses = out.Uses[max(0, len(out.Uses)-mostUses):]
	return out, nil
}

// revokeStandingApproval ends a standing approval, and takes back what it allowed and what
// has not begun. One that is revoked already stays so.
func (e *Engine) revokeStandingApproval(ctx context.Context, by message.Principal, r message.RevokeStandingApprovalRequest) (*message.StandingApproval, error) {
	if len(r.Reason) > message.MaxTextBytes {
		return nil, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("reason has %d bytes, the limit is %d", len(r.Reason), message.MaxTextBytes), Hint: "shorten it"}
	}
	entity := store.Entity[*message.StandingApproval]{Key: message.Key{Space: e.space, Standing: r.ID}, Read: func(ctx context.Context) (*message.StandingApproval, uint64, error) {
		l, err := e.knownStandingApproval(ctx, r.ID)
		if err != nil {
			return nil, 0, err
		}
		return l, l.Seq, nil
	}}
	var shown message.StandingApproval
	l, seq, err := store.Update(ctx, e.store, "revoke_standing_approval", entity, func(_ context.Context, l *message.StandingApproval) (*message.EventRecord, error) {
		if by.Role == message.RoleApprover && !slices.ContainsFunc(l.GrantedBy, func(v message.Vote) bool { return v.By.Name == by.Name }) {
			return nil, refused(by.Name+" has not given this standing approval", "ask "+grantors(l)+" or an operator")
		}
		now := stamp().At
		switch state := l.State(now); state {
		case message.StandingActive, message.StandingUsedUp: // calls that used it up may not have begun
		case message.StandingRevoked:
			return nil, errNoChange // whoever revoked it may not have come to the end
		default:
			return nil, &message.Error{Code: message.CodeFinished, What: "the standing approval is " + string(state), Hint: "nothing to do: it answers for no further call"}
		}
		next := *l
		next.Revoked, next.Use, next.Seq = &message.Revocation{By: by, At: now, Reason: r.Reason}, nil, 0
		shown = next
		f := e.store.NewRecord(by, now)
		f.Standing = &next
		return f, nil
	})
	switch {
	case errors.Is(err, errNoChange):
		return l, e.takeBack(ctx, l.ID, l.Seq)
	case err != nil:
		return nil, err
	}
	shown.Seq = seq
	return &shown, e.takeBack(ctx, l.ID, seq)
}

// takeBack ends what a standing approval allowed and what nobody has started. It
// returns nil only if no call can begin any more that relies on the rule, whose
// revocation stands at seq: a call begins by an event record of its own after the event record
// that allows it, and the rule is read in between. So the fact that allows it is
// older than seq or the rule is found revoked; and what is older is in the view
// now, where of this step and of the start the first to be written wins.
func (e *Engine) takeBack(ctx context.Context, id message.StandingID, seq uint64) error {
	if err := e.store.WaitForSequence(ctx, seq); err != nil {
		return notTakenBack(err)
	}
	for _, c := range e.view.OpenCalls() {
		if !reliesOnStandingApproval(c, id) {
			continue
		}
		_, err := e.update(ctx, "revoke", c.Key, e.self(), func(ctx context.Context, m *toolcall.Machine) error {
			if !reliesOnStandingApproval(m.Call(), id) {
				return errNoChange
			}
			return m.Step(toolcall.Revoked{Base: stamp(), Reason: "the standing approval " + string(id) + " that allowed it is revoked"})
		})
		if err != nil && !errors.Is(err, message.ErrFinished) {
			return notTakenBack(err)
		}
	}
	return nil
}

// reliesOnStandingApproval reports whether a call may begin by what a standing approval has allowed.
func reliesOnStandingApproval(c *message.Call, id message.StandingID) bool {
	allowed := c.State == message.ToolCallAllowed || c.State == message.ToolCallSubmitted
	return allowed && !c.Started() && slices.Contains(c.Decision.StandingApprovals(), id)
}

// notTakenBack: the revocation is on record, and it is not sure that nothing
// begins any more.
func notTakenBack(err error) error {
	return &message.Error{Code: message.CodeUnavailable, What: "the standing approval is revoked and allows nothing more; what it had allowed could not be taken back to the end", Hint: "revoke it again", Err: err}
}
