package toolcall

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
)

// StandingID names a standing approval. It follows from the approval request whose answer
// gave it.
type StandingID string

// StandingScope is for which calls a standing approval answers, besides that its
// rules must be about them.
type StandingScope string

// The scopes, from the narrowest to the widest.
const (
	ScopeCallLike StandingScope = "call_like" // the same arguments, in the same session
	ScopeSession  StandingScope = "session"   // the same session
	ScopeAgent    StandingScope = "agent"     // the same agent of the same user
	ScopeUser     StandingScope = "user"      // the same user, in any session
	ScopeSpace    StandingScope = "space"     // every call of the space
)

// Valid reports whether s is one of the scopes, spelled exactly so.
func (s StandingScope) Valid() bool {
	return slices.Contains([]StandingScope{ScopeCallLike, ScopeSession, ScopeAgent, ScopeUser, ScopeSpace}, s)
}

// Limits on standing approvals.
const (
	MaxStandingUses  = 1000 // further calls that one can answer for, if they are counted
	MaxStandingRules = 16   // rules of one answer
	// MaxStandingBytes bounds the content of those rules together, and the path of a
	// budget.
	MaxStandingBytes = 4 << 10
	// MaxStandingTime is how far away its end may be: one year.
	MaxStandingTime = 366 * 24 * time.Hour
)

// StandingTerms are what an approver wants remembered, and how far.
type StandingTerms struct {
	// Rules are allow rules for the tool of the call, which must cover the call
	// and be no wider than those that the approval request suggested. Empty: the
	// suggested ones.
	Rules []message.PermissionRule `json:"rules,omitzero"`
	// Scope is session if empty.
	Scope StandingScope `json:"scope,omitzero"`
	// Until is when it ends; zero: as late as the policy lets it.
	Until time.Time `json:"until,omitzero"`
	// Uses is for how many further calls it answers; 0: as many as the policy
	// lets it. At most 1000.
	Uses int `json:"uses,omitzero"`
	// Budget bounds what the calls may add up to.
	Budget *Budget `json:"budget,omitzero"`
}

// Budget bounds the sum of one numeric argument over the further calls that a
// standing approval answers for.
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

// StandingState is where a standing approval stands.
type StandingState string

// The states of a standing approval. Only an active one answers.
const (
	StandingActive  StandingState = "active"
	StandingUsedUp  StandingState = "used_up"
	StandingExpired StandingState = "expired"
	StandingRevoked StandingState = "revoked"
)

// StandingApproval is a rule that an approver let remember with an answer: it answers for
// later calls, within its terms, until it ends or is revoked. The event record of the
// approval is its birth. After that it has an entity of its own in the journal,
// whose event records, each with the full state, are its uses and its revocation: all
// written by compare-and-swap, so that no use is spent twice.
type StandingApproval struct {
	ID    StandingID `json:"standing_approval_id"`
	Space SpaceID    `json:"space"`
	Tool  string     `json:"tool_name"`
	// Definition is the hash of what the runtime had declared of the tool: under another
	// definition it is another tool.
	Definition string        `json:"definition_hash,omitzero"`
	Terms      StandingTerms `json:"terms"` // complete
	// Plain: suggested rules that were accepted as they are. The policy counts
	// them among the rules of the session; they have no end but a revocation, and
	// no uses are counted.
	Plain bool `json:"plain,omitzero"`
	// Within are the suggested rules that an edited one narrows: they must cover
	// a call as well.
	Within []message.PermissionRule `json:"within,omitzero"`
	// Rule, Source and Reason are those of the approval request that was answered: only
	// the same approval request is answered again.
	Rule   string `json:"rule,omitzero"`
	Source string `json:"source"`
	Reason string `json:"reason"`
	// Same has the value of the approved call at each path of the limits.
	Same map[string]string `json:"same,omitzero"`
	// Session, User, Agent and Arguments are those of the approved call. Which of
	// them count follows from the scope. Arguments is a digest.
	Session   message.SessionID `json:"session_id"`
	User      string            `json:"user"`
	Agent     string            `json:"agent,omitzero"`
	Arguments string            `json:"arguments"`

	From      Key       `json:"from"`   // the call whose approval gave it
	Digest    string    `json:"digest"` // of the approval request that was answered
	GrantedBy []Vote    `json:"granted_by"`
	GrantedAt time.Time `json:"granted_at"`

	Revoked *Revocation `json:"revoked,omitzero"`
	// Spent names the calls whose uses are counted, each by a hash: the same call
	// is counted once.
	Spent []string `json:"spent,omitzero"`
	// Left is what is left of the budget.
	Left string       `json:"left,omitzero"`
	Use  *StandingUse `json:"use,omitzero"` // the one that this event record counts

	// Seq is the journal sequence of its last event record, 0 before the first. It is not
	// part of the record.
	Seq uint64 `json:"seq,omitzero"`
}

