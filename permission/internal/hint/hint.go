// Package hint guesses what the author of a policy meant by something that a
// rule file or an expression cannot have, and says what to write.
//
// Each table is tried from top to bottom; the first line that fits gives the
// hint. A hint is never part of a decision.
package hint

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// DidYouMean is the hint that names one candidate; "" for none.
func DidYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "did you mean " + name + "?"
}

// Nearest returns the candidate that looks like a misspelling of name, or "".
func Nearest(name string, candidates []string) string {
	best, bestDist := "", 2
	if len(name) > 3 {
		bestDist = max(2, len(name)/3) + 1
	}
	for _, c := range candidates {
		d := Distance(strings.ToLower(name), strings.ToLower(c))
		if len(name) > 3 && strings.HasPrefix(c, name) {
			d = 1 // cut short
		}
		if d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// Distance counts the letters to insert, delete and replace, and the pairs of
// neighbours to exchange, over bytes; the names it sees are short.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return max(len(a), len(b))
	}
	above, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		above, last, row = last, row, above
		row[0] = i + 1
		for j := range b {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			row[j+1] = min(cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], above[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// List joins names, but at most twelve of them.
func List(names []string) string {
	if len(names) > 12 {
		return strings.Join(names[:12], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// line is one line of a table: a pattern, and the hint for what fits it. $1 in
// the hint is the first group of the pattern.
type line struct{ pattern, hint string }

var compiled sync.Map // pattern → *regexp.Regexp

func find(table []line, text string) string {
	for _, l := range table {
		re, ok := compiled.Load(l.pattern)
		if !ok {
			re, _ = compiled.LoadOrStore(l.pattern, regexp.MustCompile("(?s)"+l.pattern))
		}
		pattern := re.(*regexp.Regexp)
		if at := pattern.FindStringSubmatchIndex(text); at != nil {
			return string(pattern.ExpandString(nil, l.hint, text, at))
		}
	}
	return ""
}

// words are lines of the form "meaning <- word word …".
type words string

func (w words) find(word string) string {
	for l := range strings.Lines(string(w)) {
		if meaning, list, ok := strings.Cut(l, " <- "); ok && slices.Contains(strings.Fields(list), word) {
			return meaning
		}
	}
	return ""
}

// keys are keys of other policy languages.
const keys words = `
behavior <- action effect decision verdict permission type
when <- condition conditions if where expr expression cel
message <- text prompt question reason
description <- comment note
expiry <- timeout ttl expires deadline
approvers <- reviewers who
name <- id
rule_content <- pattern content command specifier
quorum <- approvals min_approvals
expect <- expected result
args <- arguments params
rules <- policies permissions
vocabulary <- vars variables terms
roles <- role
users <- people
groups <- teams
max_uses <- uses
now <- time
tests <- cases
`

// remarks are about keys that no key of ours stands for.
const remarks words = `
rules have no order: deny wins over ask, ask over allow <- priority order
write behavior: allow <- allow
write behavior: ask <- ask
write behavior: deny <- deny
write when with a negation: !(…) <- unless
write it before the name of the file: managed=FILE <- layer
tools are declared in a file of their own, which is named with --tools <- tools
remove the rule, or write enforcement: audit <- enabled disabled
it is a key of the file: the names of rules to remove <- disable
write when: args.x == … <- args
a call that no rule is about asks <- default
`

// values are words of other policy languages for values.
const values words = `
deny <- block reject refuse forbid disallow denied never no
ask <- approve confirm review prompt escalate require_approval
allow <- allowed always yes permit accept pass grant
explore <- plan readonly read_only
bypass <- yolo bypasspermissions
accept_edits <- acceptedits
dont_ask <- dontask
audit <- dry_run log observe
warn <- monitor
`

// shapes show values that have keys, by the last part of their path.
const shapes words = `
write {users: [ann], groups: [finance]} <- approvers
write {groups: [managers]} <- to
write {behavior: ask} <- expect
write {tool: NAME, args: {…}} <- call
write {scope: [args.id], ttl: 1h} <- remember
write {user: ann, roles: [sales]} <- caller
write {subject: exec.payments} <- executor
write {level: full} <- audit
write a name and its expression: weekend: ctx.now.getDayOfWeek() == 0 <- vocabulary
write {expiry: 4h} <- defaults
`

// texts has what a node is and its field, where the value should be a text.
var texts = []line{
	{`^an anchor`, "write the value out; put a text that begins with & or * in quotes"},
	{`^empty `, "leave the key out, or write a value after it"},
	{`^a list (when|message)$`, "it is one expression: join conditions with && or ||"},
	{`^a list vocabulary\.`, `it is an expression: put the list in quotes, '["ann", "bob"]'`},
	{`^a list `, "write one text"},
	{`^true or false when$`, "leave when out to mean every call"},
	{`^a mapping `, "put the whole text in quotes, or in a block after |"},
	{``, "put it in quotes"},
}

// lines has the message of the YAML parser, the line and, after ¦, its value.
var lines = []line{
	{"^[^\n]*\n[^¦]*\t", "indent with spaces, and write a space after a colon: YAML does not accept tabs there"},
	{"^[^\n]*\n[^¦]*[\u00a0\u2007\u202f\u3000]", "the line has a blank that YAML does not know, as web pages and word processors write it: type a space"},
	{`^could not find end character`, "a quote is opened and never closed"},
	{`^found unknown escape`, `YAML reads \ in double quotes: write \\, or put the whole in single quotes`},
	{`¦\*`, `put it in quotes: "*"`},
	{`¦.*: `, "a text with a colon and a space in it must be in quotes, or in a block after |"},
	{`¦["']`, "a text that begins with a quote ends at the next one: put the whole in quotes of the other kind, or in a block after |"},
	{"¦[%@`]", "a text cannot begin with this sign: put it in quotes"},
	{`^non-map value`, "a key has a colon and a space after it, as in behavior: ask; indent a line that continues a text further than its key"},
	{`^[^\n]*(not allowed in this context|unexpected)`, "keys that belong together begin in the same column"},
}

// tools are names that no tool can have.
var tools = []line{
	{`^([A-Za-z_][A-Za-z0-9_.-]*)\((.*)\)$`, `write tool: $1, and rule_content: "$2", or a condition; askance policy import reads lists of these`},
	{`^(.*,.*)$`, "a list is written in [ ]: [$1]"},
	{`^(all|any|every)$`, `any tool is "*"`},
}

// Tool is for a name that no tool can have, already fit to be shown.
func Tool(name string) string { return find(tools, name) }

// Text is for a value that should be a text; node says what it is.
func Text(node, field string) string { return find(texts, node+" "+field) }

// Line is for a line that the YAML parser cannot read.
func Line(message, text string) string {
	_, value, _ := strings.Cut(text, ":")
	return find(lines, strings.ReplaceAll(message, "\n", " ")+"\n"+text+"¦"+strings.TrimSpace(value))
}

// Bool is for a text that should be true or false: YAML 1.1 has more words.
func Bool(text string) string {
	return words("write true, without quotes <- yes on y true\nwrite false, without quotes <- no off n false").find(strings.ToLower(text))
}

// Word is for a value that is none of the words.
func Word(word string, known []string) string {
	if other := values.find(strings.ToLower(word)); slices.Contains(known, other) {
		return DidYouMean(other)
	}
	return DidYouMean(Nearest(word, known))
}

// Shape shows how a value that should have keys is written.
func Shape(field string) string {
	if field == "" {
		return "a rule file has the keys version, name and rules"
	}
	return shapes.find(field[strings.LastIndexByte(field, '.')+1:])
}

// Key is for an unknown key. in is the path of the mapping, known are the keys
// that it can have, and paths those of all keys of rule files.
func Key(name, in string, known, paths []string) string {
	other := keys.find(strings.ToLower(name))
	if !slices.Contains(known, other) {
		other = ""
	}
	near := Nearest(name, known)
	if in != "" {
		other, near = cmp.Or(other, near), other
	} else {
		other, near = cmp.Or(near, other), ""
	}
	if hint := DidYouMean(cmp.Or(other, near)); hint != "" {
		return hint
	}
	if where := keyElsewhere(name, in, paths); where != "" {
		return where
	}
	if remark := remarks.find(name); remark != "" && (slices.Contains(known, "behavior") || slices.Contains(known, "rules")) {
		return remark
	}
	if len(known) > 12 {
		return ""
	}
	return "the keys here are " + List(known)
}

var elementNumber = regexp.MustCompile(`\[\d+\]`)

// keyElsewhere says where a misplaced key belongs: below another one, or in the
// rule.
func keyElsewhere(name, in string, paths []string) string {
	in = elementNumber.ReplaceAllString(in, "[]")
	outer := ""
	for _, path := range paths {
		below, isBelow := path, in == ""
		if in != "" {
			below, isBelow = strings.CutPrefix(path, in+".")
		}
		if isBelow && strings.HasSuffix(below, "."+name) && !strings.HasPrefix(below, "[]") {
			return "it belongs below: " + below
		}
		if path == "rules[]."+name && in != "rules[]" && strings.HasPrefix(in, "rules[]") && name != "name" && name != "description" {
			outer = "it is a key of the rule, further left"
		}
	}
	return outer
}
