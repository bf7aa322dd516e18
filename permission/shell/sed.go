package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// sedScript accepts only scripts that print, delete or replace lines: sed also has
// commands that run programs and write files. It may check words that are not scripts,
// but never misses one.
func sedScript(args []Word) string {
	scripts, ok := sedScripts(args)
	if !ok {
		return "its script cannot be told from its files"
	}
	for _, s := range scripts {
		if !plainSed(s) {
			return "the script " + clipText(s) + " is more than a plain p, d or s///"
		}
	}
	return ""
}

// sedScripts finds the scripts: after each -e, or else the first operand.
func sedScripts(args []Word) (scripts []string, ok bool) {
	var first *Word
	for i := 0; i < len(args); i++ {
		text := args[i].Text
		switch {
		case !args[i].Fixed || !strings.HasPrefix(text, "-") || text == "-":
			if first == nil {
				first = &args[i]
			}
			continue
		case text == "--":
			return nil, false
		case strings.HasPrefix(text, "--e"):
			if _, value, given := strings.Cut(text, "="); given {
				scripts = append(scripts, value)
				continue
			}
		case strings.HasPrefix(text, "--") || !strings.Contains(text, "e"):
			continue
		case !strings.HasSuffix(text, "e") || strings.Count(text, "e") > 1:
			return nil, false
		}
		if i++; i == len(args) || !args[i].Fixed {
			return nil, false
		}
		scripts = append(scripts, args[i].Text)
	}
	if len(scripts) > 0 {
		return scripts, true
	}
	if first == nil || !first.Fixed {
		return nil, false
	}
	return []string{first.Text}, true
}

// plainSed reads a script of p, d and s commands, separated by ";" or newlines.
func plainSed(script string) bool {
	if strings.Contains(script, "[") && strings.ContainsAny(script, ";\n") {
		return false // versions of sed differ on where a part with brackets ends
	}
	for {
		script = strings.TrimLeft(script, "; \t\n")
		if script == "" {
			return true
		}
		rest, ok := sedCommand(script)
		if !ok {
			return false
		}
		script = strings.TrimLeft(rest, " \t")
		if script != "" && script[0] != ';' && script[0] != '\n' {
			return false
		}
	}
}

// sedCommand reads [address[,address]]p, d or s///flags and returns what follows.
func sedCommand(s string) (rest string, ok bool) {
	s, ok = sedAddress(s)
	if ok && strings.HasPrefix(s, ",") {
		s, ok = sedAddress(s[1:])
	}
	s = strings.TrimLeft(s, " \t")
	if !ok || s == "" {
		return "", false
	}
	switch s[0] {
	case 'p', 'd':
		return s[1:], true
	case 's':
		return sedReplace(s[1:])
	}
	return "", false
}

// sedAddress skips a line number, $ or /regexp/, if there is one.
func sedAddress(s string) (rest string, ok bool) {
	switch {
	case s == "":
		return "", false
	case s[0] == '$':
		return s[1:], true
	case s[0] == '/':
		return sedPart(s[1:], '/')
	}
	return strings.TrimLeft(s, "0123456789"), true
}

func sedReplace(s string) (rest string, ok bool) {
	if s == "" || strings.IndexByte("/|#,:@+%!", s[0]) < 0 {
		return "", false
	}
	end := s[0]
	if strings.Contains(s, "[") && strings.Count(s, string(end)) != 3 {
		return "", false
	}
	if s, ok = sedPart(s[1:], end); !ok {
		return "", false
	}
	if s, ok = sedPart(s, end); !ok {
		return "", false
	}
	return strings.TrimLeft(s, "gpI0123456789"), true
}

func sedPart(s string, end byte) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '\n':
			return "", false
		case end:
			return s[i+1:], true
		}
	}
	return "", false
}

