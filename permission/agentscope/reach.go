package agentscope

import (
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/shell"
)

// This file finds the files that a line may reach, for rules about files.

var (
	// printers open no file that their arguments name, except print: outside zsh it may be run-mailcap.
	printers = setOf("echo print printf true false pwd : export unset exit return break continue shift local declare readonly read set test [ [[ sleep kill wait whoami id uname")
	// declarers set variables.
	declarers = setOf("export declare typeset readonly local")
	// movers run another program in a folder or below a root of their own.
	movers = setOf("chroot unshare nsenter bwrap proot systemd-nspawn systemd-run")
	// walkers read or copy folders with everything in them; deepWalkers do so only with an option.
	walkers     = setOf("rg ag ack ugrep tar zip 7z 7za rsync mv ln docker podman cpio pax bsdtar unison rclone restic borg")
	deepWalkers = setOf("grep egrep fgrep zgrep cp scp diff sftp gzip zstd")
	// removers change folders with everything in them.
	removers = setOf("rm chmod chown chgrp shred find mv rmdir")
	// namers matches a program and one of its words if the next word is not a folder into which it writes:
	// the name of a target, or a file that it only reads.
	namers = regexp.MustCompile(`^(g?make|ninja|just|rake|tox|pytest|ls|du|wc|stat|file|(npm|pnpm|yarn|bun|go) run|(go|cargo) test) `)
	// intoFolder matches the options before the folder into which a command writes.
	intoFolder = regexp.MustCompile(`^-(o|t|d|P|p|-prefix|-target.*|-output.*|-dest.*|-dir.*|-root|-bind)$`)
	// here are walkers that search the current folder unless a folder is named.
	here = setOf("rg ag ack ugrep grep egrep fgrep")
	// servers matches a command that packs or serves a folder with everything in it.
	servers = regexp.MustCompile(`^(?:python[0-9.]* (?:-\S+ )*-m ?(?:tarfile|zipfile|zipapp|http\.server|SimpleHTTPServer)\b|jar |ruby .*-run\b|php .*-S|busybox httpd\b|(?:kubectl|oc) .*-(?:f|k|-filename|-kustomize|-from-file)[ =]?(?:\S*=)?(?:\.{1,2}|[^.\s-][^.\s]*)/?(?: |$))`)
	// document matches a here-document or a here-string.
	document   = regexp.MustCompile(`^[0-9]*<<`)
	hereString = regexp.MustCompile(`^[0-9]*<<<`)
	// passers matches commands that neither run what they read nor open files that it names.
	passers = regexp.MustCompile(`^(?:(?:cat|tee|head|tail|grep|cut|tr|base64|cd|echo|printf|test|\[|true|false|exit) |wc (?:-[clmwL]+ )?$)`)
	// stores matches what may write a text to a file.
	stores   = regexp.MustCompile(`>[^&]|>&\s*[^\d\s-]|\btee\b`)
	unquoted = strings.NewReplacer(`"`, "", "'", "", `\`, "")
	deep     = regexp.MustCompile(`^(-[A-Za-z]*[rRa][A-Za-z]*|--(recursive|archive|dereference-recursive|directories=recurse))$`)
	// runsEach are the options of fd that run a program.
	runsEach = regexp.MustCompile(`^(-[A-Za-z0-9]*[xX].*|--exec.*)$`)
	// listed matches a command that gets names of files from its input or from a file, or patches another folder.
	listed    = regexp.MustCompile(`^(?:(?:cpio|pax|parallel)(?: |$)|curl (?:.* )?-(?:[a-zA-Z]*K|-config)|(?:wget|aria2c) (?:.* )?-(?:[a-zA-Z]*i|-input-file)|tar (?:-?|.* -)[A-Za-z]*T|.* --(?:files0?-from|stdin-paths|pathspec-from-file)|file (?:.* )?-[A-Za-z]*f|(?:ar|g?cc|g\+\+|clang|ld|javac?) (?:.* )?@|(?:patch|git (?:.* )?(?:apply|am)) (?:.* )?-(?:[^- ]*d|-d(?:i|[= ]|$)))`)
	transfers = regexp.MustCompile(`(?i)ftp|smbclient|cadaver`)
	// local matches commands that transfer no files, even if code or a text in them has such a word.
	local = regexp.MustCompile(`^(?:git|ls|mkdir|cp|mv|rm|touch|chmod|diff|patch) `)
	// inCode splits code into texts that may be paths.
	inCode = regexp.MustCompile("[\\s\"'`(){}<>;|&,=]+")
)

