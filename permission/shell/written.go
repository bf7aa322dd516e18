package shell

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// This file looks at lines that write a file and then run it: the content of the file
// is in the line, or is unknown.

// checkWritten looks, in one text, for files that it writes and runs: any word that it
// prints may begin a command.
func (f fileFinder) checkWritten(stmts []*syntax.Stmt) {
	f.work.unpacks = f.work.unpacks || packSettings.MatchString(unquote.Replace(f.text))
	targets, known := f.writtenFiles(stmts)
	redirected := maps.Clone(targets)
	commands := slices.Concat(f.line.Commands, f.line.Nested)
	known = f.addAllSaved(commands, targets) && known
	if targets[anyFile] && slices.ContainsFunc(commands, func(c Command) bool { return holdsPrograms.MatchString(c.changesTo()) }) {
		targets[anyPlace], targets[anyProgram] = true, true
	}
	if len(targets) > maxTargets {
		f.addUnclear(CodeTooMany, 0, "it writes more files than can be looked at")
		return
	}
	if !slices.ContainsFunc(commands, func(c Command) bool { return !c.editsFiles() && c.runsOne(targets) }) && !f.editorRuns(commands, redirected, targets) {
		return
	}
	if !known || max(len(f.line.Commands), len(f.line.Nested)) > MaxCommands {
		f.addUnclear(CodeExpansion, 0, "it runs a file that it writes, with unknown content")
	}
	var all strings.Builder
	for _, list := range [][]Command{f.line.Commands, f.line.Nested} {
		for _, c := range list[:min(len(list), MaxCommands)] {
			name, _ := c.program()
			words := c.input
			if printers[name] {
				words = c.Argv[1:]
			}
			if exact := f.addPrinted(name, words); !exact || slices.ContainsFunc(words, func(w Word) bool { return !w.Fixed && !w.rooted }) {
				f.addUnclear(CodeExpansion, c.Offset, "it runs a file with text that is not known before")
			}
			for _, w := range words {
				if !strings.HasPrefix(w.Text, "-") {
					all.WriteString(w.Text)
				}
			}
		}
	}
	if all.Len() <= maxText {
		textFinder(f).readHanded(all.String()) // printf r >s; printf 'm x' >>s
	}
}

// editorRuns reports whether a command that edits files runs one that others write: redirected are
// files that redirects write, and all those of the line.
func (f fileFinder) editorRuns(commands []Command, redirected, all map[string]bool) bool {
	seen := map[string]bool{}
	commands = slices.DeleteFunc(slices.Clone(commands), func(c Command) bool { // repeats
		text := c.String()
		again := seen[text] && c.editsFiles() && len(c.Assigns)+len(c.input)+len(c.heard) == 0
		seen[text] = true
		return again
	})
	judged := 0
	for i := range commands {
		c := &commands[i]
		if !c.editsFiles() || !c.runsOne(all) {
			continue
		}
		text := c.String()
		if judged++; judged > maxEditors {
			return true
		}
		targets := maps.Clone(redirected)
		f.addAllSaved(slices.DeleteFunc(slices.Clone(commands), func(other Command) bool { return other.editsFiles() && other.String() == text }), targets)
		if c.runsOne(targets) {
			return true
		}
	}
	return false
}

// maxEditors bounds the commands whose own files are told from those of others.
const maxEditors = 6

// addAllSaved adds the files that commands write, and copies of them, also if a later command, which
// may be nested, writes what an earlier one copies.
func (f fileFinder) addAllSaved(writers []Command, targets map[string]bool) (known bool) {
	known = true
	for before, round := -1, 0; before < len(targets) && len(targets) <= maxTargets; round++ {
		if round == maxRounds {
			f.addUnclear(CodeTooMany, 0, "it copies files in more steps than can be looked at")
			return false
		}
		before = len(targets)
		for i := range writers {
			known = f.addSaved(&writers[i], targets) && known
		}
		writers = slices.DeleteFunc(slices.Clone(writers), func(c Command) bool {
			name, _ := c.program()
			return !copies[name] && !unpackers[name] && !decompressors[name]
		})
	}
	return known
}

