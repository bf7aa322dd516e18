// Package textfile reads the small files that operators write: tools, webhooks, people, settings.
// They must be regular files of a limited size. YAML is parsed strictly, and a file has exactly one
// document, so nothing in it is ignored. Errors are an [Error] with file, line and column.
// [WriteYAML] writes what people read and may change.
package textfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/internal/strictjson"
)

// MaxBytes is the default maximum size of a file.
const MaxBytes = 1 << 20

// Error says what is wrong with a file, and where.
type Error struct {
	Kind string // what the file is, such as "tools file"
	File string
	Part string // the part of the file, such as "tool refund"; "": the whole file
	Err  error
}

// Error names the file, the place if it is known, and the part.
func (e *Error) Error() string {
	s := e.Kind + " " + e.File
	if f, ok := errors.AsType[*FaultError](e.Err); ok {
		if f.Line > 0 {
			s += fmt.Sprintf(":%d:%d", f.Line, f.Col)
		}
		if e.Part != "" {
			s += ": " + e.Part
		}
		return s + ": " + f.text()
	}
	if e.Part != "" {
		s += ": " + e.Part
	}
	return s + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Read reads a regular file of at most the given number of bytes. Errors are those of the system,
// which name the file, or an [Error] if the file is longer or not a regular file.
func Read(kind, path string, most int) ([]byte, error) {
	data, _, err := plainfile.Read(path, most)
	return checked(kind, path, most, data, err)
}

// ReadHanded is Read for a command that reads the file once: it also accepts the pipe
// that a shell passes for <(…).
func ReadHanded(kind, path string, most int) ([]byte, error) {
	data, err := plainfile.ReadHanded(path, most)
	return checked(kind, path, most, data, err)
}

func checked(kind, path string, most int, data []byte, err error) ([]byte, error) {
	if odd, ok := errors.AsType[*plainfile.KindError](err); ok {
		return nil, &Error{Kind: kind, File: path, Err: errors.New("is " + odd.Kind + ", not a file")}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if err := bounded(data, most); err != nil {
		return nil, &Error{Kind: kind, File: path, Err: err}
	}
	return data, nil
}

// DecodeYAML decodes the only document of a YAML text of at most [MaxBytes] into to. A key that to
// does not have is an error, and so is a duplicate key. An empty text is a document without keys.
// Fractions such as 1.0 stay numbers below the given keys, or if to is an *any; elsewhere they could
// become other texts and are refused.
func DecodeYAML(data []byte, to any, numbersBelow ...string) (err error) {
	// The YAML library has panicked on odd input; no file may end the program.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", r)
		}
	}()
	if err := bounded(data, MaxBytes); err != nil {
		return err
	}
	if err := cmp.Or(notUTF8(data), noDirective(data)); err != nil {
		return err
	}
	_, fractions := to.(*any)
	if err := noOddNumber(data, numberCheck{below: numbersBelow, fractions: fractions}); err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	switch err := d.Decode(to); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return faultOf(err)
	}
	var more any
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("has more than one document")
	}
	return nil
}

// noDirective refuses lines such as %YAML 1.2 before the document, which the library
// takes for a separate document.
func noDirective(data []byte) error {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		switch {
		case len(text) == 0 || text[0] == '#':
		case line[0] == '%':
			return &FaultError{Line: n, Col: 1, Msg: "contains a YAML directive", Hint: fmt.Sprintf("leave out the line %.40q", text)}
		default:
			return nil
		}
	}
	return nil
}

// notUTF8 refuses a text in another encoding: its names would be those of no one.
func notUTF8(data []byte) error {
	n := 0
	for line := range bytes.Lines(data) {
		if n++; !utf8.Valid(line) {
			return &FaultError{Line: n, Col: 1, Msg: "is not UTF-8", Hint: "save the file as UTF-8"}
		}
	}
	return nil
}

// noOddNumber refuses numbers that are not read as they are written: without quotes, the name 010
// would become 8, and 1.10 would become 1.1.
func noOddNumber(data []byte, check numberCheck) error {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil //nolint:nilerr // the decoder says what is wrong
	}
	check.fault = new(error)
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(check, doc.Body)
		}
	}
	return *check.fault
}

