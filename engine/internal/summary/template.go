package summary

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission"
)

// MaxTemplate bounds the text of a template, in bytes.
const MaxTemplate = 500

// Template is the summary that an operator writes for calls of a tool, such as
// "Refund {cents} cents of order {order}". {a.b} is a member of a member; {{ and }} stand for
// braces.
type Template struct {
	parts []part
}

type part struct {
	text string   // if path is nil
	path []string // path of an argument
}

// Parse parses a template. If a schema declares arguments, an undeclared one is an error.
func Parse(text string, s *permission.Schema) (*Template, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, errors.New("summary is empty: describe what a call does, such as \"Refund {cents} cents of order {order}\"")
	case len(text) > MaxTemplate:
		return nil, fmt.Errorf("summary has %d bytes, the limit is %d", len(text), MaxTemplate)
	case !utf8.ValidString(text):
		return nil, errors.New("summary is not UTF-8")
	}
	t := &Template{}
	var plain strings.Builder
	for rest := text; rest != ""; {
		switch {
		case strings.HasPrefix(rest, "{{"), strings.HasPrefix(rest, "}}"):
			plain.WriteByte(rest[0])
			rest = rest[2:]
		case rest[0] == '}':
			return nil, errors.New("summary: unmatched }; write }} for a brace")
		case rest[0] == '{':
			name, after, closed := strings.Cut(rest[1:], "}")
			if !closed || name == "" || strings.ContainsAny(name, "{ \t\n") {
				return nil, fmt.Errorf("summary: %.40q is not an argument; write {name}, or {{ for a brace", "{"+name)
			}
			path := strings.Split(name, ".")
			if err := checkPath(s, path); err != nil {
				return nil, err
			}
			t.parts = append(t.parts, part{text: plain.String()}, part{path: path})
			plain.Reset()
			rest = after
		default:
			plain.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	t.parts = append(t.parts, part{text: plain.String()})
	return t, nil
}

// checkPath refuses an argument that the schema does not declare.
func checkPath(s *permission.Schema, path []string) error {
	of := permission.ArgsType
	for i, name := range path {
		fields := s.Fields(of)
		if len(fields) == 0 && i == 0 {
			return nil // the schema declares nothing
		}
		at := slices.IndexFunc(fields, func(f permission.Field) bool { return f.Name == name })
		if at < 0 {
			var known []string
			for _, f := range fields {
				known = append(known, f.Name)
			}
			if len(known) == 0 {
				return fmt.Errorf("summary: {%s}: %s has no members in input_schema; write {%s}", strings.Join(path, "."), path[i-1], strings.Join(path[:i], "."))
			}
			return fmt.Errorf("summary: {%s}: input_schema declares no argument %s; use one of %s", strings.Join(path, "."), name, strings.Join(known, ", "))
		}
		if of = fields[at].Struct; of == "" {
			if i+1 < len(path) && !isOpen(fields[at]) {
				return fmt.Errorf("summary: {%s}: %s has no members in input_schema; write {%s}", strings.Join(path, "."), name, strings.Join(path[:i+1], "."))
			}
			return nil
		}
	}
	return nil
}

// isOpen reports whether the schema leaves a field's members undeclared.
func isOpen(f permission.Field) bool {
	return len(f.JSONTypes) == 0 || slices.Contains(f.JSONTypes, "object")
}

// fillIn fills in the template, or returns "" if the call lacks one of its arguments.
func (t *Template) fillIn(args arguments) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.path == nil {
			b.WriteString(p.text)
			continue
		}
		raw := args.find(p.path[0])
		for _, name := range p.path[1:] {
			if strictjson.KindOf(raw) != "object" {
				break // a hidden value stands for everything in it
			}
			inner, ok := argumentsOf(string(raw))
			if !ok {
				return ""
			}
			raw = inner.find(name)
		}
		text := describeValue(raw)
		if s, err := strictjson.Text(raw); err == nil && s != "" {
			text = shortenText(joinLines(shortenCommitments(s)), maxLine/2) // leaves room for the template's own words
		}
		if text == "" {
			return ""
		}
		b.WriteString(text)
	}
	return b.String()
}