// maxTargets bounds the files that a line writes and that are searched for in what it
// runs.
const maxTargets = 64

// maxRounds bounds how often commands are searched for copies of what later ones write.
const maxRounds = 8

var printers = setOf("echo printf print")

// copiers print only what they read.
var copiers = setOf("cat tee")

// addPrinted reads what a printer makes of words; exact is that of formatText.
func (f fileFinder) addPrinted(name string, words []Word) (exact bool) {
	runFinder(f).guessCommands(words)
	filled, exact := formatText(name, words)
	words = afterFormatOption(name, words)
	written, _ := fillFormat(words, false)
	if len(words) > 0 {
		for _, text := range slices.Compact([]string{words[0].Text, written, filled})[1:] {
			textFinder(f).readHanded(text)
		}
	}
	for _, w := range words {
		if text := unescapeArgument(w.Text); w.Fixed && text != w.Text { // printf '\162m'
			textFinder(f).readHanded(text)
		}
		for line := range strings.SplitSeq(w.Text, "\n") {
			f.line.crude = append(f.line.crude, fixedWords(strings.Fields(line)))
		}
	}
	return exact
}

// writtenFiles returns the files that a text writes; known says whether everything that
// is written is in the text.
func (f fileFinder) writtenFiles(stmts []*syntax.Stmt) (targets map[string]bool, known bool) {
	targets, known = map[string]bool{}, true
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Stmt:
				for _, r := range n.Redirs {
					known = known && (!holdsNodes(r.Word) || f.onlyPrints(n)) // tee s < <(base64 -d f)
					if (writesTo[r.Op] || r.Op == syntax.DplOut) && r.Word != nil && !isHarmless(r) {
						targets[path.Clean(f.readWordOf(r.Word).result().Text)] = true
						known = known && f.onlyPrints(n)
					}
				}
			case *syntax.BinaryCmd:
				if n.Op == syntax.Pipe || n.Op == syntax.PipeAll { // base64 -d f | tee s
					known = known && f.onlyPrints(n.X)
				}
			}
			return true
		})
	}
	return targets, known
}

var writesTo = map[syntax.RedirOperator]bool{
	syntax.RdrOut: true, syntax.AppOut: true, syntax.RdrClob: true, syntax.RdrAll: true, syntax.AppAll: true, syntax.RdrInOut: true,
}

func (f fileFinder) onlyPrints(s *syntax.Stmt) bool {
	return !anyNode([]*syntax.Stmt{s}, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CallExpr)
		return ok && len(c.Args) > 0 && !printers[c.Args[0].Lit()] && !copiers[c.Args[0].Lit()]
	})
}

// addSaved adds the files that a command writes through its arguments: those of tee,
// downloads, copies and code. It reports whether their content is known.
func (f fileFinder) addSaved(c *Command, targets map[string]bool) bool {
	name, ok := c.program()
	if !ok {
		return true
	}
	words := c.Argv[1:]
	opens := unpackers[name] || decompressors[name]
	packed := opens && !f.work.unpacks && c.packs()
	if c.fetches() || opens && !packed && (unpackers[name] && c.piped || namesArchive(words, targets)) {
		addUnpacked(words, targets)
		for _, mark := range []string{anyProject, anyRepo} {
			if !isListed(loaders[mark], name) {
				targets[mark] = true
			}
		}
	}
	if packed {
		addPacked(name, words, targets)
	}
	return f.addNamed(c, name, targets) && !targets[anyFile]
}

