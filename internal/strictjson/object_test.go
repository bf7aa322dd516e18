package strictjson

import (
	"reflect"
	"strings"
	"testing"
)

// The quick way accepts nothing that the general way refuses, and gives the
// same value.
func FuzzQuickObject(f *testing.F) {
	for _, s := range []string{`{}`, ` {"a": 1, "b": [1.5, null, {"c": true}]} `, `{"a": 1, "a": 2}`, `{"a": {"b": 1, "b": 2}}`, `[]`, `null`, `{} {}`, `{"a": 12345678901234567890}`,
		`{"a": 1e999}`, "{\"\xff\": 1}", `{"\ud800": 1}`, `{"a": }`, `{`, ``, `{"a\u0000": "\u2028"}`, `{"a": -0, "b": -0.0, "c": 01}`, `{"a": 1e5, "b": 1.}`,
		`{"a":"\ud83d\ude00\n","b":"é\u00e9","\u0061":1}`, "{\"a\": \"\x7f\t\"}", `{"a":tru}`, `{"a":[1,2,],}`, `{,}`, `{"a" 1}`, "\ufeff{}", "{}\x00", `{"a":"\`,
		`{"a":` + strings.Repeat("[", DefaultMaxDepth-1) + strings.Repeat("]", DefaultMaxDepth-1) + `}`,
		`{"a":` + strings.Repeat("[", DefaultMaxDepth) + strings.Repeat("]", DefaultMaxDepth) + `}`} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, keepBig bool) {
		var opts []Option
		if keepBig {
			opts = append(opts, KeepBigIntegers())
		}
		var want map[string]any
		err := Unmarshal(data, &want, opts...)
		got, ok := quickObject(data, limitsOf(opts))
		if ok != (err == nil && want != nil) {
			t.Fatalf("%q: quick %v, general %v", data, ok, err)
		}
		if ok && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: quick %#v, general %#v", data, got, want)
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
