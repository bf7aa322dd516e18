package permission

import (
	"cmp"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/celrule"
)

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

// ofInput are the bounds of an input.
func (l Limits) ofInput() []strictjson.Option {
	if l.InputBytes == usualBytes && l.InputDepth == usualDepth {
		return usualInput
	}
	return []strictjson.Option{strictjson.MaxBytes(l.InputBytes), strictjson.MaxDepth(l.InputDepth)}
}

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	return Limits{
		RuleCost:     cmp.Or(l.RuleCost, DefaultLimits.RuleCost),
		DecisionCost: cmp.Or(l.DecisionCost, DefaultLimits.DecisionCost),
		Deadline:     cmp.Or(l.Deadline, DefaultLimits.Deadline),
		InputBytes:   cmp.Or(l.InputBytes, DefaultLimits.InputBytes),
		InputDepth:   cmp.Or(l.InputDepth, DefaultLimits.InputDepth),
	}
}

// expressions are the bounds of the expressions of one decision.
func (l Limits) expressions(unhurried bool) celrule.Bounds {
	b := celrule.Bounds{RuleCost: l.RuleCost, DecisionCost: l.DecisionCost, Time: l.Deadline, InputBytes: l.InputBytes}
	if unhurried {
		b.Time = 0
	}
	return b
}
