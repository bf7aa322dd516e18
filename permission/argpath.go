package permission

import (
	"errors"
	"fmt"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
	"github.com/askance-dev/askance/permission/internal/schema"
	"slices"
	"strconv"
	"strings"
)

// argPath is a path such as args.card.number: a variable and the members that
// lead from it. The step "*" is every member of an object or element of a list.
type argPath struct {
	root  string
	steps []string
}

// maxPathSteps is deeper than any input can be.
const maxPathSteps = 64

// parsePath reads a path. Names that are no words are written args["odd name"].
func parsePath(text string) (argPath, error) {
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	p, rest := argPath{root: text[:end]}, text[end:]
	for rest != "" {
		var step string
		var err error
		if step, rest, err = nextStep(rest); err != nil {
			return argPath{}, fmt.Errorf("%s is no path: %w", display.Quoted(text), err)
		}
		p.steps = append(p.steps, step)
	}
	if len(p.steps) > maxPathSteps {
		return argPath{}, errors.New("the path is too long")
	}
	return p, nil
}

func nextStep(rest string) (step, after string, err error) {
	if quotedName, ok := strings.CutPrefix(rest, "["); ok {
		prefix, err := strconv.QuotedPrefix(quotedName)
		if err != nil {
			return "", "", errors.New(`write members as .name or ["odd name"]`)
		}
		after, ok = strings.CutPrefix(quotedName[len(prefix):], "]")
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

// checkHidden checks a path of redact: one of the rule's tools must have it.
func (c checker) checkHidden(r *Rule, text string) error {
	p, err := parsePath(text)
	switch {
	case err != nil:
		return err
	case p.root != "args" || len(p.steps) == 0:
		return fmt.Errorf("%s is not in the arguments; write a path such as args.card.*", display.Quoted(text))
	}
	schemas := c.schemasOf(r)
	for _, s := range schemas {
		if s == nil || s.root().HasPath(p.steps) {
			return nil
		}
	}
	if len(schemas) == 0 {
		return nil
	}
	return noSuchPath(text, p, schemas[0])
}

// checkScope checks a path of remember: every tool of the rule must have it.
func (c checker) checkScope(r *Rule, text string) error {
	p, err := parsePath(text)
	if err != nil {
		return err
	}
	if fields, ok := scopeFields[p.root]; ok {
		if len(p.steps) != 1 || !slices.Contains(fields, p.steps[0]) {
			return fmt.Errorf("%s cannot be remembered; of %s these can: %s", display.Quoted(text), p.root, strings.Join(fields, ", "))
		}
		return nil
	}
	switch {
	case p.root != "args" || len(p.steps) == 0:
		return fmt.Errorf("%s is not in the call; write a path such as args.customer_id or caller.user", display.Quoted(text))
	case slices.Contains(p.steps, schema.AnyStep):
		return fmt.Errorf("%s names many values; a remembered call needs the same value at each path", display.Quoted(text))
	}
	for _, s := range c.schemasOf(r) {
		if s != nil && !s.root().HasPath(p.steps) {
			return noSuchPath(text, p, s)
		}
	}
	return nil
}

// scopeFields are what besides arguments can be the same in another call.
var scopeFields = map[string][]string{
	"caller": {"agent", "user", "session", "tenant", "run_id", "parent_agent"},
	"ctx":    {"cwd", "mode"},
	"tool":   {"name", "server"},
}

func noSuchPath(text string, p argPath, s *Schema) error {
	msg := display.Quoted(text) + " leads nowhere in the tool's schema"
	if hint := hint.DidYouMean(hint.Nearest(p.steps[len(p.steps)-1], s.root().MemberNames())); hint != "" {
		msg += "; " + hint
	}
	return errors.New(msg)
}

// schemasOf are the schemas of the declared tools that a rule is about, nil for
// one that has none.
func (c *compiler) schemasOf(r *Rule) []*Schema {
	var out []*Schema
	for i := range c.opts.Tools {
		if t := &c.opts.Tools[i]; r.isAbout(t.Name, t.Server) {
			out = append(out, t.Schema)
		}
	}
	return out
}
