package strictjson

import (
	"bytes"
	"encoding"
	stdjson "encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Marshal encodes v: struct members in field order, map members sorted, nil
// slices as [], nil maps as {}, no HTML escapes, no white space. The same
// value always gives the same bytes. Text that is not UTF-8 and numbers that
// are not finite are refused.
func Marshal(v any) ([]byte, error) { return MarshalBetween("", v, "") }

// MarshalBetween returns what [Marshal] returns, between two texts.
func MarshalBetween(before string, v any, after string) ([]byte, error) {
	if b, ok := quickMarshal(before, v, after, false); ok {
		return b, nil
	}
	b, err := json.Marshal(v, encodeOptions)
	if err != nil {
		return nil, errorOf("encode", err)
	}
	if before != "" || after != "" {
		b = slices.Concat([]byte(before), b, []byte(after))
	}
	return b, nil
}

// Encoded is JSON that [Marshal] or [Append] returned, which they write again without a check.
// What is read into it may be a part of the input, and only its decoder finds an error in it.
type Encoded []byte

func (e Encoded) MarshalJSON() ([]byte, error)  { return e, nil }
func (e *Encoded) UnmarshalJSON(b []byte) error { *e = bytes.Clone(b); return nil }

// Raw strings are preserved, so a value that is only passed through keeps its spelling,
// except for the white space between tokens.
var encodeOptions = json.JoinOptions(
	json.Deterministic(true),
	jsontext.PreserveRawStrings(true),
	json.WithMarshalers(json.JoinMarshalers(
		json.MarshalToFunc(encodeNumber),
		json.MarshalToFunc(encodeFloat),
	)),
)

func encodeNumber(enc *jsontext.Encoder, n stdjson.Number) error {
	return enc.WriteValue(jsontext.Value(n))
}

// encodeFloat writes large whole numbers with an exponent, because plain digits would
// be read back as an integer that int64 cannot hold, and negative zero as 0, because -0
// would be read back as the integer 0.
func encodeFloat(enc *jsontext.Encoder, f float64) error {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("%v is no JSON number", f)
	}
	if f == 0 {
		return enc.WriteToken(jsontext.Int(0))
	}
	if math.Abs(f) < 1<<63 {
		return enc.WriteToken(jsontext.Float(f))
	}
	return enc.WriteValue(strconv.AppendFloat(nil, f, 'e', -1, 64))
}

// quickWriter encodes by plans. Its methods return false if the library must encode the value.
type quickWriter struct {
	b         []byte
	canonical bool // sort members, and refuse values that are then not in canonical form
}

var quickWriters = sync.Pool{New: func() any { return new(quickWriter) }}

// maxKept is the largest buffer that the pool keeps.
const maxKept = 64 << 10

// quickMarshal returns what [MarshalBetween] returns, or with canonical the RFC 8785 form.
func quickMarshal(before string, v any, after string, canonical bool) ([]byte, bool) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, false
	}
	p := planFor(t)
	if p.form == general {
		return nil, false
	}
	w := quickWriters.Get().(*quickWriter)
	w.canonical, w.b = canonical, append(w.b, before...)
	ok := w.value(p, reflect.ValueOf(v))
	w.b = append(w.b, after...)
	out := bytes.Clone(w.b)
	if w.b = w.b[:0]; cap(w.b) <= maxKept {
		quickWriters.Put(w)
	}
	return out, ok
}

// QuickCanonical returns before and the RFC 8785 form of v if sorting members is enough to make it.
func QuickCanonical(before string, v any) ([]byte, bool) { return quickMarshal(before, v, "", true) }

// Append appends what [Marshal] returns for v, whose Interface method must not panic.
func Append(dst []byte, v reflect.Value) ([]byte, error) {
	w := quickWriter{b: dst}
	if p := planFor(v.Type()); p.form != general && w.value(p, v) {
		return w.b, nil
	}
	b, err := Marshal(v.Interface())
	return append(dst, b...), err
}

func (w *quickWriter) value(p *plan, v reflect.Value) bool {
	switch p.form {
	case text:
		return w.text(v.String())
	case truth:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case signed:
		n := v.Int()
		w.b = strconv.AppendInt(w.b, n, 10)
		return !w.canonical || -maxExact < n && n < maxExact
	case unsigned:
		w.b = strconv.AppendUint(w.b, v.Uint(), 10)
		return !w.canonical || v.Uint() < maxExact
	case instant:
		t, _ := reflect.TypeAssert[time.Time](v)
		if t.Location() != time.UTC || t.Year() < 0 || t.Year() > 9999 {
			return w.library(v)
		}
		w.b = append(t.AppendFormat(append(w.b, '"'), time.RFC3339Nano), '"')
	case list:
		w.b = append(w.b, '[')
		for i := range v.Len() {
			if i > 0 {
				w.b = append(w.b, ',')
			}
			if !w.value(p.elem, v.Index(i)) {
				return false
			}
		}
		w.b = append(w.b, ']')
	case pointer:
		if !v.IsNil() {
			return w.value(p.elem, v.Elem())
		}
		w.b = append(w.b, "null"...)
	case object:
		return w.object(p, v)
	case encoded:
		w.b = append(w.b, v.Bytes()...)
		return v.Len() > 0 && !w.canonical
	default:
		return w.library(v)
	}
	return true
}

// maxExact bounds the integers that all readers read exactly.
const maxExact = 1 << 53

