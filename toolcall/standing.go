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

// StandingID identifies a standing approval. It is derived from the approval request whose
// response granted it.
type StandingID string

// StandingScope determines for which calls a standing approval answers; in addition, its
// rules must cover them.
type StandingScope string

// The scopes, from the narrowest to the widest.
const (
	ScopeCallLike StandingScope = "call_like" // the same arguments, in the same session
	ScopeSession  StandingScope = "session"   // the same session
	ScopeAgent    StandingScope = "agent"     // the same agent of the same user
	ScopeUser     StandingScope = "user"      // the same user, in any session
	ScopeSpace    StandingScope = "space"     // every call of the space
)

// Scopes returns all scopes, from the narrowest to the widest.
func Scopes() []StandingScope {
	return []StandingScope{ScopeCallLike, ScopeSession, ScopeAgent, ScopeUser, ScopeSpace}
}

// Valid reports whether s is exactly one of the scopes.
func (s StandingScope) Valid() bool { return slices.Contains(Scopes(), s) }

// Limits on standing approvals.
const (
	MaxStandingUses  = 1000 // further calls that one approval can answer for, if they are counted
	MaxStandingRules = 16   // rules of one response
	// MaxStandingBytes bounds the total content of those rules, and the path of a budget.
	MaxStandingBytes = 4 << 10
	// MaxStandingTime bounds how far away its end may be: one year.
	MaxStandingTime = 366 * 24 * time.Hour
)

// StandingTerms are what an approver wants remembered, and its limits.
type StandingTerms struct {
	// Rules are allow rules for the tool of the call. They must cover the call and be no
	// wider than those that the approval request suggested. Empty means the suggested
	// ones.
	Rules []message.PermissionRule `json:"rules,omitzero"`
	// Scope defaults to session.
	Scope StandingScope `json:"scope,omitzero"`
	// Until is when it ends; zero means as late as the policy allows.
	Until time.Time `json:"until,omitzero"`
	// Uses is for how many further calls it answers, at most 1000; 0 means as many as the
	// policy allows.
	Uses int `json:"uses,omitzero"`
	// Budget limits the sum over those calls.
	Budget *Budget `json:"budget,omitzero"`
}

// Budget limits the sum of one numeric argument over the further calls for which a standing
// approval answers.
type Budget struct {
	Path  string `json:"path"`  // path of the argument, such as args.cents; its values are never negative
	Limit string `json:"limit"` // a decimal number as text, stored exactly
}

// RememberLimits is how far the rules that ask allow a response to be remembered.
type RememberLimits struct {
	// Same are paths into the call, such as args.customer_id. It answers for a later call
	// only if that has the same value at each path.
	Same  []string `json:"same,omitzero"`
	TTLMS int64    `json:"ttl_ms"`        // longest time from the approval on
	Uses  int      `json:"uses,omitzero"` // limit of further calls; 0 means none
}

// StandingState is the state of a standing approval.
type StandingState string

// The states of a standing approval. Only an active one answers.
const (
	StandingActive  StandingState = "active"
	StandingUsedUp  StandingState = "used_up"
	StandingExpired StandingState = "expired"
	StandingRevoked StandingState = "revoked"
)

// StandingApproval is a rule that an approver remembered with a response. It answers for
// later calls, within its terms, until it ends or is revoked. The event record of the
// approval creates it. After that it has its own entity in the journal, whose event records,
// each with the full state, are its uses and its revocation. All are written by
// compare-and-swap, so no use is spent twice.
type StandingApproval struct {
	ID    StandingID `json:"standing_approval_id"`
	Space SpaceID    `json:"space"`
	Tool  string     `json:"tool_name"`
	// Definition is the hash of what the runtime had declared about the tool: under another
	// definition it is another tool.
	Definition string        `json:"definition_hash,omitzero"`
	Terms      StandingTerms `json:"terms"` // complete
	// Plain marks suggested rules that were accepted unchanged. The policy treats them as
	// rules of the session. They end only if revoked, and their uses are not counted.
	Plain bool `json:"plain,omitzero"`
	// Within are the suggested rules that an edited rule narrows: they must also cover a
	// call.
	Within []message.PermissionRule `json:"within,omitzero"`
	// Rule, Source and Reason are those of the approval request that was answered: the
	// approval answers only for the same approval request.
	Rule   string `json:"rule,omitzero"`
	Source string `json:"source"`
	Reason string `json:"reason"`
	// Same is the value of the approved call at each path of the limits.
	Same map[string]string `json:"same,omitzero"`
	// Session, User, Agent and Arguments are those of the approved call. The scope
	// determines which of them matter. Arguments is a digest.
	Session   message.SessionID `json:"session_id"`
	User      string            `json:"user"`
	Agent     string            `json:"agent,omitzero"`
	Arguments string            `json:"arguments"`

	From      Key       `json:"from"`   // the call whose approval granted it
	Digest    string    `json:"digest"` // of the approval request that was answered
	GrantedBy []Vote    `json:"granted_by"`
	GrantedAt time.Time `json:"granted_at"`

	Revoked *Revocation `json:"revoked,omitzero"`
	// Spent identifies the calls whose uses are counted, each by a hash, so that the same
	// call is counted only once.
	Spent []string `json:"spent,omitzero"`
	// Left is what is left of the budget.
	Left string       `json:"left,omitzero"`
	Use  *StandingUse `json:"use,omitzero"` // the use that this event record counts

	// Seq is the journal sequence of its last event record, or 0 before the first. It is not
	// part of the record.
	Seq uint64 `json:"seq,omitzero"`
	// Judged (state) is the state by which the engine decides. It is set in replies and never stored.
	Judged StandingState `json:"state,omitzero"`
}

