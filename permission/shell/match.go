package shell

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Matches reports whether a deny or ask rule with this content is about the line: about
// its text as AgentScope matches it, or about any command in it, in any place and
// behind any program that runs it. The order of options, options before a sub-command
// and the folder of the program make no difference.
//
// An error, always an [ErrUnclear], says that the line may run what the rule is about,
// for instance with $X or with a text that a pipe feeds into sh. Count it as a match at
// least where the alternative is to allow.
func (p *Pattern) Matches(l *Line) (bool, error) {
	if p.matchesRaw(l.Text) {
		return true, nil
	}
	var unclear *Command
	for _, list := range [][]Command{l.Commands, l.Nested, l.moved} {
		for i := range list {
			switch p.matchCommand(&list[i]) {
			case yes:
				return true, nil
			case maybe:
				if unclear == nil {
					unclear = &list[i]
				}
			}
		}
	}
	found := p.matchAmong(l.crude)
	if found == yes {
		return true, nil
	}
	if unclear != nil {
		return false, fmt.Errorf("%w: %q at byte %d may be %q", ErrUnclear, clipText(unclear.String()), unclear.Offset, p.content)
	}
	if found == maybe {
		return false, fmt.Errorf("%w: it has too many words that may begin %q", ErrUnclear, p.content)
	}
	if len(l.unclear) > 0 {
		return false, fmt.Errorf("%w: at byte %d: %s", ErrUnclear, l.unclear[0].Offset, l.unclear[0].Detail)
	}
	return false, nil
}

// matchesRaw matches the whole text as AgentScope does.
func (p *Pattern) matchesRaw(text string) bool {
	switch p.kind {
	case prefix:
		return hasPrefixWord(text, p.text)
	case literal:
		return strings.Contains(text, p.text)
	}
	return p.glob.matchesText(text)
}

func hasPrefixWord(text, prefix string) bool {
	rest, ok := strings.CutPrefix(text, prefix)
	return ok && (rest == "" || rest[0] == ' ')
}

// certainty says whether a pattern is about a command.
type certainty uint8

const (
	no certainty = iota
	maybe
	yes
)

