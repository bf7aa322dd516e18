package enginetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func revokeRaceCases() []testCase[*world] {
	return []testCase[*world]{
		{"a local call", func(w *world) { revokedWhileBeginning(w, deploy) }},
		{"an external call", func(w *world) { revokedWhileBeginning(w, askOut) }},
		{"a worker, and a replica that lags", revokedWhileStarting},
		{"by a plain rule", plainRevokedWhileBeginning},
		{"once more, after it was cut off", revokedAgain},
		{"many calls over three engines", revokedAmongMany},
	}
}

// begins reports whether a fact begins a call that relies on a lease: from then
// on its effect may happen.
func begins(f *message.Fact, id message.LeaseID) bool {
	return f.Call != nil && f.Note == nil && slices.Contains(f.Call.Decision.Leases(), id) && slices.ContainsFunc(f.Path, func(s message.Step) bool {
		return s.Cause == "start" || s.Cause == "submit" && f.Call.Placement == message.PlaceExternal
	})
}

// holdBeginning holds back the fact with which a call that relies on the lease
// begins. arrived is closed when it is about to be written, release lets it go.
func (r *replica) holdBeginning(id message.LeaseID) (arrived <-chan struct{}, release func()) {
	held, free := make(chan struct{}), make(chan struct{})
	var once, end sync.Once
	r.cord.onAppend(func(ctx context.Context, f *message.Fact, prev uint64, store appendFunc) (uint64, error) {
		if begins(f, id) {
			once.Do(func() { close(held) })
			select {
			case <-free:
			case <-ctx.Done():
			}
		}
		return store(ctx, f, prev)
	})
	return held, func() { end.Do(func() { close(free) }) }
}

// wantNoneAfter checks that no call that relies on the lease began after the
// records that were there when its revocation was acknowledged.
func (w *world) wantNoneAfter(id message.LeaseID, acknowledged uint64) {
	w.Helper()
	for _, r := range w.records() {
		if r.Fact != nil && r.Seq > acknowledged && begins(r.Fact, id) {
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
	l := e.remember(e.ask("c", tool, `{}`), message.LeaseTerms{Uses: 3})
	other.knows(l)
	w.revokeMidway(e, other, l, call("d", tool, `{}`))
}

func plainRevokedWhileBeginning(w *world) {
	e, other := w.engine(), w.engine()
	l := e.accept(e.askCommand("c", "npm install x"))
	other.knows(l)
	w.revokeMidway(e, other, l, command("d", "npm install y"))
}

// revokeMidway lets one engine begin a call and another revoke what allows it in
// between.
func (w *world) revokeMidway(e, other *replica, l *message.Lease, b message.ToolCallBlock) {
	w.Helper()
	arrived, release := e.holdBeginning(l.ID)
	defer release()
	_, releaseOther := other.holdBeginning(l.ID) // it may think that e is dead, and begin the call itself
	defer releaseOther()
	var proposed sync.WaitGroup
	proposed.Go(func() { _, _ = e.bot().Propose(context.Background(), request(b)) })
	select {
	case <-arrived:
	case <-w.Context().Done():
		w.Fatal("the call does not begin")
	}
	w.must(second(other.operator().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID})))
	acknowledged := w.end()
	release()
	releaseOther()
	proposed.Wait()
	w.wantResult(e.finished(w.key(b.ID)), message.ToolResultDenied, string(l.ID))
	w.wantNoneAfter(l.ID, acknowledged)
	w.wantRuns(w.key(b.ID), 0)
}

func revokedWhileStarting(w *world) {
	w.policy.use(w, remembering(nil))
	e, other := w.engine(), w.engine()
	l := e.remember(e.ask("c", askRemote, `{}`), message.LeaseTerms{Uses: 3})
	other.knows(l)
	catchUp := other.cord.lag()
	c := e.propose(call("d", askRemote, `{}`))[0]
	arrived, release := e.holdBeginning(l.ID)
	defer release()
	var both sync.WaitGroup
	var acknowledged uint64
	both.Go(func() { _, _ = e.worker("w1").Start(context.Background(), startRequest(c, "x")) })
	<-arrived
	both.Go(func() {
		if _, err := other.operator().RevokeLease(context.Background(), message.RevokeLeaseRequest{ID: l.ID}); err != nil {
			w.Errorf("revoke: %v", err)
		}
		acknowledged = w.end()
		release()
	})
	w.until("the revocation is on record", func() bool { return e.lease(l.ID).Revoked != nil })
	catchUp()
	both.Wait()
	w.wantResult(e.finished(c.Key), message.ToolResultDenied, string(l.ID))
	w.wantNoneAfter(l.ID, acknowledged)
}

// revokedAgain: who revokes what is revoked already comes to the same end.
func revokedAgain(w *world) {
	w.policy.use(w, remembering(nil))
	e, other := w.engine(), w.engine()
	l := e.remember(e.ask("c", askRemote, `{}`), message.LeaseTerms{})
	other.knows(l)
	c := e.propose(call("d", askRemote, `{}`))[0]
	other.state(c.Key, message.ToolCallSubmitted)
	other.cord.onAppend(refuse(func(f *message.Fact) bool { return f.Call != nil }, cutError("append")))
	_, err := other.operator().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID})
	w.wantErr(err, message.ErrUnavailable)
	w.must(second(e.operator().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID})))
	if c := w.known(c.Key); c.Open() {
		w.Errorf("acknowledged, and the call is %s", describe(c))
	}
}

func revokedAmongMany(w *world) {
	w.policy.use(w, remembering(nil))
	engines := []*replica{w.engine(), w.engine(), w.engine()}
	l := engines[0].remember(engines[0].ask("c", deploy, `{}`), message.LeaseTerms{})
	engines[0].finished(w.key("c"))
	for _, e := range engines {
		e.knows(l)
	}
	var acknowledged uint64
	var wg sync.WaitGroup
	const each = 12
	for i, e := range engines {
		for n := range each {
			wg.Go(func() {
				if i == 1 && n == each/2 {
					if _, err := e.operator().RevokeLease(w.Context(), message.RevokeLeaseRequest{ID: l.ID}); err != nil {
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
	w.until("nothing waits to begin", func() bool {
		open, err := engines[0].operator().List(w.Context(), message.ListRequest{States: []message.ToolCallState{message.ToolCallAllowed}})
		return err == nil && len(open.Calls) == 0
	})
	w.wantNoneAfter(l.ID, acknowledged)
}
