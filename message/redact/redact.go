// Package redact reads the paths with which rules hide arguments, and finds the values on
// them. It is the only place that interprets paths, so approval requests, texts and records
// hide the same values.
//
//	path, err := redact.Parse(`args.card["number"]`)
//	hidden, below := redact.Below(path).Member("card", false)
//
// A path that names a member of a list means that member of every element. A path into a
// value without members hides the whole value, because hiding too much is safe.
package redact

import (
	"errors"
	"strconv"
	"strings"
)

// Any is the step to every member or element.
const Any = "*"

// maxSteps exceeds the depth of any input.
const maxSteps = 64

// Path is a path such as args.card.number: a variable and the steps from it.
type Path struct {
	Root  string
	Steps []string
}

// Parse parses a path; args["odd name"] quotes a name. Errors do not contain the text.
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
		return Path{}, errors.New("the path has too many steps: use at most 64")
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
			return "", "", errors.New(`a ] is missing: write ["odd name"]`)
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

// Paths are the remaining steps of paths below a value.
type Paths []remainder

type remainder struct {
	steps []string
	// wide is set if the path reached elements of a list only by its star. It hides what it
	// names there, and no value above.
	wide bool
}

// Below returns the paths below their variable. Each path has a step.
func Below(paths ...Path) Paths {
	out := make(Paths, len(paths))
	for i, p := range paths {
		out[i].steps = p.Steps
	}
	return out
}

// Member reports whether the paths hide a member of an object, and returns those below it.
// leaf means that the member has no members.
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

func (r remainder) namesMember() bool {
	return !r.wide && strings.Trim(r.steps[0], "0123456789") != "" && r.steps[0] != Any
}
