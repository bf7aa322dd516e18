package strictjson

import (
	stdjson "encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type quickKey struct {
	Space string `json:"space"`
	Call  string `json:"call,omitzero"`
}

type quickKind string

type ownCodec struct{ n int }

func (o ownCodec) MarshalJSON() ([]byte, error) { return []byte(`{"own":1}`), nil }

func (o *ownCodec) UnmarshalJSON([]byte) error { o.n = 1; return nil }

type quickInner struct {
	By   quickKind           `json:"by"`
	At   time.Time           `json:"at,omitzero"`
	Tags []string            `json:"tags,omitzero"`
	More map[string]any      `json:"more,omitzero"`
	Raw  stdjson.RawMessage  `json:"raw,omitzero"`
	Next *quickInner         `json:"next,omitzero"`
	Some any                 `json:"some,omitzero"`
	Deep []map[string]string `json:"deep"`
}

type quickValue struct {
	V int `json:"v"`
	quickKey
	Yes    bool           `json:"yes"`
	Small  int8           `json:"small"`
	Big    uint64         `json:"big,omitzero"`
	Ratio  float64        `json:"ratio,omitzero"`
	When   time.Time      `json:"when"`
	Until  *time.Time     `json:"until,omitzero"`
	Inner  quickInner     `json:"inner"`
	List   []*quickInner  `json:"list"`
	Own    ownCodec       `json:"own,omitzero"`
	Bytes  []byte         `json:"bytes,omitzero"`
	Number stdjson.Number `json:"number,omitzero"`
	Plain  string
}

func libraryMarshal(v any) ([]byte, error) { return json.Marshal(v, encodeOptions) }

var quickValues = []quickValue{
	{},
	{V: 2, quickKey: quickKey{"s", "c"}, Yes: true, Small: -128, Big: math.MaxUint64, Ratio: 1e300, When: time.Unix(1, 5).UTC()},
	{Inner: quickInner{By: "a\"\\\n\x00\x7f<>&\u2028é😀", At: time.Unix(0, 0).UTC(), Tags: []string{}, More: map[string]any{"b": int64(1), "a": []any{"x", 1.5}}}},
	{List: []*quickInner{nil, {Raw: stdjson.RawMessage(`{ "a" : [1, "\u0041"] }`)}, {Next: &quickInner{Next: &quickInner{By: "x"}}}}},
	{When: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)), Own: ownCodec{1}, Bytes: []byte("abc"), Number: "12345678901234567890", Plain: "p"},
	{Until: new(time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)), Inner: quickInner{Some: map[string]any{"t": "z"}, Deep: []map[string]string{nil, {"k": "v"}}}},
	{Inner: quickInner{Some: time.Time{}}, V: 1<<53 - 1},
}

// The quick way encodes as the library does, and canonical forms follow RFC 8785.
func TestQuickMarshal(t *testing.T) {
	for i, v := range quickValues {
		want, err := libraryMarshal(&v)
		if err != nil {
			t.Fatal(i, err)
		}
		got, ok := quickMarshal("", &v, "", false)
		if !ok || string(got) != string(want) {
			t.Errorf("value %d, %v:\n%s\nwant\n%s", i, ok, got, want)
		}
		for _, w := range []any{&v, map[string]any{"v": v}} { // the library encodes the second
			alone, _ := Marshal(w)
			if got, err := MarshalBetween(`{"a":`, w, `,"b":1}`); err != nil || string(got) != `{"a":`+string(alone)+`,"b":1}` {
				t.Errorf("value %d between texts: %s, %v", i, got, err)
			}
		}
		canonical := jsontext.Value(want)
		if err := canonical.Canonicalize(); err != nil {
			t.Fatal(i, err)
		}
		if got, ok := QuickCanonical("", &v); ok && string(got) != string(canonical) {
			t.Errorf("value %d:\n%s\nwant the canonical form\n%s", i, got, canonical)
		}
	}
	type plain struct {
		quickKey
		N int64     `json:"n"`
		A []string  `json:"a"`
		T time.Time `json:"t"`
	}
	if got, ok := QuickCanonical("", plain{quickKey{"s", "\u20ac\x1f"}, 5, nil, time.Unix(0, 0).UTC()}); !ok || string(got) != `{"a":[],"call":"€\u001f","n":5,"space":"s","t":"1970-01-01T00:00:00Z"}` {
		t.Errorf("%v %s", ok, got)
	}
	for _, v := range []any{plain{N: 1 << 53}, plain{N: -1 << 53}, quickValue{Ratio: 1.5}, plain{A: []string{"\xff"}}, nil, 5.5} {
		if got, ok := QuickCanonical("", v); ok {
			t.Errorf("%+v was encoded as %s without the library", v, got)
		}
	}
	for _, v := range []any{plain{A: []string{"\xff"}}, plain{T: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}} {
		if got, err := Marshal(v); err == nil {
			t.Errorf("%+v was encoded as %s", v, got)
		}
	}
}

