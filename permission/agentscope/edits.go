package agentscope

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission/shell"
)

// editPrograms edit files, and may do so in the working directories if the mode allows
// it. The letters are the options that change only the files in the arguments, and the
// words are such options in long form.
var editPrograms = map[string]struct {
	letters string
	words   map[string]bool
}{
	"mkdir": {"pvm", setOf("--parents --verbose")},
	"touch": {"acmdrth", setOf("--no-create")},
	"rm":    {"rRfivdI", setOf("--recursive --force --verbose --dir --interactive=never --interactive=always --interactive=once --one-file-system")},
	"rmdir": {"v", setOf("--verbose")},
	"mv":    {"fnivu", setOf("--force --no-clobber --interactive --verbose --update")},
	"cp":    {"rRafipnvudPHT", setOf("--recursive --archive --force --interactive --no-clobber --verbose --update --no-dereference")},
	"sed":   {"niEe", nil},
}

// editsInside is upstream's test: the first word of the line is an edit
// program, and every path that upstream sees, cut by characters, is in a working directory.
func (b *bashCall) editsInside() bool {
	words := fields(b.text)
	if len(words) == 0 {
		return false
	}
	if _, ok := editPrograms[words[0]]; !ok {
		return false
	}
	paths := b.tree.cutByChar().paths()
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(f commandPath) bool { return !b.places.isInside(f.path) })
}

// areProvenEdits proves what upstream assumes: every command of the line is an edit
// program or changes nothing, and none works on anything outside.
func (b *bashCall) areProvenEdits() bool {
	for _, r := range b.line.Reasons {
		switch r.Code {
		case shell.CodeExpansion, shell.CodeGlob, shell.CodeRedirect: // looked at one by one
		default:
			return false
		}
	}
	if len(b.line.Nested) > 0 || b.goesThroughLinks() {
		return false
	}
	for i, c := range b.line.Commands {
		last := i == len(b.line.Commands)-1
		if !b.isProvenEdit(c) && (!last || !movesOnly(c)) {
			return false
		}
	}
	return true
}

// movesOnly reports whether a command changes the folder, and so what later ones mean.
func movesOnly(c shell.Command) bool {
	return len(c.Argv) == 2 && c.Argv[0].Fixed && c.Argv[0].Text == "cd" && c.Argv[1].Fixed && len(c.Assigns)+len(c.Redirects) == 0
}

func (b *bashCall) isProvenEdit(c shell.Command) bool {
	if len(c.Argv) == 0 || !c.Argv[0].Fixed || len(c.Assigns) > 0 || slices.ContainsFunc(c.Redirects, func(r string) bool { return !b.isProvenRedirect(r) }) {
		return false
	}
	name := c.Argv[0].Text
	if name == "cd" {
		return false
	}
	program, edits := editPrograms[name]
	if !edits {
		c.Redirects = nil
		return shell.Parse(c.String()).ReadOnly()
	}
	args := c.Argv[1:]
	if name == "sed" {
		var ok bool
		if args, ok = sedFiles(args); !ok {
			return false
		}
	}
	if name == "cp" || name == "mv" {
		args = withoutTarget(args)
	}
	ended := false
	for _, w := range args {
		switch {
		case w.Fixed && w.Text == "--":
			ended = true
		case w.Fixed && !ended && program.words[w.Text]:
		case w.Fixed && !ended && len(w.Text) > 1 && w.Text[0] == '-':
			if strings.Trim(w.Text[1:], program.letters) != "" {
				return false
			}
		case !b.isProvenInside(name, w):
			return false
		}
	}
	return true
}

// fileRedirect matches a redirect to or from a file whose name needs no quotes, or to
// another descriptor.
var fileRedirect = regexp.MustCompile(`^([0-9]*(?:>>|>\||>|<)[ \t]*([A-Za-z0-9_./~-]+)|[0-9]*>&[0-9])$`)

func (b *bashCall) isProvenRedirect(redirect string) bool {
	m := fileRedirect.FindStringSubmatch(redirect)
	if m == nil {
		return false
	}
	return m[2] == "" || !isOtherHome(m[2]) && b.places.isEditable(m[2])
}

// withoutTarget removes the option that names the target folder of a copy; the folder
// itself remains as another path.
func withoutTarget(args []shell.Word) []shell.Word {
	var out []shell.Word
	for i, w := range args {
		if value, ok := strings.CutPrefix(w.Text, "--target-directory="); ok && w.Fixed {
			out = append(out, shell.Word{Text: value, Fixed: true})
			continue
		}
		if w.Fixed && w.Text == "--" {
			return append(out, args[i:]...)
		}
		if !w.Fixed || w.Text != "-t" && w.Text != "--target-directory" {
			out = append(out, w)
		}
	}
	return out
}

// tameGlob matches words that are known except for ~ and a pattern in the last part.
var tameGlob = regexp.MustCompile(`^~?[A-Za-z0-9_./]*[A-Za-z0-9_.*?-]*$`)

// ending matches patterns for names with an extension, which as options cannot lead to
// another folder.
var ending = regexp.MustCompile(`\.[A-Za-z0-9]+$`)

