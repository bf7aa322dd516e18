// Package summary describes in one line what a call would do.
//
// [Line] uses the message of the deciding rule, else the tool's template, else what the
// tool's kind and the arguments show: the command line, the path, the URL, or the names and
// values of the arguments. It must be given a redacted call, and shows only what is in it.
// The line is plain text, not made safe for terminals.
package summary

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Bounds in characters.
const (
	maxLine  = 120
	maxValue = 40 // for one of several values
	maxFiles = 75 // for the files of a list of edits
)

// Tool is what a summary needs to know about a tool. The zero value is an unknown tool.
type Tool struct {
	Template *Template
	Kind     permission.Kind
	Schema   *permission.Schema
	Claims   permission.Claims // the annotations
}

// Risk returns warnings that follow from the tool's annotations and definition.
func Risk(t Tool, c *toolcall.Call) []string {
	var out []string
	if t.Claims.Destructive {
		out = append(out, "destructive")
	}
	if t.Claims.OpenWorld {
		out = append(out, "open world")
	}
	if c.Definition.Changed() {
		out = append(out, "definition changed")
	}
	return out
}

// Line summarizes a redacted call.
func Line(t Tool, c *toolcall.Call) string {
	if d := c.Decision; d != nil && d.Headline {
		first, _, _ := strings.Cut(strings.TrimSpace(d.Message), "\n")
		if text := joinLines(unescapeHidden(first)); text != "" {
			return shortenText(text, maxLine)
		}
	}
	args, ok := argumentsOf(c.Input)
	if !ok {
		return shortenText(joinLines(c.Tool+" "+shortenCommitments(c.Input)), maxLine)
	}
	text := ""
	if t.Template != nil {
		text = t.Template.fillIn(args)
	}
	if text == "" {
		text = describeCall(t, c.Tool, args)
	}
	return shortenText(joinLines(text), maxLine)
}

// arguments are the members of an input, in order.
type arguments []strictjson.Member

// argumentsOf splits an input into its arguments; ok is false if it is not an object.
func argumentsOf(input string) (args arguments, ok bool) {
	members, err := strictjson.Members([]byte(input))
	if err != nil {
		return nil, false
	}
	return members, true
}

func (a arguments) find(name string) []byte { return strictjson.Find(a, name) }

// firstText returns the first of the named arguments that is a non-empty string.
func (a arguments) firstText(names ...string) (name, text string) {
	for _, n := range names {
		if raw := a.find(n); strictjson.KindOf(raw) == "string" { // most names are absent, and errors cost more than a look
			if s, err := strictjson.Text(raw); err == nil && s != "" {
				return n, shortenCommitments(s)
			}
		}
	}
	return "", ""
}

// describeValue describes an argument in a few characters: strings as they are, short lists
// and objects with their contents, others by size. "" means no value.
func describeValue(raw []byte) string {
	switch kind := strictjson.KindOf(raw); kind {
	case "string":
		s, err := strictjson.Text(raw)
		if err != nil {
			return "?"
		}
		if s = shortenCommitments(s); s == redacted {
			return s
		}
		if s = shortenText(joinLines(s), maxValue); s == "" || strings.ContainsAny(s, " ,") {
			return `"` + s + `"`
		}
		return s
	case "array":
		return listValue(raw)
	case "object":
		return objectValue(raw)
	case "null", "":
		return ""
	default:
		return shortenText(string(raw), maxValue)
	}
}

// objectValue shows a short object of plain values, and the size of any other.
func objectValue(raw []byte) string {
	members, err := strictjson.Members(raw)
	if err != nil || len(members) > 3 {
		return sizeOnly(raw)
	}
	var parts []string
	for _, m := range members {
		if kind := strictjson.KindOf(m.Value); kind == "array" || kind == "object" {
			return sizeOnly(raw)
		}
		if text := describeValue(m.Value); text != "" {
			parts = append(parts, m.Name+" "+text)
		}
	}
	if text := "{" + strings.Join(parts, ", ") + "}"; len(parts) > 0 && utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	return sizeOnly(raw)
}

// listValue shows a short list of plain values, the files of a list of edits, and the size of any
// other.
func listValue(raw []byte) string {
	items, err := strictjson.Items(raw)
	if err != nil {
		return "?"
	}
	if files := filesOf(items); len(files) > 0 {
		return listFiles(files)
	}
	var parts []string
	for _, i := range items {
		if kind := strictjson.KindOf(i.Value); kind == "array" || kind == "object" || len(items) > 3 {
			return count(len(items), "item")
		}
		parts = append(parts, describeValue(i.Value))
	}
	if text := "[" + strings.Join(parts, ", ") + "]"; utf8.RuneCountInString(text) <= maxValue {
		return text
	}
	return count(len(items), "item")
}

