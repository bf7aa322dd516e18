package shell

import "strings"

// GitCommand returns the sub-command of git and what follows it, of all arguments of git.
func GitCommand(args []Word) []Word {
	for len(args) > 0 && args[0].Fixed && strings.HasPrefix(args[0].Text, "-") {
		if isListed(gitValues, args[0].Text) && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	return args
}

// readGit checks what git is told to run: aliases and settings on the command line, and
// sub-commands such as bisect, whose arguments are commands.
func (r runFinder) readGit(cmd Command) {
	args := cmd.Argv[1:]
	sub := len(args) - len(GitCommand(args))
	for i, w := range args[:sub] {
		switch {
		case strings.HasPrefix(w.Text, "--config-env"):
			r.addUnclear(CodeOption, cmd.Offset, "git takes a setting from a variable")
		case i > 0 && args[i-1].Text == "-c":
			textFinder(r).readGitSetting(cmd, w, args[min(sub+1, len(args)):])
		}
	}
	if sub == len(args) {
		return
	}
	if programs["git"].subs[args[sub].Text] == nil || !args[sub].Fixed {
		if value, ok := r.work.aliases["alias."+strings.ToLower(args[sub].Text)]; ok {
			textFinder(r).readGitSetting(cmd, value, args[sub+1:])
		}
		r.guessCommands(args[sub+1:])
		return
	}
	for i, w := range args[sub+1:] {
		if name := strings.ToLower(args[sub+i].Text); i > 0 && args[sub].Text == "config" && strings.HasPrefix(name, "alias.") { // alias.p push
			w.Text = name + "=" + w.Text
			r.work.setAlias(name, w)
			textFinder(r).readGitSetting(cmd, w, nil)
			continue
		}
		if i > 0 && args[sub].Text == "config" {
			r.addFrom(cmd, pushOf(args[sub+i].Text, w.Text), "config")
		}
		if _, address, ok := strings.Cut(w.Text, "::"); ok { // ext::rm x
			textFinder(r).readHanded(address)
		} else if args[sub].Text == "config" && w.Fixed { // core.pager 'rm x'
			textFinder(r).readHanded(strings.TrimLeft(w.Text, "!"))
		}
	}
}

// readGitSetting checks the value of git -c; rest are the arguments of the sub-command,
// which may be an alias.
func (t textFinder) readGitSetting(cmd Command, w Word, rest []Word) {
	key, value, _ := strings.Cut(w.Text, "=")
	key = strings.ToLower(key)
	switch text, shell := strings.CutPrefix(value, "!"); {
	case !w.Fixed || strings.HasPrefix(key, "include"):
		t.addUnclear(CodeOption, cmd.Offset, "git gets settings that are not known")
	case strings.HasPrefix(key, "alias.") && !shell:
		argv := []Word{{Text: "git", Fixed: true}}
		for f := range strings.FieldsSeq(value) {
			argv = append(argv, Word{Text: f, Fixed: true})
		}
		runFinder(t).addFrom(cmd, append(argv, rest...), "alias")
	case strings.HasPrefix(key, "alias.") && len(rest) > 0:
		t.readHanded(text + " " + (&Command{Argv: rest}).String())
	default:
		runFinder(t).addFrom(cmd, pushOf(key, value), "-c")
		t.readHanded(text)
	}
}

// pushOf returns the push that a setting stands for: of remote.origin.push +main, git push origin
// +main; nil for other settings.
func pushOf(key, value string) []Word {
	remote, ok := strings.CutPrefix(key, "remote.")
	name, pushes := strings.CutSuffix(remote, ".push")
	mirrored, mirrors := strings.CutSuffix(remote, ".mirror")
	switch {
	case ok && pushes:
		return fixedWords([]string{"git", "push", name, value})
	case ok && mirrors:
		return fixedWords([]string{"git", "push", mirrored, "--mirror"})
	}
	return nil
}
