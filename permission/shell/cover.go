package shell

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Coverage is the result of checking one line against the allow rules in force, command
// by command.
type Coverage struct {
	// Covered is set if a rule is the whole line, or the line is static and its commands are covered.
	Covered bool
	// Reasons are the reasons that concern the whole line.
	Reasons []Reason
	// Commands has one entry for each of the line's commands.
	Commands []CommandCoverage
}

// CommandCoverage says whether one command is covered, and why.
type CommandCoverage struct {
	Command Command
	Covered bool
	// By is the index of the first pattern that covers the command, or else of the
	// first that names it, or -1. A command that is proved to change nothing needs no
	// pattern.
	By int
	// Why says why the command is not covered.
	Why Reason
}

// Cover decides whether allow rules with these contents together cover the line. They do if a
// literal is the whole line. Otherwise everything the line runs must be known before it runs,
// a pattern must cover at least one of its simple commands, and the other commands must be
// covered or proved to change nothing. A literal covers the command that it states. Any other
// pattern covers commands that begin with the words of the pattern (a wildcard must match the
// whole command), if the option table lists all their options.
func (l *Line) Cover(allow []*Pattern) Coverage {
	c := Coverage{Reasons: l.Reasons, Commands: make([]CommandCoverage, len(l.Commands))}
	if whole := slices.IndexFunc(allow, func(p *Pattern) bool { return p.isWholeLine(l) }); whole >= 0 {
		for i := range l.Commands {
			c.Commands[i] = CommandCoverage{Command: l.Commands[i], Covered: true, By: whole}
		}
		c.Reasons, c.Covered = nil, true
		return c
	}
	all, named := l.Static(), false
	for i := range l.Commands {
		one := coverOne(&l.Commands[i], allow)
		c.Commands[i], all, named = one, all && one.Covered, named || one.Covered && one.By >= 0
	}
	c.Covered = all && named
	return c
}

// Covers reports whether Cover finds the line covered.
func (l *Line) Covers(allow []*Pattern) bool {
	if slices.ContainsFunc(allow, func(p *Pattern) bool { return p.isWholeLine(l) }) {
		return true
	}
	named := false
	return l.Static() && !slices.ContainsFunc(l.Commands, func(c Command) bool {
		one := coverOne(&c, allow)
		named = named || one.Covered && one.By >= 0
		return !one.Covered
	}) && named
}

