package shell

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// checkComputed adds a reason if code is encoded, or starts a program whose name it
// computes: os.system(chr(114)+'m x').
func (r runFinder) checkComputed(cmd Command, name string) {
	for _, w := range slices.Concat(cmd.Argv[1:], cmd.input, cmd.heard) {
		if startsComputed(w.Text) || hidesStart(name, w.Text) || awkComputes(name, w.Text) || (name == "pwsh" || name == "powershell") && encodedCommand.MatchString(w.Text) {
			r.addUnclear(CodeExpansion, cmd.Offset, name+" may start a program whose name the code computes")
			return
		}
	}
}

// encodedCommand matches pwsh's option for base64 code, with its abbreviations.
var encodedCommand = regexp.MustCompile(`(?i)^[-/]{1,2}(?:ec|e(?:n(?:c(?:o(?:d(?:e(?:d(?:c(?:o(?:m(?:m(?:a(?:nd?)?)?)?)?)?)?)?)?)?)?)?)?)$`)

// starts matches calls of interpreter functions that start a program or run code.
var starts = regexp.MustCompile(`\b(?:system|popen[234]?|Popen|exec[lv]?[pe]{0,2}|execSync|execFile|execFileSync|spawn[lv]?[pe]{0,2}|spawnSync|` +
	`posix_spawnp?|execute|passthru|shell_exec|proc_open|check_output|check_call|getoutput|getstatusoutput|eval|__import__|subprocess\.(?:run|call))\s*\(`)

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

// hidesStart reports whether code may start a program, or run code, in a way that startsComputed does
// not see: by a function with another name, by a text that it decodes, or in quotes that run a program.
func hidesStart(name, code string) bool {
	if readsData[name] {
		return false
	}
	return decodes.MatchString(code) && reachesStart.MatchString(code) || renamesStart.MatchString(literals.ReplaceAllString(code, `""`)) ||
		(name == "perl" || name == "ruby" || name == "php") && runsQuoted.MatchString(code)
}

var (
	// decodes matches what makes a text of numbers, of an encoded text, or of one that is backwards.
	decodes = regexp.MustCompile(`\bchr\s*\(|\.chr\b|fromC(?:har|odeP)\w*|\b(?:un)?pack\b|\bbytes\s*[([]|\bbytearray\b|from_?hex|unhexlify|[bB](?:ase)?_?(?:16|32|64|85)_?[dD]ecode|` +
		`\batob\b|Buffer\.from|string\.char|hex2bin|::-1\]|\breversed\s*\(|\.reverse\b|\breverse\s*["'$(]|strrev|rot_?13|maketrans|\\x[0-9a-f]`)
	// reachesStart matches what may lead to a function that starts programs or runs code.
	reachesStart = regexp.MustCompile(`\b(?:os|subprocess|child_process|pty|ctypes|getattr|eval|exec\w*|system|popen\w*|spawn\w*|Function|constructor|globalThis|__\w+__|globals|vars|importlib|runpy|marshal|pickle|` +
		`send|public_send|method|Kernel|Open3|qx|execute|loadstring|call_user_func\w*|process)\b|[)\w]\[\s*["'][^"']*["']\s*\+|\$\w+\s*\(`)
	// renamesStart matches such a function that gets another name, or is looked up by a name.
	renamesStart = regexp.MustCompile(`=\s*(?:[\w.$()]|"")*\b` + starters + `\s*(?:[;,)\n]|$)|\b` + starters + `\s*(?:\bas\b|:\s*[A-Za-z])|\b(?:getattr|attrgetter|methodcaller|import_module)\s*\(|` +
		`\.\s*(?:send|public_send|method)\s*\(?\s*:?` + starters + `|[)\w]\[\s*""\s*\+`)
	// runsQuoted matches quotes of perl, ruby and php that run a program that is not known.
	runsQuoted = regexp.MustCompile("`[^`]*(?:\\$|#\\{)[^`]*`" + `|\bqx\s*\W[^;]*\$|%x\W[^;]*#\{|\bopen\b[^;\n]*(?:\|[^;\n]*\$|\$[^;\n]*\||\|["']\s*\.)|\beval\s*(?:[a-z$]|["'(][^;]*[\\$])`)
)

