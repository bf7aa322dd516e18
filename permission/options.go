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
