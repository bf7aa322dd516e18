package shell

import (
	"regexp"
	"slices"
	"strings"
)

// checkComputed adds a reason where code starts a program whose name it computes, or
// is itself encoded: os.system(chr(114)+'m x').
func (x runFinder) checkComputed(cmd Command, name string) {
	for _, w := range slices.Concat(cmd.Argv[1:], cmd.input, cmd.heard) {
		if startsComputed(w.Text) || awkComputes(name, w.Text) || (name == "pwsh" || name == "powershell") && encodedCommand.MatchString(w.Text) {
			x.addUnclear(CodeExpansion, cmd.Offset, name+" may start a program whose name the code computes")
			return
		}
	}
}

// encodedCommand is pwsh's option for code in base64, with its abbreviations.
var encodedCommand = regexp.MustCompile(`(?i)^[-/]{1,2}(?:ec|e(?:n(?:c(?:o(?:d(?:e(?:d(?:c(?:o(?:m(?:m(?:a(?:nd?)?)?)?)?)?)?)?)?)?)?)?)?)$`)

// starts are the functions of interpreters that start a program or run a text.
var starts = regexp.MustCompile(`\b(?:system|popen[234]?|Popen|exec[lv]?[pe]{0,2}|execSync|execFile|execFileSync|spawn[lv]?[pe]{0,2}|spawnSync|` +
	`passthru|shell_exec|proc_open|check_output|check_call|getoutput|getstatusoutput|eval|__import__|subprocess\.(?:run|call))\s*\(`)

var (
	// literals are texts in which neither the language nor a shell puts a variable.
	literals = regexp.MustCompile(`"(?:[^"\\$#]|\\.|#[^{"])*"|'(?:[^'\\$]|\\.)*'|` + "`[^`$]*`")
	// settings are words between the literals of a call that compute nothing.
	settings = regexp.MustCompile(`\b(?:\w+\s*=\s*(?:True|False|None|\d+|[\w.]*\b(?:PIPE|STDOUT|DEVNULL))|True|False|None|true|false|null)\b`)
	named    = regexp.MustCompile(`[A-Za-z_$@]`)
)

// startsComputed says whether code starts a program by more than texts that stand in it.
func startsComputed(code string) bool {
	if !strings.Contains(code, "(") {
		return false
	}
	for _, at := range starts.FindAllStringIndex(code, maxTargets) {
		if named.MatchString(settings.ReplaceAllString(firstArguments(code[at[1]:]), "")) {
			return true
		}
	}
	return false
}

// firstArguments is the text up to the bracket that ends a call, without its literals.
func firstArguments(code string) string {
	code = literals.ReplaceAllString(code[:min(len(code), maxArguments)], "")
	depth := 1
	for i := range len(code) {
		switch code[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return code[:i]
		}
	}
	return code
}

// maxArguments bounds the text of one call that is looked at, in bytes.
const maxArguments = 4096

// awkPipes find pipes to and from commands that awk computes, and indirect calls.
var awkPipes = regexp.MustCompile(`[\w)\]]\s*\|&?\s*getline|[^|]\|&?\s*[A-Za-z_$(]|@\w+\s*\(`)

func awkComputes(name, code string) bool {
	return readsData[name] && strings.ContainsAny(code, "|@") && awkPipes.MatchString(literals.ReplaceAllString(code, `""`))
}
