package permission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// TestHints holds the mistakes that people make in their first policies against
// what the fault says about mending them.
func TestHints(t *testing.T) {
	schema, err := permission.CompileSchema([]byte(`{"type":"object","required":["cents","order"],"properties":{
		"cents":{"type":"integer"},"order":{"type":"string","maxLength":20},"note":{"type":"string"},
		"text":{"type":"string","maxLength":90000},"headers":{"type":"object","additionalProperties":{"type":"string"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	opts := permission.Options{Tools: []permission.Tool{{Name: "refund", Schema: schema}}, Enforced: permission.AllDuties()}
	const head = "version: 1\nname: x\nrules:\n  - name: r\n    tool: refund\n    behavior: ask\n"
	when := func(expr string) string { return head + "    when: |\n      " + expr + "\n" }
	for _, c := range []struct{ name, file, want string }{
		{"one equals sign", when(`args.cents = 5`), "write == to compare"},
		{"and", when(`args.cents > 5 and args.cents < 9`), "write && for and"},
		{"or", when(`args.cents > 5 OR args.cents < 9`), "write || for or"},
		{"not", when(`not args.cents > 5`), "write ! for not"},
		{"infix contains", when(`args.order contains "x"`), "functions are called"},
		{"thousands", when(`args.cents > 100_000`), "numbers have no _"},
		{"backslash", when(`args.order.matches("^\d+$")`), `write \\ for a backslash`},
		{"open text", when(`args.order == "x`), "a text is not closed"},
		{"cut short", when(`args.cents >`), "the expression ends too early"},
		{"number in quotes", when(`args.cents > "5"`), "compare a number with a number"},
		{"list equals", when(`caller.roles == "x"`), `write "x" in LIST`},
		{"list contains", when(`caller.roles.contains("x")`), `write "x" in LIST`},
		{"in text", when(`args.order in "a,b"`), `args.x in ["a", "b"]`},
		{"time as text", when(`ctx.now > "2026-01-01"`), "timestamp("},
		{"optional", when(`args.?note == "x"`), ".orValue("},
		{"int times double", when(`args.cents * 1.5 > 3.0`), "double("},
		{"hosts as text", when(`url.hostIn(args.order, "a.test")`), "the hosts are a list"},
		{"number as condition", when(`args.cents && true`), "a condition of its own"},
		{"bare field", when(`cents > 5`), "did you mean args.cents?"},
		{"bare user", when(`user == "ann"`), "did you mean caller.user?"},
		{"bare now", when(`now.getHours() > 3`), "did you mean ctx.now?"},
		{"input", when(`input.cents > 5`), "did you mean args?"},
		{"text without quotes", when(`args.order == prod`), "a text stands in quotes"},
		{"misspelled variable", when(`caler.user == ""`), "did you mean caller?"},
		{"length", when(`args.order.length() > 5`), "did you mean size?"},
		{"case of a function", when(`args.order.startswith("x")`), "did you mean startsWith?"},
		{"lower", when(`args.order.toLowerCase() == "x"`), "did you mean lowerAscii?"},
		{"no such function", when(`frobnicate(args.order)`), "askance policy vars lists them"},
		{"field of args", when(`args.amount > 5`), "args has cents, headers, note, order, text"},
		{"field of ctx", when(`ctx.hour > 5`), "ctx has attempt, calls_this_run, cwd"},
		{"field of caller", when(`"x" in caller.role`), "did you mean roles?"},
		{"pattern", when(`args.order.matches("[a")`), "missing closing ]"},
		{"time zone", when(`ctx.now.getHours("Berlin") > 5`), `no time zone "Berlin"`},
		{"zone of the machine", when(`ctx.now.getHours("Local") > 5`), "whatever machine decides"},
		{"long field", when(`args.text.matches("^(alpha|beta|gamma|delta)[a-z]*$")`), "args.text may have 90000 of them by its maxLength"},
		{"open map", when(`args.headers.exists(k, k.lowerAscii() == "x")`), "args.headers has no maxProperties"},
		{"message of one word", head + "    message: Refund\n", "put a text in quotes of its own"},
		{"message with a number", head + "    message: \"'Refund ' + args.cents\"\n", "string("},
		{"message with braces", head + "    message: \"Refund {{args.order}}\"\n", "join texts with +"},

		{"other language's key", strings.Replace(head, "behavior", "effect", 1), "did you mean behavior?"},
		{"condition", head + "    condition: args.cents > 5\n", "did you mean when?"},
		{"priority", head + "    priority: 5\n", "rules have no order"},
		{"mode of the file", "mode: explore\n" + head, "it belongs below: defaults.mode"},
		{"quorum of approvers", head + "    approvers: {users: [a], quorum: 2}\n", "a key of the rule itself"},
		{"groups of a step", head + "    escalation: [{after: 5m, groups: [a]}]\n", "it belongs below: to.groups"},
		{"tool of a test", head + "tests:\n  - {name: t, tool: refund, expect: {behavior: ask}}\n", "it belongs below: call.tool"},
		{"keys of defaults", "defaults: {behavior: deny}\n" + head, "the keys here are mode, on_error"},
		{"capitals", strings.Replace(head, "behavior: ask", "behavior: Ask", 1), "did you mean ask?"},
		{"block", strings.Replace(head, "behavior: ask", "behavior: block", 1), "did you mean deny?"},
		{"approvers as a list", head + "    approvers: [finance]\n", "write {users: [ann], groups: [finance]}"},
		{"expect as text", head + "tests:\n  - {name: t, call: {tool: refund}, expect: ask}\n", "write {behavior: ask}"},
		{"list of conditions", head + "    when: [a, b]\n", "join conditions with &&"},
		{"no condition", head + "    when:\n", "leave the key out"},
		{"always", head + "    when: true\n", "leave when out to mean every call"},
		{"time without unit", head + "    expiry: 30\n", "write for example 90s, 15m or 24h"},
		{"yes", head + "    locked: yes\n", "write true, without quotes"},
		{"off", head + "    locked: off\n", "write false, without quotes"},
		{"version as text", strings.Replace(head, "version: 1", `version: "1"`, 1), "without quotes"},
		{"rules as keys", "version: 1\nname: x\nrules:\n  r: {tool: refund}\n", `begin each element with "- "`},
		{"list in the vocabulary", "vocabulary: {a: [x]}\n" + head, "put the list in quotes"},

		{"tab", strings.Replace(head, "    tool", "\ttool", 1), "YAML does not take tabs"},
		{"star", strings.Replace(head, "tool: refund", "tool: *", 1), `put it in quotes: "*"`},
		{"colon", head + "    when: args.cents > 5 ? args.order == 'x' : true\n", "a text with a colon and a blank"},
		{"half in quotes", head + "    when: 'x' in caller.roles\n", "a text that begins with a quote"},
		{"indent", strings.Replace(head, "    behavior", "   behavior", 1), "begin in the same column"},
		{"no colon", strings.Replace(head, "behavior: ask", "behavior ask", 1), "a key has a colon"},
		{"open quote", head + "    message: \"'Refund?'\n", "never closed"},
		{"two documents", head + "---\n" + head, "use one file for each"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := permission.Load([]permission.File{{Name: "x.yaml", Data: []byte(c.file)}}, opts)
			var refused *permission.LoadError
			if !errors.As(err, &refused) {
				t.Fatalf("loads: %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
			for _, p := range refused.Problems {
				if p.Line == 0 {
					t.Errorf("no place: %s", p)
				}
			}
		})
	}
}
