package strictjson_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/google/go-cmp/cmp"
)

type rule struct {
	Tool     string         `json:"tool_name"`
	Behavior string         `json:"behavior"`
	N        int64          `json:"n,omitzero"`
	Inner    *rule          `json:"inner,omitzero"`
	Any      map[string]any `json:"any,omitzero"`
}

func TestUnmarshalRefuses(t *testing.T) {
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	tests := []struct {
		name, in string
		want     error
		path     string
		text     string // part of the message
	}{
		{"other case", `{"Behavior":"allow"}`, strictjson.ErrUnknownMember, "/Behavior", "case-sensitive"},
		{"unknown", `{"behavior":"deny","x":1}`, strictjson.ErrUnknownMember, "/x", `"x"`},
		{"unknown inside", `{"inner":{"y":1}}`, strictjson.ErrUnknownMember, "/inner/y", `"y"`},
		{"duplicate", `{"behavior":"deny","behavior":"allow"}`, strictjson.ErrDuplicateName, "/behavior", "once"},
		{"duplicate escaped", `{"behavior":"deny","\u0062ehavior":"allow"}`, strictjson.ErrDuplicateName, "/behavior", "once"},
		{"duplicate in any", `{"any":{"a":{"k":1,"k":2}}}`, strictjson.ErrDuplicateName, "/any/a/k", "once"},
		{"invalid UTF-8", "{\"behavior\":\"\xff\"}", strictjson.ErrSyntax, "/behavior", "UTF-8"},
		{"lone surrogate", `{"behavior":"\ud800"}`, strictjson.ErrSyntax, "/behavior", ""},
		{"trailing value", `{} {}`, strictjson.ErrSyntax, "", ""},
		{"trailing comma", `{"behavior":"deny",}`, strictjson.ErrSyntax, "", ""},
		{"comment", `{/*x*/}`, strictjson.ErrSyntax, "", ""},
		{"empty", ``, strictjson.ErrSyntax, "", "end of input"},
		{"cut off", `{"behavior":"de`, strictjson.ErrSyntax, "/behavior", "end of input"},
		{"NaN", `{"n":NaN}`, strictjson.ErrSyntax, "/n", ""},
		{"wrong type", `{"behavior":7}`, strictjson.ErrType, "/behavior", "want string, got number"},
		{"wrong outer type", `[]`, strictjson.ErrType, "", "want object, got array"},
		{"fraction", `{"n":1.5}`, strictjson.ErrType, "/n", ""},
		{"number as text", `{"n":"1"}`, strictjson.ErrType, "/n", "want integer, got string"},
		{"integer too large", `{"n":9223372036854775808}`, strictjson.ErrType, "/n", ""},
		{"integer too large in any", `{"any":{"a":[0,9223372036854775808]}}`, strictjson.ErrType, "/any/a/1", "64 bits"},
		{"float too large in any", `{"any":{"a":1e999}}`, strictjson.ErrType, "/any/a", "too large"},
		{"too deep", deep, strictjson.ErrTooDeep, strings.Repeat("/0", 63), "64 levels"},
		{"too deep in a member", `{"behavior":` + deep + `}`, strictjson.ErrTooDeep, "/behavior" + strings.Repeat("/0", 62), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := strictjson.Unmarshal([]byte(tt.in), new(rule))
			wantError(t, err, tt.want, tt.path, tt.text)
		})
	}
}

func wantError(t *testing.T, err, want error, path, text string) {
	t.Helper()
	var e *strictjson.Error
	if !errors.As(err, &e) || !errors.Is(err, want) {
		t.Fatalf("error = %v (%T), want an *Error that wraps %v", err, err, want)
	}
	if e.Path != path {
		t.Errorf("Path = %q, want %q", e.Path, path)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("message %q does not contain %q", err, text)
	}
}

func TestHostileNestingCostsNothing(t *testing.T) {
	in := []byte(strings.Repeat(`[{"a":`, 100_000))
	allocs := testing.AllocsPerRun(1, func() {
		err := strictjson.Check(in, strictjson.MaxBytes(len(in)))
		if !errors.Is(err, strictjson.ErrTooDeep) {
			t.Fatalf("error = %v, want ErrTooDeep", err)
		}
	})
	if allocs > 300 {
		t.Errorf("%v allocations to refuse hostile nesting, want a few", allocs)
	}
}

func TestNestingIsCountedOutsideStrings(t *testing.T) {
	in := `["` + strings.Repeat("[", 1000) + `","\"[[[[\\",` + strings.Repeat(`[],`, 1000) + `0]`
	if err := strictjson.Check([]byte(in), strictjson.MaxDepth(2)); err != nil {
		t.Errorf("Check = %v, want nil", err)
	}
}

