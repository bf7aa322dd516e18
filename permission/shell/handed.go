package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// readHanded reads a text as one that a program passes to a shell.
func (t textFinder) readHanded(text string) {
	t.splitCrudely(text)
	t.readPossible(text)
}

// readAside checks the text after = or : in an argument. In code such as {s+=$2} it is
// not a command, so commands with an unknown program are dropped.
func (t textFinder) readAside(w Word, value string) {
	before := len(t.line.Nested)
	t.readValue(w, value)
	t.dropUnnamed(before)
}

// dropUnnamed drops the commands from index before on whose program is not known at all.
func (t textFinder) dropUnnamed(before int) {
	added := slices.DeleteFunc(t.line.Nested[before:], func(c Command) bool {
		return len(c.Argv) > 0 && !c.Argv[0].Fixed && c.Argv[0].head == ""
	})
	t.line.Nested = t.line.Nested[:before+len(added)]
}

// readValue reads a value as such a text. If the value is not known, only its words are
// looked at.
func (t textFinder) readValue(w Word, value string) {
	if w.Fixed {
		t.readHanded(value)
	} else {
		t.splitCrudely(value)
	}
}

// readPossible reads a text that may be meant for a shell. It ignores faults of the
// text, which may be meant for something else.
func (t textFinder) readPossible(text string) {
	text = strings.TrimLeft(text, "!^%@+:~| ") // !rm x
	text = strings.ReplaceAll(text, "% ", " ") // a blank in git's ext::
	if !isText(text) {
		return
	}
	if strings.Contains(text, `\`) { // \write18{rm x}
		t.splitCrudely(text)
	}
	found := t.readInner(text, 0, false)
	unclear := found.unclear
	found.unclear = nil
	for _, u := range unclear {
		if u.Code == CodeTooLong { // it was not read
			found.unclear = append(found.unclear, u)
		}
	}
	t.adoptCommands(found, []string{"a text"})
}

// splitCrudely splits a text at every character that can separate words.
func (t textFinder) splitCrudely(text string) {
	t.work.steps += len(text)
	fields := strings.FieldsFunc(text, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune(":=;&|()<>{}[],`'\"\\$!^", r)
	})
	if len(fields) > 0 {
		t.line.crude = append(t.line.crude, fixedWords(fields))
	}
}

// readPieces reads code in which a name is escaped, or joined from parts: "r" + "m".
func (t textFinder) readPieces(words []Word) {
	for _, w := range words {
		if whole := JoinTexts(w.Text); whole != w.Text {
			t.splitCrudely(whole)
		}
	}
}

