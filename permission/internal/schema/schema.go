// Package schema compiles the JSON Schemas of tools, checks inputs against them
// and reduces them to the types that conditions see.
package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/display"
)

// MaxBytes limits the text of one schema.
const MaxBytes = 256 << 10

// ErrSchema marks a JSON Schema that cannot be compiled.
var ErrSchema = errors.New("invalid JSON Schema")

// Schema is a compiled JSON Schema of a tool's input. It is immutable and safe for concurrent use.
type Schema struct {
	Raw   []byte // for making more checkers
	ready checkers
	Root  *Type
	Hash  string
	plain bool           // Root has everything that the schema demands
	paths map[*Type]bool // nodes that are file paths
}

// Compile compiles a JSON Schema of a tool's input.
func Compile(raw []byte) (*Schema, error) {
	compiled, err := compileSchema(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{Raw: bytes.Clone(raw), Hash: message.Digest(raw)}
	s.Root, s.plain = rootType(compiled) // before the checker makes every node count
	s.paths = pathNodes(s.Root, s.Raw)
	s.ready.put(newChecker(compiled))
	return s, nil
}

func compileSchema(raw []byte) (s *jsonschema.Schema, err error) {
	// The schema may come from a tool server; a defect in the compiler must not crash the process.
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("compile schema: %w: %v", ErrSchema, r)
		}
	}()
	doc, err := strictjson.Object(raw, strictjson.MaxBytes(MaxBytes))
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w: %w", ErrSchema, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("compile schema: %w: %w", ErrSchema, err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w: %w", ErrSchema, plainError(err, doc))
	}
	if faults := wordFaults(doc, compiled); len(faults) > 0 {
		return nil, fmt.Errorf("compile schema: %w: %s", ErrSchema, strings.Join(faults[:min(len(faults), maxShownViolations)], "; "))
	}
	if hasInnerID(doc, 0) && hasRoamingReference(compiled, map[*jsonschema.Schema]bool{}) {
		return nil, fmt.Errorf("compile schema: %w: $dynamicRef and $recursiveRef together with an inner $id are not supported; use $ref", ErrSchema)
	}
	return compiled, nil
}

// plainError words a schema error without the path through the meta-schema, and suggests a draft if
// $schema names an unknown one.
func plainError(err error, doc map[string]any) error {
	draft, _ := doc["$schema"].(string)
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok && load.URL == strings.TrimSuffix(draft, "#") {
		return fmt.Errorf("at /$schema: $schema names an unknown draft: %s; use draft 2020-12, 2019-09, draft-07, draft-06 or draft-04, or leave it out", display.Quoted(draft))
	}
	bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return err
	}
	var parts []string
	for _, v := range violationsOf(bad.Err).Violations {
		parts = append(parts, "at "+cmp.Or(v.Pointer, "/")+": "+v.Msg)
	}
	return errors.New("it does not match the metaschema: " + strings.Join(parts, "; "))
}

// schemaURL is the base of relative references. It is absolute so that the working directory does
// not matter.
const schemaURL = "schema:///input"

// noLoader keeps references inside the document. The published meta-schemas are embedded in the
// library and are not loaded through it.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %q leaves the schema; put the definition into $defs", url)
}

// Decode parses and validates raw, and gives its numbers the types that the schema declares. A nil
// Schema accepts any object.
func (s *Schema) Decode(raw []byte, limits ...strictjson.Option) (map[string]any, error) {
	in, err := strictjson.Object(raw, limits...)
	if err != nil {
		return nil, inputError(err)
	}
	if s == nil {
		return in, nil
	}
	if s.plain {
		if _, ok := s.Root.fit(in); ok {
			return in, nil
		}
	}
	if err := s.check(in); err != nil {
		return nil, violationsOf(err)
	}
	if _, err := s.Root.convert(in); err != nil {
		return nil, err
	}
	return in, nil
}

// check validates a decoded input. A panic in the library, or a schema that takes too long, refuses
// the input.
func (s *Schema) check(in any) (err error) {
	c := s.ready.get()
	if c == nil {
		compiled, err := compileSchema(s.Raw)
		if err != nil {
			return err
		}
		c = newChecker(compiled)
	}
	defer s.ready.put(c)
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return c.validate(in)
}

