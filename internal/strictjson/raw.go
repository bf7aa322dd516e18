package strictjson

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of an object, with its value not decoded.
type Member struct {
	Name   string
	Value  []byte // the exact bytes, a slice of the input
	Offset int    // of Value within the input
}

// Members splits one object into its members, in the order of the input. The values are
// slices of data, not copies. It is for types that decode themselves, on input that was
// already checked as a whole.
func Members(data []byte) ([]Member, error) {
	r, err := open(data, '{')
	if err != nil {
		return nil, err
	}
	defer r.release()
	dec := &r.dec
	members := make([]Member, 0, 8)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, errorOf("decode", err)
		}
		key := name.String()
		value, offset, err := slice(data, dec)
		if err != nil {
			return nil, err
		}
		members = append(members, Member{Name: key, Value: value, Offset: offset})
	}
	return members, closing(dec)
}

// Join writes members as one object. Their names must be UTF-8.
func Join(members []Member) []byte {
	out := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = AppendString(out, m.Name) // it is UTF-8
		out = append(append(out, ':'), m.Value...)
	}
	return append(out, '}')
}

// Without returns one object without the members of these names.
func Without(data []byte, names ...string) ([]byte, error) {
	members, err := Members(data)
	return Join(slices.DeleteFunc(members, func(m Member) bool { return slices.Contains(names, m.Name) })), err
}

// Split calls visit for each member of an object as [Marshal] writes it, until it returns
// false. It only guesses where a value ends, and a name may come twice: visit must decode each
// value and accept each name once. Split returns false for any other object, also after calls.
func Split(data []byte, visit func(name, value []byte) bool) bool {
	r := quickReader{data: data}
	if r.take("{}") {
		return len(r.data) == 0
	}
	before := "{"
	for ; r.take(before); before = "," {
		if !r.take(`"`) {
			return false
		}
		end := bytes.IndexByte(r.data, '"')
		if end < 0 || !isPlainText(r.data[:end]) {
			return false
		}
		name := r.data[:end]
		r.data = r.data[end+1:]
		if !r.take(":") {
			return false
		}
		if value, ok := r.part(); !ok || !visit(name, value) {
			return false
		}
	}
	return before == "," && len(r.data) == 1 && r.take("}")
}

// SplitList is [Split] for an array.
func SplitList(data []byte, visit func(value []byte) bool) bool {
	r := quickReader{data: data}
	if r.take("[]") {
		return len(r.data) == 0
	}
	before := "["
	for ; r.take(before); before = "," {
		if value, ok := r.part(); !ok || !visit(value) {
			return false
		}
	}
	return before == "," && len(r.data) == 1 && r.take("]")
}

// Items splits one array as [Members] splits an object. Name is empty.
func Items(data []byte) ([]Member, error) {
	r, err := open(data, '[')
	if err != nil {
		return nil, err
	}
	defer r.release()
	dec := &r.dec
	var items []Member
	for dec.PeekKind() != ']' {
		value, offset, err := slice(data, dec)
		if err != nil {
			return nil, err
		}
		items = append(items, Member{Value: value, Offset: offset})
	}
	return items, closing(dec)
}

// KindOf returns the kind of a value: "object", "array", "string", "number", "boolean"
// or "null". It looks only at the first byte; "" means that no value starts with it.
func KindOf(value []byte) string {
	switch k := jsontext.Value(value).Kind(); k {
	case 0, '}', ']':
		return ""
	default:
		return kindName(k)
	}
}

// Find returns the value of the member with that name, or nil if there is none.
func Find(members []Member, name string) []byte {
	for _, m := range members {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// TextMember returns the text of the member with that name, or "" if there is none or
// it is not text.
func TextMember(members []Member, name string) string {
	s, _ := Text(Find(members, name))
	return s
}

// Text decodes a JSON string.
func Text(value []byte) (string, error) {
	if k := KindOf(value); k != "string" {
		return "", Wrong(ErrType, "want string, got %s", k)
	}
	if n := len(value); n > 1 && value[n-1] == '"' && isPlainText(value[1:n-1]) {
		return string(value[1 : n-1]), nil
	}
	b, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", errorOf("decode", err)
	}
	return string(b), nil
}

// Int decodes a JSON number that is written as an integer and fits 64 bits:
// 2.0 and 1e3 are refused.
func Int(value []byte) (int64, error) {
	if k := KindOf(value); k != "number" {
		return 0, Wrong(ErrType, "want integer, got %s", k)
	}
	i, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, Wrong(ErrType, "want a 64-bit integer, got %s", shorten(string(value)))
	}
	return i, nil
}

// Bool decodes a JSON boolean.
func Bool(value []byte) (bool, error) {
	if k := KindOf(value); k != "boolean" {
		return false, Wrong(ErrType, "want boolean, got %s", k)
	}
	return value[0] == 't', nil
}

// AppendString appends s as a JSON string. It fails if s is not UTF-8.
func AppendString(dst []byte, s string) ([]byte, error) {
	if isPlainText(s) {
		return append(append(append(dst, '"'), s...), '"'), nil
	}
	b, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return dst, &Error{Op: "encode", Offset: -1, Err: fmt.Errorf("%w: text is not UTF-8", ErrSyntax)}
	}
	return b, nil
}

func open(data []byte, want jsontext.Kind) (*plainReader, error) {
	r := readPlain(data)
	tok, err := r.dec.ReadToken()
	switch {
	case err != nil:
		err = errorOf("decode", err)
	case tok.Kind() != want:
		err = &Error{Op: "decode", Offset: 0, Err: fmt.Errorf("%w: want %s, got %s", ErrType, kindName(want), kindName(tok.Kind()))}
	default:
		return r, nil
	}
	r.release()
	return nil, err
}

// slice reads the next value and returns it as a slice of data, not of the decoder's
// buffer.
func slice(data []byte, dec *jsontext.Decoder) ([]byte, int, error) {
	value, err := dec.ReadValue()
	if err != nil {
		return nil, 0, errorOf("decode", err)
	}
	end := int(dec.InputOffset())
	start := end - len(value)
	return data[start:end:end], start, nil
}

func closing(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return errorOf("decode", err)
	}
	return atEnd("decode", dec)
}

// plainReader reads objects token by token, without the reflection that decodes other
// types. It is reused.
type plainReader struct {
	buf bytes.Buffer
	dec jsontext.Decoder
}

var plainReaders = sync.Pool{New: func() any { return new(plainReader) }}

func readPlain(data []byte) *plainReader {
	r := plainReaders.Get().(*plainReader)
	r.buf = *bytes.NewBuffer(data) // the decoder reads from it without a copy
	r.dec.Reset(&r.buf)
	return r
}

func (r *plainReader) release() {
	r.buf = bytes.Buffer{} // keeps no input alive
	plainReaders.Put(r)
}

// RepairText returns a JSON value with U+FFFD in place of invalid UTF-8 and of unpaired
// surrogates, which some programs write. Other faults remain.
func RepairText(data []byte) []byte {
	v := jsontext.Value(bytes.Clone(data))
	if v.Format(jsontext.AllowInvalidUTF8(true)) != nil {
		return data
	}
	return v
}
