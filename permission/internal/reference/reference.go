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

// Markdown is the whole document.
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

// cell keeps a text inside its cell of a table.
func cell(s string) string { return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s) }

func code(s string) string { return "`" + cell(s) + "`" }

// sections are the parts of a rule file, by the beginning of the paths.
var sections = []struct{ prefix, title, text string }{
	{"", "The file", "YAML, one document, at most 1 MiB. Unknown keys, keys that are given twice, anchors and tags refuse the file. So do control characters and those that turn the direction of text, which a text has as \"\\u202E\", and numbers that are not read alike everywhere, such as 010."},
	{"defaults.", "defaults", "They hold for the rules of the same file."},
	{"rules[].", "A rule", "A key that the engine does not carry out is a load error that says so; it is never passed over."},
	{"tests[].", "A test", "A call and what must come out. Tests decide nothing; `askance policy test` runs them."},
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
	b.WriteString("\nA duration is written as 90s, 15m, 24h or 7d; days come first, as in 1d12h.\n")
}

// section is the part of the file that a key belongs to.
func section(path string) int {
	for i := len(sections) - 1; i > 0; i-- {
		if strings.HasPrefix(path, sections[i].prefix) {
			return i
		}
	}
	return 0
}

func variables(b *strings.Builder) error {
	b.WriteString("\n## Variables\n\n`args` has the arguments of the call: typed by the tool's JSON Schema, or a map of anything for a tool without one and in rules about any tool. `askance policy vars TOOL` prints its fields. A field that the schema does not require may be missing: guard it with `has(args.x)`, or write `args.?x.orValue(…)`.\n\n| Variable | Type | Meaning |\n|---|---|---|\n")
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
	b.WriteString("\nNames that the `vocabulary` of a file defines are variables, too. There is no clock, no file and no network: the same call gets the same answer.\n")
	return nil
}

func functions(b *strings.Builder) error {
	b.WriteString("\n## Functions\n\nPaths and URLs, as every program reads them. What programs read in different ways is an error, and the rule then fails on its safe side.\n\n| Function | Meaning |\n|---|---|\n")
	own := map[string]bool{}
	for _, f := range permission.Functions() {
		own[f.Name] = true
		fmt.Fprintf(b, "| %s | %s |\n", code(f.Signature), cell(f.Doc))
	}
	b.WriteString("\nMacros of CEL: `has(a.b)`, `l.all(x, …)`, `l.exists(x, …)`, `l.exists_one(x, …)`, `l.map(x, …)`, `l.filter(x, …)`, their forms with two variables, `cel.bind(x, …, …)`, `math.least(…)`, `math.greatest(…)`, `optional` values with `.?` and `[?]`. The operators are those of CEL.\n\nFunctions of CEL and its libraries, at fixed versions:\n\n| Function | Forms |\n|---|---|\n")
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

// isWord tells functions that people write from operators and helpers.
func isWord(name string) bool {
	return !strings.ContainsAny(name, "@_[]!-") || name == "_"
}

func codes(b *strings.Builder) {
	b.WriteString("\n## Lint codes\n\nA code never changes its meaning. `i_know: true` in a rule spares it L04, L14, L21 and L22.\n\n| Code | Level | Finding | Why | How to fix it |\n|---|---|---|---|---|\n")
	for _, d := range lint.Codes() {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", d.Code, cell(d.Level), cell(d.Finding), cell(d.Why), cell(d.Fix))
	}
}

// variableDocs say what the variables mean.
var variableDocs = map[string]string{
	"tool.name":                     "Name of the tool.",
	"tool.server":                   "Server or group that it comes from; empty if none.",
	"tool.schema_hash":              "Hash of its schema; empty without one.",
	"tool.hash":                     "Hash of the definition that the runtime declares; empty without one, and of a tool of the tools file.",
	"tool.changed":                  "The session began with another definition of the tool.",
	"tool.claims.read_only":         "The runtime claims that it changes nothing.",
	"tool.claims.destructive":       "The runtime claims that it destroys something.",
	"tool.claims.idempotent":        "The runtime claims that it does the same if it is done twice.",
	"tool.claims.open_world":        "The runtime claims that it reaches the world outside.",
	"tool.annotations.read_only":    "Declared to change nothing.",
	"tool.annotations.destructive":  "Declared to destroy something.",
	"tool.annotations.idempotent":   "Declared to do the same if it is done twice.",
	"tool.annotations.open_world":   "Declared to reach the world outside.",
	"caller.agent":                  "Agent that makes the call.",
	"caller.groups":                 "Groups of the user, from the credentials of the request or the directory; may be missing: without either an engine does not know them.",
	"caller.parent_agent":           "Agent of the call within which it is made; may be missing.",
	"caller.user":                   "On whose behalf.",
	"caller.tenant":                 "Tenant; may be missing: an engine does not know it.",
	"caller.roles":                  "Roles of the caller; may be missing: an engine does not know them.",
	"caller.space":                  "Space of the call.",
	"caller.session":                "Session of the call.",
	"caller.reply":                  "Reply that the call belongs to.",
	"caller.run_id":                 "Run of the agent; may be missing.",
	"call.depth":                    "How many calls are around it: 0 unless it is made within another call.",
	"call.parent.tool":              "Tool of the call within which it is made, such as the one that started a sub-agent; may be missing: has(call.parent).",
	"call.parent.user":              "On whose behalf that call is made; may be missing.",
	"call.parent.agent":             "Agent that makes that call; may be missing.",
	"call.parent.session":           "Session of that call; may be missing.",
	"call.parent.reply":             "Reply that it belongs to; may be missing.",
	"call.parent.id":                "Its id; may be missing.",
	"ctx.mode":                      "Permission mode that the call is decided in.",
	"ctx.now":                       "Time of the call, in UTC: ctx.now.getHours() >= 8.",
	"ctx.cwd":                       "Working folder of the tool.",
	"ctx.working_dirs":              "Folders in which tools may work.",
	"ctx.resolved":                  "Where the paths of the input lead when symbolic links are followed, by their text: ctx.resolved[args.path].",
	"ctx.attempt":                   "Number of the try, from 1; may be missing.",
	"ctx.calls_this_run":            "Calls of the run, this one included; may be missing.",
	"cmd.static":                    "Only of shell tools: everything that the line runs is known before it runs.",
	"cmd.reasons":                   "Why it is not static.",
	"cmd.calls[i].argv":             "Words of one command of the line, the program first.",
	"cmd.calls[i].assigns":          "Variables that are set for it.",
	"cmd.calls[i].redirects":        "Its redirections.",
	"cmd.calls[i].via":              "What runs the command, such as sudo or a substitution.",
	"cmd.calls[i].options_admitted": "Whether an allow rule for the program, as git:*, covers the arguments: none runs another program, writes a file that the rule does not name, or loads configuration. False in a line that is not static.",
}
