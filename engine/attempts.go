package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// attempts begins allowed calls, and decides what happens after an attempt was lost
// or no worker took it.
type attempts struct {
	*core
	replies *replies
}

// beginAllowed starts an allowed call here, or submits it, in the same event record.
// A call that relies on a standing approval begins in a record of its own: a revocation
// then finds it allowed, and one of the two writes wins.
func (at *attempts) beginAllowed(m *toolcall.Machine) error {
	c := m.Call()
	if len(c.Decision.StandingApprovals()) > 0 && c.Placement != toolcall.PlaceRemote { // a remote call is checked again when its worker asks to start
		return nil
	}
	return at.beginAttempt(m)
}

func (at *attempts) beginAttempt(m *toolcall.Machine) error {
	c := m.Call()
	t := at.toolNamed(c.Tool)
	base := baseNow()
	if len(m.Path()) > 0 { // one record has one time
		base.At = c.UpdatedAt
	}
	switch c.Placement {
	case toolcall.PlaceLocal:
		if !at.canRun(c.Tool) {
			return nil // stays allowed until an engine that has the tool starts it
		}
		return m.Step(at.localStart(c, t, base, 1))
	case toolcall.PlaceExternal:
		return m.Step(toolcall.Submitted{Base: base, Attempt: toolcall.Attempt{Number: 1, OfferedAt: base.At}})
	default:
		a, err := at.makeOffer(c, t, 1, 0, base.At)
		if err != nil {
			return err
		}
		return m.Step(toolcall.Submitted{Base: base, Attempt: a})
	}
}

func (at *attempts) localStart(c *toolcall.Call, t Tool, base toolcall.Base, number int) toolcall.Started {
	return toolcall.Started{
		Base: base, Attempt: number, Worker: at.cfg.id, Claim: store.RandomHex(8), LeaseMS: t.Lease.Milliseconds(), Deadline: at.judge.Deadline(c, baseNow().At), // not base.At: the record's time may be older
	}
}

// makeOffer makes attempt number of a remote call with a fresh signed grant.
// offers counts how often this attempt was offered before.
func (at *attempts) makeOffer(c *toolcall.Call, t Tool, number, offers int, now time.Time) (toolcall.Attempt, error) {
	until := now.Add(t.offerFor(offers))
	g := &toolcall.Grant{
		V: 1, Key: c.Key, IdempotencyKey: c.IdempotencyKey(), Tool: c.Tool, Route: c.Queue().Route, Digest: c.Digest, Attempt: number,
		Bundle: c.Request.Bundle, Approvals: at.listApprovals(c, now),
		NotBefore: now.Add(-clockSkew), Expires: until, Nonce: store.RandomHex(16),
	}
	if err := g.Sign(at.cfg.signer.SigningKey()); err != nil {
		return toolcall.Attempt{}, err
	}
	a := toolcall.Attempt{Number: number, Grant: g, OfferedAt: now, OfferUntil: until, Offers: offers + 1}
	if offers > 0 {
		a.OfferedAt = c.Attempt.OfferedAt
	}
	return a, nil
}

// clockSkew is how far a worker's clock may be behind the engine's before the worker
// rejects a fresh grant because it is not valid yet.
const clockSkew = 5 * time.Second

// listApprovals lists who approved the request that the grant names. If no one did, the
// policy allowed the call, and this engine stands for it.
func (at *attempts) listApprovals(c *toolcall.Call, now time.Time) []toolcall.Approval {
	out := []toolcall.Approval{}
	tally, _ := at.currentKeys().Tally(c, now)
	for _, v := range tally.Approvals {
		out = append(out, toolcall.Approval{By: v.By, At: v.At, Signature: v.Signature})
	}
	if n := len(c.Votes); len(out) == 0 && n > 0 && c.Votes[n-1].Edited && c.Votes[n-1].Made == "" {
		out = append(out, toolcall.Approval{By: c.Votes[n-1].By, At: c.Votes[n-1].At}) // a record of an earlier release, which did not ask again after an edit
	}
	if len(out) == 0 {
		out = append(out, toolcall.Approval{By: at.selfPrincipal(), At: now})
	}
	return out
}

// startAllowed begins a call that is recorded as allowed: the engine that allowed it
// could not run it, or its standing approvals have to be read again.
func (at *attempts) startAllowed(ctx context.Context, key toolcall.Key) (*toolcall.Call, error) {
	return at.update(ctx, "start", key, at.selfPrincipal(), func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.Phase() != toolcall.PhaseReady || c.Placement == toolcall.PlaceLocal && !at.canRun(c.Tool) {
			return errNoChange
		}
		if stop, err := at.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		if c.Placement == toolcall.PlaceLocal {
			return m.Step(at.localStart(c, at.toolNamed(c.Tool), baseNow(), max(c.Attempt.Number, 1)))
		}
		return at.beginAttempt(m)
	})
}

// mustNotBegin ends the call right before an attempt begins if its reply was
// interrupted or a deny rule came into force. After an earlier attempt only a
// person can end it. A later interrupt closes the call itself.
func (at *attempts) mustNotBegin(ctx context.Context, m *toolcall.Machine) (bool, error) {
	c := m.Call()
	phase, err := at.replies.phaseAt(ctx, c.ReplyKey(), c.Seq)
	if err != nil {
		return true, err
	}
	if phase != toolcall.ReplyOpen {
		return true, m.Step(toolcall.Interrupted{Base: baseNow()})
	}
	revoked, why, err := at.whyRevoked(ctx, c)
	if err != nil {
		return true, err
	}
	switch {
	case why == "":
		return false, nil
	case c.Begun == 0 && !c.Started():
		return true, m.Step(revoked)
	case c.Phase() != toolcall.PhaseBlocked: // the outcome of the earlier attempt is unknown, and a retry is denied
		return true, m.Step(toolcall.Suspended{Base: baseNow(), Attempt: c.Attempt.Number, Blocked: toolcall.BlockedUnknown})
	}
	return true, &message.Error{Code: message.CodeForbidden, Call: toolcall.ErrorCall(c), What: "the call is no longer allowed: " + why, Hint: "resolve it as happened or did_not_happen"}
}

