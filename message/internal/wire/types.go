package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
)

// MaxSafe is the largest integer that a JavaScript number represents exactly.
const MaxSafe int64 = 1<<53 - 1

// ErrVariant is wrapped by the error for an object of an unknown variant.
var ErrVariant = errors.New("unknown kind")

// typeOf returns the functions for a Go type, according to the tags of the member.
func (f *Format) typeOf(t reflect.Type, m *member) Type {
	nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice
	m.required = m.required || f.NilIsAbsent && !nilable && t.Kind() != reflect.Bool
	m.null = m.null || t.Kind() == reflect.Pointer && !f.NilIsAbsent
	return f.valueType(t, m.tag)
}

func (f *Format) valueType(t reflect.Type, opt tag) Type {
	if custom, ok := f.Types[t]; ok {
		if custom.Write == nil {
			custom.Write = writeInterface
			if t.Kind() == reflect.Struct {
				custom.Write = (*Format).appendStruct
			}
		}
		return custom
	}
	if t == reflect.TypeFor[map[string]any]() {
		return Type{readAnyObject, writeAnyObject}
	}
	switch t.Kind() {
	case reflect.String:
		return f.textType(t, opt)
	case reflect.Int, reflect.Int64:
		return f.intType(opt)
	case reflect.Float64:
		return Type{readFloat, writeFloat}
	case reflect.Bool:
		return Type{readBool, writeBool}
	case reflect.Pointer:
		return pointerType(t.Elem(), f.valueType(t.Elem(), opt))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return f.rawType(opt)
		}
		return listType(f.valueType(t.Elem(), opt), opt.most)
	case reflect.Map:
		return dictType(f.valueType(t.Elem(), opt))
	case reflect.Interface:
		return Type{Write: writeInterface}
	default:
		return Type{
			Read:  func(r *Reader, raw []byte, v reflect.Value) error { return r.Struct(raw, v) },
			Write: (*Format).appendStruct,
		}
	}
}

func (f *Format) textType(t reflect.Type, opt tag) Type {
	words, rule := opt.words, f.Rules[opt.rule]
	if words == nil && f.Words != nil {
		words = f.Words(t)
	}
	check := func(text string) (string, error) {
		switch {
		case words != nil && !slices.Contains(words, text) && opt.variant:
			return "", fmt.Errorf("%w: %w: %q is not one of %s", strictjson.ErrType, ErrVariant, opt.name, strings.Join(words, ", "))
		case words != nil && !slices.Contains(words, text):
			return "", strictjson.Wrong(strictjson.ErrType, "%.60q is not one of %s", text, strings.Join(words, ", "))
		case rule != nil:
			return rule(text)
		}
		return text, nil
	}
	return Type{
		Read: func(_ *Reader, raw []byte, v reflect.Value) error {
			text, err := strictjson.Text(raw)
			if err != nil && opt.variant {
				text, err = "", nil
			}
			if err == nil {
				text, err = check(text)
			}
			v.SetString(text)
			return err
		},
		Write: func(_ *Format, dst []byte, v reflect.Value) ([]byte, error) {
			text := cmp.Or(v.String(), opt.word)
			text, err := check(text)
			if err != nil {
				return dst, err
			}
			return strictjson.AppendString(dst, text)
		},
	}
}

func (f *Format) intType(opt tag) Type {
	if f.SafeInts {
		opt.least, opt.most = max(opt.least, -MaxSafe), min(opt.most, MaxSafe)
	}
	check := func(n int64) error {
		if n < opt.least || n > opt.most {
			return strictjson.Wrong(strictjson.ErrType, "%d is not between %d and %d", n, opt.least, opt.most)
		}
		return nil
	}
	return Type{
		Read: func(_ *Reader, raw []byte, v reflect.Value) error {
			n, err := strictjson.Int(raw)
			if err != nil && f.SafeInts {
				n, err = wholeNumber(raw, err)
			}
			if err != nil {
				return err
			}
			v.SetInt(n)
			return check(n)
		},
		Write: func(_ *Format, dst []byte, v reflect.Value) ([]byte, error) {
			return strconv.AppendInt(dst, v.Int(), 10), check(v.Int())
		},
	}
}

// wholeNumber reads an integer by its value, as JavaScript does: 2.0 and 2e0 are 2.
func wholeNumber(raw []byte, refused error) (int64, error) {
	n, err := strconv.ParseFloat(string(raw), 64)
	if strictjson.KindOf(raw) != "number" || err != nil || n != math.Trunc(n) || math.Abs(n) > float64(MaxSafe) {
		return 0, refused
	}
	return int64(n), nil
}

func readFloat(_ *Reader, raw []byte, v reflect.Value) error {
	if kind := strictjson.KindOf(raw); kind != "number" {
		return strictjson.Wrong(strictjson.ErrType, "want number, got %s", kind)
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return strictjson.Wrong(strictjson.ErrType, "number %.40s is too large", raw)
	}
	v.SetFloat(n)
	return nil
}

// writeFloat always writes a fraction, because some languages do not accept an integer as a
// float.
func writeFloat(_ *Format, dst []byte, v reflect.Value) ([]byte, error) {
	n := v.Float()
	if math.IsInf(n, 0) || math.IsNaN(n) {
		return dst, strictjson.Wrong(strictjson.ErrType, "%v is not a JSON number", n)
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, n, 'f', -1, 64)
	if !bytes.Contains(dst[start:], []byte(".")) {
		dst = append(dst, ".0"...)
	}
	return dst, nil
}

