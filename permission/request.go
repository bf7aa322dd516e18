package permission

import (
	"cmp"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/toolcall"
)

// Request is one tool call to be decided.
type Request struct {
	Tool  string
	Input []byte // the raw JSON object that would run, after every rewrite
	// Caller comes from authenticated event records, never from the input.
	Caller Caller
	// Definition is what the caller's program declares of the tool; nil: nothing. It
	// counts only of a tool that is not declared in Options.Tools.
	Definition *Definition
	// Parent is the call within which this one is made, Depth how many are around it.
	Parent *Parent
	Depth  int
	// Mode of the session; empty: the bundle's.
	Mode Mode
	// Now is ctx.now for the rules. The package never reads a clock itself,
	// but for its own deadline.
	Now         time.Time
	Cwd         string
	WorkingDirs []string
	// Resolved has, by its text in the input, the absolute path to which each
	// path leads when symbolic links are followed. Who prepares the request
	// fills it in (see Resolve), because deciding looks at no file. Rules read
	// it as ctx.resolved[args.path], which fails for what is not in it.
	Resolved map[string]string
	// Attempt is the number of the try at running the call, from 1;
	// CallsThisRun counts the calls of the caller's run, this one included.
	// 0: not known, and then rules that ask for it cannot be evaluated, unless they guard it.
	// CountUnread: there is a number, so that a guard must not hide that it is not known.
	Attempt      int
	CallsThisRun int
	// SessionRules are rules remembered for this session, of any behavior.
	// They join the bundle's, with the same precedence.
	SessionRules []message.PermissionRule
	// Exhausted are the rules whose budget has no room for the call: they allow
	// nothing. Of all others the decision says what the call takes.
	Exhausted []Exhausted
	// Recheck are rules whose conditions must still hold: Denied denies a call about
	// which one of them is not any more, or cannot be evaluated.
	Recheck []string
}

// CountUnread as Request.CallsThisRun says that the number was not read: if a rule of the
// policy asks for it, no rule that reads ctx can be evaluated.
const CountUnread = -1

// Caller is who proposes the call. What is empty of Tenant, RunID and
// ParentAgent is not known: rules that ask for it cannot be evaluated, unless
// they guard it with has().
type Caller struct {
	Agent       string            `json:"agent"`
	User        string            `json:"user"` // on whose behalf
	Space       toolcall.SpaceID  `json:"space"`
	Session     message.SessionID `json:"session"`
	Reply       message.ReplyID   `json:"reply"`
	Roles       []string          `json:"roles"`  // nil: not known; empty: none
	Groups      []string          `json:"groups"` // of User, as authenticated; nil: not known; empty: none
	Tenant      string            `json:"tenant"`
	RunID       string            `json:"run_id"`
	ParentAgent string            `json:"parent_agent"` // that started this one
}

// Definition is what a caller's program declares of a tool that it runs itself. The
// schema is applied to the arguments. The rest is for rules: no claim allows a call
// unless a rule reads it from tool.claims.
type Definition struct {
	Hash    string
	Changed bool // the session began with another definition of the tool
	Schema  *Schema
	Claims  Claims
	// Err says why the definition is not known: the call cannot be evaluated then.
	Err error
}

// Claims are what a definition says of all calls of a tool.
type Claims struct{ ReadOnly, Destructive, Idempotent, OpenWorld bool }

// Parent is a call within which others are made, such as the one that started a
// sub-agent.
type Parent struct {
	Tool    string            `json:"tool"`
	User    string            `json:"user"` // on whose behalf it was made
	Agent   string            `json:"agent"`
	Session message.SessionID `json:"session"`
	Reply   message.ReplyID   `json:"reply"`
	Call    message.CallID    `json:"id"`
}

// Mode is AgentScope's permission mode: what happens to a call that no rule
// resolves. In a Request the empty Mode stands for the bundle's default.
type Mode = message.PermissionMode

// The modes. In all of them deny rules deny, and no call that an ask rule
// matches is allowed without an answer.
const (
	ModeDefault     = message.ModeDefault     // ask
	ModeAcceptEdits = message.ModeAcceptEdits // ask; tools' own checks may allow edits inside a working directory
	ModeExplore     = message.ModeExplore     // deny what is not proven read-only
	ModeBypass      = message.ModeBypass      // allow
	ModeDontAsk     = message.ModeDontAsk     // deny: no approver is available
)

