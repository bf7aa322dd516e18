package permission

import (
	"github.com/askance-dev/askance/message"
)

// Step names the part of the decision procedure that decided. It is a name, not
// the number of a step: numbers would change with every step that is added.
type Step string

// The steps, in the order of evaluation.
const (
	StepNoPolicy        Step = "no_policy"  // no good bundle is loaded
	StepRule            Step = "rule"       // a deny or ask rule
	StepError           Step = "error"      // something could not be evaluated and would otherwise end in allow
	StepReadOnly        Step = "read_only"  // the tool changes nothing
	StepToolCheck       Step = "tool_check" // the tool's own check
	StepAllowRule       Step = "allow_rule" // an allow rule, of the bundle or of the session
	StepAskConverted    Step = "ask_converted_to_deny"
	StepFallbackAsk     Step = "fallback_ask"
	StepFallbackExplore Step = "fallback_explore"
	StepFallbackBypass  Step = "fallback_bypass"
	StepFallbackDontAsk Step = "fallback_dont_ask"
)

// SessionRuleName is what Decision.Rule says when a rule of the request's
// session decided; such rules have no names of their own.
const SessionRuleName = "session"

// Decision is the answer to one request. Its Behavior is allow, deny or ask;
// the zero Decision is none of them and must not be read as allow.
type Decision struct {
	Behavior message.Behavior `json:"behavior"`
	Step     Step             `json:"step"`
	Mode     Mode             `json:"mode"`
	// Rule and Source name the rule that decided; "" where none did.
	Rule   string `json:"rule"`
	Source string `json:"source"`
	// Reason says why, for the record.
	Reason string `json:"reason"`
	// Message is for the person who is asked, or for the model that is denied.
	Message string `json:"message"`
	// Bundle is the content hash of the policy that decided; "" if there was none.
	Bundle string `json:"bundle"`
	// Errors lists what could not be evaluated on the way. Count and expose
	// them: each means that a rule did not do its work.
	Errors []RuleError `json:"errors"`
	// Suggested are allow rules to offer with the approval request; nil where none are
	// due, empty where the tool has none.
	Suggested []message.PermissionRule `json:"suggested_rules"`
	// BypassImmune marks a safety approval request that no allow rule can answer.
	BypassImmune bool `json:"bypass_immune"`
	// Requirement says who may answer and for how long; only of an ask.
	Requirement Requirement `json:"requirement"`
	// Redact are the paths into the arguments that the matching rules hide,
	// sorted.
	Redact []string `json:"redact"`
	// Executor says where and for how long the call runs once it is allowed.
	Executor Executor `json:"executor"`
	// Audit says how much is kept about the call.
	Audit AuditLevel `json:"audit"`
	// Layer is that of the rule that decided.
	Layer Layer `json:"layer"`
	// Watched are the matches of rules that warn or audit only.
	Watched []Watched `json:"watched"`
}

// Watched is a match of a rule that does not decide.
type Watched struct {
	Rule        string           `json:"rule"`
	Behavior    message.Behavior `json:"behavior"` // of the rule
	Enforcement Enforcement      `json:"enforcement"`
	// Failed says that the rule could not be evaluated.
	Failed bool `json:"failed"`
}

// RuleError is something that could not be evaluated during a decision.
type RuleError struct {
	Rule  string `json:"rule"`  // "" where it is not about one rule
	Field string `json:"field"` // "when", "message", "rule_content", "input", "check", "mode" or "context"
	Msg   string `json:"msg"`
	// Err is the cause, for errors.Is with ErrCostLimit and ErrDeadline and
	// errors.As with *SchemaError. It does not travel.
	Err error `json:"-"`
}

// Error names the rule and what could not be evaluated.
func (e RuleError) Error() string {
	where := e.Field
	if e.Rule != "" {
		where = "rule " + e.Rule + ": " + e.Field
	}
	return where + ": " + e.Msg
}

// Unwrap gives the cause.
func (e RuleError) Unwrap() error { return e.Err }