type numberCheck struct {
	below     []string // the keys below which fractions are permitted
	fractions bool     // they are permitted here
	fault     *error
}

func (c numberCheck) Visit(n ast.Node) ast.Visitor {
	var value any
	switch n := n.(type) {
	case *ast.AnchorNode:
		c.fractions = false // a text may repeat the value
		return c
	case *ast.MappingValueNode:
		ast.Walk(numberCheck{fault: c.fault}, n.Key) // a key is always a text
		c.fractions = c.fractions || slices.Contains(c.below, n.Key.GetToken().Value)
		return c
	case *ast.IntegerNode:
		value = n.Value
	case *ast.FloatNode:
		if c.fractions {
			return c
		}
		value = n.Value
	case *ast.InfinityNode:
		value = n.Value
	case *ast.NanNode:
		value = n.GetValue()
	default:
		return c
	}
	if t := n.GetToken(); *c.fault == nil && fmt.Sprint(value) != t.Value {
		*c.fault = &FaultError{Line: t.Position.Line, Col: t.Position.Column, Msg: fmt.Sprintf("is %s, which would become %v", t.Value, value),
			Hint: fmt.Sprintf("put it in quotes if it is a text, or write %v if it is a number", value)}
	}
	return c
}

// CheckVersion refuses a file whose version is not 1.
func CheckVersion(v int) error {
	if v != 1 {
		return fmt.Errorf("version is %d, write version: 1", v)
	}
	return nil
}

func bounded(data []byte, most int) error {
	switch {
	case len(data) <= most:
		return nil
	case most%(1<<20) == 0:
		return fmt.Errorf("is longer than %d MiB", most>>20)
	case most%(1<<10) == 0:
		return fmt.Errorf("is longer than %d KiB", most>>10)
	}
	return fmt.Errorf("is longer than %d bytes", most)
}

// FaultError is one error in a file.
type FaultError struct {
	Line, Col int    // from 1; 0: unknown
	Key       string // an unknown key
	Msg       string
	Hint      string // how to correct it
	Err       error  // cause; may be nil
}

// Error returns "[line:col] fault (hint)".
func (f *FaultError) Error() string {
	if f.Line == 0 {
		return f.text()
	}
	return fmt.Sprintf("[%d:%d] %s", f.Line, f.Col, f.text())
}

func (f *FaultError) Unwrap() error { return f.Err }

func (f *FaultError) text() string {
	if f.Hint == "" {
		return f.Msg
	}
	return f.Msg + " (" + f.Hint + ")"
}

var unknownKey = regexp.MustCompile(`^unknown field "([^"]*)"$`)

// faultOf converts an error of the YAML library into words for authors of files.
func faultOf(err error) error {
	found, ok := errors.AsType[yaml.Error](err)
	if !ok || found.GetToken() == nil || found.GetToken().Position == nil {
		return errors.New(yaml.FormatError(err, false, false))
	}
	tok := found.GetToken()
	f := &FaultError{Line: tok.Position.Line, Col: tok.Position.Column, Msg: found.GetMessage()}
	if m := unknownKey.FindStringSubmatch(f.Msg); m != nil {
		f.Key = m[1]
	}
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		f.Msg = keyBefore(tok) + "must be " + typeName(typed.DstType)
	}
	if other, ok := errors.AsType[*yaml.UnexpectedNodeTypeError](err); ok {
		f.Msg = keyBefore(tok) + "is " + nodeName(other.Actual) + ", want " + nodeName(other.Expected)
	}
	if strings.Contains(tok.Value+tok.Origin, "\t") || strings.Contains(f.Msg, "'\t'") {
		f.Hint = "indent with spaces: YAML does not permit tabs there"
	}
	return f
}

// keyBefore returns the key of a value, with a colon; "" if the token is not a value.
func keyBefore(tok *token.Token) string {
	colon := tok.Prev
	if colon == nil || colon.Type != token.MappingValueType || colon.Prev == nil {
		return ""
	}
	return colon.Prev.Value + ": "
}

