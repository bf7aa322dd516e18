package message

import (
	"bytes"
	"math"
	"reflect"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/weburl"
)

// Everything in this file returns *strictjson.Error, with places seen from the
// value that was passed in.

// decodeInto decodes one object into v, a pointer to a struct of this package.
func (c Codec) decodeInto(data []byte, v any) error {
	members, err := strictjson.Members(data)
	if err != nil {
		return err
	}
	return c.fields(members, v)
}

// fields decodes the members of one object into the struct that v points to.
func (c Codec) fields(members []strictjson.Member, v any) error {
	s := reflect.ValueOf(v).Elem()
	s.SetZero()
	p := planOf(s.Type())
	seen := make([]bool, len(p.members))
	for _, m := range members {
		i, known := p.byName[m.Name]
		if !known {
			keep(s, p, m)
			continue
		}
		seen[i] = true
		if err := c.field(p.members[i], m.Value, s); err != nil {
			return strictjson.Within(err, "decode", strictjson.Step(m.Name), int64(m.Offset))
		}
	}
	for i, m := range p.members {
		if !seen[i] {
			if err := c.fillMissing(m, s); err != nil {
				return err
			}
		}
	}
	return verify(v)
}

// keep puts a member without a field among the extra ones, if the type has a
// place for them, and else drops it.
func keep(s reflect.Value, p *plan, m strictjson.Member) {
	if p.extra == nil {
		return
	}
	f := s.FieldByIndex(p.extra)
	extra := Member{Name: m.Name, Value: bytes.Clone(m.Value)}
	f.Set(reflect.Append(f, reflect.ValueOf(extra)))
}

func (c Codec) field(m member, raw []byte, s reflect.Value) error {
	if m.index == nil {
		return checkType(raw, m.word)
	}
	f := s.FieldByIndex(m.index)
	if strictjson.KindOf(raw) == "null" && m.null {
		f.SetZero()
		return nil
	}
	if err := c.value(raw, f); err != nil {
		return err
	}
	if m.url {
		return normalizeField(f)
	}
	return nil
}

// fillMissing fills in a member that the input does not have.
func (c Codec) fillMissing(m member, s reflect.Value) error {
	switch {
	case m.required:
		return strictjson.Wrong(strictjson.ErrMissingMember, "%q", m.name)
	case m.fill == fillID:
		s.FieldByIndex(m.index).SetString(c.newID())
	case m.fill == fillNow:
		setText(s.FieldByIndex(m.index), c.now())
	case m.fill == fillWord:
		s.FieldByIndex(m.index).SetString(m.word)
	}
	return nil
}

// setText sets a string or a *string.
func setText(f reflect.Value, text string) {
	if f.Kind() == reflect.Pointer {
		f.Set(reflect.ValueOf(&text))
		return
	}
	f.SetString(text)
}

// value decodes raw by the Go type of v.
func (c Codec) value(raw []byte, v reflect.Value) (err error) {
	switch p := v.Addr().Interface().(type) {
	case *Block:
		*p, err = c.block(raw)
		return err
	case *Source:
		*p, err = c.source(raw)
		return err
	case *Content:
		*p, err = c.content(raw)
		return err
	case *map[string]any:
		*p, err = strictjson.Object(raw, strictjson.MaxBytes(math.MaxInt), strictjson.KeepBigIntegers())
		return err
	}
	switch v.Kind() {
	case reflect.String:
		return text(raw, v)
	case reflect.Int64:
		i, err := strictjson.Int(raw)
		v.SetInt(i)
		return err
	case reflect.Bool:
		b, err := strictjson.Bool(raw)
		v.SetBool(b)
		return err
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return c.value(raw, v.Elem())
	case reflect.Slice:
		return c.slice(raw, v)
	case reflect.Map:
		return c.dict(raw, v)
	default:
		return c.decodeInto(raw, v.Addr().Interface())
	}
}

// text decodes a string; one with a closed list of values must be on it.
func text(raw []byte, v reflect.Value) error {
	s, err := strictjson.Text(raw)
	if err != nil {
		return err
	}
	v.SetString(s)
	if w, ok := reflect.TypeAssert[word](v); ok && !w.Valid() {
		return strictjson.Wrong(strictjson.ErrType, "%.60q is none of %s", s, w.words())
	}
	return nil
}

func (c Codec) slice(raw []byte, v reflect.Value) error {
	items, err := strictjson.Items(raw)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		if err := c.value(item.Value, v.Index(i)); err != nil {
			return strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(item.Offset))
		}
	}
	return nil
}

func (c Codec) dict(raw []byte, v reflect.Value) error {
	members, err := strictjson.Members(raw)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
	for _, m := range members {
		elem := reflect.New(v.Type().Elem()).Elem()
		if err := c.value(m.Value, elem); err != nil {
			return strictjson.Within(err, "decode", strictjson.Step(m.Name), int64(m.Offset))
		}
		v.SetMapIndex(reflect.ValueOf(m.Name), elem)
	}
	return nil
}

// checkType compares a discriminator that need not be there with what it has
// to be if it is.
func checkType(raw []byte, want string) error {
	got, err := strictjson.Text(raw)
	if err == nil && got != want {
		err = strictjson.Wrong(strictjson.ErrType, "type is %.60q, want %q", got, want)
	}
	return err
}

// verify makes the checks that involve more than one member.
func verify(v any) error {
	switch v := v.(type) {
	case *Msg:
		if i, err := v.findMisplaced(); err != nil {
			return strictjson.Within(strictjson.Wrong(strictjson.ErrType, "%s", err), "decode", "/content/"+strconv.Itoa(i), -1)
		}
	case *ToolResultDataDelta:
		return v.verify()
	}
	return nil
}

// normalizeField writes a URL in its normal form.
func normalizeField(f reflect.Value) error {
	u, err := weburl.Normalize(f.String())
	if err != nil {
		return urlError(err)
	}
	f.SetString(u)
	return nil
}

// urlError is a refused URL as an error of the codec.
func urlError(err error) error { return strictjson.Wrong(strictjson.ErrType, "%s", err) }
