// Package budget takes what calls spend from the budgets of rules, before the calls
// are allowed.
//
// [Budgets.TakeClaim] is a compare-and-swap on the budget's own entity, so engines cannot
// overspend together. Only the journal's clock frees room: a record counts from the time
// at which it was stored.
package budget

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Budgets gives one engine access to the budgets of a space.
type Budgets struct {
	Space toolcall.SpaceID
	Self  toolcall.Principal // the engine
	Store *store.Store
	Log   *slog.Logger
}

// entity is the state of a budget, and when the journal stored it.
type entity struct {
	*toolcall.BudgetState
	at time.Time
}

// errAskTime ends an update that may succeed at a later time of the journal.
var errAskTime = errors.New("the journal's time is needed")

// TakeClaim takes what a call claims from a budget and returns "", or the reason why the
// rule does not allow the call. It does not charge a call twice.
func (b *Budgets) TakeClaim(ctx context.Context, c *toolcall.Call, claim toolcall.BudgetClaim) string {
	err := b.spendClaim(ctx, c, claim)
	if errors.Is(err, errAskTime) {
		if err = b.askTime(ctx, claim); err == nil {
			err = b.spendClaim(ctx, c, claim)
		}
	}
	return b.refusalReason(c, claim, err)
}

// PreviewClaim returns what TakeClaim would return now, and takes nothing.
func (b *Budgets) PreviewClaim(ctx context.Context, c *toolcall.Call, claim toolcall.BudgetClaim) string {
	have, _, err := b.read(ctx, claim)
	if err == nil {
		clock := store.JournalTime()
		_, err = have.Spend(claim, c.Key, c.Input, slices.MaxFunc([]time.Time{have.at, clock}, time.Time.Compare), clock)
	}
	return b.refusalReason(c, claim, err)
}

func (b *Budgets) spendClaim(ctx context.Context, c *toolcall.Call, claim toolcall.BudgetClaim) error {
	_, _, err := store.Update(ctx, b.Store, b.entityOf(claim), func(_ context.Context, have entity) (*toolcall.EventRecord, error) {
		clock := store.JournalTime()
		next, err := have.Spend(claim, c.Key, c.Input, have.at, clock)
		switch {
		case err != nil:
			if _, later := have.Spend(claim, c.Key, c.Input, clock, clock); later == nil && clock.After(have.at) {
				return nil, errAskTime
			}
			return nil, err
		case next == nil:
			return nil, store.ErrNoChange
		}
		return b.newRecord(next, clock), nil
	})
	if errors.Is(err, store.ErrNoChange) {
		return nil
	}
	return err
}

// askTime writes a record that changes nothing: the time at which the journal stores it
// decides what has expired. An engine's own clock may be ahead.
func (b *Budgets) askTime(ctx context.Context, claim toolcall.BudgetClaim) error {
	_, _, err := store.Update(ctx, b.Store, b.entityOf(claim), func(_ context.Context, have entity) (*toolcall.EventRecord, error) {
		same := *have.BudgetState
		same.Use = nil
		return b.newRecord(&same, store.JournalTime()), nil
	})
	return err
}

func (b *Budgets) newRecord(state *toolcall.BudgetState, at time.Time) *toolcall.EventRecord {
	rec := b.Store.NewRecord(b.Self, at)
	rec.Budget = state
	return rec
}

func (b *Budgets) entityOf(claim toolcall.BudgetClaim) store.Entity[entity] {
	return store.Entity[entity]{Key: b.keyOf(claim), Read: func(ctx context.Context) (entity, uint64, error) { return b.read(ctx, claim) }}
}

func (b *Budgets) keyOf(claim toolcall.BudgetClaim) toolcall.Key {
	return toolcall.Key{Space: b.Space, Entity: toolcall.EntityName(claim.ID())}
}

func (b *Budgets) read(ctx context.Context, claim toolcall.BudgetClaim) (entity, uint64, error) {
	state, at, seq, err := b.Store.LastBudget(ctx, b.keyOf(claim))
	return entity{state, at}, seq, err
}

// refusalReason turns an error into the reason for people; "" without an error.
func (b *Budgets) refusalReason(c *toolcall.Call, claim toolcall.BudgetClaim, err error) string {
	if err == nil {
		return ""
	}
	log := b.Log.With("budget", string(claim.ID()), "rule", claim.Rule, "call", c.Key.String())
	if r, ok := errors.AsType[*toolcall.BudgetError](err); ok { // its text has amounts, which rules may redact
		log.Info("a budget has no room for a call", "room_at", r.Room)
		return r.Error()
	}
	log.Info("a budget has no room for a call", "error", err)
	if errors.Is(err, errAskTime) {
		return "the clock of the engine is ahead of the journal's"
	}
	return "what was spent cannot be read or written (" + string(message.AsError("spend", err).Code) + ")"
}
