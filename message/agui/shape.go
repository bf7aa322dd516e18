package agui

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
)

// shape is one pass over the members of an object: it writes them, or reads
// them. Each type says its members once, in its fields method, and both
// directions follow; so what is written can be read back. After the first fault
// nothing more happens.
type shape struct {
	reading bool
	err     error

	out []byte // writing: the JSON so far

	members []strictjson.Member // reading: those of the object
	seen    []bool              // which of them were asked for
	path    string              // pointer to the object
	log     *deviations
}

// deviations collects what a tolerant reader passes over. Strict makes faults
// of them, save for unknown members, which the schema itself lets pass.
type deviations struct {
	strict bool
	list   []Deviation
}

func (d *deviations) note(kind DeviationKind, path, what string) {
	d.list = append(d.list, Deviation{Kind: kind, Path: path, What: what})
}

// errVariant marks the fault of an object whose discriminator is not known. The
// specification lets a consumer drop such an object where it can be missed.
var errVariant = errors.New("of no known kind")

// fail records a fault of the member name. offset is the value's, -1 if there
// is none.
func (s *shape) fail(name string, offset int, err error) {
	if s.err != nil {
		return
	}
	op := "decode"
	if !s.reading {
		op, offset = "encode", -1
	}
	s.err = strictjson.Within(err, op, strictjson.Step(name), int64(offset))
}

// find returns the member and marks it as asked for.
func (s *shape) find(name string) (strictjson.Member, bool) {
	for i := range s.members {
		if s.members[i].Name == name {
			s.seen[i] = true
			return s.members[i], true
		}
	}
	return strictjson.Member{}, false
}

// findOptional is find for an optional member; false too after a fault.
func (s *shape) findOptional(name string) (strictjson.Member, bool) {
	if s.err != nil {
		return strictjson.Member{}, false
	}
	return s.find(name)
}

// require is find for a member that must be there.
func (s *shape) require(name string) (strictjson.Member, bool) {
	if s.err != nil {
		return strictjson.Member{}, false
	}
	m, ok := s.find(name)
	if !ok {
		s.fail(name, -1, strictjson.Wrong(strictjson.ErrMissingMember, "%q", name))
	}
	return m, ok
}

// key begins a member of the object that is being written. Names of ours need
// no escapes.
func (s *shape) key(name string) {
	if s.out[len(s.out)-1] != '{' {
		s.out = append(s.out, ',')
	}
	s.out = append(append(append(s.out, '"'), name...), '"', ':')
}

// rescueNull makes an absent member of a null, where peers older than 1.0 are
// known to write one.
func (s *shape) rescueNull(name string) {
	if !s.reading || s.err != nil || s.log.strict {
		return
	}
	for i, m := range s.members {
		if m.Name == name && strictjson.KindOf(m.Value) == "null" {
			s.members, s.seen = slices.Delete(s.members, i, i+1), slices.Delete(s.seen, i, i+1)
			s.log.note(DeviationNull, s.path+"/"+name, "null for an absent member")
			return
		}
	}
}

// refuseUnused refuses to write a value whose member does not exist in this variant.
func (s *shape) refuseUnused(name string, set bool, of string) {
	if !s.reading && set {
		s.fail(name, -1, strictjson.Wrong(strictjson.ErrUnknownMember, "%s has no %q", of, name))
	}
}

// rest reports the members that no field asked for. They are dropped.
func (s *shape) rest() {
	if !s.reading || s.err != nil {
		return
	}
	for i, m := range s.members {
		if !s.seen[i] {
			s.log.note(DeviationMember, s.path+strictjson.Step(m.Name), "unknown member")
		}
	}
}

// object reads or writes the members of one object by fields.
func readObject(value []byte, path string, log *deviations, fields func(*shape)) error {
	members, err := strictjson.Members(value)
	if err != nil {
		return err
	}
	sub := shape{reading: true, members: members, seen: make([]bool, len(members)), path: path, log: log}
	fields(&sub)
	sub.rest()
	return sub.err
}

func (s *shape) writeObject(fields func(*shape)) error {
	s.out = append(s.out, '{')
	fields(s)
	s.out = append(s.out, '}')
	err := s.err
	s.err = nil
	return err
}

