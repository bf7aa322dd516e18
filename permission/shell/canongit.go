package shell

import (
	"slices"
	"strings"
)

// gitForm writes the sub-commands of git that do the same in the same way.
func gitForm(args []Word) []Word {
	for i, a := range args {
		switch {
		case a.Text == "push":
			return hasForce(args, i)
		case a.Text == "branch":
			return findDeleted(args)
		case a.Text == "send-pack" || a.Text == "http-push" || a.Text == "subtree" && holdsWord(args[i+1:], "push") || a.Text == "for-each-repo" && holdsWord(args[i+1:], "push"):
			return append([]Word{{Text: "push", Fixed: true}}, args[i+1:]...)
		}
	}
	return args
}

func holdsWord(args []Word, word string) bool {
	return slices.ContainsFunc(args, func(a Word) bool { return a.Fixed && a.Text == word })
}

// hasForce writes +main as -f, and refspecs as the branch that is pushed to:
// HEAD:refs/heads/main is main.
func hasForce(args []Word, push int) []Word {
	out := slices.Clone(args)
	force := false
	for i := push + 1; i < len(out); i++ {
		text := out[i].Text
		if !out[i].Fixed || strings.HasPrefix(text, "-") || strings.Contains(text, "://") {
			continue
		}
		spec, plus := strings.CutPrefix(text, "+")
		force = force || plus
		if _, to, ok := strings.Cut(spec, ":"); ok && !strings.Contains(spec, "@") {
			spec = to
		}
		out[i].Text = strings.TrimPrefix(strings.TrimPrefix(spec, "refs/"), "heads/")
	}
	if force {
		out = append(out, Word{Text: "-f", Fixed: true})
	}
	return out
}

func findDeleted(args []Word) []Word {
	has := func(letter byte, long string) bool {
		return slices.ContainsFunc(args, func(a Word) bool {
			return isCluster(a.Text) && strings.IndexByte(a.Text, letter) > 0 || len(a.Text) > 3 && strings.HasPrefix(long, a.Text)
		})
	}
	if has('d', "--delete") && has('f', "--force") {
		return append(slices.Clip(args), Word{Text: "-D", Fixed: true})
	}
	return args
}