// pathFinder finds the paths that a line may reach.
type pathFinder struct {
	*bashCall
	linePaths
	in        []string // the folders in which its commands may run
	transfers bool     // a program of the line may be a client of file transfer
	coders    []string // the interpreters that run
	opens     bool     // a command may take its input, or a file, for code or names
	feeds     bool     // such a command reads what another prints
	compiles  bool     // a command reads a source that may name files
	seen      map[seenName]bool
	steps     int // words looked at
}

// seenName is a name in a list.
type seenName struct {
	list *[]string
	name string
}

func (b *bashCall) paths() linePaths {
	b.isQuiet = b.line.ReadOnly()
	f := &pathFinder{bashCall: b, seen: map[seenName]bool{}, transfers: transfers.MatchString(b.text)}
	for _, c := range b.allCommands() {
		line, sets := strings.Join(c.Args(), " ")+" ", len(c.Assigns) > 0 // PATH=.
		if sets || len(c.Argv) > 0 && !passers.MatchString(line) {
			f.feeds = f.feeds || c.IsPiped()
			f.opens, f.transfers = true, f.transfers || sets || !local.MatchString(line)
		}
		name := programOf(c)
		if shell.RunsCode(name) {
			f.coders = append(f.coders, name)
		}
		if shell.ReadsSource(name) {
			f.compiles = true
			f.checkSource(c, name)
		}
	}
	f.in = f.findFolders()
	for _, r := range b.tree.redirects {
		f.addTarget(r.of(b.text))
	}
	for _, c := range b.allCommands() {
		for _, r := range c.Redirects {
			isString := hereString.MatchString(r)
			switch {
			case isString:
				f.addDocument(f.expandMarks(variable.ReplaceAllString(r, "\x00$1$2")))
			case document.MatchString(r):
				f.addDocument(r)
			}
			if isString && f.opens || !document.MatchString(r) {
				f.addTarget(strings.TrimLeft(r, "0123456789<>&| \t"))
			}
		}
		f.addCommand(c)
	}
	if why := b.line.Unclear(); why != nil {
		f.unknown = "a command that is not known before it runs (" + why.Detail + ")"
	}
	if slices.ContainsFunc(b.line.Reasons, func(r shell.Reason) bool { return r.Code == shell.CodeSyntax || r.Code == shell.CodeTooLong }) {
		f.unknown = "a line that cannot be read"
		for _, w := range inCode.Split(b.text, -1) {
			f.add(&f.named, w)
		}
	}
	return f.linePaths
}

// add adds a name to a list, as seen from every folder in which the line may run.
func (f *pathFinder) add(to *[]string, name string) {
	f.addOnce(to, name)
	if strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") {
		return
	}
	for _, folder := range f.in {
		f.addOnce(to, folder+"/"+name)
	}
}

// Limits on the names that are compared with each rule, and on the words that are looked at.
const (
	maxNames = 1 << 14
	maxWords = 1 << 17
)

func (f *pathFinder) addOnce(to *[]string, name string) {
	switch key := (seenName{to, name}); {
	case f.seen[key]:
	case len(f.seen) >= maxNames:
		f.unknown = "one of more names than can be looked at"
	default:
		f.seen[key] = true
		*to = append(*to, name)
	}
}

func (f *pathFinder) findFolders() []string {
	b := f.bashCall
	all := []string{b.places.cwd}
	if b.given != "" {
		all = append(all, b.given)
	}
	change := func(text string) {
		name, from := text, all // a relative path can follow each of them
		switch {
		case len(all) > maxFolders, isOtherHome(name), strings.ContainsAny(name, "$*?["), !b.places.posix && paths.IsForeign(name):
			f.unknown = text
			return
		case strings.HasPrefix(name, "/"), strings.HasPrefix(name, "~"):
			name, from = b.places.expandHome(name), []string{""}
		}
		for _, folder := range from {
			if _, known := shell.Follow(folder+"/"+name+"/x", b.places.cwd); !known {
				f.unknown = text
			}
			if to, _ := shell.Follow(folder+"/"+name, b.places.cwd); !slices.Contains(all, to) {
				all = append(all, to)
			}
		}
	}
	if b.foreign {
		f.unknown = b.given
	}
	for _, c := range b.allCommands() {
		args, name := c.Argv, programOf(c)
		if movers[name] {
			f.unknown = "a path in another folder or root"
		}
		for i, w := range args {
			switch m := changing.FindStringSubmatch(b.expand(w)); {
			case m == nil:
			case m[1] != "":
				change(m[1])
			case i+1 < len(args):
				change(b.expand(args[i+1]))
			}
		}
		if name != "cd" && name != "pushd" {
			continue
		}
		args = slices.DeleteFunc(slices.Clone(args[1:]), func(w shell.Word) bool { return len(w.Text) > 1 && strings.HasPrefix(w.Text, "-") })
		switch {
		case strings.Contains(b.text, "CDPATH"):
			f.unknown = "a folder below CDPATH"
		case len(args) == 0:
			change("~")
		case args[0].Text == "-":
			f.unknown = "cd -"
		default:
			change(b.expand(args[0]))
		}
	}
	return append(all, b.line.RunsIn(b.places.cwd)...)
}

