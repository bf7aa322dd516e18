package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Extra is a member that is passed on because the struct has no field for it.
type Extra struct {
	Name  string
	Value json.RawMessage
}

// Reader reads one input. It is not safe for concurrent use.
type Reader struct {
	Format *Format
	Codec  any // passed to the functions of the format
	// Lenient accepts null for missing members if tags permit it, and drops objects of an
	// unknown variant if the rest does not need them.
	Lenient bool
	Noting  bool   // whether to record deviations
	Notes   []Note // the deviations
	path    []string
}

// Note is one point in which an input deviates from its format.
type Note struct{ Kind, Path, What string }

// The kinds of notes that this package makes.
const (
	NoteMember  = "unknown_member"
	NoteVariant = "unknown_variant"
	NoteNull    = "null"
)

// Note records a deviation at the current position.
func (r *Reader) Note(kind, what string) { r.noteAt("", kind, what) }

func (r *Reader) noteAt(step, kind, what string) {
	if r.Noting {
		r.Notes = append(r.Notes, Note{kind, strings.Join(r.path, "") + step, what})
	}
}

// within reads a value at a position, which only notes need.
func (r *Reader) within(step string, read func() error) error {
	if !r.Noting {
		return read()
	}
	r.path = append(r.path, step)
	err := read()
	r.path = r.path[:len(r.path)-1]
	return err
}

// attempt reads a value that the rest does not need.
func (r *Reader) attempt(step string, read func() error) (dropped bool, err error) {
	mark := len(r.Notes)
	if err = r.within(step, read); !r.Lenient || !errors.Is(err, ErrVariant) {
		return false, err
	}
	r.Notes = r.Notes[:mark]
	r.noteAt(step, NoteVariant, err.Error())
	return true, nil
}

// Read reads an object into the struct that v points to.
func (r *Reader) Read(raw []byte, v any) error { return r.Struct(raw, reflect.ValueOf(v).Elem()) }

// Struct reads an object into a struct.
func (r *Reader) Struct(raw []byte, s reflect.Value) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	return r.Members(members, s)
}

// Members reads the members of one object into a struct.
func (r *Reader) Members(members []strictjson.Member, s reflect.Value) error {
	s.SetZero()
	if err := r.members(r.Format.planOf(s.Type()), members, s); err != nil {
		return err
	}
	if r.Format.Verify != nil {
		return r.Format.Verify(s.Addr().Interface(), true)
	}
	return nil
}

// Value reads a value by its Go type.
func (r *Reader) Value(raw []byte, v reflect.Value) error {
	return r.Format.valueType(v.Type(), noTag).Read(r, raw, v)
}

func (r *Reader) object(p *plan, raw []byte, s reflect.Value) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	return r.members(p, members, s)
}

func (r *Reader) members(p *plan, members []strictjson.Member, s reflect.Value) error {
	var room [32]int // enough for most structs: the input member for each member of the plan
	found := room[:]
	if len(p.members) > len(found) {
		found = make([]int, len(p.members))
	}
	for k := range members {
		for i, known := p.byName[members[k].Name]; known && i >= 0; i = p.members[i].next {
			switch isNull := string(members[k].Value) == "null"; {
			case found[i] == 0, !isNull && string(members[found[i]-1].Value) == "null":
				found[i] = k + 1
			case !isNull:
				return strictjson.Wrong(strictjson.ErrDuplicateName, "both %q and %q", members[found[i]-1].Name, members[k].Name)
			}
		}
	}
	for i := range p.members {
		m := &p.members[i]
		if !m.exists(p, s) {
			continue
		}
		if found[i] == 0 {
			if err := r.missing(m, s); err != nil {
				if r.Format.PlaceMissing {
					err = strictjson.Within(err, "decode", m.step, -1)
				}
				return err
			}
			continue
		}
		in := members[found[i]-1]
		if err := r.member(m, in.Value, s); err != nil {
			return strictjson.Within(err, "decode", strictjson.Step(in.Name), int64(in.Offset))
		}
	}
	if p.open {
		return nil
	}
	return r.rest(p, members, s)
}

// rest keeps, refuses or notes the members without a field of their own.
func (r *Reader) rest(p *plan, members []strictjson.Member, s reflect.Value) error {
	for _, in := range members {
		i, known := p.byName[in.Name]
		for known && i >= 0 && !p.members[i].exists(p, s) {
			i = p.members[i].next
		}
		switch {
		case known && i >= 0:
		case p.extra != nil:
			f := s.FieldByIndex(p.extra)
			f.Set(reflect.Append(f, reflect.ValueOf(Extra{in.Name, bytes.Clone(in.Value)}).Convert(f.Type().Elem())))
		case p.closed:
			err := strictjson.Wrong(strictjson.ErrUnknownMember, "%.60q", in.Name)
			return strictjson.Within(err, "decode", strictjson.Step(in.Name), int64(in.Offset))
		default:
			r.noteAt(strictjson.Step(in.Name), NoteMember, "unknown member")
		}
	}
	return nil
}

func (r *Reader) member(m *member, raw []byte, s reflect.Value) error {
	if m.constant {
		got, err := strictjson.Text(raw)
		if err == nil && got != m.word {
			err = strictjson.Wrong(strictjson.ErrType, "%s is %.60q, want %q", m.name, got, m.word)
		}
		return err
	}
	f := m.field(s)
	if string(raw) == "null" {
		if m.null {
			return nil
		}
		if m.rescue && r.Lenient {
			r.noteAt(m.step, NoteNull, "null for an absent member")
			return r.missing(m, s)
		}
	}
	if m.copy != "" {
		return m.checkCopy(r, raw, f)
	}
	read := func() error { return m.typ.Read(r, raw, f) }
	if m.required {
		return r.within(m.step, read)
	}
	dropped, err := r.attempt(m.step, read)
	if dropped {
		f.SetZero()
	}
	return err
}