// StandingUse is one call that a standing approval answered for.
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

// NewStandingID returns the ID of the standing approval that the approval of a request grants.
func NewStandingID(call Key, digest string) StandingID {
	sum := sha256.Sum256([]byte("askance-standing-approval-v1\x00" + call.IdempotencyKey() + "\x00" + digest))
	return StandingID("sta_" + hex.EncodeToString(sum[:8]))
}

// Key is the key of the standing approval's own entity.
func (s *StandingApproval) Key() Key { return Key{Space: s.Space, Entity: EntityName(s.ID)} }

// Counted reports whether its uses are counted.
func (s *StandingApproval) Counted() bool { return s.Terms.Uses > 0 }

// UsesLeft is how many more calls it can answer for. It applies only if Counted.
func (s *StandingApproval) UsesLeft() int { return max(0, s.Terms.Uses-len(s.Spent)) }

// State returns the state at a given time or, in a reply, as the engine judges it.
func (s *StandingApproval) State(now time.Time) StandingState {
	switch {
	case s.Judged != "":
		return s.Judged
	case s.Revoked != nil:
		return StandingRevoked
	case !s.Terms.Until.IsZero() && !now.Before(s.Terms.Until):
		return StandingExpired
	case s.Counted() && s.UsesLeft() == 0:
		return StandingUsedUp
	}
	return StandingActive
}

// SpentBy returns the mark for a call, as it would run now, in Spent. With other arguments
// it is another call.
func SpentBy(call Key, input string) string {
	sum := sha256.Sum256([]byte(call.IdempotencyKey() + "\x00" + input))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}

// Spend counts one use for a call, with what it takes from the budget, and returns the
// standing approval's next state, or nil if the use is already counted.
func (s *StandingApproval) Spend(call Key, input, amount string, now time.Time) (*StandingApproval, error) {
	refuse := func(what string) error {
		return &message.Error{Code: message.CodeState, Op: "use " + string(s.ID), What: what, Hint: "a person is asked instead"}
	}
	mark := SpentBy(call, input)
	switch state := s.State(now); {
	case state == StandingRevoked, state == StandingExpired:
		return nil, refuse("the standing approval is " + string(state))
	case slices.Contains(s.Spent, mark):
		return nil, nil
	case state != StandingActive:
		return nil, refuse("the standing approval is used up")
	}
	next := *s
	next.Spent = append(slices.Clip(s.Spent), mark)
	next.Use, next.Seq = &StandingUse{Call: call, At: now}, 0
	if s.Terms.Budget != nil {
		left, err := subtract(s.Left, amount)
		if err != nil {
			return nil, refuse("the budget of " + s.Terms.Budget.Path + " has " + s.Left + " left: " + err.Error())
		}
		next.Left, next.Use.Amount = left, amount
	}
	return &next, nil
}

// Text describes briefly what is left of it.
func (s *StandingApproval) Text() string {
	text := "scope " + string(s.Terms.Scope)
	if s.Counted() {
		text += ", " + strconv.Itoa(s.UsesLeft()) + " of " + strconv.Itoa(s.Terms.Uses) + " uses left"
	}
	if b := s.Terms.Budget; b != nil {
		text += ", " + s.Left + " of " + b.Limit + " left of " + b.Path
	}
	return text
}

// StandingApprovalsRequest lists standing approvals: the active ones or, with All, also the
// last thousand that have ended.
type StandingApprovalsRequest struct {
	V    int    `json:"v,omitzero"`
	Tool string `json:"tool_name,omitzero"`
	All  bool   `json:"all,omitzero"`
	// After is the cursor: the id of the last one on the previous page.
	After StandingID `json:"after,omitzero"`
	Limit int        `json:"limit,omitzero"` // default and maximum 200
}

