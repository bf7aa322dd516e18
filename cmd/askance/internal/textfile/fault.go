package textfile

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

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

// Unwrap returns the cause.
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
