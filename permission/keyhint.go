package permission

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// This file guesses what the author of a rule file meant by a key or a value
// that the file cannot have.

// otherKeys are keys of other policy languages.
var otherKeys = map[string]string{
	"action": "behavior", "effect": "behavior", "decision": "behavior", "verdict": "behavior", "permission": "behavior", "type": "behavior",
	"condition": "when", "conditions": "when", "if": "when", "where": "when", "expr": "when", "expression": "when", "cel": "when",
	"text": "message", "prompt": "message", "question": "message", "reason": "message", "comment": "description", "note": "description",
	"timeout": "expiry", "ttl": "expiry", "expires": "expiry", "deadline": "expiry", "reviewers": "approvers", "who": "approvers",
	"id": "name", "pattern": "rule_content", "content": "rule_content", "command": "rule_content", "specifier": "rule_content",
	"approvals": "quorum", "min_approvals": "quorum", "expected": "expect", "result": "expect", "arguments": "args", "params": "args",
	"policies": "rules", "permissions": "rules", "vars": "vocabulary", "variables": "vocabulary", "terms": "vocabulary", "role": "roles",
	"people": "users", "teams": "groups", "uses": "max_uses", "time": "now", "cases": "tests",
}

// remarks are about keys that nothing stands for.
var remarks = map[string]string{
	"priority": "rules have no order: deny wins over ask, ask over allow", "order": "rules have no order: deny wins over ask, ask over allow",
	"allow": "write behavior: allow", "ask": "write behavior: ask", "deny": "write behavior: deny",
	"unless": "write when with a negation: !(…)", "layer": "say it in front of the file's name: managed=FILE",
	"tools": "tools are declared in a file of their own, which is named with --tools", "enabled": "take the rule out, or say enforcement: audit",
	"disabled": "take the rule out, or say enforcement: audit", "disable": "it is a key of the file: the names of rules to take out",
	"args": "write when: args.x == …", "default": "what no rule is about is asked",
}

// keyHint is what the author of an unknown key may have meant. in is the path
// of the mapping, and known are the keys that it can have.
func keyHint(name, in string, known []string) string {
	if other := otherKeys[strings.ToLower(name)]; slices.Contains(known, other) && in != "" {
		return didYouMean(other)
	}
	if hint := didYouMean(nearest(name, known)); hint != "" {
		return hint
	}
	if other := otherKeys[strings.ToLower(name)]; slices.Contains(known, other) {
		return didYouMean(other)
	}
	if where := elsewhere(name, in); where != "" {
		return where
	}
	if remark := remarks[name]; remark != "" && (slices.Contains(known, "behavior") || slices.Contains(known, "rules")) {
		return remark
	}
	if len(known) > 12 {
		return ""
	}
	return "the keys here are " + listed(known)
}

var elementNumber = regexp.MustCompile(`\[\d+\]`)

// elsewhere says where a key belongs that stands at a wrong place: below
// another one, or in the rule itself.
func elsewhere(name, in string) string {
	in = elementNumber.ReplaceAllString(in, "[]")
	inner, outer := "", false
	for _, k := range Keys() {
		parent, last := "", k.Path
		if i := strings.LastIndexByte(k.Path, '.'); i >= 0 {
			parent, last = k.Path[:i], k.Path[i+1:]
		}
		switch below, isBelow := strings.CutPrefix(parent, joinDot(in)); {
		case last != name:
		case isBelow && below != "" && !strings.HasPrefix(below, "[]") && inner == "":
			inner = strings.TrimPrefix(k.Path, joinDot(in))
		case parent == "rules[]" && in != parent && strings.HasPrefix(in, parent) && name != "name" && name != "description":
			outer = true
		}
	}
	switch {
	case inner != "":
		return "it belongs below: " + inner
	case outer:
		return "it is a key of the rule itself, further left"
	default:
		return ""
	}
}

func joinDot(path string) string {
	if path == "" {
		return ""
	}
	return path + "."
}

// otherWords are words of other policy languages for values.
var otherWords = map[string]string{
	"block": "deny", "reject": "deny", "refuse": "deny", "forbid": "deny", "disallow": "deny",
	"approve": "ask", "confirm": "ask", "review": "ask", "prompt": "ask", "escalate": "ask", "require_approval": "ask",
	"denied": "deny", "never": "deny", "allowed": "allow", "always": "allow", "yes": "allow", "no": "deny",
	"permit": "allow", "accept": "allow", "pass": "allow", "grant": "allow",
	"plan": "explore", "readonly": "explore", "read_only": "explore", "yolo": "bypass", "acceptedits": "accept_edits",
	"bypasspermissions": "bypass", "dontask": "dont_ask", "dry_run": "audit", "log": "audit", "observe": "audit", "monitor": "warn",
}

// wordHint is what the author of an unknown word may have meant.
func wordHint(word string, words []string) string {
	if other := otherWords[strings.ToLower(word)]; slices.Contains(words, other) {
		return didYouMean(other)
	}
	return didYouMean(nearest(word, words))
}

// shapes show values that are keys themselves.
var shapes = map[string]string{
	"approvers": "write {users: [ann], groups: [finance]}", "to": "write {groups: [managers]}", "expect": "write {behavior: ask}",
	"call": "write {tool: NAME, args: {…}}", "remember": "write {scope: [args.id], ttl: 1h}", "caller": "write {user: ann, roles: [sales]}",
	"executor": "write {subject: exec.payments}", "audit": "write {level: full}",
	"vocabulary": "write a name and its expression: weekend: ctx.now.getDayOfWeek() == 0", "defaults": "write {expiry: 4h}",
}

// shapeHint shows how a value that should have keys is written.
func shapeHint(field string) string {
	if field == "" {
		return "a rule file has the keys version, name and rules"
	}
	return shapes[field[strings.LastIndexByte(field, '.')+1:]]
}

// textHint says how to mend a value that should be text.
func textHint(n ast.Node, field string) string {
	expression := field == "when" || field == "message"
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		return "write the value out; a text that begins with & or * stands in quotes"
	case *ast.NullNode, nil:
		return "leave the key out, or write something behind it"
	case *ast.SequenceNode:
		if expression {
			return "it is one expression: join conditions with && or ||"
		}
		if strings.HasPrefix(field, "vocabulary.") {
			return `it is an expression: put the list in quotes, '["ann", "bob"]'`
		}
		return "write one text"
	case *ast.BoolNode:
		if field == "when" {
			return "leave when out to mean every call"
		}
		return "put it in quotes"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "put the whole text in quotes, or in a block behind |"
	default:
		return "put it in quotes"
	}
}

// boolHint says how to mend a value that should be true or false: YAML once had
// more words for them.
func boolHint(n ast.Node) string {
	s, ok := n.(*ast.StringNode)
	if !ok {
		return ""
	}
	switch strings.ToLower(s.Value) {
	case "yes", "on", "y", "true":
		return "write true, without quotes"
	case "no", "off", "n", "false":
		return "write false, without quotes"
	default:
		return ""
	}
}

var withSpecifier = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_.-]*)\((.*)\)$`)

// toolHint is what the author of a tool's name may have meant that no tool can
// have.
func toolHint(name string) string {
	parts := withSpecifier.FindStringSubmatch(name)
	switch {
	case parts != nil:
		return fmt.Sprintf("write tool: %s, and rule_content: %q, or a condition; askance policy import reads lists of these", quoted(parts[1]), visible(parts[2]))
	case strings.Contains(name, ","):
		return "a list stands in [ ]: [" + quoted(name) + "]"
	case name == "all" || name == "any" || name == "every":
		return `any tool is "*"`
	default:
		return ""
	}
}
