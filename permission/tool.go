package permission

import (
	"time"

	"github.com/askance-dev/askance/message"
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
}

// ToolVerdict is the outcome of a tool's own check.
type ToolVerdict struct {
	Answer CheckAnswer
	// Message is shown to the person or told to the model; may be empty.
	Message string
}

// CheckAnswer is what a tool says about a call to it. The zero value leaves the
// call to the rules and the mode.
type CheckAnswer uint8

// The answers. CheckAskImmune asks even where an allow rule matches; bypass
// mode ignores it, as in AgentScope.
const (
	CheckPassthrough CheckAnswer = iota
	CheckAllow
	CheckDeny
	CheckAsk
	CheckAskImmune
)

// Matcher gives meaning to the rule_content of one tool's rules. Its methods
// may run on several goroutines at once; a panic counts as an error.
type Matcher interface {
	// Compile prepares the content of one rule at load. The behavior is given
	// because an allow must match strictly and a deny widely. An error refuses
	// the bundle.
	Compile(content string, behavior message.Behavior) (Pattern, error)
	// Suggest gives the allow rules to offer for remembering with a question
	// about this call. None is a fair answer.
	Suggest(Call) []message.PermissionRule
}

// Pattern is a compiled rule content.
type Pattern interface {
	// Match reports whether the rule is about this call. An error falls closed
	// as an error in a condition does.
	Match(Call) (bool, error)
}
