package permission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/rulefile"
)

// Limits on the parts of a rule.
const (
	maxRuleName    = 256     // bytes
	maxRuleContent = 8 << 10 // bytes
	maxDescription = 4 << 10 // bytes
)

// checker reports what is wrong with rules, except in their expressions.
type checker struct{ *compiler }

func (c checker) checkRule(r *Rule) {
	c.checkName(r)
	c.checkTools(r)
	if content, _ := r.content(); len(content) > maxRuleContent {
		c.addFault(r, "rule_content", "is longer than 8 KiB", "split the rule")
	}
	if len(r.Description) > maxDescription {
		c.addFault(r, "description", "is longer than 4 KiB", "shorten it; details belong in a comment")
	}
	switch r.OnError {
	case "", OnErrorAsk, OnErrorDeny:
	default:
		c.addFault(r, "on_error", "is "+display.Quoted(string(r.OnError))+", want ask or deny", "an error never allows")
	}
	switch r.Behavior {
	case message.BehaviorDeny, message.BehaviorAsk:
	case message.BehaviorAllow:
		if r.Locked {
			c.addFault(r, "locked", "is only for deny and ask rules", "remove it")
		}
		if r.OnError != "" {
			c.addFault(r, "on_error", "is only for deny and ask rules", "remove it; an allow rule that fails never allows")
		}
	case "":
		c.addFault(r, "behavior", "is missing", "want deny, ask or allow")
	default:
		c.addFault(r, "behavior", "is "+display.Quoted(string(r.Behavior))+", want deny, ask or allow", "write behavior: deny, ask or allow")
	}
	c.checkRequirement(r)
}

func (c checker) checkName(r *Rule) {
	switch {
	case r.Name == "":
		c.addFault(r, "name", "is missing", "every decision names the rule that made it")
	case r.Name == SessionRuleName:
		c.addFault(r, "name", "is reserved for rules of a session", "choose another name")
	case len(r.Name) > maxRuleName:
		c.addFault(r, "name", "is longer than 256 bytes", "shorten it")
	case !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, isUnprintable):
		c.addFault(r, "name", "contains control characters", "write it with visible characters")
	}
}

func isUnprintable(r rune) bool { return !unicode.IsPrint(r) }

func (c checker) checkTools(r *Rule) {
	switch {
	case len(r.Tools) == 0:
		c.addFault(r, "tool_name", "is missing", "name the tool, a list of tools, or * in a deny or ask rule")
		return
	case r.anyTool() && len(r.Tools) > 1:
		c.addFault(r, "tool_name", "* must be the only name", "remove the other names")
	case r.anyTool() && r.Behavior == message.BehaviorAllow:
		c.addFault(r, "tool_name", "an allow rule must name its tools", "list them; use bypass mode to allow everything")
	}
	for i, name := range r.Tools {
		switch {
		case name == "":
			c.addFault(r, "tool_name", "is empty", "name the tool")
		case name != AnyTool && strings.Contains(name, "*") && !isServerPattern(name):
			c.addFault(r, "tool_name", display.Quoted(name)+" is a pattern, but names are exact", cmp.Or(hint.Tool(display.Quoted(name)), "list the tools, or write server/* for a server's tools"))
		case slices.Contains(r.Tools[:i], name):
			c.addFault(r, "tool_name", display.Quoted(name)+" is listed twice", "remove one of them")
		}
	}
}

func (c checker) checkRequirement(r *Rule) {
	c.checkWords(r)
	c.checkKind(r)
	c.checkPeople(r, "approvers", r.Approvers)
	c.checkQuorum(r)
	c.checkTime(r)
	c.checkRemember(r)
	c.checkRedact(r)
	c.checkBudget(r)
	c.checkExecutor(r)
	c.checkDuties(r)
}

// checkWords checks keywords that rules made in Go may have wrong.
func (c checker) checkWords(r *Rule) {
	for _, w := range []struct {
		key, word string
		want      []string
	}{
		{"on_expiry", string(r.OnExpiry), []string{"deny", "escalate"}},
		{"enforcement", string(r.Enforcement), []string{"enforce", "warn", "audit"}},
		{"audit.level", string(r.Audit), []string{"standard", "full"}},
	} {
		if w.word != "" && !slices.Contains(w.want, w.word) {
			c.addFault(r, w.key, "is "+display.Quoted(w.word)+", want "+spelling.OrList(w.want), "write one of these, or leave the key out")
		}
	}
	if r.Layer.rank() < 0 {
		c.addFault(r, "layer", "is "+display.Quoted(string(r.Layer))+", want managed, project, user or run", "write one of these, or leave the layer out")
	}
	if r.Locked && !r.IsEnforced() {
		c.addFault(r, "enforcement", "a locked rule must be enforced", "remove locked or enforcement")
	}
}

const maxDenialText = 500