// whyRevoked returns why no attempt of an allowed call may begin any more, and the event that ends it;
// "" if one may.
func (at *attempts) whyRevoked(ctx context.Context, c *toolcall.Call) (revoked toolcall.Revoked, why string, err error) {
	revoked.Base = baseNow()
	if d, denied := at.judge.IsDeniedNow(ctx, at.snapshotOf(ctx, c)); denied {
		stored := decide.StoredDecision(d)
		revoked.Denied = &stored
		return revoked, cmp.Or(d.Reason, "a rule denies it"), nil
	}
	switch tally, err := at.currentKeys().Tally(c, revoked.At); {
	case err == nil || tally.Agreed:
	case errors.Is(err, message.ErrUnavailable): // another engine may know the key, so this one ends nothing
		at.clocks.BlockByKey(c, err)
		return revoked, "", err
	default:
		revoked.Reason = "an approval no longer counts: " + message.AsError("", err).What
		return revoked, revoked.Reason, nil
	}
	revoked.Reason, err = at.standing.EndedReason(ctx, c)
	return revoked, revoked.Reason, err
}

// loseAttempt gives up an attempt whose owner is silent, or does not stop. If the owner is silent, an
// idempotent call is retried with the same key; any other call has an unknown outcome.
func (at *attempts) loseAttempt(ctx context.Context, seen *toolcall.Call, silent bool) error {
	_, err := at.update(ctx, "lose", seen.Key, at.selfPrincipal(), func(_ context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.Phase() != toolcall.PhaseRunning || c.Attempt.Number != seen.Attempt.Number || c.Attempt.Claim != seen.Attempt.Claim {
			return errNoChange
		}
		t, base := at.toolNamed(c.Tool), baseNow()
		switch {
		case !t.Idempotent, !silent:
			return m.Step(toolcall.Suspended{Base: base, Attempt: c.Attempt.Number, Blocked: toolcall.BlockedUnknown})
		case c.Begun >= t.MaxAttempts:
			return m.Step(toolcall.Suspended{Base: base, Attempt: c.Attempt.Number, Blocked: toolcall.BlockedDeadLetter})
		}
		return m.Step(toolcall.Lost{Base: base, Attempt: c.Attempt.Number, RetryAt: base.At.Add(t.backoffAfter(c.Attempt.Number))})
	})
	return err
}

// retryCall offers the next attempt of an idempotent call.
func (at *attempts) retryCall(ctx context.Context, key toolcall.Key) error {
	_, err := at.update(ctx, "retry", key, at.selfPrincipal(), func(ctx context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if c.Phase() != toolcall.PhaseRetrying || time.Now().Before(c.RetryAt) && !at.isTimedAhead(c, time.Now()) {
			return errNoChange
		}
		if stop, err := at.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		return at.offerNext(m)
	})
	return err
}

// offerNext offers a call as a new attempt, and starts it at once if it runs here.
func (at *attempts) offerNext(m *toolcall.Machine) error {
	c := m.Call()
	t, base, number := at.toolNamed(c.Tool), baseNow(), c.Attempt.Number+1
	a := toolcall.Attempt{Number: number, OfferedAt: base.At}
	if c.Placement == toolcall.PlaceRemote {
		var err error
		if a, err = at.makeOffer(c, t, number, 0, base.At); err != nil {
			return err
		}
	}
	if err := m.Step(toolcall.Offered{Base: base, Attempt: a}); err != nil {
		return err
	}
	if c.Placement == toolcall.PlaceLocal && len(c.Decision.StandingApprovals()) == 0 && at.canRun(c.Tool) { // else startAllowed starts it
		return m.Step(at.localStart(c, t, base, number))
	}
	return nil
}

// offerAgain offers a call again that no worker started, with a fresh grant, or blocks
// it once its queue timeout has passed.
func (at *attempts) offerAgain(ctx context.Context, key toolcall.Key) error {
	_, err := at.update(ctx, "offer", key, at.selfPrincipal(), func(ctx context.Context, m *toolcall.Machine) error {
		c, now := m.Call(), baseNow()
		if c.Phase() != toolcall.PhaseQueued {
			return errNoChange
		}
		t := at.toolNamed(c.Tool)
		if t.QueueTimeout > 0 && !now.At.Before(c.Attempt.OfferedAt.Add(t.QueueTimeout)) {
			return m.Step(toolcall.Suspended{Base: now, Attempt: c.Attempt.Number, Blocked: toolcall.BlockedNoWorker})
		}
		if now.At.Before(c.Attempt.OfferUntil) && !at.hasStaleGrant(c) && !at.isTimedAhead(c, now.At) {
			return errNoChange
		}
		if stop, err := at.mustNotBegin(ctx, m); stop || err != nil {
			return err
		}
		a, err := at.makeOffer(c, t, c.Attempt.Number, c.Attempt.Offers, now.At)
		if err != nil {
			return err
		}
		return m.Step(toolcall.Offered{Base: now, Attempt: a})
	})
	return err
}
