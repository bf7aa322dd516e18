package toolcall

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

func TestConceal(t *testing.T) {
	for _, tc := range []struct{ name, input, path, want string }{
		{"a member", `{"a": 1, "pin":"1234" ,"b":[2]}`, "args.pin", `{"a": 1, "pin":"X" ,"b":[2]}`},
		{"no such member", `{"a": 1e400}`, "args.pin", `{"a": 1e400}`},
		{"below", `{"card":{"no":"1","cvc":{"x":2}}}`, "args.card.*", `{"card":{"no":"X","cvc":"X"}}`},
		{"an object", `{"card":{"no":"1"}}`, "args.card", `{"card":"X"}`},
		{"elements", `{"l":["a","b"]}`, "args.l.*", `{"l":["X","X"]}`},
		{"members of elements", `{"l":[{"p":1,"q":2},{"p":3}]}`, "args.l.*.p", `{"l":[{"p":"X","q":2},{"p":"X"}]}`},
		{"members of elements, without a star", `{"l":[[{"p":1,"q":2}]]}`, "args.l.p", `{"l":[[{"p":"X","q":2}]]}`},
		{"an element by number", `{"l":["a","b"]}`, "args.l.1", `{"l":["a","X"]}`},
		{"through a text", `{"card":"4111","b":1}`, "args.card.no", `{"card":"X","b":1}`},
		{"through a number, deep", `{"a":{"b":12},"c":1}`, "args.a.b.c.d", `{"a":{"b":"X"},"c":1}`},
		{"through null", `{"card":null,"x":false}`, "args.card.no", `{"card":"X","x":false}`},
		{"through every member", `{"a":"x","b":{"p":1,"q":2},"c":[3]}`, "args.*.p", `{"a":"X","b":{"p":"X","q":2},"c":["X"]}`},
		{"through elements", `{"l":["a",{"p":1,"q":2}]}`, "args.l.p", `{"l":["X",{"p":"X","q":2}]}`},
		{"through elements, with a star", `{"l":["a",{"p":1,"q":2}]}`, "args.l.*.p", `{"l":["X",{"p":"X","q":2}]}`},
		{"through an element by number", `{"l":["a","b"]}`, "args.l.1.p", `{"l":["a","X"]}`},
		{"an object without the member", `{"card":{"x":1},"l":[]}`, "args.card.no", `{"card":{"x":1},"l":[]}`},
		{"an unusual name", `{"a.b":{"ü\"":7}}`, `args["a.b"]["ü\""]`, `{"a.b":{"ü\"":"X"}}`},
		{"an escaped name", `{"p\u0069n":"1234"}`, "args.pin", `{"p\u0069n":"X"}`},
		{"everything", `{"a":1}`, "args", `"X"`},
		{"no path", `{"a":1}`, "args.", `"X"`},
		{"another root", `{"a":1}`, "caller.user", `"X"`},
		{"no JSON", `{"pin":"1234"`, "args.pin", `"X"`},
		{"a name twice", `{"pin":"1234","pin":"4321"}`, "args.pin", `"X"`},
		{"no object", `"1234"`, "args.pin", `"X"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bare := strings.ReplaceAll(conceal(tc.input, []string{tc.path}, ""), hiddenMark+"]", "X")
			if bare != tc.want {
				t.Errorf("conceal() = %s, want %s", bare, tc.want)
			}
			got := conceal(tc.input, []string{tc.path}, "salt")
			if again := conceal(tc.input, []string{tc.path}, "salt"); again != got {
				t.Errorf("conceal() returns different results: %s, %s", got, again)
			}
			if back, err := reveal(got, tc.input, []string{tc.path}, "salt"); err != nil || back != tc.input {
				t.Errorf("reveal() = %s, %v, want %s", back, err, tc.input)
			}
		})
	}
}

func TestRevealRefuses(t *testing.T) {
	const input = `{"pin":"1234","pan":"5678","a":1}`
	paths := []string{"args.pin", "args.pan"}
	shown := conceal(input, paths, "salt")
	marks := strings.Split(shown, `"`)
	pin, pan := marks[3], marks[7]
	for _, tc := range []struct {
		name, edited, want string
	}{
		{"as it was", shown, input},
		{"another member", strings.Replace(shown, `"a":1`, `"a":2`, 1), strings.Replace(input, `"a":1`, `"a":2`, 1)},
		{"another value", `{"pin":"0000","pan":"` + pan + `"}`, `{"pin":"0000","pan":"5678"}`},
		{"exchanged with another hidden value", `{"pin":"` + pan + `","pan":"` + pin + `"}`, ""},
		{"copied to another hidden place", `{"pin":"` + pin + `","pan":"` + pin + `"}`, ""},
		{"moved to where it shows", `{"a":"` + pin + `"}`, ""},
		{"a part of a text", `{"pin":"x` + pin + `"}`, ""},
		{"made up", `{"pin":"` + strings.Repeat("0", 3) + hiddenMark + `]"}`, ""},
		{"of another approval request", conceal(input, paths, "other"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, err := reveal(tc.edited, input, paths, "salt"); got != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("reveal() = %s, %v, want %q", got, err, tc.want)
			}
		})
	}
	planted := `{"pin":"1234","a":"` + hiddenMark + `]"}` // text from the agent
	moved := strings.Replace(conceal(planted, paths, "salt"), `"pin"`, `"b"`, 1)
	if got, err := reveal(moved, planted, paths, "salt"); err == nil {
		t.Errorf("a mark that was moved next to a planted one became %s", got)
	}
}

func hiding(input string) ApprovalRequest {
	return ApprovalRequest{V: 1, Tool: "pay", Input: input, Requirement: Requirement{Users: []string{}}, Hidden: []string{"args.pin"}, Salt: "0011223344556677"}
}

// The digest proves the whole approval request and can be computed without the hidden values. A
// reader cannot use it to verify guesses of those values.
func TestHiddenDigest(t *testing.T) {
	req := hiding(`{"pin":"1234","to":"x"}`)
	digest := func(req ApprovalRequest) string {
		t.Helper()
		d, err := req.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want, shown := digest(req), req.Redacted()
	if digest(shown) != want || shown.Salt != "" || strings.Contains(shown.Input, "1234") || req.Salt == "" {
		t.Errorf("the redacted approval request %+v has the digest %s, want %s", shown, digest(shown), want)
	}
	for name, other := range map[string]ApprovalRequest{
		"another hidden value": hiding(`{"pin":"1235","to":"x"}`),
		"other spaces":         hiding(`{"pin": "1234","to":"x"}`),
		"the same as a number": hiding(`{"pin":1234,"to":"x"}`),
	} {
		if digest(other) == want {
			t.Errorf("%s does not change the digest", name)
		}
	}
	guess := req
	guess.Salt = strings.Repeat("0", 16)
	if digest(guess) == want {
		t.Error("a guess without the salt can be checked")
	}
	open := req
	open.Hidden, open.Salt = nil, ""
	if digest(open) == want {
		t.Error("hiding less does not change the digest")
	}
}

// A redacted call does not contain the hidden values anywhere.
func TestRedactedCall(t *testing.T) {
	const secret = "tell-no-one"
	content := secret
	rules := []message.PermissionRule{{ToolName: "pay", RuleContent: &content, Behavior: message.BehaviorAllow}}
	req := hiding(`{"pin":"` + secret + `"}`)
	var blocks message.Content
	if err := json.Unmarshal([]byte(`[{"type":"text","text":"`+secret+`"},{"type":"data","name":"`+secret+`","source":{"url":"https://a/`+secret+`","media_type":"x"}},
		{"type":"table","rows":[{"`+secret+`":"is \u0074ell-no-one","n":9007199254740993}]},{"type":"`+secret+`"},{"type":"plain","n":1.0},
		{"type":"data","source":{"data":"`+base64.StdEncoding.EncodeToString([]byte("\xe9 "+secret))+`","media_type":"text/plain"}},
		{"type":"data","source":{"data":"`+base64.URLEncoding.EncodeToString([]byte("\xff\xef "+secret))+`","media_type":"text/plain; x=`+secret+`"}},
		{"type":"data","source":{"data":"AA==`+base64.StdEncoding.EncodeToString([]byte(secret))+`","media_type":"x"}},
		{"type":"data","source":{"url":"data:text/plain;base64,`+base64.StdEncoding.EncodeToString([]byte(secret))+`","media_type":"x/`+secret+`"}}]`), &blocks); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Call{
		"asking":  {Tool: "pay", Input: req.Input, Request: &req, Proposal: secret, Suggested: rules, Remember: rules, Votes: []Vote{{Rules: rules}}},
		"pending": {Tool: "pay", Input: req.Input, Redact: []string{"args.pin"}},
		"refused": {Tool: "pay", Input: `{` + secret, Redact: []string{"args.pin"}, Cause: "refuse", Result: &message.ToolResultBlock{Output: message.Content{Text: secret}}},
		"edited":  {Tool: "pay", Input: `{"pin":"` + secret + `!"}`, Request: &req},
		"blocks":  {Tool: "pay", Input: req.Input, Request: &req, Result: &message.ToolResultBlock{Output: blocks, Metadata: map[string]any{secret: []any{secret}}}},
	} {
		rec := &EventRecord{Call: c}
		if text := encoded(t, rec.Redacted()); strings.Contains(text, secret) || strings.Contains(text, req.Salt) || strings.Contains(text, `"data":"6SB0ZWxs`) || strings.Contains(text, "_-8gdGVsbC") || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret))) {
			t.Errorf("%s shows the hidden value: %s", name, text)
		}
		if text := encoded(t, rec); !strings.Contains(text, secret) {
			t.Errorf("%s was changed: %s", name, text)
		}
	}
	plain := &Call{Tool: "pay", Input: `{}`}
	if plain.Redacted() != plain {
		t.Error("a call that hides nothing was copied")
	}
}

