package shell

import (
	"maps"
	"slices"
	"strings"
)

// versioned are programs whose names may include a version: python3.12 is python.
var versioned = setOf("python pip pypy perl ruby gem node nodejs php lua luajit tclsh bash zsh ksh gawk " +
	"go kubectl npm terraform tofu gcc clang java")

// programName returns the name of a program as the tables have it: without its folder,
// .exe and version, and in lower case, because the file system may ignore the case. Zsh
// replaces =rm with the path of rm.
func programName(text string) string {
	name := strings.TrimPrefix(base(text), "=")
	if tabled[name] {
		return name
	}
	lower := strings.ToLower(name)
	if i := strings.LastIndexByte(lower, '\\'); i >= 0 && strings.HasSuffix(lower, ".exe") { // C:\x\git.exe
		lower = lower[i+1:]
	}
	for _, ext := range []string{".exe", ".cmd", ".bat", ".com"} {
		if cut, ok := strings.CutSuffix(lower, ext); ok && cut != "" {
			lower = cut
		}
	}
	if plain, ok := otherNames[lower]; ok {
		return plain
	}
	for _, prefix := range []string{"gnu", "g"} {
		if rest, ok := strings.CutPrefix(lower, prefix); ok && gnu[rest] {
			return rest
		}
	}
	if tabled[lower] {
		return lower
	}
	return withoutVersion(lower)
}

// tabled are the programs in any of the tables. It is read for every word that may be a
// program.
var tabled = func() map[string]bool {
	all := map[string]bool{}
	for name := range programs {
		all[name] = true
	}
	for name := range wrappers {
		all[name] = true
	}
	for _, table := range []map[string]bool{shells, interpreters, schedules, changesShell, startsShell} {
		maps.Copy(all, table)
	}
	return all
}()

var otherNames = map[string]string{
	"sudo-rs": "sudo", "su-rs": "su", "kubecolor": "kubectl", "microk8s.kubectl": "kubectl", "hub": "git",
	"nc.openbsd": "nc", "nc.traditional": "nc", "vim.basic": "vim", "vim.tiny": "vim", "vim.nox": "vim", "vim.gtk3": "vim",
	"zf_chgrp": "chgrp", "zf_chmod": "chmod", "zf_chown": "chown", "zf_ln": "ln", "zf_mkdir": "mkdir", "zf_mv": "mv", "zf_rm": "rm", "zf_rmdir": "rmdir", "zf_sync": "sync",
	"mke2fs": "mkfs.ext4", "yarnpkg": "yarn", "docker.io": "docker", "batcat": "bat", "py.test": "pytest",
}

// gnu are programs whose names get the prefix g where the system has its own version.
var gnu = setOf("cat chmod chown cp cut date dd df du env find head install kill ln ls mkdir mv nice nohup rm rmdir sed shred sleep sort stdbuf " +
	"tail tar tee time timeout touch truncate uniq unlink xargs")

// firstByte returns the first letter of a program's name, in lower case. It is the same
// for all names of one program.
func firstByte(program string) byte {
	name := strings.TrimPrefix(base(program), "=")
	if i := strings.LastIndexByte(name, '\\'); i >= 0 {
		name = name[i+1:]
	}
	if plain, ok := otherNames[strings.ToLower(name)]; ok {
		name = plain
	}
	switch {
	case name == "":
		return 0
	case len(name) > 4 && strings.EqualFold(name[:3], "gnu") && gnu[strings.ToLower(name[3:])]:
		return name[3] | 0x20
	case len(name) > 2 && name[0]|0x20 == 'g' && gnu[strings.ToLower(name[1:])]:
		return name[1] | 0x20
	}
	return name[0] | 0x20
}

func withoutVersion(name string) string {
	if plain := strings.TrimRight(name, "0123456789.-"); versioned[plain] {
		return plain
	}
	return name
}

// sameProgram reports whether a program is the one that a rule names. The folder
// matters only if both have one.
func sameProgram(token, program string) bool {
	if token == program {
		return true
	}
	if strings.Contains(token, "/") && strings.Contains(program, "/") {
		return false
	}
	a, b := withoutVersion(programName(token)), withoutVersion(programName(program))
	return a == b || strings.HasPrefix(b, a+".") && families[a]
}

// families are names that others extend with a dot, such as mkfs.ext4.
var families = setOf("mkfs fsck")

