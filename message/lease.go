package message

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strconv"
	"time"
)

// LeaseID names a remembered rule. It follows from the approval request whose answer
// gave it.
type LeaseID string

// LeaseScope is for which calls a remembered rule answers, besides that its
// rules must be about them.
type LeaseScope string

// The scopes, from the narrowest to the widest.
const (
	ScopeCallLike LeaseScope = "call_like" // the same arguments, in the same session
	ScopeSession  LeaseScope = "session"   // the same session
	ScopeAgent    LeaseScope = "agent"     // the same agent of the same user
	ScopeUser     LeaseScope = "user"      // the same user, in any session
	ScopeSpace    LeaseScope = "space"     // every call of the space
)

// Valid reports whether s is one of the scopes, spelled exactly so.
func (s LeaseScope) Valid() bool {
	return slices.Contains([]LeaseScope{ScopeCallLike, ScopeSession, ScopeAgent, ScopeUser, ScopeSpace}, s)
}

// Limits on remembered rules.
const (
	MaxLeaseUses  = 1000 // further calls that one can answer for, if they are counted
	MaxLeaseRules = 16   // rules of one answer
	// MaxLeaseBytes bounds the content of those rules together, and the path of a
	// budget.
	MaxLeaseBytes = 4 << 10
	// MaxLeaseTime is how far away its end may be: one year.
	MaxLeaseTime = 366 * 24 * time.Hour
)

// LeaseTerms are what an approver wants remembered, and how far.
type LeaseTerms struct {
	// Rules are allow rules for the tool of the call, which must cover the call
	// and be no wider than those that the approval request suggested. Empty: the
	// suggested ones.
	Rules []PermissionRule `json:"rules,omitzero"`
	// Scope is session if empty.
	Scope LeaseScope `json:"scope,omitzero"`
	// Until is when it ends; zero: as late as the policy lets it.
	Until time.Time `json:"until,omitzero"`
	// Uses is for how many further calls it answers; 0: as many as the policy
	// lets it. At most 1000.
	Uses int `json:"uses,omitzero"`
	// Budget bounds what the calls may add up to.
	Budget *Budget `json:"budget,omitzero"`
}

// Budget bounds the sum of one numeric argument over the further calls that a
// remembered rule answers for.
type Budget struct {
	Path  string `json:"path"`  // of the argument, as args.cents; never negative
	Limit string `json:"limit"` // a decimal number as text, kept exactly
}

// RememberLimits is how far the rules that ask let an answer be remembered.
type RememberLimits struct {
	// Same are paths into the call, such as args.customer_id: a later call is
	// answered only if it has the same value at each.
	Same  []string `json:"same,omitzero"`
	TTLMS int64    `json:"ttl_ms"`        // how long at most, from the approval on
	Uses  int      `json:"uses,omitzero"` // how many further calls at most; 0: any number
}

// LeaseState is where a remembered rule stands.
type LeaseState string

// The states of a remembered rule. Only an active one answers.
const (
	LeaseActive  LeaseState = "active"
	LeaseUsedUp  LeaseState = "used_up"
	LeaseExpired LeaseState = "expired"
	LeaseRevoked LeaseState = "revoked"
)

// Lease is a rule that an approver let remember with an answer: it answers for
// later calls, within its terms, until it ends or is revoked. The event record of the
// approval is its birth. After that it has an entity of its own in the journal,
// whose event records, each with the full state, are its uses and its revocation: all
// written by compare-and-swap, so that no use is spent twice.
type Lease struct {
	ID    LeaseID    `json:"lease_id"`
	Space SpaceID    `json:"space"`
	Tool  string     `json:"tool_name"`
	Terms LeaseTerms `json:"terms"` // complete
	// Plain: suggested rules that were accepted as they are. The policy counts
	// them among the rules of the session; they have no end but a revocation, and
	// no uses are counted.
	Plain bool `json:"plain,omitzero"`
	// Within are the suggested rules that an edited one narrows: they must cover
	// a call as well.
	Within []PermissionRule `json:"within,omitzero"`
	// Rule, Source and Reason are those of the approval request that was answered: only
	// the same approval request is answered again.
	Rule   string `json:"rule,omitzero"`
	Source string `json:"source"`
	Reason string `json:"reason"`
	// Same has the value of the approved call at each path of the limits.
	Same map[string]string `json:"same,omitzero"`
	// Session, User, Agent and Arguments are those of the approved call. Which of
	// them count follows from the scope. Arguments is a digest.
	Session   SessionID `json:"session_id"`
	User      string    `json:"user"`
	Agent     string    `json:"agent,omitzero"`
	Arguments string    `json:"arguments"`

	From      Key       `json:"from"`   // the call whose approval gave it
	Digest    string    `json:"digest"` // of the approval request that was answered
	GrantedBy []Vote    `json:"granted_by"`
	GrantedAt time.Time `json:"granted_at"`

	Revoked *Revocation `json:"revoked,omitzero"`
	// Spent names the calls whose uses are counted, each by a hash: the same call
	// is counted once.
	Spent []string `json:"spent,omitzero"`
	// Left is what is left of the budget.
	Left string    `json:"left,omitzero"`
	Use  *LeaseUse `json:"use,omitzero"` // the one that this event record counts

	// Seq is the journal sequence of its last event record, 0 before the first. It is not
	// part of the record.
	Seq uint64 `json:"seq,omitzero"`
}

