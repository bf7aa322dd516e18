package message

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/weburl"
)

// marshal encodes the struct that v points to: every member, in the order of
// its plan. What it writes, the zero Codec can read back.
func marshal(v any) ([]byte, error) {
	if e, ok := v.(*ToolResultDataDelta); ok {
		if err := e.verify(); err != nil {
			return nil, strictjson.Within(err, "encode", "", -1)
		}
	}
	return appendObject(nil, reflect.ValueOf(v).Elem())
}

// appendObject appends a struct of this package.
func appendObject(dst []byte, s reflect.Value) ([]byte, error) {
	p := planOf(s.Type())
	dst = append(dst, '{')
	for i, m := range p.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), m.name...), '"', ':') // our names need no escapes
		var err error
		if dst, err = appendMember(dst, m, s); err != nil {
			return dst, strictjson.Within(err, "encode", "/"+m.name, -1)
		}
	}
	var err error
	if p.extra != nil {
		if dst, err = appendExtra(dst, p, s.FieldByIndex(p.extra).Interface().([]Member)); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

func appendMember(dst []byte, m member, s reflect.Value) ([]byte, error) {
	if m.index == nil {
		return strictjson.AppendString(dst, m.word)
	}
	f := s.FieldByIndex(m.index)
	switch {
	case m.null && f.IsNil():
		return append(dst, "null"...), nil
	case m.fill == fillWord && f.String() == "":
		return strictjson.AppendString(dst, m.word)
	case m.url:
		u, err := weburl.Normalize(f.String())
		if err != nil {
			return dst, urlError(err)
		}
		return strictjson.AppendString(dst, u)
	}
	return appendValue(dst, f)
}

// appendExtra appends the members that were passed through.
func appendExtra(dst []byte, p *plan, extra []Member) ([]byte, error) {
	names := map[string]bool{}
	for _, m := range extra {
		if _, own := p.byName[m.Name]; own || names[m.Name] {
			return dst, strictjson.Wrong(strictjson.ErrDuplicateName, "%.60q", m.Name)
		}
		names[m.Name] = true
		var err error
		if dst, err = strictjson.AppendString(append(dst, ','), m.Name); err != nil {
			return dst, err
		}
		if dst, err = appendRaw(append(dst, ':'), m.Value); err != nil {
			return dst, strictjson.Within(err, "encode", strictjson.Step(m.Name), -1)
		}
	}
	return dst, nil
}

// appendRaw appends JSON that is passed through, byte for byte.
func appendRaw(dst, raw []byte) ([]byte, error) {
	if err := strictjson.Check(raw, strictjson.MaxBytes(math.MaxInt)); err != nil {
		return dst, err
	}
	return append(dst, raw...), nil
}

// appendValue appends a value by its Go type.
func appendValue(dst []byte, v reflect.Value) ([]byte, error) {
	switch x := v.Interface().(type) {
	case Block:
		return appendOther(dst, x)
	case Source:
		return appendOther(dst, x)
	case Content:
		return appendContent(dst, x)
	case map[string]any:
		if len(x) == 0 {
			return append(dst, "{}"...), nil
		}
		b, err := strictjson.Marshal(x)
		return append(dst, b...), err
	}
	switch v.Kind() {
	case reflect.String:
		return appendText(dst, v)
	case reflect.Int64:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case reflect.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case reflect.Pointer:
		return appendValue(dst, v.Elem())
	case reflect.Slice:
		return appendSlice(dst, v)
	case reflect.Map:
		return appendDict(dst, v)
	case reflect.Struct:
		return appendObject(dst, v)
	default: // a nil interface
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "nothing is set")
	}
}

// appendOther appends a block or source through its own method.
func appendOther(dst []byte, x interface{ MarshalJSON() ([]byte, error) }) ([]byte, error) {
	if reflect.ValueOf(x).IsNil() {
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "a nil %T", x)
	}
	b, err := x.MarshalJSON()
	return append(dst, b...), err
}

func appendContent(dst []byte, c Content) ([]byte, error) {
	if !c.IsList() {
		return strictjson.AppendString(dst, c.Text)
	}
	for i, b := range c.Blocks {
		if b != nil && !contentHolds(b.Type()) {
			err := strictjson.Wrong(strictjson.ErrType, "a %s block cannot stand here, only text and data", b.Type())
			return dst, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1)
		}
	}
	return appendSlice(dst, reflect.ValueOf(c.Blocks))
}

func appendText(dst []byte, v reflect.Value) ([]byte, error) {
	if w, ok := reflect.TypeAssert[word](v); ok && !w.Valid() {
		return dst, strictjson.Wrong(strictjson.ErrType, "%.60q is none of %s", v.String(), w.words())
	}
	return strictjson.AppendString(dst, v.String())
}

func appendSlice(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '[')
	for i := range v.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, v.Index(i)); err != nil {
			return dst, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1)
		}
	}
	return append(dst, ']'), nil
}

func appendDict(dst []byte, v reflect.Value) ([]byte, error) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
	dst = append(dst, '{')
	for i, k := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = strictjson.AppendString(dst, k.String()); err != nil {
			return dst, err
		}
		if dst, err = appendValue(append(dst, ':'), v.MapIndex(k)); err != nil {
			return dst, strictjson.Within(err, "encode", strictjson.Step(k.String()), -1)
		}
	}
	return append(dst, '}'), nil
}
