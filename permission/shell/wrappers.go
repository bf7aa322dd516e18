package shell

import (
	"slices"
	"strings"
)

// wrapper is a program that runs the command in its arguments.
type wrapper struct {
	flags    string   // short options without a value
	values   string   // short options with one
	optional string   // short options with one in the same word, or none
	long     []string // long options without a value, or with one after "="
	longs    []string // long options with a separate value
	own      int      // arguments of its own before the command
	assigns  bool     // NAME=value may precede the command
}

func isWrapper(name string) bool {
	_, ok := wrappers[name]
	return ok
}

// wrappers are described exactly, so "xargs grep rm" is not rm. An option that is not
// listed makes every argument a possible command.
var wrappers = addBare(bareWrappers, map[string]wrapper{
	"env": {flags: "iv0", values: "uC", long: []string{"--ignore-environment", "--null", "--debug"}, longs: []string{"--unset", "--chdir"}, assigns: true},
	"sudo": {flags: "AbEHkKnPS", values: "ugpCDRThrt", long: []string{"--preserve-env", "--set-home", "--non-interactive", "--stdin"},
		longs: []string{"--user", "--group", "--prompt", "--chdir", "--host"}, assigns: true},
	"doas":    {flags: "Ln", values: "uC"},
	"timeout": {flags: "v", values: "ks", long: []string{"--preserve-status", "--foreground", "--verbose"}, longs: []string{"--kill-after", "--signal"}, own: 1},
	"nice":    {flags: "0123456789", values: "n", longs: []string{"--adjustment"}},
	"stdbuf":  {values: "ioe", longs: []string{"--input", "--output", "--error"}},
	"time":    {flags: "apqvlhV", values: "fo", long: []string{"--portability", "--verbose", "--append"}, longs: []string{"--format", "--output"}},
	"command": {flags: "p"},
	"exec":    {flags: "cl", values: "a"},
	"xargs": {flags: "0prtxo", values: "IEdLnPsa", optional: "iel", long: []string{"--null", "--interactive", "--no-run-if-empty", "--verbose", "--exit", "--replace", "--max-lines", "--eof"},
		longs: []string{"--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars"}},
	"setsid":      {flags: "cfw", long: []string{"--ctty", "--fork", "--wait"}},
	"ionice":      {flags: "t", values: "cn", long: []string{"--ignore"}, longs: []string{"--class", "--classdata"}},
	"taskset":     {flags: "a", own: 1},
	"chroot":      {longs: []string{"--userspec", "--groups"}, own: 1},
	"flock":       {flags: "sxneuo", values: "wE", long: []string{"--shared", "--exclusive", "--nonblock", "--close"}, longs: []string{"--timeout", "--wait"}, own: 1},
	"npx":         {flags: "yq", long: []string{"--yes", "--no-install", "--quiet", "--no"}},
	"caffeinate":  {flags: "dimsu", values: "tw"},
	"strace":      {flags: "fqcCrtTvxy", values: "eopsSu"},
	"ltrace":      {flags: "fcCrtT", values: "eops"},
	"setarch":     {flags: "R"},
	"faketime":    {own: 1},
	"proxychains": {flags: "q", values: "f"},
})

// bareWrappers have no known options. The optional priority of chrt is taken for the
// program; arch is the program of macOS.
const bareWrappers = "arch builtin bunx busybox catchsegv chronic chrt dbus-run-session fakeroot firejail nohup nsenter numactl pnpx prlimit proot " +
	"rlwrap systemd-inhibit systemd-run torsocks toybox ts unbuffer unshare uvx valgrind"

func addBare(names string, table map[string]wrapper) map[string]wrapper {
	for name := range strings.FieldsSeq(names) {
		table[name] = wrapper{}
	}
	return table
}

// replacedWord returns the mark that xargs replaces with what it reads, by default {}.
func replacedWord(argv []Word) string {
	mark := "{}"
	for i, a := range argv {
		switch {
		case strings.HasPrefix(a.Text, "-I"):
			if mark = a.Text[2:]; mark == "" && i+1 < len(argv) {
				mark = argv[i+1].Text
			}
		case strings.HasPrefix(a.Text, "-i") && len(a.Text) > 2:
			mark = a.Text[2:]
		case strings.HasPrefix(a.Text, "--replace="):
			mark = strings.TrimPrefix(a.Text, "--replace=")
		}
	}
	return mark
}