// StandingUse is one call for which a standing approval answered.
type StandingUse struct {
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

// NewStandingID is the name of what the approval of an approval request lets remember.
func NewStandingID(call Key, digest string) StandingID {
	sum := sha256.Sum256([]byte("askance-standing-approval-v1\x00" + call.IdempotencyKey() + "\x00" + digest))
	return StandingID("sta_" + hex.EncodeToString(sum[:8]))
}

// Key is that of the standing approval's own entity.
func (l *StandingApproval) Key() Key { return Key{Space: l.Space, Entity: EntityName(l.ID)} }

// Counted reports whether its uses are counted.
func (l *StandingApproval) Counted() bool { return l.Terms.Uses > 0 }

// UsesLeft is for how many further calls it can answer; only if it is Counted.
func (l *StandingApproval) UsesLeft() int { return max(0, l.Terms.Uses-len(l.Spent)) }

// State says where it stands at an instant.
func (l *StandingApproval) State(now time.Time) StandingState {
	switch {
	case l.Revoked != nil:
		return StandingRevoked
	case !l.Terms.Until.IsZero() && !now.Before(l.Terms.Until):
		return StandingExpired
	case l.Counted() && l.UsesLeft() == 0:
		return StandingUsedUp
	}
	return StandingActive
}

// SpentBy is the mark of a call, as it would run now, in Spent. Other arguments
// are another call.
func SpentBy(call Key, input string) string {
	sum := sha256.Sum256([]byte(call.IdempotencyKey() + "\x00" + input))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Spend counts one use down for a call, with what it takes from the budget, and
// gives the standing approval's next state. A use that is counted already is no error and
// gives nil.
func (l *StandingApproval) Spend(call Key, input, amount string, now time.Time) (*StandingApproval, error) {
	refuse := func(what string) error {
		return &message.Error{Code: message.CodeState, Op: "use " + string(l.ID), What: what, Hint: "the call is asked about"}
	}
	mark := SpentBy(call, input)
	switch state := l.State(now); {
	case state == StandingRevoked, state == StandingExpired:
		return nil, refuse("the standing approval is " + string(state))
	case slices.Contains(l.Spent, mark):
		return nil, nil
	case state != StandingActive:
		return nil, refuse("the standing approval is used up")
	}
	next := *l
	next.Spent = append(slices.Clip(l.Spent), mark)
	next.Use, next.Seq = &StandingUse{Call: call, At: now}, 0
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
func (l *StandingApproval) Text() string {
	text := "scope " + string(l.Terms.Scope)
	if l.Counted() {
		text += ", " + strconv.Itoa(l.UsesLeft()) + " of " + strconv.Itoa(l.Terms.Uses) + " uses left"
	}
	if b := l.Terms.Budget; b != nil {
		text += ", " + l.Left + " of " + b.Limit + " left of " + b.Path
	}
	return text
}

// StandingApprovalsRequest lists standing approvals: those that are active, or with All also
// the last thousand that have ended.
type StandingApprovalsRequest struct {
	V    int    `json:"v,omitzero"`
	Tool string `json:"tool_name,omitzero"`
	All  bool   `json:"all,omitzero"`
	// After is the cursor: the id of the last one of the page before.
	After StandingID `json:"after,omitzero"`
	Limit int        `json:"limit,omitzero"` // default and maximum 200
}

// StandingApprovalsReply has standing approvals in the order of their ids.
type StandingApprovalsReply struct {
	StandingApprovals []*StandingApproval `json:"standing_approvals"`
	Next              StandingID          `json:"next,omitzero"` // "": that was all
}

// ShowStandingApprovalRequest names one standing approval.
type ShowStandingApprovalRequest struct {
	V  int        `json:"v,omitzero"`
	ID StandingID `json:"standing_approval_id"`
}

// ShowStandingApprovalReply has a standing approval, and the last hundred calls for which
// counted uses were spent, oldest first.
type ShowStandingApprovalReply struct {
	Standing *StandingApproval `json:"standing_approval"`
	Uses     []StandingUse     `json:"uses"`
}

// RevokeStandingApprovalRequest ends a standing approval at once. Calls that it has allowed
// and that have not begun are revoked.
type RevokeStandingApprovalRequest struct {
	V      int        `json:"v,omitzero"`
	ID     StandingID `json:"standing_approval_id"`
	Reason string     `json:"reason,omitzero"`
}

// Granted are the standing approvals that a call's approval gave, as they were then: those
// on terms, and what its plain rules stand for.
func (c *Call) Granted() []StandingApproval {
	if l, plain := c.PlainStandingApproval(); plain {
		return append(slices.Clip(c.StandingApprovals), l)
	}
	return c.StandingApprovals
}

// Standing says how the standing approval stands at an instant.
func (l *StandingApproval) Standing(now time.Time) StandingStatus {
	out := StandingStatus{Standing: l, State: l.State(now)}
	if l.Counted() {
		left := l.UsesLeft()
		out.UsesLeft = &left
	}
	return out
}

// PlainStandingApproval is the standing approval that an allowed call's Remember stands for: the
// suggested rules that its approvers accepted as they are. It follows from any
// event record of the call after it was allowed. ok: there is one.
func (c *Call) PlainStandingApproval() (l StandingApproval, ok bool) {
	if len(c.Remember) == 0 {
		return StandingApproval{}, false
	}
	l = StandingApproval{
		ID: NewStandingID(c.Key, "plain\x00"+c.Digest), Space: c.Space, Tool: c.Tool, Definition: c.DefinitionHash(), Plain: true,
		Terms:   StandingTerms{Rules: c.Remember, Scope: ScopeSession},
		Session: c.Session, User: c.Runtime, Agent: c.Agent,
		From: c.Key, Digest: c.Digest,
	}
	if q := c.Request; q != nil {
		l.Rule, l.Source, l.Reason = q.Rule, q.Source, q.Reason
	}
	by := c.Tally().Approvals
	if n := len(c.Votes); len(by) == 0 && n > 0 { // of an earlier release: an edit without a count
		by = c.Votes[n-1:]
	}
	for _, v := range by {
		l.GrantedBy = append(l.GrantedBy, Vote{Kind: v.Kind, By: v.By, At: v.At, Digest: v.Digest, Edited: v.Edited, Made: v.Made, Groups: v.Groups, GroupsFrom: v.GroupsFrom, Step: v.Step})
		if v.At.After(l.GrantedAt) {
			l.GrantedAt = v.At
		}
	}
	if c.Hides() { // of an earlier release: patterns are made of arguments
		l.Terms.Rules = nil
		for _, r := range c.Remember {
			content := hiddenMark + "]"
			r.RuleContent = &content
			l.Terms.Rules = append(l.Terms.Rules, r)
		}
	}
	return l, true
}

// amountForm is a decimal number that is kept exactly: no sign, no exponent, at
// most 18 digits before the point and 9 behind it.
var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`)

const amountPlaces = 9

// CheckAmount says what is wrong with a decimal number of a budget.
func CheckAmount(text string) error {
	if !amountForm.MatchString(text) {
		return errors.New("it is no decimal number from 0 on, with at most 18 digits before the point and 9 behind it")
	}
	return nil
}

// subtract takes amount from left, exactly.
func subtract(left, amount string) (string, error) {
	for _, text := range []string{left, amount} {
		if err := CheckAmount(text); err != nil {
			return "", err
		}
	}
	a, ok := new(big.Rat).SetString(left)
	b, ok2 := new(big.Rat).SetString(amount)
	if !ok || !ok2 {
		return "", errors.New("it is no number")
	}
	if a.Cmp(b) < 0 {
		return "", errors.New("the call needs " + amount)
	}
	return formatAmount(a.Sub(a, b)), nil
}

// formatAmount writes a number with at most amountPlaces places, exactly.
func formatAmount(r *big.Rat) string {
	return strings.TrimRight(strings.TrimRight(r.FloatString(amountPlaces), "0"), ".")
}
