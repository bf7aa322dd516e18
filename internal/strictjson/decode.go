package strictjson

import (
	"bytes"
	"cmp"
	stdjson "encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal decodes data into v, a non-nil pointer, and refuses members that
// v's type does not have.
func Unmarshal(data []byte, v any, opts ...Option) error {
	return unmarshal(data, v, limitsOf(opts), false)
}

// UnmarshalOpen is Unmarshal, but drops unknown members. It is for formats that require
// this, such as AgentScope's; all other checks are the same.
func UnmarshalOpen(data []byte, v any, opts ...Option) error {
	return unmarshal(data, v, limitsOf(opts), true)
}

// ReadInto is [Unmarshal] into v, which can be set, for a part of a document whose bounds were
// checked.
func ReadInto(v reflect.Value, data []byte) error {
	if quickRead(data, v, readOptions{}) {
		return nil
	}
	return readOptions{}.unmarshal(data, v.Addr().Interface())
}

// Object decodes data, which must be an object, into a map. Integers become int64,
// other numbers float64. Integers that int64 cannot hold are refused, or kept as
// encoding/json's Number with [KeepBigIntegers].
func Object(data []byte, opts ...Option) (map[string]any, error) {
	l := limitsOf(opts)
	if bounds("decode", data, l) == nil {
		if m, ok := quickObject(data, anyDecoder{keepBig: l.keepBig}); ok {
			return m, nil
		}
	}
	var m map[string]any
	if err := Unmarshal(data, &m, opts...); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, &Error{Op: "decode", Offset: 0, Err: fmt.Errorf("%w: want object, got null", ErrType)}
	}
	return m, nil
}

func unmarshal(data []byte, v any, l limits, open bool) error {
	if err := bounds("decode", data, l); err != nil {
		return err
	}
	o := readOptions{open: open, keepBig: l.keepBig}
	if x := reflect.ValueOf(v); x.Kind() == reflect.Pointer && !x.IsNil() && quickRead(data, x.Elem(), o) {
		return nil
	}
	return o.unmarshal(data, v)
}

// readOptions say how the library reads.
type readOptions struct {
	open    bool // drop unknown members
	keepBig bool
}

func (o readOptions) unmarshal(data []byte, v any) error {
	anys := anyOptions
	if o.keepBig {
		anys = anyOptionsBig
	}
	if err := json.Unmarshal(data, v, anys, json.RejectUnknownMembers(!o.open)); err != nil {
		return errorOf("decode", err)
	}
	return nil
}

// These replace the library's decoding into an any, which rounds every number to a
// float64.
var (
	anyOptions    = json.WithUnmarshalers(json.UnmarshalFromFunc(anyDecoder{}.value))
	anyOptionsBig = json.WithUnmarshalers(json.UnmarshalFromFunc(anyDecoder{keepBig: true}.value))
)

// anyDecoder decodes into an any. The depth check bounds its recursion.
type anyDecoder struct{ keepBig bool }

func (d anyDecoder) value(dec *jsontext.Decoder, v *any) error {
	data, err := dec.ReadValue()
	if err != nil {
		return err
	}
	r := quickReader{data: data}
	value, ok := r.any(d)
	if !ok {
		end := len(data) - len(r.data)
		return &json.SemanticError{JSONPointer: dec.StackPointer() + jsontext.Pointer(pointerAt(data, end)), ByteOffset: dec.InputOffset() - int64(len(r.data)), Err: r.err}
	}
	*v = value
	return nil
}

// number keeps the value: int64 for integers, float64 for the rest.
func (d anyDecoder) number(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("number %s is too large", shorten(text))
		}
		return f, nil
	}
	i, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil:
		return i, nil
	case d.keepBig:
		return stdjson.Number(text), nil
	default:
		return nil, fmt.Errorf("integer %s does not fit 64 bits, send it as a string", shorten(text))
	}
}

// quickReader uses plans to read what Marshal writes: without white space, each member
// once. Its methods return false for anything else, which the library reads or refuses.
type quickReader struct {
	data    []byte
	options readOptions // for what is left to the library
	err     error       // why a number in an any was refused
}

// quickRead reads into v, whose value is zero. If it returns false, v is zero again.
func quickRead(data []byte, v reflect.Value, o readOptions) bool {
	p := planFor(v.Type())
	if p.form == general || p.form == raw || p.form == encoded || !v.IsZero() {
		return false
	}
	r := quickReader{data: data, options: o}
	if r.value(p, v) && len(r.data) == 0 {
		return true
	}
	v.SetZero()
	return false
}