// Error says why an input was refused.
type Error struct {
	Violations []Violation // at least one; sorted by pointer
	Err        error       // the cause if the input is not a JSON object at all
}

// Violation is one place where an input breaks its schema.
type Violation struct {
	Pointer string // JSON pointer into the input; "" is the whole input
	Msg     string
}

// maxShownViolations and maxViolationText limit the text of an Error, which models read and calls
// store.
const (
	maxShownViolations = 5
	maxViolationText   = 300
)

// Error lists the first violations on one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("the arguments do not fit the tool's schema")
	for i, v := range e.Violations {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		if i == maxShownViolations {
			fmt.Fprintf(&b, "; and %d more", len(e.Violations)-i)
			break
		}
		b.WriteString(sep)
		if v.Pointer != "" {
			b.WriteString("at " + display.Shorten(v.Pointer, maxViolationText) + ": ")
		}
		b.WriteString(display.Shorten(v.Msg, maxViolationText))
	}
	return b.String()
}

// Faults returns the pointer and text of each violation, for callers that do not know this package.
func (e *Error) Faults() iter.Seq2[string, string] {
	return func(yield func(pointer, text string) bool) {
		for _, v := range e.Violations {
			if !yield(v.Pointer, v.Msg) {
				return
			}
		}
	}
}

// Unwrap returns the cause if the input is not a JSON object.
func (e *Error) Unwrap() error { return e.Err }

func inputError(err error) *Error {
	v := Violation{Msg: err.Error()}
	if je, ok := errors.AsType[*strictjson.Error](err); ok {
		v.Pointer, v.Msg = je.Path, je.Err.Error()
	}
	return &Error{Violations: []Violation{v}, Err: err}
}

func violationsOf(err error) *Error {
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &Error{Violations: []Violation{{Msg: err.Error()}}}
	}
	out := &Error{}
	collectViolations(ve.DetailedOutput(), &out.Violations)
	slices.SortFunc(out.Violations, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Msg, b.Msg))
	})
	out.Violations = slices.Compact(out.Violations)
	return out
}

// collectViolations keeps the leaves; the nodes above them only group.
func collectViolations(u *jsonschema.OutputUnit, into *[]Violation) {
	if len(u.Errors) == 0 && u.Error != nil {
		*into = append(*into, Violation{Pointer: u.InstanceLocation, Msg: u.Error.String()})
	}
	for i := range u.Errors {
		collectViolations(&u.Errors[i], into)
	}
}

// PathTexts returns the distinct texts in an input that the schema marks as paths, sorted. An input
// that does not match the schema has none.
func (s *Schema) PathTexts(input []byte, limits ...strictjson.Option) []string {
	if s == nil || len(s.paths) == 0 {
		return nil
	}
	in, err := s.Decode(input, limits...)
	if err != nil {
		return nil
	}
	var out []string
	s.collectPaths(s.Root, in, &out)
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *Schema) collectPaths(t *Type, v any, out *[]string) {
	if t == nil {
		return
	}
	switch v := v.(type) {
	case string:
		if s.paths[t] {
			*out = append(*out, v)
		}
	case []any:
		for _, item := range v {
			s.collectPaths(t.Elem, item, out)
		}
	case map[string]any:
		for name, item := range v {
			if sub := t.Fields[name]; sub != nil {
				s.collectPaths(sub, item, out)
			} else {
				s.collectPaths(t.Elem, item, out)
			}
		}
	}
}

const pathFormat = "path"

func pathNodes(root *Type, raw []byte) map[*Type]bool {
	doc, err := strictjson.Object(raw, strictjson.MaxBytes(MaxBytes))
	if err != nil {
		return nil // cannot happen: it has been compiled
	}
	found, seen := map[*Type]bool{}, map[*Type]bool{}
	var walk func(*Type)
	walk = func(t *Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		if node, ok := NodeAt(doc, t.Location).(map[string]any); ok && t.Kind == KindString && node["format"] == pathFormat {
			found[t] = true
		}
		walk(t.Elem)
		for _, f := range t.Fields {
			walk(f)
		}
	}
	walk(root)
	return found
}

// NodeAt returns what a location of the compiled schema points to in its document.
func NodeAt(doc any, location string) any {
	_, pointer, ok := strings.Cut(location, "#")
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch v := doc.(type) {
		case map[string]any:
			doc = v[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		default:
			return nil
		}
	}
	return doc
}
