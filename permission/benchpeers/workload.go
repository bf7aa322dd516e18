package main

import (
	"fmt"
	"strings"
)

// tools is the number of tools over which the rules are spread.
const tools = 20

// shape is a kind of condition, written for each engine with the same meaning.
type shape struct {
	name string
	doc  string
	// The condition of rule i on the input's command (text), account (text) and size
	// (integer). Rego conditions are the bodies of one rule, one for each alternative.
	cel   func(i int) string
	cedar func(i int) string
	rego  func(i int) []string
	// match returns an input for which the last rule for tool 0 is true.
	match func(last int) string
}

// noMatch is an input for which no rule is true.
const noMatch = `{"command": "git status --short", "account": "acme", "size": 18}`

var shapes = []shape{
	{
		name: "prefix", doc: "a text begins with a constant, and an integer is below one",
		cel:   func(i int) string { return fmt.Sprintf(`args.command.startsWith("program%d ") && args.size < 1000`, i) },
		cedar: func(i int) string { return fmt.Sprintf(`context.command like "program%d *" && context.size < 1000`, i) },
		rego: func(i int) []string {
			return []string{fmt.Sprintf(`startswith(input.args.command, "program%d "); input.args.size < 1000`, i)}
		},
		match: func(last int) string {
			return fmt.Sprintf(`{"command": "program%d x", "account": "acme", "size": 18}`, last)
		},
	},
	{
		name: "equal", doc: "a text equals a constant",
		cel:   func(i int) string { return fmt.Sprintf(`args.account == "account%d"`, i) },
		cedar: func(i int) string { return fmt.Sprintf(`context.account == "account%d"`, i) },
		rego:  func(i int) []string { return []string{fmt.Sprintf(`input.args.account == "account%d"`, i)} },
		match: func(last int) string {
			return fmt.Sprintf(`{"command": "git", "account": "account%d", "size": 18}`, last)
		},
	},
	{
		name: "either", doc: "one of two comparisons: nothing that a guard can use",
		cel:   func(i int) string { return fmt.Sprintf(`args.size > %d || args.size < -%d`, 1000+i, 1000+i) },
		cedar: func(i int) string { return fmt.Sprintf(`context.size > %d || context.size < -%d`, 1000+i, 1000+i) },
		rego: func(i int) []string {
			return []string{fmt.Sprintf(`input.args.size > %d`, 1000+i), fmt.Sprintf(`input.args.size < -%d`, 1000+i)}
		},
		// Only the last rule for the tool: all others ask for more.
		match: nil,
	},
}

// behaviorOf distributes deny and allow over the rules of each tool.
func behaviorOf(i int) string {
	if i/tools%2 == 0 {
		return "deny"
	}
	return "allow"
}

func toolOf(i int) string { return fmt.Sprintf("tool%d", i%tools) }

// askanceFile returns the rule file with n rules.
func (s shape) askanceFile(n int) string {
	var b strings.Builder
	b.WriteString("version: 1\nname: bench\nrules:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - name: rule%04d\n    tool_name: %s\n    behavior: %s\n    when: '%s'\n", i, toolOf(i), behaviorOf(i), s.cel(i))
	}
	return b.String()
}

// cedarFile returns the policy text with the same rules.
func (s shape) cedarFile(n int) string {
	var b strings.Builder
	for i := range n {
		effect := map[string]string{"deny": "forbid", "allow": "permit"}[behaviorOf(i)]
		fmt.Fprintf(&b, "%s (principal, action == Action::\"call\", resource == Tool::\"%s\") when { %s };\n", effect, toolOf(i), s.cedar(i))
	}
	return b.String()
}

// regoFile returns the module with the same rules. Comparing the tool first lets OPA's
// own index select the rules, as its guide recommends.
func (s shape) regoFile(n int) string {
	var b strings.Builder
	b.WriteString("package bench\n\ndefault deny := false\n\ndefault allow := false\n\n")
	for i := range n {
		for _, body := range s.rego(i) {
			fmt.Fprintf(&b, "%s if { input.tool == \"%s\"; %s }\n", behaviorOf(i), toolOf(i), body)
		}
	}
	b.WriteString("\ndecision := \"deny\" if { deny } else := \"allow\" if { allow } else := \"none\"\n")
	return b.String()
}
