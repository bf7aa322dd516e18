package agentscope

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// This file answers AgentScope's questions about a command line from its syntax tree,
// as upstream does, including its weaknesses. bash.go adds what upstream misses.

type commandPath struct{ by, path string }

// fields returns the words of a text as Python splits them.
func fields(s string) []string { return strings.FieldsFunc(s, pySpace) }

func trimSpace(s string) string { return strings.TrimFunc(s, pySpace) }

func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// cutByChar makes the tree cut text as upstream does: upstream uses byte offsets on
// characters, which shifts every piece after a character of several bytes.
func (t *tree) cutByChar() *tree {
	shifted := *t
	shifted.chars = []rune(t.text)
	return &shifted
}

func (t *tree) cutSpan(s span) string {
	if t.chars == nil {
		return s.of(t.text)
	}
	return string(t.chars[min(s.start, len(t.chars)):min(s.end, len(t.chars))])
}

// subcommands returns the texts of the simple commands that are not inside another, or
// the whole text if there are none.
func (t *tree) subcommands() []string {
	var out []string
	for _, c := range t.commands {
		if !c.nested {
			out = append(out, t.cutSpan(c.span))
		}
	}
	if out == nil {
		return []string{t.text}
	}
	return out
}

// fileCommands are the programs whose arguments are read as paths.
var fileCommands = setOf("rm mv cp chmod chown chgrp touch ln sed mkdir rmdir")

// paths returns what upstream reads as the paths that a line works on: the plain words
// after programs that change files, and the targets of redirects.
func (t *tree) paths() []commandPath {
	type found struct {
		at int
		commandPath
	}
	var all []found
	for _, c := range t.commands {
		name := t.cutSpan(c.name)
		if !fileCommands[name] {
			continue
		}
		for _, w := range c.words {
			if arg := trimQuotes(t.cutSpan(w)); !strings.HasPrefix(arg, "-") {
				all = append(all, found{c.start, commandPath{name, arg}})
			}
		}
	}
	for _, r := range t.redirects {
		all = append(all, found{r.start, commandPath{"redirect", trimQuotes(t.cutSpan(r))}})
	}
	slices.SortStableFunc(all, func(a, b found) int { return a.at - b.at })
	out := make([]commandPath, len(all))
	for i, f := range all {
		out[i] = f.commandPath
	}
	return out
}

func trimQuotes(s string) string { return strings.Trim(s, `'"`) }

// safeCommands need no rule.
var safeCommands = setOf("echo cat ls pwd cd true false printf grep tee")

// readOnlyCommands are the beginnings of the commands that upstream treats as read-only.
var readOnlyCommands = []string{
	"ls", "cat", "head", "tail", "less", "more", "file", "stat", "wc", "grep", "rg", "ag", "ack", "find", "tree", "pwd",
	"which", "whereis", "type",
	"git status", "git log", "git diff", "git show", "git branch", "git tag", "git remote", "git ls-files", "git ls-tree",
	"git cat-file", "git rev-parse", "git rev-list", "git describe", "git shortlog", "git blame", "git grep", "git reflog",
	"git config --get", "git config --list",
	"docker ps", "docker images", "docker inspect", "docker logs", "docker version", "docker info",
	"gh repo view", "gh issue list", "gh pr list", "gh status",
	"python --version", "python -V", "node --version", "node -v", "npm list", "npm ls", "pip list", "pip show",
}

var mutatingPredicates = setOf("-delete -exec -execdir -fls -fprint -fprint0 -fprintf -ok -okdir")

// looksReadOnly is upstream's own test. It proves nothing, because it ignores newlines,
// & and options.
func (t *tree) looksReadOnly() bool {
	text := trimSpace(t.text)
	if strings.Contains(text, ">") {
		return false
	}
	if !strings.Contains(text, "&&") && !strings.ContainsAny(text, ";|") {
		return commandLooksReadOnly(text)
	}
	whole := t
	if text != t.text {
		whole = parseTree(text)
	}
	return !slices.ContainsFunc(whole.cutByChar().subcommands(), func(c string) bool { return !commandLooksReadOnly(trimSpace(c)) })
}

