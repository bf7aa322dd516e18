package permission

import (
	"github.com/askance-dev/askance/permission/internal/schema"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// This file leaves out of arguments what rules hide, for texts about a call. It
// reads a path as message does where it hides the arguments themselves: a text
// must not show what the approval request hides.

// hiddenText stands for a text that is not shown.
const hiddenText = "[redacted]"

// maskValue copies a value without what lies at the paths: texts and elements of
// lists are replaced, other members are left out. A path that names a member of
// a list means that member of every element; where it leads into what has
// nothing below it, that is hidden as a whole.
func maskValue(v any, paths []maskPath) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, sub := range v {
			below := pathsBelow(paths, name)
			_, text := sub.(string)
			switch {
			case len(below) == 0:
			case !hideWhole(below, sub):
				out[name] = maskValue(sub, below)
			case text:
				out[name] = hiddenText
			default:
				delete(out, name)
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, sub := range v {
			below := pathsBelow(paths, strconv.Itoa(i))
			if hideWhole(below, sub) || !hasMembers(sub) && slices.ContainsFunc(paths, maskPath.namesMember) {
				out[i] = hiddenText
			} else {
				out[i] = maskValue(sub, append(below, everyElement(paths)...))
			}
		}
		return out
	default:
		return v
	}
}

// maskPath is what is left of a path below some value.
type maskPath struct {
	steps []string
	// wide: it is meant for the elements of a list by its star alone, and was
	// carried on below them. It hides what it names there, and cuts nothing off.
	wide bool
}

func maskPaths(hidden []argPath) []maskPath {
	out := make([]maskPath, len(hidden))
	for i, h := range hidden {
		out[i].steps = h.steps
	}
	return out
}

// namesMember reports whether a path goes on with the name of a member, and not
// with the number of an element or a star.
func (p maskPath) namesMember() bool {
	return !p.wide && strings.Trim(p.steps[0], "0123456789") != "" && p.steps[0] != schema.AnyStep
}

// hideWhole reports whether paths that lead to a value hide all of it: one of them
// ends there, or leads on where there is nothing below.
func hideWhole(paths []maskPath, v any) bool {
	return slices.ContainsFunc(paths, func(p maskPath) bool { return len(p.steps) == 0 || !hasMembers(v) && !p.wide })
}

// hasMembers reports whether a value can have something below it.
func hasMembers(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	default:
		return false
	}
}

// pathsBelow gives what is left of the paths behind a member.
func pathsBelow(paths []maskPath, name string) []maskPath {
	var out []maskPath
	for _, p := range paths {
		if p.steps[0] == name || p.steps[0] == schema.AnyStep {
			out = append(out, maskPath{p.steps[1:], p.wide})
		}
	}
	return out
}

// everyElement carries paths into a list on to each of its elements.
func everyElement(paths []maskPath) []maskPath {
	out := slices.Clone(paths)
	for i := range out {
		out[i].wide = out[i].wide || out[i].steps[0] == schema.AnyStep
	}
	return out
}
