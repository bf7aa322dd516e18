package reference

import (
	"fmt"
	"strings"
)

// optionWords are the words of options.txt and of the key `options`.
var optionWords = []struct{ word, admits string }{
	{"`--fix`, `-q`, `+short`", "this option; one-letter options can be combined: `-qv`"},
	{"`--ext=`, `-n=`", "this option with a value, in the same word or the next"},
	{"`--write=false`", "this option with that value in the same word"},
	{"`--color=?`", "this option, alone or with a value in the same word"},
	{"`--format=json\\|text`, `--config=<local>`", "one of these values, or a value of that class"},
	{"`-n=,--namespace=,-A`", "at most one of these options, once"},
	{"`!--force`", "this option where the rule itself writes it, and nowhere else"},
	{"`-#`", "`-5` and other numbers"},
	{"`onedash`", "options are whole words after one dash or two: `-run`, `--run`"},
	{"`<local>`", "an operand of that class; the next word in `<>` is the next operand; `...` at the end repeats the last one any number of times"},
	{"`--`", "the words after it apply to what follows `--` in the command"},
}

// toolKinds describes what rules can say about shell tools, Windows tools and tools that runtimes declare.
func toolKinds(b *strings.Builder) {
	b.WriteString("## Options of commands\n" +
		"\n" +
		"A rule for a shell tool without `:*` and `*` covers exactly that command or line. A rule with `:*` or `*` covers a command that begins with its words if [options.txt](shell/options.txt) lists all other options and operands for that program and sub-command. Everything else needs approval, and so does a program that is not in the list.\n" +
		"\n" +
		"The key `options` extends the list for one allow rule: `{name: lint, tool: Bash, rule_content: \"mylint:*\", options: \"--fix --ext= --format=json|text <local>...\", behavior: allow}` covers `mylint --fix --ext .ts src`.\n" +
		"\n" +
		"| Word | Admits |\n" +
		"|---|---|\n")
	for _, w := range optionWords {
		fmt.Fprintf(b, "| %s | %s |\n", w.word, w.admits)
	}
	b.WriteString("\n" +
		"Classes: `any`; `local`, a path in the working folder or a name; `source`, a `local` word that go and kustomize do not take for an address or a module: without `@` and `:`, and without a dot in its first segment, unless it begins with `./` or is a `.go` file; `package`; `word`; `name`; `script`; `formula` of brew; `image`; `target`; `host`; `url`, http or https; `remote` of git, which is `origin`, `upstream` or an address; `ref` of git; `unit`; `header`; `file`; `format`; `printf`; `dig`. An option that the rule writes cannot be given again with another value or as `--no-…`. `trust_options: true` admits every option of the program: use it only if no option can run a program, write a file or read a configuration.\n" +
		"\n" +
		"## Windows\n" +
		"\n" +
		"askance does not analyse the command lines of PowerShell and `cmd.exe`. Declare such a tool with `kind: powershell` or `kind: cmd`: no `rule_content` covers a line, no line counts as read-only, and `read_only: true` is an error. Only a rule for the whole tool or a rule with `when` can allow a call.\n" +
		"\n" +
		"`home` says which system a tool with a `kind` runs on: `/home/dev` means a POSIX system, `C:\\Users\\dev` or `/c/Users/dev` means Windows. Tools on the engine's own machine have the engine's home. Without `home` the system is unknown and counts as Windows:\n" +
		"\n" +
		"- Deny and ask rules apply to every spelling of a path: different case, `\\`, drives, `..`, `\\\\?\\`, streams (`.env::$DATA`), dots and spaces at the end of a name. Drives are ignored: a rule for `C:\\data\\**` also denies `D:\\data\\k`. If the text does not determine the file (`PROGRA~1`, `\\\\host\\share`, `C:k`, `NUL`), the rule counts as one that cannot be evaluated.\n" +
		"- No allow rule with `rule_content` covers a path with a drive or a backslash. Such a path is in no working directory, and reading it needs approval. Relative paths with `/` work as on other systems.\n" +
		"\n" +
		"Conditions do not know the tool's system. `path.within`, `path.match`, `path.base` and `path.ext` are errors if the two systems give different results, so neither an allow nor a deny rule relies on the wrong one. Do not compare the text of a path with `==`: use `path.match`.\n" +
		"\n" +
		"## Tools that runtimes declare\n" +
		"\n" +
		"A runtime can declare its own tools with a proposal (`tools`: name, description, `input_schema`, annotations). A tool in the tools file keeps the definition from that file. For any other tool askance trusts the runtime this far:\n" +
		"\n" +
		"- The schema is applied: arguments that do not fit are refused.\n" +
		"- `read_only` and `idempotent` are claims. They allow nothing by themselves. A rule that trusts them says so: `when: caller.user == \"ide\" && tool.claims.read_only`.\n" +
		"- `destructive` and `open_world` can only make rules stricter, so rules also see them as `tool.annotations`.\n" +
		"- Only the tools file can set a kind.\n" +
		"- `tool.hash` is the SHA-256 of the definition. `tool.changed` says that the session began with another definition. A changed tool is a new tool for standing approvals and remembered rules, and people see that it changed. Rules match by name. To stop changed tools, write `behavior: ask` (or `deny`), `tool: frontend/NAME`, `when: tool.changed`.\n" +
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
		"- `audit: {level: full}` records the explanation of each decision, without redacted values; `askance show CALL --explain` prints it. An explanation that is too large is shortened and marked.\n" +
		"- `recheck: true` in an ask or allow rule evaluates `when` again when the last approver agrees and when the call starts. If it is then false or fails, or the rule is gone, the call is denied and the result names the rule. After an attempt that may have had an effect, the call is blocked instead.\n" +
		"\n" +
		"## Common errors\n" +
		"\n" +
		"| Error | What to do |\n" +
		"|---|---|\n" +
		"| `undefined field …` | `askance policy vars TOOL` lists the fields |\n" +
		"| `message: Syntax error …` | a message is an expression: give the text its own quotes, `\"'Deploy now?'\"` |\n" +
		"| `found no matching overload for '_>_' applied to '(int, string)'` | compare a number with a number |\n" +
		"| `it is never null` | in CEL a missing field is not null: write `!has(args.x)` |\n" +
		"| `comparing it with 7 has one result` (L12) | weekdays are 0 (Sunday) to 6, months 0 to 11, `getDate()` 1 to 31 |\n" +
		"| `is not enforced yet` | the program that reads the file does not enforce this key; `askance serve` enforces all |\n" +
		"| `may cost … units` | declare `maxItems`, `maxLength` and `maxProperties` in the schema, or lower them |\n" +
		"| `never decides` (L06) | another rule wins, or the tool is `read_only`: narrow the other rule, or deny the unwanted calls |\n" +
		"| `note … passes, but …` | the test's call is invalid, or it expects nothing |\n" +
		"| `no matcher can interpret the content` | `rule_content` needs a tool with a `kind`: use `when`, or declare the kind |\n" +
		"\n")
	b.WriteString("## Budgets\n" +
		"\n" +
		"- When the budget is used up, the rule does not apply: other rules and the mode decide. The request and `askance show CALL --explain` say what is spent and when there is room again.\n" +
		"- The limits apply to any period of length `every`, not from midnight to midnight. Spending expires up to a sixteenth of the period late; without `every` it never does.\n" +
		"- `sum` adds one argument exactly, with at most 9 decimal places. The rule does not allow a call whose argument is negative, a text, written with an exponent, or missing.\n" +
		"- A call counts when the rule allows it, even if it does not run. Calls that people approve or other rules allow do not count. Rules without a budget are tried before rules with one.\n" +
		"- `per` lists `session`, `agent` (of a requester), `requester` and `tool`. Runtimes choose sessions and agent names: for a limit that a runtime must not evade, use `requester` or leave `per` out.\n" +
		"- A changed limit or period counts what was spent before. A rule with another name, or with the sum of another argument, starts a new budget.\n" +
		"- All engines of a space share budgets. If a budget cannot be read or written, the rule does not allow the call. Tests, `explain`, `replay`, previews and shadow policies take nothing.\n" +
		"\n" +
		"## Rules about files\n" +
		"\n" +
		"- A rule with content for a tool of kind `read` protects the files from all kinds that can show them: `bash`, `edit`, `glob` and `grep`, but not `write`. With `when` it applies only to its own tool.\n" +
		"- `*` is any text, including `/`. Content that does not begin with `/`, `~/` or `../` applies to the working directories. `~` needs the `home` of every tool that the rule applies to; a local tool has the engine's.\n" +
		"- A search that may find such a file, and a command that may read one (`grep -r x .`, `git diff`, `git clone .`, `curl … | sh`, `cat $FILE`, `cat se*/token`), needs approval.\n" +
		"- Programs started by a command, such as `./report.sh` or `make`, can read files that the command does not name. Rules cannot see that. Run the tool as a user that cannot read the files.\n" +
		"- `askance policy lint` and `askance serve` name the tools that such a rule does not see because they have no kind.\n" +
		"\n" +
		"## Rules about commands\n" +
		"\n" +
		"- Allow rules allow a line only if they cover every command in it. Commands that change nothing need no rule: `npm test:*` covers `npm test | tail -5`.\n" +
		"- A deny or ask rule matches every command, even after `env`, `sudo` and `sh -c`, and in other spellings: `git push --force:*` matches `-f`, `--forc`, `+main` and `--force-with-lease`. A rule for `git push origin main` asks about `git push`, `git push --all` and `git push origin HEAD`, which may push main.\n" +
		"- No allow rule covers a line that the parser cannot read to the end, not even a rule for all of Bash. Deny rules match what was read.\n" +
		"- A rule that names a relative file (`rm ./tmp/*`) refers to the working folder. After `cd` in the same line it covers nothing.\n" +
		"- Programs that run what they read (`bash`, `python3`, `psql`, `sqlite3`, `ssh`, `docker exec`) need approval after a pipe, even if a rule is the exact command.\n" +
		"- A rule can be a whole line: `npm test && make lint`, `CI=1 npm test`.\n" +
		"- Allow rules of a policy file cover `if`, `for`, `while`, `case`, `( )` and `{ }` if they cover every command inside, and a message written as `-m \"$(cat <<'EOF' …)\"` whose text has no quotes, backquotes, `$` or `\\`. `rule_content: \"*\"` also covers substitutions such as `X=$(date)` if every program is known before the line runs. A rule without content, an imported rule or a standing approval covers none of these, as in AgentScope.\n" +
		"- `git commit:*` covers the options that askance lists for `git commit`; others need approval. A program that askance does not list is covered only by the exact command, or by a rule with `options`.\n" +
		"- `git push:*` covers the remotes `origin` and `upstream`, and addresses. Write another remote in the rule (`git push fork:*`): git also takes a word for a folder and would run its hooks. The same applies to `-f`, `--force-with-lease` and `+main`.\n" +
		"- Conditions see the commands as `cmd.calls`: `cmd.static && size(cmd.calls) > 0 && cmd.calls.all(c, c.argv[0] == \"git\" && c.options_admitted)`. Lint reports allow rules that do not restrict options, redirections or further commands (L21, L22), and those that read the line as text (L15).\n" +
		"\n")
}