// nested is a required object.
func nested[T any](s *shape, name string, v *T, fields func(*T, *shape)) {
	if !s.reading {
		if s.err == nil {
			s.key(name)
			if err := s.writeObject(func(s *shape) { fields(v, s) }); err != nil {
				s.fail(name, -1, err)
			}
		}
		return
	}
	if m, ok := s.require(name); ok {
		if err := readObject(m.Value, s.path+"/"+name, s.log, func(s *shape) { fields(v, s) }); err != nil {
			s.fail(name, m.Offset, err)
		}
	}
}

// nestedOpt is an optional object; nil is absent. One of no known kind is
// dropped.
func nestedOpt[T any](s *shape, name string, v **T, fields func(*T, *shape)) {
	if !s.reading {
		if *v != nil {
			nested(s, name, *v, fields)
		}
		return
	}
	m, ok := s.findOptional(name)
	if !ok {
		return
	}
	mark, sub := len(s.log.list), new(T)
	err := readObject(m.Value, s.path+"/"+name, s.log, func(s *shape) { fields(sub, s) })
	switch {
	case err == nil:
		*v = sub
	case isDroppable(err, s.log):
		s.log.list = s.log.list[:mark]
		s.log.note(DeviationVariant, s.path+"/"+name, err.Error())
	default:
		s.fail(name, m.Offset, err)
	}
}

func isDroppable(err error, log *deviations) bool { return !log.strict && errors.Is(err, errVariant) }

// list is a required array of objects. Elements of no known kind are dropped.
func list[T any](s *shape, name string, v *[]T, fields func(*T, *shape)) {
	if s.reading {
		if m, ok := s.require(name); ok {
			readList(s, name, m, v, fields)
		}
		return
	}
	if s.err != nil {
		return
	}
	s.key(name)
	s.out = append(s.out, '[')
	for i := range *v {
		if i > 0 {
			s.out = append(s.out, ',')
		}
		if err := s.writeObject(func(s *shape) { fields(&(*v)[i], s) }); err != nil {
			s.fail(name, -1, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1))
			return
		}
	}
	s.out = append(s.out, ']')
}

// listOpt is an optional array of objects; nil is absent.
func listOpt[T any](s *shape, name string, v *[]T, fields func(*T, *shape)) {
	if !s.reading {
		if *v != nil {
			list(s, name, v, fields)
		}
		return
	}
	if m, ok := s.findOptional(name); ok {
		readList(s, name, m, v, fields)
	}
}

// listOrEmpty is an array of objects that is always written and whose absence
// is the empty array.
func listOrEmpty[T any](s *shape, name string, v *[]T, fields func(*T, *shape)) {
	if !s.reading {
		list(s, name, v, fields)
		return
	}
	*v = []T{}
	listOpt(s, name, v, fields)
}

func readList[T any](s *shape, name string, m strictjson.Member, v *[]T, fields func(*T, *shape)) {
	items, err := strictjson.Items(m.Value)
	if err != nil {
		s.fail(name, m.Offset, err)
		return
	}
	out := make([]T, 0, len(items))
	for i, item := range items {
		var elem T
		mark, path := len(s.log.list), s.path+"/"+name+"/"+strconv.Itoa(i)
		err := readObject(item.Value, path, s.log, func(s *shape) { fields(&elem, s) })
		switch {
		case err == nil:
			out = append(out, elem)
		case isDroppable(err, s.log):
			s.log.list = s.log.list[:mark]
			s.log.note(DeviationVariant, path, err.Error())
		default:
			s.fail(name, m.Offset, strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(item.Offset)))
			return
		}
	}
	*v = out
}

// variant is a discriminator. A value that is not among words, or none, makes
// the object one of no known kind.
func variant[T ~string](s *shape, name string, v *T, words []T) {
	if s.err != nil {
		return
	}
	if !s.reading {
		word(s, name, v, words)
		return
	}
	m, ok := s.find(name)
	if ok {
		if t, err := strictjson.Text(m.Value); err == nil && slices.Contains(words, T(t)) {
			*v = T(t)
			return
		}
	}
	s.fail(name, m.Offset, fmt.Errorf("%w: %w: %q is none of %v", strictjson.ErrType, errVariant, name, words))
}
