package permission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// Faults inside an expression point to the right place in the file, in every YAML style. § marks
// the place; it is not part of the file.
func TestPlaceOfFaultInWhen(t *testing.T) {
	for name, when := range map[string]string{
		"plain":                  `    when: args.x == 1 && §nope == 2`,
		"plain over lines":       "    when: args.x == 1 &&\n      args.y == 2\n      && §nope == 2",
		"single quotes":          `    when: '§nope == 2'`,
		"single, quote doubled":  `    when: 'args.x == ''it'' && §nope == 2'`,
		"single over lines":      "    when: 'args.x == 1 &&\n\n\n        §nope == 2'",
		"double quotes":          `    when: "args.x == 1 && §nope == 2"`,
		"double, escapes":        `    when: "args.x == \"a\\tb\" && \x61rgs.y == '\u00e9\U0001F600' && §nope == 2"`,
		"double, escaped spaces": `    when: "args.x\t==\n1\x20&& §nope == 2"`,
		"double over lines":      "    when: \"args.x == 1 \\\n        && args.y == 2 &&\n      §nope == 2\"",
		"literal":                "    when: |\n      args.x == 1 &&\n        §nope == 2\n",
		"literal, first line":    "    when: |-\n      §nope == 2",
		"literal, blank lines":   "    when: |\n\n      args.x == 1\n\n      && §nope == 2\n\n",
		"literal, indicator":     "    when: |2-  # comment\n      args.x == 1 &&\n      §nope == 2",
		"folded":                 "    when: >\n      args.x == 1 &&\n      args.y == 2\n\n      && §nope == 2\n",
		"folded, strip":          "    when: >-\n      args.x == 1 &&\n      §nope == 2",
		"characters, not bytes":  `    when: 'args.x == "äöü€😀" && §nope == 2'`,
		"tabs inside":            "    when: 'args.x == 1\t&&\t§nope == 2'",
		"flow mapping":           `    approvers: {users: [a]}` + "\n" + `    when: "§nope"`,
		"at the end":             `    when: 'args.x ==§ '`,
		"at the end of a block":  "    when: |\n      args.x ==§\n    description: d",
		"wrong result type":      `    when: '§1 + 1'`,
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			text := strings.Join([]string{"# é", "version: 1", "name: place", "rules:", "  - name: r", "    tool_name: t", "    behavior: ask", when, ""}, "\n")
			before, _, _ := strings.Cut(text, "§")
			line := strings.Count(before, "\n") + 1
			col := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
			file := strings.ReplaceAll(strings.Replace(text, "§", "", 1), "\n", eol)
			_, err := permission.Load([]permission.File{{Name: "p.yaml", Data: []byte(file)}}, permission.Options{})
			var le *permission.LoadError
			if !errors.As(err, &le) || len(le.Problems) != 1 {
				t.Errorf("%s: %v", name, err)
				continue
			}
			p := le.Problems[0]
			if p.Line != line || p.Col != col || p.Field != "when" || p.Rule != "r" || p.File != "p.yaml" {
				t.Errorf("%s, end of line %q: %+v, want %d:%d in\n%s", name, eol, p, line, col, file)
			}
		}
	}
}

// Rules that are made in Go have no file. Their faults have the place in the text.
func TestPlaceOfFaultInGoRule(t *testing.T) {
	_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{
		{Name: "r", Tools: []string{"t"}, Behavior: "ask", When: "1 == 1 &&\n nope"},
	}}, permission.Options{})
	var le *permission.LoadError
	if !errors.As(err, &le) || len(le.Problems) != 1 {
		t.Fatal(err)
	}
	if p := le.Problems[0]; p.Line != 2 || p.Col != 2 || p.File != "" {
		t.Errorf("%+v, want 2:2 without a file", p)
	}
	if got, want := fmt.Sprint(le.Problems[0]), "rule r: when: undeclared reference to 'nope' (the variables are tool, args, caller and ctx; put a text in quotes)"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}
