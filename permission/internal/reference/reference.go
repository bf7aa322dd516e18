package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/rulefile"
	"github.com/askance-dev/askance/permission/lint"
)

const head = `# Reference of rule files

For authors of policies: every key, variable, function and lint code. ` + "`make generate`" + ` writes this page from the code, and a test compares it. Begin with the [tutorial](../docs/tutorials/policy.md); [doc.go](doc.go) describes the order of the steps, the modes, and failed evaluations.

`

// Markdown returns the whole document.
func Markdown() (string, error) {
	var b strings.Builder
	b.WriteString(head)
	keys(&b)
	if err := variables(&b); err != nil {
		return "", err
	}
	if err := functions(&b); err != nil {
		return "", err
	}
	b.WriteString("\n")
	contents(&b)
	toolKinds(&b)
	codes(&b)
	return b.String(), nil
}

// cell escapes a text for a table cell.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

func code(s string) string { return "`" + cell(s) + "`" }

// sections are the parts of a rule file, by path prefix.
var sections = []struct{ prefix, title, text string }{
	{"", "The file", "YAML, one document, at most 1 MiB. A file with unknown keys, duplicate keys, anchors or tags is refused. So is one with control or bidirectional characters (write them as \"\\u202E\"), or with numbers that programs read differently, such as 010."},
	{"defaults.", "defaults", "They apply to the rules in the same file."},
	{"rules[].", "A rule", "A key that the engine does not enforce is a load error; it is never ignored."},
	{"tests[].", "A test", "A call and its expected decision. Tests decide nothing; `askance policy test` runs them."},
}

func keys(b *strings.Builder) {
	b.WriteString("## Keys of rule files\n")
	for i, s := range sections {
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n| Key | Value | Meaning |\n|---|---|---|\n", s.title, s.text)
		for _, k := range rulefile.Keys() {
			if section(k.Path) != i {
				continue
			}
			value := k.Type
			if len(k.Words) > 0 {
				value = strings.Join(k.Words, ", ")
			}
			if k.Required {
				value += "; required"
			}
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(strings.TrimPrefix(k.Path, s.prefix)), cell(value), cell(k.Doc))
		}
	}
	b.WriteString("\nWrite a duration as 90s, 15m, 24h or 7d; days come first, as in 1d12h.\n")
}

// section returns the index of the section that a key belongs to.
func section(path string) int {
	for i := len(sections) - 1; i > 0; i-- {
		if strings.HasPrefix(path, sections[i].prefix) {
			return i
		}
	}
	return 0
}

func variables(b *strings.Builder) error {
	b.WriteString("\n## Variables\n\n`args` has the arguments of the call, typed by the tool's JSON Schema. For a tool without a schema, and in rules about any tool, it is a map of anything. `askance policy vars TOOL` prints its fields. A field that the schema does not require may be missing: guard it with `has(args.x)`, or write `args.?x.orValue(…)`. Conditions compare texts character by character: case counts, and `é` as one character differs from `e` with a combining accent. So allow the texts that you know, and do not rely on denying others.\n\n| Variable | Type | Meaning |\n|---|---|---|\n")
	all := permission.Variables()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		doc, ok := variableDocs[name]
		if !ok {
			return fmt.Errorf("the variable %s is not described in variables.go", name)
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", code(name), cell(all[name]), cell(doc))
	}
	for name := range variableDocs {
		if _, ok := all[name]; !ok {
			return fmt.Errorf("variables.go describes %s, which does not exist", name)
		}
	}
	b.WriteString("\nNames defined in the `vocabulary` of a file are variables, too. Expressions cannot read clocks, files or the network: the same call gets the same answer.\n")
	return nil
}

func functions(b *strings.Builder) error {
	b.WriteString("\n## Functions\n\nFunctions for paths and URLs. A path or URL that programs read in different ways is an error, and the rule then fails closed.\n\n| Function | Meaning |\n|---|---|\n")
	own := map[string]bool{}
	for _, f := range permission.Functions() {
		own[f.Name] = true
		fmt.Fprintf(b, "| %s | %s |\n", code(f.Signature), cell(f.Doc))
	}
	b.WriteString("\nMacros of CEL: `has(a.b)`, `l.all(x, …)`, `l.exists(x, …)`, `l.exists_one(x, …)`, `l.map(x, …)`, `l.filter(x, …)`, their forms with two variables, `cel.bind(x, …, …)`, `math.least(…)`, `math.greatest(…)`, `optional` values with `.?` and `[?]`. The operators are CEL's.\n\nFunctions of CEL and its libraries, at fixed versions:\n\n| Function | Forms |\n|---|---|\n")
	overloads, err := celrule.Overloads()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(overloads)) {
		if own[name] || !isWord(name) {
			continue
		}
		forms := make([]string, len(overloads[name]))
		for i, f := range overloads[name] {
			forms[i] = code(f)
		}
		fmt.Fprintf(b, "| %s | %s |\n", code(name), strings.Join(forms, "<br>"))
	}
	return nil
}

