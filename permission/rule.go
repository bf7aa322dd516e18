package permission

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
)

// AnyTool as the only tool name makes a deny or ask rule apply to every tool.
// An allow rule must name its tools.
const AnyTool = "*"

// Rule is one line of policy: AgentScope's PermissionRule (tool name, content,
// behavior, source) with a name, a condition and what an ask requires.
type Rule struct {
	// Name is unique in a bundle and appears in every decision and record.
	Name        string
	Description string
	// Tools are exact, case-sensitive tool names, or AnyTool alone.
	Tools []string
	// RuleContent is matched by the tool's Matcher. nil and "" match every call.
	RuleContent *string
	// Behavior is deny, ask or allow.
	Behavior message.Behavior
	// Source says where the rule comes from (userSettings, projectSettings, …).
	// It is repeated in decisions and never decides between rules.
	Source string
	// When is a CEL expression of type bool; empty is true. The rule applies
	// to the calls for which it is true.
	When string
	// Message is a CEL expression of type string: what the person is asked, or
	// what the model is told about a denial.
	Message string
	// OnError is what a deny or ask rule does with a call on which it cannot
	// be evaluated. Empty: deny for locked rules, else ask. An allow rule has
	// none: when it cannot be evaluated it does not match, and the call cannot
	// be allowed by the mode either.
	OnError OnError
	// Locked marks a deny or ask rule that must hold in any case: an error in
	// it denies, whatever the file's default says.
	Locked bool
	// Approvers says who may answer the question of an ask rule.
	Approvers Approvers
	// Expiry is how long the question of an ask rule stays open; then the call
	// is denied. 0: the policy's default.
	Expiry time.Duration

	// at is where the rule stands in a file; nil for rules made in Go.
	at *origin
}

// Approvers says who may answer a question. The zero value is every approver.
type Approvers struct {
	// Users are the names of the people who may answer; empty: any approver.
	Users []string
}

// OnError is what an error in a rule does to the call.
type OnError string

// An error asks or denies. It never allows.
const (
	OnErrorAsk  OnError = "ask"
	OnErrorDeny OnError = "deny"
)

// onError is the rule's effective OnError.
func (r *Rule) onError() OnError {
	switch {
	case r.OnError != "":
		return r.OnError
	case r.Locked:
		return OnErrorDeny
	default:
		return OnErrorAsk
	}
}

// content is the text that a matcher must match; false: every call matches.
func (r *Rule) content() (string, bool) {
	if r.RuleContent == nil || *r.RuleContent == "" {
		return "", false
	}
	return *r.RuleContent, true
}

func (r *Rule) anyTool() bool { return slices.Contains(r.Tools, AnyTool) }

// Policy is a set of rules and what holds when none applies. Its order has no
// meaning. The zero Policy has no rules: the modes and the tools decide.
type Policy struct {
	// Mode is used for requests that name none; empty is ModeDefault.
	Mode Mode
	// Expiry is how long a question stays open that no rule gives a time;
	// 0: for ever.
	Expiry time.Duration
	Rules  []Rule
}