func (p *Pattern) matchCommand(c *Command) certainty {
	if len(c.Argv) == 0 {
		return no
	}
	start := maybe
	if len(p.tokens) > 0 {
		start = sameStart(p.tokens, c.readWords())
	}
	switch {
	case p.needsStart() && start == yes:
		return yes
	case p.kind == literal || start != no || strings.ContainsAny(p.text, `'"\`):
		if p.matchesJoined(c) {
			return yes
		}
	}
	if p.needsStart() {
		if len(p.tokens) == 0 {
			return no
		}
		return start
	}
	if len(p.options) > 0 && sameStart(p.options, c.Argv) == yes {
		return yes
	}
	if p.isAboutFile() && c.mayNameFile(p) || p.mayPush(c) {
		return maybe
	}
	if start != no && (slices.ContainsFunc(c.Argv, func(w Word) bool { return !w.Fixed }) || c.ReadsUnknown()) {
		return maybe
	}
	return no
}

// mayPush reports whether a push that names no branch may be one to the branch at the end of a
// wildcard: git push * main.
func (p *Pattern) mayPush(c *Command) bool {
	name, _ := c.program()
	if p.kind != wildcard || name != "git" || len(addUnnamedBranch(name, c.Argv[1:])) == len(c.Argv)-1 {
		return false
	}
	words := strings.Fields(p.text)
	branch := words[len(words)-1]
	pushed := strings.Join(c.Args(), " ")
	return branch != "*" && branch[0] != '-' && (p.matchesRaw(pushed+" "+branch) || p.matchesRaw(pushed+" origin "+branch))
}

// isAboutFile reports whether a wildcard is about the name of a file, for any program
// that gets it: *.env*.
func (p *Pattern) isAboutFile() bool {
	name := strings.Trim(p.text, "*")
	return p.kind == wildcard && len(p.tokens) == 0 && p.text[0] == '*' && name != "" && name[0] != '-' &&
		strings.ContainsAny(name, "./") && !strings.ContainsAny(name, " \t")
}

// mayNameFile reports whether a command may work on a file with that name: it spells the name
// in another case, which some file systems ignore, or it reads all files of a folder.
func (c *Command) mayNameFile(p *Pattern) bool {
	lower := readGlob(strings.ToLower(p.text))
	if slices.ContainsFunc(c.Argv, func(w Word) bool { return lower.matchesText(strings.ToLower(w.Text)) }) {
		return true
	}
	switch name, _ := c.program(); name {
	case "rg", "ag", "ack":
		return true
	case "grep", "egrep", "fgrep":
		return shortOption(c.Argv[1:], "rR") || slices.ContainsFunc(c.Argv[1:], func(w Word) bool {
			return strings.HasPrefix(w.Text, "--r") || strings.HasPrefix(w.Text, "--dereference-r") || strings.HasSuffix(w.Text, "recurse")
		})
	}
	return false
}

// ReadsUnknown reports whether a program reads statements that are not known: psql <f.
func (c *Command) ReadsUnknown() bool {
	name, _ := c.program()
	unknown := func(w Word) bool { return !w.Fixed }
	return statements[name] && (c.piped && len(c.heard) == 0 || slices.ContainsFunc(c.Inputs(), unknown))
}

// Settings returns the variables that the command sets: NAME=value, or the value if it is not Fixed.
func (c *Command) Settings() []Word { return slices.Clip(c.assigned) }

// Printed returns the texts that a command such as echo prints; nil for other commands. exact is
// false if printf may make another text of them.
func (c *Command) Printed() (texts []string, exact bool) {
	name, _ := c.program()
	if !printers[name] || len(c.Argv) < 2 {
		return nil, true
	}
	text, exact := formatText(name, c.Argv[1:])
	texts = append(c.Args()[1:], text)
	for _, w := range c.Argv[1:] { // echo -e '\163'
		texts = append(texts, unescapeArgument(w.Text))
	}
	return texts, exact
}

// IsPiped reports whether the command reads the output of another command, or a file.
func (c *Command) IsPiped() bool { return c.piped }

// Inputs returns the texts that the command reads and that are in the line.
func (c *Command) Inputs() []Word { return slices.Concat(c.input, c.heard) }

// statements are programs that take statements from their arguments or from their
// input.
var statements = setOf("psql mysql mariadb sqlite3 sqlite duckdb sqlcmd cqlsh clickhouse-client mongosh mongo redis-cli bq")

// readWords returns the words of the command. For programs that could also get the
// files they read as arguments, it adds these: cat <x is cat x.
func (c *Command) readWords() []Word {
	if name, ok := c.program(); len(c.files) > 0 && ok && anyOrder[name] {
		return append(slices.Clip(c.Argv), c.files...)
	}
	return c.Argv
}

// matchesJoined matches the words joined by single blanks, with the program as written
// and without its folder; quoted if the pattern has quotes.
func (p *Pattern) matchesJoined(c *Command) bool {
	plain := strings.Join(c.Args(), " ")
	program := c.Argv[0].Text
	rest := plain[len(program):]
	if p.matchesRaw(plain) || p.matchesRaw(base(program)+rest) || c.Argv[0].Fixed && p.matchesRaw(programName(program)+rest) || p.matchesStated(c, plain) {
		return true
	}
	return strings.ContainsAny(p.text, `'"\`) && p.matchesRaw(c.String())
}

// maxStated bounds the length of a command times the number of words in it that may be
// statements.
const maxStated = 2 << 20

// matchesStated matches statements that follow an option, in the same word or in the
// next, or that the program reads: psql <<< 'DROP TABLE x'.
func (p *Pattern) matchesStated(c *Command, plain string) bool {
	name, _ := c.program()
	if !statements[name] || p.kind == prefix {
		return false
	}
	texts := append(c.Inputs(), splitOptions(valued[name], c.Argv[1:])...)
	if len(texts)*len(plain) > maxStated {
		return true // no author writes such a line, and comparing all of it takes too long
	}
	fold := *p // statements of SQL and redis know no case
	fold.text = strings.ToLower(p.text)
	fold.glob, plain = readGlob(fold.text), strings.ToLower(plain)
	return fold.matchesRaw(plain) || slices.ContainsFunc(texts, func(w Word) bool {
		text := strings.ToLower(w.Text)
		return fold.matchesRaw(plain+" "+text) || fold.matchesRaw(name+" "+text) || fold.matchesRaw(name+" - "+text)
	})
}

// wide words are looked at from each possible beginning of a command, until they add up
// to maxWindow, and at least narrow words after that.
const (
	wide      = 64
	narrow    = 8
	maxWindow = 8 << 10
)

// matchAmong looks for the pattern's words in lists of words that may each begin a
// command. It returns maybe if a limit kept it from looking far enough.
func (p *Pattern) matchAmong(lists [][]Word) certainty {
	left := maxWindow
	for _, words := range lists {
		if p.matchesWithin(words, &left) {
			return yes
		}
	}
	if left < 0 {
		return maybe
	}
	return no
}

// matchesWithin looks for the pattern's words among words that may each begin a
// command, and subtracts the words that it looks at from left.
func (p *Pattern) matchesWithin(words []Word, left *int) bool {
	if len(p.tokens) == 0 {
		return false
	}
	letter := firstByte(p.tokens[0])
	for i, w := range words {
		w.Text = strings.TrimLeft(w.Text, "!^%@+") // !rm to vim, ^rm to nu
		if !w.Fixed || firstByte(w.Text) != letter || !mayName(p.tokens[0], w.Text) {
			continue
		}
		window := wide
		if *left < 0 {
			window = max(narrow, 2*len(p.tokens))
		}
		c := Command{Argv: words[i:min(i+window, len(words))]}
		*left -= len(c.Argv)
		if w.Text != words[i].Text {
			c.Argv = append([]Word{w}, c.Argv[1:]...)
		}
		if p.matchCommand(&c) == yes {
			return true
		}
	}
	return false
}

func mayName(token, word string) bool {
	return sameProgram(spellNames([]Word{{Text: token, Fixed: true}})[0].Text, spellNames([]Word{{Text: word, Fixed: true}})[0].Text)
}

// Limits on the folders that a line changes to and on the commands that are looked at.
const (
	maxFolders = 8
	maxMoved   = 200
)

// RunsIn returns the folders other than cwd in which commands of the line may run: those of ParseIn,
// and those to which the line changes from there and from cwd.
func (l *Line) RunsIn(cwd string) []string {
	all, _ := l.runsIn(cwd)
	return all
}

// runsIn also reports whether the line may change to more folders than these.
func (l *Line) runsIn(cwd string) (all []string, cut bool) {
	all = slices.Clone(l.elsewhere)
	for _, from := range append([]string{cwd}, l.elsewhere...) {
		folders := l.folders(from)
		all, cut = append(all, folders...), cut || len(folders) == maxFolders
	}
	return all, cut
}

// addSeenElsewhere adds, for deny and ask rules, each command with its operands as seen
// from the folders that the line changes to: after cd /etc, cat shadow is cat
// /etc/shadow.
func (l *Line) addSeenElsewhere() {
	folders, cut := l.runsIn("")
	if cut || len(folders) > 0 && max(len(l.Commands), len(l.Nested)) > maxMoved {
		l.unclear = append(l.unclear, Reason{Code: CodeFolder, Detail: "it changes the folder too often, or runs too much there"})
	}
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for _, c := range list[:min(len(list), maxMoved)] {
			if name, ok := c.program(); ok && !changesFolder[name] {
				for _, f := range folders {
					if moved, ok := c.viewFrom(f); ok {
						l.moved = append(l.moved, moved)
						if (copies[name] || name == "cat" && len(c.Redirects) > 0) && strings.HasSuffix(f, "bin") { // cd /bin; cp rm /tmp/x
							l.crude = append(l.crude, moved.Argv[1:])
						}
					}
				}
			}
		}
	}
}

// folders returns the folders that the line changes to, with cd, env -C and others, as
// far as they are known, in order and at most eight. A relative folder is below cwd; if
// cwd is empty, it is left out until the line has changed to an absolute folder.
func (l *Line) folders(cwd string) []string {
	var all []string
	now := cwd
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for i := range list {
			to := list[i].changesTo()
			if to == "" || !strings.HasPrefix(to, "/") && now == "" {
				continue
			}
			if now = path.Join(now, to); to[0] == '/' {
				now = path.Clean(to)
			}
			if slices.Contains(all, now) {
				continue
			}
			if all = append(all, now); len(all) == maxFolders {
				return all
			}
		}
	}
	return all
}

