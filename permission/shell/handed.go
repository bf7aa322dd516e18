package shell

import (
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// This file looks for commands in what a program is told: in its options, its
// variables and its scripts. Many programs hand such texts to a shell.

// readHanded takes a text for one that a program hands to a shell.
func (x textFinder) readHanded(text string) {
	x.splitCrudely(text)
	x.readPossible(text)
}

// readAside looks at what stands behind = or : in an argument. In code, {s+=$2}, it
// is no command, so that a program that is not known says nothing.
func (x textFinder) readAside(w Word, value string) {
	before := len(x.line.Nested)
	x.readValue(w, value)
	added := slices.DeleteFunc(x.line.Nested[before:], func(c Command) bool {
		return len(c.Argv) > 0 && !c.Argv[0].Fixed && c.Argv[0].head == ""
	})
	x.line.Nested = x.line.Nested[:before+len(added)]
}

// readValue takes a value for such a text. Of one that is not known only the words
// are looked at.
func (x textFinder) readValue(w Word, value string) {
	if w.Fixed {
		x.readHanded(value)
	} else {
		x.splitCrudely(value)
	}
}

// readPossible reads a text that may be one for a shell. That it is none says
// nothing.
func (x textFinder) readPossible(text string) {
	text = strings.TrimLeft(text, "!^%@+:~| ") // !rm x
	text = strings.ReplaceAll(text, "% ", " ") // a blank to git's ext::
	if !isText(text) {
		return
	}
	if strings.Contains(text, `\`) { // \write18{rm x}
		x.splitCrudely(text)
	}
	found := x.readInner(text, 0, false)
	unclear := found.unclear
	found.unclear = nil
	for _, u := range unclear {
		if u.Code == CodeTooLong { // it has not been read
			found.unclear = append(found.unclear, u)
		}
	}
	x.adoptCommands(found, []string{"a text"})
}

// splitCrudely splits a text at everything that can stand between words.
func (x textFinder) splitCrudely(text string) {
	x.work.steps += len(text)
	fields := strings.FieldsFunc(text, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune(":=;&|()<>{}[],`'\"\\$!^", r)
	})
	words := make([]Word, len(fields))
	for i, f := range fields {
		words[i] = Word{Text: f, Fixed: true}
	}
	if len(words) > 0 {
		x.line.crude = append(x.line.crude, words)
	}
}

// readPieces reads code in which a name is put together, "r" + "m", or escaped.
func (x textFinder) readPieces(words []Word) {
	for _, w := range words {
		whole := pieces.ReplaceAllString(w.Text, "")
		if text, _, err := expand.Format(&expand.Config{}, whole, nil); err == nil && strings.Contains(whole, `\`) {
			whole = text
		}
		if whole != w.Text {
			x.splitCrudely(whole)
		}
	}
}

// pieces are the ends of two texts that become one.
var pieces = regexp.MustCompile(`"[ \t]*[.+]?[ \t]*"|'[ \t]*[.+]?[ \t]*'`)

// isText says whether something looks like more than one word to a shell.
func isText(s string) bool { return strings.ContainsAny(s, " \t\n;&|'\"\\$`") }

// assignmentsOf gives the NAME=value of an assignment as the program gets it.
func (x textFinder) assignmentsOf(a *syntax.Assign) []Word {
	if a.Name == nil {
		return nil
	}
	name := a.Name.Value
	if a.Index != nil { // it is evaluated once more
		x.splitCrudely(x.source(a.Index))
	}
	if a.Array != nil {
		var words []Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, x.assignmentOf(name, e.Value))
			}
		}
		return words
	}
	if a.Value == nil {
		return nil
	}
	return []Word{x.assignmentOf(name, a.Value)}
}

func (x textFinder) assignmentOf(name string, value *syntax.Word) Word {
	w := x.readWordOf(value).result()
	w.Text = name + "=" + w.Text
	return w
}

// checkSetting looks at NAME=value in the environment of a command: a pager, an
// editor, or settings of git.
func (x textFinder) checkSetting(w Word, offset int) {
	name, value, _ := strings.Cut(w.Text, "=")
	x.readValue(w, value)
	if strings.HasPrefix(name, "TF_CLI_ARGS") {
		x.addUnclear(CodeAssignment, offset, name+" gives terraform further arguments")
	}
	if strings.HasPrefix(name, "GIT_CONFIG") && name != "GIT_CONFIG_NOSYSTEM" && value != "/dev/null" {
		x.addUnclear(CodeAssignment, offset, name+" sets what git runs")
	}
}

// readOptions lets deny and ask rules see the programs that options name:
// tar --to-command='rm x'.
func (x textFinder) readOptions(cmd Command) {
	name, _ := cmd.program()
	p, ok := programs[name]
	if !ok || name == "find" {
		return
	}
	entries := p.usedEntries(cmd.Argv[1:])
	for i, w := range cmd.Argv {
		if i == 0 || !w.Fixed || len(w.Text) < 2 || w.Text[0] != '-' && w.Text[0] != '+' {
			continue
		}
		e := slices.IndexFunc(entries, func(e program) bool { return e.isAmong(e.runs, w.Text) })
		if e < 0 {
			continue
		}
		if name == "fd" || name == "fdfind" { // all that follows is the command
			argv := cmd.Argv[i+1:]
			_, value, given := strings.Cut(w.Text, "=")
			if at := strings.IndexAny(w.Text, "xX"); isCluster(w.Text) && !given && at+1 < len(w.Text) { // fd -xrm
				value, given = w.Text[at+1:], true
			}
			if given {
				argv = append([]Word{{Text: value, Fixed: true}}, argv...)
			}
			runFinder(x).addFrom(cmd, argv, name)
			return
		}
		x.readNamedOption(entries[e], w.Text, cmd.Argv[i+1:])
	}
	if name == "tar" && len(cmd.Argv) > 1 && cmd.Argv[1].Text != "" && cmd.Argv[1].Text[0] != '-' && strings.ContainsAny(cmd.Argv[1].Text, "IF") {
		for _, w := range cmd.Argv[2:min(len(cmd.Argv), 6)] { // tar cIf 'rm x' a.tar
			x.readHanded(w.Text)
		}
	}
}

// readNamedOption looks at one option that names a program: in the same word, or in the
// one behind it.
func (x textFinder) readNamedOption(p program, option string, rest []Word) {
	if _, value, given := strings.Cut(option, "="); given {
		x.readHanded(value)
	}
	x.readHanded(strings.TrimLeft(option, "-+!"))
	if isCluster(option) {
		for _, letter := range []byte(letters(p.runs)) {
			if i := strings.IndexByte(option[1:], letter); i >= 0 {
				x.readHanded(option[i+2:])
			}
		}
	}
	if len(rest) > 0 {
		x.readHanded(rest[0].Text)
	}
}

// unlistedArguments are the arguments of a sub-command that the table does not list, which
// may run them; unlisted is false for one that it lists.
func (p program) unlistedArguments(args []Word) (rest []Word, unlisted bool) {
	for i, a := range args {
		if a.Fixed && strings.HasPrefix(a.Text, "-") {
			continue
		}
		if _, listed := p.subs[a.Text]; p.subs == nil || listed && a.Fixed {
			return nil, false
		}
		return args[i+1:], true
	}
	return nil, false
}

// usedEntries are the entries of the program and of the sub-command that is called.
func (p program) usedEntries(args []Word) []program {
	entries := []program{p}
	for _, a := range args {
		if sub, ok := p.subs[a.Text]; ok {
			sub.whole = p.whole
			return append(entries, sub)
		}
	}
	return entries
}
