package shell

import (
	"path"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// This file looks at lines that write a file and then run it: what stands in it
// is in the line, or nobody knows it.

// written looks, in one text, for files that it writes and runs: of what it
// prints any word may begin a command.
func (x *extractor) written(stmts []*syntax.Stmt) {
	targets, known := x.targets(stmts)
	ran := false
	for _, list := range [][]Command{x.line.Commands, x.line.Nested} {
		for i := range list {
			ran = ran || list[i].runsOne(targets)
		}
	}
	if !ran {
		return
	}
	if !known {
		x.unclear(CodeExpansion, 0, "it runs a file that it writes, of which nobody knows what is in it")
	}
	for _, list := range [][]Command{x.line.Commands, x.line.Nested} {
		for _, c := range list[:min(len(list), MaxCommands)] {
			name, _ := c.program()
			switch {
			case printers[name]:
				x.prints(c.Argv[1:])
			case len(c.input) > 0:
				x.prints(c.input)
			}
		}
	}
}

// printers print the text that they are given.
var printers = set("echo printf print")

// copiers print no more than they read.
var copiers = set("cat tee")

// prints takes texts that are printed for commands.
func (x *extractor) prints(words []Word) {
	x.guess(words)
	for _, w := range words {
		if text, _, err := expand.Format(&expand.Config{}, w.Text, nil); w.Fixed && err == nil && text != w.Text { // printf '\162m'
			x.handed(text)
		}
		for line := range strings.SplitSeq(w.Text, "\n") {
			x.line.crude = append(x.line.crude, fixed(strings.Fields(line)))
		}
	}
}

// targets are the files that a text writes; known says whether all that is
// written stands in the text.
func (x *extractor) targets(stmts []*syntax.Stmt) (targets map[string]bool, known bool) {
	targets, known = map[string]bool{}, true
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Stmt:
				for _, r := range n.Redirs {
					if writesTo[r.Op] && r.Word != nil && !harmless(r) {
						targets[path.Clean(x.word(r.Word).result().Text)] = true
						known = known && x.onlyPrints(n)
					}
				}
			case *syntax.CallExpr:
				known = x.saves(n, targets) && known
			}
			return true
		})
	}
	return targets, known
}

var writesTo = map[syntax.RedirOperator]bool{
	syntax.RdrOut: true, syntax.AppOut: true, syntax.RdrClob: true, syntax.RdrAll: true, syntax.AppAll: true, syntax.RdrInOut: true,
}

// onlyPrints says whether all calls in a statement print what the text says.
func (x *extractor) onlyPrints(s *syntax.Stmt) bool {
	only := true
	syntax.Walk(s, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			name := c.Args[0].Lit()
			only = only && (printers[name] || copiers[name])
		}
		return only
	})
	return only
}

// saves adds the files that a call writes by its arguments: those of tee, and
// what is fetched. It says whether what is in them is known.
func (x *extractor) saves(c *syntax.CallExpr, targets map[string]bool) bool {
	if len(c.Args) == 0 {
		return true
	}
	name := called(c.Args[0].Lit())
	if name != "tee" && name != "curl" && name != "wget" && name != "dd" {
		return true
	}
	words, _ := x.words(c.Args[1:])
	for _, w := range words {
		if w.Fixed && w.Text != "" {
			_, value, _ := strings.Cut(w.Text, "=")
			targets[path.Clean(value)] = true
			targets[path.Base(w.Text)] = true
			targets[path.Clean(w.Text)] = true
		}
	}
	return name == "tee"
}

// runsOne says whether a command runs one of the files.
func (c *Command) runsOne(files map[string]bool) bool {
	if len(files) == 0 || len(c.Argv) == 0 || !c.Argv[0].Fixed {
		return false
	}
	if strings.Contains(c.Argv[0].Text, "/") && files[path.Clean(c.Argv[0].Text)] {
		return true
	}
	name, _ := c.program()
	if !shells[name] && !interpreters[name] && !schedules[name] && name != "." && name != "source" && name != "sed" {
		return false
	}
	for _, w := range c.Argv[1:] {
		_, value, _ := strings.Cut(w.Text, "=")
		if w.Fixed && w.Text != "" && (files[path.Clean(w.Text)] || value != "" && files[path.Clean(value)]) {
			return true
		}
	}
	return false
}

// rewires says whether a text gives the shell itself another input, which all
// that comes after it reads: exec <f.
func rewires(stmts []*syntax.Stmt) bool {
	found := false
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			s, ok := n.(*syntax.Stmt)
			if !ok || found {
				return !found
			}
			c, ok := s.Cmd.(*syntax.CallExpr)
			if !ok || len(c.Args) == 0 || readWord(c.Args[len(c.Args)-1], c.Args[len(c.Args)-1].Lit()).text.String() != "exec" {
				return true
			}
			for _, r := range s.Redirs {
				switch r.Op {
				case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.WordHdoc, syntax.Hdoc, syntax.DashHdoc:
					found = true
				}
			}
			return true
		})
	}
	return found
}

// lookup finds a substitution that gives the file of a program: $(which rm).
var lookup = regexp.MustCompile("(?:\\$\\(|`)\\s*(?:builtin\\s+|command\\s+-p\\s+)?(?:which|command|type|whereis|readlink|realpath)\\s")

// located takes the programs that such a substitution finds for commands, with
// the words that follow.
func (x *extractor) located(words []Word) {
	for i, w := range words {
		if w.Fixed || !lookup.MatchString(w.Text) {
			continue
		}
		for _, name := range strings.FieldsFunc(w.Text, func(r rune) bool { return strings.ContainsRune(" \t\n$`()\"'", r) }) {
			argv := append([]Word{{Text: name, Fixed: true}}, words[i+1:min(len(words), i+1+maxRest)]...)
			x.line.crude = append(x.line.crude, argv)
		}
	}
}

// maxRest bounds the words that are kept behind one.
const maxRest = 16
