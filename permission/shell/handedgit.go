package shell

import "strings"

// gitValues are options before the sub-command that take the next word.
const gitValues = "-C -c --git-dir --work-tree --namespace --super-prefix --config-env --attr-source"

// readGit looks at what git is told to run: aliases and settings on the
// command line, and sub-commands such as bisect, whose arguments are commands.
func (x runFinder) readGit(cmd Command) {
	args := cmd.Argv[1:]
	sub := 0
	for sub < len(args) && args[sub].Fixed && strings.HasPrefix(args[sub].Text, "-") {
		if isListed(gitValues, args[sub].Text) {
			sub++
		}
		sub++
	}
	sub = min(sub, len(args))
	for i, w := range args[:sub] {
		switch {
		case strings.HasPrefix(w.Text, "--config-env"):
			x.addUnclear(CodeOption, cmd.Offset, "git takes a setting from a variable")
		case i > 0 && args[i-1].Text == "-c":
			textFinder(x).readGitSetting(cmd, w, args[min(sub+1, len(args)):])
		}
	}
	if sub == len(args) {
		return
	}
	if _, listed := git.subs[args[sub].Text]; !listed || !args[sub].Fixed {
		x.guessCommands(args[sub+1:])
		return
	}
	for i, w := range args[sub+1:] {
		if i > 0 && args[sub].Text == "config" && strings.HasPrefix(strings.ToLower(args[sub+i].Text), "alias.") { // alias.p push
			x.addFrom(cmd, append(fixedWords([]string{"git"}), fixedWords(strings.Fields(w.Text))...), "alias")
		}
		if _, address, ok := strings.Cut(w.Text, "::"); ok { // ext::rm x
			textFinder(x).readHanded(address)
		} else if args[sub].Text == "config" && w.Fixed { // core.pager 'rm x'
			textFinder(x).readHanded(strings.TrimLeft(w.Text, "!"))
		}
	}
}

// readGitSetting looks at the value of git -c; rest are the arguments of the
// sub-command, which may be an alias.
func (x textFinder) readGitSetting(cmd Command, w Word, rest []Word) {
	key, value, _ := strings.Cut(w.Text, "=")
	key = strings.ToLower(key)
	switch text, shell := strings.CutPrefix(value, "!"); {
	case !w.Fixed || strings.HasPrefix(key, "include"):
		x.addUnclear(CodeOption, cmd.Offset, "git gets settings that are not known")
	case strings.HasPrefix(key, "alias.") && !shell:
		argv := []Word{{Text: "git", Fixed: true}}
		for f := range strings.FieldsSeq(value) {
			argv = append(argv, Word{Text: f, Fixed: true})
		}
		runFinder(x).addFrom(cmd, append(argv, rest...), "alias")
	default:
		x.readHanded(text)
	}
}
