package permission

import (
	"cmp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/toolcall"
)

// Step names the part of the decision procedure that decided. It is a name rather than a number,
// because numbers would change with every new step.
type Step string

// The steps, in the order of evaluation.
const (
	StepNoPolicy        Step = "no_policy"  // no valid bundle is loaded
	StepRule            Step = "rule"       // a deny or ask rule
	StepError           Step = "error"      // something could not be evaluated and would otherwise be allowed
	StepReadOnly        Step = "read_only"  // the tool changes nothing
	StepToolCheck       Step = "tool_check" // the tool's own check
	StepAllowRule       Step = "allow_rule" // an allow rule of the bundle or the session
	StepAskConverted    Step = "ask_converted_to_deny"
	StepFallbackAsk     Step = "fallback_ask"
	StepFallbackExplore Step = "fallback_explore"
	StepFallbackBypass  Step = "fallback_bypass"
	StepFallbackDontAsk Step = "fallback_dont_ask"
)

// SessionRuleName is the value of Decision.Rule when a rule of the request's session decided; such
// rules have no names.
const SessionRuleName = "session"

// Decision is the decision about one request. Its Behavior is allow, deny or ask; the zero Decision
// is none of these and must not be treated as allow.
type Decision struct {
	Behavior message.Behavior `json:"behavior"`
	Step     Step             `json:"step"`
	Mode     Mode             `json:"mode"`
	// Rule and Source name the rule that decided, or are "" if no rule did.
	Rule   string `json:"rule"`
	Source string `json:"source"`
	// Reason says why, for the record.
	Reason string `json:"reason"`
	// Message is for the person who is asked, or for the model that is denied.
	Message string `json:"message"`
	// Headline says that Message begins with the message of the deciding ask or allow rule,
	// computed from the call, so it can describe what would run.
	Headline bool `json:"headline,omitzero"`
	// Denial is what agents are told about a denial, or would be told if people deny the request:
	// only the message and the rule's denial.
	Denial *toolcall.DenialHint `json:"denial,omitzero"`
	// Bundle is the content hash of the policy that decided; "" if there was none.
	Bundle string `json:"bundle"`
	// Errors lists what could not be evaluated along the way. Count and expose them: each means
	// that a rule did not do its work.
	Errors []RuleError `json:"errors"`
	// Suggested are allow rules to offer with the approval request; nil if none are due, empty if
	// the tool has none.
	Suggested []message.PermissionRule `json:"suggested_rules"`
	// BypassImmune marks a safety approval request that no allow rule can satisfy.
	BypassImmune bool `json:"bypass_immune"`
	// Requirement says who can respond and for how long; set only for an ask.
	Requirement Requirement `json:"requirement"`
	// Redact are the sorted paths into the arguments that the matching rules hide.
	Redact []string `json:"redact"`
	// Executor says where and for how long the call runs once it is allowed.
	Executor Executor `json:"executor"`
	// Audit says how much is recorded about the call.
	Audit AuditLevel `json:"audit"`
	// Budget is what the engine must take from the rule's budget before it allows the call; set
	// only for an allow. Without room it decides again, with the rule in Request.Exhausted.
	Budget *toolcall.BudgetClaim `json:"budget,omitzero"`
	// Recheck names rules whose conditions must still hold when the call starts (see
	// Request.Recheck).
	Recheck []string `json:"recheck,omitzero"`
	// Layer is the layer of the rule that decided.
	Layer Layer `json:"layer"`
	// Watched are the matches of rules that only warn or audit.
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
	Rule  string `json:"rule"`  // "" if it is not about one rule
	Field string `json:"field"` // "when", "message", "rule_content", "budget", "input", "check", "mode" or "context"
	Msg   string `json:"msg"`
	// Err is the cause, for errors.Is with ErrCostLimit and ErrDeadline and errors.As with
	// *SchemaError. It is not serialized.
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

// Unwrap returns the cause.
func (e RuleError) Unwrap() error { return e.Err }

const dontAskReason = "dont_ask mode: no approver is available"

func (e *decider) decision(b message.Behavior, step Step, r *compiledRule, reason string) Decision {
	h := e.joinHandling()
	d := Decision{Behavior: b, Step: step, Mode: e.call.Mode, Bundle: e.bundle.hash, Reason: reason, Redact: h.redact, Audit: h.audit}
	if b != message.BehaviorDeny {
		d.Executor = h.executor
	}
	if r != nil {
		d.Rule, d.Source, d.Layer = r.rule.Name, r.rule.Source, cmp.Or(r.rule.Layer, LayerProject)
		d.Reason = "rule " + r.rule.Name + ": " + reason
	}
	return d
}

func (e *decider) allow(step Step, r *compiledRule, reason string) Decision {
	if conflict := e.joinHandling().conflict; conflict != "" {
		return e.deny(step, r, conflict)
	}
	d := e.decision(message.BehaviorAllow, step, r, reason)
	if r != nil {
		d.Message, d.Headline = e.ruleText(r)
		d.Recheck = recheckOf(r)
	}
	return d
}

// recheckOf names the rules whose conditions must be checked again.
func recheckOf(rules ...*compiledRule) []string {
	var out []string
	for _, r := range rules {
		if r.rule.Recheck {
			out = append(out, r.rule.Name)
		}
	}
	return out
}

// failsRecheck finds a rule that must be rechecked and whose condition no longer holds, or that no
// longer matches the call.
func failsRecheck(e *evaluation) (name string, failed bool) {
	for _, name := range e.req.Recheck {
		named := func(r *compiledRule) bool { return r.rule.Name == name }
		rules := slices.Concat(e.tr.ask, e.tr.allow)
		i := slices.IndexFunc(rules, named)
		if i < 0 {
			return name, true
		}
		if matched, failed := e.matchRule(rules[i]); matched && !failed {
			continue
		}
		if !slices.Contains(e.findJointRules(slices.Concat(e.tr.allow, e.sessionRules(message.BehaviorAllow))), rules[i]) {
			return name, true
		}
	}
	return "", false
}

func (e *decider) deny(step Step, r *compiledRule, reason string) Decision {
	d := e.decision(message.BehaviorDeny, step, r, reason)
	why, told := reason, reason
	if r != nil {
		why, told = "rule "+display.Quoted(r.rule.Name), "the policy denies it"
		if step == StepError {
			why = e.failureOf(r)
		}
		if text, _ := e.ruleText(r); text != "" {
			why, told = why+": "+text, text
		}
	}
	return e.tell(d, why, told, r)
}

// tell adds the texts of a denial: why, for the model, and what agents are told about it.
func (e *decider) tell(d Decision, why, told string, rules ...*compiledRule) Decision {
	d.Denial = hintOf(told, rules...)
	d.Message = denialText(e.req.Tool, why) + d.Denial.Text()
	return d
}

// hintOf returns what agents are told: the reason, and the text of the first rule with a denial.
func hintOf(reason string, rules ...*compiledRule) *toolcall.DenialHint {
	for _, r := range rules {
		if r != nil && r.rule.Denial != (Denial{}) {
			return &toolcall.DenialHint{Reason: reason, Allowed: display.Visible(r.rule.Denial.Allowed), Contact: display.Visible(r.rule.Denial.Contact)}
		}
	}
	if reason == "" {
		return nil
	}
	return &toolcall.DenialHint{Reason: reason}
}

// denialText tells the model which tool was denied, and why.
func denialText(tool, why string) string {
	return "Permission denied for " + display.Quoted(tool) + " (" + why + ")."
}

// ask combines all given rules, those that match and those that failed, into one request; the first
// names the decision. If no one can respond for all of them, it denies.
func (e *decider) ask(matching, failing []*compiledRule) Decision {
	rules, step := slices.Concat(matching, failing), StepRule
	if len(matching) == 0 {
		step = StepError
	}
	req, why := e.requirement(rules, len(failing) > 0)
	if why != "" {
		return e.tell(e.decision(message.BehaviorDeny, StepRule, rules[0], why), why, why, rules...)
	}
	first := rules[0]
	if e.row.converts || !e.row.known {
		return e.denyUnattended(first)
	}
	reason := first.reason
	if step == StepError {
		reason = failedReason
	}
	d := e.decision(message.BehaviorAsk, step, first, reason)
	if len(rules) > 1 {
		d.Reason += "; also " + ruleNames(rules[1:])
	}
	d.Message, d.Headline = e.askText(matching, failing)
	d.Requirement, d.Recheck, d.Denial = req, recheckOf(rules...), hintOf("", rules...)
	d.Suggested = e.suggestRules()
	return d
}

// denyUnattended denies what would have needed approval, because no approver is available.
func (e *decider) denyUnattended(r *compiledRule) Decision {
	d := e.tell(e.decision(message.BehaviorDeny, StepAskConverted, r, dontAskReason), dontAskReason, dontAskReason, r)
	d.Suggested = e.suggestRules()
	return d
}

func (e *decider) askFallback(step Step, reason string) Decision {
	if e.row.converts || !e.row.known {
		return e.denyUnattended(nil)
	}
	if conflict := e.joinHandling().conflict; conflict != "" {
		return e.deny(step, nil, conflict)
	}
	d := e.decision(message.BehaviorAsk, step, nil, reason)
	d.Message = display.Quoted(e.req.Tool) + " needs approval: " + reason + "." + e.budgetText()
	d.Requirement = Requirement{Expiry: e.bundle.expiry}
	d.Suggested = e.suggestRules()
	return d
}

// requirement joins what all rules require; why says that no one can meet it.
func (e *decider) requirement(rules []*compiledRule, failed bool) (req Requirement, why string) {
	of := make([]*Rule, len(rules))
	for i, r := range rules {
		of[i] = r.rule
	}
	req = joinRequirements(of, failed)
	req.Expiry = cmp.Or(req.Expiry, e.bundle.expiry)
	switch {
	case e.joinHandling().conflict != "":
		return req, e.joinHandling().conflict
	case req.Users != nil && len(req.Users) == 0:
		return req, "no approver is accepted by all of the rules " + ruleNames(rules)
	case !req.hasEnoughPeople(e.req.requesters()):
		return req, "too few people can respond for the rules " + ruleNames(rules)
	}
	return req, ""
}

// askText is the text of the request; headline says that it begins with a message about the call.
func (e *decider) askText(matching, failing []*compiledRule) (text string, headline bool) {
	var lines []string
	for i, r := range matching {
		line, own := e.ruleText(r)
		headline = headline || own && i == 0
		if line == "" {
			line = display.Quoted(e.req.Tool) + " needs approval by rule " + display.Quoted(r.rule.Name) + "."
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, r := range failing {
		lines = append(lines, display.Quoted(e.req.Tool)+" needs approval: "+e.failureOf(r)+".")
	}
	return display.Shorten(strings.Join(lines, "\n"), display.MaxMessage), headline
}

// failureOf says which rule could not be evaluated, and why. The cause may quote arguments, and is
// left out if rules hide some.
func (e *evaluation) failureOf(r *compiledRule) string {
	text := "rule " + display.Quoted(r.rule.Name) + " could not be evaluated"
	i := slices.IndexFunc(e.errors, func(f RuleError) bool { return f.Rule == r.rule.Name && f.Field != "message" })
	if i < 0 || len(e.joinHandling().hidden) > 0 {
		return text
	}
	return text + " (" + display.OneLine(e.errors[i].Msg) + ")"
}

// ruleText returns the rule's message for this call, or its description. A message that cannot be
// evaluated does not affect the decision. own says that the text is computed from the call.
func (e *decider) ruleText(r *compiledRule) (text string, own bool) {
	if r.message == nil {
		return display.Visible(r.rule.Description), false
	}
	err := errInput
	if e.inputErr == nil {
		text, err = e.evalShown(r.message)
	}
	if err != nil {
		e.addError(r.rule.Name, "message", err)
		return display.Visible(r.rule.Description), false
	}
	return display.Visible(display.Shorten(text, display.MaxMessage)), r.message.ReadsCall
}

func ruleNames(rules []*compiledRule) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.rule.Name
	}
	return strings.Join(names, ", ")
}
