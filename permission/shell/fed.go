package shell

import (
	"regexp"
	"strings"
)

// This file looks for programs that run what they read, and for other ways in
// which a command comes to run under a name that is not its own.

// checkGlued looks at texts for shells that stand in the same word as the dead letter of
// their option: script -qc'rm x'.
func (x runFinder) checkGlued(cmd Command, name string) {
	letter, ok := takesText[name]
	if !ok {
		return
	}
	for _, w := range cmd.Argv[1:] {
		if i := strings.Index(w.Text, letter); isCluster(w.Text) && i > 0 && i+1 < len(w.Text) {
			textFinder(x).readHanded(w.Text[i+1:])
		}
	}
}

// checkRenamed looks at programs that get another name, and at settings that name one:
// cp /bin/rm x, go env -w CC=rm.
func (x runFinder) checkRenamed(cmd Command, name string) {
	for _, w := range cmd.Argv[1:] {
		switch {
		case copies[name] && strings.Contains(w.Text, "bin/"), name == "cat" && len(cmd.Redirects) > 0 && strings.Contains(w.Text, "bin/"):
			x.line.crude = append(x.line.crude, []Word{w})
		case copies[name] || name == "cat" && len(cmd.Redirects) > 0:
			fileFinder(x).addLocated([]Word{w})
		case name == "go" && strings.Contains(w.Text, "=") && cmd.Argv[1].Text == "env":
			textFinder(x).checkSetting(w, cmd.Offset)
		}
	}
}

// checkCode adds a reason where a program runs an unknown text that it reads.
func (x runFinder) checkCode(cmd Command, name string) {
	if cmd.piped && readsCode(name, cmd.Argv[1:]) {
		x.addUnclear(CodeExpansion, cmd.Offset, name+" runs what it reads")
	}
}

// codeRuns finds what starts programs in code: in that of interpreters which read
// something at the same time, that may be what is started.
var codeRuns = regexp.MustCompile("system|exec|popen|Popen|spawn|subprocess|child_process|getline|eval|`|\\|")

// isDevice says whether a path may stand for what a program reads: /dev/stdin.
func isDevice(path string) bool {
	return strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

// itsInput says whether an argument stands for what a program reads.
func itsInput(arg string) bool { return arg == "-" || isDevice(arg) }

func readsCode(name string, args []Word) bool {
	files := 0
	for _, a := range args {
		switch {
		case a.Fixed && leadsToShell(a.Text):
			return true
		case a.Fixed && itsInput(a.Text):
			if interpreters[name] && !readsData[name] && files == 0 { // python3 - arg
				return true
			}
		case !a.Fixed || !strings.HasPrefix(a.Text, "-"):
			files++
		}
	}
	switch {
	case schedules[name], readsCommands[name]:
		return true
	case name == "ssh":
		return files <= 1
	case name == "sudo" || name == "doas":
		return shortOption(args, "si") || holdsWord(args, "--shell") || holdsWord(args, "--login")
	case startsShell[name]:
		return !shortOption(args, "c")
	case readsData[name] || name == "sed" || name == "gsed":
		return scriptFromInput(args)
	}
	return interpreters[name] && files == 0
}

// leadsToShell says whether a word names a shell that gets what the program
// reads: ssh host sh, docker exec -i c 'bash -s', socat - EXEC:sh.
func leadsToShell(word string) bool {
	word = word[strings.LastIndexAny(word, ":=")+1:]
	word, _, _ = strings.Cut(strings.TrimLeft(word, " "), " ")
	return shells[programName(word)] || word == "su" || word == "eval"
}

// shortOption says whether a cluster of short options has one of the letters.
func shortOption(args []Word, letters string) bool {
	for _, a := range args {
		if isCluster(a.Text) && strings.ContainsAny(a.Text, letters) {
			return true
		}
	}
	return false
}

// readsData are interpreters whose program always stands in an argument.
var readsData = setOf("awk gawk mawk nawk")

// scriptFromInput says whether awk or sed reads its script: sed -f -.
func scriptFromInput(args []Word) bool {
	for i, a := range args {
		_, value, given := strings.Cut(a.Text, "=")
		switch {
		case strings.HasPrefix(a.Text, "--f") && given && itsInput(value):
			return true
		case (strings.HasPrefix(a.Text, "--f") || isCluster(a.Text) && strings.HasSuffix(a.Text, "f")) && i+1 < len(args) && itsInput(args[i+1].Text):
			return true
		case isCluster(a.Text) && (strings.HasSuffix(a.Text, "f-") || strings.Contains(a.Text, "f/dev/") || strings.Contains(a.Text, "f/proc/")):
			return true
		}
	}
	return false
}