// Both readers get the same value from a document, or only the library reads it.
func TestQuickUnmarshal(t *testing.T) {
	documents := []string{
		`{}`, `null`, ``, `{"v":1}`, `{"v":-0}`, `{"v":01}`, `{"v":1.0}`, `{"v":1e3}`, `{"v":-}`, `{"v":1,"v":2}`, `{"v":1,"x":2}`, `{"v":1,}`, `{"v":1`, `{"v":1}}`, `{"v":1} `, ` {"v":1}`, `{"v" :1}`, `{"v":null,"yes":null}`,
		`{"V":1}`, `{"small":127}`, `{"small":128}`, `{"big":18446744073709551615}`, `{"big":-1}`, `{"yes":true}`, `{"yes":truex}`, `{"yes":1}`,
		`{"Plain":"a\u0041\n\ud83d\ude00"}`, `{"Plain":"\ud83d"}`, `{"Plain":"é"}`, "{\"Plain\":\"\xff\"}", "{\"Plain\":\"\x01\"}", `{"Plain":"a`, `{"Plain":"\"}`, `{"Pl\u0061in":"x"}`,
		`{"when":"2026-01-02T03:04:05Z"}`, `{"when":"2026-01-02T03:04:05.123456789Z"}`, `{"when":"2026-01-02T03:04:05,5Z"}`, `{"when":"2026-01-02T3:04:05Z"}`, `{"when":"2026-01-02T3:04:05.5Z"}`, `{"when":"2026-01-02T03:04:05+01:00"}`, `{"when":"2026-01-02t03:04:05z"}`, `{"when":"2026-02-30T03:04:05Z"}`, `{"when":""}`, `{"when":"\u0032026-01-02T03:04:05Z"}`, `{"when":2026-01-02T03:04:05Z}`, `{"when":null}`,
		`{"inner":{"by":"x","tags":[],"deep":[null,{"a":"b"}]}}`, `{"inner":{"tags":null}}`, `{"inner":{"tags":["a",]}}`, `{"inner":{"tags":[,"a"]}}`, `{"inner":{"tags":["a" ,"b"]}}`, `{"inner":null}`,
		`{"inner":{"raw":{"a":1,"a":2}}}`, `{"inner":{"raw":{ "a" : [1] }}}`, `{"inner":{"raw": 1}}`, `{"inner":{"raw":1 }}`, `{"inner":{"raw":}}`, `{"inner":{"raw":null}}`, `{"inner":{"raw":[}]}}`, `{"inner":{"raw"`,
		`{"inner":{"some":[1,2.5,{"a":"}"}],"more":{"x":{"y":[]}}}}`, `{"inner":{"next":{"next":{"by":"deep"}}}}`, `{"inner":{"some":12345678901234567890}}`,
		`{"list":[null,{"by":"a"},{}]}`, `{"list":[nullx]}`, `{"until":null}`, `{"until":"2026-01-02T03:04:05Z"}`, `{"own":{"a":[1,{"b":"]"}]}}`, `{"own":x}`, `{"bytes":"YWJj"}`, `{"number":12}`, `{"ratio":1.25}`, `{"ratio":1,"ratio":2}`, `{"call":"c","space":"s"}`,
	}
	for _, v := range quickValues {
		b, err := libraryMarshal(&v)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(b))
		for _, cut := range []int{3, 10, len(b) / 2, len(b) - 1} {
			documents = append(documents, string(b[:cut]), string(b[:cut])+"}", string(b[:cut])+" "+string(b[cut:]))
		}
	}
	quick := 0
	for _, d := range documents {
		if sameReading(t, d) {
			quick++
		}
	}
	if quick < 25 {
		t.Errorf("only %d documents went the quick way", quick)
	}
}

// sameReading reports whether a document was read in the quick way.
func sameReading(t *testing.T, d string) bool {
	t.Helper()
	sameSplit(t, d)
	wasQuick := false
	for _, open := range []bool{false, true} {
		var got, want quickValue
		if !quickRead([]byte(d), reflect.ValueOf(&got).Elem(), readOptions{open: open}) {
			if !reflect.ValueOf(got).IsZero() {
				t.Errorf("%q left %+v behind", d, got)
			}
			continue
		}
		wasQuick = true
		if err := json.Unmarshal([]byte(d), &want, anyOptions, json.RejectUnknownMembers(!open)); err != nil {
			t.Errorf("%q was read, but the library returns %v", d, err)
		} else if !reflect.DeepEqual(got, want) {
			t.Errorf("%q became\n%+v\nwant\n%+v", d, got, want)
		}
	}
	return wasQuick
}

// split returns the members that Split visits, and whether it read the whole object.
func split(d string) (list []Member, ok bool) {
	list = []Member{}
	ok = Split([]byte(d), func(name, value []byte) bool {
		list = append(list, Member{Name: string(name), Value: value})
		return true
	})
	return list, ok
}