// maxFolders bounds the folders in which one line is followed.
const maxFolders = 128

// changing matches the options by which a program runs in another folder, with the folder if it is
// in the same word.
var changing = regexp.MustCompile(`^(?:-C|--(?:directory|cd|chdir|cwd|work-tree|git-dir)(?:=|$))(.*)$`)

// expand returns the argument that a word stands for, with $ for what is not known.
func (b *bashCall) expand(w shell.Word) string {
	if w.Fixed {
		return w.Text
	}
	bare := w.Bare()
	if strings.Contains(w.Text, "{") { // a list in braces is * here, and may have a /
		bare = strings.ReplaceAll(bare, "*", "**")
	}
	return b.expandMarks(bare)
}

func (b *bashCall) expandMarks(bare string) string {
	if b.places.home != "" {
		bare = strings.ReplaceAll(bare, shell.MarkHome, strings.TrimRight(b.places.home, "/"))
	}
	bare = beginsPath.ReplaceAllStringFunc(bare, func(m string) string {
		return strings.NewReplacer(shell.MarkHome, "~", shell.MarkPwd, ".").Replace(m)
	})
	return strings.NewReplacer(shell.MarkHome, "$", shell.MarkPwd, "$").Replace(bare)
}

// beginsPath matches a variable that is the beginning of a path.
var beginsPath = regexp.MustCompile(`(^|[=:,@<])\x00(HOME|PWD)(/|$)`)

var variable = regexp.MustCompile(`\$(?:\{(HOME|PWD)\}|(HOME|PWD)\b)`)

func (f *pathFinder) addCommand(c shell.Command) {
	name := programOf(c)
	f.addSettings(c, name)
	if printers[name] || len(c.Argv) == 0 {
		isStored := f.opens && stores.MatchString(f.text) // a program may run the file, or what it reads
		taken := f.feeds || isStored
		if taken || len(c.Redirects) > 0 {
			texts, exact := c.Printed()
			for _, text := range texts {
				f.addDocument(text)
			}
			if taken && !exact || isStored && f.compiles && !areFixed(c.Argv) {
				f.unknown = "a file in the text of " + name
			}
		}
		if name != "print" {
			return
		}
	}
	if f.steps += len(c.Argv); f.steps > maxWords {
		f.unknown = "one of more words than can be looked at"
		return
	}
	use := f.useOf(c, name)
	operands := 0
	for i, w := range c.Argv[1:] {
		text := f.expand(w)
		for _, n := range f.addWord(text, w.Fixed) {
			below := n + "/*"
			if !w.Fixed {
				below = readGlob(n) + "/*"
			}
			switch {
			case use.walks:
				f.add(&f.globs, below)
			case removers[name]:
				f.add(&f.removed, below)
			case !f.isQuiet && use.mayFill(c.Argv[i].Text, text):
				f.add(&f.folders, n)
			}
		}
		if w.Fixed {
			f.addCode(name, w.Text)
		}
		if !strings.HasPrefix(text, "-") {
			operands++
		}
	}
	for _, r := range c.Redirects {
		f.addCode(name, r)
	}
	for _, w := range c.Inputs() {
		f.addCode(name, w.Text)
	}
	if use.everywhere || use.walks && operands < 2 && use.here {
		f.add(&f.globs, "*")
	}
}

// addSettings adds the values of variables, which may name files for a program: KUBECONFIG=x.
func (f *pathFinder) addSettings(c shell.Command, name string) {
	words := c.Settings()
	if declarers[name] {
		words = append(words, c.Argv[1:]...)
	}
	for _, w := range words {
		_, value, given := strings.Cut(unquoted.Replace(w.Text), "=")
		if !w.Fixed && strings.HasPrefix(w.Bare(), shell.MarkPwd) || strings.HasPrefix(w.Bare(), shell.MarkHome) {
			value = f.expand(w)
		}
		if given && !strings.ContainsAny(value, "$`") {
			for _, part := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ';' || r == ',' }) {
				f.addMaybe(part)
			}
		}
	}
}

// addMaybe adds a name that some program may open.
func (f *pathFinder) addMaybe(name string) {
	if name != "" {
		f.add(&f.globs, plainGlob.Replace(name))
	}
}

