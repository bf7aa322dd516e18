package asked_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

func TestArguments(t *testing.T) {
	all, ok := asked.Arguments("{\"b\":1.10,\"a\":{\"x y\":\"<i>\",\"р\":\"\u202e\"},\"none\":[ ],\"no\":{ },\"list\":[true,\"p\\nq\\u001b\"],\"n\":9007199254740993,\"json\":\"{\\\"a\\\":[1]}\",\"broken\":\"{\\\"a\\\"\",\"twice\":\"{\\\"a\\\":1,\\\"a\\\":2}\"}", 0)
	var got []string
	var walk func(depth string, all []asked.Argument)
	walk = func(depth string, all []asked.Argument) {
		for _, a := range all {
			got = append(got, depth+a.Name+" "+a.Kind+" "+a.Value+strings.Join(a.Lines, "|"))
			walk(depth+".", a.Items)
		}
	}
	walk("", all)
	want := `b number 1.10
a object 
."x y" string "<i>"
."‹U+0440›" string "‹U+202E›"
none array []
no object {}
list array 2 items
.1 boolean true
.2 string 2 linesp|q‹U+001B›
n number 9007199254740993
json string "{"a":[1]}"
.a array 1 item
..1 number 1
broken string "{"a""
twice string "{"a":1,"a":2}"`
	if text := strings.Join(got, "\n"); !ok || text != want {
		t.Errorf("the tree is\n%s\nwant\n%s", text, want)
	}
	if all, ok := asked.Arguments(`"text"`, 1); !ok || len(all) != 1 || all[0].Name != "" || all[0].Value != `"text"` {
		t.Errorf("a text is %+v", all)
	}
	if all, ok := asked.Arguments(`[1,[2,3]]`, 4); !ok || len(all) != 2 {
		t.Errorf("four items are %+v", all)
	}
	if all, ok := asked.Arguments(`{"a":"[1,2]","b":"[3,4]"}`, 4); !ok || len(all[0].Items) != 2 || all[1].Items != nil {
		t.Errorf("texts with more items than are left are %+v", all)
	}
	for _, odd := range []string{`{"a":1,"a":2}`, `{`, "", `[1,[2,3,4]]`} {
		if all, ok := asked.Arguments(odd, 4); ok || all != nil {
			t.Errorf("%q is %+v", odd, all)
		}
	}
}

func TestChanges(t *testing.T) {
	if c := asked.Changes(`{"a":1}`, "{\n \"a\": 1 }"); c != nil {
		t.Errorf("the same JSON changes by %v", c)
	}
	if got, want := strings.Join(asked.Changes(`{"a":1,"b":"x"}`, "{\"a\":2,\"b\":\"x\u202e\"}"), "\n"), `  {
-   "a": 1,
-   "b": "x"
+   "a": 2,
+   "b": "x‹U+202E›"
  }`; got != want {
		t.Errorf("changes\n%s\nwant\n%s", got, want)
	}
}

func TestCheckInput(t *testing.T) {
	for text, want := range map[string]string{
		`{"n":9007199254740993}`:               "",
		`{"n":123456789012345678901234567890}`: "not a JSON object",
		`[1]`:                                  "not a JSON object",
		`{"a":1,"a":2}`:                        "not a JSON object",
		`{"a":"` + strings.Repeat("x", toolcall.MaxInputBytes) + `"}`: "the limit is",
	} {
		if err := asked.CheckInput(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want %q", text, err, want)
		}
	}
}

// Edited arguments are the same JSON, and nothing in them is hidden.
func TestEditable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, err := json.Marshal(rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "arguments"))
		if err != nil {
			t.Fatal(err)
		}
		text := asked.Editable(string(in))
		if reveal.Hidden(text) {
			t.Errorf("%q hides something", text)
		}
		var was, is any
		if json.Unmarshal(in, &was) != nil || json.Unmarshal([]byte(text), &is) != nil || !reflect.DeepEqual(was, is) {
			t.Errorf("%s became %s", in, text)
		}
	})
}

func TestTerms(t *testing.T) {
	for _, tc := range []struct {
		l    toolcall.RememberLimits
		want string
	}{
		{toolcall.RememberLimits{TTLMS: 3_600_000}, "for at most 1h"},
		{toolcall.RememberLimits{TTLMS: 60_000, Uses: 1}, "for at most 1m, for 1 later call"},
		{toolcall.RememberLimits{TTLMS: 1000, Uses: 2, Same: []string{"args.to", "args.\u202e"}}, "for at most 1s, for 2 later calls, with the same args.to, args.‹U+202E›"},
	} {
		if got := asked.Limits(&tc.l); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.l, got, tc.want)
		}
	}
	seen := map[string]bool{"": true}
	for _, s := range []toolcall.StandingScope{toolcall.ScopeCallLike, toolcall.ScopeSession, toolcall.ScopeAgent, toolcall.ScopeUser, toolcall.ScopeSpace} {
		if text := asked.Scope(s); seen[text] {
			t.Errorf("%s is %q", s, text)
		} else {
			seen[text] = true
		}
	}
	if asked.Scope("other") != "" {
		t.Error("an unknown scope has a text")
	}
}