// take removes s if the rest begins with it, and reports whether it did.
func (r *quickReader) take(s string) bool {
	ok := len(r.data) >= len(s) && string(r.data[:len(s)]) == s
	if ok {
		r.data = r.data[len(s):]
	}
	return ok
}

func (r *quickReader) value(p *plan, v reflect.Value) bool {
	switch p.form {
	case general, raw, encoded:
		return r.library(p, v)
	case pointer:
		if r.take("null") {
			return true
		}
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(p.elem, v.Elem())
	case text:
		s, ok := r.text()
		v.SetString(s)
		return ok
	case truth:
		is := r.take("true")
		v.SetBool(is)
		return is || r.take("false")
	case signed:
		n, err := strconv.ParseInt(r.digits(), 10, v.Type().Bits())
		v.SetInt(n)
		return err == nil
	case unsigned:
		n, err := strconv.ParseUint(r.digits(), 10, v.Type().Bits())
		v.SetUint(n)
		return err == nil
	case instant:
		end := 0
		for end < len(r.data) && (end == 0 || r.data[end] != '"') {
			end++
		}
		// Other forms of a time need more checks than UnmarshalText makes.
		if end < len("\"2006-01-02T15:04:05Z") || r.data[end-1] != 'Z' || r.data[len("\"2006-01-02T15")] != ':' || bytes.IndexByte(r.data[:end], ',') >= 0 || !isPlainText(r.data[1:end]) || r.data[0] != '"' {
			return false
		}
		t, _ := reflect.TypeAssert[*time.Time](v.Addr())
		err := t.UnmarshalText(r.data[1:end])
		r.data = r.data[min(end+1, len(r.data)):]
		return err == nil
	case list:
		return r.list(p, v)
	default:
		return r.object(p, v)
	}
}

// digits reads an integer as JSON spells it; "" for any other number.
func (r *quickReader) digits() string {
	end := 0
	for end < len(r.data) && (end == 0 && r.data[0] == '-' || '0' <= r.data[end] && r.data[end] <= '9') {
		end++
	}
	s := string(r.data[:end])
	if r.data = r.data[end:]; len(s) > 1 && (s[0] == '0' || s[:2] == "-0") {
		return ""
	}
	return s
}

func (r *quickReader) text() (string, bool) {
	if len(r.data) == 0 || r.data[0] != '"' {
		return "", false
	}
	end := TextEnd(r.data, 0)
	if end >= len(r.data) {
		return "", false
	}
	token := r.data[:end+1]
	r.data = r.data[end+1:]
	if isPlainText(token[1:end]) {
		return string(token[1:end]), true
	}
	b, err := jsontext.AppendUnquote(nil, token)
	return string(b), err == nil
}

func (r *quickReader) list(p *plan, v reflect.Value) bool {
	if !r.take("[") {
		return false
	}
	if r.take("]") {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return true
	}
	room := max(1, 64/int(max(1, v.Type().Elem().Size()))) // most lists are short
	for {
		if v.Len() == v.Cap() {
			v.Grow(room)
		}
		v.SetLen(v.Len() + 1)
		if !r.value(p.elem, v.Index(v.Len()-1)) {
			return false
		}
		if !r.take(",") {
			return r.take("]")
		}
	}
}

func (r *quickReader) object(p *plan, v reflect.Value) bool {
	if !r.take("{") {
		return false
	}
	var seen uint64
	for next := 0; ; {
		if !r.take(`"`) {
			return false
		}
		end := bytes.IndexByte(r.data, '"')
		if end < 0 {
			return false
		}
		i := p.find(r.data[:end], next)
		if r.data = r.data[end+1:]; i < 0 || seen&(1<<i) != 0 || !r.take(":") || !r.value(p.members[i].plan, fieldOf(v, p.members[i].index)) {
			return false
		}
		seen |= 1 << i
		next = i + 1
		if !r.take(",") {
			return r.take("}")
		}
	}
}

// find returns the index of a member, searching first where Marshal writes it.
func (p *plan) find(name []byte, from int) int {
	for n := range p.members {
		if i := (from + n) % len(p.members); p.members[i].name == string(name) {
			return i
		}
	}
	return -1
}

// library leaves the next value to the library. The end of the value is only guessed,
// and a wrong guess is refused.
func (r *quickReader) library(p *plan, v reflect.Value) bool {
	value, ok := r.part()
	switch {
	case !ok:
		return false
	case p.form == encoded:
		v.SetBytes(value)
		return true
	case p.form == raw:
		v.SetBytes(bytes.Clone(value))
		return jsontext.Value(value).IsValid()
	}
	return r.options.unmarshal(value, v.Addr().Interface()) == nil
}