// LeaseUse is one call for which a remembered rule answered.
type LeaseUse struct {
	Call   Key       `json:"call"`
	Amount string    `json:"amount,omitzero"` // taken from the budget
	At     time.Time `json:"at"`
}

// Revocation says who ended something, and why.
type Revocation struct {
	By     Principal `json:"by"`
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitzero"`
}

// NewLeaseID is the name of what the approval of an approval request lets remember.
func NewLeaseID(call Key, digest string) LeaseID {
	sum := sha256.Sum256([]byte("askance-lease-v1\x00" + call.IdempotencyKey() + "\x00" + digest))
	return LeaseID("lse_" + hex.EncodeToString(sum[:8]))
}

// Key is that of the lease's own entity.
func (l *Lease) Key() Key { return Key{Space: l.Space, Lease: l.ID} }

// Counted reports whether its uses are counted.
func (l *Lease) Counted() bool { return l.Terms.Uses > 0 }

// UsesLeft is for how many further calls it can answer; only if it is Counted.
func (l *Lease) UsesLeft() int { return max(0, l.Terms.Uses-len(l.Spent)) }

// State says where it stands at an instant.
func (l *Lease) State(now time.Time) LeaseState {
	switch {
	case l.Revoked != nil:
		return LeaseRevoked
	case !l.Terms.Until.IsZero() && !now.Before(l.Terms.Until):
		return LeaseExpired
	case l.Counted() && l.UsesLeft() == 0:
		return LeaseUsedUp
	}
	return LeaseActive
}

// SpentBy is the mark of a call, as it would run now, in Spent. Other arguments
// are another call.
func SpentBy(call Key, input string) string {
	sum := sha256.Sum256([]byte(call.IdempotencyKey() + "\x00" + input))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Spend counts one use down for a call, with what it takes from the budget, and
// gives the lease's next state. A use that is counted already is no error and
// gives nil.
func (l *Lease) Spend(call Key, input, amount string, now time.Time) (*Lease, error) {
	refuse := func(what string) error {
		return &Error{Code: CodeState, Op: "use " + string(l.ID), What: what, Hint: "the call is asked about"}
	}
	mark := SpentBy(call, input)
	switch state := l.State(now); {
	case state == LeaseRevoked, state == LeaseExpired:
		return nil, refuse("the remembered rule is " + string(state))
	case slices.Contains(l.Spent, mark):
		return nil, nil
	case state != LeaseActive:
		return nil, refuse("the remembered rule is used up")
	}
	next := *l
	next.Spent = append(slices.Clip(l.Spent), mark)
	next.Use, next.Seq = &LeaseUse{Call: call, At: now}, 0
	if l.Terms.Budget != nil {
		left, err := subtract(l.Left, amount)
		if err != nil {
			return nil, refuse("the budget of " + l.Terms.Budget.Path + " has " + l.Left + " left: " + err.Error())
		}
		next.Left, next.Use.Amount = left, amount
	}
	return &next, nil
}

// Text says in a few words what is left of it.
func (l *Lease) Text() string {
	text := "scope " + string(l.Terms.Scope)
	if l.Counted() {
		text += ", " + strconv.Itoa(l.UsesLeft()) + " of " + strconv.Itoa(l.Terms.Uses) + " uses left"
	}
	if b := l.Terms.Budget; b != nil {
		text += ", " + l.Left + " of " + b.Limit + " left of " + b.Path
	}
	return text
}

// LeasesRequest lists remembered rules: those that are active, or with All also
// the last thousand that have ended.
type LeasesRequest struct {
	V    int    `json:"v,omitzero"`
	Tool string `json:"tool_name,omitzero"`
	All  bool   `json:"all,omitzero"`
	// After is the cursor: the id of the last one of the page before.
	After LeaseID `json:"after,omitzero"`
	Limit int     `json:"limit,omitzero"` // default and maximum 200
}

// LeasesReply has remembered rules in the order of their ids.
type LeasesReply struct {
	Leases []*Lease `json:"leases"`
	Next   LeaseID  `json:"next,omitzero"` // "": that was all
}

// ShowLeaseRequest names one remembered rule.
type ShowLeaseRequest struct {
	V  int     `json:"v,omitzero"`
	ID LeaseID `json:"lease_id"`
}

// ShowLeaseReply has a remembered rule, and the last hundred calls for which
// counted uses were spent, oldest first.
type ShowLeaseReply struct {
	Lease *Lease     `json:"lease"`
	Uses  []LeaseUse `json:"uses"`
}

// RevokeLeaseRequest ends a remembered rule at once. Calls that it has allowed
// and that have not begun are taken back.
type RevokeLeaseRequest struct {
	V      int     `json:"v,omitzero"`
	ID     LeaseID `json:"lease_id"`
	Reason string  `json:"reason,omitzero"`
}
