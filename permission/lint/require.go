package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	celast "cel.dev/cel-go/common/ast"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/toolcall"
)

func (l *linter) checkApprovers(r *permission.Rule) {
	if r.Behavior != message.BehaviorAsk {
		return
	}
	need := max(1, r.Quorum)
	people, known := l.people(r)
	if !known {
		return
	}
	switch {
	case len(people) == 0:
		l.add(Approvers, Error, r, "approvers", "no one can respond", "name people, or a group with members")
	case len(people) < need:
		l.add(Approvers, Error, r, "approvers", fmt.Sprintf("%d can respond (%s), but %d are needed", len(people), strings.Join(people, ", "), need),
			"name more people, or a smaller quorum")
	case r.Approvers.ExcludeRequester && len(people) == need:
		l.add(Approvers, Warning, r, "approvers", fmt.Sprintf("a call by one of %s leaves %d to respond, but %d are needed", strings.Join(people, ", "), len(people)-1, need),
			"name one more")
	}
}

// people returns those who may ever respond, once everything has escalated; false if that is
// unknown.
func (l *linter) people(r *permission.Rule) ([]string, bool) {
	people := slices.Clone(r.Approvers.Users)
	dir := l.opts.Directory
	anyApprover := len(people)+len(r.Approvers.Groups) == 0
	if dir == nil {
		known := !anyApprover && len(r.Approvers.Groups) == 0
		for _, step := range r.Escalation {
			people, known = append(people, step.To.Users...), known && len(step.To.Groups) == 0
		}
		return toolcall.People(people), known
	}
	if anyApprover {
		people = allPeople(dir)
	}
	people = append(people, l.namedPeople(r, "approvers", r.Approvers)...)
	for i, step := range r.Escalation {
		people = append(people, l.namedPeople(r, fmt.Sprintf("escalation[%d].to", i), step.To)...)
	}
	return toolcall.People(people), true
}

// namedPeople returns the people in the directory whom a key names. It reports names that are not
// in the directory.
func (l *linter) namedPeople(r *permission.Rule, field string, a permission.Approvers) []string {
	dir := l.opts.Directory
	people, all := slices.Clone(a.Users), allPeople(dir)
	for _, u := range a.Users {
		if !slices.Contains(all, u) {
			l.add(Approvers, Error, r, field, "there is no person "+u, cmp.Or(hint.DidYouMean(u, all), "correct the name"))
		}
	}
	for _, g := range a.Groups {
		members, ok := dir.Groups[g]
		if !ok {
			l.add(Approvers, Error, r, field, "there is no group "+g, cmp.Or(hint.DidYouMean(g, slices.Sorted(maps.Keys(dir.Groups))), "correct the name"))
		}
		people = append(people, members...)
	}
	return people
}

func allPeople(d *Directory) []string {
	out := slices.Clone(d.Users)
	for _, members := range d.Groups {
		out = append(out, members...)
	}
	return out
}

// checkTimes compares a rule's times with the limits.
func (l *linter) checkTimes(r *permission.Rule) {
	expiry := r.Expiry
	if expiry == 0 && r.Behavior == message.BehaviorAsk {
		expiry = l.policy.Expiry
	}
	if limit := l.opts.RunLimit; limit > 0 && expiry > limit {
		l.add(Times, Error, r, "expiry", fmt.Sprintf("the approval request can stay open for %s, but a run ends after %s", permission.FormatDuration(expiry), permission.FormatDuration(limit)), "make it shorter")
	}
	if limit := l.opts.ExecutorLimit; limit > 0 && r.Executor.Timeout > limit {
		l.add(Times, Error, r, "executor", fmt.Sprintf("the timeout of %s is longer than the %s that an execution can take", permission.FormatDuration(r.Executor.Timeout), permission.FormatDuration(limit)), "make it shorter")
	}
}

func (l *linter) checkTests(r *permission.Rule) {
	cov := l.opts.Coverage
	if cov == nil {
		return
	}
	switch fired, spared := cov.Fired(r.Name), cov.Spared(r.Name); {
	case !fired && !spared:
		l.add(Untested, Warning, r, "", "no test exercises it", "add a test to which it applies, and one to which it does not")
		return
	case !fired:
		l.add(Untested, Warning, r, "", "no test has a call that it applies to", "add one")
		return
	case !spared && (r.When != "" || r.HasContent()):
		l.add(Untested, Warning, r, "", "no test has a call that it does not apply to", "add one")
	}
	for _, missing := range cov.Missing(r.Name) {
		l.add(Untested, Warning, r, "when", missing, "add a test")
	}
}

func (l *linter) checkTools(r *permission.Rule) {
	if len(l.opts.Tools) == 0 {
		if slices.ContainsFunc(r.Tools, func(name string) bool {
			return name != permission.AnyTool && !strings.HasPrefix(name, permission.Frontend)
		}) {
			l.add(UnknownTool, Warning, r, "tool_name", "no tools are declared, so the name cannot be checked", "name the tools file with --tools")
		}
		return
	}
	for _, name := range r.Tools {
		server, isServer := strings.CutSuffix(name, "/*")
		switch {
		case name == permission.AnyTool:
		case isServer && l.opts.AllowUnknownTools && !slices.ContainsFunc(l.opts.Tools, func(t permission.Tool) bool { return t.Server == server }):
			l.add(UnknownTool, Error, r, "tool_name", "no tool of server "+server+" is declared", "correct the name")
		case !isServer && l.opts.AllowUnknownTools && !slices.ContainsFunc(l.opts.Tools, func(t permission.Tool) bool { return t.Name == name }):
			l.add(UnknownTool, Error, r, "tool_name", "there is no tool "+name, "correct the name")
		}
	}
}

func (c *expr) checkUntyped() {
	if c.Declared == nil || c.Declared.Schema != nil {
		return
	}
	untyped := false
	c.eachPart(func(e celast.Expr) { untyped = untyped || e.Kind() == celast.IdentKind && e.AsIdent() == "args" })
	if untyped {
		c.add(UnknownName, Warning, c.Rule, "when", c.Tool+" has no schema, so nothing checks the fields of args", "give the tool an input_schema")
	}
}

func (l *linter) checkMode(r *permission.Rule) {
	switch {
	case l.policy.Mode == permission.ModeExplore && isAllow(r):
		l.add(Unreachable, Warning, r, "behavior", "mode explore ignores allow rules", "change defaults.mode, or remove the rule")
	case l.policy.Mode == permission.ModeExplore && r.Behavior == message.BehaviorAsk && l.neverReads(r):
		l.add(Unreachable, Warning, r, "behavior", "mode explore denies all calls of these tools, so no approval request is opened", "write deny, or change defaults.mode")
	case l.policy.Mode == permission.ModeBypass && isAllow(r):
		l.add(Unreachable, Warning, r, "behavior", "mode bypass allows what no rule denies or asks about, so an allow rule changes nothing", "remove the rule")
	case l.policy.Mode == permission.ModeDontAsk && r.Behavior == message.BehaviorAsk && len(r.Escalation)+r.Quorum > 0:
		l.add(Unreachable, Warning, r, "behavior", "mode dont_ask opens no approval request: the rule denies", "write deny, or change defaults.mode")
	}
}

// neverReads reports whether no call of the rule's tools can be proven to change nothing.
func (l *linter) neverReads(r *permission.Rule) bool {
	tools := l.tools(r)
	return len(tools) > 0 && !slices.ContainsFunc(tools, func(t permission.Tool) bool { return t.ReadOnly || t.Kind != nil })
}