// spellNames writes a command in its usual form if it has an equivalent one: git-push,
// docker-compose, npx.
func spellNames(argv []Word) []Word {
	name := programName(argv[0].Text)
	first, second, ok := strings.Cut(name, "-")
	switch {
	case ok && first == "git" && second != "":
	case name == "docker-compose" || name == "podman-compose":
	case name == "npx":
		first, second = "npm", "exec"
	case name == "sudoedit":
		first, second = "sudo", "-e"
	default:
		return argv
	}
	return slices.Concat([]Word{{Text: first, Fixed: true}, {Text: second, Fixed: true}}, argv[1:])
}

func fixedWords(tokens []string) []Word {
	words := make([]Word, len(tokens))
	for i, t := range tokens {
		words[i] = Word{Text: t, Fixed: true}
	}
	return words
}

// addPowerNames adds the other names of a command that stops or restarts the machine:
// systemctl reboot, shutdown -r and init 6 are all reboot, and a rule about shutdown is
// about them, too.
func (r runFinder) addPowerNames(cmd Command, name string) {
	verb := powerVerb(name, cmd.Argv[1:])
	if verb == "" {
		return
	}
	forms := []string{verb, "systemctl " + verb, "shutdown " + powerOptions[verb]}
	for _, form := range forms {
		argv := fixedWords(strings.Fields(form))
		if argv[0].Text != name {
			r.line.Nested = append(r.line.Nested, Command{Argv: argv, Offset: cmd.Offset, Via: via(cmd, name)})
		}
	}
}

// powerOptions are the options of shutdown that choose how the machine stops.
var powerOptions = map[string]string{"poweroff": "-P", "reboot": "-r", "halt": "-H"}

func powerVerb(name string, args []Word) string {
	switch name {
	case "poweroff", "reboot", "halt":
		return name
	case "init", "telinit":
		return firstOf(args, map[string]string{"0": "poweroff", "6": "reboot"})
	case "shutdown":
		switch {
		case shortOption(args, "c"): // cancels a shutdown
			return ""
		case shortOption(args, "r") || holdsWord(args, "--reboot"):
			return "reboot"
		case shortOption(args, "H") || holdsWord(args, "--halt"):
			return "halt"
		}
		return "poweroff"
	case "systemctl", "loginctl":
		return firstOf(args, map[string]string{
			"poweroff": "poweroff", "reboot": "reboot", "halt": "halt", "kexec": "reboot", "soft-reboot": "reboot",
			"poweroff.target": "poweroff", "reboot.target": "reboot", "halt.target": "halt", "kexec.target": "reboot",
			"runlevel0.target": "poweroff", "runlevel6.target": "reboot",
		})
	}
	return ""
}

func firstOf(args []Word, table map[string]string) string {
	for _, a := range args {
		unit := strings.TrimPrefix(strings.TrimSuffix(a.Text, ".service"), "systemd-")
		if to := table[unit]; a.Fixed && to != "" {
			return to
		}
	}
	return ""
}

// ownWords are programs whose arguments are their own sub-commands, targets and names:
// make rm does not run rm. A command follows only after one of the words listed with a
// program.
var ownWords = map[string]string{
	"make": "", "gmake": "", "ninja": "", "mvn": "", "mage": "", "tox": "",
	"bazel": "run", "nx": "run-commands exec", "pre-commit": "",
	"aws": "ssm ecs ec2-instance-connect emr codebuild batch lambda", "gcloud": "ssh run-command exec", "gsutil": "", "az": "run-command ssh exec", "heroku": "run run:detached ps:exec",
	"vercel": "exec", "netlify": "exec dev:exec", "fly": "ssh console exec", "flyctl": "ssh console exec", "doctl": "ssh", "firebase": "emulators:exec", "wrangler": "",
	"apt": "", "apt-get": "", "brew": "sh exec ruby", "pacman": "", "apk": "", "snap": "run", "flatpak": "run", "conda": "run", "mamba": "run",
	"redis-cli": "eval evalsha script function", "docker": "exec run create attach", "podman": "exec run create unshare machine ssh", "nerdctl": "exec run create",
	"multipass": "exec shell", "minikube": "ssh kubectl", "rclone": "", "s3cmd": "", "mc": "", "skopeo": "",
	"pulumi": "", "ollama": "", "pipx": "run", "rustup": "run", "pyenv": "exec", "rbenv": "exec", "asdf": "exec", "volta": "run", "gem": "exec", "svn": "", "hg": "", "etcdctl": "exec-watch lock elect watch",
}