// addNamed adds the files that a command saves by names that it has.
func (f fileFinder) addNamed(c *Command, name string, targets map[string]bool) (known bool) {
	words := c.Argv[1:]
	suffix, writes := "", false
	if readsScript[name] {
		suffix = backupSuffix(words)
		if i := indexWord(words, "-i"); i >= 0 && i+1 < len(words) && !strings.Contains(words[i+1].Text, "/") { // sed -i .bak on macOS
			suffix = words[i+1].Text
		}
	}
	if name == "sed" || name == "gsed" {
		words = withoutScripts(words)
		writes = addSedWrites(words, targets)
	}
	switch {
	case copies[name] && !slices.ContainsFunc(words, func(w Word) bool { return isDevice(w.Text) || strings.Contains(w.Text, ":") }):
		f.addCopies(words, targets)
		return true
	case interpreters[name] && !readsScript[name]:
		return f.addCoded(slices.Concat(words, c.input, c.heard), targets)
	case !savers[name] && !copies[name] && !holdsWord(words[:min(len(words), 2)], "cp"), readsScript[name] && !slices.ContainsFunc(words, func(w Word) bool { return scriptWrites.MatchString(w.Text) }):
		return !writes
	}
	for _, w := range words {
		if !w.Fixed || w.Text == "" {
			continue
		}
		tokens := strings.FieldsFunc(w.Text, notInName)
		for at := 2; isCluster(w.Text) && at < min(len(w.Text), 6); at++ { // -sofile
			tokens = append(tokens, w.Text[at:])
		}
		for _, token := range tokens {
			if token != "" {
				targets[path.Clean(token)] = true
			}
		}
		targets[path.Base(w.Text)] = true
		addBackup(w.Text, suffix, targets)
	}
	return name == "tee"
}

// addCoded adds the files that code may write, if the text has their names once more. It reports
// whether there are none.
func (f fileFinder) addCoded(code []Word, targets map[string]bool) bool {
	known := !addEdited(code, targets)
	for _, w := range code {
		if !codeWrites.MatchString(w.Text) {
			continue
		}
		for _, literal := range literals.FindAllString(w.Text, -1) {
			for _, token := range strings.FieldsFunc(literal, notInName) {
				if strings.Count(f.text, token) > 1 {
					targets[path.Clean(token)], known = true, false
				}
			}
		}
	}
	return known
}

var savers = setOf("tee curl wget dd sed gsed awk gawk mawk nawk sort sponge split csplit script patch aria2c http https xh scp rsync sftp openssl gpg gpg2 uudecode xxd")

// scriptWrites matches what writes a file in a script or an option of sed or awk, and codeWrites calls
// that write files in other code.
var (
	scriptWrites = regexp.MustCompile(`(?:^|[;{}\n0-9$/!\sgpIM])[wW][ \t]+[^ \t]|>|^-[a-zA-Z]*i|^--in-place`)
	codeWrites   = regexp.MustCompile(`(?i)(?:open|write|save|dump|copy|rename|retrieve)\w*["'\]]*\s*[( ]|>`)
)

// readsData are interpreters whose program is in an argument or a file.
var readsData = setOf("awk gawk mawk nawk")

// readsScript are the savers that take a script, in an argument or after -f.
var readsScript = setOf("sed gsed awk gawk mawk nawk")

func notInName(r rune) bool { return strings.ContainsRune(" \t\n\"'=:;{}<>()|&,", r) }

func (f fileFinder) addCopies(words []Word, targets map[string]bool) {
	if len(words) < 2 || !slices.ContainsFunc(words, func(w Word) bool { return targets[path.Clean(w.Text)] }) {
		return
	}
	for _, w := range words {
		targets[path.Clean(w.Text)] = true
	}
}

