// Package shell reads command lines for permission rules: which simple commands a line
// runs, which of them an allow rule covers, and which a deny or ask rule is about. It
// starts no shell and reads no file.
//
// [Parse] analyses a text as a [Line], [Compile] compiles the content of a rule to a
// [Pattern]. An allow rule must not cover more than its author meant, and a deny or ask
// rule must not miss what it is about, so there is one method for each direction:
//
//	l := shell.Parse("git status && git log -n 3")
//	if l.Hidden != nil { ... }        // deny: a person cannot see what runs
//	l.Cover(allow).Covered            // all allow rules in force together
//	matched, err := deny.Matches(l)   // one deny or ask rule; err: it may match
//	l.ReadOnly()                      // nothing that it runs changes anything
//
// # What an allow rule covers
//
// A line is covered if bash and sh (dash) read it the same way, everything it runs is
// known before it runs, and each of its simple commands is covered by a rule. Three
// readings must agree: the parser's for bash, its reading for sh, and that of a small
// reader of our own for the language that they share. Calls may be joined by && || ; |
// and newlines, and may be in if, while, for, case, a group or a subshell. Anything
// else is asked about, and so are substitutions but the text "$(cat <<'EOF' ... )",
// expansions but $? after echo, globs that do not begin with ./ or /, redirects except to /dev/null and
// between descriptors, assignments, and builtins that change the shell. [Line.Reasons]
// lists the reasons.
//
// A rule without :* and star covers the command or line that it states, word for word,
// including operators. Any other rule covers commands that literally begin with its
// words: ./git is not git. What follows must be in the option table, options.txt, which
// lists for each program and sub-command the options and operands that a rule admits;
// everything else is asked about. The command cannot undo an option of the rule or
// repeat it with another value, and it can have at most one option of a choice such as
// -n and -A. A rule that ends among the options before a sub-command covers no command.
// In a wildcard such as "rm /tmp/*" the star matches files below /tmp, not options. A
// program that is not in the table is covered only by a rule that is the whole command,
// or by one with [Pattern.TrustOptions]. Commands that are proved to change nothing
// need no rule if a rule covers another command of the line. The line is asked about if
// it combines cd with a program that its folder configures, such as git, or if the rule
// for a command after cd names a relative file. After a pipe, a program that may run
// what it reads is not covered.
//
// # What a deny or ask rule is about
//
// It is about the text as AgentScope matches it, and about every command in it: in
// substitutions, control flow and functions, run by env, sudo, xargs, find -exec, sh
// -c, eval and others, in text for other shells, in what pagers, editors, aliases and
// scripts of sed are told to run, and what only sh would run. Options may be in another
// order, clustered, or before a sub-command. A program may have a version, another case
// or .exe, and its other names: git-push, docker container rm, kubectl delete ns, npm
// pub, systemctl reboot. Files are also seen from the folders that the line changes to,
// and what a line writes to a file that it then runs is read, too. After an unknown
// program or sub-command any argument may be the command, except for programs with
// words of their own: make rm and aws s3 rm do not run rm. If what the line runs is not
// known before it runs, as with a text piped to a shell, [Pattern.Matches] returns an
// [ErrUnclear]. [Line.Unread] says whether a part was not read at all.
//
// # What it does not do
//
// The package does not see the environment or the files of the machine that runs the
// line, such as a git alias, a changed PATH, a program with a misleading name, or the
// content of a script that was there before. A rule that covers make covers what the
// makefile does, and one that covers terraform plan covers what its providers do.
//
// Lines and patterns do not change and can be shared by goroutines. No input causes a
// panic, and the work on any input is bounded.
package shell