func commandLooksReadOnly(c string) bool {
	if slices.Contains(readOnlyCommands, c) {
		return true
	}
	if strings.Contains(c, "find") && findMutates(c) {
		return false
	}
	if slices.ContainsFunc(readOnlyCommands, func(r string) bool { return strings.HasPrefix(c, r+" ") }) {
		return true
	}
	words := fields(c)
	if len(words) == 0 {
		return false
	}
	program := words[0]
	if i := slices.IndexFunc(words, func(w string) bool { return !strings.Contains(w, "=") }); i >= 0 {
		program = words[i]
	}
	return safeCommands[program]
}

func findMutates(c string) bool {
	t := parseTree(c)
	if len(t.commands) == 0 || t.commands[0].name.of(c) != "find" {
		return false
	}
	return slices.ContainsFunc(t.commands[0].words, func(w span) bool { return mutatingPredicates[w.of(c)] })
}

// dangerousTexts are searched for in every line; single words of at most four
// characters match only as whole words.
var dangerousTexts = []string{
	"rm -rf", "sudo rm", "dd", "mkfs", "fdisk", "format", "chmod 777", "chmod -R 777", "chown -R", "kill -9", "> /dev/",
}

func dangerousText(line string) string {
	line = strings.Join(fields(line), " ")
	for _, p := range dangerousTexts {
		if len(p) > 4 || strings.Contains(p, " ") {
			if strings.Contains(line, p) {
				return p
			}
		} else if containsWord(line, p) {
			return p
		}
	}
	return ""
}

func containsWord(line, word string) bool {
	for from := 0; ; {
		i := strings.Index(line[from:], word)
		if i < 0 {
			return false
		}
		before, _ := utf8.DecodeLastRuneInString(line[:from+i])
		after, _ := utf8.DecodeRuneInString(line[from+i+len(word):])
		if !wordChar(before) && !wordChar(after) {
			return true
		}
		from += i + 1
	}
}

