package strictjson

import (
	stdjson "encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal decodes data into v, a non-nil pointer, and refuses members that
// v's type does not have.
func Unmarshal(data []byte, v any, opts ...Option) error {
	return unmarshal(data, v, opts, json.RejectUnknownMembers(true))
}

// UnmarshalOpen is Unmarshal that drops members it does not know. It is for
// formats whose own rule is to ignore them, AgentScope's above all; everything
// else is checked the same.
func UnmarshalOpen(data []byte, v any, opts ...Option) error {
	return unmarshal(data, v, opts, json.RejectUnknownMembers(false))
}

// Object decodes data, which must be an object, into a map. Integers become
// int64, other numbers float64. Integers that int64 cannot hold are refused,
// or with [KeepBigIntegers] kept as text.
func Object(data []byte, opts ...Option) (map[string]any, error) {
	l := limitsOf(opts)
	if bounds("decode", data, l) == nil {
		if m, ok := quickObject(data, anyDecoder{keepBig: l.keepBig}); ok {
			return m, nil
		}
	}
	var m map[string]any
	if err := Unmarshal(data, &m, opts...); err != nil {
		return nil, err
	}
	if m == nil {
		return nil, &Error{Op: "decode", Offset: 0, Err: fmt.Errorf("%w: want object, got null", ErrType)}
	}
	return m, nil
}

func unmarshal(data []byte, v any, opts []Option, unknown json.Options) error {
	l := limitsOf(opts)
	if err := bounds("decode", data, l); err != nil {
		return err
	}
	anys := anyOptions
	if l.keepBig {
		anys = anyOptionsBig
	}
	if err := json.Unmarshal(data, v, anys, unknown); err != nil {
		return errorOf("decode", err)
	}
	return nil
}

// These replace the library's way of filling an any, which rounds every number
// to a float64.
var (
	anyOptions    = json.WithUnmarshalers(json.UnmarshalFromFunc(anyDecoder{}.value))
	anyOptionsBig = json.WithUnmarshalers(json.UnmarshalFromFunc(anyDecoder{keepBig: true}.value))
)

// anyDecoder fills an any. Its recursion is bounded by the checked depth.
type anyDecoder struct{ keepBig bool }

func (d anyDecoder) value(dec *jsontext.Decoder, v *any) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case '{':
		return d.object(dec, v)
	case '[':
		return d.array(dec, v)
	case '"':
		*v = tok.String()
	case 't', 'f':
		*v = tok.Bool()
	case '0':
		if *v, err = d.number(tok.String()); err != nil {
			err = &json.SemanticError{JSONPointer: dec.StackPointer(), ByteOffset: dec.InputOffset(), Err: err}
		}
	default:
		*v = nil
	}
	return err
}

func (d anyDecoder) object(dec *jsontext.Decoder, v *any) error {
	m := make(map[string]any)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String() // the token dies with the next read
		var elem any
		if err := d.value(dec, &elem); err != nil {
			return err
		}
		m[key] = elem
	}
	*v = m
	_, err := dec.ReadToken()
	return err
}

func (d anyDecoder) array(dec *jsontext.Decoder, v *any) error {
	s := []any{}
	for dec.PeekKind() != ']' {
		var elem any
		if err := d.value(dec, &elem); err != nil {
			return err
		}
		s = append(s, elem)
	}
	*v = s
	_, err := dec.ReadToken()
	return err
}

// number keeps the value: int64 for integers, float64 for the rest.
func (d anyDecoder) number(text string) (any, error) {
	if strings.ContainsAny(text, ".eE") {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("number %s is too large", shorten(text))
		}
		return f, nil
	}
	i, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil:
		return i, nil
	case d.keepBig:
		return stdjson.Number(text), nil
	default:
		return nil, fmt.Errorf("integer %s does not fit 64 bits, send it as a string", shorten(text))
	}
}
