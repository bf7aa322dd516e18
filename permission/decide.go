package permission

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/shell"
)

// Decide decides one request. It never fails: what cannot be evaluated is listed in the decision's
// Errors, and the decision fails closed. It is safe for concurrent use.
func (b *Bundle) Decide(ctx context.Context, req Request) Decision {
	d, _ := b.decideAfter(ctx, &req, nil)
	return d
}

// decideAfter is Decide. It reuses what another bundle's evaluation has read of the same request,
// and returns its own evaluation, nil for a bundle without a policy.
func (b *Bundle) decideAfter(ctx context.Context, req *Request, before *evaluation) (Decision, *evaluation) {
	if b == nil || !b.ready {
		return denyWithoutPolicy(*req), nil
	}
	e := b.evaluate(ctx, req, before)
	defer e.run.Close()
	return e.decider().decide(), e
}

type decider struct {
	*evaluation
	// failedDenies are deny rules that failed and ask instead.
	failedDenies []*compiledRule
	// doubt: it is only unclear whether the rules that ask apply to the call.
	doubt bool
	// full are the exhausted budgets of rules that match the call.
	full []string
}

func (e *evaluation) decider() *decider { return &decider{evaluation: e} }

// decide decides, then evaluates the rules that are only watched.
func (e *decider) decide() Decision {
	d := e.steps()
	d.Errors = e.withoutHidden(e.errors)
	d.Watched = e.watchRules()
	return d
}

// steps takes the steps of the table in doc.go in order.
func (e *decider) steps() Decision {
	if d, ok := e.denyStep(); ok {
		return d
	}
	request, asks := e.askStep()
	if asks && !e.doubt && request.Behavior == message.BehaviorDeny {
		return request
	}
	d, ok := e.decideWithoutRule()
	switch {
	case asks && ok && d.Behavior == message.BehaviorDeny:
		return d // an ask rule never replaces a denial
	case e.doubt:
		return e.decideDoubtful(request, d, ok)
	case asks:
		return request
	case ok:
		return d
	}
	if d, ok := e.allowStep(); ok {
		return d
	}
	return e.decideByMode()
}

// decideWithoutRule decides what needs no rule: by the input, the tool and the mode.
func (e *decider) decideWithoutRule() (Decision, bool) {
	if e.tainted {
		return e.taintedDecision(), true
	}
	if why := e.readOnly(); why != "" {
		return e.allow(StepReadOnly, nil, why), true
	}
	switch {
	case e.tainted: // the tool's own code failed
		return e.taintedDecision(), true
	case e.bundle.noRules:
		return e.deny(StepNoPolicy, nil, noPolicyReason), true
	case e.row.rulesOnly:
		return e.deny(StepFallbackExplore, nil, "the call is not proven read-only"), true
	}
	return e.checkStep()
}

// Denied evaluates only the deny rules. The engine calls it on the newest bundle before it executes
// what an older one allowed or a person approved. It returns true with a decision of deny, or of
// ask if a deny rule could not be evaluated.
func (b *Bundle) Denied(ctx context.Context, req Request) (Decision, bool) {
	if b == nil || !b.ready {
		return denyWithoutPolicy(req), true
	}
	e := b.evaluate(ctx, &req, nil)
	defer e.run.Close()
	d, denied := e.decider().decideDenied()
	if denied {
		d.Errors = e.withoutHidden(e.errors)
	}
	return d, denied
}

func (e *decider) decideDenied() (Decision, bool) {
	if d, ok := e.denyStep(); ok {
		return d, true
	}
	if name, failed := failsRecheck(e.evaluation); failed {
		return e.deny(StepRule, nil, "the condition of rule "+display.Quoted(name)+" no longer holds"), true
	}
	switch {
	case e.bundle.noRules && e.readOnly() == "":
		return e.deny(StepNoPolicy, nil, noPolicyReason), true
	case len(e.failedDenies) > 0:
		return e.ask(nil, e.failedDenies), true
	case e.tainted:
		return e.taintedDecision(), true
	}
	return Decision{}, false
}

const noPolicyReason = "no policy is loaded, and the tool is not known to be read-only"