func wordChar(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// removal returns the first path that an rm or rmdir of the line names and that no user
// removes on purpose: the root, a folder in it, home, or everything in a folder.
func (t *tree) removal(p places) string {
	for _, text := range t.subcommands() {
		words := fields(text)
		if len(words) == 0 || words[0] != "rm" && words[0] != "rmdir" {
			continue
		}
		for _, w := range words[1:] {
			if path := trimQuotes(w); !strings.HasPrefix(w, "-") && p.isVital(path) {
				return path
			}
		}
	}
	return ""
}

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// Bounds of what is parsed. The parser recurses at everything that can open something,
// and a stack overflow would end the process. A line beyond the bounds cannot be
// analysed.
const (
	maxText      = 64 << 10
	maxDepth     = 200  // of nested brackets, and of backquotes
	maxOperators = 4000 // operators that join or end commands
	maxReserved  = 500  // words that may begin a compound command
	maxUnary     = 2000 // consecutive signs
)

var reserved = []string{"if", "elif", "while", "until", "for", "case", "select", "time", "coproc", "function", "()"}

func isShallow(text string) bool {
	if len(text) > maxText || strings.Count(text, "`") > maxDepth {
		return false
	}
	depth, operators, unary := 0, 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{', '[':
			depth++
		case ')', '}', ']':
			depth = max(depth-1, 0)
		case '|', '&', ';', '\n':
			operators++
		}
		if strings.IndexByte("-+~! \t", text[i]) >= 0 {
			unary++
		} else {
			unary = 0
		}
		if depth > maxDepth || operators > maxOperators || unary > maxUnary {
			return false
		}
	}
	words := 0
	for _, w := range reserved {
		words += strings.Count(text, w)
	}
	return words <= maxReserved
}

// sedFault says what the sed of a line does besides plain printing or substitution; ""
// if nothing, or if there is no sed. Like upstream it looks only at the first sed of
// the line.
func sedFault(line string) string {
	if !strings.Contains(line, "sed") {
		return ""
	}
	words, err := splitWords(line)
	if err != nil {
		return "sed in a line whose quotes do not match"
	}
	at := slices.IndexFunc(words, func(w string) bool { return w == "sed" || strings.HasSuffix(w, "/sed") })
	if at < 0 {
		return ""
	}
	s := readSed(words[at+1:])
	if len(s.scripts) == 0 {
		return "sed without a script"
	}
	if i := strings.IndexFunc(s.flags, func(r rune) bool { return !strings.ContainsRune("nEei", r) }); i >= 0 {
		return "sed with an option other than -n -E -e -i"
	}
	for _, script := range s.scripts {
		if why := scriptFault(script, strings.Contains(s.flags, "n")); why != "" {
			return why
		}
	}
	if !strings.Contains(s.flags, "i") {
		return ""
	}
	for _, f := range s.files {
		if slices.ContainsFunc(dangerousFiles, func(d string) bool { return strings.Contains(f, d) }) {
			return "sed -i on the sensitive file " + f
		}
	}
	return ""
}

type sedCall struct {
	flags          string
	scripts, files []string
}

func readSed(args []string) sedCall {
	var s sedCall
	first := true
	for i := 0; i < len(args); i++ {
		arg := args[i]
		// A word that may be the suffix of -i is skipped.
		skip := i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !strings.HasPrefix(args[i+1], "s") && !strings.Contains(args[i+1], ".")
		switch {
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--"):
			s.flags += arg[1:]
			if strings.Contains(arg, "i") && skip {
				i++
			}
		case arg == "--in-place":
			s.flags += "i"
			if skip {
				i++
			}
		case arg == "--expression":
			if i+1 < len(args) {
				i++
				s.scripts = append(s.scripts, args[i])
			}
		case strings.HasPrefix(arg, "-"):
		case first:
			s.scripts, first = append(s.scripts, arg), false
		default:
			s.files = append(s.files, arg)
		}
	}
	return s
}

var (
	sedWrites  = regexp.MustCompile(`/[wW]\s+\S+|/[wW]$`)
	sedRuns    = regexp.MustCompile(`/[eE](\s|$)`)
	sedNumbers = regexp.MustCompile(`^[0-9]+(,[0-9]+)?p\n?$`)
)

func scriptFault(script string, quiet bool) string {
	switch {
	case sedWrites.MatchString(script):
		return "a sed script that writes a file"
	case sedRuns.MatchString(script):
		return "a sed script that runs a command"
	case strings.ContainsAny(script, "{}"):
		return "a sed script with braces"
	case strings.HasPrefix(script, "!"):
		return "a sed script that begins with !"
	case strings.Contains(script, "#") && !strings.HasPrefix(script, "s#"):
		return "a sed script with a comment"
	case quiet && sedNumbers.MatchString(script):
		return ""
	case plainSubstitution(script):
		return ""
	}
	return "a sed script that is neither a plain print nor a plain substitution"
}

func plainSubstitution(script string) bool {
	if len(script) < 2 || script[0] != 's' || !strings.ContainsRune("/|#", rune(script[1])) {
		return false
	}
	parts := strings.Split(script[2:], script[1:2])
	return len(parts) == 2 || len(parts) > 2 && strings.Trim(parts[2], "gp0123456789") == ""
}

var errQuotes = errors.New("quotes do not match")

// splitWords splits a line and removes quotes and backslashes as Python's shlex.split
// does. It does not know operators.
func splitWords(line string) ([]string, error) {
	var out []string
	var word []rune
	started, quote := false, rune(0)
	chars := []rune(line)
	for i := 0; i < len(chars); i++ {
		c := chars[i]
		switch {
		case c == '\\' && quote != '\'':
			i++
			if i == len(chars) {
				return nil, errQuotes
			}
			if quote == '"' && chars[i] != '"' && chars[i] != '\\' {
				word = append(word, '\\')
			}
			word, started = append(word, chars[i]), true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word = append(word, c)
		case c == '\'' || c == '"':
			quote, started = c, true
		case strings.ContainsRune(" \t\r\n", c):
			if started {
				out, word, started = append(out, string(word)), nil, false
			}
		default:
			word, started = append(word, c), true
		}
	}
	if quote != 0 {
		return nil, errQuotes
	}
	if started {
		out = append(out, string(word))
	}
	return out, nil
}
