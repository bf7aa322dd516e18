package strictjson

import (
	"encoding"
	stdjson "encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

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
