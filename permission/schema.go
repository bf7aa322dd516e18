package permission

import (
	"bytes"
	"cmp"
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

// Schema is a compiled JSON Schema of a tool's input. It is immutable and safe for concurrent use.
type Schema struct {
	input     *schema.Schema
	arguments []string // see Arguments
}

// CompileSchema compiles a JSON Schema, by default of draft 2020-12; $schema can name an earlier
// draft. References must stay inside the document: nothing is ever loaded from the network or from
// files. Patterns are RE2. Dynamic references are refused in documents with more than one $id. So
// are keywords that look as if they checked something but do not: misspelled ones and those that
// the draft does not have.
func CompileSchema(raw []byte) (*Schema, error) {
	input, err := schema.Compile(raw)
	if err != nil {
		return nil, err
	}
	return &Schema{input, argumentOrder(raw)}, nil
}

// JSON returns a copy of the schema as it was given; nil for a nil Schema.
func (s *Schema) JSON() []byte {
	if s == nil {
		return nil
	}
	return bytes.Clone(s.input.Raw)
}

// Arguments returns the arguments that the schema names: required ones first, then the others, each
// in the order of the text. The caller must not change the result.
func (s *Schema) Arguments() []string {
	if s == nil {
		return nil
	}
	return s.arguments
}

func argumentOrder(raw []byte) []string {
	var out []string
	var required, properties []strictjson.Member
	members, _ := strictjson.Members(raw) // cannot fail: it has been compiled
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

// Hash is "sha256:" and the hex SHA-256 of the schema's text as given.
func (s *Schema) Hash() string { return s.input.Hash }

// Validate checks a tool's raw input: it must be one JSON object within DefaultLimits that the
// schema accepts. Any fault is a *SchemaError.
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

// root is the type of the input; nil if it is not declared.
func (s *Schema) root() *schema.Type {
	if s == nil {
		return nil
	}
	return s.input.Root
}

// Paths returns the distinct texts in an input that the schema marks as paths, sorted: {"type":
// "string", "format": "path"}. An input that does not match the schema has none.
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

// Violation is one place where an input violates its schema: a JSON pointer into the input, and a
// text.
type Violation = schema.Violation

// ArgsType is the name of the type of args in conditions.
const ArgsType = celrule.ArgsType

// Field is one declared member of a tool's input.
type Field struct {
	Name string
	// Type is its type in conditions, in CEL's notation.
	Type string
	// Struct names the type of its members, or of its elements' members; "" if none are declared.
	Struct string
	// Required says that every input that matches the schema has the field, provided that it has
	// the enclosing object.
	Required    bool
	Format      string // the schema's format, e.g. uri
	Description string
	Enum        []any
	// JSONTypes are the types that the schema allows, such as string and null; empty if it does not
	// say.
	JSONTypes []string
	// MinLength is the minimum length of a text or list; 0 if the schema does not say.
	MinLength int
	// MaxLength is the maximum length of a text or list; -1 if the schema sets none.
	MaxLength int
}

// Fields returns the members of a struct type that conditions see, by name. ArgsType is the input
// as a whole. An undeclared type has none.
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
		doc = nil // cannot fail: it has been compiled, and only descriptions are at stake
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

// Resolve fills in Resolved from the files of this machine: for every text of the input
// that the schema marks as a path, and for the working directories, the absolute path
// that a program running in Cwd opens, with all symbolic links followed. Resolved
// directories join WorkingDirs, so paths in either spelling are inside.
//
// Call it where the request is prepared, on the machine that runs the tool, and never
// for a tool that runs elsewhere. Deciding itself reads no files. A path that cannot be
// resolved is left out: rules that read it fail closed. A link can change between the
// decision and the run; a tool that must not be misled by one opens its files below an
// os.Root.
func (r *Request) Resolve(s *Schema) {
	given := s.Paths(r.Input)
	if len(given) == 0 {
		return
	}
	r.Resolved = make(map[string]string, len(given))
	for _, p := range given {
		if target, err := ResolveLinks(cmp.Or(r.Folder, r.Cwd), p); err == nil {
			r.Resolved[p] = target
		}
	}
	dirs := slices.Clone(r.WorkingDirs) // the caller's slice stays unchanged
	for _, d := range r.WorkingDirs {
		if target, err := ResolveLinks(r.Cwd, d); err == nil && !slices.Contains(dirs, target) {
			dirs = append(dirs, target)
		}
	}
	r.WorkingDirs = dirs
}

// maxLinks is how many symbolic links are followed for one path, as on Linux.
const maxLinks = 40

var errTooManyLinks = errors.New("too many symbolic links")

// ResolveLinks returns the absolute path that a program running in the folder cwd on this machine
// opens for a path, with all symbolic links followed. It fails if the operating system could not
// open the path either.
//
// It follows links from left to right, as the operating system does: ".." is the folder above the
// target of a link, which cleaning the text first would miss. A path that does not exist yet has
// no links.
func ResolveLinks(cwd, p string) (string, error) {
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

// newFile returns the path of a file that does not exist. The operating system could not go up (..)
// from there.
func newFile(at string, todo []string) (string, error) {
	for _, step := range todo {
		if step == ".." {
			return "", fs.ErrNotExist
		}
		at = filepath.Join(at, step)
	}
	return at, nil
}