// plainGlob makes a name match only itself.
var plainGlob = strings.NewReplacer("*", "\x01", "?", "\x01")

// fileUse is how a command uses the files that its words name.
type fileUse struct {
	program    string
	walks      bool // it reads or copies folders with everything in them
	here       bool // it does so with the current folder, if it gets no other
	everywhere bool // it may read every file of the current folder
	fills      bool // a folder may be one into which it writes
}

// useOf returns how a command uses files, and adds the files that no word names.
func (f *pathFinder) useOf(c shell.Command, name string) fileUse {
	line := name + strings.TrimPrefix(strings.Join(c.Args(), " "), c.Argv[0].Text)
	has := func(option *regexp.Regexp) bool {
		return slices.ContainsFunc(c.Argv[1:], func(w shell.Word) bool { return option.MatchString(w.Text) })
	}
	if listed.MatchString(line) || c.ReadsUnknown() {
		f.unknown = "a name that " + name + " reads"
	}
	var git []shell.Word
	if name == "git" {
		git = shell.GitCommand(c.Argv[1:])
	}
	prints, serves := printsFiles(git), servers.MatchString(strings.ReplaceAll(line, "/dev/stdin", "-"))
	if prints { // files of the whole repository
		f.globs = append(f.globs, f.places.dirs[0]+"/*")
	}
	return fileUse{
		program:    name,
		walks:      walkers[name] || deepWalkers[name] && has(deep) || prints || serves || clonesFolder(git),
		here:       here[name] || serves,
		everywhere: prints || (name == "fd" || name == "fdfind") && has(runsEach),
		fills:      len(git) == 0 || !gitNamers[git[0].Text],
	}
}

// mayFill reports whether a word may name a folder into which the command writes files; before is the
// word before it.
func (u fileUse) mayFill(before, word string) bool {
	return u.fills && !namers.MatchString(u.program+" "+before+" ") || strings.HasPrefix(word, "-") || strings.Contains(word, "=") || intoFolder.MatchString(before)
}

// addTarget adds the file of a redirect, as written.
func (f *pathFinder) addTarget(raw string) {
	text := f.expandMarks(trimQuotes(variable.ReplaceAllString(raw, "\x00$1$2")))
	if strings.ContainsAny(text, "`\"'\\") {
		f.unknown = raw
		return
	}
	for _, n := range f.addWord(text, false) { // cp x /dev/stdin <folder
		f.add(&f.folders, n)
	}
}

var (
	fileURL = regexp.MustCompile(`(?i)^file://[^/]*`)
	// oddURL matches a URL of a file that curl spells otherwise: file:///%65tc, f[i-i]le:///etc.
	oddURL = regexp.MustCompile(`(?i)^(?:--url=)?(?:file:.*[\[{%]|[a-z]*[\[{][a-z0-9\[\]{},-]*:/)`)
)

// addWord adds what a word may name: the whole word, and the text before and after a sign that
// programs put next to a path: --file=x, @x, host:x, -fx. It returns them.
func (f *pathFinder) addWord(word string, fixed bool) []string {
	text := word
	if !fixed && (strings.ContainsRune(text, '$') || text == "..." || text == "{}") || oddURL.MatchString(text) {
		f.unknown = word
		return nil
	}
	if user, rest, _ := strings.Cut(text, "/"); len(user) > 1 && user[0] == '~' {
		if user != "~+" { // ~-, ~1, or the home folder of a user, which may be ours
			f.unknown = word
			return nil
		}
		text = "./" + rest
	}
	names := []string{text}
	if file, isURI := strings.CutPrefix(text, "file:"); isURI { // sqlite3 file:x?mode=ro
		file, _, _ = strings.Cut(file, "?")
		names = append(names, file)
	}
	if len(text) > 2 && text[0] == '-' && text[1] != '-' {
		names = append(names, text[2:])
	}
	if i := strings.IndexByte(text, '/'); i > 0 && (text[0] == '-' || text[0] == '+') { // -in/etc/passwd
		f.add(&f.globs, text[i:])
	}
	from := 0
	for i, r := range text {
		if strings.ContainsRune("=:,@<", r) && !strings.HasPrefix(text[i:], "://") {
			names = append(names, text[from:i], text[i+1:])
			from = i + 1
		}
	}
	for i, n := range names {
		n = fileURL.ReplaceAllString(n, "")
		names[i] = n
		f.add(&f.named, n)
		if !fixed && strings.ContainsAny(n, "*?[{") {
			f.add(&f.globs, readGlob(n))
			if !f.isQuiet {
				f.add(&f.globs, readGlob(n)+"/*")
			}
		}
	}
	return names
}
