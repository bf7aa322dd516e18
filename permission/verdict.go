package permission

import (
	"cmp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// This file turns an outcome into a Decision with its texts.

const dontAskReason = "dont_ask mode: nobody is available to answer"

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
		d.Message = e.ruleText(r)
	}
	d.Errors = e.errors
	return d
}

func (e *decider) deny(step Step, r *compiledRule, reason string) Decision {
	d := e.decision(message.BehaviorDeny, step, r, reason)
	why := reason
	if r != nil {
		why = "rule " + display.Quoted(r.rule.Name)
		if text := e.ruleText(r); text != "" {
			why += ": " + text
		}
	}
	d.Message = denialText(e.req.Tool, why)
	d.Errors = e.errors
	return d
}

// denialText is what the model is told: which tool, and why.
func denialText(tool, why string) string {
	return "Permission denied for " + display.Quoted(tool) + " (" + why + ")."
}

// ask asks for all of the given rules at once, those that match and those that
// failed; the first one gives the decision its name. Where no person may answer
// for all of them, it denies.
func (e *decider) ask(matching, failing []*compiledRule) Decision {
	rules, step := slices.Concat(matching, failing), StepRule
	if len(matching) == 0 {
		step = StepError
	}
	req, why := e.requirement(rules, len(failing) > 0)
	if why != "" {
		return e.cannotAsk(rules, why)
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
	d.Message = e.askText(matching, failing)
	d.Requirement = req
	d.Suggested = e.suggestRules()
	d.Errors = e.errors
	return d
}

// denyUnattended denies what would have been asked, because no approver is available.
func (e *decider) denyUnattended(r *compiledRule) Decision {
	d := e.decision(message.BehaviorDeny, StepAskConverted, r, dontAskReason)
	d.Message = denialText(e.req.Tool, dontAskReason)
	d.Suggested = e.suggestRules()
	d.Errors = e.errors
	return d
}

// askFallback asks without a rule.
func (e *decider) askFallback(step Step, reason string) Decision {
	if e.row.converts || !e.row.known {
		return e.denyUnattended(nil)
	}
	d := e.decision(message.BehaviorAsk, step, nil, reason)
	d.Message = display.Quoted(e.req.Tool) + " needs approval: " + reason + "."
	d.Requirement = Requirement{Expiry: e.bundle.expiry}
	d.Suggested = e.suggestRules()
	d.Errors = e.errors
	return d
}

// requirement is what all rules together require; why says that no person can
// meet it.
func (e *decider) requirement(rules []*compiledRule, failed bool) (req Requirement, why string) {
	of := make([]*Rule, len(rules))
	for i, r := range rules {
		of[i] = r.rule
	}
	req = joinRequirements(of, failed)
	if req.Expiry == 0 {
		req.Expiry = e.bundle.expiry
	}
	switch {
	case e.joinHandling().conflict != "":
		return req, e.joinHandling().conflict
	case req.Users != nil && len(req.Users) == 0:
		return req, "no approver is accepted by all of the rules " + ruleNames(rules)
	case !req.hasEnoughPeople(e.req.Caller.User):
		return req, "too few people may answer for the rules " + ruleNames(rules)
	}
	return req, ""
}

// cannotAsk denies because no answer could resolve the approval request.
func (e *decider) cannotAsk(rules []*compiledRule, why string) Decision {
	d := e.decision(message.BehaviorDeny, StepRule, rules[0], why)
	d.Message = denialText(e.req.Tool, why)
	d.Errors = e.errors
	return d
}

// askText is what the person sees: what each rule has to say.
func (e *decider) askText(matching, failing []*compiledRule) string {
	var lines []string
	for _, r := range matching {
		line := e.ruleText(r)
		if line == "" {
			line = display.Quoted(e.req.Tool) + " needs approval by rule " + display.Quoted(r.rule.Name) + "."
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, r := range failing {
		lines = append(lines, display.Quoted(e.req.Tool)+" needs approval: rule "+display.Quoted(r.rule.Name)+" could not be evaluated.")
	}
	return display.Shorten(strings.Join(lines, "\n"), display.MaxMessage)
}

// ruleText is the rule's message for this call, or its description. A message
// that cannot be evaluated changes nothing about the decision.
func (e *decider) ruleText(r *compiledRule) string {
	if r.message == nil {
		return display.Visible(r.rule.Description)
	}
	text, err := "", errInput
	if e.inputErr == nil {
		text, err = e.evalShown(r.message)
	}
	if err != nil {
		e.addError(r.rule.Name, "message", err)
		return display.Visible(r.rule.Description)
	}
	return display.Visible(display.Shorten(text, display.MaxMessage))
}

func ruleNames(rules []*compiledRule) string {
	names := make([]string, len(rules))
	for i, r := range rules {
		names[i] = r.rule.Name
	}
	return strings.Join(names, ", ")
}