// checkKind refuses keys that have no meaning for the rule's behavior.
func (c checker) checkKind(r *Rule) {
	ask, deny := r.Behavior == message.BehaviorAsk, r.Behavior == message.BehaviorDeny
	for _, k := range []struct {
		key        string
		given, fit bool
		rules      string
	}{
		{"approvers", r.Approvers.isNamed() || r.Approvers.ExcludeRequester || r.Approvers.ExcludeEditor, ask, "ask"},
		{"quorum", r.Quorum != 0, ask, "ask"},
		{"signed", r.Signed, ask, "ask"},
		{"expiry", r.Expiry != 0, ask, "ask"},
		{"on_expiry", r.OnExpiry != "", ask, "ask"},
		{"escalation", len(r.Escalation) > 0, ask, "ask"},
		{"remember", r.Remember != nil, ask, "ask"},
		{"executor", r.Executor != Executor{}, !deny, "ask and allow"},
		{"recheck", r.Recheck, !deny, "ask and allow"},
		{"denial", r.Denial != Denial{}, ask || deny, "deny and ask"},
		{"budget", r.Budget != nil, !deny && !ask, "allow"},
		{"options", r.Options != "", !deny && !ask, "allow"},
		{"trust_options", r.TrustOptions, !deny && !ask, "allow"},
	} {
		if k.given && !k.fit {
			c.addFault(r, k.key, "is only for "+k.rules+" rules", "remove it")
		}
	}
	if len(r.Denial.Allowed) > maxDenialText || len(r.Denial.Contact) > maxDenialText {
		c.addFault(r, "denial", fmt.Sprintf("has a text longer than %d bytes", maxDenialText), "shorten it: models read it with each denial")
	}
	if r.Recheck && r.When == "" {
		c.addFault(r, "recheck", "needs a condition", "add when, such as \"ctx.now.getHours() < 18\"")
	}
	if _, has := r.content(); !has && !deny && !ask {
		for _, key := range []string{"options", "trust_options"} {
			if key == "options" && r.Options != "" || key == "trust_options" && r.TrustOptions {
				c.addFault(r, key, "needs a rule_content that names the program", "add rule_content, such as \"terraform plan:*\"")
			}
		}
	}
}

func (c checker) checkPeople(r *Rule, key string, a Approvers) {
	if !a.isNamed() && (r.at.Has(key+".users") || r.at.Has(key+".groups")) {
		c.addFaultOf(ProblemPeople, r, key, "names no one", "name users or groups; without either, any approver can respond")
	}
	c.checkNames(r, key+".users", a.Users)
	c.checkNames(r, key+".groups", a.Groups)
}

func (c checker) checkNames(r *Rule, key string, names []string) {
	for i, name := range names {
		switch at := fmt.Sprintf("%s[%d]", key, i); {
		case strings.TrimSpace(name) == "":
			c.addFault(r, at, "contains an empty name", "remove it")
		case slices.Contains(names[:i], name):
			c.addFault(r, at, display.Quoted(name)+" is listed twice", "remove one of them")
		}
	}
}

func (c checker) checkQuorum(r *Rule) {
	if r.Quorum < 0 {
		c.addFault(r, "quorum", "is negative", "write how many people must approve, at least 1")
	}
	people, finite := r.Approvers.people(r.Escalation)
	if n := countPeople(people, nil); finite && r.Quorum > n {
		c.addFaultOf(ProblemPeople, r, "quorum", fmt.Sprintf("%d people must approve, but only %d can", r.Quorum, n), "name more approvers, or a group")
	}
}

// people returns everyone who may ever respond; false if groups or all approvers are included.
func (a Approvers) people(escalation []Escalation) ([]string, bool) {
	all, finite := slices.Clone(a.Users), a.isNamed() && len(a.Groups) == 0
	for _, e := range escalation {
		all, finite = append(all, e.To.Users...), finite && len(e.To.Groups) == 0
	}
	slices.Sort(all)
	return slices.Compact(all), finite
}

func (c checker) checkTime(r *Rule) {
	if r.Expiry < 0 || r.Expiry > rulefile.MaxTime {
		c.addFault(r, "expiry", "must be between 0 and one year", "write a duration such as 15m or 24h")
	}
	if len(r.Escalation) > 0 && !r.Approvers.isNamed() && r.Behavior == message.BehaviorAsk {
		c.addFaultOf(ProblemPeople, r, "escalation", "adds no one, because any approver can respond from the start", "name in approvers who is asked first")
	}
	expiry := cmp.Or(r.Expiry, c.bundle.expiry)
	for i, e := range r.Escalation {
		key := fmt.Sprintf("escalation[%d]", i)
		c.checkPeople(r, key+".to", e.To)
		switch {
		case !e.To.isNamed() && !r.at.Has(key+".to.users") && !r.at.Has(key+".to.groups"):
			c.addFault(r, key+".to", "names no one", "name users or groups")
		case e.After <= 0 || e.After > rulefile.MaxTime:
			c.addFault(r, key+".after", "must be between 0 and one year", "write a duration such as 15m or 24h")
		case i > 0 && e.After <= r.Escalation[i-1].After:
			c.addFault(r, key+".after", "is not later than the step before", "put the steps in order")
		case expiry > 0 && e.After >= expiry:
			c.addFaultOf(ProblemTime, r, key+".after", fmt.Sprintf("is %s, but the approval request expires after %s", rulefile.FormatDuration(e.After), rulefile.FormatDuration(expiry)), "escalate earlier")
		}
	}
	if r.OnExpiry == OnExpiryEscalate {
		switch {
		case len(r.Escalation) == 0:
			c.addFault(r, "on_expiry", "escalate needs an escalation", "say to whom, or deny")
		case expiry == 0:
			c.addFault(r, "on_expiry", "the approval request never expires", "give the rule an expiry")
		}
	}
}

