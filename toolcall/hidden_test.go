package toolcall

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/askance-dev/askance/message"
)

// Hidden values that a tool repeats are redacted wherever the result has text, including parts of
// a hidden object and the longer of two values that begin alike.
func TestHiddenInResults(t *testing.T) {
	const secret = "tell-no-one"
	for name, c := range map[string]*Call{
		"inside an object": {Input: `{"card":{"number":"` + secret + `"}}`, Redact: []string{"args.card"}, Result: &message.ToolResultBlock{Output: message.Content{Text: "paid with " + secret}}},
		"inside a list":    {Input: `{"card":[{"number":"` + secret + `"}]}`, Redact: []string{"args.card"}, Result: &message.ToolResultBlock{Output: message.Content{Text: "paid with " + secret}}},
		"begins alike":     {Input: `{"a":"tell","b":"` + secret + `"}`, Redact: []string{"args.a", "args.b"}, Result: &message.ToolResultBlock{Output: message.Content{Text: secret}}},
		"metadata":         {Input: `{"a":"` + secret + `"}`, Redact: []string{"args.a"}, Result: &message.ToolResultBlock{Metadata: map[string]any{"k": []any{map[string]any{secret: "x " + secret}}}}},
		"an address":       {Input: `{"a":"` + secret + `"}`, Redact: []string{"args.a"}, Result: &message.ToolResultBlock{Output: message.List(&message.DataBlock{Name: new("of " + secret), Source: &message.URLSource{URL: "https://a.example/?t=" + secret}})}},
	} {
		if text := encoded(t, &EventRecord{Call: c.Redacted()}); strings.Contains(text, "no-one") {
			t.Errorf("%s shows %s", name, text)
		}
		if text := encoded(t, &EventRecord{Call: c}); !strings.Contains(text, secret) {
			t.Errorf("%s: the result itself was changed: %s", name, text)
		}
	}
}

// A hidden value is also found in base64, at any offset and in both alphabets.
func TestHiddenInBase64(t *testing.T) {
	const secret = "tell~no?one"
	for _, text := range []string{secret, "k=" + secret, `{"pin":"` + secret + `"}`} {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
			data := enc.EncodeToString([]byte(text))
			unknown := new(message.UnknownBlock)
			if err := unknown.UnmarshalJSON([]byte(`{"type":"image","source":{"data":"` + data + `"}}`)); err != nil {
				t.Fatal(err)
			}
			for name, r := range map[string]*message.ToolResultBlock{
				"text":     {Output: message.Content{Text: "see data/" + data}},
				"unknown":  {Output: message.List(unknown)},
				"metadata": {Metadata: map[string]any{"mcp_result": `{"content":[{"type":"image","data":"` + data + `"}]}`}},
				"a name":   {Output: message.List(&message.DataBlock{Name: new("data:," + data), Source: &message.URLSource{URL: "https://a.example/" + data}})},
			} {
				c := &Call{Input: `{"a":"` + secret + `"}`, Redact: []string{"args.a"}, Result: r}
				if shown := encoded(t, &EventRecord{Call: c.Redacted()}); strings.Contains(shown, data[4:10]) {
					t.Errorf("%s with %s shows %s", name, data, shown)
				}
			}
		}
	}
	const other = "see aGVsbG8gd29ybGQ= in /var/lib/askance/data"
	c := &Call{Input: `{"a":"` + secret + `"}`, Redact: []string{"args.a"}, Result: &message.ToolResultBlock{Output: message.Content{Text: other}}}
	if got := c.Redacted().Result.Output.Text; got != other {
		t.Errorf("another text became %q", got)
	}
}

// A hidden value is also found in base64 that lines break anywhere, as in PEM and MIME.
func TestHiddenInLinesOfBase64(t *testing.T) {
	const secret = "tell~no?one"
	data := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 50) + secret + strings.Repeat("y", 50)))
	for width := 1; width < 80; width++ {
		for _, end := range []string{"\n", "\r\n", "\n  ", `\n`, `\r\n`} {
			lines := ""
			for rest := data; rest != ""; rest = rest[min(width, len(rest)):] {
				lines += rest[:min(width, len(rest))] + end
			}
			c := &Call{Input: `{"a":"` + secret + `"}`, Redact: []string{"args.a"}, Result: &message.ToolResultBlock{Output: message.Content{Text: "-----BEGIN KEY-----" + end + lines}}}
			if got := c.Redacted().Result.Output.Text; strings.Contains(got, data[:1]+end) || strings.Contains(got, "eHh4") || !strings.Contains(got, hiddenMark) {
				t.Fatalf("in lines of %d%q it shows %q", width, end, got)
			}
		}
	}
}

// Input that is not an object has no paths that rules could name, so all of it is hidden.
func TestHiddenInOtherThanObjects(t *testing.T) {
	for _, input := range []string{`"{\"pin\":\"tell-no-one\"}"`, `["tell-no-one"]`, ` "tell-no-one"`, `tell-no-one`, `{"pin":"tell-no-one"}`, " {\"pin\":\"tell-no-one\"}"} {
		c := &Call{Input: input, Redact: []string{"args.pin"}, Cause: "refuse", Result: &message.ToolResultBlock{}}
		if text := encoded(t, &EventRecord{Call: c.Redacted()}); strings.Contains(text, "no-one") {
			t.Errorf("%s shows %s", input, text)
		}
	}
}

// The amount that a call took from a budget is one of its arguments, so it is hidden as well.
func TestHiddenAmount(t *testing.T) {
	c := &Call{Input: `{"cents":"4711"}`, Redact: []string{"args.cents"}, Decision: &Decision{Budget: &BudgetUse{ID: "bud_1", Amount: "4711"}}}
	if text := encoded(t, &EventRecord{Call: c.Redacted()}); strings.Contains(text, "4711") || !strings.Contains(text, "bud_1") {
		t.Errorf("the redacted call is %s", text)
	}
	if c.Decision.Budget.Amount != "4711" {
		t.Error("the call itself was changed")
	}
}

// Journals contain the hash of the redacted form of each record: this text must not change.
func TestRedactedRefusalIsStable(t *testing.T) {
	c := &Call{Key: Key{Space: "test", Session: "s", Reply: "r", Call: "c"}, Input: `{"a":"secret"}`, Redact: []string{"args.a"}, Cause: string(CauseRefuse),
		Result: &message.ToolResultBlock{Output: message.Content{Text: "secret does not match"}}}
	if got := c.Redacted().Result.Output.Text; got != "the input was refused; why is hidden with the arguments" {
		t.Errorf("%q", got)
	}
}
