package toolcall

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// BudgetID identifies a budget: a rule, what it sums, and for whom. It stays the same when
// limits or period change.
type BudgetID string

// BudgetClaim is what a call would take from the budget of the rule that allows it,
// with the limits of that rule.
type BudgetClaim struct {
	Rule    string   `json:"rule"`
	Sum     string   `json:"sum,omitzero"`      // path of the argument that is summed, such as args.cents
	Amount  string   `json:"amount,omitzero"`   // what the call adds to the sum
	AtMost  string   `json:"at_most,omitzero"`  // limit of the sum
	Calls   int      `json:"calls,omitzero"`    // limit of the number of calls; 0 means none
	For     []string `json:"for,omitzero"`      // for whom it is counted, as alternating kinds and names
	EveryMS int64    `json:"every_ms,omitzero"` // the period; 0 means forever
}

func (b BudgetClaim) every() time.Duration { return time.Duration(b.EveryMS) * time.Millisecond }

// ID returns the ID of the claim's budget.
func (b BudgetClaim) ID() BudgetID {
	h := sha256.New()
	h.Write([]byte("askance-budget-v1\x00"))
	for _, part := range append([]string{b.Rule, b.Sum}, b.For...) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		h.Write(n[:])
		h.Write([]byte(part))
	}
	return BudgetID(budgetPrefix + hex.EncodeToString(h.Sum(nil)[:16]))
}

// budgetPrefix begins every BudgetID, and nothing else.
const budgetPrefix = "bud_"

// Bounds of the size of a budget's records.
const (
	budgetParts = 16 // parts of a period; each expires as a whole
	budgetMarks = 64 // calls that are known to have spent
)

// BudgetState is the full state of a budget's own entity: what calls have taken in the
// current period. Each spending is a compare-and-swap before its call is allowed.
type BudgetState struct {
	ID    BudgetID     `json:"budget_id"`
	Space SpaceID      `json:"space"`
	Rule  string       `json:"rule,omitzero"`
	Sum   string       `json:"sum,omitzero"`
	For   []string     `json:"for,omitzero"`
	Parts []BudgetPart `json:"parts"` // oldest first
	// Use is the spending that this event record counts. If nil, the record only asks the
	// journal for its time.
	Use *StandingUse `json:"use,omitzero"`
}

// BudgetPart is what was spent during a part of the period. All of it counts until one
// period after the last spending in it.
type BudgetPart struct {
	// From and Until are journal times. In the part that an event record spends in, they
	// are absent and mean that record's own time (see StoredAt).
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Calls int       `json:"calls"`
	Sum   string    `json:"sum,omitzero"`
	Marks []string  `json:"marks,omitzero"` // of the latest calls, see SpentBy
	// Lost is set if records of the budget are missing; nothing is then left of it.
	Lost bool `json:"lost,omitzero"`
}

// Key is the key of the budget's own entity.
func (s *BudgetState) Key() Key { return Key{Space: s.Space, Entity: EntityName(s.ID)} }