// part takes the next value without white space around it. It only guesses where that ends.
func (r *quickReader) part() ([]byte, bool) {
	end := valueEnd(r.data)
	value := r.data[:end:end]
	r.data = r.data[end:]
	return value, end > 0 && len(bytes.TrimSpace(value)) == end
}

// quickObject decodes an object whose bounds were checked. It returns false for other
// values and invalid input, for which the library finds the error.
func quickObject(data []byte, d anyDecoder) (map[string]any, bool) {
	r := quickReader{data: data}
	v, ok := r.any(d)
	m, isObject := v.(map[string]any)
	return m, ok && isObject && r.next() == 0 && len(r.data) == 0
}

// next skips white space and returns the byte after it, or 0 if there is none.
func (r *quickReader) next() byte {
	for i, c := range r.data {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			r.data = r.data[i:]
			return c
		}
	}
	r.data = nil
	return 0
}

// any reads what [anyDecoder] reads, also with white space.
func (r *quickReader) any(d anyDecoder) (any, bool) {
	switch r.next() {
	case '{':
		m := make(map[string]any)
		ok := r.elements('}', func() bool {
			name, ok := r.text()
			if !ok || r.next() != ':' {
				return false
			}
			r.data = r.data[1:]
			before := len(m)
			m[name], ok = r.any(d)
			return ok && len(m) > before // otherwise the name repeats
		})
		return m, ok
	case '[':
		s := []any{}
		ok := r.elements(']', func() bool {
			v, ok := r.any(d)
			s = append(s, v)
			return ok
		})
		return s, ok
	case '"':
		return r.text()
	case 't':
		return true, r.take("true")
	case 'f':
		return false, r.take("false")
	case 'n':
		return nil, r.take("null")
	}
	end := 0
	for end < len(r.data) && strings.IndexByte("+-.0123456789Ee", r.data[end]) >= 0 {
		end++
	}
	text := string(r.data[:end])
	r.data = r.data[end:]
	if !jsontext.Value(text).IsValid() {
		return nil, false
	}
	var v any
	v, r.err = d.number(text)
	return v, r.err == nil
}

// elements reads the elements of an object or array with read.
func (r *quickReader) elements(end byte, read func() bool) bool {
	r.data = r.data[1:]
	for c := r.next(); c != end; {
		if c == 0 || !read() {
			return false
		}
		if c = r.next(); c == ',' {
			if r.data = r.data[1:]; r.next() == end {
				return false
			}
		} else if c != end {
			return false
		}
	}
	r.data = r.data[1:]
	return true
}

// valueEnd returns where a value at the beginning of valid JSON ends.
func valueEnd(data []byte) int {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = TextEnd(data, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return min(i+1, len(data))
		}
	}
	return len(data)
}

// The default limits.
const (
	// DefaultMaxBytes is the longest accepted input: 1 MiB, the default payload limit
	// of a NATS server.
	DefaultMaxBytes = 1 << 20
	// DefaultMaxDepth is the deepest accepted nesting of objects and arrays.
	DefaultMaxDepth = 64
)

// hardMaxDepth keeps the recursion of the decoder within a small stack for any
// MaxDepth.
const hardMaxDepth = 10_000

// An Option changes a limit.
type Option struct{ limits } // zero members change nothing

// MaxBytes accepts inputs of up to n bytes. n < 1 leaves the default.
func MaxBytes(n int) Option { return Option{limits{bytes: max(n, 0)}} }

// MaxDepth accepts up to n objects and arrays within each other, at most
// 10,000. n < 1 leaves the default.
func MaxDepth(n int) Option { return Option{limits{depth: min(max(n, 0), hardMaxDepth)}} }

// KeepBigIntegers decodes integers that do not fit int64 into an any as encoding/json's
// Number, digit for digit, instead of refusing them. [Marshal] writes them unchanged.
func KeepBigIntegers() Option { return Option{limits{keepBig: true}} }

// limits is the result of the options.
type limits struct {
	bytes   int
	depth   int
	keepBig bool
}

func limitsOf(opts []Option) limits {
	l := limits{bytes: DefaultMaxBytes, depth: DefaultMaxDepth}
	for _, o := range opts {
		l = limits{cmp.Or(o.bytes, l.bytes), cmp.Or(o.depth, l.depth), o.keepBig || l.keepBig}
	}
	return l
}