// Offer returns the content of the narrowest allow rule that covers the line, or "":
// its only command that is not proved to change nothing, or the whole line.
func (l *Line) Offer() string {
	texts := []string{strings.TrimSpace(l.Text)}
	var changing []string
	for i := range l.Commands {
		if c := &l.Commands[i]; len(c.Argv) > 0 && !c.readOnly() {
			changing = append(changing, c.String())
		}
	}
	if len(changing) == 1 && len(l.Commands) > 1 && strings.Contains(l.Text, changing[0]) {
		texts = append(changing, texts...)
	}
	for _, text := range texts {
		content := strings.NewReplacer(`\`, `\\`, `*`, `\*`).Replace(text)
		if p, err := Compile(content); err == nil && l.Covers([]*Pattern{p}) {
			return content
		}
	}
	return ""
}

func coverOne(c *Command, allow []*Pattern) CommandCoverage {
	out := CommandCoverage{Command: *c, By: -1, Why: Reason{Code: CodeNoRule, Offset: c.Offset, Detail: "no allow rule names " + clipText(c.String())}}
	for i, p := range allow {
		if !p.namesProgram(c) {
			continue
		}
		why, ok := p.permitsCommand(c)
		if ok {
			return CommandCoverage{Command: *c, Covered: true, By: i}
		}
		if out.By < 0 {
			out.By, out.Why = i, why
		}
	}
	if name, ok := c.program(); ok && !changesFolder[name] && c.readOnly() {
		return CommandCoverage{Command: *c, Covered: true, By: -1}
	}
	return out
}

func (p *Pattern) permitsCommand(c *Command) (Reason, bool) {
	because := func(code Code, format string, args ...any) (Reason, bool) {
		return Reason{Code: code, Offset: c.Offset, Detail: fmt.Sprintf(format, args...)}, false
	}
	name := base(c.Argv[0].Text)
	if c.piped && runsInput(name, c.Argv) {
		return because(CodeOption, "%s runs what the command before it writes", name)
	}
	if word := p.findRelative(c); c.moved && word != "" {
		return because(CodeFolder, "the rule speaks of %s in the working folder, and the command runs in another", clipText(word))
	}
	if p.kind == literal {
		if extra := c.Argv[len(p.words()):]; len(extra) > 0 && !p.plansOnly(c) {
			return because(CodeOption, "the rule has no %s; it covers exactly what it says", clipText(extra[0].Text))
		}
		return Reason{}, true
	}
	if word := p.findJoinedOption(c, name); word != "" {
		return because(CodeOption, "%s makes one text of its arguments for another shell, in which %s is not a plain word", name, clipText(word))
	}
	if p.trust {
		return Reason{}, true
	}
	r := p.review(c)
	why, known := r.refuse()
	switch {
	case !known:
		return because(CodeNoTable, "%s; a rule covers it only as the whole command, with options, or with trust_options", why)
	case why != "":
		return because(CodeOption, "%s", why)
	}
	return Reason{}, true
}

// review returns what is left to check in a command that the pattern names.
func (p *Pattern) review(c *Command) review {
	r := review{argv: c.Argv, first: len(p.tokens), last: len(c.Argv), added: p.added}
	if p.kind == wildcard {
		r.last = max(len(c.Argv)-p.trailing, 0)
		r.bare = r.first == 0 && p.text[0] == '*' && strings.Trim(p.text, "* ") != ""
		if n := len(p.files); n > 0 {
			r.written = strings.Fields(p.text)
		} else if p.completes != nil {
			r.starred, r.like = len(strings.Fields(p.text))-1, p.completes.matchesWord
		}
	}
	return r
}

// plansOnly reports whether the words after a literal are options of a command that
// only shows what another command would do.
func (p *Pattern) plansOnly(c *Command) bool {
	r := review{argv: c.Argv, first: len(p.words()), last: len(c.Argv)}
	why, known := r.refuse()
	return known && why == "" && r.entry.plans && !slices.ContainsFunc(c.Argv[r.first:], func(w Word) bool { return !isCluster(w.Text) })
}

// joins are programs that join their arguments into one text for a shell, with the
// characters that are special in it. Older versions of npm and similar programs put the
// arguments in double quotes.
var joins = map[string]string{
	"npm": "$`\\", "pnpm": "$`\\", "yarn": "$`\\",
	"ssh": operators, "autossh": operators, "mosh": operators, "pdsh": operators, "clush": operators, "adb": operators,
	"watch": operators, "parallel": operators, "rsync": "$`;&|<>()\n",
}

const operators = ";&|<>()$`\\\"'\n*?[]{}~!#"

// findJoinedOption returns an argument that the program would pass to a shell as more
// than a word.
func (p *Pattern) findJoinedOption(c *Command, name string) string {
	special, ok := joins[name]
	if !ok || p.trust {
		return ""
	}
	for _, w := range c.Argv[1:] {
		if strings.ContainsAny(w.Text, special) {
			return w.Text
		}
	}
	return ""
}

// runsInput reports whether a program may run what it reads, here or on another
// machine. awk is exempt, because its program is always in its arguments.
func runsInput(name string, argv []Word) bool {
	name = programName(name)
	return name != "awk" && (isWrapper(name) || shells[name] || interpreters[name] || schedules[name] || statements[name] ||
		readsCommands[name] || runsOnOther(name, argv) || readsCode(name, argv[1:]))
}

// A star in a wildcard matches any text, including blanks: "rm /tmp/*" also matches the
// text of rm /tmp/x /etc and of rm /tmp/../etc. Authors of allow rules about files do
// not mean that, so the words of the pattern are also compared with those of the
// command.

type fileWord struct {
	kind   fileWordKind
	expr   *regexp.Regexp
	folder string // the folder before the first star
	// references is set if a colon in the word leads elsewhere and the pattern has none.
	references bool
	dashes     bool // the pattern itself begins with a dash
}

type fileWordKind uint8

const (
	oneWord  fileWordKind = iota // exactly one word
	anyWords                     // "*": any number of words
	longWord                     // "run*" at the end: one word, and all words after it
	fileName                     // "/tmp/*", "*.log", "https://host/*": files
)

// fileWords are the words of a wildcard that names files; nil for other wildcards.
type fileWords []fileWord

func readFileWords(pattern string) (words fileWords, names bool, err error) {
	all := strings.Fields(pattern)
	for i, text := range all {
		star := starPlaces(text)
		w := fileWord{dashes: text[0] == '-', references: takesReferences[all[0]] && !strings.Contains(text, ":")}
		switch {
		case strings.Trim(text, "*") == "":
			w.kind = anyWords
		case len(star) > 0 && (strings.Contains(text, "/") || star[0] == 0 || i == len(all)-1 && star[len(star)-1] < len(text)-1):
			w.kind, names = fileName, true
			w.folder = text[:strings.LastIndexByte(text[:star[0]], '/')+1]
		case len(star) > 0 && i < len(all)-1: // "web*" of ssh web* uptime
			names = true
		case len(star) > 0:
			w.kind = longWord
		}
		if w.expr, err = regexp.Compile("^(?s:" + wordExpression(text, i > 0 && takesURLs[all[0]]) + ")$"); err != nil {
			return nil, false, err
		}
		words = append(words, w)
	}
	return words, names, nil
}

func starPlaces(word string) []int {
	var at []int
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == '*':
			at = append(at, i)
		case word[i] == '\\' && i+1 < len(word) && (word[i+1] == '*' || word[i+1] == '\\'):
			i++
		}
	}
	return at
}