// filesOf returns the files that the items of a list name, each once, or nil if one of them names
// none or several.
func filesOf(items []strictjson.Member) (files []string) {
	for _, i := range items {
		members, err := strictjson.Members(i.Value)
		file := ""
		for _, n := range pathNames {
			_, text := arguments(members).firstText(n)
			if text != "" && file != "" && text != file {
				return nil
			}
			file = cmp.Or(file, text)
		}
		if err != nil || file == "" {
			return nil
		}
		if file = joinLines(file); !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return files
}

// patchText names the files of an argument that is a patch; "" if it is none. Other arguments, such as
// the input of a command, only look like one.
func patchText(m strictjson.Member) string {
	if m.Name != "patch" && m.Name != "diff" {
		return ""
	}
	_, text := arguments{m}.firstText(m.Name)
	if files := patchedFiles(text); len(files) > 0 {
		return listFiles(files)
	}
	return ""
}

// patchMarks introduce a file in a patch; unless it changes, the word says what happens to it.
var patchMarks = []struct{ mark, word string }{
	{"*** Add File: ", "new "}, {"*** Update File: ", ""}, {"*** Delete File: ", "deleted "}, {"*** Move to: ", "to "},
	{"rename from ", ""}, {"rename to ", "to "}, {"copy from ", ""}, {"copy to ", "to "}, {"Index: ", ""},
}

// patchFiles collects the files that a patch names.
type patchFiles struct {
	files  []string
	at     map[string]int // their places in the list
	part   int            // where the files of the last "diff --git" line begin
	before string         // of the last "--- " line, until a later line answers it
}

// patchedFiles returns the files that a patch names, or nil if the text is no patch. It rather names
// too many: which of several names counts depends on the program that applies the patch.
func patchedFiles(text string) []string {
	p := patchFiles{at: map[string]int{}}
	isPatch := strings.HasPrefix(strings.TrimSpace(text), "*** Begin Patch\n")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		isPatch = isPatch || strings.HasPrefix(line, "@@") || strings.HasPrefix(line, "diff --git ")
		p.readLine(line)
	}
	if !isPatch {
		return nil
	}
	return p.files
}

func (p *patchFiles) readLine(line string) {
	if names, found := strings.CutPrefix(line, "diff --git "); found {
		p.part = len(p.files)
		p.addPair(splitNames(names))
		return
	}
	if name, found := strings.CutPrefix(line, "--- "); found {
		p.before = name
		return
	}
	if name, found := strings.CutPrefix(line, "+++ "); found {
		p.addPair(p.before, name)
		p.before = ""
		return
	}
	if strings.HasPrefix(line, "@@") && p.before != "" {
		p.addPair(p.before, p.before)
		p.before = ""
	}
	for _, m := range patchMarks {
		if name, found := strings.CutPrefix(line, m.mark); found {
			p.add(m.word, name)
		}
	}
}

// splitNames splits the names of a "diff --git" line, which have no quotes around spaces.
func splitNames(names string) (before, after string) {
	for i := range names {
		if names[i] == ' ' && strings.TrimPrefix(names[:i], "a/") == strings.TrimPrefix(names[i+1:], "b/") {
			return names[:i], names[i+1:]
		}
	}
	before, after, _ = strings.Cut(names, " b/")
	if after == "" {
		return names, names
	}
	return before, "b/" + after
}

// addPair adds the file that has these names before and after the patch, or both if they differ.
func (p *patchFiles) addPair(before, after string) {
	const none = "/dev/null"
	before, _, _ = strings.Cut(before, "\t") // a time follows
	after, _, _ = strings.Cut(after, "\t")
	old, isOld := strings.CutPrefix(before, "a/")
	now, isNew := strings.CutPrefix(after, "b/")
	if (isOld || before == none) && (isNew || after == none) {
		before, after = old, now
	}
	switch {
	case after == none:
		p.add("deleted ", before)
	case before == none:
		p.add("new ", after)
	default:
		p.add("", before)
		p.add("", after)
	}
}

// add adds a file once; a word says more about one that the last "diff --git" line named.
func (p *patchFiles) add(word, name string) {
	text := word + name
	if _, named := p.at[text]; named || name == "" {
		return
	}
	at, named := p.at[name]
	if named && at >= p.part && p.files[at] == name {
		p.files[at] = text
	} else {
		at = len(p.files)
		p.files = append(p.files, text)
	}
	p.at[text] = at
}

// listFiles names as many files as the line has room for, and counts the others.
func listFiles(files []string) string {
	text := files[0]
	for n, f := range files[1:] {
		if utf8.RuneCountInString(text)+utf8.RuneCountInString(f) > maxFiles {
			return text + " and " + count(len(files)-n-1, "more file")
		}
		text += ", " + f
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// redacted stands for values that rules hide.
const redacted = "[redacted]"

// shortenCommitments replaces each commitment, which stands for a hidden value, with a short mark.
func shortenCommitments(s string) string {
	const mark = "[redacted hmac-sha256:"
	for at := strings.Index(s, mark); at >= 0; at = strings.Index(s, mark) {
		end := strings.IndexByte(s[at:], ']')
		if end < 0 {
			break
		}
		s = s[:at] + redacted + s[at+end+1:]
	}
	return s
}

// joinLines puts a text on one line: a line break becomes an arrow, a run of spaces one space.
func joinLines(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	gap, broken := false, false
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		switch r {
		case ' ', '\t':
			gap = true
			continue
		case '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
			gap, broken = true, true
			continue
		}
		switch first := b.Len() == 0; {
		case broken && !first:
			b.WriteString(" ↵ ")
		case gap && !first:
			b.WriteByte(' ')
		}
		gap, broken = false, false
		b.WriteRune(r)
	}
	return b.String()
}

// escaped is how the policy writes a hidden character in a message.
var escaped = regexp.MustCompile(`\\u\{[0-9a-f]{1,6}\}`)

// unescapeHidden returns the hidden characters of a message, so that people see the same mark for one in
// a summary and in the arguments.
func unescapeHidden(s string) string {
	return escaped.ReplaceAllStringFunc(s, func(mark string) string {
		n, err := strconv.ParseInt(mark[len(`\u{`):len(mark)-1], 16, 32)
		if r := rune(n); err == nil && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return string(r)
		}
		return mark
	})
}

// shortenText cuts a text to at most that many characters, including the ellipsis.
func shortenText(s string, most int) string {
	if len(s) <= most || utf8.RuneCountInString(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n++; n == most {
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}
