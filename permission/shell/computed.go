package shell

import (
	"regexp"
	"slices"
	"strings"
)

// checkComputed adds a reason if code is encoded, or starts a program whose name it
// computes: os.system(chr(114)+'m x').
func (r runFinder) checkComputed(cmd Command, name string) {
	for _, w := range slices.Concat(cmd.Argv[1:], cmd.input, cmd.heard) {
		if startsComputed(w.Text) || awkComputes(name, w.Text) || (name == "pwsh" || name == "powershell") && encodedCommand.MatchString(w.Text) {
			r.addUnclear(CodeExpansion, cmd.Offset, name+" may start a program whose name the code computes")
			return
		}
	}
}

// encodedCommand matches pwsh's option for base64 code, with its abbreviations.
var encodedCommand = regexp.MustCompile(`(?i)^[-/]{1,2}(?:ec|e(?:n(?:c(?:o(?:d(?:e(?:d(?:c(?:o(?:m(?:m(?:a(?:nd?)?)?)?)?)?)?)?)?)?)?)?)?)$`)

// starts matches calls of interpreter functions that start a program or run code.
var starts = regexp.MustCompile(`\b(?:system|popen[234]?|Popen|exec[lv]?[pe]{0,2}|execSync|execFile|execFileSync|spawn[lv]?[pe]{0,2}|spawnSync|` +
	`passthru|shell_exec|proc_open|check_output|check_call|getoutput|getstatusoutput|eval|__import__|subprocess\.(?:run|call))\s*\(`)

var (
	// literals matches string literals in which neither the language nor a shell expands a variable.
	literals = regexp.MustCompile(`"(?:[^"\\$#]|\\.|#[^{"])*"|'(?:[^'\\$]|\\.)*'|` + "`[^`$]*`")
	// settings matches words between the literals of a call that compute nothing.
	settings = regexp.MustCompile(`\b(?:\w+\s*=\s*(?:True|False|None|\d+|[\w.]*\b(?:PIPE|STDOUT|DEVNULL))|True|False|None|true|false|null)\b`)
	named    = regexp.MustCompile(`[A-Za-z_$@]`)
)

// startsComputed reports whether code starts a program with more than literal texts.
func startsComputed(code string) bool {
	return strings.Contains(code, "(") && slices.ContainsFunc(starts.FindAllStringIndex(code, maxTargets), func(at []int) bool {
		return named.MatchString(settings.ReplaceAllString(firstArguments(literals.ReplaceAllString(clipCode(code[at[1]:]), "")), ""))
	})
}

// OpensComputed reports whether code of an interpreter opens a file whose name is neither a text in
// the code nor an argument of it.
func OpensComputed(program, code string) bool {
	if fileScheme.MatchString(code) {
		return true
	}
	code = literals.ReplaceAllStringFunc(code, func(text string) string {
		if escapes.MatchString(text) {
			return text
		}
		return `""`
	})
	if readsData[program] {
		return awkOpens.MatchString(code)
	}
	return ownOpens.MatchString(code) || slices.ContainsFunc(opens.FindAllStringIndex(code, maxTargets), func(at []int) bool {
		args := clipCode(code[at[1]:])
		if code[at[1]-1] != '(' {
			if program != "perl" && program != "ruby" {
				return false // a word of a text or a variable
			}
			args, _, _ = strings.Cut(args, ";")
		}
		if args = firstArguments(args); program == "perl" {
			args = handle.ReplaceAllString(args, "")
		}
		return !plainNames.MatchString(keywords.ReplaceAllString(settings.ReplaceAllString(args, ""), ""))
	})
}

