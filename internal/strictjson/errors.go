package strictjson

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// What can be wrong with an input. Each [*Error] wraps exactly one of these.
var (
	ErrTooLarge      = errors.New("input too large")
	ErrTooDeep       = errors.New("input nested too deeply")
	ErrDuplicateName = errors.New("duplicate member")
	ErrUnknownMember = errors.New("unknown member")
	ErrMissingMember = errors.New("missing member") // for types that decode themselves
	ErrSyntax        = errors.New("invalid JSON")
	ErrType          = errors.New("wrong type")
)

// hints says what to do about each fault.
var hints = []struct {
	err  error
	hint string
}{
	{ErrTooLarge, "send less, or raise the limit"},
	{ErrTooDeep, "flatten the value, or raise the limit"},
	{ErrDuplicateName, "give each member once"},
	{ErrUnknownMember, "remove it or correct its spelling; names are case-sensitive"},
	{ErrMissingMember, "add it; names are case-sensitive"},
	{ErrSyntax, "send one JSON value in UTF-8"},
	{ErrType, "give a value of the wanted type"},
}

// Error says what is wrong with an input, and where.
type Error struct {
	Op     string // "decode", "check", "read", "encode", "canonicalize"
	Path   string // RFC 6901 pointer to the value at fault; "" is the whole input
	Offset int64  // byte offset of the fault or just before it; -1 if unknown
	Err    error  // wraps one of the sentinels
}

// Error returns the operation, place, fault and remedy in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op + " JSON")
	if e.Path != "" {
		b.WriteString(" at " + shorten(e.Path))
	}
	if e.Offset >= 0 {
		b.WriteString(" (byte " + strconv.FormatInt(e.Offset, 10) + ")")
	}
	b.WriteString(": " + e.Err.Error())
	for _, h := range hints {
		if errors.Is(e.Err, h.err) {
			b.WriteString("; " + h.hint)
			break
		}
	}
	return b.String()
}

// AtLine returns the text of err with a line and column of text instead of a byte offset.
func AtLine(err error, text string) string {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Offset < 0 || e.Offset > int64(len(text)) {
		return err.Error()
	}
	before := text[:e.Offset]
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return strings.Replace(err.Error(), fmt.Sprintf("(byte %d)", e.Offset), fmt.Sprintf("(line %d, column %d)", 1+strings.Count(before, "\n"), column), 1)
}

// Unwrap returns the sentinel with its details.
func (e *Error) Unwrap() error { return e.Err }

// Wrong returns the error for a value that the caller finds wrong. fault is a sentinel,
// and the place is the beginning of the value.
func Wrong(fault error, format string, args ...any) *Error {
	return &Error{Op: "decode", Err: fmt.Errorf("%w: %s", fault, fmt.Sprintf(format, args...))}
}

// Step is the part of a JSON pointer that leads to the member name.
func Step(name string) string { return string(jsontext.Pointer("").AppendToken(name)) }

// Within returns the error with its place in a document that contains the value at
// path, offset bytes from the start. An error of another type becomes the cause of a
// type error there.
func Within(err error, op, path string, offset int64) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Op: op, Path: path, Offset: offset, Err: fmt.Errorf("%w: %w", ErrType, err)}
	}
	out := *e
	out.Op, out.Path = op, path+e.Path
	switch {
	case offset < 0:
		out.Offset = -1
	case e.Offset >= 0:
		out.Offset = offset + e.Offset
	default:
		out.Offset = offset
	}
	return &out
}

// errorOf converts an error of the JSON library.
func errorOf(op string, err error) *Error {
	var own *Error
	var sem *json.SemanticError
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err, &sem):
		return semantic(op, sem)
	case errors.As(err, &own):
		return Within(err, op, "", 0)
	case errors.As(err, &syn):
		return syntactic(op, syn)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &Error{Op: op, Offset: -1, Err: fmt.Errorf("%w: unexpected end of input", ErrSyntax)}
	default:
		return &Error{Op: op, Offset: -1, Err: fmt.Errorf("%w: %w", ErrType, err)}
	}
}

func syntactic(op string, err *jsontext.SyntacticError) *Error {
	e := &Error{Op: op, Path: string(err.JSONPointer), Offset: err.ByteOffset}
	switch {
	case errors.Is(err.Err, jsontext.ErrDuplicateName):
		e.Err = fmt.Errorf("%w %s", ErrDuplicateName, quote(err.JSONPointer.LastToken()))
	case errors.Is(err.Err, io.ErrUnexpectedEOF):
		e.Err = fmt.Errorf("%w: unexpected end of input", ErrSyntax)
	default:
		e.Err = fmt.Errorf("%w: %w", ErrSyntax, err.Err)
	}
	return e
}

func semantic(op string, err *json.SemanticError) *Error {
	path, offset := string(err.JSONPointer), err.ByteOffset
	e := &Error{Op: op, Path: path, Offset: offset}
	var own *Error
	var syn *jsontext.SyntacticError
	switch {
	case errors.As(err.Err, &own):
		return Within(err.Err, op, path, offset)
	case errors.As(err.Err, &syn):
		return Within(syntactic(op, syn), op, path, offset)
	case errors.Is(err.Err, json.ErrUnknownName):
		e.Err = fmt.Errorf("%w %s", ErrUnknownMember, quote(err.JSONPointer.LastToken()))
	case err.GoType != nil && err.JSONKind != 0 && wanted(err.GoType) != kindName(err.JSONKind):
		e.Err = fmt.Errorf("%w: want %s, got %s", ErrType, wanted(err.GoType), kindName(err.JSONKind))
	case err.Err != nil:
		e.Err = fmt.Errorf("%w: %w", ErrType, err.Err)
	default:
		e.Err = fmt.Errorf("%w: not a valid %s", ErrType, wanted(err.GoType))
	}
	return e
}

// wanted returns the JSON type from which a Go type is decoded.
func wanted(t reflect.Type) string {
	if t == nil {
		return "value"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "string"
	case reflect.Slice, reflect.Array:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Interface:
		return "value"
	default:
		return "integer"
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{', '}':
		return "object"
	case '[', ']':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	default:
		return "null"
	}
}

// maxShown bounds how much of an input an error text repeats.
const maxShown = 120

func quote(s string) string { return strconv.Quote(shorten(s)) }

func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
