package permission

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/paths"
	"github.com/askance-dev/askance/permission/internal/schema"
)

// Schema is a compiled JSON Schema of a tool's input. It is immutable and may
// be used by several goroutines.
type Schema struct {
	input     *schema.Schema
	arguments []string // see Arguments
}

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
	return &Schema{input, argumentOrder(raw)}, nil
}

// JSON is the schema as it was given, the caller's to keep; nil for none.
func (s *Schema) JSON() []byte {
	if s == nil {
		return nil
	}
	return bytes.Clone(s.input.Raw)
}

// Arguments are the arguments that the schema names: those that it requires, then the
// others, each in the order of its text. The caller must not change them.
func (s *Schema) Arguments() []string {
	if s == nil {
		return nil
	}
	return s.arguments
}

func argumentOrder(raw []byte) []string {
	var out []string
	var required, properties []strictjson.Member
	members, _ := strictjson.Members(raw) // it has been compiled
	for _, m := range members {
		switch m.Name {
		case "required":
			required, _ = strictjson.Items(m.Value)
		case "properties":
			properties, _ = strictjson.Members(m.Value)
		}
	}
	for _, r := range required {
		if name, err := strictjson.Text(r.Value); err == nil {
			out = append(out, name)
		}
	}
	for _, p := range properties {
		if !slices.Contains(out, p.Name) {
			out = append(out, p.Name)
		}
	}
	return out
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

// ArgsType is the name under which conditions know the type of args.
const ArgsType = celrule.ArgsType

// Field is one declared member of a tool's input.
type Field struct {
	Name string
	// Type is its type in conditions, as CEL writes it.
	Type string
	// Struct names the type of its own members, or of those of its elements;
	// "" where none are declared.
	Struct string
	// Required says that every input that fits the schema has it, given that it
	// has what the field is a member of.
	Required    bool
	Format      string // the schema's format, e.g. uri
	Description string
	Enum        []any
	// JSONTypes are the types that the schema allows, such as string and null;
	// none where it does not say.
	JSONTypes []string
	// MinLength is that of a text or list; 0 where the schema does not say.
	MinLength int
	// MaxLength is that of a text or list; -1 where the schema does not limit it.
	MaxLength int
}

// Fields are the members of a struct type that conditions see, by name;
// ArgsType is the input as a whole. There are none for what is not declared.
func (s *Schema) Fields(structType string) []Field {
	if s == nil {
		return nil
	}
	structs := map[string]*schema.Type{}
	s.root().Structs(structs)
	t := structs[structType]
	if t == nil {
		return nil
	}
	doc, err := strictjson.Object(s.input.Raw, strictjson.MaxBytes(schema.MaxBytes))
	if err != nil {
		doc = nil // it has been compiled: no more than descriptions can be lost
	}
	var out []Field
	for _, name := range slices.Sorted(maps.Keys(t.Fields)) {
		ft := t.Fields[name]
		f := Field{Name: name, Type: celrule.CelType(ft).String(), Struct: structName(ft), Required: slices.Contains(t.Required, name), MaxLength: -1}
		if ft.Kind == schema.KindString || ft.Kind == schema.KindList {
			f.MaxLength = ft.MaxLen
		}
		if node, ok := schema.NodeAt(doc, ft.Location).(map[string]any); ok {
			f.describe(node)
		}
		out = append(out, f)
	}
	return out
}

func (f *Field) describe(node map[string]any) {
	f.Format, _ = node["format"].(string)
	f.Description, _ = node["description"].(string)
	f.Enum, _ = node["enum"].([]any)
	switch types := node["type"].(type) {
	case string:
		f.JSONTypes = []string{types}
	case []any:
		for _, t := range types {
			if name, ok := t.(string); ok {
				f.JSONTypes = append(f.JSONTypes, name)
			}
		}
	}
	for _, key := range []string{"minLength", "minItems"} {
		if n, ok := node[key].(int64); ok && n > 0 && n < math.MaxInt32 {
			f.MinLength = int(n)
		}
	}
}

func structName(t *schema.Type) string {
	for range celrule.MaxNestedLoops + 1 {
		switch {
		case t == nil:
			return ""
		case t.Kind == schema.KindStruct:
			return t.Name
		}
		t = t.Elem
	}
	return ""
}

// Resolve fills in Resolved from the files of this machine: for every text of
// the input that the schema calls a path, and for the working directories, the
// absolute path that a program running in Cwd opens, all symbolic links
// followed. Resolved directories join WorkingDirs, so that both spellings of
// one are inside.
//
// Call it where the request is prepared, on the machine that runs the tool, and
// never for a tool that runs elsewhere. Deciding itself looks at no file. What
// cannot be resolved is left out: rules that ask for it fail closed. Between
// the decision and the run a link can change; a tool that must not be led
// astray by one opens its files below an os.Root.
func (r *Request) Resolve(s *Schema) {
	given := s.Paths(r.Input)
	if len(given) == 0 {
		return
	}
	r.Resolved = make(map[string]string, len(given))
	for _, p := range given {
		if target, err := resolvePath(r.Cwd, p); err == nil {
			r.Resolved[p] = target
		}
	}
	dirs := slices.Clone(r.WorkingDirs) // the caller's own stay as they are
	for _, d := range r.WorkingDirs {
		if target, err := resolvePath(r.Cwd, d); err == nil && !slices.Contains(dirs, target) {
			dirs = append(dirs, target)
		}
	}
	r.WorkingDirs = dirs
}

// maxLinks is how many symbolic links are followed for one path, as Linux has it.
const maxLinks = 40

var errTooManyLinks = errors.New("too many symbolic links")

// resolvePath follows the links of a path from left to right, as the operating
// system does: ".." is the folder above where a link has led, which cleaning
// the text first would miss. What does not exist yet has no links.
func resolvePath(cwd, p string) (string, error) {
	if _, err := paths.Join(cwd, p); err != nil && !strings.HasPrefix(p, "/") {
		return "", err
	}
	if _, err := paths.Clean(p); err != nil {
		return "", err
	}
	if !strings.HasPrefix(p, "/") {
		p = cwd + "/" + p
	}
	at, todo, links := "/", strings.Split(p, "/"), 0
	for len(todo) > 0 {
		step := todo[0]
		todo = todo[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, step)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return newFile(next, todo)
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", errTooManyLinks
		}
		if strings.HasPrefix(target, "/") {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// newFile is the path of something that is not there. Going up from it is no
// way that the operating system would take.
func newFile(at string, todo []string) (string, error) {
	for _, step := range todo {
		if step == ".." {
			return "", fs.ErrNotExist
		}
		at = filepath.Join(at, step)
	}
	return at, nil
}