// checkCopy refuses a member that differs from the one it repeats.
func (m *member) checkCopy(r *Reader, raw []byte, f reflect.Value) error {
	v := reflect.New(f.Type()).Elem()
	err := m.typ.Read(r, raw, v)
	if err == nil && v.Interface() != f.Interface() {
		err = strictjson.Wrong(strictjson.ErrType, "%s differs from the member that it repeats", m.name)
	}
	return err
}

// missing sets a member that the input lacks.
func (r *Reader) missing(m *member, s reflect.Value) error {
	switch {
	case m.variant:
		return m.typ.Read(r, nil, m.field(s))
	case m.required && m.copy == "":
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q", m.name)
	case m.constant, m.inner != nil:
	case m.generate != "":
		setText(m.field(s), r.Format.Generate(r, m.generate))
	case m.word != "" && m.field(s).Kind() == reflect.Slice:
		m.field(s).SetBytes([]byte(m.word))
	case m.word != "":
		m.field(s).SetString(m.word)
	case m.empty && m.field(s).Type().Elem().Kind() != reflect.Uint8:
		m.field(s).Set(reflect.MakeSlice(m.field(s).Type(), 0, 0))
	}
	return nil
}

func setText(f reflect.Value, text string) {
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.ValueOf(&text))
		return
	}
	f.SetString(text)
}

// Append appends the struct that v points to. The result can be read back.
func (f *Format) Append(dst []byte, v any) ([]byte, error) {
	return f.appendStruct(dst, reflect.ValueOf(v).Elem())
}

// AppendValue appends a value by its Go type.
func (f *Format) AppendValue(dst []byte, v reflect.Value) ([]byte, error) {
	return f.valueType(v.Type(), noTag).Write(f, dst, v)
}

func (f *Format) appendStruct(dst []byte, s reflect.Value) ([]byte, error) {
	if !s.CanAddr() { // a value in a map
		c := reflect.New(s.Type()).Elem()
		c.Set(s)
		s = c
	}
	if f.Verify != nil {
		if err := f.Verify(s.Addr().Interface(), false); err != nil {
			return dst, strictjson.Within(err, "encode", "", -1)
		}
	}
	return f.appendMembers(dst, f.planOf(s.Type()), s)
}

func (f *Format) appendMembers(dst []byte, p *plan, s reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range p.members {
		m := &p.members[i]
		v := m.field(s)
		if !m.exists(p, s) {
			if !v.IsZero() {
				err := strictjson.Wrong(strictjson.ErrUnknownMember, "%s %q has no %q", p.variantName(), s.FieldByIndex(p.variant).String(), m.name)
				return dst, strictjson.Within(err, "encode", "/"+m.name, -1)
			}
			continue
		}
		if f.leavesOut(m, v) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		var err error
		if dst, err = f.appendValue(append(dst, m.key...), m, v); err != nil {
			return dst, strictjson.Within(err, "encode", "/"+m.name, -1)
		}
	}
	var err error
	if p.extra != nil {
		dst, err = f.appendExtra(dst, p, s.FieldByIndex(p.extra))
	}
	return append(dst, '}'), err
}

// variantName returns the name of the member that determines which others exist.
func (p *plan) variantName() string {
	for _, m := range p.members {
		if m.variant {
			return m.name
		}
	}
	return ""
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return v.IsNil()
	default:
		return false
	}
}

func (f *Format) leavesOut(m *member, v reflect.Value) bool {
	switch {
	case m.constant, m.inner != nil:
		return false
	case m.omit:
		return v.IsZero()
	case m.omitEmpty:
		return v.Len() == 0
	default:
		return f.NilIsAbsent && !m.required && !m.empty && isNil(v)
	}
}

func (f *Format) appendValue(dst []byte, m *member, v reflect.Value) ([]byte, error) {
	if m.constant {
		return strictjson.AppendString(dst, m.word)
	}
	if m.inner != nil || !isNil(v) {
		return m.typ.Write(f, dst, v)
	}
	isRaw := v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
	switch {
	case m.empty && isRaw:
		return append(dst, "{}"...), nil
	case m.null:
		return append(dst, "null"...), nil
	case v.Kind() == reflect.Slice && !isRaw, v.Kind() == reflect.Map:
		return m.typ.Write(f, dst, v)
	default:
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "%q", m.name)
	}
}

// appendExtra appends the members that are passed on.
func (f *Format) appendExtra(dst []byte, p *plan, extra reflect.Value) ([]byte, error) {
	names := map[string]bool{}
	for i := range extra.Len() {
		m := extra.Index(i).Convert(reflect.TypeFor[Extra]()).Interface().(Extra)
		if _, own := p.byName[m.Name]; own || names[m.Name] {
			return dst, strictjson.Wrong(strictjson.ErrDuplicateName, "%.60q", m.Name)
		}
		names[m.Name] = true
		var err error
		if dst, err = strictjson.AppendString(append(dst, ','), m.Name); err != nil {
			return dst, err
		}
		if dst, err = f.AppendRaw(append(dst, ':'), m.Value); err != nil {
			return dst, strictjson.Within(err, "encode", strictjson.Step(m.Name), -1)
		}
	}
	return dst, nil
}
