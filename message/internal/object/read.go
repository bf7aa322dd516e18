// Package object reads and writes single JSON objects member by member. It is
// for the wire formats below package message whose members come and go: each
// says in plain code which members it needs, allows and writes.
//
//	r := object.Read(data)
//	name, at := r.Text("name"), r.TextOr("at", "")
//	r.Only("name", "at")
//	err := r.Err()
//
// A [Reader] keeps the first fault and does nothing from then on, so that a
// decoder asks for an error once, at its end. Names match exactly. Input is
// checked as a whole before ([strictjson.Check]): here nothing looks for
// duplicate names, size or nesting. A [Writer] works the same way around.
//
// Neither is safe for concurrent use. Errors are [*strictjson.Error]s with
// places seen from the object.
package object

import (
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Reader reads the members of one object.
type Reader struct {
	members []strictjson.Member
	err     error
}

// Read takes an object apart.
func Read(data []byte) *Reader {
	members, err := strictjson.Members(data)
	return &Reader{members: members, err: err}
}

// Err is the first fault.
func (r *Reader) Err() error { return r.err }

// Fail notes a fault of the object as a whole.
func (r *Reader) Fail(fault error, format string, args ...any) {
	if r.err == nil {
		r.err = strictjson.Wrong(fault, format, args...)
	}
}

// Members are all members in the order of the input.
func (r *Reader) Members() []strictjson.Member { return r.members }

// Has reports whether the member is there and not null.
func (r *Reader) Has(name string) bool {
	m, ok := r.find(name)
	return ok && strictjson.KindOf(m.Value) != "null"
}

// There reports whether the member is there, null included.
func (r *Reader) There(name string) bool {
	_, ok := r.find(name)
	return ok
}

func (r *Reader) find(name string) (strictjson.Member, bool) {
	for _, m := range r.members {
		if m.Name == name {
			return m, true
		}
	}
	return strictjson.Member{}, false
}

// Only refuses every member that is not named.
func (r *Reader) Only(names ...string) {
	for _, m := range r.members {
		if !slices.Contains(names, m.Name) && r.err == nil {
			fault := strictjson.Wrong(strictjson.ErrUnknownMember, "%.60q", m.Name)
			r.err = strictjson.Within(fault, "decode", strictjson.Step(m.Name), int64(m.Offset))
		}
	}
}

// Need decodes a member that must be there; null is a value like others.
func (r *Reader) Need(name string, decode func(raw []byte) error) {
	m, ok := r.find(name)
	if !ok {
		r.Fail(strictjson.ErrMissingMember, "%q", name)
		return
	}
	r.at(m, decode)
}

// May decodes a member if it is there and not null.
func (r *Reader) May(name string, decode func(raw []byte) error) {
	if m, ok := r.find(name); ok && strictjson.KindOf(m.Value) != "null" {
		r.at(m, decode)
	}
}

func (r *Reader) at(m strictjson.Member, decode func(raw []byte) error) {
	if r.err != nil {
		return
	}
	if err := decode(m.Value); err != nil {
		r.err = strictjson.Within(err, "decode", strictjson.Step(m.Name), int64(m.Offset))
	}
}

// Text is a string that must be there.
func (r *Reader) Text(name string) (s string) {
	r.Need(name, func(raw []byte) (err error) {
		s, err = strictjson.Text(raw)
		return err
	})
	return s
}

// TextOr is a string, or alt if there is none or null.
func (r *Reader) TextOr(name, alt string) string {
	s := alt
	r.May(name, func(raw []byte) (err error) {
		s, err = strictjson.Text(raw)
		return err
	})
	return s
}

// TextPtr is a string, or nil if there is none or null.
func (r *Reader) TextPtr(name string) (s *string) {
	r.May(name, func(raw []byte) error {
		t, err := strictjson.Text(raw)
		s = &t
		return err
	})
	return s
}

// IntOr is an integer, or alt if there is none or null.
func (r *Reader) IntOr(name string, alt int64) int64 {
	i := alt
	r.May(name, func(raw []byte) (err error) {
		i, err = strictjson.Int(raw)
		return err
	})
	return i
}

// Items calls decode for each item of an array, if there is one that is not
// null, and reports whether there was.
func (r *Reader) Items(name string, decode func(raw []byte) error) bool {
	there := false
	r.May(name, func(raw []byte) error {
		there = true
		return Each(raw, decode)
	})
	return there
}

// Each calls decode for each item of an array.
func Each(raw []byte, decode func(raw []byte) error) error {
	items, err := strictjson.Items(raw)
	if err != nil {
		return err
	}
	for i, item := range items {
		if err := decode(item.Value); err != nil {
			return strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(item.Offset))
		}
	}
	return nil
}

// Raw is a copy of the member's bytes, nil if there is none. kind "" takes any
// value, else null gives nil too and other kinds are refused.
func (r *Reader) Raw(name, kind string) (value []byte) {
	m, ok := r.find(name)
	if !ok || kind != "" && strictjson.KindOf(m.Value) == "null" {
		return nil
	}
	r.at(m, func(raw []byte) error {
		if k := strictjson.KindOf(raw); kind != "" && k != kind {
			return strictjson.Wrong(strictjson.ErrType, "want %s, got %s", kind, k)
		}
		value = append([]byte{}, raw...)
		return nil
	})
	return value
}