func denyWithoutPolicy(req Request) Decision {
	return Decision{Behavior: message.BehaviorDeny, Step: StepNoPolicy, Mode: req.Mode, Reason: noPolicyReason,
		Message: denialText(req.Tool, noPolicyReason), Denial: hintOf(noPolicyReason)}
}

// denyStep looks for a deny rule that matches. One that fails counts as matched: it denies, or
// joins the ask rules, as its on_error says. A clean match takes precedence, because its reason is
// better.
func (e *decider) denyStep() (Decision, bool) {
	var failedHard *compiledRule
	for _, list := range [][]*compiledRule{e.tr.deny, e.sessionRules(message.BehaviorDeny)} {
		for _, r := range list {
			matched, failed := e.traceMatch(r)
			switch {
			case matched:
				return e.deny(StepRule, r, r.reason), true
			case failed && r.rule.onError() == OnErrorDeny:
				failedHard = cmp.Or(failedHard, r) // the first by name
			case failed:
				e.failedDenies = append(e.failedDenies, r)
			}
		}
	}
	if failedHard != nil {
		return e.deny(StepError, failedHard, failedReason), true
	}
	return Decision{}, false
}

const failedReason = "the rule could not be evaluated"

// askStep evaluates all ask rules, because each match adds to the requirements of the approval
// request. Rules that fail count as matched.
func (e *decider) askStep() (Decision, bool) {
	var asking, failing []*compiledRule
	for _, list := range [][]*compiledRule{e.tr.ask, e.sessionRules(message.BehaviorAsk)} {
		for _, r := range list {
			matched, failed := e.traceMatch(r)
			switch {
			case matched:
				asking = append(asking, r)
			case failed && r.rule.onError() == OnErrorDeny:
				return e.deny(StepError, r, failedReason), true
			case failed:
				failing = append(failing, r)
			}
		}
	}
	failing = append(e.failedDenies, failing...)
	if len(asking)+len(failing) == 0 {
		return Decision{}, false
	}
	d := e.ask(asking, failing)
	e.doubt = e.isDoubtful(asking, failing) && (d.Behavior == message.BehaviorAsk || d.Step == StepAskConverted)
	return d, true
}

func (e *decider) taintedDecision() Decision {
	// Rules may have failed earlier, even if the tool's own code caused the taint.
	reason := e.errors[max(0, slices.IndexFunc(e.errors, func(r RuleError) bool { return r.Rule == "" }))].Error()
	if len(e.joinHandling().hidden) > 0 {
		reason = "the call could not be evaluated"
	}
	if e.row.fallback == outcomeDeny {
		return e.deny(StepError, nil, reason)
	}
	d := e.askFallback(StepError, reason)
	d.Suggested = nil // no rule can fix this
	return d
}

func (e *decider) checkStep() (Decision, bool) {
	check := e.tr.check()
	if check == nil {
		return Decision{}, false
	}
	if e.unread != nil {
		return e.decideUncovered(e.unread.Error())
	}
	v, err := callSafely(func() (ToolVerdict, error) { return check(e.call), nil })
	if err != nil {
		e.addError("", "check", err)
		return e.askImmune(StepError, "the tool's own check failed"), true
	}
	step, reason := cmp.Or(v.Step, StepToolCheck), "the tool's own check"
	if v.Message != "" && len(e.joinHandling().hidden) == 0 { // the message may quote the arguments
		reason = display.Visible(display.Shorten(v.Message, display.MaxMessage))
	}
	switch v.Answer {
	case CheckAllow:
		return e.allow(step, nil, reason), true
	case CheckDeny:
		return e.deny(step, nil, reason), true
	case CheckPassthrough, CheckAsk:
		return Decision{}, false
	case CheckAskImmune:
		if e.row.ignoresImmune {
			return Decision{}, false
		}
		if v.Coverable {
			own := func(r *compiledRule) bool { return r.pattern == nil || r.rule.imported }
			if d, ok := e.allowBy(slices.DeleteFunc(slices.Clone(e.tr.allow), own)); ok {
				return d, true
			}
		}
		return e.askImmune(step, reason), true
	case CheckUncovered:
		return e.decideUncovered(reason)
	default:
		e.addError("", "check", errors.New("the tool's own check gave an unknown answer"))
		return e.askImmune(StepError, "the tool's own check gave an unknown answer"), true
	}
}

