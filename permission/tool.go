package permission

import (
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/shell"
)

// Tool is what the policy knows about a tool. Only Name is required.
type Tool struct {
	Name   string
	Server string // MCP server or group that the tool comes from
	// Schema of the tool's input. With one, rules are type-checked at load and
	// arguments are validated before any rule sees them; without one args is a
	// map of anything.
	Schema *Schema
	// ReadOnly says that no input of this tool changes anything. It allows
	// calls in every mode that no rule denies or asks about: set it only on
	// proof, never on the word of an untrusted server.
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
	OpenWorld   bool
	// Check is the tool's own opinion of a call; nil has none. It must be pure
	// and may run on several goroutines at once. A panic counts as CheckAskImmune.
	Check func(Call) ToolVerdict
	// Kind is what is known about calls of tools of this kind, such as shells;
	// nil: nothing. It stands in for Check and for a Matcher of the tool, and it
	// is a fault to give it together with one of them.
	Kind Kind
}

// Kind is what is known about all tools of one kind: which calls are proven
// read-only, which are dangerous, and what a rule's content means. Its methods
// may run on several goroutines at once. A panic never allows a call.
//
// Package permission/agentscope has the kinds of AgentScope's own tools.
type Kind interface {
	Matcher
	// Name tells apart kinds that decide differently, with everything that they
	// were configured with. It goes into the bundle's hash.
	Name() string
	// Prepare reads a call. It runs once for each decision, before anything else
	// here, and what it returns is Call.Prepared for the others.
	Prepare(Call) any
	// ReadOnly reports whether the call is proven to change nothing. It allows
	// the call in every mode, unless a rule denies it or asks.
	ReadOnly(Call) bool
	// Check is the kind's own opinion of a call, as Tool.Check.
	Check(Call) ToolVerdict
}

// OpaqueKind is a Kind of tools that run text which nothing here can read, such as
// PowerShell. Such a tool cannot be declared read-only.
type OpaqueKind interface {
	Kind
	Opaque()
}

// JointMatcher is a Matcher whose allow rules can cover a call together, each
// of them a part of it: the commands of one shell line, for example.
type JointMatcher interface {
	Matcher
	// Covered finds, among these patterns, all of allow rules that are about the
	// call but for their content, those that cover it together, by their places
	// in ascending order. None does alone; none at all: they do not.
	Covered(Call, []Pattern) ([]int, error)
}

// Call is what a Tool's Check and a Matcher see of a call. All of it is
// read-only.
type Call struct {
	Tool string
	Raw  []byte // the input as it came, a JSON object
	// Input is Raw decoded: int64, float64, string, bool, nil, []any, map[string]any.
	Input       map[string]any
	Mode        Mode
	Now         time.Time
	Cwd         string
	WorkingDirs []string
	// Prepared is what the Prepare of the tool's Kind returned.
	Prepared any
}

// ToolVerdict is the outcome of a tool's own check.
type ToolVerdict struct {
	Answer CheckResult
	// Message is shown to the person or told to the model; may be empty.
	Message string
	// Step names the part of the check that answered; empty: StepToolCheck.
	Step Step
	// Coverable: a content rule of a policy that covers the call answers a
	// CheckAskImmune. Rules of AgentScope's form and of sessions do not.
	Coverable bool
}

// CheckResult is what a tool says about a call to it. The zero value leaves the
// call to the rules and the mode.
type CheckResult uint8

// The answers. CheckAskImmune asks even where an allow rule matches; bypass
// mode ignores it, as in AgentScope. CheckUncovered is a weaker form of it: no
// allow rule matches, and the mode decides as about any call without one, so
// that the approval request reads as one that nothing has been said about.
const (
	CheckPassthrough CheckResult = iota
	CheckAllow
	CheckDeny
	CheckAsk
	CheckAskImmune
	CheckUncovered
)

// Matcher gives meaning to the rule_content of one tool's rules. Its methods
// may run on several goroutines at once; a panic counts as an error.
type Matcher interface {
	// Compile prepares the content of one rule at load. The behavior is given
	// because an allow must match strictly and a deny widely. An error refuses
	// the bundle.
	Compile(content string, behavior message.Behavior) (Pattern, error)
	// Suggest gives the allow rules to offer for remembering with an approval request
	// about this call. None is a fair answer.
	Suggest(Call) []message.PermissionRule
}

// ErrNoContent is what Compile of a Matcher returns that gives no content any
// meaning: no rule with one would ever match. AgentScope accepts such rules.
var ErrNoContent = errors.New("content has no meaning for a tool of this kind, so that the rule would never match: " +
	"leave it out to match every call, or use when")

// ErrUnclear is what Match of a Pattern wraps where it is unknown before the call
// runs whether the rule is about it. Then a deny or ask rule asks about what would be allowed.
var ErrUnclear = errors.New("it is unknown before the call runs whether the rule is about it")

// Pattern is a compiled rule content.
type Pattern interface {
	// Match reports whether the rule is about this call. An error falls closed
	// as an error in a condition does.
	Match(Call) (bool, error)
}

// OptionTruster is a Pattern of an allow rule that looks at the options of
// programs. The rule's options add some, its trust_options admit all.
type OptionTruster interface {
	Pattern
	TrustOptions() Pattern
	AddOptions(words string) (Pattern, error)
}

// PolicyPattern is a Pattern that means more in a rule of a policy than in one of
// AgentScope, where it never allows what is asked about there.
type PolicyPattern interface {
	Pattern
	OfPolicy() Pattern
}

// Noticer is a Pattern whose author may expect another meaning.
type Noticer interface {
	Pattern
	// Notice says what it means, and what one may have expected; "" if there
	// is nothing to say.
	Notice() string
}

// Notice is something that the author of a rule should know, though it is no
// fault: the rule means less than the same rule does elsewhere, for example, or a
// file of a folder is not read, which is of no rule.
type Notice struct {
	Place
	Rule string
	Tool string
	Text string
}

// String names the place, the rule and what is to be known.
func (n Notice) String() string {
	where := "rule " + n.Rule
	if n.Rule == "" {
		return n.File + " " + n.Text
	}
	if n.File != "" {
		where = fmt.Sprintf("%s:%d:%d: %s", n.File, n.Line, n.Col, where)
	}
	return where + ": " + n.Text
}

// The variable cmd: what the line of a shell tool would run.

// ShellKind is a Kind of tools that take a line for a shell. Conditions about
// such tools see it as cmd.
type ShellKind interface {
	Kind
	// Line is the line that the call would run; nil if the call has none.
	// Call.Prepared is available: the line need not be read twice.
	Line(Call) *shell.Line
}

// The shells that may run the text of shell tools. Lines are judged so that the
// rules hold under both.
const defaultShell = "bash"

var shells = []string{"bash", "sh"}

// shellKind is the kind of a shell tool; nil for other tools.
func shellKind(t *Tool) ShellKind {
	if t == nil {
		return nil
	}
	k, _ := t.Kind.(ShellKind)
	return k
}
