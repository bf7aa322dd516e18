// Package wire is the mechanism with which all wire formats read and write JSON objects:
// the tags of a struct define the members of its objects.
//
// The json tag names a member. The wire tag adds options, separated by commas:
//
//	name=x         the name, for a field without a json tag
//	required       the member must be present
//	null           null stands for the zero value; pointers always, unless a format says otherwise
//	omit           not written when zero; omitempty: when it has no elements
//	empty          nil is written as {} or [], and so is a missing member read
//	id, now        generated when missing
//	default=word   this value when missing, and when the field is empty
//	const=word     on a blank field: the member always has this value
//	copy=Field     on a blank field: the member repeats another one when written
//	in=a b         one of these words
//	rule=name      a text that the format's rule of that name accepts and may rewrite
//	least=n        the smallest integer
//	most=n         the largest integer, or the most elements
//	or=a b         other names that are accepted, one at a time
//	object, any    raw JSON that is an object; that may be null
//	variant        the value of this member determines which others exist
//	when=a b       the member exists for these values of the variant
//	group=name     the member is in an object of that name
//	rescue         a tolerant reader accepts null for a missing member
//	aftertype      the type of the object comes before this member, not first
//	without=name   on an embedded struct: all its members except this one
//	extra          the field for members without a field of their own
//	closed         on a blank field: members without a field are refused
//	open           on a blank field: members without a field are not noted
//
// The tags of each type are compiled to one plan that serves both directions. Errors are
// [*strictjson.Error]s with positions relative to the object. Input must have passed
// [strictjson.Check].
package wire

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// TypeMember is the member that names the type of an object.
const TypeMember = "type"

// Format is what a protocol defines beyond the tags. It is safe for concurrent use once its
// fields are set.
type Format struct {
	// NilIsAbsent omits members whose field is nil, and requires members whose field cannot
	// be nil. Otherwise nil is null.
	NilIsAbsent bool
	// OneLine removes line breaks from raw JSON.
	OneLine bool
	// SafeInts limits integers to those that a JavaScript number represents exactly, and
	// reads 2.0 as 2.
	SafeInts bool
	// PlaceMissing gives a missing member its own position in errors.
	PlaceMissing bool
	// Name returns the type of a pointer to a struct, or "".
	Name func(v any) string
	// Words returns the values of a closed list of strings, or nil for any.
	Words func(t reflect.Type) []string
	// Rules are the rules for texts.
	Rules map[string]func(text string) (string, error)
	// Types read and write values that no struct describes.
	Types map[reflect.Type]Type
	// Verify checks conditions on several members; v is a pointer to a struct.
	Verify func(v any, reading bool) error
	// Generate returns the value of a missing member; what is "id" or "now".
	Generate func(r *Reader, what string) string

	plans sync.Map // reflect.Type -> *plan
}

// Type reads and writes the values of one Go type. Without Write, the members of a struct are written.
type Type struct {
	Read  func(r *Reader, raw []byte, v reflect.Value) error
	Write func(f *Format, dst []byte, v reflect.Value) ([]byte, error)
}

// plan lists the members of one struct type, in the order of writing.
type plan struct {
	members []member
	byName  map[string]int
	extra   []int // index of the field for all other members, or nil
	variant []int
	open    bool
	closed  bool
}

type member struct {
	tag
	index    []int // of the struct field; nil for a constant or a group
	inner    *plan // of a group
	typ      Type
	key      []byte // the name as it is written
	step     string // the name in a JSON pointer
	constant bool
	next     int // the next member with this name, in another variant, or -1
}

// tag holds the parsed tags of a field.
type tag struct {
	name, word, generate, rule, group, copy             string
	required, null, omit, omitEmpty, empty, object, any bool
	variant, rescue, afterType, extra, open, closed     bool
	words, when, or                                     []string
	least, most                                         int64
}

// noTag is the tag of a value that is not a member.
var noTag = tagOf(reflect.StructField{})