// isWord reports whether a function has a name that people write, unlike operators and helpers.
func isWord(name string) bool {
	return !strings.ContainsAny(name, "@_[]!-") || name == "_"
}

func codes(b *strings.Builder) {
	b.WriteString("\n## Lint codes\n\nA code never changes its meaning. `i_know: true` in a rule turns off L04, L14, L21 and L22 for it.\n\n| Code | Level | Finding | Why | How to fix it |\n|---|---|---|---|---|\n")
	for _, d := range lint.Codes() {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", d.Code, cell(d.Level), cell(d.Finding), cell(d.Why), cell(d.Fix))
	}
}

var variableDocs = map[string]string{
	"tool.name":                     "Name of the tool.",
	"tool.server":                   "Server or group that the tool comes from; empty if none.",
	"tool.schema_hash":              "Hash of the tool's schema; empty without one.",
	"tool.hash":                     "Hash of the definition that the runtime declares; empty if it declares none, and for a tool in the tools file.",
	"tool.changed":                  "The session began with another definition of the tool.",
	"tool.claims.read_only":         "The runtime claims that the tool changes nothing.",
	"tool.claims.destructive":       "The runtime claims that the tool is destructive.",
	"tool.claims.idempotent":        "The runtime claims that a second call has no further effect.",
	"tool.claims.open_world":        "The runtime claims that the tool reaches outside systems.",
	"tool.annotations.read_only":    "Declared to change nothing.",
	"tool.annotations.destructive":  "Declared destructive.",
	"tool.annotations.idempotent":   "Declared idempotent: a second call has no further effect.",
	"tool.annotations.open_world":   "Declared to reach outside systems.",
	"caller.agent":                  "Agent that makes the call.",
	"caller.groups":                 "Groups of the user, from the request's credentials or the directory; missing if an engine has neither.",
	"caller.parent_agent":           "Agent of the parent call; may be missing.",
	"caller.user":                   "User on whose behalf the call is made.",
	"caller.tenant":                 "Tenant; missing in an engine, which does not know it.",
	"caller.roles":                  "Roles of the caller; missing in an engine, which does not know them.",
	"caller.space":                  "Space of the call.",
	"caller.session":                "Session of the call.",
	"caller.reply":                  "Reply that the call belongs to.",
	"caller.run_id":                 "Run of the agent; may be missing.",
	"call.depth":                    "How many calls enclose this one: 0 unless it is made within another call.",
	"call.parent.tool":              "Tool of the parent call, such as the one that started a sub-agent; may be missing: has(call.parent).",
	"call.parent.user":              "User on whose behalf the parent call is made; may be missing.",
	"call.parent.agent":             "Agent that makes the parent call; may be missing.",
	"call.parent.session":           "Session of the parent call; may be missing.",
	"call.parent.reply":             "Reply of the parent call; may be missing.",
	"call.parent.id":                "Id of the parent call; may be missing.",
	"ctx.mode":                      "Permission mode that the call is decided in.",
	"ctx.now":                       "Time of the call, in UTC: ctx.now.getHours() >= 8.",
	"ctx.cwd":                       "Working folder of the tool; missing if the tool runs outside the folder and the working folders of the engine.",
	"ctx.working_dirs":              "Folders in which tools can work.",
	"ctx.resolved":                  "Where each path in the input leads after following symbolic links: ctx.resolved[args.path].",
	"ctx.attempt":                   "Number of the attempt, from 1; may be missing.",
	"ctx.calls_this_run":            "Number of calls in the run, including this one; may be missing.",
	"cmd.static":                    "For shell tools only: everything that the line runs is known before it runs.",
	"cmd.reasons":                   "Why the line is not static.",
	"cmd.calls[i].argv":             "Words of one command in the line, the program first.",
	"cmd.calls[i].assigns":          "Variables set for the command.",
	"cmd.calls[i].redirects":        "Redirections of the command.",
	"cmd.calls[i].via":              "What runs the command, such as sudo or a substitution.",
	"cmd.calls[i].options_admitted": "Whether an allow rule for the program, such as git:*, covers the arguments: none of them runs another program, writes a file that the rule does not name, or loads configuration. False in a line that is not static.",
}
