package wire

import (
	"reflect"

	"github.com/askance-dev/askance/internal/strictjson"
)

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