// JoinTexts returns code in which texts are not escaped, and those that become one are joined.
func JoinTexts(code string) string {
	code = pieces.ReplaceAllString(code, "")
	if text, err := unescape(code); err == nil && strings.Contains(code, `\`) {
		return text
	}
	return code
}

// pieces matches the quotes between two texts that become one.
var pieces = regexp.MustCompile(`"[ \t]*[.+]?[ \t]*"|'[ \t]*[.+]?[ \t]*'`)

func isText(s string) bool { return strings.ContainsAny(s, " \t\n;&|'\"\\$`") }

// assignmentsOf returns the NAME=value words of an assignment as the program gets them.
func (t textFinder) assignmentsOf(a *syntax.Assign) []Word {
	if a.Name == nil {
		return nil
	}
	name := a.Name.Value
	if a.Index != nil { // it is evaluated again
		t.splitCrudely(t.source(a.Index))
	}
	if a.Array != nil {
		var words []Word
		for _, e := range a.Array.Elems {
			if e.Value != nil {
				words = append(words, t.assignmentOf(name, e.Value))
			}
		}
		return words
	}
	if a.Value == nil {
		return nil
	}
	return []Word{t.assignmentOf(name, a.Value)}
}

func (t textFinder) assignmentOf(name string, value *syntax.Word) Word {
	w := t.readWordOf(value).result()
	w.Text = name + "=" + w.Text
	return w
}

// checkSetting checks NAME=value in the environment of a command: a pager, an editor,
// or git settings.
func (t textFinder) checkSetting(w Word, offset int) {
	name, value, _ := strings.Cut(w.Text, "=")
	t.readValue(w, value)
	if strings.HasPrefix(name, "TF_CLI_ARGS") {
		t.addUnclear(CodeAssignment, offset, name+" gives terraform further arguments")
	}
	if name == "TAR_OPTIONS" && slices.ContainsFunc(strings.Fields(value), leadsToShell) {
		t.addUnclear(CodeAssignment, offset, name+" gives what tar reads to a shell")
	}
	if strings.HasPrefix(name, "GIT_CONFIG") && name != "GIT_CONFIG_NOSYSTEM" && value != "/dev/null" {
		t.addUnclear(CodeAssignment, offset, name+" sets what git runs")
	}
}

// setsFile reports whether NAME=value names one of the files, also among options as in
// NODE_OPTIONS='--require ./s', or a folder of them from which programs load code, or sets the folders
// in which programs are looked for.
func (c *Command) setsFile(assign string, files map[string]bool) bool {
	name, value, _ := strings.Cut(assign, "=")
	if name == "PATH" || name == "PATH+" {
		return true
	}
	var own map[string]bool // without the marks: CI=1 names no file of an archive
	for f := range files {
		if f >= "\x20" && strings.Contains(value, stem(f)) {
			if own == nil {
				own = map[string]bool{}
			}
			own[f] = true
		}
	}
	folders := foldersOf.MatchString(name)
	if own == nil && !folders && !files[anyFile] {
		return false
	}
	tokens := strings.FieldsFunc(value, func(r rune) bool { return notInName(r) || strings.ContainsRune("|@$[]`\\", r) })
	for i, token := range tokens {
		w := Word{Text: token, Fixed: true}
		if len(own) > 0 && (i == maxTokens || w.namesFile(own)) {
			return true
		}
		if files[anyFile] && loadsNamed.MatchString(name) && strings.Contains(token, "/") && w.namesFile(files) {
			return true
		}
	}
	return folders && holdsCode(strings.FieldsFunc(value, notInName), files, anyOfFolder.MatchString(name))
}

// maxTokens bounds the words of a value that are compared with files.
const maxTokens = 256

// stem returns the name of a file as a program may load it, without folder and extension.
func stem(file string) string { return strings.TrimSuffix(path.Base(file), path.Ext(file)) }

// loadsNamed matches variables with the name of a program or of a file that programs load, foldersOf
// those with folders of such files, and anyOfFolder those of folders in which each file may run.
var (
	loadsNamed  = regexp.MustCompile(`^(?:LD_|DYLD_|GIT_|LESS|BASH_ENV$|ENV$)|(?:OPTS?|OPTIONS|FLAGS|EDITOR|PAGER|VISUAL|STARTUP|WRAPPER|SHELL)$`)
	foldersOf   = regexp.MustCompile(`(?:PATH|LIB|HOME|DIR)$`)
	anyOfFolder = regexp.MustCompile(`^GIT_|^(?:XDG_CONFIG|CURL)_HOME$`)
)

// holdsCode reports whether one of the files is in one of the folders, or below it, and may be loaded
// from there.
func holdsCode(folders []string, files map[string]bool, each bool) bool {
	for f := range files {
		if f < "\x20" || !each && !modules[path.Ext(f)] && !strings.Contains(path.Base(f), ".so") {
			continue
		}
		for _, folder := range folders[:min(len(folders), maxTokens)] {
			folder = path.Clean(folder)
			if folder == "." && !path.IsAbs(f) || strings.HasPrefix(f, folder+"/") || strings.HasPrefix(folder, "$") {
				return true
			}
		}
	}
	return false
}

// readOptions lets deny and ask rules see the programs that options name:
// tar --to-command='rm x'.
func (t textFinder) readOptions(cmd Command) {
	name, _ := cmd.program()
	p, ok := programs[name]
	if !ok || name == "find" {
		return
	}
	entries := p.usedEntries(cmd.Argv[1:])
	for i, w := range cmd.Argv {
		if i == 0 || !w.Fixed || len(w.Text) < 2 || w.Text[0] != '-' && w.Text[0] != '+' {
			continue
		}
		if w.Text == "--" {
			break
		}
		if slices.ContainsFunc(entries, func(e *entry) bool { return e.admitsOption(w.Text) }) {
			continue
		}
		if name == "fd" || name == "fdfind" { // everything after it is the command
			argv := cmd.Argv[i+1:]
			_, value, given := strings.Cut(w.Text, "=")
			if at := strings.IndexAny(w.Text, "xX"); isCluster(w.Text) && !given && at+1 < len(w.Text) { // fd -xrm
				value, given = w.Text[at+1:], true
			}
			if given {
				argv = append([]Word{{Text: value, Fixed: true}}, argv...)
			}
			runFinder(t).addFrom(cmd, argv, name)
			return
		}
		t.readNamedOption(w.Text, cmd.Argv[i+1:])
		if name == "tar" && slices.ContainsFunc(cmd.Argv[i:min(i+2, len(cmd.Argv))], func(w Word) bool { return leadsToShell(w.Text) }) { // --to-command=sh
			t.addUnclear(CodeExpansion, cmd.Offset, "tar gives what it reads to a shell")
		}
	}
	if name == "tar" && len(cmd.Argv) > 1 && cmd.Argv[1].Text != "" && cmd.Argv[1].Text[0] != '-' && strings.ContainsAny(cmd.Argv[1].Text, "IF") {
		for _, w := range cmd.Argv[2:min(len(cmd.Argv), 6)] { // tar cIf 'rm x' a.tar
			t.readHanded(w.Text)
		}
	}
}

// readNamedOption checks one option that may name a program, in the same word or in the
// next one.
func (t textFinder) readNamedOption(option string, rest []Word) {
	if _, value, given := strings.Cut(option, "="); given {
		t.readHanded(value)
	}
	if !strings.HasPrefix(option, "--") {
		t.readHanded(strings.TrimLeft(option, "-+!"))
	}
	if isCluster(option) {
		for i := 2; i < min(len(option), 6); i++ {
			t.readHanded(option[i:])
		}
	}
	switch {
	case len(rest) == 0:
	case mayNameProgram(option):
		t.readHanded(rest[0].Text)
	default:
		t.readValue(rest[0], rest[0].Text)
	}
}

// admitsOption reports whether an allow rule would admit the option, or each of its
// letters.
func (e *entry) admitsOption(arg string) bool {
	for e.any || len(arg) > 1 {
		o, rest := e.find(arg)
		if e.any || o != nil && (rest == "" || o.value != noValue) {
			return true
		}
		if o == nil {
			return false
		}
		arg = arg[:1] + rest
	}
	return true
}

// unlistedArguments returns the arguments of a sub-command that the table does not
// list, which may run them; unlisted is false if the table lists it.
func (e *entry) unlistedArguments(args []Word) (rest []Word, unlisted bool) {
	for i, a := range args {
		switch sub := e.subs[a.Text]; {
		case len(e.subs) == 0:
			return nil, false
		case a.Fixed && strings.HasPrefix(a.Text, "-"):
		case sub == nil || !a.Fixed:
			return args[i+1:], true
		default:
			e = sub
		}
	}
	return nil, false
}

// usedEntries returns the entries of the program and of its sub-commands in args.
func (e *entry) usedEntries(args []Word) []*entry {
	entries := []*entry{e.variant(args)}
	for _, a := range args {
		if sub := e.subs[a.Text]; sub != nil {
			e = sub
			entries = append(entries, e.variant(args))
		}
		if e.behind != nil {
			entries = append(entries, e.behind)
		}
	}
	return entries
}

// gitValues are options before git's sub-command that take the next word as their value.
const gitValues = "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"

// checkGlued checks texts for shells that follow the letter of their option in the same
// word: script -qc'rm x'.
func (r runFinder) checkGlued(cmd Command, name string) {
	letter, ok := takesText[name]
	if !ok {
		return
	}
	for _, w := range cmd.Argv[1:] {
		if i := strings.Index(w.Text, letter); isCluster(w.Text) && i > 0 && i+1 < len(w.Text) {
			textFinder(r).readHanded(w.Text[i+1:])
		}
	}
}

// checkRenamed checks programs that get another name, and settings that name a program:
// cp /bin/rm x, go env -w CC=rm.
func (r runFinder) checkRenamed(cmd Command, name string) {
	for _, w := range slices.Concat(cmd.Argv[1:], cmd.files) { // cat </bin/rm >x
		switch {
		case copies[name] && strings.Contains(w.Text, "bin/"), name == "cat" && len(cmd.Redirects) > 0 && strings.Contains(w.Text, "bin/"):
			r.line.crude = append(r.line.crude, []Word{w})
		case copies[name] || name == "cat" && len(cmd.Redirects) > 0:
			fileFinder(r).addLocated([]Word{w})
		case name == "go" && len(cmd.Argv) > 1 && strings.Contains(w.Text, "=") && cmd.Argv[1].Text == "env":
			textFinder(r).checkSetting(w, cmd.Offset)
		}
	}
}

// checkCode adds a reason if a program runs unknown text that it reads.
func (r runFinder) checkCode(cmd Command, name string) {
	if (cmd.piped || connects[name]) && readsCode(name, cmd.Argv[1:]) {
		r.addUnclear(CodeExpansion, cmd.Offset, name+" runs what it reads")
	}
}

// codeRuns matches what starts programs in code. If an interpreter also reads input,
// the input may say what is started.
var codeRuns = regexp.MustCompile(startsPrograms + `|\|`)

// RunsCode reports whether a program runs a text among its arguments, or what it reads.
func RunsCode(program string) bool {
	name := programName(program)
	return interpreters[name] || statements[name] || readsCommands[name] || scripted[name]
}

// ReadsSource reports whether a program reads a source from its input that may name files.
func ReadsSource(program string) bool { return readsSource[programName(program)] }

// isDevice reports whether a path may refer to the input of the program: /dev/stdin.
func isDevice(path string) bool {
	return strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

func isOwnInput(arg string) bool { return arg == "-" || isDevice(arg) }

// commandEnds matches what separates commands, givesProgram an option of nc, or an address of socat,
// with a program, and aroundProgram what is around the program in such an address.
var (
	commandEnds   = regexp.MustCompile(`[;&|(){}\n]|\b(?:if|then|elif|else|while|until|do)\b`)
	givesProgram  = regexp.MustCompile(`^(?:-[a-zA-Z]*[ec]|--(?:e|sh|lua)\S*) | (?:-[a-zA-Z]*[ec].|--(?:e|sh|lua)\S*=)|(?i:(?: |!!)"?(?:exec|system|shell):)`)
	aroundProgram = regexp.MustCompile(`(?i)^.*?(?:exec|system|shell):|["'],.*$`)
	dials         = setOf("nc ncat netcat socat")
)

func readsCode(name string, args []Word) bool {
	files := 0
	for i, a := range args {
		given := connects[name] && givesProgram.MatchString(args[max(i-1, 0)].Text+" "+a.Text)
		switch {
		case a.Fixed && leadsToShell(a.Text), !a.Fixed && given: // nc -e $SHELL
			return true
		case a.Fixed && (given || connects[name] && !dials[name]) && slices.ContainsFunc(commandEnds.Split(a.Text, -1), leadsToCode): // SYSTEM:'cd /; sh'
			return true
		case a.Fixed && isOwnInput(a.Text):
			if interpreters[name] && !readsData[name] && files == 0 { // python3 - arg
				return true
			}
		case !a.Fixed || !strings.HasPrefix(a.Text, "-"):
			files++
		}
	}
	switch {
	case schedules[name], readsCommands[name], admits[name]:
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

// leadsToShell reports whether a text begins with a shell that gets the input of the program, perhaps
// behind others: ssh host sh, docker exec -i c 'exec bash -s', socat - EXEC:sh,pty.
func leadsToShell(text string) bool { return leadsTo(text, false) }

// leadsToCode is leadsToShell, and true for an interpreter that reads its code: nc -c 'exec python3'.
func leadsToCode(text string) bool { return leadsTo(aroundProgram.ReplaceAllString(text, ""), true) }

func leadsTo(text string, code bool) bool {
	at := strings.LastIndexAny(text, ":=")
	return beginsProgram(text, code) || at >= 0 && beginsProgram(text[at+1:], code)
}

// beginsProgram reports whether a text begins with a shell or, on request, an interpreter that reads
// its code, perhaps behind wrappers.
func beginsProgram(text string, code bool) bool {
	words := fixedWords(strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'!", r) }))
	for len(words) > 0 {
		program, _, _ := strings.Cut(words[0].Text, ",")
		if len(program) > 2 && isCluster(program) { // nc -c'exec sh'
			program = program[2:]
		}
		program = programName(program[strings.LastIndexAny(program, ":=")+1:])
		rest := words[1:]
		switch {
		case shells[program] || program == "su" || program == "eval" || (program == "." || program == "source") && len(rest) > 0 && isDevice(rest[0].Text):
			return true
		case code && interpreters[program]:
			return readsCode(program, rest)
		case isWrapper(program):
			behind, ok := wrappers[program].skip(rest)
			if !ok {
				return slices.ContainsFunc(rest, func(w Word) bool { return beginsProgram(w.Text, code) })
			}
			rest = behind
		case !strings.Contains(words[0].Text, "="):
			return false
		}
		words = rest
	}
	return false
}

// scriptFromInput reports whether awk or sed reads its script from its input: sed -f -.
func scriptFromInput(args []Word) bool {
	for i, a := range args {
		_, value, given := strings.Cut(a.Text, "=")
		switch {
		case strings.HasPrefix(a.Text, "--f") && given && isOwnInput(value):
			return true
		case (strings.HasPrefix(a.Text, "--f") || isCluster(a.Text) && strings.HasSuffix(a.Text, "f")) && i+1 < len(args) && isOwnInput(args[i+1].Text):
			return true
		case isCluster(a.Text) && (strings.HasSuffix(a.Text, "f-") || strings.Contains(a.Text, "f/dev/") || strings.Contains(a.Text, "f/proc/")):
			return true
		}
	}
	return false
}
