package agentscope

import (
	"path"
	"slices"
	"strings"

	"github.com/askance-dev/askance/permission/shell"
)

// Links are followed before anything runs. This file looks for paths that may lead
// elsewhere by the time they are used.

// throughLinks reports whether an edit may go through a link that lies elsewhere
// when the line is judged: below what the line itself moves or copies, or in a
// folder under the name of a file that is copied into it.
func (p *bashCall) throughLinks() bool {
	if p.places.links == nil {
		return false
	}
	var made []string
	for _, c := range p.line.Commands {
		operands := plainOperands(c)
		for _, o := range operands {
			abs := p.places.absolute(p.places.expandHome(o))
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
		if name == "cp" && p.copiesOut(operands, to) {
			return true
		}
		if name == "mv" || slices.ContainsFunc(c.Argv, copiesFolders) {
			made = append(made, p.places.absolute(p.places.expandHome(to)))
		}
	}
	return false
}

// copiesFolders reports whether an argument is an option with which cp copies
// folders, links included.
func copiesFolders(w shell.Word) bool {
	if strings.HasPrefix(w.Text, "--") {
		return w.Text == "--recursive" || w.Text == "--archive" || w.Text == "--no-dereference"
	}
	return strings.HasPrefix(w.Text, "-") && strings.ContainsAny(w.Text, "rRadP")
}

// copiesOut reports whether the target of cp, if it is a folder, has a link with
// the name of a source that leads out.
func (p *bashCall) copiesOut(sources []string, to string) bool {
	return slices.ContainsFunc(sources, func(source string) bool {
		base := path.Base(source)
		target, ok := p.places.followLinks(to + "/" + base)
		return ok && base != "." && base != ".." && base != "/" && !p.places.isInside(target)
	})
}

// plainOperands are the arguments of a command that are no options.
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
