package toolcall

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
)

// member is one JSON member of a struct.
type member struct {
	name  string
	index []int
}

var memberTables sync.Map // []member by reflect.Type

// membersOf lists the JSON members of a struct, in order.
func membersOf(t reflect.Type) []member {
	if have, ok := memberTables.Load(t); ok {
		return have.([]member)
	}
	out := listMembers(t)
	memberTables.Store(t, out)
	return out
}

func listMembers(t reflect.Type, without ...string) (out []member) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" || slices.Contains(without, name) {
			continue
		}
		out = append(out, member{name, f.Index})
	}
	return out
}

// changeWriter writes a JSON object with the members that differ.
type changeWriter struct {
	b     []byte
	first int // where the first member of the object begins
}

func newChange() *changeWriter { return &changeWriter{append(make([]byte, 0, 1024), '{'), 1} }

func (w *changeWriter) isEmpty() bool  { return len(w.b) == w.first }
func (w *changeWriter) object() []byte { return append(w.b, '}') }

func (w *changeWriter) put(name string, value []byte) {
	w.name(name)
	w.b = append(w.b, value...)
}

func (w *changeWriter) name(name string) {
	if !w.isEmpty() {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

// nest writes a member that is an object, which fill writes. An empty one is left out unless
// always is set.
func (w *changeWriter) nest(name string, always bool, fill func() error) error {
	before, first := len(w.b), w.first
	w.name(name)
	w.b = append(w.b, '{')
	w.first = len(w.b)
	err := fill()
	if always || !w.isEmpty() {
		w.b = append(w.b, '}')
	} else {
		w.b = w.b[:before]
	}
	w.first = first
	return err
}

// putMembers writes the members of have that differ from want, and null for those that have
// lacks. members are those of their type that it compares.
func (w *changeWriter) putMembers(members []member, have, want any) error {
	h, x := reflect.ValueOf(have).Elem(), reflect.ValueOf(want).Elem()
	for i := range members {
		m := &members[i]
		value := h.FieldByIndex(m.index)
		if isEqual(value, x.FieldByIndex(m.index), false) {
			continue
		}
		if isZero(value) {
			w.put(m.name, null)
			continue
		}
		w.name(m.name)
		var err error
		if w.b, err = strictjson.Append(w.b, value); err != nil {
			return err
		}
	}
	return nil
}

var null = []byte("null")

// isEqual compares two values of one type in place: reflect.DeepEqual copies them. A nil list
// differs from an empty one, and an instant from the same instant in another form.
//
// Unless deep is set, a comparable struct differs if a pointer in it does, such as a signed
// Approval that was decoded again. Journals depend on that, because what differs is stored.
func isEqual(a, b reflect.Value, deep bool) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || !a.IsNil() && !b.IsNil() && isEqual(a.Elem(), b.Elem(), deep)
	case reflect.Slice:
		switch {
		case a.IsNil() != b.IsNil(), a.Len() != b.Len():
			return false
		case a.UnsafePointer() == b.UnsafePointer():
			return true
		case a.Type().Elem().Kind() == reflect.Uint8:
			return bytes.Equal(a.Bytes(), b.Bytes())
		}
		for i := range a.Len() {
			if !isEqual(a.Index(i), b.Index(i), deep) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[time.Time](a); ok {
			u, _ := reflect.TypeAssert[time.Time](b)
			return t == u
		}
		if !deep && a.Type().Comparable() {
			return a.Equal(b)
		}
		for i := range a.NumField() {
			if !isEqual(a.Field(i), b.Field(i), deep) {
				return false
			}
		}
		return true
	case reflect.Map, reflect.Interface:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
	return a.Equal(b)
}

func isZero(v reflect.Value) bool {
	if t, ok := reflect.TypeAssert[time.Time](v); ok {
		return t.IsZero()
	}
	return v.IsZero()
}

// readMembers sets the members of an object in v, a pointer to a struct. It returns the
// members named in later, which the caller must decode.
func readMembers(object []byte, v any, later ...string) ([]strictjson.Member, error) {
	x := reflect.ValueOf(v).Elem()
	r := memberReader{v: x, known: membersOf(x.Type()), later: later}
	if len(later) > 1 {
		r.rest = make([]strictjson.Member, 0, 4) // more than most records have
	}
	if strictjson.Split(object, func(name, value []byte) bool { return r.read(name, value) }) || r.err != nil {
		return r.rest, r.err
	}
	list, err := strictjson.Members(object)
	if err != nil {
		return nil, err
	}
	r.rest, r.anyOrder = r.rest[:0], true
	for _, m := range list {
		if !r.read([]byte(m.Name), m.Value) {
			return nil, cmp.Or(r.err, fmt.Errorf("the member %q is unknown", m.Name))
		}
	}
	return r.rest, nil
}

// memberReader sets the members of a struct one after the other.
type memberReader struct {
	v        reflect.Value
	known    []member
	later    []string
	rest     []strictjson.Member // the members named in later
	next     int                 // follows the last one that was set
	anyOrder bool                // no member comes twice; otherwise they must be in the order of the struct
	err      error
}

// read returns false for a member that is unknown, out of order or invalid; then it sets err.
func (r *memberReader) read(name, value []byte) bool {
	for i, n := range r.later {
		if n == string(name) {
			inOrder := r.anyOrder || len(r.rest) == 0 || slices.Index(r.later, r.rest[len(r.rest)-1].Name) < i
			r.rest = append(r.rest, strictjson.Member{Name: n, Value: value})
			return inOrder
		}
	}
	if r.anyOrder {
		r.next = 0
	}
	for ; r.next < len(r.known); r.next++ {
		if m := &r.known[r.next]; m.name == string(name) {
			field := r.v.FieldByIndex(m.index)
			field.SetZero()
			if !bytes.Equal(value, null) {
				if err := strictjson.ReadInto(field, value); err != nil {
					r.err = fmt.Errorf("the member %q: %w", m.name, err)
				}
			}
			r.next++
			return r.err == nil
		}
	}
	return false
}