func (c *Command) runsOne(files map[string]bool) bool {
	if len(files) == 0 {
		return false
	}
	for _, a := range c.Assigns {
		if c.setsFile(a, files) {
			return true
		}
	}
	name, ok := c.program()
	if !ok {
		return false
	}
	if strings.Contains(c.Argv[0].Text, "/") && isAmong(files, c.Argv[0].Text) || c.loadsFile(name, files) || isInstalled(c.Argv[0].Text, files) {
		return true
	}
	declares := evaluates[name] || name == "env"
	if !declares && !shells[name] && !interpreters[name] && !schedules[name] && !statements[name] && name != "." && name != "source" && name != "sed" {
		return false
	}
	words := c.Argv[1:]
	if c.editsFiles() {
		words = words[:beforeEdited(words)]
	}
	for i, w := range words {
		switch {
		case declares && c.setsFile(w.Text, files), interpreters[name] && w.startsFile(name, files):
			return true
		case declares || readsScript[name] && !strings.HasSuffix(c.Argv[i].Text, "f") && !strings.HasPrefix(w.Text, "-f") && !strings.HasPrefix(w.Text, "--f"):
		case shells[name] && (hasShortOption(w.Text, 'c') || hasShortOption(c.Argv[i].Text, 'c') && isText(w.Text)): // its commands are looked at
		case w.namesFile(files):
			return true
		}
	}
	return false
}

// startsPrograms matches what starts programs in code.
const startsPrograms = "system|exec|[pP]open|spawn|subprocess|child_process|getline|eval|`"

// isAmong reports whether a path names one of the files, perhaps from another folder.
func isAmong(files map[string]bool, name string) bool {
	name = path.Clean(name)
	if files[name] || files[anyFile] && !strings.HasPrefix(name, "-") && (files[anyPlace] || !systemPath.MatchString(name)) {
		return true
	}
	base := path.Base(name)
	for f := range files {
		if path.Base(f) == base && strings.Contains(f+name, "/") {
			return true
		}
	}
	return false
}

// isInstalled reports whether one of the files is, or may be, the program of that name in a folder of
// programs.
func isInstalled(program string, files map[string]bool) bool {
	if files[anyProgram] && !isKnown(program) && !isWrapper(program) && !shells[program] && !unpackers[program] && !decompressors[program] && !savers[program] && !copies[program] && !changesShell[program] && !changesFolder[program] {
		return true
	}
	for f := range files {
		if path.Base(f) == program && binFolder.MatchString(f) {
			return true
		}
	}
	return false
}

var binFolder = regexp.MustCompile(`(?:^|/)\.?s?bin/[^/]+$`)

// namesFile reports whether an argument names one of the files: directly, after = or an
// option letter, or as a module of a program.
func (w Word) namesFile(files map[string]bool) bool {
	if !w.Fixed || w.Text == "" {
		return !w.Fixed && files[anyFile] && !strings.HasPrefix(w.Text, "-") // sh */run
	}
	_, value, _ := strings.Cut(w.Text, "=")
	if isAmong(files, w.Text) || value != "" && isAmong(files, value) || len(w.Text) > 2 && isCluster(w.Text) && isAmong(files, w.Text[2:]) {
		return true
	}
	names := strings.FieldsFunc(w.Text, func(r rune) bool { return notInName(r) || strings.ContainsRune("./-`", r) })
	for f := range files {
		stem := strings.TrimSuffix(path.Base(f), path.Ext(f))
		if modules[path.Ext(f)] && slices.ContainsFunc(names, func(n string) bool { return n == stem || isCluster(w.Text) && strings.HasSuffix(n, stem) }) { // perl -Ms
			return true
		}
	}
	return false
}

// startsFile reports whether code of a program may run one of the files, which it names:
// os.system("sh s"). A file called s.json or s.csv is data if the code only reads it.
func (w Word) startsFile(program string, files map[string]bool) bool {
	if !loadsCode.MatchString(w.Text) || onlyReplaces.MatchString(w.Text) {
		return false
	}
	code := w.Text
	if reads := onlyReads[program]; reads != nil {
		code = reads.ReplaceAllString(code, "")
	}
	runs := loadsCode.MatchString(code)
	return slices.ContainsFunc(strings.FieldsFunc(w.Text, notInName), func(name string) bool {
		return (runs || !dataFile.MatchString(name)) && isAmong(files, name)
	})
}

// onlyReads match what only reads, by program: data, and modules that start no programs.
var onlyReads = map[string]*regexp.Regexp{"node": nodeReads, "nodejs": nodeReads, "ruby": rubyReads}

