package shell

import (
	"path"
	"strings"
)

// The most folders that a line changes to, and commands of it, that are looked at.
const (
	maxFolders = 4
	maxMoved   = 200
)

// addSeenElsewhere adds, for deny and ask rules, each command with its operands as
// seen from the folders that the line changes to: after cd /etc, cat shadow is
// cat /etc/shadow.
func (l *Line) addSeenElsewhere() {
	folders := l.Folders("")
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for _, c := range list[:min(len(list), maxMoved)] {
			if name, ok := c.program(); ok && !changesFolder[name] {
				for _, f := range folders {
					if moved, ok := c.seenFrom(f); ok {
						l.moved = append(l.moved, moved)
					}
				}
			}
		}
	}
}

// Folders are those that the line changes to, with cd, env -C and others, as far
// as they are known, in their order and at most four. A relative one is one below
// cwd; with an empty cwd it is left out until the line has changed to an absolute
// one.
func (l *Line) Folders(cwd string) []string {
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
			if all = append(all, now); len(all) == maxFolders {
				return all
			}
		}
	}
	return all
}

// changesTo is the folder that a command changes to, or runs another one in: cd
// x, env -C x. "" if it is not known.
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

// seenFrom is the command with its operands below a folder; false if it has none
// that could be.
func (c *Command) seenFrom(folder string) (Command, bool) {
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