func (w *quickWriter) object(p *plan, v reflect.Value) bool {
	w.b = append(w.b, '{')
	start := len(w.b)
	for i := range p.members {
		if w.canonical {
			i = p.byName[i]
		}
		m := &p.members[i]
		field := fieldOf(v, m.index)
		if m.omitZero && isZero(m.plan, field) {
			continue
		}
		if len(w.b) > start {
			w.b = append(w.b, ',')
		}
		w.b = append(append(append(w.b, '"'), m.name...), '"', ':')
		if !w.value(m.plan, field) {
			return false
		}
	}
	w.b = append(w.b, '}')
	return true
}

func fieldOf(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		v = v.Field(i)
	}
	return v
}

func isZero(p *plan, v reflect.Value) bool {
	if p.form == instant {
		t, _ := reflect.TypeAssert[time.Time](v)
		return t.IsZero()
	}
	return v.IsZero()
}

func (w *quickWriter) text(s string) bool {
	if isPlainText(s) {
		w.b = append(append(append(w.b, '"'), s...), '"')
		return true
	}
	var err error
	w.b, err = jsontext.AppendQuote(w.b, s)
	return err == nil
}

// isPlainText reports whether s is ASCII and needs no escapes.
func isPlainText[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func (w *quickWriter) library(v reflect.Value) bool {
	if w.canonical {
		return false
	}
	b, err := json.Marshal(v.Interface(), encodeOptions)
	w.b = append(w.b, b...)
	return err == nil
}

// plan describes how values of a plain type are encoded and decoded without the general library,
// which is several times slower. The library does what a plan cannot do, and reports all errors.
type plan struct {
	form    planForm
	elem    *plan       // of a slice or pointer
	members []planField // of a struct, in their order
	byName  []int       // members, sorted by name
}

type planField struct {
	name     string
	index    []int
	omitZero bool
	plan     *plan
}

type planForm int

const (
	general planForm = iota // left to the library
	text
	truth
	signed
	unsigned
	instant
	raw     // encoding/json's RawMessage
	encoded // Encoded
	list
	pointer
	object
)

var plans sync.Map // *plan by reflect.Type

func planFor(t reflect.Type) *plan {
	if have, ok := plans.Load(t); ok {
		return have.(*plan)
	}
	p := makePlan(t, nil)
	plans.Store(t, p)
	return p
}

var forms = map[reflect.Kind]planForm{
	reflect.String: text, reflect.Bool: truth,
	reflect.Int: signed, reflect.Int8: signed, reflect.Int16: signed, reflect.Int32: signed, reflect.Int64: signed,
	reflect.Uint: unsigned, reflect.Uint8: unsigned, reflect.Uint16: unsigned, reflect.Uint32: unsigned, reflect.Uint64: unsigned,
}

var codecTypes = []reflect.Type{
	reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[json.Unmarshaler](), reflect.TypeFor[json.UnmarshalerFrom](),
	reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextAppender](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

// hasCodec reports whether a type defines its own encoding or decoding, or when it is zero.
func hasCodec(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	_, zero := p.MethodByName("IsZero")
	return zero || slices.ContainsFunc(codecTypes, p.Implements)
}

// makePlan never nests the plan of a type in itself, so values are no deeper than their types.
func makePlan(t reflect.Type, within []reflect.Type) *plan {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &plan{form: instant}
	case reflect.TypeFor[stdjson.RawMessage]():
		return &plan{form: raw}
	case reflect.TypeFor[Encoded]():
		return &plan{form: encoded}
	case reflect.TypeFor[stdjson.Number](), reflect.TypeFor[time.Duration]():
		return new(plan)
	}
	if hasCodec(t) || slices.Contains(within, t) {
		return new(plan)
	}
	within = append(slices.Clip(within), t)
	switch t.Kind() {
	case reflect.Pointer:
		return &plan{form: pointer, elem: makePlan(t.Elem(), within)}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return new(plan)
		}
		return &plan{form: list, elem: makePlan(t.Elem(), within)}
	case reflect.Struct:
		return makeObject(t, within)
	default:
		return &plan{form: forms[t.Kind()]}
	}
}

func makeObject(t reflect.Type, within []reflect.Type) *plan {
	p := &plan{form: object}
	if !p.addMembers(t, nil, within) || len(p.members) == 0 {
		return new(plan)
	}
	slices.SortFunc(p.byName, func(a, b int) int { return strings.Compare(p.members[a].name, p.members[b].name) })
	return p
}

// addMembers returns false for a struct that only the library can handle.
func (p *plan) addMembers(t reflect.Type, index []int, within []reflect.Type) bool {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(slices.Clip(index), i)
		tag, tagged := f.Tag.Lookup("json")
		name, option, _ := strings.Cut(tag, ",")
		switch {
		case option != "" && option != "omitzero":
			return false
		case f.Anonymous:
			if tagged || f.Type.Kind() != reflect.Struct || hasCodec(f.Type) || !p.addMembers(f.Type, at, within) {
				return false
			}
			continue
		case tag == "-", !f.IsExported():
			continue
		case name == "":
			name = f.Name
		}
		m := planField{name, at, option != "", makePlan(f.Type, within)}
		_, zero := reflect.PointerTo(f.Type).MethodByName("IsZero")
		if !isPlainName(name) || m.omitZero && zero && m.plan.form != instant || len(p.members) == maxMembers || slices.ContainsFunc(p.members, func(o planField) bool { return o.name == name }) {
			return false
		}
		p.byName, p.members = append(p.byName, len(p.members)), append(p.members, m)
	}
	return true
}

// maxMembers is the number of members that a reader can keep track of.
const maxMembers = 64

func isPlainName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}
