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

func (p *Port) leases(_ context.Context, r message.LeasesRequest) (message.LeasesReply, error) {
	return p.e.listLeases(r), nil
}

func (p *Port) showLease(ctx context.Context, r message.ShowLeaseRequest) (message.ShowLeaseReply, error) {
	rep, err := p.e.showLease(ctx, r.ID)
	if err != nil {
		return rep, opError("show_lease", err)
	}
	return rep, nil
}

func (p *Port) revokeLease(ctx context.Context, r message.RevokeLeaseRequest) (*message.Lease, error) {
	l, err := p.e.revokeLease(ctx, p.by, r)
	if err != nil {
		return nil, opError("revoke_lease", err)
	}
	return l, nil
}

func (e *Engine) listLeases(r message.LeasesRequest) message.LeasesReply {
	if r.Limit <= 0 || r.Limit > mostLeases {
		r.Limit = mostLeases
	}
	now := stamp().At
	out := message.LeasesReply{Leases: []*message.Lease{}}
	for _, l := range e.view.Book.All() {
		if l.ID <= r.After || r.Tool != "" && l.Tool != r.Tool || !r.All && l.State(now) != message.LeaseActive {
			continue
		}
		if len(out.Leases) == r.Limit {
			out.Next = out.Leases[r.Limit-1].ID
			break
		}
		shown := *l
		out.Leases = append(out.Leases, &shown)
	}
	return out
}

// knownLease is a lease as the journal has it.
func (e *Engine) knownLease(ctx context.Context, id message.LeaseID) (*message.Lease, error) {
	known := e.view.Book.Get(id)
	if known == nil {
		known = &message.Lease{ID: id, Space: e.space}
	}
	if id == "" || len(id) > message.MaxIDBytes {
		return nil, noLease(id)
	}
	l, err := e.store.LastLease(ctx, known)
	if err == nil && l.GrantedAt.IsZero() {
		err = noLease(id)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func noLease(id message.LeaseID) error {
	return &message.Error{Code: message.CodeNotFound, What: fmt.Sprintf("no remembered rule %q is known", clipWord(string(id))), Hint: "look at the list of remembered rules"}
}

func (e *Engine) showLease(ctx context.Context, id message.LeaseID) (message.ShowLeaseReply, error) {
	l, err := e.knownLease(ctx, id)
	if err != nil {
		return message.ShowLeaseReply{}, err
	}
	out := message.ShowLeaseReply{Lease: l, Uses: []message.LeaseUse{}}
	if l.Seq == 0 {
		return out, nil
	}
	history, err := e.journal.History(ctx, l.Key())
	if err != nil {
		return message.ShowLeaseReply{}, err
	}
	for _, r := range history {
		if r.Record != nil && r.Record.Lease != nil && r.Record.Lease.Use != nil {
			out.Uses = append(out.Uses, *r.Record.Lease.Use)
		}
	}
	out.Uses = out.Uses[max(0, len(out.Uses)-mostUses):]
	return out, nil
}

// revokeLease ends a remembered rule, and takes back what it allowed and what
// has not begun. One that is revoked already stays so.
func (e *Engine) revokeLease(ctx context.Context, by message.Principal, r message.RevokeLeaseRequest) (*message.Lease, error) {
	if len(r.Reason) > message.MaxTextBytes {
		return nil, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("reason has %d bytes, the limit is %d", len(r.Reason), message.MaxTextBytes), Hint: "shorten it"}
	}
	entity := store.Entity[*message.Lease]{Key: message.Key{Space: e.space, Lease: r.ID}, Read: func(ctx context.Context) (*message.Lease, uint64, error) {
		l, err := e.knownLease(ctx, r.ID)
		if err != nil {
			return nil, 0, err
		}
		return l, l.Seq, nil
	}}
	var shown message.Lease
	l, seq, err := store.Update(ctx, e.store, "revoke_lease", entity, func(_ context.Context, l *message.Lease) (*message.EventRecord, error) {
		if by.Role == message.RoleApprover && !slices.ContainsFunc(l.GrantedBy, func(v message.Vote) bool { return v.By.Name == by.Name }) {
			return nil, refused(by.Name+" has not given this remembered rule", "ask "+grantors(l)+" or an operator")
		}
		now := stamp().At
		switch state := l.State(now); state {
		case message.LeaseActive, message.LeaseUsedUp: // calls that used it up may not have begun
		case message.LeaseRevoked:
			return nil, errNoChange // whoever revoked it may not have come to the end
		default:
			return nil, &message.Error{Code: message.CodeFinished, What: "the remembered rule is " + string(state), Hint: "nothing to do: it answers for no further call"}
		}
		next := *l
		next.Revoked, next.Use, next.Seq = &message.Revocation{By: by, At: now, Reason: r.Reason}, nil, 0
		shown = next
		f := e.store.NewRecord(by, now)
		f.Lease = &next
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

// takeBack ends what a remembered rule allowed and what nobody has started. It
// returns nil only if no call can begin any more that relies on the rule, whose
// revocation stands at seq: a call begins by an event record of its own after the event record
// that allows it, and the rule is read in between. So the fact that allows it is
// older than seq or the rule is found revoked; and what is older is in the view
// now, where of this step and of the start the first to be written wins.
func (e *Engine) takeBack(ctx context.Context, id message.LeaseID, seq uint64) error {
	if err := e.store.WaitForSequence(ctx, seq); err != nil {
		return notTakenBack(err)
	}
	for _, c := range e.view.OpenCalls() {
		if !reliesOnLease(c, id) {
			continue
		}
		_, err := e.update(ctx, "revoke", c.Key, e.self(), func(ctx context.Context, m *toolcall.Machine) error {
			if !reliesOnLease(m.Call(), id) {
				return errNoChange
			}
			return m.Step(toolcall.Revoked{Base: stamp(), Reason: "the remembered rule " + string(id) + " that allowed it is revoked"})
		})
		if err != nil && !errors.Is(err, message.ErrFinished) {
			return notTakenBack(err)
		}
	}
	return nil
}

// reliesOnLease reports whether a call may begin by what a lease has allowed.
func reliesOnLease(c *message.Call, id message.LeaseID) bool {
	allowed := c.State == message.ToolCallAllowed || c.State == message.ToolCallSubmitted
	return allowed && !c.Started() && slices.Contains(c.Decision.Leases(), id)
}

// notTakenBack: the revocation is on record, and it is not sure that nothing
// begins any more.
func notTakenBack(err error) error {
	return &message.Error{Code: message.CodeUnavailable, What: "the remembered rule is revoked and allows nothing more; what it had allowed could not be taken back to the end", Hint: "revoke it again", Err: err}
}
