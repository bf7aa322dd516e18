package shell

import (
	"slices"
	"strings"
)

// unwrap adds the commands that a command runs by its arguments: env, xargs,
// find -exec, sh -c and others.
func (x *extractor) unwrap(cmd Command) {
	for _, w := range cmd.assigned { // EDITOR='rm x' git commit
		x.setting(w, cmd.Offset)
	}
	if len(cmd.Argv) == 0 {
		return
	}
	x.work.steps += len(cmd.Argv)
	name, ok := cmd.program()
	if !ok {
		x.guess(cmd.Argv[1:])
		x.guess(cmd.input)
		return
	}
	x.glued(cmd, name)
	x.power(cmd, name)
	x.runners(cmd, name)
	x.options(cmd)
}

func (x *extractor) runners(cmd Command, name string) {
	switch {
	case name == "command" && len(cmd.Argv) > 1 && (shortWith(cmd.Argv[1].Text, 'v') || shortWith(cmd.Argv[1].Text, 'V')):
		// only asks where a program lies
	case shells[name]:
		x.shell(cmd, name)
	case name == "eval":
		x.eval(cmd)
	case name == "source" || name == ".":
		x.sourced(cmd, name)
	case name == "find":
		x.find(cmd)
	case name == "alias" || name == "trap":
		for _, w := range cmd.Argv[1:] {
			w.Text = w.Text[strings.IndexByte(w.Text, '=')+1:]
			x.read(w, cmd.Offset, via(cmd, name), false)
		}
	case name == "hash":
		x.guess(cmd.Argv[1:])
		if slices.ContainsFunc(cmd.Argv[1:], func(w Word) bool { return !w.Fixed }) {
			x.unclear(CodeExpansion, cmd.Offset, "hash gives a program another name")
		}
	case evaluates[name]:
		for _, w := range slices.Concat(cmd.Argv[1:], cmd.input) { // read x <<< 'a[$(rm y)]'
			plain := !w.Fixed && !strings.Contains(w.Text, "[") // what is in it has been seen
			if !plain && (strings.Contains(w.Text, "$(") || strings.Contains(w.Text, "`")) {
				x.crude(w.Text)
			}
		}
		if !known(name) {
			x.guess(cmd.Argv[1:])
		}
	case interpreters[name]:
		for _, list := range [][]Word{cmd.Argv[1:], cmd.input} {
			for _, w := range list {
				x.crude(w.Text)
			}
		}
		x.guess(apart(valued[unversioned(name)], cmd.Argv[1:]))
		x.pieced(slices.Concat(cmd.Argv[1:], cmd.input))
		if cmd.piped && slices.ContainsFunc(cmd.Argv[1:], func(w Word) bool { return codeRuns.MatchString(w.Text) }) {
			x.unclear(CodeExpansion, cmd.Offset, name+" may run what it reads")
		}
		x.code(cmd, name)
	case name == "sed" || name == "gsed":
		x.sed(cmd)
		x.code(cmd, name)
	case name == "git":
		x.git(cmd)
	case wraps(name):
		x.wrapper(cmd, name, wrappers[name])
	case !known(name) || elsewhere(name, cmd.Argv):
		x.guess(cmd.Argv[1:])
		x.guess(cmd.input)
		if statements[name] {
			x.guess(cmd.heard)
		}
		x.code(cmd, name)
	default:
		if rest, unlisted := programs[name].beyond(cmd.Argv[1:]); unlisted {
			x.guess(rest)
			x.guess(cmd.input)
		}
		x.placed(cmd, name)
	}
}

// elsewhere says whether a program that is known runs a command on another
// machine, in a container, or from a package.
func elsewhere(name string, argv []Word) bool {
	if name == "ssh" {
		return true
	}
	words, ok := runsElsewhere[name]
	return ok && slices.ContainsFunc(argv, func(w Word) bool { return !w.Fixed || listed(words, w.Text) })
}