func TestLimits(t *testing.T) {
	in := []byte(`{"behavior":"` + strings.Repeat("x", strictjson.DefaultMaxBytes) + `"}`)
	wantError(t, strictjson.Unmarshal(in, new(rule)), strictjson.ErrTooLarge, "", "limit is 1048576")
	if err := strictjson.Unmarshal(in, new(rule), strictjson.MaxBytes(len(in))); err != nil {
		t.Errorf("with a higher limit: %v", err)
	}
	if err := strictjson.Unmarshal(in, new(rule), strictjson.MaxBytes(0)); !errors.Is(err, strictjson.ErrTooLarge) {
		t.Errorf("MaxBytes(0) = %v, want the default", err)
	}
	if err := strictjson.Check([]byte(`[[]]`), strictjson.MaxDepth(1)); !errors.Is(err, strictjson.ErrTooDeep) {
		t.Errorf("MaxDepth(1) = %v, want ErrTooDeep", err)
	}
}

func TestUnmarshalOpenDropsUnknownMembersOnly(t *testing.T) {
	var r rule
	if err := strictjson.UnmarshalOpen([]byte(`{"zz":[1],"behavior":"deny","Behavior":"allow"}`), &r); err != nil || r.Behavior != "deny" {
		t.Errorf("UnmarshalOpen = %+v, %v", r, err)
	}
	err := strictjson.UnmarshalOpen([]byte(`{"zz":{"a":1,"a":2}}`), &r)
	wantError(t, err, strictjson.ErrDuplicateName, "/zz/a", "")
}

func TestObjectKeepsNumbers(t *testing.T) {
	got, err := strictjson.Object([]byte(`{"max":9223372036854775807,"min":-9223372036854775808,"f":1.0,"e":1e2,"l":[1,"x",null,true,{}]}`))
	want := map[string]any{
		"max": int64(math.MaxInt64), "min": int64(math.MinInt64), "f": 1.0, "e": 100.0,
		"l": []any{int64(1), "x", nil, true, map[string]any{}},
	}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("Object: %v\n%s", err, cmp.Diff(want, got))
	}
	for _, in := range []string{`null`, `[]`, `"{}"`, `1`} {
		if m, err := strictjson.Object([]byte(in)); !errors.Is(err, strictjson.ErrType) {
			t.Errorf("Object(%s) = %v, %v, want ErrType", in, m, err)
		}
	}
}

func TestBigIntegersCanBeKept(t *testing.T) {
	in := `{"a":[123456789012345678901234567890,-9223372036854775809,1],"b":1e19}`
	m, err := strictjson.Object([]byte(in), strictjson.KeepBigIntegers())
	if err != nil {
		t.Fatal(err)
	}
	want := []any{json.Number("123456789012345678901234567890"), json.Number("-9223372036854775809"), int64(1)}
	if !cmp.Equal(m["a"], any(want)) || m["b"] != 1e19 {
		t.Errorf("Object = %v", m)
	}
	out, err := strictjson.Marshal(m)
	if want := strings.Replace(in, "1e19", "1e+19", 1); err != nil || string(out) != want {
		t.Errorf("Marshal = %s, %v, want %s", out, err, want)
	}
}

// picky decodes itself and reports a place relative to its own value.
type picky struct{}

func (picky) UnmarshalJSON(b []byte) error {
	m, err := strictjson.Members(b)
	if err != nil {
		return err
	}
	return strictjson.Within(errors.New("bad "+m[0].Name), "decode", "/"+m[0].Name, int64(m[0].Offset))
}

func TestPlacesOfNestedDecodersAddUp(t *testing.T) {
	var v struct {
		List []picky `json:"list"`
	}
	in := `{"list": [{"q": 1}]}`
	err := strictjson.Unmarshal([]byte(in), &v)
	wantError(t, err, strictjson.ErrType, "/list/0/q", "bad q")
	var e *strictjson.Error
	if errors.As(err, &e); e.Offset != int64(strings.Index(in, "1")) {
		t.Errorf("Offset = %d, want %d", e.Offset, strings.Index(in, "1"))
	}
}

func TestMembersAndItems(t *testing.T) {
	in := []byte(" {\"a\" : [1, 2] ,\"b\\n\":\"\\u0041\"}")
	got, err := strictjson.Members(in)
	want := []strictjson.Member{{Name: "a", Value: []byte("[1, 2]"), Offset: 8}, {Name: "b\n", Value: []byte(`"\u0041"`), Offset: 22}}
	if err != nil || !cmp.Equal(got, want) {
		t.Fatalf("Members: %v\n%s", err, cmp.Diff(want, got))
	}
	items, err := strictjson.Items(got[0].Value)
	wantItems := []strictjson.Member{{Value: []byte("1"), Offset: 1}, {Value: []byte("2"), Offset: 4}}
	if err != nil || !cmp.Equal(items, wantItems) {
		t.Errorf("Items: %v\n%s", err, cmp.Diff(wantItems, items))
	}
	for _, bad := range []string{`[]`, `{`, `{"a":1,"a":2}`, `{} 1`, `null`, ``} {
		if m, err := strictjson.Members([]byte(bad)); err == nil {
			t.Errorf("Members(%s) = %v, want an error", bad, m)
		}
	}
	for _, bad := range []string{`{}`, `[`, `[1,]`, `[] 1`} {
		if m, err := strictjson.Items([]byte(bad)); err == nil {
			t.Errorf("Items(%s) = %v, want an error", bad, m)
		}
	}
}