// changesTo returns the folder that a command changes to, or runs another command in:
// cd x, env -C x. It returns "" if the folder is not known.
func (c *Command) changesTo() string {
	name, _ := c.program()
	for i, w := range c.Argv {
		_, value, given := strings.Cut(w.Text, "=")
		switch {
		case i == 0 || !w.Fixed:
		case changesFolder[name] && w.Text != "" && w.Text[0] != '-':
			return w.Text
		case name != "env" && name != "sudo":
		case given && strings.HasPrefix(w.Text, "--ch"):
			return value
		case (w.Text == "-C" || w.Text == "-D" || w.Text == "--chdir") && i+1 < len(c.Argv) && c.Argv[i+1].Fixed:
			return c.Argv[i+1].Text
		}
	}
	return ""
}

// viewFrom returns the command with its operands below a folder; false if no operand
// could be a file.
func (c *Command) viewFrom(folder string) (Command, bool) {
	out := *c
	out.Argv = make([]Word, len(c.Argv))
	changed := false
	for i, w := range c.Argv {
		if i > 0 && w.Fixed && w.Text != "" && !strings.Contains("-/", w.Text[:1]) && !strings.Contains(w.Text, "://") {
			w.Text, changed = path.Join(folder, w.Text), true
		}
		out.Argv[i] = w
	}
	return out, changed
}
