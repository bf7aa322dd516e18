package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
func (r *Rule) Place() Place { return placeOf(r.at, "") }

// FieldPlace is where the value of a key starts, such as "when" or "approvers.groups", or the
// rule's place if the file does not have the key.
func (r *Rule) FieldPlace(key string) Place { return placeOf(r.at, key) }

func placeOf(o *rulefile.Origin, key string) Place {
	line, col := o.Start(key)
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

// IsEnforced reports whether the rule decides, instead of only reporting its matches.
func (r *Rule) IsEnforced() bool {
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

// HasContent reports whether the rule selects calls by a content.
func (r *Rule) HasContent() bool { _, ok := r.content(); return ok }

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

func policyOf(doc *rulefile.File, layer Layer) filePolicy {
	out := filePolicy{layer: layer, at: doc.At}
	if !doc.Sound {
		return out
	}
	out.disable = doc.Disable
	out.Mode, out.Expiry, out.Shell = doc.Defaults.Mode, doc.Defaults.Expiry, doc.Defaults.Shell
	for _, t := range doc.Vocabulary {
		out.Vocabulary = append(out.Vocabulary, Term{Name: t.Name, Expr: t.Expr, at: t.At})
	}
	for i := range doc.Rules {
		if r := &doc.Rules[i]; r.Sound {
			out.Rules = append(out.Rules, ruleOf(r, doc, layer))
		}
	}
	for i := range doc.Tests {
		if t := &doc.Tests[i]; t.Sound {
			out.Tests = append(out.Tests, testOf(t))
		}
	}
	return out
}

type filePolicy struct {
	Policy
	layer   Layer
	disable []string // names of rules to disable
	at      *rulefile.Origin
}

func ruleOf(r *rulefile.Rule, file *rulefile.File, layer Layer) Rule {
	out := Rule{
		Name: r.Name, Description: r.Description, Tools: slices.Concat(r.Tool, r.ToolName),
		RuleContent: r.RuleContent, Behavior: r.Behavior, Source: r.Source, When: r.When, Message: r.Message, Denial: Denial(r.Denial),
		OnError: OnError(r.OnError), Locked: r.Locked, Layer: layer, Enforcement: Enforcement(r.Enforcement),
		Approvers: Approvers(r.Approvers), Quorum: r.Quorum, Signed: r.Signed, Expiry: r.Expiry, OnExpiry: OnExpiry(r.OnExpiry),
		Redact: r.Redact, Executor: Executor(r.Executor), Audit: AuditLevel(r.Audit.Level),
		Options: r.Options, Recheck: r.Recheck, TrustOptions: r.TrustOptions, IKnow: r.IKnow, at: r.At,
	}
	if r.Match.AgentScope != nil {
		out.RuleContent = r.Match.AgentScope
	}
	for _, e := range r.Escalation {
		out.Escalation = append(out.Escalation, Escalation{After: e.After, To: Approvers{Users: e.To.Users, Groups: e.To.Groups}})
	}
	if r.Remember != nil {
		out.Remember = &Remember{Scope: r.Remember.Scope, TTL: r.Remember.TTL, Uses: r.Remember.MaxUses}
	}
	if b := r.Budget; b != nil {
		out.Budget = &Budget{Sum: b.Sum, AtMost: string(b.AtMost), Calls: b.Calls, Per: b.Per, Every: b.Every}
	}
	out.fillDefaults(file)
	return out
}

func (r *Rule) fillDefaults(file *rulefile.File) {
	def := &file.Defaults
	r.Source = cmp.Or(r.Source, file.Name)
	if r.OnError == "" && !r.Locked && r.Behavior != message.BehaviorAllow {
		r.OnError = OnError(def.OnError)
	}
	if r.Enforcement == "" && !r.Locked {
		r.Enforcement = Enforcement(def.Enforcement)
	}
	r.Audit = cmp.Or(r.Audit, AuditLevel(def.Audit.Level))
	if r.Behavior != message.BehaviorAllow {
		r.Denial = Denial{Allowed: cmp.Or(r.Denial.Allowed, def.Denial.Allowed), Contact: cmp.Or(r.Denial.Contact, def.Denial.Contact)}
	}
	if r.Behavior != message.BehaviorAsk {
		return
	}
	r.Expiry = cmp.Or(r.Expiry, def.Expiry)
	// A rule without escalation cannot escalate.
	if r.OnExpiry == "" && (OnExpiry(def.OnExpiry) != OnExpiryEscalate || len(r.Escalation) > 0) {
		r.OnExpiry = OnExpiry(def.OnExpiry)
	}
}

func testOf(t *rulefile.Test) Test {
	c, e := &t.Call, &t.Expect
	args := []byte(c.Input)
	if c.Args != nil {
		args = *c.Args
	} else if c.Input == "" {
		args = []byte("{}")
	}
	out := Test{
		Name: t.Name, Description: t.Description, at: t.At,
		Expect: Expect{
			Behavior: e.Behavior, Rule: e.Rule, Step: Step(e.Step), Message: e.Message, Quorum: e.Quorum, Expiry: e.Expiry, OnExpiry: OnExpiry(e.OnExpiry),
			Users: e.Users, Groups: e.Groups, Redact: e.Redact, Errors: e.Errors,
		},
		Call: Request{
			Tool: strings.TrimPrefix(c.Tool, Frontend), Input: args, Mode: c.Mode, Now: c.Now.Time, Cwd: c.Cwd, WorkingDirs: c.WorkingDirs,
			Attempt: c.Attempt, CallsThisRun: c.CallsThisRun, Caller: Caller(c.Caller),
		},
	}
	if d := c.Definition; d != nil {
		out.Call.Definition = &Definition{Hash: d.Hash, Changed: d.Changed, Claims: Claims{d.ReadOnly, d.Destructive, d.Idempotent, d.OpenWorld}}
	}
	if p := c.Parent; p != nil {
		out.Call.Parent = &Parent{Tool: p.Tool, User: p.User, Agent: p.Agent, Session: p.Session, Reply: p.Reply, Call: p.Call, Around: p.Around}
		out.Call.Depth = max(p.Depth, 1)
	}
	for _, name := range c.Exhausted {
		out.Call.Exhausted = append(out.Call.Exhausted, Exhausted{Rule: name, Why: "the test says so"})
	}
	for _, r := range c.SessionRules {
		out.Call.SessionRules = append(out.Call.SessionRules, message.PermissionRule(r))
	}
	return out
}

// Test is a call and the decision expected for it. Tests are in rule files, decide nothing and are
// not part of a bundle's hash.
type Test struct {
	Name        string
	Description string
	Call        Request
	Expect      Expect

	at *rulefile.Origin
}

// Place is where the test starts.
func (t *Test) Place() Place { return placeOf(t.at, "") }

// Expect is what a test expects. Nil and empty fields are not checked.
type Expect struct {
	Behavior message.Behavior
	// Rule is the name of the deciding rule; "" (null in the file) means none.
	Rule     *string
	Step     Step
	Message  *string
	Quorum   *int
	Expiry   *time.Duration
	OnExpiry OnExpiry
	Users    []string
	Groups   []string
	Redact   []string
	// Errors says whether something could not be evaluated.
	Errors *bool
}

// Problem is one fault in a policy.
type Problem struct {
	File      string // as given in File.Name; "" for rules made in Go
	Line, Col int    // from 1, in characters; 0 when there is no file
	Rule      string // name of the rule, if it has one
	Field     string // key of the rule file, e.g. "when" or "approvers.users"
	Kind      ProblemKind
	Msg       string
	Hint      string // how to fix it; may be empty
}

// ProblemKind classifies problems for programs that show them. The zero value means any other
// fault.
type ProblemKind string

// The kinds of problems that are distinguished.
const (
	ProblemExpression ProblemKind = "expression"   // an expression that does not parse, or has a wrong type
	ProblemName       ProblemKind = "unknown_name" // a variable or field that does not exist
	ProblemTool       ProblemKind = "unknown_tool" // a tool that is not declared
	ProblemCost       ProblemKind = "cost"         // an expression that may cost too much
	ProblemKey        ProblemKind = "unknown_key"  // a key that is not allowed at this place
	ProblemPeople     ProblemKind = "people"       // an approval request that too few people can respond to
	ProblemPath       ProblemKind = "path"         // a path to hide that does not exist
	ProblemTime       ProblemKind = "time"         // a step that comes after the approval request has expired
)

// String formats the problem as "file:line:col: rule name: field: fault (hint)".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", p.Line, p.Col)
		}
		b.WriteByte(' ')
	}
	if p.Rule != "" {
		b.WriteString("rule " + p.Rule + ": ")
	}
	if p.Field != "" {
		b.WriteString(p.Field + ": ")
	}
	b.WriteString(p.Msg)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// LoadError says why a policy was refused. It lists every problem found, ordered by file and line;
// a single problem refuses the whole policy.
type LoadError struct{ Problems []Problem }

// maxShownProblems limits the text of a LoadError, not its list.
const maxShownProblems = 20

// Error lists the problems, one per line.
func (e *LoadError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "policy refused, %d problem", len(e.Problems))
	if len(e.Problems) != 1 {
		b.WriteByte('s')
	}
	for i, p := range e.Problems {
		if i == maxShownProblems {
			fmt.Fprintf(&b, "\n… and %d more", len(e.Problems)-i)
			break
		}
		b.WriteString("\n" + p.String())
	}
	return b.String()
}

type problems []Problem

func (ps *problems) add(p Problem) { *ps = append(*ps, p) }

func (ps problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	return &LoadError{Problems: slices.Compact(ps)}
}

// Place is a position in a rule file. The zero Place is that of rules made in Go.
type Place struct {
	File string `json:"file,omitzero"`
	Line int    `json:"line,omitzero"` // from 1
	Col  int    `json:"col,omitzero"`  // from 1, in characters
}