// inHost matches the text within a host name.
const inHost = `[^/?#@\\%\s]*`

// takesURLs are programs whose words are URLs, with or without a scheme.
// takesReferences are programs that read feature/x:main as main, and a@npm:b as b.
var takesURLs, takesReferences = setOf("curl wget http https xh aria2c"), setOf("git npm pnpm yarn")

// wordExpression returns the regular expression for one word. A star in the host of a
// URL matches only within the host; at its end it matches a port and a path.
func wordExpression(word string, url bool) string {
	var b strings.Builder
	for i, host := 0, hostEnd(word, url); i < len(word); i++ {
		switch c := word[i]; {
		case c == '*' && i < host:
			b.WriteString(hostStar(word, i))
			continue
		case c == '*':
			b.WriteString(".*")
			continue
		case c == '\\' && i+1 < len(word) && (word[i+1] == '*' || word[i+1] == '\\'):
			i++
		}
		b.WriteString(regexp.QuoteMeta(word[i : i+1]))
	}
	return b.String()
}

// hostEnd returns where the host of a URL ends in a pattern; 0 if the pattern names none.
func hostEnd(word string, url bool) int {
	begin := 0
	if i := strings.Index(word, "://"); i >= 0 {
		begin = i + 3
	} else if !url || word[0] == '-' {
		return 0
	}
	if begin == len(word) || word[begin:] == "*" {
		return 0 // any host at all
	}
	if slash := strings.IndexByte(word[begin:], '/'); slash >= 0 {
		return begin + slash
	}
	return len(word)
}

// hostStar returns what a star in a host matches: at the end also a port and a path, at
// the beginning also the scheme.
func hostStar(word string, i int) string {
	switch {
	case i == len(word)-1 && strings.HasSuffix(word[:i], ":"):
		return `[0-9]{1,5}(?:[/?#].*)?`
	case i == len(word)-1:
		return `(?::[0-9]{1,5})?(?:[/?#].*)?`
	case i == 0:
		return `(?:https?://)?` + inHost
	}
	return inHost
}

// maxFileWords bounds the number of words of the pattern times that of the command.
const maxFileWords = 1 << 14

func (f fileWords) coverWords(argv []Word) bool {
	if len(f) == 0 {
		return true
	}
	if len(f)*len(argv) > maxFileWords {
		return false
	}
	// ends[i] says whether the pattern's words so far can match the first i words of
	// the command.
	ends := make([]bool, len(argv)+1)
	ends[0] = true
	for _, w := range f {
		ends = w.extend(ends, argv)
	}
	return ends[len(argv)]
}

func (w fileWord) extend(ends []bool, argv []Word) []bool {
	next := make([]bool, len(ends))
	open := false // the word of the pattern may match more words
	for i := range ends {
		switch {
		case w.kind == anyWords:
			open = open || ends[i]
			next[i] = open
			continue
		case i == 0:
			continue
		case ends[i-1] && w.matchesWord(argv[i-1]):
			open = true
		case open && w.kind == longWord:
		case open && w.kind == fileName && w.matchesWord(argv[i-1]):
		default:
			open = false
		}
		next[i] = open && (w.kind != oneWord || ends[i-1])
	}
	return next
}

// matchesWord reports whether a word of the pattern means this word of the command:
// that file, or a file below that folder.
func (w fileWord) matchesWord(arg Word) bool {
	if !w.expr.MatchString(arg.Text) {
		return false
	}
	arg.Text = strings.TrimPrefix(arg.Text, w.folder)
	return w.kind != fileName || !leavesFolder(arg) && !(w.references && strings.Contains(arg.Text, ":")) && (w.dashes || !leadingDash(arg.Text))
}

func leavesFolder(arg Word) bool {
	text := strings.ReplaceAll(strings.ToLower(arg.Text), "%2e", ".")
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool { return r == '/' || r == '\\' }), func(segment string) bool {
		return segment == ".." || !arg.Fixed && strings.HasPrefix(segment, ".") && segment != "." // .* is also ..
	})
}
