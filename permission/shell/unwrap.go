package shell

import (
	"regexp"
	"slices"
	"strings"
)

// addRunBy adds the commands that a command runs through its arguments: env, xargs,
// find -exec, sh -c and others.
func (r runFinder) addRunBy(cmd Command) {
	for _, w := range cmd.assigned { // EDITOR='rm x' git commit
		textFinder(r).checkSetting(w, cmd.Offset)
	}
	if len(cmd.Argv) == 0 {
		return
	}
	r.work.steps += len(cmd.Argv)
	name, ok := cmd.program()
	if !ok {
		r.guessCommands(cmd.Argv[1:])
		r.guessCommands(cmd.input)
		return
	}
	r.addAliased(cmd)
	r.checkGlued(cmd, name)
	r.addPowerNames(cmd, name)
	r.addRunners(cmd, name)
	textFinder(r).readOptions(cmd)
}

// addAliased adds what a command runs if the line has made its name an alias.
func (r runFinder) addAliased(cmd Command) {
	name := cmd.Argv[0].Text
	value, ok := r.work.aliases[name]
	if !ok {
		return
	}
	delete(r.work.aliases, name) // an alias does not stand for itself
	r.readShellText(Word{Text: value.Text + " " + (&Command{Argv: cmd.Argv[1:]}).String(), Fixed: true}, cmd.Offset, via(cmd, "alias"), cmd.readsText())
	r.work.setAlias(name, value)
}

func (r runFinder) addRunners(cmd Command, name string) {
	switch {
	case name == "command" && len(cmd.Argv) > 1 && (hasShortOption(cmd.Argv[1].Text, 'v') || hasShortOption(cmd.Argv[1].Text, 'V')):
		// only prints where a program is
	case shells[name]:
		r.readShell(cmd, name)
	case name == "eval":
		r.readEval(cmd)
	case name == "source" || name == ".":
		r.checkSourced(cmd, name)
	case name == "find":
		r.addFindExec(cmd)
	case name == "alias" || name == "trap":
		for _, w := range cmd.Argv[1:] {
			alias, value, given := strings.Cut(w.Text, "=")
			if name == "alias" && given && w.Fixed {
				r.work.setAlias(alias, Word{Text: value, Fixed: true})
			}
			if given {
				w.Text = value
			}
			r.readShellText(w, cmd.Offset, via(cmd, name), false)
		}
	case name == "hash":
		r.guessCommands(cmd.Argv[1:])
		if slices.ContainsFunc(cmd.Argv[1:], func(w Word) bool { return !w.Fixed }) {
			r.addUnclear(CodeExpansion, cmd.Offset, "hash gives a program another name")
		}
	case evaluates[name]:
		r.readEvaluated(cmd, name)
	case interpreters[name]:
		r.readInterpreter(cmd, name)
	case name == "sed" || name == "gsed":
		textFinder(r).readSed(cmd)
		r.checkCode(cmd, name)
	case name == "git":
		r.readGit(cmd)
	case isWrapper(name):
		r.skipWrapper(cmd, name, wrappers[name])
	case !isKnown(name) || runsOnOther(name, cmd.Argv):
		r.guessArguments(cmd, name, cmd.Argv[1:])
		r.guessCommands(cmd.input)
		if statements[name] {
			r.guessCommands(cmd.heard)
		}
		r.checkCode(cmd, name)
	default:
		if rest, unlisted := programs[name].unlistedArguments(cmd.Argv[1:]); unlisted {
			r.guessArguments(cmd, name, rest)
			r.guessCommands(cmd.input)
		}
		r.checkRenamed(cmd, name)
		if name == "go" && slices.ContainsFunc(cmd.Argv, func(w Word) bool { return strings.Contains(w.Text, "<(") }) {
			r.addUnclear(CodeSubst, cmd.Offset, "go may run what another command writes")
		}
	}
}

