// Package redact reads the paths by which rules hide arguments, and says which
// values lie on them. It is the one place that decides what a path means: the
// approval request that is shown, the texts about it and the records all hide the same.
//
//	path, err := redact.Parse(`args.card["number"]`)
//	hidden, below := redact.Below(path).Member("card", false)
//
// A path that names a member of a list means that member of every element. Where
// a path leads into a value that has nothing below it, it hides the whole value:
// hiding too much is the safe side.
package redact

import (
	"errors"
	"strconv"
	"strings"
)

// Any is the step to every member of an object or element of a list.
const Any = "*"

// maxSteps is deeper than any input can be.
const maxSteps = 64

// Path is a path such as args.card.number: a variable and the steps from it.
type Path struct {
	Root  string
	Steps []string
}

// Parse reads a path. Names that are no words are written args["odd name"]. The
// error says what is wrong without the text.
func Parse(text string) (Path, error) {
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	p, rest := Path{Root: text[:end]}, text[end:]
	for rest != "" {
		var step string
		var err error
		if step, rest, err = parseStep(rest); err != nil {
			return Path{}, err
		}
		p.Steps = append(p.Steps, step)
	}
	if len(p.Steps) > maxSteps {
		return Path{}, errors.New("the path is too long")
	}
	return p, nil
}

func parseStep(rest string) (step, after string, err error) {
	if quoted, ok := strings.CutPrefix(rest, "["); ok {
		prefix, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return "", "", errors.New(`write members as .name or ["odd name"]`)
		}
		after, ok = strings.CutPrefix(quoted[len(prefix):], "]")
		if !ok {
			return "", "", errors.New("a ] is missing")
		}
		step, err = strconv.Unquote(prefix)
		return step, after, err
	}
	rest, ok := strings.CutPrefix(rest, ".")
	end := strings.IndexAny(rest, ".[")
	if end < 0 {
		end = len(rest)
	}
	step = rest[:end]
	if !ok || step == "" || strings.ContainsFunc(step, func(r rune) bool { return strings.ContainsRune(` "'()`, r) }) {
		return "", "", errors.New(`write members as .name or ["odd name"]`)
	}
	return step, rest[end:], nil
}

// Paths are what is left of paths below some value.
type Paths []remainder

type remainder struct {
	steps []string
	// wide: the path reached the elements of a list by its star alone. It hides
	// what it names there, and no value on the way.
	wide bool
}

// Below are the paths from the variable itself. Each path has a step.
func Below(paths ...Path) Paths {
	out := make(Paths, len(paths))
	for i, p := range paths {
		out[i].steps = p.Steps
	}
	return out
}

// Member reports whether the paths hide a member of an object, and what is left
// of them below it. leaf says that the member has nothing below it.
func (p Paths) Member(name string, leaf bool) (hidden bool, below Paths) {
	for _, r := range p {
		if r.steps[0] != name && r.steps[0] != Any {
			continue
		}
		hidden = hidden || len(r.steps) == 1 || leaf && !r.wide
		below = append(below, remainder{r.steps[1:], r.wide})
	}
	return hidden, below
}

// Element is Member for an element of a list.
func (p Paths) Element(i int, leaf bool) (hidden bool, below Paths) {
	hidden, below = p.Member(strconv.Itoa(i), leaf)
	for _, r := range p {
		hidden = hidden || leaf && r.namesMember()
		r.wide = r.wide || r.steps[0] == Any
		below = append(below, r)
	}
	return hidden, below
}

// namesMember reports whether the next step is the name of a member, and not
// the number of an element or a star.
func (r remainder) namesMember() bool {
	return !r.wide && strings.Trim(r.steps[0], "0123456789") != "" && r.steps[0] != Any
}