// sameSplit checks that Split and Members agree, unless a value is invalid or a name repeats.
func sameSplit(t *testing.T, d string) {
	t.Helper()
	got, ok := split(d)
	if !ok || slices.ContainsFunc(got, func(m Member) bool { return Check(m.Value) != nil }) {
		return
	}
	want, err := Members([]byte(d))
	if names := map[string]bool{}; err != nil {
		for _, m := range got {
			if names[m.Name] {
				return
			}
			names[m.Name] = true
		}
	}
	for i := range want {
		want[i].Offset = 0
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q was split into %v, by the library into %v, %v", d, got, want, err)
	}
}

func TestSplit(t *testing.T) {
	for d, want := range map[string]int{`{}`: 0, `{"a":1}`: 1, `{"a":{"b":[1,"}"]},"c":null}`: 2, `{"a":1,"a":2}`: 2, `{"a":1,}`: -1, `{,}`: -1, `{"a":1`: -1, `{"a":1}}`: -1, `{"a" :1}`: -1, `[]`: -1, ``: -1, `}`: -1, `{`: -1, `{"a":}`: -1, `{"a": 1}`: -1, `{"a":1 }`: -1, `{"a":x}`: 1, `{"\u0061":1}`: -1} {
		got, ok := split(d)
		if n := len(got); ok != (want >= 0) || ok && n != want {
			t.Errorf("%s: %v, %v, want %d members", d, got, ok, want)
		}
		sameSplit(t, d)
	}
	calls := 0
	if Split([]byte(`{"a":1,"b":2,"c":3}`), func(name, _ []byte) bool { calls++; return string(name) != "b" }) || calls != 2 {
		t.Errorf("visit refused the second of three members and was called %d times", calls)
	}
}

// SplitList visits the items that Items returns, or reports another form.
func TestSplitList(t *testing.T) {
	for d, want := range map[string]int{`[]`: 0, `[1]`: 1, `[["a","]"],{"b":","},null]`: 3, `["a",]`: -1, `[,"a"]`: -1, `["a" ,"b"]`: -1, `["a"`: -1, `["a"]]`: -1, `["a"]x`: -1, `["a""b"]`: -1, `{}`: -1, ``: -1, `[`: -1, `]`: -1, `null`: -1} {
		var got []Member
		ok := SplitList([]byte(d), func(value []byte) bool {
			got = append(got, Member{Value: value})
			return true
		})
		if ok != (want >= 0) || ok && len(got) != want {
			t.Errorf("%s: %v, %v, want %d items", d, got, ok, want)
		}
		list, err := Items([]byte(d))
		for i := range list {
			list[i].Offset = 0
		}
		if ok && (err != nil || !reflect.DeepEqual(got, list)) {
			t.Errorf("%s was split into %v, by the library into %v, %v", d, got, list, err)
		}
	}
	calls := 0
	if SplitList([]byte(`[1,2,3]`), func(value []byte) bool { calls++; return string(value) != "2" }) || calls != 2 {
		t.Errorf("visit refused the second of three items and was called %d times", calls)
	}
}

// What was encoded once is written as it is, by both writers, and read for its decoder.
func TestEncoded(t *testing.T) {
	type outer struct {
		E Encoded        `json:"e"`
		L []Encoded      `json:"l,omitzero"`
		M map[string]any `json:"m,omitzero"`
	}
	const text = `{"e":{"a":1},"l":[["x"],2]}`
	v := outer{E: Encoded(`{"a":1}`), L: []Encoded{Encoded(`["x"]`), Encoded(`2`)}}
	library, err := libraryMarshal(&v)
	if got, ok := quickMarshal("", &v, "", false); !ok || err != nil || string(got) != text || string(library) != text {
		t.Errorf("%s, %v, %s, %v", got, ok, library, err)
	}
	in := []byte(text)
	var got outer
	if err := Unmarshal(in, &got); err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, d := range []string{`{"e":{"a":1}`, `{"e":}`, `{"e":1}x`, `{"e":1]`} {
		if err := Unmarshal([]byte(d), &got); err == nil {
			t.Errorf("%s was read", d)
		}
	}
	if got, err := Marshal(&outer{}); err == nil {
		t.Errorf("nothing was written as %s", got)
	}
}

func FuzzQuick(f *testing.F) {
	for _, v := range quickValues {
		b, err := libraryMarshal(&v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, d string) {
		if strings.Count(d, "[")+strings.Count(d, "{") < 60 { // as bounds ensures
			sameReading(t, d)
		}
	})
}

// The library merges into a value that is not zero, as usual.
func TestQuickMerges(t *testing.T) {
	v := quickValue{V: 1, Plain: "kept"}
	if err := Unmarshal([]byte(`{"v":2}`), &v); err != nil || v.V != 2 || v.Plain != "kept" {
		t.Errorf("%+v, %v", v, err)
	}
}
