package toolcall_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/toolcall"
)

// ledger is a budget's entity in a journal with its own clock.
type ledger struct {
	state *toolcall.BudgetState
	at    time.Time // of the last record
}

// store does what a journal does with a record that it stores at a time.
func (l *ledger) store(t testing.TB, next *toolcall.BudgetState, at time.Time) {
	t.Helper()
	b, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	if len(b) > 8<<10 {
		t.Fatalf("a record of a budget has %d bytes", len(b))
	}
	l.state, l.at = &toolcall.BudgetState{}, at
	if err := json.Unmarshal(b, l.state); err != nil {
		t.Fatal(err)
	}
	l.state.StoredAt(at)
}

// take does what an engine does whose clock shows clock while the journal's shows now.
func (l *ledger) take(t testing.TB, claim toolcall.BudgetClaim, id string, now, clock time.Time) error {
	t.Helper()
	next, err := l.state.Spend(claim, callKey(id), "{}", l.at, clock)
	if err != nil {
		same := *l.state
		same.Use = nil
		l.store(t, &same, now)
		next, err = l.state.Spend(claim, callKey(id), "{}", l.at, clock)
	}
	if err == nil && next != nil {
		l.store(t, next, now)
	}
	return err
}

func newLedger() *ledger { return &ledger{state: &toolcall.BudgetState{}} }

// In any period at most the limit is spent, for any order of amounts and pauses and any clocks
// of the engines. With correct clocks a budget that was unused for a period has room again.
func TestBudgetHoldsInEveryPeriod(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		claim := toolcall.BudgetClaim{Rule: "r", Sum: "args.n", AtMost: "10", Calls: rapid.IntRange(0, 6).Draw(rt, "calls"), EveryMS: time.Hour.Milliseconds()}
		l, now := newLedger(), noon
		type spending struct {
			at     time.Time
			amount *big.Rat
		}
		var spent []spending
		for i := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			pause := time.Duration(rapid.IntRange(0, 70).Draw(rt, "minutes")) * time.Minute
			now = now.Add(pause)
			claim.Amount = rapid.SampledFrom([]string{"0", "0.1", "1.5", "4", "9.999999999", "10", "11"}).Draw(rt, "amount")
			clock := now.Add(time.Duration(rapid.IntRange(-300, 300).Draw(rt, "skew")) * time.Minute)
			err := l.take(t, claim, fmt.Sprint(i), now, clock)
			if pause >= 62*time.Minute && claim.Amount != "11" && err != nil {
				rt.Fatalf("nothing was spent for %s, but %s is refused: %v", pause, claim.Amount, err)
			}
			if err != nil {
				continue
			}
			amount, _ := new(big.Rat).SetString(claim.Amount)
			spent = append(spent, spending{now, amount})
			sum, n := new(big.Rat), 0
			for _, s := range spent {
				if s.at.After(now.Add(-time.Hour)) {
					sum.Add(sum, s.amount)
					n++
				}
			}
			if sum.Cmp(big.NewRat(10, 1)) > 0 || claim.Calls > 0 && n > claim.Calls {
				rt.Fatalf("%s and %d calls were spent within an hour", sum.FloatString(9), n)
			}
		}
	})
}

func TestBudgetCountsACallOnce(t *testing.T) {
	claim := toolcall.BudgetClaim{Rule: "r", Sum: "args.n", Amount: "6", AtMost: "10", EveryMS: time.Hour.Milliseconds()}
	l := newLedger()
	for i := range 3 {
		if err := l.take(t, claim, "c", noon, noon); err != nil {
			t.Fatalf("time %d: %v", i, err)
		}
	}
	if got := l.state.Parts[0]; got.Sum != "6" || got.Calls != 1 {
		t.Errorf("the same call three times took %+v", got)
	}
	smaller := claim
	smaller.AtMost = "5" // the policy changed after the call was charged
	if err := l.take(t, smaller, "c", noon, noon); err == nil {
		t.Error("the call fits a limit below the charged amount")
	}
	var refusal *toolcall.BudgetError
	err := l.take(t, claim, "d", noon.Add(10*time.Minute), noon.Add(10*time.Minute))
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), "6 of 10 spent in 1h, and the call takes 6; room for this call from 2026-01-02 13:00:00 UTC") {
		t.Errorf("refused with %v", err)
	}
	if err := l.take(t, claim, "c", noon.Add(2*time.Hour), noon.Add(2*time.Hour)); err != nil || len(l.state.Parts) != 1 || l.state.Parts[0].Calls != 1 {
		t.Errorf("in a later period the call is charged again: %v, %+v", err, l.state.Parts)
	}
}

// Amounts that cannot be counted are refused, and after a loss of records a budget has no room.
func TestBudgetFailsClosed(t *testing.T) {
	claim := toolcall.BudgetClaim{Rule: "r", Sum: "args.n", AtMost: "10"}
	for _, bad := range []string{"", "-1", "NaN", "1e3", `"1"`, "null", "0.0000000001"} {
		claim.Amount = bad
		if err := newLedger().take(t, claim, "c", noon, noon); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	claim.Amount, claim.EveryMS = "1", time.Hour.Milliseconds()
	l := newLedger()
	l.store(t, toolcall.LoseBudget(toolcall.Key{Space: "s", Entity: toolcall.EntityName(claim.ID())}, nil), noon)
	if err := l.take(t, claim, "c", noon.Add(59*time.Minute), noon.Add(59*time.Minute)); err == nil {
		t.Error("a budget with lost records had room")
	}
	if err := l.take(t, claim, "c", noon.Add(time.Hour), noon.Add(time.Hour)); err != nil {
		t.Errorf("a period after the loss: %v", err)
	}
	for _, other := range []toolcall.BudgetClaim{{Rule: "r"}, {Rule: "r", Sum: "args.m"}, {Rule: "x", Sum: "args.n"}, {Rule: "r", Sum: "args.n", For: []string{"tool", "t"}}} {
		if other.ID() == claim.ID() {
			t.Errorf("%+v has the same id", other)
		}
	}
	claim.EveryMS, claim.AtMost, claim.Calls = 0, "99", 7
	if claim.ID() != (toolcall.BudgetClaim{Rule: "r", Sum: "args.n"}).ID() {
		t.Error("a budget with other limits has another id")
	}
}