// askImmune returns an approval request that no allow rule can satisfy.
func (e *decider) askImmune(step Step, reason string) Decision {
	d := e.askFallback(step, reason)
	d.BypassImmune = d.Behavior == message.BehaviorAsk
	return d
}

// decideUncovered leaves a call to the mode, bypassing the allow rules.
func (e *decider) decideUncovered(reason string) (Decision, bool) {
	switch e.row.fallback {
	case outcomeAllow:
		return Decision{}, false
	case outcomeAsk:
		return e.askFallback(StepFallbackAsk, reason), true
	default:
		return e.deny(StepFallbackDontAsk, nil, dontAskReason), true
	}
}

// allowStep looks for an allow rule. One that fails does not match, and prevents the mode from
// allowing the call. A rule with a budget must cover the call by itself.
func (e *decider) allowStep() (Decision, bool) {
	return e.allowBy(append(slices.Clip(e.tr.allow), e.sessionRules(message.BehaviorAllow)...))
}

func (e *decider) allowBy(rules []*compiledRule) (Decision, bool) {
	var bounded []*compiledRule
	for _, r := range rules {
		if r.rule.Budget != nil {
			bounded = append(bounded, r)
			continue
		}
		matched, failed := e.traceMatch(r)
		if matched {
			return e.allow(StepAllowRule, r, r.reason), true
		}
		e.unsure = e.unsure || failed
	}
	if d, ok := e.jointAllow(rules); ok {
		return d, true
	}
	for _, r := range bounded { // last, so that a call that another rule allows uses no budget
		matched, failed := e.traceMatch(r)
		e.unsure = e.unsure || failed
		if !matched {
			continue
		}
		if d, ok := e.allowWithin(r); ok {
			return d, true
		}
	}
	return Decision{}, false
}

func (e *decider) decideByMode() Decision {
	switch e.row.fallback {
	case outcomeAllow:
		if e.unsure {
			return e.askFallback(StepError, "an allow rule could not be evaluated")
		}
		return e.allow(StepFallbackBypass, nil, "no rule applies, the mode is bypass")
	case outcomeAsk:
		return e.askFallback(StepFallbackAsk, "no rule allows it")
	default:
		return e.deny(StepFallbackDontAsk, nil, dontAskReason)
	}
}

func (e *decider) suggestRules() []message.PermissionRule {
	if e.inputErr != nil {
		return []message.PermissionRule{} // such a call needs approval in any case
	}
	if e.tr.matcher == nil {
		return []message.PermissionRule{{ToolName: e.req.Tool, Behavior: message.BehaviorAllow, Source: "suggested"}}
	}
	if len(e.joinHandling().hidden) > 0 {
		return []message.PermissionRule{} // a suggestion made from hidden arguments would show them
	}
	rules, err := callSafely(func() ([]message.PermissionRule, error) { return e.tr.matcher.Suggest(e.call), nil })
	if err != nil {
		e.addError("", "rule_content", err)
	}
	return append([]message.PermissionRule{}, rules...) // not nil, which would mean that none are due
}

// For some calls it is unknown before they run whether a deny or ask rule applies, such as for a
// shell line with $X in it.

// isDoubtful reports whether every rule that asks is only possibly about the call.
func (e *decider) isDoubtful(asking, failing []*compiledRule) bool {
	return len(asking) == 0 && len(failing) > 0 && !e.tainted &&
		!slices.ContainsFunc(e.errors, func(r RuleError) bool {
			return !errors.Is(r.Err, shell.ErrUnclear) && !errors.Is(r.Err, ErrUnclear)
		})
}

// decideDoubtful decides a doubtful call as if no rule applied, except that a call it would allow
// needs approval. d is the decision without a rule, if ok. An approval request keeps what the rules
// require.
func (e *decider) decideDoubtful(request, d Decision, ok bool) Decision {
	if !ok {
		if d, ok = e.allowStep(); !ok {
			d = e.decideByMode()
		}
	}
	switch {
	case d.Behavior == message.BehaviorDeny:
		return d
	case d.Behavior == message.BehaviorAsk && request.Behavior == message.BehaviorAsk:
		request.Step, request.BypassImmune = d.Step, d.BypassImmune
	}
	return request
}
