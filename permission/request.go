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

// Request is a tool call to decide.
type Request struct {
	Tool  string
	Input []byte // the raw JSON object that would run, after all rewrites
	// Caller comes from authenticated event records, never from the input.
	Caller Caller
	// Definition is what the caller's program declares about the tool; nil means nothing. It is
	// used only for a tool that Options.Tools does not declare.
	Definition *Definition
	// Parent is the call within which this one is made, Depth the number of enclosing calls.
	Parent *Parent
	Depth  int
	// Mode of the session; empty means the bundle's mode.
	Mode Mode
	// Now is ctx.now for the rules. The package itself reads a clock only for its own deadline.
	Now         time.Time
	Cwd         string
	WorkingDirs []string
	// Folder is where the tool runs the call, "" means in Cwd: relative paths in the input begin
	// there. The contents of rules still begin at Cwd, and Folder is not a working directory.
	Folder string
	// Resolved maps each path in the input, by its text, to the absolute path that it leads to once
	// symbolic links are followed. The caller fills it in (see Resolve), because
	// deciding reads no files. Rules read it as ctx.resolved[args.path], which fails for a path not
	// in it.
	Resolved map[string]string
	// Attempt is the number of the attempt to run the call, from 1; CallsThisRun counts the calls
	// of the caller's run, including this one. 0 means unknown: rules that read it cannot be
	// evaluated unless they guard it. With CountUnread a number exists, so a guard must not hide
	// that it is unknown.
	Attempt      int
	CallsThisRun int
	// SessionRules are rules of any behavior that are remembered for this session. They join the
	// bundle's rules, with the same precedence.
	SessionRules []message.PermissionRule
	// Exhausted are the rules whose budget has no room for the call; they allow nothing. For all
	// others the decision says what the call takes.
	Exhausted []Exhausted
	// Recheck are rules whose conditions must still hold: Denied denies the call if one of them no
	// longer matches or cannot be evaluated.
	Recheck []string
}

// CountUnread as Request.CallsThisRun says that the number could not be read. If a rule of the
// policy reads it, no rule that reads ctx can be evaluated.
const CountUnread = -1

// RequestOf returns the request about a call before its first attempt, with everything that the call
// itself says.
func RequestOf(c *toolcall.Call) Request {
	r := Request{
		Tool: c.Tool, Input: []byte(c.Input), Folder: c.Cwd, Depth: c.Depth(), Attempt: 1,
		Caller: Caller{Agent: c.Agent, User: c.Runtime, Space: c.Space, Session: c.Session, Reply: c.Reply, RunID: string(c.Reply), Groups: c.Groups()},
	}
	if p := c.Parent; p != nil {
		r.Caller.ParentAgent = p.Agent
		r.Parent = &Parent{Tool: p.Tool, User: p.Runtime, Agent: p.Agent, Session: p.Session, Reply: p.Reply, Call: p.Call, Around: p.Around}
	}
	return r
}

// Caller is the proposer of the call. An empty Tenant, RunID or ParentAgent is unknown: rules that
// read it cannot be evaluated unless they guard it with has().
type Caller struct {
	Agent       string            `json:"agent"`
	User        string            `json:"user"` // on whose behalf
	Space       toolcall.SpaceID  `json:"space"`
	Session     message.SessionID `json:"session"`
	Reply       message.ReplyID   `json:"reply"`
	Roles       []string          `json:"roles"`  // nil: unknown; empty: none
	Groups      []string          `json:"groups"` // of User, as authenticated; nil: unknown; empty: none
	Tenant      string            `json:"tenant"`
	RunID       string            `json:"run_id"`
	ParentAgent string            `json:"parent_agent"` // that started this one
}

// Definition is what a caller's program declares about a tool that it runs itself. The schema is
// applied to the arguments. The rest is for rules: a claim allows nothing unless a rule reads it
// from tool.claims.
type Definition struct {
	Hash    string
	Changed bool // the session began with another definition of the tool
	Schema  *Schema
	Claims  Claims
	// Err says why the definition is unknown; the call then cannot be evaluated.
	Err error
}

// Claims are what a definition claims about all calls of a tool.
type Claims struct{ ReadOnly, Destructive, Idempotent, OpenWorld bool }

// Parent is a call within which others are made, such as the one that started a
// sub-agent. Around are the users on whose behalf the calls around it are made.
type Parent struct {
	Tool    string            `json:"tool"`
	User    string            `json:"user"` // on whose behalf the call was made
	Agent   string            `json:"agent"`
	Session message.SessionID `json:"session"`
	Reply   message.ReplyID   `json:"reply"`
	Call    message.CallID    `json:"id"`
	Around  []string          `json:"around,omitzero"`
}

// requesters returns everyone on whose behalf the call and those around it are made.
func (r *Request) requesters() []string {
	out := []string{r.Caller.User}
	if p := r.Parent; p != nil {
		out = append(append(out, p.User), p.Around...)
	}
	return out
}

// Mode is AgentScope's permission mode: what happens to a call that no rule decides. In a Request
// the empty Mode means the bundle's default.
type Mode = message.PermissionMode

// The modes. In all of them deny rules deny, and no call that matches an ask rule is allowed
// without a response.
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

// modeRow is one column of the decision table in doc.go: what the steps that depend on the mode do.
// Its zero value, used for unknown modes, denies.
type modeRow struct {
	known bool
	// converts turns every ask into a deny.
	converts bool
	// rulesOnly skips the tool's own check and the allow rules.
	rulesOnly bool
	// ignoresImmune ignores a safety ask of the tool.
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

// Options are what a policy is compiled against.
type Options struct {
	// Tools are the declared tools. If there are any, a rule about another tool is an error,
	// because its name is most likely misspelled.
	Tools []Tool
	// AllowUnknownTools accepts rules about undeclared tools, whose arguments are untyped.
	AllowUnknownTools bool
	// Matchers interpret rule_content, by tool name.
	Matchers map[string]Matcher
	// Enforced are the duties that the engine enforces. A rule with another duty is a load error,
	// because it would be weaker than it reads. nil means approvers.users and expiry, which every
	// engine enforces.
	Enforced []Duty
	Limits   Limits
	// Unhurried turns off Limits.Deadline, for programs whose analysis of a policy must not depend
	// on how busy the machine is. The cost limits still bound the work. It is not part of the hash.
	Unhurried bool
}

// Limits bound the work of one decision. A zero field means the value in DefaultLimits. A call that
// exceeds a limit fails closed; it is never allowed.
type Limits struct {
	// RuleCost bounds one expression, in cel-go's cost units (about one simple
	// operation each).
	RuleCost uint64
	// DecisionCost bounds all expressions of one decision together.
	DecisionCost uint64
	// Deadline bounds the time spent in expressions whose cost is not proved at load time.
	Deadline time.Duration
	// InputBytes and InputDepth bound a call's input: its JSON text, and the nesting of objects and
	// arrays.
	InputBytes int
	InputDepth int
}

// DefaultLimits apply where Options.Limits is zero. Kubernetes allows its CEL rules 100 times this
// cost per rule; these rules run for every single call.
var DefaultLimits = Limits{
	RuleCost:     10_000,
	DecisionCost: 1_000_000,
	Deadline:     50 * time.Millisecond,
	InputBytes:   256 << 10,
	InputDepth:   32,
}

func (l Limits) ofInput() []strictjson.Option {
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