// readEvaluated reads the commands in the arguments of a builtin that evaluates them.
func (r runFinder) readEvaluated(cmd Command, name string) {
	for _, w := range slices.Concat(cmd.Argv[1:], cmd.input) { // read x <<< 'a[$(rm y)]'
		plain := !w.Fixed && !strings.Contains(w.Text, "[") // its contents were already read
		if !plain && (strings.Contains(w.Text, "$(") || strings.Contains(w.Text, "`")) {
			textFinder(r).splitCrudely(w.Text)
		}
	}
	if !isKnown(name) {
		r.guessCommands(cmd.Argv[1:])
	}
}

// readInterpreter reads the commands that the code of an interpreter may run.
func (r runFinder) readInterpreter(cmd Command, name string) {
	if readsData[name] && !slices.ContainsFunc(cmd.Argv[1:], awkMayRun) {
		for _, m := range awkWrites.FindAllStringSubmatch(strings.Join(cmd.Args(), " "), -1) {
			r.addCommand(Command{Redirects: []string{">" + m[1]}, Offset: cmd.Offset, Via: via(cmd, name)})
		}
		return // its text starts no program
	}
	own := hasOwnWords(name, cmd.Argv[1:])
	for _, list := range [][]Word{cmd.Argv[1:], cmd.input} {
		for _, w := range list {
			if !own || !isOwnWord(w) {
				textFinder(r).splitCrudely(w.Text)
			}
		}
	}
	before := len(r.line.Nested)
	r.guessArguments(cmd, name, splitOptions(valued[withoutVersion(name)], cmd.Argv[1:]))
	if readsData[name] || name == "perl" || name == "php" { // $3 is a variable of the code
		textFinder(r).dropUnnamed(before)
	}
	textFinder(r).readPieces(slices.Concat(cmd.Argv[1:], cmd.input))
	r.checkComputed(cmd, name)
	if cmd.piped && slices.ContainsFunc(cmd.Argv[1:], func(w Word) bool { return codeRuns.MatchString(w.Text) }) {
		r.addUnclear(CodeExpansion, cmd.Offset, name+" may run what it reads")
	}
	r.checkCode(cmd, name)
}

// runsOnOther reports whether a known program runs a command on another machine, in a
// container, or from a package.
func runsOnOther(name string, argv []Word) bool {
	if name == "ssh" {
		return true
	}
	words, ok := runsElsewhere[name]
	return ok && slices.ContainsFunc(argv, func(w Word) bool { return !w.Fixed || isListed(words, w.Text) })
}

// runsElsewhere are the sub-commands that run the words after them.
var runsElsewhere = map[string]string{
	"docker": "exec run create attach", "kubectl": "exec run debug create attach", "podman": "exec run create attach", "nerdctl": "exec run create",
	"oc": "exec run debug rsh", "lxc": "exec", "incus": "exec",
	"npm": "exec x run create", "pnpm": "exec dlx run create", "yarn": "exec dlx run create",
}

func via(cmd Command, name string) []string {
	return append(slices.Clip(cmd.Via), name)
}

func (r runFinder) addFrom(cmd Command, argv []Word, name string) {
	if len(argv) == 0 {
		return
	}
	r.addCommand(Command{Argv: argv, Offset: cmd.Offset, Via: via(cmd, name), piped: cmd.piped, input: cmd.input})
}

// givenName matches the letters before the name that exec gives to a program.
var givenName = regexp.MustCompile(`^-[cl]*a?`)