// ParseMode returns the mode of that name. Names are case-sensitive.
func ParseMode(s string) (Mode, error) {
	m := Mode(s)
	if _, ok := modeRows[m]; !ok {
		return "", fmt.Errorf("unknown permission mode %q, want one of default, accept_edits, explore, bypass, dont_ask", s)
	}
	return m, nil
}

// modeRow is one column of the decision table in doc.go: what the steps that
// depend on the mode do. Its zero value, for an unknown mode, denies.
type modeRow struct {
	known bool
	// converts turns every ask into a deny.
	converts bool
	// rulesOnly leaves out the tool's own check and the allow rules.
	rulesOnly bool
	// ignoresImmune lets a safety ask of the tool fall through.
	ignoresImmune bool
	fallback      outcome
}

type outcome uint8

const (
	outcomeDeny outcome = iota
	outcomeAsk
	outcomeAllow
)

var modeRows = map[Mode]modeRow{
	ModeDefault:     {known: true, fallback: outcomeAsk},
	ModeAcceptEdits: {known: true, fallback: outcomeAsk},
	ModeExplore:     {known: true, fallback: outcomeDeny, rulesOnly: true},
	ModeBypass:      {known: true, fallback: outcomeAllow, ignoresImmune: true},
	ModeDontAsk:     {known: true, fallback: outcomeDeny, converts: true},
}

// Options say what a policy is compiled against.
type Options struct {
	// Tools are the declared tools. When there are any, a rule about another
	// tool is an error, because it is most likely misspelled.
	Tools []Tool
	// AllowUnknownTools accepts rules about undeclared tools; their arguments
	// are untyped.
	AllowUnknownTools bool
	// Matchers give meaning to rule_content, by tool name.
	Matchers map[string]Matcher
	// Enforced are the duties that the engine carries out. A rule
	// with another one is a load error: it would be weaker than it reads. nil:
	// approvers.users and expiry, which every engine enforces.
	Enforced []Duty
	Limits   Limits
	// Unhurried leaves out Limits.Deadline: for tools that look at a policy and
	// whose verdict must not depend on how busy the machine is. The costs bound
	// the work all the same. It is no part of the hash.
	Unhurried bool
}

// Limits bound the work of one decision. A zero field takes its value from
// DefaultLimits. What exceeds a limit falls closed; it never allows.
type Limits struct {
	// RuleCost bounds one expression, in cel-go's cost units (about one simple
	// operation each).
	RuleCost uint64
	// DecisionCost bounds all expressions of one decision together.
	DecisionCost uint64
	// Deadline bounds the time spent in expressions whose cost is not proved
	// at load.
	Deadline time.Duration
	// InputBytes and InputDepth bound a call's input: its JSON text, and
	// objects and arrays within each other.
	InputBytes int
	InputDepth int
}

// The bounds of an input by default.
const (
	usualBytes = 256 << 10
	usualDepth = 32
)

// DefaultLimits hold where Options.Limits says nothing. Kubernetes gives its
// CEL rules 100 times the cost per rule; ours run for every single call.
var DefaultLimits = Limits{
	RuleCost:     10_000,
	DecisionCost: 1_000_000,
	Deadline:     50 * time.Millisecond,
	InputBytes:   usualBytes,
	InputDepth:   usualDepth,
}

// usualInput are the bounds of an input by DefaultLimits, made once.
var usualInput = []strictjson.Option{strictjson.MaxBytes(usualBytes), strictjson.MaxDepth(usualDepth)}

func (l Limits) ofInput() []strictjson.Option {
	if l.InputBytes == usualBytes && l.InputDepth == usualDepth {
		return usualInput
	}
	return []strictjson.Option{strictjson.MaxBytes(l.InputBytes), strictjson.MaxDepth(l.InputDepth)}
}

func (l Limits) withDefaults() Limits {
	return Limits{
		RuleCost:     cmp.Or(l.RuleCost, DefaultLimits.RuleCost),
		DecisionCost: cmp.Or(l.DecisionCost, DefaultLimits.DecisionCost),
		Deadline:     cmp.Or(l.Deadline, DefaultLimits.Deadline),
		InputBytes:   cmp.Or(l.InputBytes, DefaultLimits.InputBytes),
		InputDepth:   cmp.Or(l.InputDepth, DefaultLimits.InputDepth),
	}
}

func (l Limits) expressions(unhurried bool) celrule.Bounds {
	b := celrule.Bounds{RuleCost: l.RuleCost, DecisionCost: l.DecisionCost, Time: l.Deadline, InputBytes: l.InputBytes}
	if unhurried {
		b.Time = 0
	}
	return b
}