// skip returns the words from the command on; false if it finds an option that it does
// not know.
func (w wrapper) skip(args []Word) ([]Word, bool) {
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if !a.Fixed {
			break
		}
		if a.Text == "--" {
			i++
			break
		}
		if len(a.Text) < 2 || a.Text[0] != '-' {
			break
		}
		separate, ok := w.option(a.Text)
		if !ok {
			return nil, false
		}
		if separate {
			i++
		}
	}
	for w.assigns && i < len(args) && args[i].Fixed && strings.Contains(args[i].Text, "=") {
		i++
	}
	i += w.own
	if i > len(args) {
		return nil, true
	}
	return args[i:], true
}

func (w wrapper) option(arg string) (separate, ok bool) {
	if strings.HasPrefix(arg, "--") {
		name, _, given := strings.Cut(arg, "=")
		if slices.Contains(w.longs, name) {
			return !given, true
		}
		return false, slices.Contains(w.long, name)
	}
	for i := 1; i < len(arg); i++ {
		if strings.IndexByte(w.values, arg[i]) >= 0 {
			return i == len(arg)-1, true
		}
		if strings.IndexByte(w.optional, arg[i]) >= 0 {
			return false, true
		}
		if strings.IndexByte(w.flags, arg[i]) < 0 {
			return false, false
		}
	}
	return false, true
}

func setOf(words string) map[string]bool {
	s := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		s[w] = true
	}
	return s
}

var (
	// shells run the text after -c, or what they read.
	shells = setOf("sh bash dash zsh ksh mksh ash rbash fish yash posh csh tcsh")
	// startsShell are programs that run a shell unless told otherwise.
	startsShell = setOf("su runuser newgrp sg login chroot unshare nsenter fakeroot script nix-shell machinectl systemd-run toolbox distrobox " +
		"sudo doas sshpass mosh autossh busybox toybox")
	// takesText has the letter of the option whose value, in the same word or the next,
	// is a text for a shell.
	takesText = map[string]string{"env": "S", "script": "c", "su": "c", "runuser": "c", "sg": "c", "flock": "c", "vagrant": "c", "fly": "C"}
	// copies are programs that can give a program another name.
	copies = setOf("cp mv ln install")
	// interpreters run code of other languages, in which any word may name a program.
	interpreters = setOf("python python2 python3 perl ruby node nodejs deno bun php lua luajit awk gawk mawk nawk " +
		"tclsh expect osascript R Rscript julia octave gnuplot ipython pypy pypy3 nu xonsh elvish ed ex vi vim nvim view vimdiff gvim rvim rview emacs gdb lldb pwsh powershell m4 bc dc jshell groovy scala irb ghci make gmake")
	// evaluates are builtins that evaluate an index in their arguments, and run $(...)
	// in it, quoted or not.
	evaluates = setOf("test [ printf unset read let mapfile readarray wait getopts declare typeset local export readonly")
	// schedules are programs that run the commands they read.
	schedules = setOf("at batch crontab parallel")
	// readsCommands are programs that take commands from their input, with or without a
	// file to work on.
	readsCommands = setOf("ed ex m4 gdb lldb sftp ftp lftp smbclient telnet fdisk sfdisk parted")
	// changesShell are builtins that can change what the rest of the line does, and
	// builtins that run their arguments as a text.
	changesShell = setOf("alias unalias set unset hash source . eval exec trap enable shopt builtin command export declare " +
		"typeset local readonly let read mapfile readarray getopts umask ulimit bind complete compopt compgen fc history coproc " +
		"logout suspend disown caller return break continue shift times wait jobs fg bg dirs newgrp")
	// reserved are words with a special meaning in place of a program.
	reserved = setOf("if then else elif fi do done case esac while until for in select function time coproc { } ! [[ ]]")
	// changesFolder are builtins that change the folder in which the commands after them run.
	changesFolder = setOf("cd pushd popd")
)
