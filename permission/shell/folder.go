package shell

import (
	"slices"
	"strings"
)

// This file asks about lines that change the folder: after that, the files that a rule
// names and the files that configure a program are different ones.

// checkFolder marks the commands after a change of the folder, and adds a reason for
// programs that are configured by the folder they run in.
func (l *Line) checkFolder() {
	first := slices.IndexFunc(l.Commands, func(c Command) bool {
		name, ok := c.program()
		return ok && changesFolder[name]
	})
	switch {
	case len(l.elsewhere) > 0:
		first = -1
	case first < 0:
		return
	}
	for i := range l.Commands[first+1:] {
		l.Commands[first+1+i].moved = true
	}
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for i := range list {
			if name, _ := list[i].program(); isConfigured(name) {
				l.addReason(CodeFolder, list[i].Offset, name+" is configured by the folder that it runs in")
			}
		}
	}
}

// findRelative returns the relative path from which the command's program comes, or a word of
// an allow rule that may name a file of the working folder; "" if there is none.
func (p *Pattern) findRelative(c *Command) string {
	if program := c.Argv[0].Text; strings.Contains(program, "/") && program[0] != '/' {
		return program
	}
	name, _ := c.program()
	if printers[name] {
		return ""
	}
	known := programs[name]
	for i, word := range strings.Fields(p.text) {
		sub := known.sub(word)
		switch {
		case i == 0 || strings.Trim(word, "*") == "":
		case sub != nil:
			known = sub
		case word[0] == '-':
			if _, value, given := strings.Cut(word, "="); given && isRelative(value) {
				return word
			}
		case isRelative(word):
			return word
		}
	}
	return ""
}

// isRelative reports whether a word may name a file below the folder that a program runs in.
func isRelative(word string) bool {
	return word != "" && !strings.ContainsAny(word[:1], "/~") && !strings.Contains(word, "://")
}
