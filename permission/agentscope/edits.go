package agentscope

import (
	"regexp"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission/shell"
)

// editPrograms edit files, and may do so in the working directories where the
// mode lets them. The letters are the options that change only what they are
// given.
var editPrograms = map[string]string{
	"mkdir": "pvm", "touch": "acmdrth", "rm": "rRfivdI", "rmdir": "v", "mv": "fnivu", "cp": "rRafipnvudPHT", "sed": "niEe",
}

// editsInside is upstream's test: the first word of the line is an edit
// program, and every path that upstream sees is in a working directory.
func (p *bashCall) editsInside() bool {
	words := fields(p.text)
	if len(words) == 0 {
		return false
	}
	if _, ok := editPrograms[words[0]]; !ok {
		return false
	}
	paths := p.tree.paths(p.byChar)
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(f commandPath) bool { return !p.places.inside(f.path) })
}

// provenEdits proves what upstream takes for granted: that every command of the
// line is an edit program or changes nothing, and works on nothing outside.
func (p *bashCall) provenEdits() bool {
	for _, r := range p.line.Reasons {
		if r.Code != shell.CodeExpansion && r.Code != shell.CodeGlob {
			return false
		}
	}
	if len(p.line.Nested) > 0 {
		return false
	}
	return !slices.ContainsFunc(p.line.Commands, func(c shell.Command) bool { return !p.provenEdit(c) })
}

func (p *bashCall) provenEdit(c shell.Command) bool {
	if len(c.Argv) == 0 || !c.Argv[0].Fixed || len(c.Assigns)+len(c.Redirects) > 0 {
		return false
	}
	name := c.Argv[0].Text
	options, edits := editPrograms[name]
	if !edits {
		// A command that changes the folder would change what the others mean.
		return name != "cd" && shell.Parse(c.String()).ReadOnly()
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
		case w.Fixed && !ended && len(w.Text) > 1 && w.Text[0] == '-':
			if strings.Trim(w.Text[1:], options) != "" {
				return false
			}
		case !p.provenInside(name, w):
			return false
		}
	}
	return true
}

// withoutTarget takes the option off that says which folder is copied to; the
// folder itself stays, as one more path.
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

// tameGlob is a word that only ~ and a pattern in its last part keep from being
// known.
var tameGlob = regexp.MustCompile(`^~?[A-Za-z0-9_./]*[A-Za-z0-9_.*?-]*$`)

// provenInside says whether whatever a word stands for is inside a working
// directory, and is no option.
func (p *bashCall) provenInside(program string, w shell.Word) bool {
	if w.Fixed {
		return w.Text != "" && p.places.inside(w.Text) && !p.places.dangerous(w.Text)
	}
	folder, last := "", w.Text
	if i := strings.LastIndexByte(w.Text, '/'); i >= 0 {
		folder, last = w.Text[:i], w.Text[i+1:]
	}
	if !tameGlob.MatchString(w.Text) || strings.ContainsAny(folder, "*?") || strings.HasPrefix(w.Text, "-") || last == ".." {
		return false
	}
	if folder == "" && strings.IndexAny(last, "*?") == 0 && (program == "mv" || program == "cp" || program == "sed") {
		return false // it can stand for a file whose name is an option
	}
	for _, name := range slices.Concat(dangerousFiles, dangerousFolders) {
		if matchName(strings.ToLower(last), name) {
			return false
		}
	}
	return p.places.inside(w.Text) && !p.places.dangerous(w.Text)
}

// sedFiles takes the options and the scripts off the arguments of sed, if they
// do no more than print and replace.
func sedFiles(args []shell.Word) ([]shell.Word, bool) {
	var files []shell.Word
	scripts, given := 0, false
	for i := 0; i < len(args); i++ {
		switch w := args[i]; {
		case !w.Fixed:
			files = append(files, w)
		case w.Text == "-e" || w.Text == "-ne":
			i++
			if i == len(args) || !args[i].Fixed || !tameScript(args[i].Text) {
				return nil, false
			}
			scripts, given = scripts+1, true
		case w.Text == "-i" || w.Text == "--in-place" || w.Text == "-n" || w.Text == "-E":
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
		files, scripts = files[1:], 1
	}
	return files, scripts > 0
}

var tameScripts = regexp.MustCompile(`^([0-9]+(,[0-9]+)?p|s/[^/\\\n]*/[^/\\\n]*/[gpI0-9]*|s\|[^|\\\n]*\|[^|\\\n]*\|[gpI0-9]*|s#[^#\\\n]*#[^#\\\n]*#[gpI0-9]*)$`)

func tameScript(s string) bool { return tameScripts.MatchString(s) }
