package standing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Bounds of one page, and of the uses shown with one standing approval.
const (
	mostStandingApprovals = 200
	mostUses              = 100
)

// List lists standing approvals, page by page.
func (a *Approvals) List(r toolcall.StandingApprovalsRequest) toolcall.StandingApprovalsReply {
	if r.Limit <= 0 || r.Limit > mostStandingApprovals {
		r.Limit = mostStandingApprovals
	}
	out := toolcall.StandingApprovalsReply{StandingApprovals: []*toolcall.StandingApproval{}}
	for _, sa := range a.View.Book.All() {
		if sa.ID <= r.After || r.Tool != "" && sa.Tool != r.Tool {
			continue
		}
		shown := a.JudgeState(sa)
		if !r.All && shown.Judged != toolcall.StandingActive {
			continue
		}
		if len(out.StandingApprovals) == r.Limit {
			out.Next = out.StandingApprovals[r.Limit-1].ID
			break
		}
		out.StandingApprovals = append(out.StandingApprovals, shown)
	}
	return out
}

// JudgeState returns a copy of a standing approval for a reply, with the state by which this engine decides.
func (a *Approvals) JudgeState(sa *toolcall.StandingApproval) *toolcall.StandingApproval {
	shown := *sa
	shown.Judged = sa.State(a.View.Book.Clock(sa, store.JournalTime()))
	return &shown
}

// Last returns a standing approval as it is in the journal.
func (a *Approvals) Last(ctx context.Context, id toolcall.StandingID) (*toolcall.StandingApproval, error) {
	known := cmp.Or(a.View.Book.Get(id), &toolcall.StandingApproval{ID: id, Space: a.Space})
	if id == "" || len(id) > toolcall.MaxIDBytes {
		return nil, unknownError(id)
	}
	sa, err := a.Store.LastStandingApproval(ctx, known)
	if err == nil && sa.GrantedAt.IsZero() {
		err = unknownError(id)
	}
	if err != nil {
		return nil, err
	}
	return sa, nil
}

func unknownError(id toolcall.StandingID) error {
	return &message.Error{Code: message.CodeNotFound, What: fmt.Sprintf("there is no standing approval %q", clipWord(string(id))), Hint: "askance standing list shows them"}
}

// Show returns a standing approval with its latest uses.
func (a *Approvals) Show(ctx context.Context, id toolcall.StandingID) (toolcall.ShowStandingApprovalReply, error) {
	sa, err := a.Last(ctx, id)
	if err != nil {
		return toolcall.ShowStandingApprovalReply{}, err
	}
	out := toolcall.ShowStandingApprovalReply{Standing: a.JudgeState(sa), Uses: []toolcall.StandingUse{}}
	if sa.Seq == 0 {
		return out, nil
	}
	history, err := a.Journal.History(ctx, sa.Key())
	if err != nil {
		return toolcall.ShowStandingApprovalReply{}, err
	}
	for _, r := range history {
		if r.Record != nil && r.Record.Standing != nil && r.Record.Standing.Use != nil {
			out.Uses = append(out.Uses, *r.Record.Standing.Use)
		}
	}
	out.Uses = out.Uses[max(0, len(out.Uses)-mostUses):]
	return out, nil
}

// Revoke ends a standing approval, and revokes the calls that it allowed and that have not
// begun. Revoking it again completes an earlier revocation.
func (a *Approvals) Revoke(ctx context.Context, by toolcall.Principal, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error) {
	if len(r.Reason) > toolcall.MaxTextBytes {
		return nil, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("reason has %d bytes, the limit is %d", len(r.Reason), toolcall.MaxTextBytes), Hint: "shorten it"}
	}
	entity := store.Entity[*toolcall.StandingApproval]{Key: toolcall.Key{Space: a.Space, Entity: toolcall.EntityName(r.ID)}, Read: func(ctx context.Context) (*toolcall.StandingApproval, uint64, error) {
		sa, err := a.Last(ctx, r.ID)
		if err != nil {
			return nil, 0, err
		}
		return sa, sa.Seq, nil
	}}
	var shown toolcall.StandingApproval
	sa, seq, err := store.Update(ctx, a.Store, entity, func(_ context.Context, sa *toolcall.StandingApproval) (*toolcall.EventRecord, error) {
		if by.Role == toolcall.RoleApprover && !slices.ContainsFunc(sa.GrantedBy, func(v toolcall.Vote) bool { return toolcall.IsSamePerson(v.By.Name, by.Name) }) {
			return nil, decide.ForbiddenError(by.Name+" did not grant this standing approval", "ask "+nameGrantors(sa)+" or an operator")
		}
		now := store.JournalTime()
		switch state := sa.State(now); state {
		case toolcall.StandingActive, toolcall.StandingUsedUp: // calls that used it up may still be waiting to begin
		case toolcall.StandingRevoked:
			return nil, store.ErrNoChange // an earlier revocation may have stopped halfway
		default:
			return nil, &message.Error{Code: message.CodeFinished, What: "the standing approval is " + string(state), Hint: "nothing to do: it allows no further call"}
		}
		next := *sa
		next.Revoked, next.Use, next.Seq = &toolcall.Revocation{By: by, At: now, Reason: r.Reason}, nil, 0
		shown = next
		rec := a.Store.NewRecord(by, now)
		rec.Standing = &next
		return rec, nil
	})
	switch {
	case errors.Is(err, store.ErrNoChange):
		return a.JudgeState(sa), a.revokeCalls(ctx, sa.ID, sa.Seq)
	case err != nil:
		return nil, err
	}
	shown.Seq = seq
	return a.JudgeState(&shown), a.revokeCalls(ctx, sa.ID, seq)
}

// revokeCalls revokes the calls that a standing approval allowed and no worker has
// started. Once it returns nil, no call that relies on the approval can begin, because a
// call reads it between the record that allows the call and the record that begins it. If
// that read came after the revocation (at seq), it finds the revocation. If it came before,
// the allowing record is older than seq and now in the view, and the first of the two
// writes, start or revoke, wins.
func (a *Approvals) revokeCalls(ctx context.Context, id toolcall.StandingID, seq uint64) error {
	if err := a.Store.WaitForSequence(ctx, seq); err != nil {
		return notRevokedError(err)
	}
	for _, c := range a.View.OpenCalls() {
		if !reliesOnStandingApproval(c, id) {
			continue
		}
		_, err := a.Update(ctx, "revoke", c.Key, a.Self, func(ctx context.Context, m *toolcall.Machine) error {
			if !reliesOnStandingApproval(m.Call(), id) {
				return store.ErrNoChange
			}
			return m.Step(toolcall.Revoked{Base: toolcall.Base{At: store.JournalTime()}, Reason: "the standing approval " + string(id) + " that allowed it is revoked"})
		})
		if err != nil && !errors.Is(err, message.ErrFinished) {
			return notRevokedError(err)
		}
	}
	return nil
}

// reliesOnStandingApproval reports whether a call that a standing approval allowed may still begin.
func reliesOnStandingApproval(c *toolcall.Call, id toolcall.StandingID) bool {
	allowed := c.State == message.ToolCallAllowed || c.State == message.ToolCallSubmitted
	return allowed && !c.Started() && c.Blocked != toolcall.BlockedUnknown && slices.Contains(c.Decision.StandingApprovals(), id)
}

// notRevokedError is the error when the revocation is recorded, but some call may still
// begin.
func notRevokedError(err error) error {
	return &message.Error{Code: message.CodeUnavailable, What: "the standing approval is revoked, but some calls that it had allowed could not be revoked", Hint: "revoke it again", Err: err}
}
