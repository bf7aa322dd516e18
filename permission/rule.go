package permission

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/rulefile"
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
	// Tools are exact, case-sensitive tool names, tools that frontends bring written
	// "frontend/name", servers written "server/*", or AnyTool alone.
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
	// Denial is what agents are told besides when a call of a deny or ask rule is denied.
	Denial Denial
	// OnError is what a deny or ask rule does with a call on which it cannot
	// be evaluated. Empty: deny for locked rules, else ask. An allow rule has
	// none: when it cannot be evaluated it does not match, and the call cannot
	// be allowed by the mode either.
	OnError OnError
	// Locked marks a deny or ask rule that must hold in any case: an error in
	// it denies, also if the file's default asks, and no lower layer can take
	// it out.
	Locked bool
	// Layer is that of the file; the zero Layer is LayerProject.
	Layer Layer
	// Enforcement says whether the rule decides or is only watched.
	Enforcement Enforcement

	// What an ask requires. A key here that Options.Enforced does not list is a
	// load error.

	// Approvers says who may answer the approval request of an ask rule.
	Approvers Approvers
	// Quorum is how many distinct people must approve; 0 is one. One of them
	// who rejects ends the approval request.
	Quorum int
	// Signed asks approvers of an ask rule to sign with a key of their own.
	Signed bool
	// Expiry is how long the approval request of an ask rule stays open. 0: the
	// policy's default.
	Expiry time.Duration
	// OnExpiry is what happens then; empty is OnExpiryDeny.
	OnExpiry OnExpiry
	// Escalation lets further people answer as time passes; ascending.
	Escalation []Escalation
	// Remember says what an approval may cover beyond its call; nil: nothing.
	Remember *Remember

	// Recheck: the condition must hold again when the call begins, or it is denied.
	Recheck bool
	// Budget bounds what an allow rule allows; nil: nothing does.
	Budget *Budget

	// What holds for a matching call whether or not it is asked about.

	// Redact are paths into the arguments that are hidden from people, records
	// and messages, as args.card.* or args.customer.email.
	Redact []string
	// Executor says where and for how long the call runs once it is allowed.
	Executor Executor
	// Audit says how much is kept about the call.
	Audit AuditLevel

	// Options are options and operands that an allow rule for a command admits with
	// the listed ones, in the words of shell/options.txt: "--fix --ext= <local>...".
	Options string
	// TrustOptions lets an allow rule cover every option of a program of whose
	// options nothing is known.
	TrustOptions bool
	// IKnow accepts what lint refuses in this rule.
	IKnow bool

	// imported rules are AgentScope's and never mean more than there.
	imported bool
	// at is where the rule stands in a file; nil for rules made in Go.
	at *rulefile.Origin
}

// Denial is what an operator tells agents about the calls of a rule that are denied.
type Denial struct {
	Allowed string // what would be allowed instead
	Contact string // whom to ask
}

// Place is where the rule begins.
func (r *Rule) Place() Place { return placeOf(r.at) }

// FieldPlace is where the value of a key begins, as "when" or
// "approvers.groups"; the rule's place where the key is not written out.
func (r *Rule) FieldPlace(key string) Place {
	line, col := r.at.Start(key)
	return Place{File: r.at.FileName(), Line: line, Col: col}
}

func placeOf(o *rulefile.Origin) Place {
	line, col := o.Start("")
	return Place{File: o.FileName(), Line: line, Col: col}
}

// Enforcement says what a rule's match does.
type Enforcement string

// The levels. A rule that only warns or audits decides nothing, for other
// rules neither: the decision is the one that the policy without it would make.
const (
	EnforcementEnforce Enforcement = "enforce" // the default
	EnforcementWarn    Enforcement = "warn"    // says what it would have decided, to people too
	EnforcementAudit   Enforcement = "audit"   // says so in the record alone
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
	// Expiry is how long an approval request stays open that no rule gives a time;
	// 0: for ever.
	Expiry time.Duration
	// Shell is the shell that runs the text of shell tools; empty is bash.
	Shell string
	// Vocabulary gives names to conditions for use in rules.
	Vocabulary []Term
	Rules      []Rule
	// Tests are part of the rule files and decide nothing.
	Tests []Test
}

// Term is a named CEL expression over tool, caller and ctx. Rules use the name
// as if they had written the expression.
type Term struct {
	Name string
	Expr string

	at *rulefile.Origin
}