// isProvenInside reports whether a word stands only for paths in a working directory, not options.
func (b *bashCall) isProvenInside(program string, w shell.Word) bool {
	if w.Fixed {
		return w.Text != "" && b.places.isEditable(w.Text)
	}
	folder, last := "", w.Text
	if i := strings.LastIndexByte(w.Text, '/'); i >= 0 {
		folder, last = w.Text[:i], w.Text[i+1:]
	}
	if !tameGlob.MatchString(w.Text) || isOtherHome(w.Text) || strings.ContainsAny(folder, "*?") || strings.HasPrefix(w.Text, "-") || last == ".." {
		return false
	}
	if folder == "" && strings.IndexAny(last, "*?") == 0 && (program == "sed" || (program == "cp" || program == "mv") && !ending.MatchString(last)) {
		return false // it can match a file whose name is an option
	}
	for _, name := range slices.Concat(dangerousFiles, dangerousFolders) {
		if strings.HasPrefix(last, ".") && matchName(strings.ToLower(last), name) { // only a literal dot matches that dot
			return false
		}
	}
	return b.places.isEditable(w.Text)
}

// sedFiles removes the options and scripts from the arguments of sed, if they only
// print and replace. An empty script after -i, which other systems read as the suffix
// of copies, is removed, and the script after it is also checked as a file.
func sedFiles(args []shell.Word) ([]shell.Word, bool) {
	var files []shell.Word
	given := false
	for i := 0; i < len(args); i++ {
		switch w := args[i]; {
		case !w.Fixed:
			files = append(files, w)
		case sedScript.MatchString(w.Text):
			i++
			if i == len(args) || !args[i].Fixed || !tameScript(args[i].Text) {
				return nil, false
			}
			given = true
		case w.Text == "-i" && !given && len(files) == 0 && i+2 < len(args) && args[i+1] == (shell.Word{Fixed: true}):
			i += 2
			if !args[i].Fixed || !tameScript(args[i].Text) {
				return nil, false
			}
			files, given = append(files, args[i]), true
		case sedOption.MatchString(w.Text):
		case strings.HasPrefix(w.Text, "-"):
			return nil, false
		default:
			files = append(files, w)
		}
	}
	if !given {
		if len(files) == 0 || !files[0].Fixed || !tameScript(files[0].Text) {
			return nil, false
		}
		files = files[1:]
	}
	return files, true
}

// The accepted options of sed: those before a script, and those that change files in
// place or print less. The text after i is the suffix of a copy.
var (
	sedScript = regexp.MustCompile(`^(-[nE]*e|--expression)$`)
	sedOption = regexp.MustCompile(`^(-[nE]+i?|-i|-ie|--in-place(=\.[a-z]+)?|-i\.[a-z]+)$`)
)

// tameScripts match scripts that print, or that replace with delimiters whose meaning a
// backslash in the text cannot change.
var tameScripts = regexp.MustCompile(`^([0-9]+(,[0-9]+)?p|` + substitutionPattern("/") + `|` + substitutionPattern(`\|`) + `|` + substitutionPattern("#") + `)$`)

func substitutionPattern(sign string) string {
	part := `([^` + sign + `\\\n]|\\[][.*^$(){}+?sSwWbBnt0-9\\-])*`
	return `s` + sign + part + sign + part + sign + `[gpI0-9]*`
}

func tameScript(s string) bool { return tameScripts.MatchString(s) }

// Links are followed before anything runs. This code looks for paths that may lead
// elsewhere by the time they are used.

// goesThroughLinks reports whether an edit may go through a link that is elsewhere when
// the line is checked: below what the line itself moves or copies, or in a target
// folder, with the name of a file that is copied there.
func (b *bashCall) goesThroughLinks() bool {
	if b.places.links == nil {
		return false
	}
	var made []string
	for _, c := range b.line.Commands {
		operands := plainOperands(c)
		for _, o := range operands {
			abs := b.places.absolute(b.places.expandHome(o))
			if slices.ContainsFunc(made, func(m string) bool { return strings.HasPrefix(abs, strings.TrimRight(m, "/")+"/") }) {
				return true
			}
		}
		name := programOf(c)
		if name != "cp" && name != "mv" || len(operands) < 2 {
			continue
		}
		to := operands[len(operands)-1]
		if slices.ContainsFunc(c.Argv, func(w shell.Word) bool { return strings.HasPrefix(w.Text, "-t") || strings.HasPrefix(w.Text, "--t") }) {
			to = operands[0]
		}
		if name == "cp" && b.copiesOut(operands, to) {
			return true
		}
		if name == "mv" || slices.ContainsFunc(c.Argv, copiesFolders) {
			made = append(made, b.places.absolute(b.places.expandHome(to)))
		}
	}
	return false
}

// copiesFolders reports whether cp with this argument copies folders, links included.
func copiesFolders(w shell.Word) bool {
	if strings.HasPrefix(w.Text, "--") {
		return w.Text == "--recursive" || w.Text == "--archive" || w.Text == "--no-dereference"
	}
	return strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "rRadP")
}

