// Package shell reads command lines for permission rules: which simple commands
// a line runs, which of them an allow rule covers, and which a deny or ask rule
// is about. It starts no shell and looks at no file.
//
// [Parse] analyses a text into a [Line], [Compile] a rule's content into a
// [Pattern]. An allow rule must not cover more than a person meant by it, a
// deny or ask rule must not miss what it is about; so the two directions are
// two methods:
//
//	l := shell.Parse("git status && git log -n 3")
//	if l.Hidden != nil { ... }        // deny: a person cannot see what runs
//	l.Cover(allow).Covered            // all allow rules in force together
//	matched, err := deny.Matches(l)   // one deny or ask rule; err: it may match
//	l.ReadOnly()                      // nothing that it runs changes anything
//
// # What an allow rule covers
//
// A line is covered if bash and sh (dash) read it the same way, everything it
// runs is known before it runs, and each of its simple commands is covered by
// some rule. Three readings have to agree: the parser's for bash, its for sh,
// and a small reader of our own that knows the common language only. What is
// not plain calls joined by && || ; | and newlines, or standing in if, while, for,
// case, a group or a subshell, is asked about, and so are
// substitutions, expansions, globs that do not begin with ./ or /, redirects
// except to /dev/null and between descriptors, assignments, and builtins that
// change the shell. [Line.Reasons] tells them.
//
// A rule without :* and star covers the command or the line that it is, word for
// word, operators included. Any other rule covers a command that begins with its
// words, literally: ./git is not git. What follows has to be in the option table,
// options.txt, which lists for each program and sub-command the options and
// operands that a rule admits; everything else is asked about. An option that the
// rule writes is not undone or given again with another value, and of a choice
// such as -n and -A at most one stands in a command. A rule that ends among the
// options before a sub-command covers none. In a wildcard such as "rm /tmp/*" the
// star stands for files below /tmp, not for options. A program without a line is
// covered only by a rule that is the whole command, or by one with
// [Pattern.TrustOptions]. Commands that are proved to change nothing need no rule
// next to one that covers another command of the line. cd together with a program
// that is configured by its folder, such as git, is asked about, and so is a command
// after cd if its rule names a relative file. A program that may run what it reads
// is not covered behind a pipe.
//
// # What a deny or ask rule is about
//
// The text as AgentScope matches it, and every command in it: in substitutions,
// control flow and functions, behind env, sudo, xargs, find -exec, sh -c, eval
// and others, in text for other shells, in what pagers, editors, aliases and
// scripts of sed are told to run, and what sh alone would run. Options may stand
// in another order or clustered, and before a sub-command; a program may carry
// a version, another case or .exe, and have the other names that it is known by:
// git-push, docker container rm, kubectl delete ns, npm pub, systemctl reboot.
// Files are seen from the folders that the line changes to, and what a line writes
// into a file that it then runs is read as well. Behind a program or a sub-command
// that is not known any argument may be the command, but for programs with words of
// their own: make rm and aws s3 rm run no rm. Where the line is not known
// before it runs, a text that is piped or read into a shell included,
// [Pattern.Matches] returns an [ErrUnclear]. [Line.Unread] says whether a part of
// it was not read at all.
//
// # What it does not do
//
// It knows neither the environment nor the files of the machine that runs the
// line: a git alias, a changed PATH or a program that is not what its name says
// are not seen, and neither is what stands in a script that was there before. A
// rule that covers make covers what the makefile does, and one that covers
// terraform plan what its providers do.
//
// Lines and patterns do not change and may be shared by goroutines. No input
// panics, and the work on any input is bounded.
package shell