func readBool(_ *Reader, raw []byte, v reflect.Value) error {
	b, err := strictjson.Bool(raw)
	v.SetBool(b)
	return err
}

func writeBool(_ *Format, dst []byte, v reflect.Value) ([]byte, error) {
	return strconv.AppendBool(dst, v.Bool()), nil
}

func readAnyObject(_ *Reader, raw []byte, v reflect.Value) error {
	members, err := strictjson.Object(raw, strictjson.MaxBytes(math.MaxInt), strictjson.KeepBigIntegers())
	v.Set(reflect.ValueOf(members))
	return err
}

func writeAnyObject(_ *Format, dst []byte, v reflect.Value) ([]byte, error) {
	if v.Len() == 0 {
		return append(dst, "{}"...), nil
	}
	raw, err := strictjson.Marshal(v.Interface())
	return append(dst, raw...), err
}

func pointerType(t reflect.Type, elem Type) Type {
	return Type{
		Read: func(r *Reader, raw []byte, v reflect.Value) error {
			v.Set(reflect.New(t))
			return elem.Read(r, raw, v.Elem())
		},
		Write: func(f *Format, dst []byte, v reflect.Value) ([]byte, error) { return elem.Write(f, dst, v.Elem()) },
	}
}

func writeInterface(f *Format, dst []byte, v reflect.Value) ([]byte, error) {
	if v.IsNil() || v.Elem().IsNil() {
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "nothing is set")
	}
	return f.appendStruct(dst, v.Elem().Elem())
}

// rawType is JSON that is passed on unread.
func (f *Format) rawType(opt tag) Type {
	check := func(raw []byte) error {
		switch kind := strictjson.KindOf(raw); {
		case opt.object && kind != "object":
			return strictjson.Wrong(strictjson.ErrType, "want object, got %s", kind)
		case !opt.object && !opt.any && kind == "null":
			return strictjson.Wrong(strictjson.ErrType, "want anything but null")
		}
		return nil
	}
	return Type{
		Read: func(_ *Reader, raw []byte, v reflect.Value) error {
			v.SetBytes(bytes.Clone(raw))
			return check(raw)
		},
		Write: func(f *Format, dst []byte, v reflect.Value) ([]byte, error) {
			if err := check(v.Bytes()); err != nil {
				return dst, err
			}
			return f.AppendRaw(dst, v.Bytes())
		},
	}
}

// AppendRaw appends JSON that is passed on unchanged, or on one line if the format requires
// that.
func (f *Format) AppendRaw(dst, raw []byte) ([]byte, error) {
	if err := strictjson.Check(raw, strictjson.MaxBytes(math.MaxInt)); err != nil {
		return dst, err
	}
	if f.OneLine && bytes.ContainsAny(raw, "\r\n") {
		raw = bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\n"), nil), []byte("\r"), nil)
	}
	return append(dst, raw...), nil
}

func listType(elem Type, most int64) Type {
	return Type{
		Read: func(r *Reader, raw []byte, v reflect.Value) error {
			items, err := strictjson.Items(raw)
			if err == nil && int64(len(items)) > most {
				err = strictjson.Wrong(strictjson.ErrTooLarge, "%d elements, the limit is %d", len(items), most)
			}
			if err != nil {
				return err
			}
			v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
			n := 0
			for i, item := range items {
				dropped, err := r.attempt("/"+strconv.Itoa(i), func() error { return elem.Read(r, item.Value, v.Index(n)) })
				if err != nil {
					return strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(item.Offset))
				}
				if !dropped {
					n++
				}
			}
			v.SetLen(n)
			return nil
		},
		Write: func(f *Format, dst []byte, v reflect.Value) ([]byte, error) {
			dst = append(dst, '[')
			for i := range v.Len() {
				if i > 0 {
					dst = append(dst, ',')
				}
				var err error
				if dst, err = elem.Write(f, dst, v.Index(i)); err != nil {
					return dst, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1)
				}
			}
			return append(dst, ']'), nil
		},
	}
}

func dictType(elem Type) Type {
	return Type{
		Read: func(r *Reader, raw []byte, v reflect.Value) error {
			members, err := strictjson.Members(raw)
			if err != nil {
				return err
			}
			v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
			for _, m := range members {
				value := reflect.New(v.Type().Elem()).Elem()
				if err := elem.Read(r, m.Value, value); err != nil {
					return strictjson.Within(err, "decode", strictjson.Step(m.Name), int64(m.Offset))
				}
				v.SetMapIndex(reflect.ValueOf(m.Name), value)
			}
			return nil
		},
		Write: func(f *Format, dst []byte, v reflect.Value) ([]byte, error) {
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
			dst = append(dst, '{')
			for i, key := range keys {
				if i > 0 {
					dst = append(dst, ',')
				}
				var err error
				if dst, err = strictjson.AppendString(dst, key.String()); err != nil {
					return dst, err
				}
				if dst, err = elem.Write(f, append(dst, ':'), v.MapIndex(key)); err != nil {
					return dst, strictjson.Within(err, "encode", strictjson.Step(key.String()), -1)
				}
			}
			return append(dst, '}'), nil
		},
	}
}