// copiesOut reports whether a folder that cp fills has a link out with the name of a source.
func (b *bashCall) copiesOut(sources []string, to string) bool {
	return slices.ContainsFunc(sources, func(source string) bool {
		base := path.Base(source)
		target, ok := b.places.followLinks(to + "/" + base)
		return ok && base != "." && base != ".." && base != "/" && !b.places.isInside(target)
	})
}

func plainOperands(c shell.Command) []string {
	var out []string
	for _, w := range c.Argv[min(1, len(c.Argv)):] {
		if value, ok := strings.CutPrefix(w.Text, "--target-directory="); ok {
			out = append(out, value)
		} else if w.Text != "" && w.Text[0] != '-' {
			out = append(out, w.Text)
		}
	}
	return out
}

// The commands of git that show or write what a rule about files protects.
var (
	// gitPrints are the commands of git that print or copy what files have. gitLogs do so only with an
	// option of gitPatch, also as one of several letters, and gitHunks only with one of gitVerbose.
	gitPrints  = setOf("grep archive format-patch fast-export bundle difftool mergetool range-diff merge-tree unpack-file checkout-index worktree.add")
	gitLogs    = regexp.MustCompile(`^(log|reflog|whatchanged|diff-(tree|index|files)|stash (show|list))$`)
	gitHunks   = regexp.MustCompile(`^(add|bisect|checkout|commit|request-pull|reset|restore|stash .*|status)$`)
	gitNames   = regexp.MustCompile(`^(-s|--(stat|shortstat|numstat|name-only|name-status|summary|quiet|no-patch|dirstat)(=.*)?)$`)
	gitPatch   = regexp.MustCompile(`^-([^-SGOXnl]*[puUWLc].*|-(cc|dd|check|pat?c?h?|patch-.*|unif.*|func.*|word-.*|color-w.*|bin.*|remerge.*|diff-m.*|no-q.*)(=.*)?)$`)
	gitVerbose = regexp.MustCompile(`^-([a-lA-Zn-z0-9]*[pv].*|-pa.*|-verb.*)$`)
	// beforeNames matches a word after which one of gitNames is not a value, and ofCommits one after
	// which git show prints no file: any other may be a name of a file's content.
	beforeNames = regexp.MustCompile(`^([^-].*|-[abwzMCR]|--(cached|staged|merge-base|oneline|color|relative|exit-code|text|no-.*|find-.*|ignore-.*space.*|[^=]+=.*))$`)
	ofCommits   = regexp.MustCompile(`^(HEAD|[^-:][^:]*[~^][0-9]*|--(oneline|abbrev-commit|no-.*|pretty|decorate|(pretty|decorate|format|date)=.*))$`)
	// gitNamers are the commands of git that write no files into a folder that they are given.
	gitNamers = setOf("add blame branch cherry-pick commit config describe diff fetch log ls-files merge notes pull rebase reflog remote reset rev-list rev-parse revert shortlog show status switch tag")
)

// printsFiles reports whether a command of git, from its sub-command on, may print or copy what files
// have.
func printsFiles(args []shell.Word) bool {
	if len(args) == 0 {
		return false
	}
	has := func(option *regexp.Regexp) bool { // also behind --, which may be the value of an option
		return slices.ContainsFunc(args[1:], func(w shell.Word) bool { return option.MatchString(w.Text) })
	}
	name, names, commits := args[0].Text, false, true
	for i, w := range args[1:] {
		if w.Text == "--" {
			break
		}
		isName := gitNames.MatchString(w.Text)
		names = names || isName && (i == 0 || beforeNames.MatchString(args[i].Text))
		commits = commits && w.Fixed && (isName || ofCommits.MatchString(w.Text))
	}
	switch name {
	case "diff", "show":
		return !names || has(gitPatch) || name == "show" && !commits
	case "cat-file":
		return len(args) < 2 || !slices.Contains([]string{"-t", "-s", "-e"}, args[1].Text)
	case "stash":
		name += " " + args[min(1, len(args)-1)].Text
	case "worktree":
		name += "." + args[min(1, len(args)-1)].Text
	}
	return !args[0].Fixed || gitPrints[name] || gitLogs.MatchString(name) && has(gitPatch) || gitHunks.MatchString(name) && has(gitVerbose)
}

// cloneValues are the options of git clone that take the next word as their value.
var cloneValues = regexp.MustCompile(`^-(?:[bocuj]|-(?:branch|origin|upload-pack|reference|reference-if-able|template|config|depth|shallow-since|shallow-exclude|separate-git-dir|jobs|filter|server-option|bundle-uri|ref-format|revision))$`)

// clonesFolder reports whether git copies a repository of this machine.
func clonesFolder(args []shell.Word) bool {
	if len(args) == 0 || args[0].Text != "clone" {
		return false
	}
	for i, w := range args[1:] {
		if !strings.HasPrefix(w.Text, "-") && !cloneValues.MatchString(args[i].Text) {
			return !remoteAddress.MatchString(w.Text) || strings.HasPrefix(w.Text, "file:")
		}
	}
	return false
}

var remoteAddress = regexp.MustCompile(`^(?:\w[\w+.-]*://|[\w.@-]{2,}:)`)