// runsElsewhere are the sub-commands that run what stands behind them.
var runsElsewhere = map[string]string{
	"docker": "exec run create", "kubectl": "exec run debug create",
	"npm": "exec x run create", "pnpm": "exec dlx run create", "yarn": "exec dlx run create",
}

func via(cmd Command, name string) []string {
	return append(slices.Clip(cmd.Via), name)
}

// behind adds the command that begins at an argument.
func (x *extractor) behind(cmd Command, argv []Word, name string) {
	if len(argv) == 0 {
		return
	}
	x.add(Command{Argv: argv, Offset: cmd.Offset, Via: via(cmd, name), piped: cmd.piped, input: cmd.input})
}

// wrapper skips the wrapper's own arguments. Where it meets one that it does
// not know, every argument may begin the command.
func (x *extractor) wrapper(cmd Command, name string, w wrapper) {
	rest, ok := w.skip(cmd.Argv[1:])
	if !ok || len(rest) == 0 {
		x.guess(cmd.Argv[1:])
		if !ok && slices.ContainsFunc(cmd.Argv[1:], func(w Word) bool { return !w.Fixed && !w.rooted }) { // env -S "$X"
			x.unclear(CodeExpansion, cmd.Offset, name+" may get a command that is not known before it runs")
		}
		x.code(cmd, name)
		if readsCode(name, cmd.Argv[1:]) { // sudo -s <<EOF
			x.guess(cmd.input)
		}
		return
	}
	for _, a := range cmd.Argv[1 : len(cmd.Argv)-len(rest)] { // env EDITOR='rm x' git commit
		if w.assigns && strings.Contains(a.Text, "=") {
			x.setting(a, cmd.Offset)
		}
		if i := strings.IndexAny(a.Text, "|!"); i >= 0 { // strace -o '|rm x'
			x.handed(a.Text[i+1:])
		}
	}
	if name == "xargs" && len(rest) > 0 { // it adds what it reads
		argv := make([]Word, 0, len(rest)+1)
		mark := replaced(cmd.Argv)
		for _, word := range rest {
			word.Fixed = word.Fixed && (mark == "" || !strings.Contains(word.Text, mark))
			argv = append(argv, word)
		}
		rest = append(argv, Word{Text: "..."})
	}
	x.behind(cmd, rest, name)
}

// shell reads the text of sh -c, or what is fed in.
func (x *extractor) shell(cmd Command, name string) {
	for i, w := range cmd.Argv[1:] {
		if !w.Fixed && !w.rooted {
			x.unclear(CodeExpansion, cmd.Offset, name+" may get a text that is not known before it runs")
			return
		}
		switch {
		case shortWith(w.Text, 'c'):
			x.texts(cmd, cmd.Argv[i+2:])
			return
		case shortWith(w.Text, 's') || w.Text == "-":
		case strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "+"):
			continue
		case i > 0 && endsWithOptionName(cmd.Argv[i].Text): // the value of -o, --rcfile
			continue
		default: // a script
			x.behind(cmd, cmd.Argv[i+1:], name)
			if !device(w.Text) {
				return
			}
		}
	}
	switch {
	case len(cmd.input) > 0:
		for _, w := range cmd.input {
			x.read(w, cmd.Offset, via(cmd, name), false)
		}
	case cmd.piped:
		x.unclear(CodeExpansion, cmd.Offset, name+" runs what another command writes")
	}
}

func shortWith(arg string, letter byte) bool {
	return len(arg) > 1 && (arg[0] == '-' || arg[0] == '+') && arg[1] != '-' && strings.IndexByte(arg, letter) > 0
}

func endsWithOptionName(arg string) bool {
	return arg == "--rcfile" || arg == "--init-file" || shortWith(arg, 'o') || shortWith(arg, 'O')
}

// texts reads the first argument that is no option as the text of sh -c, and
// takes the others for possible texts.
func (x *extractor) texts(cmd Command, args []Word) {
	name, _ := cmd.program()
	for i, w := range args {
		if w.Fixed && (strings.HasPrefix(w.Text, "-") || strings.HasPrefix(w.Text, "+")) && len(w.Text) > 1 {
			continue
		}
		x.read(w, cmd.Offset, via(cmd, name+" -c"), cmd.reads())
		x.guess(args[i+1:])
		return
	}
}