// readSed lets deny and ask rules see what a script runs: "1e rm x" runs rm, and the
// flag e of s/// runs what the script makes of its input.
func (t textFinder) readSed(cmd Command) {
	args := cmd.Argv[1:]
	if sedScript(args) == "" {
		return
	}
	scripts, ok := sedScripts(args)
	if scriptFromInput(args) {
		for _, w := range cmd.input {
			scripts = append(scripts, w.Text)
		}
	}
	if !ok {
		for _, w := range args {
			scripts = append(scripts, w.Text)
		}
	}
	if len(scripts) > 1 { // -e '1e\\' -e 'rm x'
		scripts = append(scripts, strings.Join(scripts, "\n"))
	}
	for _, s := range scripts {
		if sedRuns.MatchString(s) || sedOdd.MatchString(s) && strings.Contains(s, "e") {
			t.addUnclear(CodeExpansion, cmd.Offset, "sed may run what it makes of its input")
		}
		if len(s) > maxSed || !t.readSedScript(s) {
			t.addUnclear(CodeTooLong, cmd.Offset, "a script of sed is too long to be read")
		}
	}
}

// Limits on the length of a script that is searched for commands, and on their number.
const (
	maxSed   = 512
	maxSedEs = 8
)

// readSedScript reads the text after every e that may be a command as the text that it
// runs; false if there are too many.
func (t textFinder) readSedScript(script string) bool {
	found := 0
	for i := range len(script) {
		if script[i] != 'e' || i > 0 && strings.IndexByte("0123456789$/!;{} \t\n,~|#", script[i-1]) < 0 && !sedFlags.MatchString(script[:i]) {
			continue
		}
		if found++; found > maxSedEs {
			return false
		}
		line, _, _ := strings.Cut(strings.TrimPrefix(script[i+1:], "\\\n"), "\n")
		t.readHanded(line)
	}
	return true
}

// sedFlags matches the flags of an address: /a/Ie. sedOdd matches letters and digits
// used as delimiters: sxaxbxe.
var (
	sedFlags = regexp.MustCompile(`[^\w\s][IM]+$`)
	sedOdd   = regexp.MustCompile(`(?:^|[;{}\n])[ \t]*(?:[0-9$]+[ \t]*)?(?:[sy][A-Za-z0-9]|\\[A-Za-z0-9])`)
)

// sedRuns matches the flag e of s///, and a lone e, which runs what sed reads.
var sedRuns = regexp.MustCompile(`(?:^|[;{}\n0-9$/!])[ \t]*e[ \t]*(?:[;}\n]|$)|[^\w\s\\][0-9gpIiMm]*e[0-9gpIiMmw]*[ \t]*(?:[;}\n]|$)`)

// inPlace, givesCode and editing match options of perl and ruby, onlyReplaces their code that runs no
// text of the file: s/a/b/, tr/a/b/ and gsub(/a/, "b") with constants. keepsBackup matches an option of
// sed, perl or ruby that says how the copy of an edited file is named.
var (
	inPlace      = regexp.MustCompile(`^-[acdlnpstuvwyTUSWX0-9]*i`)
	givesCode    = regexp.MustCompile(`^-[lnpwsa0-9]*e$`)
	editing      = regexp.MustCompile(`^-[lnpwsa0-9]*(i\S*|e|)$`)
	keepsBackup  = regexp.MustCompile(`^(?:-[a-zA-Z0-9]*?i|--in-place=)(.+)$`)
	onlyReplaces = regexp.MustCompile(`(?s)^(?:\s*(?:` + replacement("/") + `|` + replacement("|") + `|` + replacement("#") +
		`|g?sub!?[ (](?:/` + constant("/") + `/|` + quoted + `|\d+), *(?:` + quoted + `|\d+)\)?)\s*(?:;|$))+$`)
)

// quoted matches a text of perl and ruby in which neither looks for variables or code.
const quoted = `(?:"[^"\\$@#]*"|'[^'\\]*')`

// constant matches a regular expression without variables and code up to a delimiter.
func constant(end string) string { return `(?:[^` + end + `\\$@{]|\\.|\{\d+,?\d*\}|\$\))*\$?` }

// replacement matches a replacement of perl with a delimiter, without code and with no more variables
// than $1.
func replacement(d string) string {
	return `(?:s|tr|y)[` + d + `]` + constant(d) + `[` + d + `](?:[^` + d + `\\$@{\[]|\\.|\$\d)*[` + d + `][cdgimrsx]*`
}