// StandingApprovalsReply contains standing approvals, sorted by id.
type StandingApprovalsReply struct {
	StandingApprovals []*StandingApproval `json:"standing_approvals"`
	Next              StandingID          `json:"next,omitzero"` // "" at the end
}

// ShowStandingApprovalRequest names one standing approval.
type ShowStandingApprovalRequest struct {
	V  int        `json:"v,omitzero"`
	ID StandingID `json:"standing_approval_id"`
}

// ShowStandingApprovalReply contains a standing approval, and the last hundred calls for
// which counted uses were spent, oldest first.
type ShowStandingApprovalReply struct {
	Standing *StandingApproval `json:"standing_approval"`
	Uses     []StandingUse     `json:"uses"`
}

// RevokeStandingApprovalRequest ends a standing approval at once. Calls that it allowed and
// that have not begun are revoked.
type RevokeStandingApprovalRequest struct {
	V      int        `json:"v,omitzero"`
	ID     StandingID `json:"standing_approval_id"`
	Reason string     `json:"reason,omitzero"`
}

// Granted returns the standing approvals that a call's approval granted, as of then: those
// with terms, and the one for its plain rules.
func (c *Call) Granted() []StandingApproval {
	if s, plain := c.PlainStandingApproval(); plain {
		return append(slices.Clip(c.StandingApprovals), s)
	}
	return c.StandingApprovals
}

// Standing returns the standing approval with its state at a given time.
func (s *StandingApproval) Standing(now time.Time) StandingStatus {
	out := StandingStatus{Standing: s, State: s.State(now)}
	if s.Counted() {
		left := s.UsesLeft()
		out.UsesLeft = &left
	}
	return out
}

// PlainStandingApproval returns the standing approval for an allowed call's Remember: the
// suggested rules that its approvers accepted unchanged. It can be derived from any event
// record of the call after the call was allowed. ok reports whether there is one.
func (c *Call) PlainStandingApproval() (s StandingApproval, ok bool) {
	if len(c.Remember) == 0 {
		return StandingApproval{}, false
	}
	s = StandingApproval{
		ID: NewStandingID(c.Key, "plain\x00"+c.Digest), Space: c.Space, Tool: c.Tool, Definition: c.DefinitionHash(), Plain: true,
		Terms:   StandingTerms{Rules: c.Remember, Scope: ScopeSession},
		Session: c.Session, User: c.Runtime, Agent: c.Agent,
		From: c.Key, Digest: c.Digest,
	}
	if req := c.Request; req != nil {
		s.Rule, s.Source, s.Reason = req.Rule, req.Source, req.Reason
	}
	by := c.Tally().Approvals
	if n := len(c.Votes); len(by) == 0 && n > 0 { // in records of an earlier release, an edit did not count as an approval
		by = c.Votes[n-1:]
	}
	for _, v := range by {
		s.GrantedBy = append(s.GrantedBy, Vote{Kind: v.Kind, By: v.By, At: v.At, Digest: v.Digest, Edited: v.Edited, Made: v.Made, Groups: v.Groups, GroupsFrom: v.GroupsFrom, Step: v.Step})
		if v.At.After(s.GrantedAt) {
			s.GrantedAt = v.At
		}
	}
	if c.Hides() { // possible in records of an earlier release; patterns are made of arguments
		s.Terms.Rules = nil
		for _, r := range c.Remember {
			content := hiddenMark + "]"
			r.RuleContent = &content
			s.Terms.Rules = append(s.Terms.Rules, r)
		}
	}
	return s, true
}

// amountForm matches a decimal number that is stored exactly: no sign, no exponent, at
// most 18 digits before the point and 9 after it.
var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,9})?$`)

const amountPlaces = 9

// CheckAmount checks a decimal number of a budget.
func CheckAmount(text string) error {
	if !amountForm.MatchString(text) {
		return errors.New("it is not a decimal number of 0 or more, with at most 18 digits before the point and 9 after it")
	}
	return nil
}

// subtract subtracts amount from left, exactly.
func subtract(left, amount string) (string, error) {
	for _, text := range []string{left, amount} {
		if err := CheckAmount(text); err != nil {
			return "", err
		}
	}
	a, ok := new(big.Rat).SetString(left)
	b, ok2 := new(big.Rat).SetString(amount)
	if !ok || !ok2 {
		return "", errors.New("it is not a number")
	}
	if a.Cmp(b) < 0 {
		return "", errors.New("the call needs " + amount)
	}
	return formatAmount(a.Sub(a, b)), nil
}

// formatAmount formats a number exactly, with at most amountPlaces decimal places.
func formatAmount(r *big.Rat) string {
	return strings.TrimRight(strings.TrimRight(r.FloatString(amountPlaces), "0"), ".")
}
