package toolcall

import (
	"bytes"
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
	var out []member
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "" || name == "-" {
			continue
		}
		out = append(out, member{name, f.Index})
	}
	memberTables.Store(t, out)
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
// lacks.
func (w *changeWriter) putMembers(have, want any, skip ...string) error {
	h, x := reflect.ValueOf(have).Elem(), reflect.ValueOf(want).Elem()
next:
	for _, m := range membersOf(h.Type()) {
		for _, s := range skip {
			if m.name == s {
				continue next
			}
		}
		value, expected := h.FieldByIndex(m.index), x.FieldByIndex(m.index)
		if isEqual(value, expected, false) {
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

// isEqual may report equal values as different, which only costs space: what differs is
// stored. It avoids copying values that it can compare in place, which reflect.DeepEqual does not.
// Unless deep is set, pointers in comparable structs are compared as such: journals depend on
// what is stored.
func isEqual(a, b reflect.Value, deep bool) bool {
	switch a.Kind() {
	case reflect.Slice:
		if a.IsNil() || b.IsNil() || a.Len() != b.Len() || a.UnsafePointer() == b.UnsafePointer() {
			return a.IsNil() == b.IsNil() && a.Len() == b.Len()
		}
		for i := range a.Len() {
			if !isEqual(a.Index(i), b.Index(i), deep) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || !a.IsNil() && !b.IsNil() && isEqual(a.Elem(), b.Elem(), deep)
	case reflect.Struct:
		if t, ok := reflect.TypeAssert[time.Time](a); ok {
			u, _ := reflect.TypeAssert[time.Time](b)
			return t == u
		}
		if a.Type().Comparable() {
			if same := a.Equal(b); same || !deep {
				return same
			}
		}
		for i := range a.NumField() {
			if !isEqual(a.Field(i), b.Field(i), deep) {
				return false
			}
		}
		return true
	case reflect.String:
		return a.String() == b.String()
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
func readMembers(object []byte, v any, later ...string) (map[string][]byte, error) {
	var room [16]strictjson.Member
	list, ok := strictjson.Split(room[:0], object)
	if !ok {
		var err error
		if list, err = strictjson.Members(object); err != nil {
			return nil, err
		}
	}
	var out map[string][]byte
	x := reflect.ValueOf(v).Elem()
	known := membersOf(x.Type())
next:
	for _, m := range list {
		for _, name := range later {
			if m.Name == name {
				if out == nil {
					out = map[string][]byte{}
				}
				out[name] = m.Value
				continue next
			}
		}
		i := slices.IndexFunc(known, func(k member) bool { return k.name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("the member %q is unknown", m.Name)
		}
		field := x.FieldByIndex(known[i].index)
		field.SetZero()
		if bytes.Equal(m.Value, null) {
			continue
		}
		if err := strictjson.Unmarshal(m.Value, field.Addr().Interface(), storedLimit); err != nil {
			return nil, fmt.Errorf("the member %q: %w", m.Name, err)
		}
	}
	return out, nil
}
