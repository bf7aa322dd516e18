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
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/askance-dev/askance/internal/plainfile"
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
// does not have is an error, and so are a duplicate key, anchors and tags. An empty text is a document
// without keys. Values such as 1.0, True and null in a list stay what they are below the given keys,
// or if to is an *any; elsewhere they could become other texts and are refused.
func DecodeYAML(data []byte, to any, valuesBelow ...string) (err error) {
	// The YAML library has panicked on odd input; no file may end the program.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("cannot be read as YAML: %v", r)
		}
	}()
	if err := bounded(data, MaxBytes); err != nil {
		return err
	}
	data = withPlainLines(data)
	if err := cmp.Or(oddCharacter(data), noDirective(data)); err != nil {
		return err
	}
	tokens := lexer.Tokenize(string(data))
	file, err := parser.Parse(tokens, 0)
	if err = cmp.Or(faultOf(err), oneDocument(tokens)); err != nil {
		return err
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil
	}
	_, values := to.(*any)
	check := valueCheck{below: valuesBelow, values: values, fault: new(error)}
	if ast.Walk(check, file.Docs[0].Body); *check.fault != nil {
		return *check.fault
	}
	if err := yaml.NewDecoder(bytes.NewReader(nil), yaml.Strict()).DecodeFromNode(file.Docs[0].Body, to); err != nil {
		return faultOf(err)
	}
	return nil
}

// oneDocument refuses a second document, which the parser does not even read if the first is empty.
func oneDocument(tokens token.Tokens) error {
	begun, ended := false, false
	for _, t := range tokens {
		if t.Type == token.CommentType {
			continue
		}
		if begun && (ended || t.Type == token.DocumentHeaderType) {
			return faultAt(t, "has more than one document", "use one file for each")
		}
		begun, ended = true, t.Type == token.DocumentEndType
	}
	return nil
}

// withPlainLines drops a byte order mark, with which some editors start a file, and makes lines end in
// LF: in a text of several lines the YAML library keeps the CR of CR LF.
func withPlainLines(data []byte) []byte {
	return bytes.ReplaceAll(bytes.TrimPrefix(data, []byte("\ufeff")), []byte("\r\n"), []byte("\n"))
}

// noDirective refuses lines such as %YAML 1.2 before the document, which the library
// takes for a separate document.
func noDirective(data []byte) error {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := bytes.TrimSpace(line)
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

// oddCharacter refuses a text in another encoding, whose names would be those of no one, and a
// carriage return, which hides the text before it in terminals.
func oddCharacter(data []byte) error {
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if !utf8.Valid(line) {
			return &FaultError{Line: n, Col: 1, Msg: "is not UTF-8", Hint: "save the file as UTF-8"}
		}
		if bytes.IndexByte(line, '\r') >= 0 {
			return &FaultError{Line: n, Col: 1, Msg: "contains a carriage return", Hint: "end lines with LF or CR LF"}
		}
	}
	return nil
}

// valueCheck refuses what is not read as it is written: without quotes, the name 010 would become 8,
// 1.10 would become 1.1, True would become true and null would become empty.
type valueCheck struct {
	below  []string // the keys below which numbers, booleans and null stay what they are
	values bool     // they do so here
	fault  *error   // the first fault
}

func (c valueCheck) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		c.refuse(n, "is an anchor, alias, tag or merge key of YAML", "write the value out, without it")
		return nil
	case *ast.MappingValueNode:
		c.checkKey(n.Key)
		c.values = c.values || slices.Contains(c.below, n.Key.GetToken().Value)
		ast.Walk(c, n.Value)
		return nil
	case *ast.SequenceNode:
		for _, item := range n.Values {
			if item.Type() == ast.NullType && !c.values {
				c.refuse(item, "is an empty item of a list", "remove it, or put it in quotes if it is a text")
			}
		}
	case *ast.LiteralNode:
		return nil
	case *ast.StringNode:
		if t := n.GetToken(); t.Type == token.StringType && strings.Contains(strings.TrimSpace(t.Origin), "\t") {
			c.refuse(n, "contains a tab", "write a space, or put the text in quotes") // the library drops it
		}
	default:
		c.checkScalar(n)
	}
	return c
}

// checkKey refuses keys that are not texts: the library skips them, or gives them another name.
func (c valueCheck) checkKey(key ast.Node) {
	_, text := key.(*ast.StringNode)
	if !text && key.Type() != ast.MergeKeyType && (!c.values || key.Type() == ast.NullType) {
		c.refuse(key, "is not a text, as each key must be", "put the key in quotes")
	}
	ast.Walk(valueCheck{fault: c.fault}, key)
}

func (c valueCheck) checkScalar(n ast.Node) {
	var value any
	switch n := n.(type) {
	case *ast.IntegerNode:
		value = n.Value
	case *ast.InfinityNode:
		value = n.Value
	case *ast.NanNode:
		value = n.GetValue()
	case *ast.FloatNode:
		if value = n.Value; c.values {
			return
		}
	case *ast.BoolNode:
		if value = n.Value; c.values {
			return
		}
	default:
		return
	}
	if text := n.GetToken().Value; fmt.Sprint(value) != text {
		c.refuse(n, fmt.Sprintf("is %s, which would become %v", text, value), fmt.Sprintf("put it in quotes if it is a text, otherwise write %v", value))
	}
}

func (c valueCheck) refuse(n ast.Node, msg, hint string) {
	if *c.fault == nil {
		*c.fault = faultAt(n.GetToken(), msg, hint)
	}
}

// Integer is a whole number of a file. The YAML library itself reads 1.9 as 1.
type Integer int

// UnmarshalYAML accepts only a number that is written as a whole one.
func (i *Integer) UnmarshalYAML(n ast.Node) error {
	v, err := strconv.Atoi(n.GetToken().Value)
	if n.Type() != ast.IntegerType || err != nil {
		return faultAt(n.GetToken(), keyBefore(n.GetToken())+"must be a whole number", "write it without quotes, point or exponent")
	}
	*i = Integer(v)
	return nil
}

// CheckVersion refuses a file whose version is not 1.
func CheckVersion(v Integer) error {
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
	if err == nil {
		return nil
	}
	if ours, ok := errors.AsType[*FaultError](err); ok {
		return ours
	}
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

func faultAt(tok *token.Token, msg, hint string) error {
	f := &FaultError{Msg: msg, Hint: hint}
	if tok != nil && tok.Position != nil {
		f.Line, f.Col = tok.Position.Line, tok.Position.Column
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
	file, err := parser.ParseBytes(withPlainLines(data), 0)
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