func tagOf(f reflect.StructField) tag {
	t := tag{name: f.Tag.Get("json"), least: math.MinInt64, most: math.MaxInt64}
	flags := map[string]*bool{
		"required": &t.required, "null": &t.null, "omit": &t.omit, "omitempty": &t.omitEmpty, "empty": &t.empty, "object": &t.object,
		"any": &t.any, "variant": &t.variant, "rescue": &t.rescue, "aftertype": &t.afterType, "extra": &t.extra, "open": &t.open, "closed": &t.closed,
	}
	for option := range strings.SplitSeq(f.Tag.Get("wire"), ",") {
		name, value, _ := strings.Cut(option, "=")
		if flag := flags[name]; flag != nil {
			*flag = true
			continue
		}
		switch name {
		case "", "without":
		case "id", "now":
			t.generate = name
		case "default", "const":
			t.word = value
		case "copy":
			t.copy = value
		case "in":
			t.words = strings.Fields(value)
		case "when":
			t.when = strings.Fields(value)
		case "rule":
			t.rule = value
		case "group":
			t.group = value
		case "name":
			t.name = value
		case "or":
			t.or = strings.Fields(value)
		case "least":
			t.least, _ = strconv.ParseInt(value, 10, 64) // our own tags
		case "most":
			t.most, _ = strconv.ParseInt(value, 10, 64)
		default:
			panic("wire: field " + f.Name + " has the unknown option " + option)
		}
	}
	return t
}

func (f *Format) planOf(t reflect.Type) *plan {
	if p, ok := f.plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{}
	name := ""
	if f.Name != nil {
		name = f.Name(reflect.New(t).Interface())
	}
	f.addFields(p, t, nil, "", name)
	if name != "" && !slices.ContainsFunc(p.members, func(m member) bool { return m.name == TypeMember && m.constant }) {
		p.members = slices.Insert(p.members, 0, f.constant(TypeMember, name))
	}
	p.index()
	f.plans.Store(t, p)
	return p
}

func (p *plan) index() {
	p.byName = map[string]int{}
	for i := len(p.members) - 1; i >= 0; i-- {
		m := &p.members[i]
		m.next = -1
		if next, twice := p.byName[m.name]; twice {
			m.next = next
		}
		p.byName[m.name] = i
		for _, other := range m.or {
			p.byName[other] = i
		}
		m.key = strconv.AppendQuote(nil, m.name) // our names need no escapes
		m.key, m.step = append(m.key, ':'), "/"+m.name
		if m.variant {
			p.variant = m.index
		}
	}
}

func (f *Format) constant(name, word string) member {
	return member{tag: tag{name: name, word: word, required: f.NilIsAbsent}, constant: true}
}

// addFields adds the fields of t, which is at index in the planned struct.
func (f *Format) addFields(p *plan, t reflect.Type, index []int, without, name string) {
	for i := range t.NumField() {
		field := t.Field(i)
		at := append(slices.Clone(index), i)
		m := member{tag: tagOf(field), index: at}
		switch {
		case field.Anonymous:
			_, left, _ := strings.Cut(field.Tag.Get("wire"), "without=")
			f.addFields(p, field.Type, at, left, name)
			continue
		case m.extra:
			p.extra = at
			continue
		case m.open, m.closed:
			p.open, p.closed = m.open, m.closed
			continue
		case m.name == "":
			continue
		case m.copy != "":
			other, _ := t.FieldByName(m.copy)
			m.index, m.typ = append(slices.Clone(index), other.Index...), f.typeOf(other.Type, &m)
		case field.Name == "_":
			m = f.constant(m.name, m.word)
		default:
			m.typ = f.typeOf(field.Type, &m)
		}
		if m.afterType {
			p.members = append(p.members, f.constant(TypeMember, name))
		}
		if m.name == without {
			continue
		}
		f.add(p, m)
	}
}

// add adds a member, in its group if it has one.
func (f *Format) add(p *plan, m member) {
	if m.group == "" {
		p.members = append(p.members, m)
		return
	}
	at := slices.IndexFunc(p.members, func(o member) bool { return o.inner != nil && o.name == m.group })
	if at < 0 {
		at = len(p.members)
		inner := &plan{}
		p.members = append(p.members, member{tag: tag{name: m.group, required: true}, inner: inner, typ: Type{
			Read:  func(r *Reader, raw []byte, v reflect.Value) error { return r.object(inner, raw, v) },
			Write: func(f *Format, dst []byte, v reflect.Value) ([]byte, error) { return f.appendMembers(dst, inner, v) },
		}})
	}
	inner := p.members[at].inner
	inner.members = append(inner.members, m)
	inner.index()
}

// field returns the value of a member of the struct s.
func (m *member) field(s reflect.Value) reflect.Value {
	if m.index == nil {
		return s
	}
	return s.FieldByIndex(m.index)
}

// exists reports whether a member exists in the variant of s.
func (m *member) exists(p *plan, s reflect.Value) bool {
	return m.when == nil || slices.Contains(m.when, s.FieldByIndex(p.variant).String())
}
