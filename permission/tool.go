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
	// Schema of the tool's input. With a schema, rules are type-checked at load time and arguments
	// are validated before any rule sees them; without one, args is a map of anything.
	Schema *Schema
	// ReadOnly says that no input of this tool changes anything. In every mode it allows calls that
	// no rule denies or asks about: set it only on proof, never on the word of an untrusted server.
	ReadOnly    bool
	Destructive bool
	Idempotent  bool
	OpenWorld   bool
	// Check is the tool's own opinion of a call; nil means none. It must be pure and may run on
	// several goroutines at once. A panic counts as CheckAskImmune.
	Check func(Call) ToolVerdict
	// Kind is what is known about calls of tools of this kind, such as shells; nil means nothing.
	// It replaces Check and the tool's Matcher; giving it together with either is a fault.
	Kind Kind
}

// Kind is what is known about all tools of one kind: which calls are proven read-only, which are
// dangerous, and what a rule's content means. Its methods may run on several goroutines at once. A
// panic never allows a call.
//
// Package permission/agentscope has the kinds of AgentScope's own tools.
type Kind interface {
	Matcher
	// Name distinguishes kinds that decide differently, including their configuration. It goes into
	// the bundle's hash.
	Name() string
	// Prepare reads a call. It runs once per decision, before the other methods, and its result is
	// passed to them as Call.Prepared.
	Prepare(Call) any
	// ReadOnly reports whether the call is proven to change nothing. In every mode that allows the
	// call, unless a rule denies or asks.
	ReadOnly(Call) bool
	// Check is the kind's own opinion of a call, like Tool.Check.
	Check(Call) ToolVerdict
}

// OpaqueKind is a Kind of tools that run text which nothing here can read, such as PowerShell. Such
// a tool cannot be declared read-only.
type OpaqueKind interface {
	Kind
	Opaque()
}

// JointMatcher is a Matcher whose allow rules can cover a call together, each one part of it, such
// as the commands of one shell line.
type JointMatcher interface {
	Matcher
	// Covered selects those of the given patterns that cover the call together, as ascending
	// indexes. All are from allow rules that match the call apart from their content. No single one
	// covers it. An empty result means that they do not cover it.
	Covered(Call, []Pattern) ([]int, error)
}

// Call is what a Tool's Check and a Matcher see of a call. Nothing in it may be changed.
type Call struct {
	Tool string
	Raw  []byte // the input as received, a JSON object
	// Input is Raw decoded: int64, float64, string, bool, nil, []any, map[string]any.
	Input       map[string]any
	Mode        Mode
	Now         time.Time
	Cwd         string // where the contents of rules begin
	WorkingDirs []string
	Folder      string // where the tool runs: relative paths in the input begin there
	// Prepared is what Prepare of the tool's Kind returned.
	Prepared any
}

// FolderArguments are the names of the argument with which agents say where a command runs.
var FolderArguments = []string{"dir", "directory", "dir_path", "workdir", "working_directory", "cwd"}

// ToolVerdict is the result of a tool's own check.
type ToolVerdict struct {
	Answer CheckResult
	// Message is shown to the person or told to the model; it may be empty.
	Message string
	// Step names the part of the check that answered; empty means StepToolCheck.
	Step Step
	// Coverable: a content rule of a policy that covers the call satisfies a CheckAskImmune. Rules
	// in AgentScope's format and session rules do not.
	Coverable bool
}

// CheckResult is a tool's opinion of a call. The zero value leaves the call to the rules and the
// mode.
type CheckResult uint8

// The answers. CheckAskImmune asks even if an allow rule matches; bypass mode ignores it, as in
// AgentScope. CheckUncovered is a weaker form: no allow rule matches, and the mode decides as for
// any call without a rule, so the approval request reads as if no rule applied.
const (
	CheckPassthrough CheckResult = iota
	CheckAllow
	CheckDeny
	CheckAsk
	CheckAskImmune
	CheckUncovered
)

// Matcher interprets the rule_content of one tool's rules. Its methods may run on several
// goroutines at once; a panic counts as an error.
type Matcher interface {
	// Compile compiles the content of one rule at load time. It gets the behavior because an allow
	// must match strictly and a deny broadly. An error refuses the bundle.
	Compile(content string, behavior message.Behavior) (Pattern, error)
	// Suggest returns the allow rules that an approval request about this call offers to remember.
	// It may return none.
	Suggest(Call) []message.PermissionRule
}

// ErrNoContent is what a Matcher's Compile returns if no content has a meaning: a rule with content
// would never match. AgentScope accepts such rules.
var ErrNoContent = errors.New("content has no meaning for a tool of this kind, so the rule would never match: " +
	"leave it out to match every call, or use when")

// ErrUnclear is wrapped by a Pattern's Match if it is unknown before the call runs whether the rule
// applies. A deny or ask rule then asks about what would be allowed.
var ErrUnclear = errors.New("it is unknown before the call runs whether the rule applies")

// Pattern is a compiled rule content.
type Pattern interface {
	// Match reports whether the rule applies to this call. An error fails closed, like an error in
	// a condition.
	Match(Call) (bool, error)
}

// OptionTruster is a Pattern of an allow rule that checks the options of programs. The rule's
// options extend the list, its trust_options admits all.
type OptionTruster interface {
	Pattern
	TrustOptions() Pattern
	AddOptions(words string) (Pattern, error)
}

// PolicyPattern is a Pattern that covers more in a rule of a policy than in one of AgentScope,
// where it never allows what needs approval there.
type PolicyPattern interface {
	Pattern
	OfPolicy() Pattern
}

// Noticer is a Pattern whose meaning may surprise its author.
type Noticer interface {
	Pattern
	// Notice says what the pattern means and what its author may have expected; "" if there is
	// nothing to say.
	Notice() string
}

// Notice is something that the author of a rule should know although it is not a fault: for
// example, that the rule means less here than elsewhere, or that a file in a folder is not read,
// which concerns no rule.
type Notice struct {
	Place
	Rule string
	Tool string
	Text string
}

// String formats the place, the rule and the text.
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
	// Line returns the line that the call would run, or nil if the call has none. Call.Prepared is
	// available, so the line need not be read twice.
	Line(Call) *shell.Line
}

// The shells that may run the text of shell tools. Lines are judged so that rules hold for both.
const defaultShell = "bash"

var shells = []string{"bash", "sh"}

// shellKind returns the kind of a shell tool, or nil for other tools.
func shellKind(t *Tool) ShellKind {
	if t == nil {
		return nil
	}
	k, _ := t.Kind.(ShellKind)
	return k
}
