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

// contents describes budgets, and what rules with content cover.
func contents(b *strings.Builder) {
	b.WriteString("## Executor, audit and recheck\n" +
		"\n" +
		"- `executor: {timeout: 60s}` cancels an attempt after that time. The shortest timeout of the tool and its matching rules applies.\n" +
		"- `executor: {subject: exec.payments}` sends the call only to the workers of that subject, even if the tool is local. Start one with `askance worker --tool refund --subject exec.payments -- ./refund.py` and a login of `askance creds add worker pay-1 --tool refund --subject exec.payments`. Matching rules with different subjects deny the call.\n" +
		"- Both deny a call of an external tool, because askance does not control how the agent runs it.\n" +
		"- `audit: {level: full}` records the explanation of each decision, without redacted values; `askance show CALL --explain` prints it. One that is too large is shortened and marked.\n" +
		"- `recheck: true` in an ask or allow rule evaluates `when` again when the last approver agrees and when the call begins. If it is false by then, fails, or the rule is gone, the call is denied and the result names the rule. After an attempt that may have had its effect, the call is blocked instead.\n" +
		"\n" +
		"## Common errors\n" +
		"\n" +
		"| Error | What to do |\n" +
		"|---|---|\n" +
		"| `undefined field …` | `askance policy vars TOOL` lists the fields |\n" +
		"| `message: Syntax error …` | a message is an expression: put the text in quotes of its own, `\"'Deploy now?'\"` |\n" +
		"| `found no matching overload for '_>_' applied to '(int, string)'` | compare a number with a number |\n" +
		"| `it is never null` | in CEL a missing field is not null: write `!has(args.x)` |\n" +
		"| `comparing it with 7 has one result` (L12) | weekdays are 0 (Sunday) to 6, months 0 to 11, `getDate()` 1 to 31 |\n" +
		"| `is not enforced yet` | the program that reads the file does not enforce this key; `askance serve` enforces all |\n" +
		"| `may cost … units` | declare `maxItems`, `maxLength` and `maxProperties` in the schema, or lower them |\n" +
		"| `never decides` (L06) | another rule wins, or the tool is `read_only`: narrow the other rule, or deny the unwanted calls |\n" +
		"| `note … passes, but …` | the test's call is invalid, or it expects nothing |\n" +
		"| `no matcher gives meaning to the content` | `rule_content` needs a tool with a `kind`: use `when`, or declare the kind |\n" +
		"\n")
	b.WriteString("## Budgets\n" +
		"\n" +
		"- Without room the rule does not apply: other rules and the mode decide. The request and `askance show CALL --explain` say what is spent, and when there is room again.\n" +
		"- The limits hold in any period of length `every`, not from midnight to midnight. What is spent returns up to a sixteenth of the period late; without `every`, never.\n" +
		"- `sum` adds one argument exactly, with at most 9 decimal places. The rule does not allow a negative number, a text, an exponent or a missing argument.\n" +
		"- A call counts when the rule allows it, also if it does not run. Calls that people approve or other rules allow do not count. A rule without a budget allows before one with a budget.\n" +
		"- `per` lists `session`, `agent` (of a requester), `requester` and `tool`. Runtimes choose sessions and agent names: for a limit that a runtime must not evade, use `requester` or leave `per` out.\n" +
		"- A changed limit or period counts what was spent before. A rule with another name, or a sum of another argument, begins a new budget.\n" +
		"- All engines of a space share budgets. If a budget cannot be read or written, the rule does not allow. Tests, `explain`, `replay`, previews and shadow policies take nothing.\n" +
		"\n" +
		"## Rules about files\n" +
		"\n" +
		"- A rule with content for a tool of kind `read` protects the files from all kinds that can show them: also `bash`, `edit`, `glob` and `grep`, but not `write`. With `when` it is about its own tool alone.\n" +
		"- `*` is any text, `/` included. A content that begins with neither `/`, `~/` nor `../` is about the working directories. `~` needs the `home` of every tool that the rule is about; a local tool has the engine's.\n" +
		"- A search that may find such a file, and a command that may read one (`grep -r x .`, `cat $FILE`, `cat se*/token`), is asked about.\n" +
		"- Programs that a command starts can read files that it does not name: `./report.sh`, `make`. Rules cannot see that. Run the tool as a user that cannot read the files.\n" +
		"- `askance policy lint` and `askance serve` name the tools that such a rule does not see, because they have no kind.\n" +
		"\n" +
		"## Rules about commands\n" +
		"\n" +
		"- Allow rules allow a line only if they cover every command in it. Commands that change nothing need no rule: `npm test:*` covers `npm test | tail -5`.\n" +
		"- A deny or ask rule matches every command, also after `env`, `sudo` and `sh -c`, and in other spellings: `git push --force:*` matches `-f`, `--forc`, `+main` and `--force-with-lease`.\n" +
		"- No allow rule covers a line that the parser cannot read to its end, not even a rule for all of Bash. Deny rules match what was read.\n" +
		"- A rule that names a relative file (`rm ./tmp/*`) speaks of the working folder. After `cd` in the same line it covers nothing.\n" +
		"- Programs that run what they read (`bash`, `python3`, `psql`, `sqlite3`, `ssh`, `docker exec`) are asked about behind a pipe, also if a rule is the exact command.\n" +
		"- A rule can be a whole line: `npm test && make lint`, `CI=1 npm test`.\n" +
		"- Allow rules of a policy file cover `if`, `for`, `while`, `case`, `( )` and `{ }` if they cover every command inside. `rule_content: \"*\"` also covers substitutions such as `X=$(date)` if every program is known before the line runs. A rule without content, an imported rule and a standing approval ask about all of these, as AgentScope does.\n" +
		"- `git commit:*` covers the options that askance lists for `git commit`, and asks about others. A program that askance does not list is covered only by the exact command, or by a rule with `options`.\n" +
		"- Conditions see the commands as `cmd.calls`: `cmd.static && size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] == \"git\" && c.options_admitted)`. Lint reports allow rules that leave options, redirections or further commands open (L21, L22), and those that read the line as text (L15).\n" +
		"\n")
}
