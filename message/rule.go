package message

// Behavior is what a permission rule or a decision says about a tool call. The zero value is
// not "allow": it is no behavior, and every consumer treats it as ask or refuses it.
type Behavior string

// The behaviors of AgentScope 2.0, in its spelling.
const (
	BehaviorAllow       Behavior = "allow"
	BehaviorDeny        Behavior = "deny"
	BehaviorAsk         Behavior = "ask"
	BehaviorPassthrough Behavior = "passthrough"
)

// PermissionRule is AgentScope's rule as sent in tool call blocks (suggested_rules), confirm
// results and permission contexts. RuleContent is a required member whose value may be null:
// nil and "" both match every call of the tool.
type PermissionRule struct {
	ToolName    string   `json:"tool_name" wire:"required"`
	RuleContent *string  `json:"rule_content" wire:"required"`
	Behavior    Behavior `json:"behavior" wire:"required"`
	Source      string   `json:"source" wire:"required"`
}

// Valid reports whether b is exactly one of AgentScope's behaviors.
func (b Behavior) Valid() bool { return isWord(string(b), b.words()) }

func (Behavior) words() string { return "allow, deny, ask, passthrough" }

// PermissionMode is the mode of AgentScope's permission engine. The zero value is no mode and
// is written as default.
type PermissionMode string

// The modes, in AgentScope's spelling.
const (
	ModeDefault     PermissionMode = "default"      // asks about calls that no rule allows
	ModeAcceptEdits PermissionMode = "accept_edits" // allows edits of files in the working folders
	ModeExplore     PermissionMode = "explore"      // allows only what provably changes nothing; ignores allow rules
	ModeBypass      PermissionMode = "bypass"       // allows what no rule denies or asks about
	ModeDontAsk     PermissionMode = "dont_ask"     // denies what default asks about, for runs without approvers
)

// Valid reports whether m is exactly one of AgentScope's modes.
func (m PermissionMode) Valid() bool { return isWord(string(m), m.words()) }

func (PermissionMode) words() string { return "default, accept_edits, explore, bypass, dont_ask" }

// PermissionContext is the permission state of an AgentScope session. Rules are listed under
// their tool's name. A rule acts according to the list and name under which it is listed,
// regardless of its own fields, and is stored unchanged.
type PermissionContext struct {
	Mode               PermissionMode              `json:"mode" wire:"default=default"`
	WorkingDirectories map[string]WorkingDirectory `json:"working_directories"`
	AllowRules         map[string][]PermissionRule `json:"allow_rules"`
	DenyRules          map[string][]PermissionRule `json:"deny_rules"`
	AskRules           map[string][]PermissionRule `json:"ask_rules"`
}

// WorkingDirectory is a folder in which file tools may write without asking.
type WorkingDirectory struct {
	Path   string `json:"path" wire:"required"`
	Source string `json:"source" wire:"required"` // who added it, free text
}
