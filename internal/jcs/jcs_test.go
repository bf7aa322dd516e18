package jcs_test

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"pgregory.net/rapid"
)

func TestCanonicalize(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{
			"RFC 8785 section 3.2.2",
			`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		{
			"RFC 8785 section 3.2.3, sorted by UTF-16 code units",
			`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
		},
		{"white space", " { \"b\" : [ 1 , 2 ] ,\n\"a\":{ } } ", `{"a":{},"b":[1,2]}`},
		{"nested sort", `[{"b":{"d":1,"c":2},"a":0}]`, `[{"a":0,"b":{"c":2,"d":1}}]`},
		{"control characters", `"\u0000\u0008\u0009\u000a\u000c\u000d\u001f\u007f"`, "\"\\u0000\\b\\t\\n\\f\\r\\u001f\u007f\""},
		{"no HTML escapes", `"\u003cb\u003e\u0026\u2028"`, "\"<b>&\u2028\""},
		{"negative zero", `[-0,-0.0,0e5]`, `[0,0,0]`},
		{"scalar", `"x"`, `"x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			got, err := jcs.Canonicalize(in)
			if err != nil || string(got) != tt.want {
				t.Errorf("Canonicalize = %s, %v\nwant %s", got, err, tt.want)
			}
			if string(in) != tt.in {
				t.Error("the input was changed")
			}
		})
	}
}

func TestEqual(t *testing.T) {
	deep := strings.Repeat("[", jcs.MaxDepth+1) + strings.Repeat("]", jcs.MaxDepth+1)
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2,"é"]}`, ` { "b" : [ 2.0 , "\u00e9" ] , "a" : 10e-1 } `, true},
		{`1.0`, `1`, true},
		{`1e2`, `100`, true},
		{`-1E+2`, `-100.00`, true},
		{`0.0025`, `2.5e-3`, true},
		{`-0.0`, `0e5`, true},
		{`1e400`, `10e399`, true},
		{`9007199254740993`, `9007199254740993.0`, true},
		{`1e99999999999`, `1e99999999999`, true},
		{deep, deep, true},
		{`9007199254740993.0`, `9007199254740992.0`, false},
		{`9007199254740993.0`, `9007199254740992`, false}, // what a client returns that reads doubles
		{`333333333.33333329`, `333333333.3333333`, false},
		{`0.1`, `0.10000000000000001`, false},
		{`1e400`, `1e401`, false},
		{`1e-400`, `0`, false},
		{`1e99999999999`, `10e99999999998`, false}, // equal, but nothing proves it
		{`1`, `-1`, false},
		{`1`, `"1"`, false},
		{`[1]`, `[1,1]`, false},
		{`[]`, `{}`, false},
		{`{"a":1}`, `{"a":1,"b":1}`, false},
		{`{"a":1,"a":1}`, `{"a":1, "a":1}`, false},
		{deep, deep + " ", false},
		{`1 1`, `1  1`, false},
		{``, ` `, false},
	} {
		if got := jcs.Equal([]byte(tt.a), []byte(tt.b)); got != tt.want || got != jcs.Equal([]byte(tt.b), []byte(tt.a)) {
			t.Errorf("Equal(%.40s, %.40s) = %v", tt.a, tt.b, got)
		}
	}
}

// RFC 8785 appendix B: IEEE 754 bits and their text.
func TestNumbersOfAppendixB(t *testing.T) {
	tests := []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	}
	for _, tt := range tests {
		in := strconv.FormatFloat(math.Float64frombits(tt.bits), 'e', -1, 64)
		got, err := jcs.Canonicalize([]byte(in))
		if err != nil || string(got) != tt.want {
			t.Errorf("%016x: Canonicalize(%s) = %s, %v, want %s", tt.bits, in, got, err, tt.want)
		}
	}
}

