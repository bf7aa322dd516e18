package reference

import (
	"fmt"
	"strings"
)

// optionWords are the words of options.txt and of the key `options`.
var optionWords = []struct{ word, admits string }{
	{"`--fix`, `-q`, `+short`", "this option; letters of one dash also together: `-qv`"},
	{"`--ext=`, `-n=`", "this option with a value, in the same word or the next"},
	{"`--write=false`", "this option with that value in the same word"},
	{"`--color=?`", "this option alone or with a value in the same word"},
	{"`--format=json\\|text`, `--config=<local>`", "one of these values, a value of that class"},
	{"`-n=,--namespace=,-A`", "at most one of these options, once"},
	{"`!--force`", "this option where the rule itself writes it, and nowhere else"},
	{"`-#`", "`-5` and other numbers"},
	{"`onedash`", "options are whole words after one dash or two: `-run`, `--run`"},
	{"`<local>`", "an operand of that class; the next word in `<>` is the next operand; `...` at the end: any number of the last one"},
	{"`--`", "the words behind it hold for what stands behind `--` in the command"},
}

// toolKinds describes what rules can say about shell tools, Windows tools and tools that runtimes declare.
func toolKinds(b *strings.Builder) {
	b.WriteString("## Options of commands\n" +
		"\n" +
		"A rule for a shell tool without `:*` and `*` covers exactly its command or line. A rule with `:*` or `*` covers a command that begins with its words if [options.txt](shell/options.txt) lists all other options and operands for that program and sub-command. Everything else is asked about, and so is a program without a line in the list.\n" +
		"\n" +
		"The key `options` adds to the list, for one allow rule: `{name: lint, tool: Bash, rule_content: \"mylint:*\", options: \"--fix --ext= --format=json|text <local>...\", behavior: allow}` covers `mylint --fix --ext .ts src`.\n" +
		"\n" +
		"| Word | Admits |\n" +
		"|---|---|\n")
	for _, w := range optionWords {
		fmt.Fprintf(b, "| %s | %s |\n", w.word, w.admits)
	}
	b.WriteString("\n" +
		"Classes: `any`; `local`, a path in the working folder or a name; `package`; `word`; `name`; `script`; `formula` of brew; `image`; `target`; `host`; `url`, http or https; `remote` and `ref` of git; `unit`; `header`; `file`; `format`; `printf`; `dig`. An option that the rule writes cannot be given again with another value or as `--no-…`. `trust_options: true` admits every option of the program: use it only if none can run a program, write a file or read a configuration.\n" +
		"\n" +
		"## Windows\n" +
		"\n" +
		"askance does not analyse the command lines of PowerShell and `cmd.exe`. Declare such a tool with `kind: powershell` or `kind: cmd`: no `rule_content` covers a line, no line counts as read-only, and `read_only: true` is an error. Only a rule for the whole tool or a rule with `when` can allow a call.\n" +
		"\n" +
		"`home` tells on which system a tool with a `kind` runs: `/home/dev` is a POSIX system, `C:\\Users\\dev` or `/c/Users/dev` is Windows. Tools of the engine's own machine have its home. Without `home` the system is unknown and counts as Windows:\n" +
		"\n" +
		"- Deny and ask rules apply to every spelling of a path: other case, `\\`, drives, `..`, `\\\\?\\`, streams (`.env::$DATA`), dots and blanks at the end of a name. Drives are ignored: a rule for `C:\\data\\**` also denies `D:\\data\\k`. If the text does not tell which file is meant (`PROGRA~1`, `\\\\host\\share`, `C:k`, `NUL`), the rule counts as one that cannot be evaluated.\n" +
		"- No allow rule with `rule_content` covers a path with a drive or a backslash, such a path is in no working directory, and reading it asks. Relative paths with `/` work as on other systems.\n" +
		"\n" +
		"Conditions do not know the tool's system. `path.within`, `path.match`, `path.base` and `path.ext` are errors if the two systems give different results, so neither an allow nor a deny rule relies on the wrong one. Do not compare the text of a path with `==`: use `path.match`.\n" +
		"\n" +
		"## Tools that runtimes declare\n" +
		"\n" +
		"A runtime can declare its own tools with a proposal (`tools`: name, description, `input_schema`, annotations). A tool of the tools file keeps the definition of the tools file. Of another tool askance trusts this much:\n" +
		"\n" +
		"- The schema is applied: arguments that do not fit are refused.\n" +
		"- `read_only` and `idempotent` are claims. They allow nothing by themselves. A rule that trusts them says so: `when: caller.user == \"ide\" && tool.claims.read_only`.\n" +
		"- `destructive` and `open_world` can only make rules stricter, so rules see them also as `tool.annotations`.\n" +
		"- A kind comes only from the tools file.\n" +
		"- `tool.hash` is the SHA-256 of the definition. `tool.changed` says that the session began with another definition. A changed tool is a new tool for standing approvals and remembered rules, and people see that it changed. Rules go by the name; to stop changed tools, write `behavior: ask` (or `deny`), `tool: frontend/NAME`, `when: tool.changed`.\n" +
		"\n" +
		"A runtime can also name the call within which its calls are made, such as the one that started a sub-agent. Rules see it as `call.depth` and `call.parent.tool`; a rule that allows more because of a parent compares `call.parent.user` with `caller.user`.\n" +
		"\n")
}
