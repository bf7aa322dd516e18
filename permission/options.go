package permission

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
	// StrictAgentScope treats rule_content of a tool without a matcher, or whose
	// matcher knows none (ErrNoContent), as AgentScope does: the rule never
	// matches, a deny rule included. Without it such a rule is a load error. In
	// rules of FromContext no tool name is a pattern then. It also
	// takes the steps in AgentScope's order, in which an ask rule stands in
	// for the denials of tools and modes, if it is about the call there, too
	// (WidePattern); without it that order is for kinds that say so
	// (UpstreamKind).
	StrictAgentScope bool
	// Enforced are the duties that whoever asks and runs carries out. A rule
	// with another one is a load error: it would be weaker than it reads. nil:
	// approvers.users and expiry, which every engine enforces.
	Enforced []Duty
	Limits   Limits
	// Unhurried leaves out Limits.Deadline: for tools that look at a policy and
	// whose verdict must not depend on how busy the machine is. The costs bound
	// the work all the same. It is no part of the hash.
	Unhurried bool
}
