package permission

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/message/redact"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// parsePath reads a path into the call.
func parsePath(text string) (redact.Path, error) {
	p, err := redact.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%s is no path: %w", display.Quoted(text), err)
	}
	return p, nil
}

// checkHidden checks a path of redact: one of the rule's tools must have it.
func (c checker) checkHidden(r *Rule, text string) error {
	p, err := parsePath(text)
	switch {
	case err != nil:
		return err
	case p.Root != "args" || len(p.Steps) == 0:
		return fmt.Errorf("%s is not in the arguments; write a path such as args.card.*", display.Quoted(text))
	}
	schemas := c.schemasOf(r)
	for _, s := range schemas {
		if s == nil || s.root().HasPath(p.Steps) {
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
	if fields, ok := scopeFields[p.Root]; ok {
		if len(p.Steps) != 1 || !slices.Contains(fields, p.Steps[0]) {
			return fmt.Errorf("%s cannot be remembered; of %s these can: %s", display.Quoted(text), p.Root, strings.Join(fields, ", "))
		}
		return nil
	}
	switch {
	case p.Root != "args" || len(p.Steps) == 0:
		return fmt.Errorf("%s is not in the call; write a path such as args.customer_id or caller.user", display.Quoted(text))
	case slices.Contains(p.Steps, redact.Any):
		return fmt.Errorf("%s names many values; a remembered call needs the same value at each path", display.Quoted(text))
	}
	for _, s := range c.schemasOf(r) {
		if s != nil && !s.root().HasPath(p.Steps) {
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

func noSuchPath(text string, p redact.Path, s *Schema) error {
	msg := display.Quoted(text) + " leads nowhere in the tool's schema"
	if hint := hint.DidYouMean(hint.Nearest(p.Steps[len(p.Steps)-1], s.root().MemberNames())); hint != "" {
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
