package permission

import (
	"bytes"

	"github.com/askance-dev/askance/permission/internal/schema"
)

// Schema is a compiled JSON Schema of a tool's input. It is immutable and may
// be used by several goroutines.
type Schema struct{ input *schema.Schema }

// CompileSchema compiles a JSON Schema (draft 2020-12 unless its $schema names
// another draft up to it). References must stay inside the document: nothing
// is ever loaded from the network or from files. Patterns are RE2. Dynamic
// references are refused in documents with more than one $id, and so are
// keywords that would check nothing although they seem to: misspelled ones, and
// those that the draft does not have.
func CompileSchema(raw []byte) (*Schema, error) {
	input, err := schema.Compile(raw)
	if err != nil {
		return nil, err
	}
	return &Schema{input}, nil
}

// JSON is the schema as it was given, the caller's to keep; nil for none.
func (s *Schema) JSON() []byte {
	if s == nil {
		return nil
	}
	return bytes.Clone(s.input.Raw)
}

// Hash is "sha256:" and the hex SHA-256 of the schema's text as it was given.
func (s *Schema) Hash() string { return s.input.Hash }

// Validate checks a tool's raw input: one JSON object, within DefaultLimits,
// that the schema accepts. Any fault is a *SchemaError.
func (s *Schema) Validate(raw []byte) error {
	_, err := s.decode(raw, DefaultLimits)
	return err
}

// decode parses and validates raw. A nil Schema accepts any object.
func (s *Schema) decode(raw []byte, limits Limits) (map[string]any, error) {
	if s == nil {
		return (*schema.Schema)(nil).Decode(raw, limits.ofInput()...)
	}
	return s.input.Decode(raw, limits.ofInput()...)
}

// root is the type of the input; nil: it is not declared.
func (s *Schema) root() *schema.Type {
	if s == nil {
		return nil
	}
	return s.input.Root
}

// PathFormat is the format by which a schema says that a text of the input is
// the path of a file: {"type": "string", "format": "path"}.
const PathFormat = "path"

// Paths are the texts of an input at the places that the schema calls paths,
// sorted, each once. An input that does not fit the schema has none.
func (s *Schema) Paths(input []byte) []string {
	if s == nil {
		return nil
	}
	return s.input.PathTexts(input, DefaultLimits.ofInput()...)
}

// ErrSchema marks a JSON Schema that cannot be compiled.
var ErrSchema = schema.ErrSchema

// SchemaError says why an input was refused. It lists the violations.
type SchemaError = schema.Error

// Violation is one place where an input breaks its schema: a JSON pointer into
// the input and a text.
type Violation = schema.Violation