var (
	nodeReads = regexp.MustCompile(`\brequire\s*\(\s*["'](?:[^"']*\.json|(?:node:)?(?:fs|path|util))["']`)
	rubyReads = regexp.MustCompile(`\brequire[\s(]\s*["'](?:json|csv|set|time|date|pp|bigdecimal|digest|stringio)["']`)
	dataFile  = regexp.MustCompile(`\.(?:json|csv|tsv|txt|log|md)$`)
)

// loadsCode matches what runs a file, or its text, in code, also with the pipes of awk and perl, which
// takes the argument 'sh s|' for a command.
var loadsCode = regexp.MustCompile(`(?i)(?:^|[^.\w]|\bmodule\.)(?:do|load|load-file|require|include|use|source|script|import)(?:_once|_relative)?\s*[("'q]|\bKernel\b|\brun_|loadfile|dofile|__import__|importlib|\bvm\b|` +
	startsPrograms + `|["']\s*\||\|\s*["']|^\||\|\s*$`)

// modules are the extensions of files that code may load without writing the extension.
var modules = setOf(".py .js .mjs .cjs .ts .rb .pl .pm .lua .php")

// loadsFile reports whether a program runs one of the files without being told to.
func (c *Command) loadsFile(name string, files map[string]bool) bool {
	for f := range files {
		if isListed(loaders[path.Base(f)], name) && (f != anyFile || !c.fetches()) || name == "git" && strings.Contains("/"+f, "/.git/") {
			return true
		}
	}
	return false
}

var loaders = map[string]string{
	"Makefile": "make gmake", "makefile": "make gmake", "GNUmakefile": "make gmake", "package.json": "npm pnpm yarn npx bun", "conftest.py": "pytest py.test",
	".bashrc": "bash", ".bash_profile": "bash", ".bash_login": "bash", ".profile": "bash sh dash", ".zshrc": "zsh", ".zshenv": "zsh", ".gitconfig": "git",
	anyProject: "npm pnpm pip pip3", anyRepo: "git gh hg", anyFile: "make gmake npm pnpm yarn npx bun pytest py.test pip pip3 cargo rake just nox tox mvn gradle go cmake ninja", "setup.py": "pip pip3 python python3", "build.rs": "cargo", "Rakefile": "rake", "justfile": "just", "Justfile": "just", "noxfile.py": "nox",
}

// changesInput reports whether a text gives the shell itself another input, which
// everything after it reads: exec <f.
func changesInput(stmts []*syntax.Stmt) bool {
	return anyNode(stmts, func(n syntax.Node) bool {
		s, ok := n.(*syntax.Stmt)
		if !ok {
			return false
		}
		c, ok := s.Cmd.(*syntax.CallExpr)
		if !ok || len(c.Args) == 0 || readWord(c.Args[len(c.Args)-1], c.Args[len(c.Args)-1].Lit()).text.String() != "exec" {
			return false
		}
		return slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool {
			switch r.Op {
			case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.WordHdoc, syntax.Hdoc, syntax.DashHdoc:
				return true
			}
			return false
		})
	})
}

// lookup matches a substitution that prints the path of a program: $(which rm).
var lookup = regexp.MustCompile("(?:\\$\\(|`)\\s*(?:builtin\\s+|command\\s+-p\\s+)?(?:which|command|type|whereis|readlink|realpath)\\s")

// addLocated reads the programs that such a substitution finds as commands, with the
// words that follow.
func (f fileFinder) addLocated(words []Word) {
	for i, w := range words {
		if w.Fixed || !lookup.MatchString(w.Text) {
			continue
		}
		for _, name := range strings.FieldsFunc(w.Text, func(r rune) bool { return strings.ContainsRune(" \t\n$`()\"'", r) }) {
			argv := append([]Word{{Text: name, Fixed: true}}, words[i+1:min(len(words), i+1+maxRest)]...)
			f.line.crude = append(f.line.crude, argv)
		}
	}
}

// maxRest bounds the words that are kept after such a word.
const maxRest = 16
