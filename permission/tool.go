package permission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/schema"
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

func shellKind(t *Tool) ShellKind {
	if t == nil {
		return nil
	}
	k, _ := t.Kind.(ShellKind)
	return k
}

// ArgumentKind is a Kind that reads one argument of each call: the command line or the path. Rules
// with content look only at that argument.
type ArgumentKind interface {
	Kind
	Argument() Argument
}

// Argument describes what an ArgumentKind reads.
type Argument struct {
	Name string
	What string // "command" or "path"
	// Default says that a call without the argument means the current folder.
	Default bool
	// Others are further arguments of such tools that name neither a command nor a path.
	Others []string
}

// CheckKind returns an error if the tool's kind reads an argument that the tool's schema does not
// declare, because no rule would ever match a call. An OpaqueKind on a read-only tool is also an
// error.
func (t *Tool) CheckKind() error {
	if _, opaque := t.Kind.(OpaqueKind); opaque && t.ReadOnly {
		return errors.New("read_only: askance cannot analyse what a Windows shell runs; remove read_only, and allow calls by rules with when")
	}
	k, ok := t.Kind.(ArgumentKind)
	root := t.Schema.root()
	if !ok || root == nil || root.Kind != schema.KindStruct {
		return nil // checked for each call, because the schema does not say
	}
	a := k.Argument()
	field := root.Fields[a.Name]
	switch {
	case field != nil && isText(field):
		return nil
	case field != nil:
		return fmt.Errorf("kind: the argument %s is not text in input_schema, and the kind reads the %s from it; declare it as {type: string}, or set argument to the name of the one that has the %s",
			display.Quoted(a.Name), a.What, a.What)
	}
	var texts []string
	for name, f := range root.Fields {
		if isText(f) && !slices.Contains(a.Others, name) {
			texts = append(texts, name)
		}
	}
	slices.Sort(texts)
	switch {
	case len(texts) == 0 && a.Default:
		return nil // the current folder, unless a call has something undeclared
	case len(texts) == 0:
		return fmt.Errorf("kind: the kind reads the %s from the argument %s, which input_schema does not declare; declare it as {type: string}, or remove the kind",
			a.What, display.Quoted(a.Name))
	case len(texts) == 1:
		return fmt.Errorf("kind: the kind reads the %s from the argument %s, which input_schema does not declare; write argument: %s",
			a.What, display.Quoted(a.Name), display.Quoted(texts[0]))
	}
	return fmt.Errorf("kind: the kind reads the %s from the argument %s, which input_schema does not declare; set argument to the one that has the %s: %s",
		a.What, display.Quoted(a.Name), a.What, display.Quoted(strings.Join(texts, ", ")))
}

func isText(t *schema.Type) bool {
	switch t.Kind {
	case schema.KindInt, schema.KindDouble, schema.KindBool, schema.KindList, schema.KindMap, schema.KindStruct:
		return false
	default:
		return true // text, or not specified by the schema
	}
}

// errNoArgument says that a call may name its command or path in a way that the kind does not read.
var errNoArgument = fmt.Errorf("%w: the call lacks the argument that the tool's kind reads", ErrUnclear)

// findArgument returns errNoArgument if the call lacks its kind's argument and has another one that
// could stand for it. No rule can judge such a call.
func (e *evaluation) findArgument() error {
	a := argumentOf(e.tr.tool)
	if a.Name == "" || e.call.Input[a.Name] != nil {
		return nil
	}
	for name, value := range e.call.Input {
		if mayName(value) && !slices.Contains(a.Others, name) && !(a.Default && e.tr.declares(name)) {
			return fmt.Errorf("%w: %s", errNoArgument, display.Quoted(a.Name))
		}
	}
	return nil
}

func argumentOf(t *Tool) Argument {
	if t == nil {
		return Argument{}
	}
	if k, ok := t.Kind.(ArgumentKind); ok {
		return k.Argument()
	}
	return Argument{}
}

// declares reports whether the tool's schema has a member of that name. CheckKind leaves the
// meaning of such members to the author.
func (t *toolRules) declares(name string) bool {
	root := t.schema().root()
	return root != nil && root.Fields[name] != nil
}