func TestRefuses(t *testing.T) {
	tests := []struct {
		name, in string
		want     error
		path     string
	}{
		{"2^53+1", `{"a":[9007199254740993]}`, jcs.ErrInexactNumber, "/a/0"},
		{"-(2^53+1)", `-9007199254740993`, jcs.ErrInexactNumber, ""},
		{"2^60 prints as another integer", `1152921504606846976`, jcs.ErrInexactNumber, ""},
		{"max int64", `9223372036854775807`, jcs.ErrInexactNumber, ""},
		{"infinite", `1e400`, jcs.ErrInexactNumber, ""},
		{"sixteen digits", `[1234567890123456,9007199254740993]`, jcs.ErrInexactNumber, "/1"},
		{"after texts with quotes", `{"a\"1":"\\","b":["\\\"",9007199254740993]}`, jcs.ErrInexactNumber, "/b/1"},
		{"few digits and an exponent", `[5e9999]`, jcs.ErrInexactNumber, "/0"},
		{"vanishing", `{"a":1e-400}`, jcs.ErrInexactNumber, "/a"},
		{"duplicate", `{"a":1,"\u0061":2}`, strictjson.ErrDuplicateName, "/a"},
		{"invalid UTF-8", "\"\xff\"", strictjson.ErrSyntax, ""},
		{"lone surrogate", `"\udead"`, strictjson.ErrSyntax, ""},
		{"trailing", `1 1`, strictjson.ErrSyntax, ""},
		{"empty", ``, strictjson.ErrSyntax, ""},
		{"too deep", strings.Repeat("[", 1001), strictjson.ErrTooDeep, strings.Repeat("/0", 999)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := jcs.Canonicalize([]byte(tt.in))
			var e *strictjson.Error
			if !errors.Is(err, tt.want) || !errors.As(err, &e) {
				t.Fatalf("Canonicalize = %s, %v, want %v", got, err, tt.want)
			}
			if e.Path != tt.path || e.Op != "canonicalize" {
				t.Errorf("error %q has path %q, want %q", err, e.Path, tt.path)
			}
		})
	}
}

func TestExactIntegersBeyond53Bits(t *testing.T) {
	for _, in := range []string{"9007199254740992", "9007199254740994", "1152921504606847000", "-295147905179352830000"} {
		if got, err := jcs.Canonicalize([]byte(in)); err != nil || string(got) != in {
			t.Errorf("Canonicalize(%s) = %s, %v", in, got, err)
		}
	}
	if got, err := jcs.Canonicalize([]byte("1000000000000000000000")); err != nil || string(got) != "1e+21" {
		t.Errorf("10^21 = %s, %v", got, err)
	}
}

// Two different integers never have the same canonical form.
func TestIntegersStayApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64().Draw(t, "a")
		b := a + rapid.Int64Range(-2000, 2000).Draw(t, "delta")
		ca, errA := jcs.Marshal(a)
		cb, errB := jcs.Marshal(b)
		if errA == nil && errB == nil && a != b && bytes.Equal(ca, cb) {
			t.Fatalf("%d and %d are both %s", a, b, ca)
		}
		if a > -1<<53 && a < 1<<53 && (errA != nil || string(ca) != strconv.FormatInt(a, 10)) {
			t.Fatalf("%d = %s, %v", a, ca, errA)
		}
	})
}

func TestMarshal(t *testing.T) {
	v := struct {
		B string         `json:"b"`
		A []int          `json:"a"`
		M map[string]any `json:"m"`
	}{B: "<", M: map[string]any{"é": 1.50, "z": nil}}
	got, err := jcs.Marshal(v)
	if want := `{"a":[],"b":"<","m":{"z":null,"é":1.5}}`; err != nil || string(got) != want {
		t.Errorf("Marshal = %s, %v, want %s", got, err, want)
	}
	if got, err := jcs.Marshal("\xff"); err == nil {
		t.Errorf("Marshal of invalid UTF-8 = %s", got)
	}
}

func FuzzCanonicalize(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1e21,1e-7,-0,9007199254740994]}`, `"\u20ac\ud83d\ude00"`, `[1e400]`, `{"\ufb33":1,"\ud83d\ude00":2}`, `0.1e-5`, `123456789012345678901234567890`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		once, err := jcs.Canonicalize(data)
		if err != nil {
			return
		}
		twice, err := jcs.Canonicalize(once)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("not idempotent: %v\n%s\n%s", err, once, twice)
		}
	})
}
