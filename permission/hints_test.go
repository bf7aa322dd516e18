package permission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission"
)

// TestHints covers the mistakes that people make in their first policies, with the hint for each.
func TestHints(t *testing.T) {
	schema, err := permission.CompileSchema([]byte(`{"type":"object","required":["cents","order"],"properties":{
		"cents":{"type":"integer"},"order":{"type":"string","maxLength":20},"note":{"type":"string"},
		"text":{"type":"string","maxLength":90000},"headers":{"type":"object","additionalProperties":{"type":"string"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	opts := permission.Options{Tools: []permission.Tool{{Name: "refund", Schema: schema}}, Enforced: allDuties}
	const head = "version: 1\nname: x\nrules:\n  - name: r\n    tool: refund\n    behavior: ask\n"
	when := func(expr string) string { return head + "    when: |\n      " + expr + "\n" }
	for _, c := range []struct{ name, file, want string }{
		{"one equals sign", when(`args.cents = 5`), "compare with =="},
		{"and", when(`args.cents > 5 and args.cents < 9`), "write && for and"},
		{"or", when(`args.cents > 5 OR args.cents < 9`), "write || for or"},
		{"not", when(`not args.cents > 5`), "write ! for not"},
		{"infix contains", when(`args.order contains "x"`), "call the value's function"},
		{"thousands", when(`args.cents > 100_000`), "a number has digits only"},
		{"backslash", when(`args.order.matches("^\d+$")`), `write \\ for a backslash`},
		{"lookahead", when(`args.order.matches("^(?!x).*$")`), "write two conditions"},
		{"reference back", when(`args.order.matches(r"^(x)\1$")`), "write two conditions"},
		{"open text", when(`args.order == "x`), "a text is not closed"},
		{"cut short", when(`args.cents >`), "the expression ends too early (write conditions as in"},
		{"number in quotes", when(`args.cents > "5"`), "compare two values of one type"},
		{"list equals", when(`caller.roles == "x"`), `write "x" in LIST`},
		{"list contains", when(`caller.roles.contains("x")`), `write "x" in LIST`},
		{"in text", when(`args.order in "a,b"`), `a list is written in [ ]`},
		{"time as text", when(`ctx.now > "2026-01-01"`), "timestamp("},
		{"optional", when(`args.?note == "x"`), ".orValue(…)"},
		{"int times double", when(`args.cents * 1.5 > 3.0`), "double("},
		{"hosts as text", when(`url.hostIn(args.order, "a.test")`), "a list is written in [ ]"},
		{"number as condition", when(`args.cents && true`), "as in args.x > 5"},
		{"bare field", when(`cents > 5`), "did you mean args.cents?"},
		{"bare user", when(`user == "ann"`), "did you mean caller.user?"},
		{"bare now", when(`now.getHours() > 3`), "did you mean ctx.now?"},
		{"input", when(`input.cents > 5`), "did you mean args?"},
		{"text without quotes", when(`args.order == prod`), "put a text in quotes"},
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
		{"zone of the machine", when(`ctx.now.getHours("Local") > 5`), "differs between machines"},
		{"misspelled function of a time", when(`ctx.now.getHour() > 5`), "did you mean getHours?"},
		{"long field", when(`args.text.matches("^(alpha|beta|gamma|delta)[a-z]*$")`), "args.text can have 90000 of them by its maxLength"},
		{"open map", when(`args.headers.exists(k, k.lowerAscii() == "x")`), "args.headers has no maxProperties"},
		{"message of one word", head + "    message: Refund\n", "give a text its own quotes"},
		{"message with a number", head + "    message: \"'Refund ' + args.cents\"\n", "string("},
		{"message with braces", head + "    message: \"Refund {{args.order}}\"\n", "join texts with +"},

		{"equals greater", when(`args.cents => 5`), "compare with =="},
		{"unequal", when(`args.cents <> 5`), "compare with =="},
		{"one ampersand", when(`args.cents > 5 & args.order == "x"`), "write && for and"},
		{"one bar", when(`args.cents > 5 | args.order == "x"`), "write || for or"},
		{"pattern operator", when(`args.order =~ "x"`), "matches("},
		{"arrow", when(`["a"].exists(t => t == "x")`), "name the element first"},
		{"no element", when(`["a"].exists("x")`), "name the element first"},
		{"odd element", when(`["a"].exists(args.x, true)`), "name the element first"},
		{"round list", when(`args.order in ("a", "b")`), "a list is written in [ ]"},
		{"curly list", when(`args.order in {"a", "b"}`), "a list is written in [ ]"},
		{"comma in a number", when(`args.cents > 1,000`), "a number has digits only"},
		{"unit of a number", when(`args.cents > 1000 EUR`), "a number has digits only"},
		{"percent", when(`args.cents > 5%`), "a number has digits only"},
		{"range", when(`args.cents in 1..5`), "write conditions as in"},
		{"chain", when(`1 < args.cents < 5`), "compare two values"},
		{"null", when(`args.note == null`), "a field that may be missing"},
		{"index of args", when(`args["cents"] > 5`), "name a field of the arguments"},
		{"in args", when(`"note" in args`), "has(args.x)"},
		{"has behind", when(`args.has("note")`), "has(args.x)"},
		{"has of nothing", when(`has(args)`), "has(args.x)"},
		{"has of a misspelled field", when(`has(args.foo)`), "args has cents, headers"},
		{"get", when(`args.get("note") == "x"`), "args.?x.orValue("},
		{"two question marks", when(`args.note ?? "x" == "x"`), "args.?x.orValue("},
		{"question mark in front", when(`args?.note == "x"`), "args.?x.orValue("},
		{"half a choice", when(`args.cents > 3 ? true`), "write conditions as in"},
		{"function in front", when(`contains(args.order, "x")`), "call the value's function"},
		{"two beginnings", when(`args.order.startsWith("a", "b")`), "no matching overload for 'startsWith' applied to 'string.(string, string)'"},
		{"field for a function", when(`args.order.length > 5`), "args.x.size()"},
		{"function without call", when(`args.order.lowerAscii == "x"`), "call the value's function"},
		{"field of a time", when(`ctx.now.hour > 5`), "ctx.now.getHours()"},
		{"field of a text", when(`caller.user.name == "x"`), "does not support field selection (call the value's function"},
		{"span as text", when(`ctx.now + "24h" > ctx.now`), `duration("24h")`},
		{"span in days", when(`ctx.now + duration("1d") > ctx.now`), "the units are h, m"},
		{"day as a time", when(`ctx.now > timestamp("2026-01-01")`), `timestamp("2026-01-01T00:00:00Z")`},
		{"text as a time", when(`args.order > ctx.now`), "timestamp(args.x)"},
		{"bool as text", when(`(args.cents > 5) == "true"`), "compare two values of one type"},
		{"tool", when(`tool == "refund"`), "tool.name"},
		{"group of the caller", when(`"x" in caller.group`), "did you mean groups?"},
		{"max", when(`math.max(args.cents, 5) > 3`), "did you mean greatest?"},
		{"abs", when(`abs(args.cents) > 3`), "math.abs"},
		{"two lines", when("args.cents > 3\n      args.order == \"x\""), "write conditions as in args.x > 5 && args.y"},
		{"semicolon", when(`args.cents > 3;`), "write conditions as in"},
		{"comment", when(`args.cents > 3 # much`), "write conditions as in"},
		{"no quotes at all", when(`args.order.endsWith(@example.com)`), "put a text in quotes"},
		{"round quotes", when("args.order == “x”"), "put a text in quotes"},
		{"folder with a star", when(`path.within(args.order, "/data/*")`), "a folder has no * after it"},
		{"message of a sentence", head + "    message: This is a refund\n", "give a text its own quotes"},
		{"message with an apostrophe", head + "    message: \"'It's ' + args.order\"\n", "give a text its own quotes"},

		{"other language's key", strings.Replace(head, "behavior", "effect", 1), "did you mean behavior?"},
		{"id of a rule", strings.Replace(head, "- name: r\n", "- id: r\n", 1), "did you mean name?"},
		{"question", head + "    question: '\"Deploy?\"'\n", "did you mean message?"},
		{"condition", head + "    condition: args.cents > 5\n", "did you mean when?"},
		{"priority", head + "    priority: 5\n", "rules have no order"},
		{"mode of the file", "mode: explore\n" + head, "it is a key of defaults, tests[].call"},
		{"quorum of approvers", head + "    approvers: {users: [a], quorum: 2}\n", "it is a key of rules[], tests[].expect"},
		{"groups of a step", head + "    escalation: [{after: 5m, groups: [a]}]\n", "it is a key of rules[].approvers, rules[].escalation[].to"},
		{"tool of a test", head + "tests:\n  - {name: t, tool: refund, expect: {behavior: ask}}\n", "it is a key of rules[], tests[].call"},
		{"keys of defaults", "defaults: {colour: red}\n" + head, "the keys here are mode, on_error"},
		{"capitals", strings.Replace(head, "behavior: ask", "behavior: Ask", 1), "did you mean ask?"},
		{"block", strings.Replace(head, "behavior: ask", "behavior: block", 1), "did you mean deny?"},
		{"approvers as a list", head + "    approvers: [finance]\n", "the keys here are users, groups"},
		{"expect as text", head + "tests:\n  - {name: t, call: {tool: refund}, expect: ask}\n", "the keys here are behavior, rule"},
		{"list of conditions", head + "    when: [a, b]\n", "write one expression in quotes"},
		{"no condition", head + "    when:\n", "leave the key out"},
		{"always", head + "    when: true\n", "leave when out to mean every call"},
		{"time without unit", head + "    expiry: 30\n", "write a duration such as 90s, 15m, 24h or 7d"},
		{"yes", head + "    locked: yes\n", "want true or false (write one of them, without quotes)"},
		{"off", head + "    locked: off\n", "want true or false (write one of them, without quotes)"},
		{"version as text", strings.Replace(head, "version: 1", `version: "1"`, 1), "without quotes"},
		{"rules as keys", "version: 1\nname: x\nrules:\n  r: {tool: refund}\n", `begin each element with "- "`},
		{"list in the vocabulary", "vocabulary: {a: [x]}\n" + head, "write one expression in quotes"},

		{"tab", strings.Replace(head, "    tool", "\ttool", 1), "write plain spaces: YAML does not accept tabs"},
		{"star", strings.Replace(head, "tool: refund", "tool: *", 1), "put the value in quotes: it cannot begin with *"},
		{"colon", head + "    when: args.cents > 5 ? args.order == 'x' : true\n", "put the whole value in quotes"},
		{"half in quotes", head + "    when: 'x' in caller.roles\n", "quotes of a kind that it does not contain"},
		{"indent", strings.Replace(head, "    behavior", "   behavior", 1), "begin in the same column"},
		{"no colon", strings.Replace(head, "behavior: ask", "behavior ask", 1), "a key has a colon"},
		{"open quote", head + "    message: \"'Refund?'\n", "could not find end character"},
		{"tool with a specifier", strings.Replace(head, "tool: refund", "tool: Bash(git push:*)", 1), `write tool: Bash, and rule_content: "git push:*"`},
		{"tools in one text", strings.Replace(head, "tool: refund", "tool: refund, pay", 1), "a list is written in [ ]"},
		{"any tool by a word", strings.Replace(head, "tool: refund", "tool: all", 1), `any tool is "*"`},
		{"args of a rule", head + "    args: {cents: 5}\n", "write when: args.x == …"},
		{"disabled", head + "    disabled: true\n", "enforcement: audit"},
		{"expr", head + "    expr: args.cents > 5\n", "did you mean when?"},
		{"executor as text", head + "    executor: exec.a\n", "the keys here are subject, timeout"},
		{"no subject", head + "    executor: {subject: ''}\n", "leave the key out"},
		{"quorum in quotes", head + "    quorum: '2'\n", "without quotes"},
		{"alias", head + "    when: *cond\n", "write the value out"},
		{"number with an exponent", head + "tests:\n  - {name: t, call: {tool: refund, args: {cents: 1e3}}, expect: {behavior: ask}}\n", "write the number out"},
		{"no rule above", "disable: [r]\n" + head, "managed=FILE puts a file above"},
		{"a text for a file", "hello", "the keys here are version, name"},

		{"no-break space", strings.Replace(head, "    tool", "    tool", 1), "write plain spaces"},
		{"escape", head + "    when: \"args.order.matches('^\\d+$')\"\n", "YAML reads \\ in double quotes"},
		{"text that goes on", head + "    when: args.cents > 5\n    && args.order == 'x'\n", "further than its key"},
		{"latin-1", head + "    description: caf\xe9\n", "save it as UTF-8"},
		{"utf-16", "\xff\xfev\x00e\x00", "UTF-16"},
		{"directive", "%YAML 1.2\n---\n" + head, "contains a YAML directive (remove the line %YAML 1.2)"},
		{"directive alone", "%YAML 1.2\n" + head, "x.yaml:1:1: contains a YAML directive"},
		{"directive of tags", "# ours\n%TAG ! tag:x,2026:\n---\n" + head, "x.yaml:2:1: contains a YAML directive"},
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
