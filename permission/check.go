package permission

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// Bounds on the parts of a rule.
const (
	maxRuleName    = 256     // bytes
	maxRuleContent = 8 << 10 // bytes
	maxDescription = 4 << 10 // bytes
)

// checker reports what is wrong with rules apart from their expressions.
type checker struct{ *compiler }

// checkRule reports what is wrong with a rule apart from its expressions.
func (c checker) checkRule(r *Rule) {
	c.checkName(r)
	c.checkTools(r)
	if content, _ := r.content(); len(content) > maxRuleContent {
		c.addFault(r, "rule_content", "is longer than 8 KiB", "")
	}
	if len(r.Description) > maxDescription {
		c.addFault(r, "description", "is longer than 4 KiB", "")
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
		c.addFault(r, "behavior", "is "+display.Quoted(string(r.Behavior))+", want deny, ask or allow", "")
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
		c.addFault(r, "name", "is longer than 256 bytes", "")
	case !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, isUnprintable):
		c.addFault(r, "name", "contains control characters", "")
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
			c.addFault(r, "tool_name", "is empty", "")
		case name != AnyTool && strings.Contains(name, "*") && !isServerPattern(name):
			c.addFault(r, "tool_name", display.Quoted(name)+" is a pattern, names are exact", cmp.Or(hint.Tool(display.Quoted(name)), "list the tools, or write server/* for those of a server"))
		case slices.Contains(r.Tools[:i], name):
			c.addFault(r, "tool_name", display.Quoted(name)+" is listed twice", "")
		}
	}
}
