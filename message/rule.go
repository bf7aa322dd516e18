package message

// Behavior is what a permission rule or a decision says about a tool call.
// The zero value is not "allow": it is no behavior at all and every consumer
// treats it as ask or refuses it.
type Behavior string

// The behaviors of AgentScope 2.0, in its own words.
const (
	BehaviorAllow       Behavior = "allow"
	BehaviorDeny        Behavior = "deny"
	BehaviorAsk         Behavior = "ask"
	BehaviorPassthrough Behavior = "passthrough"
)

// PermissionRule is AgentScope's rule as it travels inside tool call blocks
// (suggested_rules), confirm results and permission contexts. RuleContent is a
// required key on the wire whose value may be null: nil and "" both match
// every call of the tool.
type PermissionRule struct {
	ToolName    string   `json:"tool_name"`
	RuleContent *string  `json:"rule_content"`
	Behavior    Behavior `json:"behavior"`
	Source      string   `json:"source"`
}