// skipWrapper skips the wrapper's own arguments. If it does not know one of them, every
// argument may begin the command.
func (r runFinder) skipWrapper(cmd Command, name string, w wrapper) {
	rest, ok := w.skip(cmd.Argv[1:])
	if !ok || len(rest) == 0 {
		r.guessCommands(cmd.Argv[1:])
		if !ok && slices.ContainsFunc(cmd.Argv[1:], func(w Word) bool { return !w.Fixed && !w.rooted }) { // env -S "$X"
			r.addUnclear(CodeExpansion, cmd.Offset, name+" may get a command that is not known before it runs")
		}
		r.checkCode(cmd, name)
		if readsCode(name, cmd.Argv[1:]) { // sudo -s <<EOF
			r.guessCommands(cmd.input)
		}
		return
	}
	for _, a := range cmd.Argv[1 : len(cmd.Argv)-len(rest)] { // env EDITOR='rm x' git commit
		if w.assigns && strings.Contains(a.Text, "=") {
			textFinder(r).checkSetting(a, cmd.Offset)
		}
		if i := strings.IndexAny(a.Text, "|!"); i >= 0 { // strace -o '|rm x'
			textFinder(r).readHanded(a.Text[i+1:])
		}
		if given := givenName.ReplaceAllString(a.Text, ""); name == "exec" && given != "" { // exec -a rm busybox x
			r.addFrom(cmd, append([]Word{{Text: given, Fixed: a.Fixed}}, rest[1:]...), name)
		}
	}
	if name == "xargs" && len(rest) > 0 { // it appends what it reads
		argv := make([]Word, 0, len(rest)+1)
		mark := replacedWord(cmd.Argv)
		for _, word := range rest {
			word.Fixed = word.Fixed && (mark == "" || !strings.Contains(word.Text, mark))
			argv = append(argv, word)
		}
		rest = append(argv, Word{Text: "..."})
	}
	r.addFrom(cmd, rest, name)
}

// readShell reads the text of sh -c, or the input of the shell.
func (r runFinder) readShell(cmd Command, name string) {
	if name == "fish" { // -C and long options also have texts
		r.guessCommands(cmd.Argv[1:])
	}
	for i, w := range cmd.Argv[1:] {
		if !w.Fixed && !w.rooted {
			r.addUnclear(CodeExpansion, cmd.Offset, name+" may get a text that is not known before it runs")
			return
		}
		switch {
		case hasShortOption(w.Text, 'c'):
			r.readTexts(cmd, cmd.Argv[i+2:])
			return
		case hasShortOption(w.Text, 's') || w.Text == "-":
		case strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "+"):
			continue
		case i > 0 && endsWithOptionName(cmd.Argv[i].Text): // the value of -o, --rcfile
			continue
		default: // a script
			r.addFrom(cmd, cmd.Argv[i+1:], name)
			if !isDevice(w.Text) {
				return
			}
		}
	}
	switch {
	case len(cmd.input) > 0:
		for _, w := range cmd.input {
			r.readShellText(w, cmd.Offset, via(cmd, name), false)
		}
	case cmd.piped:
		r.addUnclear(CodeExpansion, cmd.Offset, name+" runs what another command writes")
	}
}

func hasShortOption(arg string, letter byte) bool {
	return len(arg) > 1 && (arg[0] == '-' || arg[0] == '+') && arg[1] != '-' && strings.IndexByte(arg, letter) > 0
}

func endsWithOptionName(arg string) bool {
	return arg == "--rcfile" || arg == "--init-file" || hasShortOption(arg, 'o') || hasShortOption(arg, 'O')
}

// readTexts reads the first argument that is not an option as the text of sh -c, and
// the others as possible commands.
func (r runFinder) readTexts(cmd Command, args []Word) {
	name, _ := cmd.program()
	for i, w := range args {
		if w.Fixed && (strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "+")) && len(w.Text) > 1 {
			continue
		}
		r.readShellText(w, cmd.Offset, via(cmd, name+" -c"), cmd.readsText())
		r.guessCommands(args[i+1:])
		return
	}
}

func (c *Command) readsText() bool { return c.piped || len(c.input) > 0 }

// readEval joins the arguments of eval and reads them as one text.
func (r runFinder) readEval(cmd Command) {
	var all []string
	for _, w := range cmd.Argv[1:] {
		if !w.Fixed {
			r.addUnclear(CodeExpansion, cmd.Offset, "eval runs a text that is not known before")
			r.guessCommands(cmd.Argv[1:])
			return
		}
		all = append(all, w.Text)
	}
	r.readShellText(Word{Text: strings.Join(all, " "), Fixed: true}, cmd.Offset, via(cmd, "eval"), cmd.readsText())
}

