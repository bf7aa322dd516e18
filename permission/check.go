package permission

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// Bounds on the parts of a rule.
const (
	maxRuleName    = 256                  // bytes
	maxRuleContent = 8 << 10              // bytes
	maxDescription = 4 << 10              // bytes
	maxExpiry      = 366 * 24 * time.Hour // one year; longer is most likely a slip
)

// checkRule reports what is wrong with a rule apart from its expressions.
func (c *compiler) checkRule(r *Rule) {
	c.checkName(r)
	c.checkTools(r)
	if content, _ := r.content(); len(content) > maxRuleContent {
		c.fault(r, "rule_content", "is longer than 8 KiB", "")
	}
	if len(r.Description) > maxDescription {
		c.fault(r, "description", "is longer than 4 KiB", "")
	}
	switch r.OnError {
	case "", OnErrorAsk, OnErrorDeny:
	default:
		c.fault(r, "on_error", "is "+display.Quoted(string(r.OnError))+", want ask or deny", "an error never allows")
	}
	switch r.Behavior {
	case message.BehaviorDeny, message.BehaviorAsk:
	case message.BehaviorAllow:
		if r.Locked {
			c.fault(r, "locked", "is only for deny and ask rules", "remove it")
		}
		if r.OnError != "" {
			c.fault(r, "on_error", "is only for deny and ask rules", "remove it; an allow rule that fails never allows")
		}
	case "":
		c.fault(r, "behavior", "is missing", "want deny, ask or allow")
	default:
		c.fault(r, "behavior", "is "+display.Quoted(string(r.Behavior))+", want deny, ask or allow", "")
	}
	c.checkRequirement(r)
}

func (c *compiler) checkName(r *Rule) {
	switch {
	case r.Name == "":
		c.fault(r, "name", "is missing", "every decision names the rule that made it")
	case r.Name == SessionRuleName:
		c.fault(r, "name", "is reserved for rules of a session", "choose another name")
	case len(r.Name) > maxRuleName:
		c.fault(r, "name", "is longer than 256 bytes", "")
	case !utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, unprintable):
		c.fault(r, "name", "contains control characters", "")
	}
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }

func (c *compiler) checkTools(r *Rule) {
	switch {
	case len(r.Tools) == 0:
		c.fault(r, "tool_name", "is missing", "name the tool, a list of tools, or * in a deny or ask rule")
		return
	case r.anyTool() && len(r.Tools) > 1:
		c.fault(r, "tool_name", "* stands alone", "remove the other names")
	case r.anyTool() && r.Behavior == message.BehaviorAllow:
		c.fault(r, "tool_name", "an allow rule must name its tools", "list them; use bypass mode to allow everything")
	}
	for i, name := range r.Tools {
		switch {
		case name == "":
			c.fault(r, "tool_name", "is empty", "")
		case name != AnyTool && strings.Contains(name, "*") && !isServerPattern(name):
			c.fault(r, "tool_name", display.Quoted(name)+" is a pattern, names are exact", cmp.Or(hint.Tool(display.Quoted(name)), "list the tools, or write server/* for those of a server"))
		case slices.Contains(r.Tools[:i], name):
			c.fault(r, "tool_name", display.Quoted(name)+" is listed twice", "")
		}
	}
}
