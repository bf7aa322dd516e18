package permission

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// AnyTool as the only tool name makes a deny or ask rule apply to every tool. An allow rule must
// name its tools.
const AnyTool = "*"

// Rule is one rule of a policy: AgentScope's PermissionRule (tool name, content, behavior, source)
// with a name, a condition and the requirements of an ask.
type Rule struct {
	// Name is unique in a bundle and appears in every decision and record.
	Name        string
	Description string
	// Tools are exact, case-sensitive tool names, tools supplied by frontends ("frontend/name"),
	// servers ("server/*"), or only AnyTool.
	Tools []string
	// RuleContent is interpreted by the tool's Matcher. nil and "" match every call.
	RuleContent *string
	// Behavior is deny, ask or allow.
	Behavior message.Behavior
	// Source says where the rule comes from (userSettings, projectSettings, …). Decisions repeat
	// it; it never decides between rules.
	Source string
	// When is a CEL expression of type bool; empty means true. The rule applies to the calls for
	// which it is true.
	When string
	// Message is a CEL expression of type string: what the person is asked, or what the model is
	// told about a denial.
	Message string
	// Denial is what agents are also told when a call of a deny or ask rule is denied.
	Denial Denial
	// OnError is what a deny or ask rule does with a call if the rule cannot be evaluated. Empty
	// means deny for locked rules, otherwise ask. An allow rule has none: if it cannot be
	// evaluated, it does not match, and the mode cannot allow the call either.
	OnError OnError
	// Locked marks a deny or ask rule that must always apply: an error in it denies, even if the
	// file's default is ask, and no lower layer can disable it.
	Locked bool
	// Layer is the layer of the file; the zero Layer means LayerProject.
	Layer Layer
	// Enforcement says whether the rule decides or only reports its matches.
	Enforcement Enforcement

	// Requirements of an ask. A key here that Options.Enforced does not list is a load error.

	// Approvers says who can respond to the approval request of an ask rule.
	Approvers Approvers
	// Quorum is how many distinct people must approve; 0 means one. One rejection ends the request.
	Quorum int
	// Signed requires approvers of an ask rule to sign with their own key.
	Signed bool
	// Expiry is how long the approval request of an ask rule stays open. 0 means the policy's
	// default.
	Expiry time.Duration
	// OnExpiry is what happens then; empty means OnExpiryDeny.
	OnExpiry OnExpiry
	// Escalation lets further people respond as time passes, in ascending order.
	Escalation []Escalation
	// Remember says what an approval can cover beyond its call; nil means nothing.
	Remember *Remember

	// Recheck: the condition must still hold when the call starts, or the call is denied.
	Recheck bool
	// Budget limits what an allow rule allows; nil means no limit.
	Budget *Budget

	// These apply to a matching call whether or not it needs approval.

	// Redact are paths into the arguments that are hidden from people, records and messages, such
	// as args.card.* or args.customer.email.
	Redact []string
	// Executor says where and for how long the call runs once it is allowed.
	Executor Executor
	// Audit says how much is recorded about the call.
	Audit AuditLevel

	// Options are options and operands that an allow rule for a command admits besides the listed
	// ones, in the syntax of shell/options.txt: "--fix --ext= <local>...".
	Options string
	// TrustOptions lets an allow rule cover every option of a program whose options are unknown.
	TrustOptions bool
	// IKnow accepts lint errors in this rule.
	IKnow bool

	// imported rules come from AgentScope and never mean more than they do there.
	imported bool
	// at is the rule's position in a file; nil for rules made in Go.
	at *rulefile.Origin
}

// Denial is what an operator tells agents about denied calls of a rule.
type Denial struct {
	Allowed string // what would be allowed instead
	Contact string // whom to ask
}

// Place is where the rule starts.
func (r *Rule) Place() Place { return placeOf(r.at) }

// FieldPlace is where the value of a key starts, such as "when" or "approvers.groups", or the
// rule's place if the file does not have the key.
func (r *Rule) FieldPlace(key string) Place {
	line, col := r.at.Start(key)
	return Place{File: r.at.FileName(), Line: line, Col: col}
}

func placeOf(o *rulefile.Origin) Place {
	line, col := o.Start("")
	return Place{File: o.FileName(), Line: line, Col: col}
}

// Enforcement says what a match of the rule does.
type Enforcement string

// The levels. A rule that only warns or audits decides nothing and does not affect other rules: the
// decision is the same as without it.
const (
	EnforcementEnforce Enforcement = "enforce" // the default
	EnforcementWarn    Enforcement = "warn"    // reports what it would have decided, also to people
	EnforcementAudit   Enforcement = "audit"   // reports it only in the record
)

func (r *Rule) isEnforced() bool {
	return r.Enforcement == "" || r.Enforcement == EnforcementEnforce
}

// OnError is what an error in a rule does to the call.
type OnError string

// An error asks or denies. It never allows.
const (
	OnErrorAsk  OnError = "ask"
	OnErrorDeny OnError = "deny"
)

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

// content is the text that a matcher must match; false means that every call matches.
func (r *Rule) content() (string, bool) {
	if r.RuleContent == nil || *r.RuleContent == "" {
		return "", false
	}
	return *r.RuleContent, true
}

func (r *Rule) anyTool() bool { return slices.Contains(r.Tools, AnyTool) }

// Policy is a set of rules and what applies when none of them does. The order of the rules does not
// matter. The zero Policy has no rules: the modes and the tools decide.
type Policy struct {
	// Mode is used for requests that set none; empty means ModeDefault.
	Mode Mode
	// Expiry is how long an approval request stays open if no rule sets a time; 0 means forever.
	Expiry time.Duration
	// Shell is the shell that runs the text of shell tools; empty means bash.
	Shell string
	// Vocabulary names conditions for use in rules.
	Vocabulary []Term
	Rules      []Rule
	// Tests come from the rule files and decide nothing.
	Tests []Test
}

// Term is a named CEL expression over tool, caller and ctx. Rules use the name in place of the
// expression.
type Term struct {
	Name string
	Expr string

	at *rulefile.Origin
}