// checkSourced checks a file whose commands the shell runs itself.
func (r runFinder) checkSourced(cmd Command, name string) {
	r.guessCommands(cmd.Argv[1:])
	for _, w := range cmd.input {
		r.readShellText(w, cmd.Offset, via(cmd, name), false)
	}
	if len(cmd.Argv) > 1 && (!cmd.Argv[1].Fixed && strings.ContainsAny(cmd.Argv[1].Text, "$`(") || cmd.piped && strings.HasPrefix(cmd.Argv[1].Text, "/")) {
		r.addUnclear(CodeExpansion, cmd.Offset, name+" runs a text that is not known before")
	}
}

func (r runFinder) addFindExec(cmd Command) {
	for i := 1; i < len(cmd.Argv); i++ {
		if !cmd.Argv[i].Fixed {
			r.guessCommands(cmd.Argv[1:])
			return
		}
		switch cmd.Argv[i].Text {
		case "-exec", "-execdir", "-ok", "-okdir":
		default:
			continue
		}
		begin := i + 1
		for i++; i < len(cmd.Argv) && cmd.Argv[i].Text != ";" && cmd.Argv[i].Text != "+"; i++ {
		}
		r.addFrom(cmd, markNames(cmd.Argv[begin:i]), "find -exec")
	}
}

// markNames returns the words of a command, with those in which find replaces {} not Fixed.
func markNames(words []Word) []Word {
	if !slices.ContainsFunc(words, func(w Word) bool { return w.Fixed && strings.Contains(w.Text, "{}") }) {
		return slices.Clip(words)
	}
	argv := slices.Clone(words)
	for i := range argv {
		argv[i].Fixed = argv[i].Fixed && !strings.Contains(argv[i].Text, "{}")
	}
	return argv
}

// readShellText reads the text of another shell; fed says that what it runs reads
// unknown input.
func (r runFinder) readShellText(w Word, offset int, via []string, fed bool) {
	if !w.Fixed {
		r.addUnclear(CodeExpansion, offset, "runs a text that is not known before")
		textFinder(r).splitCrudely(w.Text)
		return
	}
	r.adoptCommands(r.readInner(w.Text, offset, fed), via)
}

// guessCommands reads each word as the possible beginning of a command, and each word
// with blanks as the possible text of one. It ignores faults of such texts.
func (r runFinder) guessCommands(words []Word) {
	if len(words) == 0 {
		return
	}
	r.work.steps += len(words)
	r.line.crude = append(r.line.crude, words)
	fileFinder(r).addLocated(words)
	for n, w := range words {
		if n > 0 && strings.HasSuffix(words[n-1].Text, "-wrapper") { // gcc -wrapper rm,x
			argv := []Word{w}
			if w.Fixed {
				argv = fixedWords(strings.Split(w.Text, ","))
			}
			r.addCommand(Command{Argv: argv, Via: []string{"-wrapper"}})
		}
		if i := strings.IndexAny(w.Text, "=:"); i >= 0 { // ProxyCommand=rm, EXEC:rm
			textFinder(r).readAside(w, w.Text[i+1:])
			if w.Fixed && n+1 < len(words) && w.Text[0] == '-' { // --coreutils-prog=rm -rf
				argv := append([]Word{{Text: w.Text[i+1:], Fixed: true}}, words[n+1:min(len(words), n+1+maxRest)]...)
				r.line.crude = append(r.line.crude, argv)
			}
		}
		if isCluster(w.Text) { // foo -c'rm x', foo -qc'rm x'
			textFinder(r).readHanded(w.Text[2:])
			for i := 3; i < min(len(w.Text), 6) && isText(w.Text); i++ {
				textFinder(r).readHanded(w.Text[i:])
			}
		}
		if !w.Fixed && strings.Contains(w.Text, "<(") { // make -f <(...)
			r.addUnclear(CodeSubst, 0, "a program reads what another one writes")
		}
		if w.Fixed {
			textFinder(r).readPossible(strings.ReplaceAll(w.Text, `\_`, " ")) // a blank in env -S
		}
	}
}
