package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
)

// leaseFold is a Sink that keeps each remembered rule as its last fact has it,
// or as the approval made it.
type leaseFold struct {
	leases map[message.LeaseID]*message.Lease
	end    func()
}

// Record implements message.Sink.
func (f *leaseFold) Record(r message.Record) {
	switch {
	case r.Fact == nil:
	case r.Fact.Lease != nil:
		l := *r.Fact.Lease
		l.Seq = r.Seq
		f.leases[l.ID] = &l
	case r.Fact.Call != nil:
		for _, l := range r.Fact.Call.Granted() {
			if f.leases[l.ID] == nil {
				f.leases[l.ID] = &l
			}
		}
	}
}

// CaughtUp implements message.Sink.
func (f *leaseFold) CaughtUp() { f.end() }

func (r *Reader) allLeases(ctx context.Context) (map[message.LeaseID]*message.Lease, error) {
	ctx, done := context.WithCancelCause(ctx)
	fold := &leaseFold{leases: map[message.LeaseID]*message.Lease{}, end: func() { done(errCaughtUp) }}
	if err := r.journal.Watch(ctx, 0, fold); !errors.Is(err, errCaughtUp) {
		return nil, err
	}
	return fold.leases, nil
}

// Leases folds the whole journal; there is one page.
func (r *Reader) Leases(ctx context.Context, q message.LeasesRequest) (message.LeasesReply, error) {
	all, err := r.allLeases(ctx)
	if err != nil {
		return message.LeasesReply{}, err
	}
	out, now := message.LeasesReply{Leases: []*message.Lease{}}, time.Now()
	for _, l := range slices.SortedFunc(maps.Values(all), func(a, b *message.Lease) int { return cmp.Compare(a.ID, b.ID) }) {
		if (q.Tool == "" || l.Tool == q.Tool) && (q.All || l.State(now) == message.LeaseActive) && l.ID > q.After {
			out.Leases = append(out.Leases, l)
		}
	}
	return out, nil
}

// ShowLease also finds a remembered rule that was never used.
func (r *Reader) ShowLease(ctx context.Context, q message.ShowLeaseRequest) (message.ShowLeaseReply, error) {
	rep, err := r.Port.ShowLease(ctx, q)
	if !errors.Is(err, message.ErrNotFound) {
		return rep, err
	}
	all, ferr := r.allLeases(ctx)
	if ferr != nil {
		return rep, ferr
	}
	if l := all[q.ID]; l != nil {
		return message.ShowLeaseReply{Lease: l, Uses: []message.LeaseUse{}}, nil
	}
	return rep, err
}

// Explain knows no policy: that is an engine's.
func (r *Reader) Explain(ctx context.Context, q message.ExplainRequest) (message.ExplainReply, error) {
	shown, err := r.Show(ctx, message.ShowRequest(q))
	if err != nil {
		return message.ExplainReply{}, err
	}
	c := shown.Call
	out := message.ExplainReply{Key: c.Key, State: c.State, Decision: c.Decision, Leases: []message.LeaseStanding{}, Withheld: "no engine runs here, and no policy is in force"}
	for _, id := range c.Decision.Leases() {
		l, err := r.ShowLease(ctx, message.ShowLeaseRequest{ID: id})
		if err != nil {
			return message.ExplainReply{}, err
		}
		out.Leases = append(out.Leases, l.Lease.Standing(time.Now()))
	}
	return out, nil
}