// typeName names a Go type for authors of files.
func typeName(t reflect.Type) string {
	switch {
	case t == nil:
		return "something else"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		return "a whole number"
	case t.Kind() == reflect.String:
		return "a text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "keys and values"
	default:
		return t.String()
	}
}

// nodeName names a kind of YAML node for authors of files.
func nodeName(t ast.NodeType) string {
	switch t {
	case ast.SequenceType:
		return "a list"
	case ast.MappingType, ast.MappingValueType:
		return "keys and values"
	case ast.StringType, ast.LiteralType:
		return "text"
	default:
		return strings.ToLower(t.String())
	}
}

// Place returns the position of a value in a YAML text, by a path such as
// $.tools[0].kind; 0 if it does not exist.
func Place(data []byte, path string) (line, col int) {
	defer func() {
		if recover() != nil { // see DecodeYAML
			line, col = 0, 0
		}
	}()
	p, err := yaml.PathString(path)
	if err != nil {
		return 0, 0
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return 0, 0
	}
	node, err := p.FilterFile(file)
	if err != nil || node == nil || node.GetToken() == nil || node.GetToken().Position == nil {
		return 0, 0
	}
	pos := node.GetToken().Position
	return pos.Line, pos.Column
}

// WriteYAML writes a JSON value in block style, with members in the same order and numbers
// with the same digits. It follows a name or, with inline, a dash or the beginning of the text: only
// there its first member stands on the same line. With flow, a list of scalars is on one line.
// After an error the text is incomplete.
func WriteYAML(b *bytes.Buffer, value []byte, indent string, inline, flow bool) error {
	kind := strictjson.KindOf(value)
	var members []strictjson.Member
	var err error
	switch kind {
	case "object":
		members, err = strictjson.Members(value)
	case "array":
		members, err = strictjson.Items(value)
	}
	if err != nil {
		return err
	}
	if len(members) == 0 || flow && kind == "array" && !slices.ContainsFunc(members, isNested) {
		if !inline {
			b.WriteByte(' ')
		}
		line, err := yamlLine(value, members)
		b.WriteString(line + "\n")
		return err
	}
	for i, m := range members {
		switch {
		case i > 0:
			b.WriteString(indent)
		case !inline:
			b.WriteString("\n" + indent)
		}
		if kind == "array" {
			b.WriteString("- ")
		} else {
			b.WriteString(YAMLText(m.Name) + ":")
		}
		if err := WriteYAML(b, m.Value, indent+"  ", kind == "array", flow); err != nil {
			return err
		}
	}
	return nil
}

func isNested(m strictjson.Member) bool {
	kind := strictjson.KindOf(m.Value)
	return kind == "object" || kind == "array"
}

// yamlLine returns a scalar, a list of scalars or an empty object on one line.
func yamlLine(value []byte, items []strictjson.Member) (string, error) {
	switch strictjson.KindOf(value) {
	case "object":
		return "{}", nil
	case "array":
		texts := make([]string, len(items))
		for i, m := range items {
			var err error
			if texts[i], err = yamlLine(m.Value, nil); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(texts, ", ") + "]", nil
	case "string":
		text, err := strictjson.Text(value)
		return YAMLText(text), err
	}
	return string(value), strictjson.Check(value)
}

var (
	// plainYAML needs no quotes, unless it is one of yamlWords.
	plainYAML = regexp.MustCompile(`^[A-Za-z_$/][A-Za-z0-9_$./@+-]*( [A-Za-z0-9_$./@+-]+)*$`)
	yamlWords = regexp.MustCompile(`(?i)^(true|false|null|yes|no|on|off|y|n)$`)
)

// YAMLText returns a text as YAML. A quoted one is a JSON string, in which nothing is invisible or
// turns text around: a person reads it.
func YAMLText(text string) string {
	if plainYAML.MatchString(text) && !yamlWords.MatchString(text) {
		return text
	}
	quoted, err := strictjson.AppendString(nil, text)
	if err != nil {
		return `""` // cannot be: the text came from a decoder
	}
	var out strings.Builder
	for _, r := range string(quoted) {
		switch {
		case !reveal.Invisible(r):
			out.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