func (c checker) checkRemember(r *Rule) {
	m := r.Remember
	if m == nil {
		return
	}
	if m.TTL <= 0 || m.TTL > rulefile.MaxTime {
		c.addFault(r, "remember.ttl", "must be between 0 and one year", "write a duration such as 15m or 24h")
	}
	if m.Uses < 0 {
		c.addFault(r, "remember.max_uses", "is negative", "write how many calls it can allow, or leave it out")
	}
	for i, text := range m.Scope {
		at := fmt.Sprintf("remember.scope[%d]", i)
		if slices.Contains(m.Scope[:i], text) {
			c.addFault(r, at, display.Quoted(text)+" is listed twice", "remove one of them")
		} else if err := c.checkScope(r, text); err != nil {
			c.addFault(r, at, err.Error(), "")
		}
	}
}

func (c checker) checkRedact(r *Rule) {
	for i, text := range r.Redact {
		at := fmt.Sprintf("redact[%d]", i)
		if slices.Contains(r.Redact[:i], text) {
			c.addFault(r, at, display.Quoted(text)+" is listed twice", "remove one of them")
		} else if err := c.checkHidden(r, text); err != nil {
			c.addFaultOf(ProblemPath, r, at, err.Error(), "")
		}
	}
}

const maxSubject = 256

func (c checker) checkExecutor(r *Rule) {
	x := r.Executor
	if x.Timeout < 0 || x.Timeout > rulefile.MaxTime {
		c.addFault(r, "executor.timeout", "must be between 0 and one year", "write a duration such as 15m or 24h")
	}
	switch {
	case x.Subject == "":
	case len(x.Subject) > maxSubject:
		c.addFault(r, "executor.subject", "is longer than 256 bytes", "write a subject such as exec.payments")
	case strings.ContainsAny(x.Subject, "*>"):
		c.addFault(r, "executor.subject", "contains a wildcard", "name one subject")
	case slices.Contains(strings.Split(x.Subject, "."), "") || strings.Contains(x.Subject, " ") || strings.ContainsFunc(x.Subject, isUnprintable):
		c.addFault(r, "executor.subject", display.Quoted(x.Subject)+" is not a subject", "write a subject such as exec.payments")
	case strings.HasPrefix(x.Subject, "$") || strings.HasPrefix(x.Subject, "_INBOX."):
		c.addFault(r, "executor.subject", "is reserved for NATS", "write a subject such as exec.payments")
	}
}

func (c checker) checkDuties(r *Rule) {
	enforced := c.opts.Enforced
	if enforced == nil {
		enforced = basicDuties
	}
	for _, d := range r.duties() {
		if !slices.Contains(enforced, d) {
			c.addFault(r, string(d), "is not enforced yet", "remove it; a key without effect would mislead")
		}
	}
}

// duties returns the duties that the rule imposes, in a fixed order.
func (r *Rule) duties() []Duty {
	var out []Duty
	add := func(d Duty, need bool) {
		if need {
			out = append(out, d)
		}
	}
	add(DutyUsers, len(r.Approvers.Users) > 0)
	add(DutyGroups, len(r.Approvers.Groups) > 0)
	add(DutyExcludeRequester, r.Approvers.ExcludeRequester)
	add(DutyExcludeEditor, r.Approvers.ExcludeEditor)
	add(DutyQuorum, r.Quorum > 1)
	add(DutySigned, r.Signed)
	add(DutyExpiry, r.Expiry > 0)
	add(DutyOnExpiry, r.OnExpiry == OnExpiryEscalate)
	add(DutyEscalation, len(r.Escalation) > 0)
	add(DutyRemember, r.Remember != nil)
	add(DutyRedact, len(r.Redact) > 0)
	add(DutyExecutorSubject, r.Executor.Subject != "")
	add(DutyExecutorTimeout, r.Executor.Timeout > 0)
	add(DutyAudit, r.Audit == AuditFull)
	add(DutyBudget, r.Budget != nil)
	add(DutyRecheck, r.Recheck)
	return out
}