func TestScalars(t *testing.T) {
	if s, err := strictjson.Text([]byte(`"a\u00e9\n"`)); err != nil || s != "aé\n" {
		t.Errorf("Text = %q, %v", s, err)
	}
	if i, err := strictjson.Int([]byte(`-12`)); err != nil || i != -12 {
		t.Errorf("Int = %d, %v", i, err)
	}
	if b, err := strictjson.Bool([]byte(`true`)); err != nil || !b {
		t.Errorf("Bool = %t, %v", b, err)
	}
	for _, bad := range []string{`1`, `null`, `{}`, ``, `"\ud800"`, "\"\xff\"", `"`} {
		if s, err := strictjson.Text([]byte(bad)); err == nil {
			t.Errorf("Text(%s) = %q, want an error", bad, s)
		}
	}
	for _, bad := range []string{`1.0`, `1e3`, `"1"`, `true`, `null`, `9223372036854775808`} {
		if i, err := strictjson.Int([]byte(bad)); !errors.Is(err, strictjson.ErrType) {
			t.Errorf("Int(%s) = %d, %v, want ErrType", bad, i, err)
		}
	}
	for _, bad := range []string{`1`, `"true"`, `null`} {
		if b, err := strictjson.Bool([]byte(bad)); !errors.Is(err, strictjson.ErrType) {
			t.Errorf("Bool(%s) = %t, %v, want ErrType", bad, b, err)
		}
	}
	if got := strictjson.Step("a/b~c"); got != "/a~1b~0c" {
		t.Errorf("Step = %s", got)
	}
}

func TestMarshal(t *testing.T) {
	type out struct {
		List []string       `json:"list"`
		Map  map[string]int `json:"map"`
		Text string         `json:"text"`
	}
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"nils", out{}, `{"list":[],"map":{},"text":""}`},
		{"sorted", map[string]int{"b": 2, "a": 1, "c": 3}, `{"a":1,"b":2,"c":3}`},
		{"no HTML escapes", out{Text: "<a href='x'>&</a>\u2028"}, "{\"list\":[],\"map\":{},\"text\":\"<a href='x'>&</a>\u2028\"}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := strictjson.Marshal(tt.in)
			if err != nil || string(got) != tt.want {
				t.Errorf("Marshal = %s, %v, want %s", got, err, tt.want)
			}
		})
	}
	for _, bad := range []any{"\xff", math.NaN(), math.Inf(1), json.Number("1x"), json.Number("")} {
		if b, err := strictjson.Marshal(bad); err == nil {
			t.Errorf("Marshal(%v) = %q, want an error", bad, b)
		}
	}
}

func TestErrorTextIsBounded(t *testing.T) {
	long := strings.Repeat("é", 5000)
	err := strictjson.Unmarshal([]byte(`{"`+long+`":1}`), new(rule))
	if len(err.Error()) > 600 {
		t.Errorf("message has %d bytes", len(err.Error()))
	}
	if e := func() *strictjson.Error {
		target := &strictjson.Error{}
		_ = errors.As(err, &target)
		return target
	}(); e.Path != "/"+long {
		t.Error("the full path must stay in the value")
	}
}

// Check accepts what Unmarshal accepts, and the reverse for any. Accepted values survive
// encoding.
func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":[1,-0,1e2,"\ud83d\ude00",null,true]}`, `{"a":1,"a":2}`, "\"\xff\"", `[[[`, `{"a":9223372036854775808}`, ` 1 2`, `"\ud800"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var v any
		err := strictjson.Unmarshal(data, &v)
		if checkErr := strictjson.Check(data); err == nil && checkErr != nil {
			t.Fatalf("Unmarshal accepts what Check refuses: %v", checkErr)
		} else if err != nil && checkErr == nil && !errors.Is(err, strictjson.ErrType) {
			t.Fatalf("Check accepts the text, but Unmarshal returns %v", err)
		}
		if err != nil {
			if _, ok := errors.AsType[*strictjson.Error](err); !ok {
				t.Fatalf("error is a %T: %v", err, err)
			}
			return
		}
		out, err := strictjson.Marshal(v)
		if err != nil {
			t.Fatalf("cannot encode what was decoded: %v", err)
		}
		var again any
		if err := strictjson.Unmarshal(out, &again, strictjson.MaxBytes(len(out)+1)); err != nil {
			t.Fatalf("cannot decode what was encoded: %v\n%s", err, out)
		}
		out2, err := strictjson.Marshal(again)
		if err != nil || string(out) != string(out2) {
			t.Fatalf("not stable: %v\n%s\n%s", err, out, out2)
		}
	})
}