// reads says whether a command reads a text that it does not run by itself.
func (c *Command) reads() bool { return c.piped || len(c.input) > 0 }

// eval joins its arguments and reads them as a text.
func (x *extractor) eval(cmd Command) {
	var all []string
	for _, w := range cmd.Argv[1:] {
		if !w.Fixed {
			x.unclear(CodeExpansion, cmd.Offset, "eval runs a text that is not known before")
			x.guess(cmd.Argv[1:])
			return
		}
		all = append(all, w.Text)
	}
	x.read(Word{Text: strings.Join(all, " "), Fixed: true}, cmd.Offset, via(cmd, "eval"), cmd.reads())
}

// sourced looks at a file whose commands the shell runs itself.
func (x *extractor) sourced(cmd Command, name string) {
	x.guess(cmd.Argv[1:])
	for _, w := range cmd.input {
		x.read(w, cmd.Offset, via(cmd, name), false)
	}
	if len(cmd.Argv) > 1 && (!cmd.Argv[1].Fixed && strings.ContainsAny(cmd.Argv[1].Text, "$`(") || cmd.piped && strings.HasPrefix(cmd.Argv[1].Text, "/")) {
		x.unclear(CodeExpansion, cmd.Offset, name+" runs a text that is not known before")
	}
}

// find adds the commands of -exec and its like.
func (x *extractor) find(cmd Command) {
	for i := 1; i < len(cmd.Argv); i++ {
		if !cmd.Argv[i].Fixed {
			x.guess(cmd.Argv[1:])
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
		x.behind(cmd, withNames(cmd.Argv[begin:i]), "find -exec")
	}
}

// withNames are the words of a command in which find puts names for {}.
func withNames(words []Word) []Word {
	if !slices.ContainsFunc(words, func(w Word) bool { return w.Fixed && strings.Contains(w.Text, "{}") }) {
		return slices.Clip(words)
	}
	argv := slices.Clone(words)
	for i := range argv {
		argv[i].Fixed = argv[i].Fixed && !strings.Contains(argv[i].Text, "{}")
	}
	return argv
}

// read reads the text of another shell; fed says that what it runs reads
// something that is not known.
func (x *extractor) read(w Word, offset int, via []string, fed bool) {
	if !w.Fixed {
		x.unclear(CodeExpansion, offset, "runs a text that is not known before")
		x.crude(w.Text)
		return
	}
	x.take(x.inner(w.Text, offset, fed), via)
}

// guess takes any of the words for the beginning of a command, and any of them
// with a blank for the text of one. Faults of such texts say nothing.
func (x *extractor) guess(words []Word) {
	if len(words) == 0 {
		return
	}
	x.work.steps += len(words)
	x.line.crude = append(x.line.crude, words)
	x.located(words)
	for n, w := range words {
		if i := strings.IndexAny(w.Text, "=:"); i >= 0 { // ProxyCommand=rm, EXEC:rm
			x.aside(w, w.Text[i+1:])
			if w.Fixed && n+1 < len(words) && w.Text[0] == '-' { // --coreutils-prog=rm -rf
				argv := append([]Word{{Text: w.Text[i+1:], Fixed: true}}, words[n+1:min(len(words), n+1+maxRest)]...)
				x.line.crude = append(x.line.crude, argv)
			}
		}
		if cluster(w.Text) { // foo -c'rm x', foo -qc'rm x'
			x.handed(w.Text[2:])
			for i := 3; i < min(len(w.Text), 6) && isText(w.Text); i++ {
				x.handed(w.Text[i:])
			}
		}
		if !w.Fixed && strings.Contains(w.Text, "<(") { // make -f <(...)
			x.unclear(CodeSubst, 0, "a program reads what another one writes")
		}
		if w.Fixed {
			x.possible(strings.ReplaceAll(w.Text, `\_`, " ")) // a blank to env -S
		}
	}
}
