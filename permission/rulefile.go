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
		out.Call.Parent = &Parent{Tool: p.Tool, User: p.User, Agent: p.Agent, Session: p.Session, Reply: p.Reply, Call: p.Call}
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
func (t *Test) Place() Place { return placeOf(t.at) }

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