// StoredAt completes a state that was read, using the time at which the journal stored its
// event record.
func (s *BudgetState) StoredAt(t time.Time) {
	if n := len(s.Parts); n > 0 && s.Parts[n-1].Until.IsZero() {
		p := &s.Parts[n-1]
		if p.From.IsZero() {
			p.From = t
		}
		p.Until = later(t, p.From)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// BudgetError is why a call gets nothing from a budget.
type BudgetError struct {
	Text string
	Room time.Time // when there will be room for the call; zero if waiting does not help
}

// Error implements error, in words for people.
func (b *BudgetError) Error() string {
	if b.Room.IsZero() {
		return b.Text
	}
	return b.Text + "; room for this call from " + b.Room.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Spend returns the state after a call has taken its claim, or nil if the call took it
// before. at is a journal time not later than now. clock is the engine's time: it does not
// free room, and only decides which spendings share a part.
func (s *BudgetState) Spend(claim BudgetClaim, call Key, input string, at, clock time.Time) (*BudgetState, error) {
	parts := slices.DeleteFunc(slices.Clone(s.Parts), func(p BudgetPart) bool { return claim.every() > 0 && !at.Before(p.Until.Add(claim.every())) })
	mark := SpentBy(call, input)
	known := slices.ContainsFunc(parts, func(p BudgetPart) bool { return slices.Contains(p.Marks, mark) })
	more, amount := 1, claim.Amount
	if known {
		more, amount = 0, "0"
	}
	if err := claim.fits(parts, more, amount); err != nil {
		return nil, err
	}
	if known {
		return nil, nil
	}
	next := &BudgetState{ID: claim.ID(), Space: call.Space, Rule: claim.Rule, Sum: claim.Sum, For: claim.For, Use: &StandingUse{Call: call, Amount: claim.Amount, At: clock}}
	n := len(parts)
	if n == 0 || n < budgetParts && claim.every() > 0 && later(at, clock).Sub(parts[n-1].From) >= claim.every()/budgetParts {
		parts = append(parts, BudgetPart{})
	}
	last := &parts[len(parts)-1]
	last.Calls, last.Until, last.Marks = last.Calls+1, time.Time{}, append(slices.Clip(last.Marks), mark)
	if claim.Sum != "" {
		last.Sum = formatAmount(new(big.Rat).Add(parseAmount(last.Sum), parseAmount(claim.Amount)))
	}
	dropMarks(parts)
	next.Parts = parts
	return next, nil
}

// dropMarks forgets the oldest calls beyond the bound. If one of them is decided again, it
// spends again.
func dropMarks(parts []BudgetPart) {
	n := 0
	for i := range slices.Backward(parts) {
		marks := parts[i].Marks
		parts[i].Marks = marks[max(0, len(marks)-(budgetMarks-n)):]
		n += len(parts[i].Marks)
	}
}

// fits returns an error if a call does not fit into what the parts leave.
func (b BudgetClaim) fits(parts []BudgetPart, calls int, amount string) error {
	if b.Sum != "" {
		for _, text := range []string{amount, b.AtMost} {
			if err := CheckAmount(text); err != nil {
				return &BudgetError{Text: fmt.Sprintf("the amount at %s cannot be counted: %v", b.Sum, err)}
			}
		}
	}
	full, text := b.isOver(parts, calls, amount)
	if !full {
		return nil
	}
	out := &BudgetError{Text: text}
	if empty, _ := b.isOver(nil, calls, amount); empty || b.every() <= 0 {
		return out
	}
	for i, p := range parts {
		if full, _ := b.isOver(parts[i+1:], calls, amount); !full {
			out.Room = p.Until.Add(b.every())
			return out
		}
	}
	return out
}

// isOver reports whether the parts and the call together exceed a limit, and describes how.
func (b BudgetClaim) isOver(parts []BudgetPart, calls int, amount string) (bool, string) {
	spent, made := new(big.Rat), 0
	for _, p := range parts {
		if p.Lost {
			return true, "records of this budget are lost" + b.period()
		}
		made += p.Calls
		spent.Add(spent, parseAmount(p.Sum))
	}
	if b.Sum != "" && new(big.Rat).Add(spent, parseAmount(amount)).Cmp(parseAmount(b.AtMost)) > 0 {
		return true, fmt.Sprintf("%s of %s spent%s, and the call takes %s", formatAmount(spent), b.AtMost, b.period(), amount)
	}
	if b.Calls > 0 && made+calls > b.Calls {
		return true, fmt.Sprintf("%d of %d calls made%s", made, b.Calls, b.period())
	}
	return false, ""
}

func (b BudgetClaim) period() string {
	if b.every() <= 0 {
		return ""
	}
	text := b.every().String() // 24h0m0s
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return " in " + text
}

// Text describes the budget and what the call takes from it.
func (b BudgetClaim) Text() string {
	var limits []string
	if b.Sum != "" {
		limits = append(limits, b.Amount+" of at most "+b.AtMost+" of "+b.Sum)
	}
	if b.Calls > 0 {
		limits = append(limits, fmt.Sprintf("1 of at most %d calls", b.Calls))
	}
	parts := []string{"takes " + strings.Join(limits, " and ") + b.period()}
	for pair := range slices.Chunk(b.For, 2) {
		parts = append(parts, "for "+strings.Join(pair, " "))
	}
	return strings.Join(parts, ", ")
}

// parseAmount parses what CheckAmount accepts; anything else is 0.
func parseAmount(text string) *big.Rat {
	if r, ok := new(big.Rat).SetString(text); ok && CheckAmount(text) == nil {
		return r
	}
	return new(big.Rat)
}

// LoseBudget returns the state of a budget whose records are lost or may be incomplete.
func LoseBudget(key Key, known *BudgetState) *BudgetState {
	s := BudgetState{ID: BudgetID(key.Entity), Space: key.Space}
	if known != nil {
		s = *known
	}
	s.Parts, s.Use = []BudgetPart{{Lost: true}}, nil
	return &s
}

// BudgetUse is what a decision has taken from a budget.
type BudgetUse struct {
	ID     BudgetID `json:"budget_id"`
	Amount string   `json:"amount,omitzero"`
}
