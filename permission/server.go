package permission

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// Rules for the tools of a server, written "server/*".

// serverOf is the server that a tool pattern names.
func serverOf(pattern string) (string, bool) {
	server, ok := strings.CutSuffix(pattern, "/*")
	return server, ok && server != "" && !strings.Contains(server, "*")
}

func isServerPattern(pattern string) bool { _, ok := serverOf(pattern); return ok }

// isAbout reports whether the rule names the tool of a server.
func (r *Rule) isAbout(tool, server string) bool {
	return slices.ContainsFunc(r.Tools, func(name string) bool {
		if s, ok := serverOf(name); ok {
			return s == server
		}
		return name == tool || name == AnyTool
	})
}

// severalTools reports whether the rule names more than one tool, or a server.
func (r *Rule) severalTools() bool {
	return len(r.Tools) > 1 || slices.ContainsFunc(r.Tools, isServerPattern)
}

// toolsOf are the names of the tools that a rule is about, those of servers
// written out, each once.
func (c *compiler) toolsOf(r *Rule) []string {
	var out []string
	for _, name := range r.Tools {
		server, ok := serverOf(name)
		if !ok {
			out = append(out, name)
			continue
		}
		out = append(out, c.toolsOfServer(r, server)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// toolsOfServer lists the declared tools of a server. A deny or ask rule is
// about undeclared ones as well, which are told by their names.
func (c *compiler) toolsOfServer(r *Rule, server string) []string {
	var out, servers []string
	for i := range c.opts.Tools {
		t := &c.opts.Tools[i]
		if t.Server == server {
			out = append(out, t.Name)
		}
		servers = append(servers, t.Server)
	}
	strict := len(c.opts.Tools) > 0 && !c.opts.AllowUnknownTools
	if strict && len(out) == 0 {
		slices.Sort(servers)
		c.faultOf(ProblemTool, r, "tool_name", "tool_name", "no tool is of server "+display.Quoted(server), hint.DidYouMean(hint.Nearest(server, slices.Compact(servers))))
	}
	if !strict && r.Behavior != message.BehaviorAllow {
		if cr := c.compileRule(r, nil); cr != nil {
			cr.server = server
			c.servers = append(c.servers, cr)
		}
	}
	return out
}

// namedAfter reports whether an undeclared tool's name says that it is of the
// server. Deny and ask rules rely on it, so it takes every form in use.
func namedAfter(tool, server string) bool {
	for _, form := range []string{"mcp__" + server + "__", server + ".", server + "/", server + "__"} {
		if strings.HasPrefix(tool, form) {
			return true
		}
	}
	return false
}

// addServers adds the rules for undeclared tools that are about this one.
func (t *toolRules) addServers(rules []*compiledRule) {
	for _, r := range rules {
		if t.tool == nil && namedAfter(t.name, r.server) {
			t.addRules(r)
		}
	}
}