func mayName(value any) bool {
	switch v := value.(type) {
	case string:
		return v != ""
	case []any, map[string]any:
		return true
	default:
		return false
	}
}

// PathKind is a Kind whose calls name files, so a deny or ask rule can be about files rather than a
// tool.
type PathKind interface {
	Kind
	// Files says what the calls do with the files that they name.
	Files() FileUse
	// CompilePath compiles the content of such a rule. With reading set, the rule applies to calls
	// that can show the file's content; otherwise to all calls that reach the file.
	CompilePath(content string, reading bool) (Pattern, error)
}

// FileUse says what the calls of a PathKind do with files.
type FileUse uint8

// The uses. A deny or ask rule about a tool that only reads files protects the files from every
// tool that can show their content.
const (
	FilesWritten FileUse = iota
	FilesShown
	FilesRead
)

// pathRule is a rule whose content is about the files of several tools.
type pathRule struct {
	*compiledRule
	anyTool bool
	named   []string // tools named by the rule
}

// addPathRule records a rule whose content protects files from other tools.
func (c *compiler) addPathRule(r *Rule, cr *compiledRule, tr *toolRules) {
	if _, ok := r.content(); !ok || r.Behavior != message.BehaviorDeny && r.Behavior != message.BehaviorAsk {
		return
	}
	if tr == nil {
		c.paths = append(c.paths, pathRule{compiledRule: cr, anyTool: true})
		return
	}
	if k, ok := tr.kind().(PathKind); ok && k.Files() == FilesRead && r.When == "" {
		c.paths = append(c.paths, pathRule{compiledRule: cr, named: c.toolsOf(r)})
	}
}

// spreadPathRules adds the rules about files to the tools that reach files.
func (c *compiler) spreadPathRules() {
	tools := slices.SortedFunc(maps.Values(c.bundle.byTool), func(a, b *toolRules) int { return strings.Compare(a.name, b.name) })
	for _, p := range c.paths {
		var unseen []string
		for _, tr := range tools {
			k, ok := tr.kind().(PathKind)
			switch {
			case ok && (p.anyTool || k.Files() != FilesWritten && !slices.Contains(p.named, tr.name)):
				c.spreadPathRule(p, tr, k)
			case p.anyTool && !ok:
				unseen = append(unseen, tr.name)
			}
		}
		switch {
		case p.anyTool && len(unseen) == len(tools):
			c.addFault(p.rule, "rule_content", "is about files, but no declared tool has a kind that names files",
				"give the tools a kind in the tools file, such as bash or read, leave the content out, or use when")
		case len(unseen) > 0:
			c.addNotice(p.rule, AnyTool, "does not see the files of "+display.Quoted(strings.Join(unseen, ", "))+", which have no kind that names files")
		}
	}
}

func (c *compiler) spreadPathRule(p pathRule, tr *toolRules, k PathKind) {
	content, _ := p.rule.content()
	pattern, err := callSafely(func() (Pattern, error) { return k.CompilePath(content, !p.anyTool) })
	if err != nil {
		c.addFault(p.rule, "rule_content", "for tool "+display.Quoted(tr.name)+": "+err.Error(), "")
		return
	}
	cr := *p.compiledRule
	cr.pattern = pattern
	if !p.anyTool {
		cr.message, cr.protects = nil, true // its message and handling refer to another tool's arguments
	}
	tr.addRules(&cr)
}

// sessionPathPattern returns the pattern of a session's rule about another tool, if the rule
// protects files from this one.
func (e *evaluation) sessionPathPattern(r *message.PermissionRule) (Pattern, error) {
	other := e.bundle.byTool[r.ToolName]
	here, ok := e.tr.kind().(PathKind)
	if other == nil || !ok || here.Files() == FilesWritten || r.RuleContent == nil || *r.RuleContent == "" {
		return nil, nil
	}
	if k, ok := other.kind().(PathKind); !ok || k.Files() != FilesRead {
		return nil, nil
	}
	return callSafely(func() (Pattern, error) { return here.CompilePath(*r.RuleContent, true) })
}
