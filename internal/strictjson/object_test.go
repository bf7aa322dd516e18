package strictjson

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// tokenDecoder decodes into an any token by token, as the library reads them.
type tokenDecoder struct{ anyDecoder }

func (d tokenDecoder) value(dec *jsontext.Decoder, v *any) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case '{':
		m := make(map[string]any)
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return err
			}
			key := name.String() // the next read invalidates the token
			var elem any
			if err := d.value(dec, &elem); err != nil {
				return err
			}
			m[key] = elem
		}
		*v = m
		_, err = dec.ReadToken()
	case '[':
		s := []any{}
		for dec.PeekKind() != ']' {
			var elem any
			if err := d.value(dec, &elem); err != nil {
				return err
			}
			s = append(s, elem)
		}
		*v = s
		_, err = dec.ReadToken()
	case '"':
		*v = tok.String()
	case 't', 'f':
		*v = tok.Bool()
	case '0':
		*v, err = d.number(tok.String())
	default:
		*v = nil
	}
	return err
}

// The quick way accepts what the library accepts, and returns the same value; so does Unmarshal.
func FuzzQuickObject(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a": 1, "b": [1.5, null, {"c": true}]} `, `{"a": 1, "a": 2}`, `{"a": {"b": 1, "b": 2}}`, `[]`, `null`, `{} {}`, `{"a": 12345678901234567890}`,
		`{"a": 1e999}`, "{\"\xff\": 1}", `{"\ud800": 1}`, `{"a": }`, `{`, ``, `{"a\u0000": "\u2028"}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, keepBig bool) {
		var opts []Option
		if keepBig {
			opts = append(opts, KeepBigIntegers())
		}
		if bounds("decode", data, limitsOf(opts)) != nil {
			return
		}
		var want map[string]any
		byToken := json.WithUnmarshalers(json.UnmarshalFromFunc(tokenDecoder{anyDecoder{keepBig}}.value))
		err := json.Unmarshal(data, &want, byToken)
		var merged map[string]any
		if e := Unmarshal(data, &merged, opts...); (e == nil) != (err == nil) || err == nil && cmp.Diff(want, merged) != "" {
			t.Fatalf("%q: %v, %v; by token %v, %v", data, merged, e, want, err)
		}
		got, ok := quickObject(data, anyDecoder{keepBig: keepBig})
		if ok != (err == nil && want != nil) {
			t.Fatalf("%q: quick %v, general %v", data, ok, err)
		}
		if ok {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q:\n%s", data, diff)
			}
		}
	})
}

func TestTextMember(t *testing.T) {
	members, err := Members([]byte(`{"a":"x\u0041","n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "xA", "n": "", "none": ""} {
		if got := TextMember(members, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// People find a fault by its line and column.
func TestAtLine(t *testing.T) {
	const text = "{\"é\": 1,\n \"b\": 2,}"
	_, err := Object([]byte(text))
	if got, want := AtLine(err, text), "decode JSON (line 2, column 8): invalid JSON: invalid character ',' at start of value; send one JSON value in UTF-8"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := AtLine(ErrType, text); got != ErrType.Error() {
		t.Errorf("an error without a place became %s", got)
	}
}
