package permission

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/display"
)

// maxSchemaBytes bounds the text of one schema.
const maxSchemaBytes = 256 << 10

// ErrSchema marks a JSON Schema that cannot be compiled.
var ErrSchema = errors.New("invalid JSON Schema")

// Schema is a compiled JSON Schema of a tool's input. It is immutable and may
// be used by several goroutines.
type Schema struct {
	raw   []byte // to make further checkers from
	ready checkers
	root  *argType
	hash  string
	plain *plainSchema      // nil: the schema is not plain
	paths map[*argType]bool // nodes that are paths of files
}

// CompileSchema compiles a JSON Schema (draft 2020-12 unless its $schema names
// another draft up to it). References must stay inside the document: nothing
// is ever loaded from the network or from files. Patterns are RE2. Dynamic
// references are refused in documents with more than one $id, and so are
// keywords that would check nothing although they seem to: misspelled ones, and
// those that the draft does not have.
func CompileSchema(raw []byte) (*Schema, error) {
	compiled, err := compileSchema(raw)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	s := &Schema{raw: bytes.Clone(raw), root: rootType(compiled), hash: "sha256:" + hex.EncodeToString(sum[:])}
	s.paths = pathNodes(s.root, s.raw)
	s.plain = plainOf(compiled) // before the checker makes every node count
	s.ready.put(newChecker(compiled))
	return s, nil
}

func compileSchema(raw []byte) (s *jsonschema.Schema, err error) {
	// The compiler is given whatever a tool server sends; a defect in it must
	// not take the process down.
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("compile schema: %w: %v", ErrSchema, r)
		}
	}()
	doc, err := strictjson.Object(raw, strictjson.MaxBytes(maxSchemaBytes))
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
		return nil, fmt.Errorf("compile schema: %w: %w", ErrSchema, plainly(err, doc))
	}
	if faults := wordFaults(doc, compiled); len(faults) > 0 {
		return nil, fmt.Errorf("compile schema: %w: %s", ErrSchema, strings.Join(faults[:min(len(faults), maxShownViolations)], "; "))
	}
	if hasInnerID(doc, 0) && roams(compiled, map[*jsonschema.Schema]bool{}) {
		return nil, fmt.Errorf("compile schema: %w: $dynamicRef and $recursiveRef beside an inner $id are not supported; use $ref", ErrSchema)
	}
	return compiled, nil
}

// plainly says what is wrong with a schema without the way through the
// meta-schema on which that was found, and what a draft that is not known may be.
func plainly(err error, doc map[string]any) error {
	draft, _ := doc["$schema"].(string)
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok && load.URL == strings.TrimSuffix(draft, "#") {
		return fmt.Errorf("at /$schema: $schema names no draft that is known: %s; use draft 2020-12, 2019-09, draft-07, draft-06 or draft-04, or leave it out", display.Quoted(draft))
	}
	bad, ok := errors.AsType[*jsonschema.SchemaValidationError](err)
	if !ok {
		return err
	}
	var parts []string
	for _, v := range violationsOf(bad.Err).Violations {
		parts = append(parts, "at "+cmp.Or(v.Pointer, "/")+": "+v.Msg)
	}
	return errors.New("it does not fit the metaschema: " + strings.Join(parts, "; "))
}

// schemaURL is the base of relative references. It is absolute so that the
// working directory plays no part.
const schemaURL = "schema:///input"

// noLoader keeps references inside the document. The published meta-schemas
// are embedded in the library and do not come here.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("reference to %q leaves the schema; put the definition into $defs", url)
}

// JSON is the schema as it was given, the caller's to keep; nil for none.
func (s *Schema) JSON() []byte {
	if s == nil {
		return nil
	}
	return bytes.Clone(s.raw)
}

// Hash is "sha256:" and the hex SHA-256 of the schema's text as it was given.
func (s *Schema) Hash() string { return s.hash }

// Validate checks a tool's raw input: one JSON object, within DefaultLimits,
// that the schema accepts. Any fault is a *SchemaError.
func (s *Schema) Validate(raw []byte) error {
	_, err := s.decode(raw, DefaultLimits)
	return err
}

// decode parses and validates raw and gives its numbers the types that the
// schema declares. A nil Schema accepts any object.
func (s *Schema) decode(raw []byte, limits Limits) (map[string]any, error) {
	in, err := strictjson.Object(raw, limits.ofInput()...)
	if err != nil {
		return nil, inputError(err)
	}
	if s == nil {
		return in, nil
	}
	if err := s.check(in); err != nil {
		return nil, violationsOf(err)
	}
	if _, err := s.root.convert(in); err != nil {
		return nil, err
	}
	return in, nil
}

// check lays the schema on a decoded input. A panic of the library, or a schema
// that takes too long, refuses the input.
func (s *Schema) check(in any) error {
	if s.plain != nil && s.plain.accepts(in) {
		return nil
	}
	c := s.ready.get()
	if c == nil {
		compiled, err := compileSchema(s.raw)
		if err != nil {
			return err
		}
		c = newChecker(compiled)
	}
	_, err := safely(func() (struct{}, error) { return struct{}{}, c.validate(in) })
	s.ready.put(c)
	return err
}

// SchemaError says why an input was refused.
type SchemaError struct {
	Violations []Violation // at least one; sorted by pointer
	Err        error       // the cause where the input is no JSON object at all
}

// Violation is one place where an input breaks its schema.
type Violation struct {
	Pointer string // JSON pointer into the input; "" is the whole input
	Msg     string
}

// maxShownViolations and maxViolationText bound the text of a SchemaError: it
// is told to models and stored with the call.
const (
	maxShownViolations = 5
	maxViolationText   = 300
)

// Error lists the first violations in one line.
func (e *SchemaError) Error() string {
	var b strings.Builder
	b.WriteString("input does not fit the tool's schema")
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

// Faults gives the pointer and the text of each violation: for callers that are
// handed the error and do not know this package.
func (e *SchemaError) Faults() iter.Seq2[string, string] {
	return func(yield func(pointer, text string) bool) {
		for _, v := range e.Violations {
			if !yield(v.Pointer, v.Msg) {
				return
			}
		}
	}
}

// Unwrap gives the cause where the input is no JSON object.
func (e *SchemaError) Unwrap() error { return e.Err }

func inputError(err error) *SchemaError {
	v := Violation{Msg: err.Error()}
	if je, ok := errors.AsType[*strictjson.Error](err); ok {
		v.Pointer, v.Msg = je.Path, je.Err.Error()
	}
	return &SchemaError{Violations: []Violation{v}, Err: err}
}

func violationsOf(err error) *SchemaError {
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return &SchemaError{Violations: []Violation{{Msg: err.Error()}}}
	}
	out := &SchemaError{}
	collectViolations(ve.DetailedOutput(), &out.Violations)
	slices.SortFunc(out.Violations, func(a, b Violation) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		return strings.Compare(a.Msg, b.Msg)
	})
	out.Violations = slices.Compact(out.Violations)
	return out
}

// collectViolations keeps the leaves: what stands above them only groups.
func collectViolations(u *jsonschema.OutputUnit, into *[]Violation) {
	if len(u.Errors) == 0 && u.Error != nil {
		*into = append(*into, Violation{Pointer: u.InstanceLocation, Msg: u.Error.String()})
	}
	for i := range u.Errors {
		collectViolations(&u.Errors[i], into)
	}
}