// reveal restores what conceal hid, and the order of the paths does not matter.
func TestConcealProperties(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(rt *rapid.T) {
		var value func(depth int) string
		value = func(depth int) string {
			switch rapid.IntRange(0, 4-depth).Draw(rt, "kind") {
			case 0, 1:
				return rapid.SampledFrom([]string{`1`, `"x"`, `null`, `"\u0041"`, `1.50`}).Draw(rt, "value")
			case 2:
				return "[" + value(depth+1) + " ," + value(depth+1) + "]"
			default:
				return `{"a": ` + value(depth+1) + `,"b":` + value(depth+1) + "}"
			}
		}
		input := `{"a":` + value(0) + `, "c":` + value(0) + `}`
		path := func() string {
			out := "args"
			for range rapid.IntRange(1, 3).Draw(rt, "steps") {
				out += "." + rapid.SampledFrom(append(names, "*")).Draw(rt, "step")
			}
			return out
		}
		one, two := path(), path()
		shown := conceal(input, []string{one, two}, "salt")
		if back, err := reveal(shown+" ", input, []string{two, one}, "salt"); err != nil || back != input+" " {
			rt.Fatalf("%s under %s and %s: %s came back as %s, %v", input, one, two, shown, back, err)
		}
	})
}

func FuzzConceal(f *testing.F) {
	f.Add(`{"pin":"1234","l":[{"p":1}]}`, "args.l.p")
	f.Add(`[[[]]]`, `args["x"].*`)
	f.Fuzz(func(t *testing.T, input, path string) {
		shown := conceal(input, []string{path}, "salt")
		if strings.Contains(input, hiddenMark) {
			return
		}
		if back, err := reveal(shown, input, []string{path}, "salt"); err != nil || back != input {
			t.Errorf("%q under %q: %q came back as %q, %v", input, path, shown, back, err)
		}
	})
}

func encoded(t *testing.T, rec *EventRecord) string {
	t.Helper()
	b, err := strictjson.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A grant verifies for the complete approval request, never for the redacted one, whose arguments
// are marks.
func TestRedactedRequestDoesNotRun(t *testing.T) {
	pub, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	req := hiding(`{"pin":"1234"}`)
	digest, err := req.Digest()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	g := Grant{V: 1, Tool: req.Tool, Digest: digest, Attempt: 1, NotBefore: now, Expires: now.Add(time.Hour)}
	if err := g.Sign(key); err != nil {
		t.Fatal(err)
	}
	if err := g.VerifyQueue(NewKeySet(pub), req, Queue{Tool: req.Tool}, 1, now); err != nil {
		t.Errorf("the complete approval request: %v", err)
	}
	if err := g.VerifyQueue(NewKeySet(pub), req.Redacted(), Queue{Tool: req.Tool}, 1, now); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("the redacted approval request: %v", err)
	}
}