var (
	// opens matches calls that open, copy or remove the files that they name.
	opens = regexp.MustCompile(`\b(?:(?:f|sys)?open(?:Sync|dir|dirSync)?|(?:read|write|append|copy|truncate)File(?:Sync)?|create(?:Read|Write)Stream|cpSync|rmSync|` +
		`unlink(?:Sync)?|rename(?:Sync)?|(?:sym)?link(?:Sync)?|file_(?:get|put)_contents|readfile|writefile|load_extension|file|require(?:_once)?|include(?:_once)?|(?:do|load)file|` +
		`Path|(?:File|IO|FileUtils)\.\w+|(?:os\.remove|shutil\.\w+|copy)|read_(?:csv|json|table)|ZipFile|run_path|fileinput\.input)(?:\s*\(|[ \t]+)`)
	// handle matches the first argument of perl's open, and keywords the names of arguments and words
	// that stand for arguments of the command.
	handle   = regexp.MustCompile(`^\s*(?:(?:my|our|local)\s+)?\$?\w+\s*,`)
	keywords = regexp.MustCompile(`\b\w+\s*[=:]|\b(?:sys\.argv|process\.argv|ARGV|argv)\[-?\d+\]|\$ARGV\[\d+\]|\bshift\b`)
	// plainNames matches arguments that are texts and numbers.
	plainNames = regexp.MustCompile(`^[\s(]*(?:(?:""|\d+|\{[\s",]*\})?[\s)]*(?:,\s*|$))*$`)
	// escapes matches a text that is not what is written.
	escapes = regexp.MustCompile(`\\[xuUN0-7]`)
	// ownOpens matches other ways to name a file by a value: of perl, and of objects of python.
	ownOpens   = regexp.MustCompile(`@ARGV\s*=|\bdo\s+\$|[^"()\s]\)*\.(?:(?:read|write)_(?:text|bytes)\(|open\(\))|(?i:\battach\s+(?:database\s+)?(?:""\s*\|\||[^"'\s]))`)
	fileScheme = regexp.MustCompile(`file:/*["']\s*[+.,%]`)
	// awkOpens matches a file that awk names by more than one text.
	awkOpens = regexp.MustCompile(`(?:getline(?:\s+\w+)?\s*<|printf?\b[^;}\n]*[^>]>>?)\s*\(?\s*(?:[^\s"(>]|""\s*[\w"$(])|ARGV\[[^\]]*\]\s*=[^=]`)
)

func clipCode(code string) string { return code[:min(len(code), maxArguments)] }

// firstArguments returns the text up to the bracket that closes a call.
func firstArguments(code string) string {
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

// maxArguments bounds how much text of one call is looked at, in bytes.
const maxArguments = 4096

// awkPipes matches pipes to and from commands that awk computes, and indirect calls.
var awkPipes = regexp.MustCompile(`[\w)\]]\s*\|&?\s*getline|[^|]\|&?\s*[A-Za-z_$(]|@\w+\s*\(`)

// awkMayRun reports whether an argument of awk may be code that starts programs, or name some.
func awkMayRun(w Word) bool {
	return !w.Fixed || awkRuns.MatchString(w.Text) || strings.Contains(w.Text, "|") && !awkSeparator.MatchString(w.Text) && strings.ContainsAny(awkLiterals.ReplaceAllString(w.Text, ""), `|/"`)
}

var (
	awkRuns = regexp.MustCompile(`@|\\\s|system|getline|^-[^Fv]`)
	// awkSeparator matches a separator of fields, which is not code.
	awkSeparator = regexp.MustCompile(`^(-F.*|[^\w"$]+)$`)
	// awkLiterals matches the texts of awk, its ||, and a pattern where no division can be. Invariant:
	// what it does not match keeps its first / or ", so a pipe behind that is never taken for text.
	awkLiterals = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|(?:^|\|\||[~!(,;{&\n])\s*/(?:[^/"\\\n\[]|\\.)*/|\|\|`)
	awkWrites   = regexp.MustCompile(`>\s*\(*\s*("[^"]*")`)
)

func awkComputes(name, code string) bool {
	return readsData[name] && strings.ContainsAny(code, "|@") && awkPipes.MatchString(literals.ReplaceAllString(code, `""`))
}
