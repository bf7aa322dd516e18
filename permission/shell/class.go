package shell

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// classes are the kinds of operands and values that the option table can name.
var classes = map[string]func(string) bool{
	"any":     func(string) bool { return true },
	"local":   func(s string) bool { return isLocal(s) && !strings.HasPrefix(s, "@") },
	"package": func(s string) bool { return isLocal(s) && !strings.Contains(s, ":") },
	"word":    func(s string) bool { return plainWords.MatchString(s) && !strings.HasSuffix(s, ".json") },
	"name":    regexp.MustCompile(`^\w[\w.:-]*$`).MatchString,
	"formula": regexp.MustCompile(`^\w[\w+-]*(?:@[\d.]+)?$`).MatchString,
	"script":  regexp.MustCompile(`^\w[\w.:/-]*$`).MatchString,
	"image":   regexp.MustCompile(`^\w[\w.:/@-]*$`).MatchString,
	"target":  regexp.MustCompile(`^[\w.][\w.:/%+-]*$`).MatchString,
	"host":    regexp.MustCompile(`^[\w\[][\w.:@\[\]%-]*$`).MatchString,
	"dig":     regexp.MustCompile(`^@?[\w.:-]+$`).MatchString,
	"format":  func(s string) bool { return strings.HasPrefix(s, "+") },
	"file":    func(s string) bool { return !strings.HasPrefix(s, "+") }, // + begins a command to less
	"header":  func(s string) bool { return !strings.HasPrefix(s, "@") }, // @ reads headers from a file
	"printf":  func(s string) bool { return !setsVariable.MatchString(s) },
	"remote":  isRemote,
	"ref":     isRef,
	"url":     isURL,
	"unit":    isUnit,
	"source":  func(s string) bool { return isLocal(s) && sources.MatchString(s) },
}

var (
	plainWords = regexp.MustCompile(`^\w[\w.-]*$`)
	// setsVariable matches %n, with which bash's printf sets the variable that an
	// argument names, including PATH.
	setsVariable = regexp.MustCompile(`%[^a-zA-Z%]*[hljzLtq]*n`)
	// sources matches nothing that go and kustomize may take from the network: versions,
	// addresses, and module paths, which have a dot in their first segment.
	sources   = regexp.MustCompile(`^(?:(?:\.+|[^./@:]+)(?:/[^@:]*)?|[^/@:]+\.go)$`)
	bootUnits = regexp.MustCompile(`^(?:systemd-|debug-shell|emergency|rescue|reboot|poweroff|halt|kexec|suspend|hibernate|ctrl-alt-del)`)
	webScheme = regexp.MustCompile(`^(?i:https?://|[\w.-]+(?::[0-9]+)?(?:[/?#]|$))`)
)

func classNames() string { return strings.Join(slices.Sorted(maps.Keys(classes)), ", ") }

// isLocal reports whether s is a name, or a path in the working folder of the line or below it.
func isLocal(s string) bool {
	return s != "" && !strings.ContainsAny(s[:1], "/~") && !strings.Contains(s, "://") && !strings.Contains(s, `\`) &&
		!slices.Contains(strings.Split(s, "/"), "..")
}

// isRemote admits addresses and the two usual names. Git takes any other word also for a
// folder, whose hooks and programs would run here. A single letter can be a drive.
func isRemote(s string) bool {
	host, _, address := strings.Cut(s, ":")
	return s == "origin" || s == "upstream" || isRef(s) && address && len(host) > 1 && !strings.Contains(host, "/")
}

// isRef refuses the notation for forced pushes and deletions.
func isRef(s string) bool {
	return s != "" && !strings.ContainsAny(s[:1], "/.~+:") && !strings.Contains(s, "::") && !strings.HasPrefix(s, "file:")
}

// isURL refuses all spellings of file URLs: curl reads f[i-i]le: as file:.
func isURL(s string) bool { return webScheme.MatchString(s) && !strings.Contains(s, "{") }

// isUnit refuses files, all targets, and units that can stop the machine.
func isUnit(s string) bool {
	return s != "" && !strings.ContainsAny(s, "/*?[") && !strings.HasSuffix(s, ".target") && !bootUnits.MatchString(s)
}

// argumentChecks check all arguments of programs for which a list of options cannot say
// what the program does.
var argumentChecks = map[string]func([]Word) string{
	"sed": sedScript, "tar": tarArguments, "operand": someOperand, "jq": refuseReach(jqReach),
	// tree takes the next word for the value of L, P and I, and reads on within this one: -Po '*' out writes
	// out. xxd takes the first letter alone: -il in out writes out.
	"tree": refuseReach(`^-[a-zA-Z0-9]*[LPI].*[^0-9]`), "xxd": refuseReach(`^-(?:[a-oq-zA-Z][a-zA-Z]|p[a-rt-zA-Z]|ps.)`),
	"awk": refuseReach(`(?s)@|(?:^|[^|])\|\s*[^|\s]|print.*>|\\\r?\n|system|getline|ARG[CV]|ENVIRON|SYMTAB`),
	"yq":  refuseReach(jqReach + `|env\(|envsubst|(?:^|\.\.|\.\d|[^.\w])\w*(?:load|system|eval)(?:\w+(?:[^\w"]|$)|\s*[^\s\w".:/-]|\s+["\w.])`),
}

// jqReach takes names behind a dot, a dollar sign or a quote, and before a colon, for fields and
// variables. yq also finds an operator within a word, as in "x"orload("f").
const jqReach = `(?:^|[^\w."$])(?:import|include|modulemeta)\b\s*(?:[^\s:]|$)`

// tarArguments checks the old form "tar xf a.tar" and remote archives.
func tarArguments(args []Word) string {
	if len(args) > 0 && args[0].Fixed && !strings.HasPrefix(args[0].Text, "-") && strings.Trim(args[0].Text, "ctvfzjJahpkWOSl") != "" {
		return clipText(args[0].Text) + " extracts, runs a program, or loads a list"
	}
	for _, a := range args {
		if strings.Contains(a.Text, ":") {
			return "an archive on another machine is reached by running a program"
		}
	}
	return ""
}

// refuseReach refuses programs that match the expression, because they can start other
// programs, write files, or read files and variables that the line does not name.
func refuseReach(expr string) func([]Word) string {
	reach := regexp.MustCompile(expr)
	return func(args []Word) string {
		if slices.ContainsFunc(args, func(a Word) bool { return reach.MatchString(a.Text) }) {
			return "the program can run others, or reach files and variables that the line does not name"
		}
		return ""
	}
}

// someOperand refuses calls without an operand, for programs that then read commands.
func someOperand(args []Word) string {
	if len(operands(args)) == 0 {
		return "reads commands"
	}
	return ""
}