// hasOwnWords reports whether the plain arguments of a program are its own words.
func hasOwnWords(name string, args []Word) bool {
	runners, ok := ownWords[name]
	return ok && !slices.ContainsFunc(args, func(a Word) bool { return !a.Fixed || isListed(runners, a.Text) || a.Text == "--" })
}

// guessArguments is guessCommands for the arguments of a program. If the program has
// its own words, only options, words after options that may name a program, settings
// and texts may be commands.
func (r runFinder) guessArguments(cmd Command, name string, args []Word) {
	if !hasOwnWords(name, args) {
		r.guessCommands(args)
		return
	}
	for i, w := range args {
		if i > 0 && mayNameProgram(args[i-1].Text) {
			r.line.Nested = append(r.line.Nested, Command{Argv: args[i:], Offset: cmd.Offset, Via: via(cmd, name)})
			r.guessCommands([]Word{w})
		} else if !isOwnWord(w) {
			r.guessCommands([]Word{w})
		}
	}
}

func isOwnWord(w Word) bool {
	return w.Text != "" && w.Text[0] != '-' && !strings.Contains(w.Text, "=") && !isText(w.Text)
}

// mayNameProgram reports whether the word after an option may be a program.
func mayNameProgram(option string) bool {
	return strings.HasPrefix(option, "-") && !strings.Contains(option, "=") && (isListed("-c -e -x -o", option) ||
		slices.ContainsFunc(runningParts, func(part string) bool { return strings.Contains(option, part) }))
}

// runningParts are parts of the names of options that may be followed by a program.
var runningParts = strings.Fields("exec command cmd program pager editor script shell hook helper render proxy rsh entrypoint filter")

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
	copies = setOf("cp mv ln install rsync scp")
	// interpreters run code of other languages, in which any word may name a program.
	interpreters = setOf("python python2 python3 perl ruby node nodejs deno bun php lua luajit awk gawk mawk nawk " +
		"tclsh expect osascript R Rscript julia octave gnuplot ipython pypy pypy3 nu xonsh elvish ed ex vi vim nvim view vimdiff gvim rvim rview emacs gdb lldb pwsh powershell m4 bc dc jshell groovy scala irb ghci make gmake puppet chef-apply clojure clj bb janet fennel hy")
	// evaluates are builtins that evaluate an index in their arguments, and run $(...)
	// in it, quoted or not.
	evaluates = setOf("test [ printf unset read let mapfile readarray wait getopts declare typeset local export readonly")
	// schedules are programs that run the commands they read.
	schedules = setOf("at batch crontab parallel")
	// readsCommands are programs that take commands from their input, with or without a
	// file to work on.
	readsCommands = setOf("ed ex m4 gdb lldb sftp ftp lftp smbclient telnet fdisk sfdisk parted")
	// scripted are programs with a language of their own that cannot start programs, or only in sed.
	scripted = setOf("sed gsed jq yq")
	// readsSource are compilers and similar programs whose source can include files.
	readsSource = setOf("as gas gcc cc c++ g++ clang clang++ cpp cc1 cc1plus gfortran gdc tcc ld gold lld nasm yasm fasm rustc swiftc ghc runghc ocaml sml dtc iverilog verilator " +
		"tex latex pdftex pdflatex xetex xelatex luatex lualatex groff troff nroff soelim pandoc asciidoctor rst2html dot neato gs ghostscript ps2pdf cmake ninja xmllint xsltproc xmlstarlet " +
		"sass lessc stylus esbuild plantuml lilypond povray openscad ffmpeg convert magick inkscape rsvg-convert wkhtmltopdf weasyprint protoc flex bison")
	// connects are programs that can feed what arrives over a network into another.
	connects = setOf("nc ncat netcat socat websocat websocketd tcpserver ttyd gotty shell2http telnetd in.telnetd " +
		"cryptcat sbd tcpclient tcpsvd udpsvd s6-tcpserver systemd-socket-activate upterm tmate sshx sshd dropbear inetd xinetd")
	// admits are those that give a shell to people elsewhere without being told to.
	admits = setOf("tmate sshx sshd dropbear inetd xinetd")
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
