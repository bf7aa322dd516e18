package shell

import (
	"fmt"
	"slices"
	"strings"
)

// Coverage says for one line and the allow rules in force whether the line may
// run, command by command.
type Coverage struct {
	// Covered: the line is static, and each of its commands is covered.
	Covered bool
	// Reasons are those of the line as a whole.
	Reasons []Reason
	// Commands has one entry for each of the line's commands.
	Commands []CommandCoverage
}

// CommandCoverage says whether one command is covered, and why.
type CommandCoverage struct {
	Command Command
	Covered bool
	// By is the index of the first pattern that covers the command, or of the
	// first that names it without covering it; -1 if none names it.
	By int
	// Why says why the command is not covered.
	Why Reason
}

// Cover decides whether allow rules of these contents together cover the line.
// They do if everything the line runs is known before it runs and every simple
// command is covered by one of them. A pattern covers a command if its words
// are the first words of the command (of a wildcard: if it matches the whole
// command), and no argument makes the program run another one, write a file
// that the rule does not name, or load configuration.
func (l *Line) Cover(allow []*Pattern) Coverage {
	c := Coverage{Reasons: l.Reasons, Covered: l.Static(), Commands: make([]CommandCoverage, len(l.Commands))}
	for i := range l.Commands {
		c.Commands[i] = coverOne(&l.Commands[i], allow)
		c.Covered = c.Covered && c.Commands[i].Covered
	}
	return c
}

// Covers reports whether Cover finds the line covered.
func (l *Line) Covers(allow []*Pattern) bool {
	return l.Static() && !slices.ContainsFunc(l.Commands, func(c Command) bool { return !coverOne(&c, allow).Covered })
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
	return out
}

// permitsCommand says whether a pattern that names a command covers its arguments.
func (p *Pattern) permitsCommand(c *Command) (Reason, bool) {
	because := func(code Code, format string, args ...any) (Reason, bool) {
		return Reason{Code: code, Offset: c.Offset, Detail: fmt.Sprintf(format, args...)}, false
	}
	name := base(c.Argv[0].Text)
	if c.piped && runsInput(name) {
		return because(CodeOption, "%s runs what the command before it writes", name)
	}
	if p.matchesExactly(c) {
		return Reason{}, true
	}
	if p.kind == wildcard && len(p.tokens) == 0 && strings.Trim(p.text, "* ") != "" && changesThings(name) {
		return because(CodeOption, "the rule names no program, and %s changes files", name) // "* --help" on rm x --help
	}
	if word := p.joinedOption(c, name); word != "" {
		return because(CodeOption, "%s makes one text of its arguments for another shell, in which %s is no plain word", name, clipText(word))
	}
	if p.trust {
		return Reason{}, true
	}
	why, known := findRefused(c.Argv)
	switch {
	case !known:
		return because(CodeNoTable, "%s; a rule covers it only as the whole command, or with trust_options", why)
	case why != "":
		return because(CodeOption, "%s", why)
	}
	return Reason{}, true
}

// changesThings says whether a program is there to change files or processes.
func changesThings(name string) bool {
	p, ok := files[name]
	return ok && p.read == nil && name != "readlink" && name != "realpath"
}

// joins are programs that make one text of their arguments and give it to a
// shell, with the characters that mean something there. In older versions of npm
// and its like the arguments stand in double quotes.
var joins = map[string]string{
	"npm": "$`\\", "pnpm": "$`\\", "yarn": "$`\\",
	"ssh": operators, "autossh": operators, "mosh": operators, "pdsh": operators, "clush": operators, "adb": operators,
	"watch": operators, "parallel": operators, "rsync": "$`;&|<>()\n",
}

const operators = ";&|<>()$`\\\"'\n*?[]{}~!#"

// joinedOption finds an argument that the program would hand to a shell as more
// than a word. A rule such as "ssh host:*", which names no command there, means
// any.
func (p *Pattern) joinedOption(c *Command, name string) string {
	special, ok := joins[name]
	if !ok || name == "ssh" && p.needsStart() && len(p.tokens) <= 2 {
		return ""
	}
	for _, w := range c.Argv[1:] {
		if strings.ContainsAny(w.Text, special) {
			return w.Text
		}
	}
	return ""
}

// runsInput says whether a program may run what it reads. Of the interpreters
// awk always has its program in its arguments.
func runsInput(name string) bool {
	return name != "awk" && (isWrapper(name) || shells[name] || interpreters[name] || schedules[name])
}

// checkFolder asks about lines that change the folder and then use a program that
// is configured by the folder it runs in.
func (l *Line) checkFolder() {
	changes := slices.ContainsFunc(l.Commands, func(c Command) bool {
		name, ok := c.program()
		return ok && changesFolder[name]
	})
	if !changes {
		return
	}
	for _, list := range [][]Command{l.Commands, l.Nested} {
		for i := range list {
			if name, _ := list[i].program(); programs[name].folder {
				l.addReason(CodeFolder, list[i].Offset, name+" is configured by the folder that the line changes to")
			}
		}
	}
}
