package toolcall_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func callKey(id string) toolcall.Key {
	return toolcall.Key{Space: "s", Session: "a", Reply: "b", Call: message.CallID(id)}
}

func TestStandingApprovalState(t *testing.T) {
	for name, c := range map[string]struct {
		standing toolcall.StandingApproval
		want     toolcall.StandingState
	}{
		"for ever":            {toolcall.StandingApproval{}, toolcall.StandingActive},
		"before its end":      {toolcall.StandingApproval{Terms: toolcall.StandingTerms{Until: noon.Add(1)}}, toolcall.StandingActive},
		"at its end":          {toolcall.StandingApproval{Terms: toolcall.StandingTerms{Until: noon}}, toolcall.StandingExpired},
		"used up":             {toolcall.StandingApproval{Terms: toolcall.StandingTerms{Uses: 1}, Spent: []string{"x"}}, toolcall.StandingUsedUp},
		"one left":            {toolcall.StandingApproval{Terms: toolcall.StandingTerms{Uses: 2}, Spent: []string{"x"}}, toolcall.StandingActive},
		"used up and revoked": {toolcall.StandingApproval{Terms: toolcall.StandingTerms{Uses: 1}, Spent: []string{"x"}, Revoked: &toolcall.Revocation{}}, toolcall.StandingRevoked},
	} {
		if got := c.standing.State(noon); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestSpendCountsACallOnce(t *testing.T) {
	s := &toolcall.StandingApproval{ID: "l", Terms: toolcall.StandingTerms{Uses: 2, Until: noon.Add(time.Hour)}}
	one, err := s.Spend(callKey("c"), `{}`, "", noon)
	if err != nil || one.UsesLeft() != 1 || s.UsesLeft() != 2 || one.Use.Call != callKey("c") {
		t.Fatalf("spent: %+v, %v", one, err)
	}
	if again, err := one.Spend(callKey("c"), `{}`, "", noon); again != nil || err != nil {
		t.Errorf("the same call again: %+v, %v", again, err)
	}
	two, err := one.Spend(callKey("c"), `{"edited":1}`, "", noon)
	if err != nil || two.UsesLeft() != 0 {
		t.Errorf("the same call with other arguments: %+v, %v", two, err)
	}
	if again, err := two.Spend(callKey("c"), `{}`, "", noon); again != nil || err != nil {
		t.Errorf("used up, and counted before: %+v, %v", again, err)
	}
	for name, f := range map[string]func() (*toolcall.StandingApproval, error){
		"used up": func() (*toolcall.StandingApproval, error) { return two.Spend(callKey("d"), `{}`, "", noon) },
		"expired": func() (*toolcall.StandingApproval, error) {
			return one.Spend(callKey("c"), `{}`, "", noon.Add(time.Hour))
		},
	} {
		if next, err := f(); next != nil || !errors.Is(err, message.ErrState) {
			t.Errorf("%s: %+v, %v", name, next, err)
		}
	}
}

// For any withdrawals, the rest of a budget is exact and never below zero.
func TestBudgetIsExact(t *testing.T) {
	amount := rapid.StringMatching(`(0|[1-9][0-9]{0,5})(\.[0-9]{1,9})?`)
	rapid.Check(t, func(t *rapid.T) {
		limit := amount.Draw(t, "limit")
		s := &toolcall.StandingApproval{ID: "l", Left: limit, Terms: toolcall.StandingTerms{Uses: toolcall.MaxStandingUses, Budget: &toolcall.Budget{Path: "args.n", Limit: limit}}}
		left, _ := new(big.Rat).SetString(limit)
		for i, a := range rapid.SliceOfN(amount, 0, 20).Draw(t, "amounts") {
			take, _ := new(big.Rat).SetString(a)
			next, err := s.Spend(callKey(strings.Repeat("c", i+1)), `{}`, a, noon)
			if (err == nil) != (left.Cmp(take) >= 0) {
				t.Fatalf("%s from %s: %v", a, s.Left, err)
			}
			if err != nil {
				continue
			}
			s = next
			left.Sub(left, take)
			if got, ok := new(big.Rat).SetString(s.Left); !ok || got.Cmp(left) != 0 {
				t.Fatalf("%s is left, want %s", s.Left, left)
			}
		}
	})
}

func TestAmounts(t *testing.T) {
	for _, good := range []string{"0", "1", "10000", "0.5", "999999999999999999.999999999"} {
		if err := toolcall.CheckAmount(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-1", "+1", "01", "1.", ".5", "1e3", "1E999999999", "NaN", "0x10", "1_000", "1.0000000000", "1000000000000000000", `"1"`, "null", " 1"} {
		if toolcall.CheckAmount(bad) == nil {
			t.Errorf("%q is accepted as an amount", bad)
		}
	}
}