// starters matches names of functions that start programs or run code.
const (
	starters = `(?:system|popen\w*|Popen|exec[lv]\w*|exec(?:Sync|File|FileSync)?|spawn\w*|posix_spawnp?|check_output|check_call|getoutput|eval)`
	// openers matches names of functions that open files.
	openers = `(?:f?open(?:Sync)?|readFile(?:Sync)?|Path|FileIO|run_path|file_get_contents|readfile)`
)

// OpensComputed reports whether code of an interpreter opens a file whose name is neither a text in
// the code nor an argument of it.
func OpensComputed(program, code string) bool {
	if fileScheme.MatchString(code) || !readsData[program] && decodes.MatchString(code) && reachesFile.MatchString(code) {
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
	return ownOpens.MatchString(code) || renamesOpen.MatchString(code) || program == "perl" && globs.MatchString(code) || slices.ContainsFunc(opens.FindAllStringIndex(code, maxTargets), func(at []int) bool {
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
		`Path|FileIO|getlines?|loadtxt|genfromtxt|fromfile|openAsBlob|read_file|(?:File|IO|FileUtils)\.\w+|(?:os\.remove|shutil\.\w+|copy)|read_(?:csv|json|table)|ZipFile|run_path|fileinput\.input)(?:\s*\(|[ \t]+)`)
	// handle matches the first argument of perl's open, and keywords the names of arguments and words
	// that stand for arguments of the command.
	handle   = regexp.MustCompile(`^\s*(?:(?:my|our|local)\s+)?\$?\w+\s*,`)
	keywords = regexp.MustCompile(`\b\w+\s*[=:]|\b(?:sys\.argv|process\.argv|ARGV|argv)\[-?\d+\]|\$ARGV\[\d+\]|\bshift\b`)
	// plainNames matches arguments that are texts and numbers.
	plainNames = regexp.MustCompile(`^[\s(]*(?:(?:""|\d+|\{[\s",]*\})?[\s)]*(?:,\s*|$))*$`)
	// escapes matches a text that is not what is written.
	escapes = regexp.MustCompile(`\\[xuUN0-7]`)
	// ownOpens matches other ways to name a file by a value: of perl, and of objects of python.
	ownOpens = regexp.MustCompile(`@ARGV\s*=|\bdo\s+\$|[^"()\s]\)*\.(?:(?:read|write)_(?:text|bytes)\(|open\(\))|(?i:\battach\s+(?:database\s+)?(?:""\s*\|\||[^"'\s]))`)
	// reachesFile matches what may lead to a function that opens a file, renamesOpen one that gets another
	// name or is looked up by a name, and globs the names of files that perl looks for.
	reachesFile = regexp.MustCompile(`(?i)open|read|load|file|path|__import__|importlib|require|getlines|glob|\bfs\b|[)\w]\[\s*["'][^"']*["']\s*\+`)
	renamesOpen = regexp.MustCompile(`=\s*(?:[\w.$()]|"")*\b` + openers + `\s*(?:[;,)\n]|$)|\b` + openers + `\s*(?:\bas\b|:\s*[A-Za-z])|\b(?:getattr|attrgetter|methodcaller|import_module)\s*\(|[)\w]\[\s*""\s*\+|\bloadEnvFile\b`)
	globs       = regexp.MustCompile(`<[^<>\s]*[*?{][^<>]*>|\bglob\b`)
	fileScheme  = regexp.MustCompile(`file:/*["']\s*[+.,%]`)
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

// unescapeArgument replaces the escapes in an argument of echo -e or of %b.
func unescapeArgument(text string) string {
	plain, err := unescape(longOctal.ReplaceAllStringFunc(text, func(m string) string { return strings.Replace(m, `\0`, `\`, 1) }))
	if err != nil {
		return text
	}
	return plain
}

// formatText returns the text that a printer makes with a format: printf 'r%s\n' m. exact says
// whether bash and sh surely print it, or the printer has no format; otherwise it is a guess.
func formatText(name string, words []Word) (text string, exact bool) {
	format := afterFormatOption(name, words)
	text, exact = fillFormat(format, true)
	return text, slices.Equal(format, words) && (exact || name != "printf")
}

// afterFormatOption returns the format of print -f, which zsh and ksh have, and its arguments; for
// other printers all words.
func afterFormatOption(name string, words []Word) []Word {
	for i, w := range words {
		at := strings.IndexAny(w.Text, "fP") + 1
		switch {
		case name != "print" || !isCluster(w.Text):
			return words
		case at == len(w.Text):
			return words[i+1:]
		case at > 0:
			return append([]Word{{Text: w.Text[at:], Fixed: w.Fixed}}, words[i+1:]...)
		}
	}
	return words
}

// fillFormat is formatText. Only if escaped, it replaces the escapes of the format. It
// repeats the format until all arguments are used.
func fillFormat(words []Word, escaped bool) (text string, exact bool) {
	if len(words) > 0 && words[0].Text == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return "", true
	}
	p := printing{args: words[1:], exact: true}
	for parts := formatParts.FindAllStringSubmatch(words[0].Text, -1); ; {
		left := len(p.args)
		for _, part := range parts {
			text := part[0]
			switch {
			case part[4] != "":
				text = p.fillVerb(part[1], part[2], part[3], part[4])
			case text == "%%":
				text = "%"
			default:
				p.exact = p.exact && text != "%" && !endsOutput.MatchString(text)
				if plain, err := unescape(text); escaped && err == nil {
					text = plain
				}
			}
			if p.out.WriteString(text); p.out.Len() > maxText {
				return p.out.String(), false
			}
		}
		if len(p.args) == 0 || len(p.args) == left {
			return p.out.String(), p.exact
		}
	}
}

var (
	// formatParts matches plain text, and verbs with flags, width, precision and letters.
	formatParts = regexp.MustCompile(`[^%]+|%%|%([-+ #0']*)(\*|[0-9]*)(\.(?:\*|[0-9]*))?([hlLjzt]*[a-zA-Z])|%`)
	// plainNumber matches a number that every shell reads in the same way.
	plainNumber = regexp.MustCompile(`^-?(?:0|[1-9][0-9]{0,8})$`)
	// endsOutput matches an escape that ends the output of some programs, and bashEscapes
	// also those that sh does not know.
	endsOutput  = regexp.MustCompile(`\\c`)
	bashEscapes = regexp.MustCompile(`\\[cxuUE"'?]`)
	// longOctal matches an escape that is longer in an argument than in a format, and \\.
	longOctal = regexp.MustCompile(`\\\\|\\0[0-7]{3}`)
)

// printing is what printf has made of its format.
type printing struct {
	out   strings.Builder
	args  []Word
	exact bool
}

func (p *printing) nextArgument() Word {
	if len(p.args) == 0 {
		return Word{Fixed: true}
	}
	w := p.args[0]
	p.args = p.args[1:]
	return w
}

// readNumber returns a width or a precision, which may be an argument, or none.
func (p *printing) readNumber(text string, none int) int {
	switch text {
	case "":
		return 0
	case "*":
		text = p.nextArgument().Text
	}
	n, err := strconv.Atoi(text)
	p.exact = p.exact && plainNumber.MatchString(text)
	if err != nil || n > maxText || -n > maxText {
		p.exact = false
		return none
	}
	return n
}

// fillVerb returns what a verb prints. Plain forms of %s, %b, %c and %d are exact.
func (p *printing) fillVerb(flags, width, precision, letters string) string {
	wide, most := p.readNumber(width, 0), -1
	if precision != "" {
		most = p.readNumber(precision[1:], -1)
	}
	w := p.nextArgument()
	text, plain := w.Text, len(letters) == 1 && strings.Trim(flags, "-") == ""
	switch letters[len(letters)-1] {
	case 's':
	case 'b':
		plain = plain && !bashEscapes.MatchString(text)
		text = unescapeArgument(text)
	case 'c':
		plain = plain && precision == "" && text != "" // else some print a NUL
		most = 1
	case 'd':
		if n, err := strconv.Atoi(cmp.Or(text, "0")); err == nil && len(letters) == 1 && strings.Trim(flags, "-0") == "" && precision == "" && (text == "" || plainNumber.MatchString(text)) {
			return fmt.Sprintf("%"+flags+"*d", wide, n)
		}
		plain = false
	default:
		plain = false
	}
	odd := strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }) // some count bytes
	p.exact = p.exact && plain && !(odd && wide != 0 || (odd || !w.Fixed) && most >= 0)
	if most >= 0 {
		text = text[:min(most, len(text))]
	}
	if strings.Contains(flags, "-") && wide > 0 {
		wide = -wide
	}
	return fmt.Sprintf("%*s", wide, text)
}
