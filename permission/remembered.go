package permission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/redact"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// Covers reports whether remembered allow rules cover a call, one alone or all together; nil means
// that they do. No other rule, of the bundle or the session, can help. The rules cover no call that
// a deny rule matches, that could not be evaluated, or that the tool's own check does not allow,
// in any mode. Rules that ask about the call are not considered; Decide reports those.
func (b *Bundle) Covers(ctx context.Context, req Request, rules []message.PermissionRule) error {
	if b == nil || !b.ready {
		return errors.New("no policy is loaded")
	}
	session := slices.DeleteFunc(slices.Clone(req.SessionRules), func(r message.PermissionRule) bool { return r.Behavior == message.BehaviorAllow })
	req.SessionRules = append(session, rules...)
	e := b.evaluate(ctx, &req, nil)
	defer e.run.Close()
	if d, denied := e.decider().decideDenied(); denied {
		return errors.New(d.Reason)
	}
	if err := e.checkObjection(); err != nil {
		return err
	}
	return e.checkSessionRules()
}

func (e *evaluation) checkObjection() error {
	check := e.tr.check()
	if check == nil {
		return nil
	}
	v, err := callSafely(func() (ToolVerdict, error) { return check(e.call), nil })
	if err != nil {
		return fmt.Errorf("the tool's own check failed: %w", err)
	}
	switch v.Answer {
	case CheckAllow, CheckPassthrough, CheckAsk:
		return nil
	default:
		return errors.New("the tool's own check lets no rule allow this call")
	}
}

func (e *evaluation) checkSessionRules() error {
	why := errors.New("the rule does not match this call")
	var patterns []Pattern
	for _, r := range e.sessionRules(message.BehaviorAllow) {
		before := len(e.errors)
		switch matched, failed := e.matchRule(r); {
		case matched:
			return nil
		case failed && len(e.errors) > before:
			why = errors.New("the rule cannot be evaluated: " + e.errors[len(e.errors)-1].Msg)
		case r.pattern != nil:
			patterns = append(patterns, r.pattern)
		}
	}
	joint, ok := e.tr.matcher.(JointMatcher)
	if !ok || len(patterns) < 2 {
		return why
	}
	by, err := findCovering(joint, e.call, patterns)
	if err != nil {
		return fmt.Errorf("the rules cannot be evaluated together: %w", err)
	}
	if len(by) == 0 {
		return why
	}
	return nil
}

// Values returns the call's value at each path of a Remember's Scope, as text that is equal only
// for equal values. It is an error if the call has no value at a path.
func (b *Bundle) Values(ctx context.Context, req Request, scope []string) (map[string]string, error) {
	if b == nil || !b.ready {
		return nil, errors.New("no policy is loaded")
	}
	e := b.evaluate(ctx, &req, nil)
	defer e.run.Close()
	out := make(map[string]string, len(scope))
	for _, text := range scope {
		p, err := parsePath(text)
		if err != nil {
			return nil, err
		}
		value, err := e.valueAt(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", display.Quoted(text), err)
		}
		out[text] = value
	}
	return out, nil
}

var errNoValue = errors.New("the call has no such value")

// valueAt keeps numbers and texts of arguments as written, so that rounding never makes two of them
// equal.
func (e *evaluation) valueAt(p redact.Path) (string, error) {
	if p.Root == "args" {
		return ArgumentAt(e.req.Input, p.Steps)
	}
	vars := map[string]map[string]any{"caller": e.caller(), "ctx": e.context(), "tool": e.tool()}[p.Root]
	if len(p.Steps) != 1 || vars == nil {
		return "", errNoValue
	}
	value, ok := vars[p.Steps[0]]
	if !ok {
		return "", errNoValue
	}
	b, err := strictjson.Marshal(value)
	return string(b), err
}

// ArgumentAt returns the JSON text of an input below the given members, without white space and
// otherwise as written.
func ArgumentAt(input []byte, steps []string) (string, error) {
	at := message.RawJSON(input)
	for _, step := range steps {
		var members map[string]message.RawJSON
		if err := strictjson.UnmarshalOpen(at, &members); err != nil {
			return "", errNoValue
		}
		sub, ok := members[step]
		if !ok {
			return "", errNoValue
		}
		at = sub
	}
	b, err := strictjson.Marshal(at)
	return string(b), err
}

// ParseArgument splits a path into the arguments, such as args.amount.cents, into its members.
func ParseArgument(text string) ([]string, error) {
	p, err := parsePath(text)
	switch {
	case err != nil:
		return nil, err
	case len(p.Steps) == 0 && p.Root != "" && p.Root != "args":
		return nil, fmt.Errorf("write args.%[1]s, not %[1]s", display.Quoted(text))
	case p.Root != "args" || len(p.Steps) == 0 || slices.Contains(p.Steps, redact.Any):
		return nil, fmt.Errorf("%s does not name a single argument value; write a path such as args.amount.cents", display.Quoted(text))
	}
	return p.Steps, nil
}

// Covers checks rules against the policy in force. See Bundle.Covers.
func (l *Live) Covers(ctx context.Context, req Request, rules []message.PermissionRule) error {
	return l.Bundle().Covers(ctx, req, rules)
}

// Values reads values for the policy in force. See Bundle.Values.
func (l *Live) Values(ctx context.Context, req Request, scope []string) (map[string]string, error) {
	return l.Bundle().Values(ctx, req, scope)
}

func parsePath(text string) (redact.Path, error) {
	p, err := redact.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%s is not a path: %w", display.Quoted(text), err)
	}
	return p, nil
}

// checkHidden checks a redact path: one of the rule's tools must have it.
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

// checkScope checks a remember path: every tool of the rule must have it.
func (c checker) checkScope(r *Rule, text string) error {
	p, err := parsePath(text)
	if err != nil {
		return err
	}
	if fields, ok := scopeFields[p.Root]; ok {
		if len(p.Steps) != 1 || !slices.Contains(fields, p.Steps[0]) {
			return fmt.Errorf("%s cannot be remembered; these members of %s can: %s", display.Quoted(text), p.Root, strings.Join(fields, ", "))
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

// scopeFields are the values besides arguments that another call can share.
var scopeFields = map[string][]string{
	"caller": {"agent", "user", "session", "tenant", "run_id", "parent_agent"},
	"ctx":    {"cwd", "mode"},
	"tool":   {"name", "server"},
}

func noSuchPath(text string, p redact.Path, s *Schema) error {
	msg := display.Quoted(text) + " does not exist in the tool's schema"
	if hint := hint.DidYouMean(p.Steps[len(p.Steps)-1], s.root().MemberNames()); hint != "" {
		msg += "; " + hint
	}
	return errors.New(msg)
}

// schemasOf returns the schemas of the declared tools that a rule is about, nil for a tool without
// one.
func (c *compiler) schemasOf(r *Rule) []*Schema {
	var out []*Schema
	for i := range c.opts.Tools {
		if t := &c.opts.Tools[i]; r.IsAbout(t.Name, t.Server) {
			out = append(out, t.Schema)
		}
	}
	return out
}