// editsFiles reports whether perl or ruby edits files in place.
func (c *Command) editsFiles() bool {
	name, _ := c.program()
	return (name == "perl" || name == "ruby") && slices.ContainsFunc(c.Argv[1:], func(w Word) bool { return inPlace.MatchString(w.Text) })
}

// addEdited adds the files that perl or ruby edits in place, and reports whether there are any.
func addEdited(code []Word, targets map[string]bool) (edits bool) {
	i := slices.IndexFunc(code, func(w Word) bool { return inPlace.MatchString(w.Text) })
	if i < 0 {
		return false
	}
	suffix := backupSuffix(code)
	for j, file := range code[i+1:] { // perl -pi -e s/q/r/ s
		if !strings.HasPrefix(file.Text, "-") && !givesCode.MatchString(code[i+j].Text) {
			targets[path.Clean(file.Text)], edits = true, true
			addBackup(file.Text, suffix, targets)
		}
	}
	return edits
}

// beforeEdited returns how many arguments of perl or ruby are before the files that it only edits:
// all, unless known options in front have -i and -e, with code that only replaces texts.
func beforeEdited(words []Word) int {
	edits, code := false, false
	for i := 0; i < len(words); i++ {
		w := words[i]
		option := editing.FindStringSubmatch(w.Text)
		switch {
		case !w.Fixed || option == nil && (!edits || !code || strings.HasPrefix(w.Text, "-") && w.Text != "--"):
			return len(words)
		case option == nil && slices.ContainsFunc(words[i:], func(w Word) bool { return strings.Contains(w.Text, "|") }): // perl runs 'sh x|'
			return len(words)
		case option == nil:
			return i
		case option[1] == "e":
			code = true
			if i++; i < len(words) && (!words[i].Fixed || !onlyReplaces.MatchString(words[i].Text)) {
				return len(words)
			}
		}
		edits = edits || option[1] != "" && option[1] != "e"
	}
	return len(words)
}

// backupSuffix returns what an option such as sed -i.bak adds to the name of the copy of a file that
// it edits, or "".
func backupSuffix(options []Word) (suffix string) {
	for _, o := range options {
		if m := keepsBackup.FindStringSubmatch(o.Text); m != nil {
			suffix = m[1]
		}
	}
	return suffix
}

func addBackup(file, suffix string, targets map[string]bool) {
	switch {
	case strings.Contains(suffix, "*"):
		targets[strings.ReplaceAll(suffix, "*", path.Base(file))] = true
	case suffix != "":
		targets[path.Clean(file+suffix)] = true
	}
}

// withoutScripts returns arguments of sed without scripts that write no file: the first word without a
// dash, or those after -e.
func withoutScripts(words []Word) (rest []Word) {
	given := false
	for _, w := range words {
		if strings.HasPrefix(w.Text, "-f") || strings.HasPrefix(w.Text, "--f") {
			return words
		}
		given = given || strings.HasPrefix(w.Text, "--e") || w.Text == "-e" || isCluster(w.Text) && strings.Contains(w.Text, "e")
	}
	seen := given
	for i, w := range words {
		script := given && i > 0 && isListed("-e -ne --expression", words[i-1].Text)
		if !seen && w.Text != "" && w.Text[0] != '-' { // not the '' of sed -i '' on macOS
			script, seen = true, true
		}
		if !script || !plainSed(w.Text) {
			rest = append(rest, w)
		}
	}
	return rest
}

// addSedWrites adds the files that scripts of sed write, as in 1wfile, and reports whether there are any.
func addSedWrites(words []Word, targets map[string]bool) (writes bool) {
	for _, w := range words {
		for _, m := range sedWrites.FindAllStringSubmatch(w.Text, maxTargets) {
			targets[path.Clean(m[1])], writes = true, true
		}
	}
	return writes
}

var sedWrites = regexp.MustCompile(`(?:^|[;{}/0-9$gpIMm \t\n])[wW][ \t]*([^ \t\n;}]+)`)
