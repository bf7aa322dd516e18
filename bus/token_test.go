package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

func TestEncode(t *testing.T) {
	for _, tc := range []struct{ name, id, want string }{
		{"plain", "call_1-X", "call_1-X"},
		{"empty has none", "", ""},
		{"64 bytes stay", strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{"65 bytes do not", strings.Repeat("a", 65), "~" + strings.Repeat("YWFh", 21) + "YWE"},
		{"leading dash", "-", "~LQ"},
		{"leading tilde", "~LQ", "~fkxR"},
		{"dot", "a.b", "~YS5i"},
		{"wildcards", "*", "~Kg"},
		{"full wildcard", ">", "~Pg"},
		{"space", "a b", "~YSBi"},
		{"line break", "a\r\nPUB x 0", "~YQ0KUFVCIHggMA"},
		{"not ASCII", "é", "~w6k"},
		{"not UTF-8", "\xff", "~_w"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := bus.Encode(tc.id)
			if string(got) != tc.want {
				t.Fatalf("Encode(%q) = %q, want %q", tc.id, got, tc.want)
			}
			if back, ok := got.ID(); tc.id != "" && (!ok || back != tc.id) {
				t.Errorf("ID() = %q, %v", back, ok)
			}
		})
	}
}

func TestEncodeLongIDs(t *testing.T) {
	at, over := strings.Repeat("x", bus.MaxNameBytes), strings.Repeat("x", bus.MaxNameBytes+1)
	if id, ok := bus.Encode(at).ID(); !ok || id != at {
		t.Errorf("an id of %d bytes is not read back", len(at))
	}
	tok := bus.Encode(over)
	if _, ok := tok.ID(); ok || !strings.HasPrefix(string(tok), "~~") || len(tok) != 66 {
		t.Errorf("Encode(%d bytes) = %q, want a hash", len(over), tok)
	}
	if !tok.Is(over) || tok.Is(at) {
		t.Error("Is does not tell a hashed id from another")
	}
	if len(bus.ConsumerName(toolcall.Queue{Tool: at})) > 255 {
		t.Error("the consumer name of the longest tool is over 255 bytes")
	}
}

func TestParseTokenRefuses(t *testing.T) {
	for _, s := range []string{
		"", "-", "-a", "a.b", "*", ">", "a b", "~", "~~", "~YQ", // ~YQ is "a", which is plain
		"~YS5i=", "~YS5j\n", "~Kh", // stray bits: decodes to "*" as well
		"~~" + strings.Repeat("g", 64), "~~" + strings.Repeat("A", 64), "~~" + strings.Repeat("a", 63),
		strings.Repeat("a", 65), "~" + strings.Repeat("YWFh", 61),
	} {
		if tok, err := bus.ParseToken(s); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("ParseToken(%q) = %q, %v; want invalid", s, tok, err)
		}
	}
}

// Any two ids have different tokens, and a token contains no character with a meaning in NATS
// subjects.
func TestEncodeIsInjective(t *testing.T) {
	ids := rapid.OneOf(rapid.String(), rapid.StringMatching(`[~A-Za-z0-9_-]{0,70}`), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids.Draw(t, "a"), ids.Draw(t, "b")
		if a != b && bus.Encode(a) == bus.Encode(b) {
			t.Fatalf("%q and %q share the token %q", a, b, bus.Encode(a))
		}
		// Encoding a token as an id must not return the token itself or another id's token.
		if tok := string(bus.Encode(a)); tok != a && bus.Encode(tok) == bus.Encode(a) {
			t.Fatalf("%q and its token share a token", a)
		}
	})
}

func FuzzToken(f *testing.F) {
	for _, s := range []string{"", "a", "-", "~", "~~", "a.b", ">", "*", "~YQ", "\x00", strings.Repeat("é", 120)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tok := bus.Encode(s)
		if strings.ContainsAny(string(tok), ".*> \t\r\n") || strings.HasPrefix(string(tok), "-") || len(tok) > 241 {
			t.Fatalf("Encode(%q) = %q is no safe token", s, tok)
		}
		if s != "" {
			if parsed, err := bus.ParseToken(string(tok)); err != nil || parsed != tok || !parsed.Is(s) {
				t.Fatalf("ParseToken(Encode(%q)) = %q, %v", s, parsed, err)
			}
		}
		// The other direction: a text that parses is the token of the id that it names.
		if parsed, err := bus.ParseToken(s); err == nil {
			if id, ok := parsed.ID(); ok && bus.Encode(id) != parsed {
				t.Fatalf("ParseToken(%q) names %q, whose token is %q", s, id, bus.Encode(id))
			}
		}
	})
}

func TestCheckSpace(t *testing.T) {
	for space, ok := range map[toolcall.SpaceID]bool{
		"default": true, "a": true, "a_b-9": true, toolcall.SpaceID(strings.Repeat("a", 32)): true,
		"": false, "A": false, "a.b": false, "*": false, ">": false, "a b": false, "é": false, toolcall.SpaceID(strings.Repeat("a", 33)): false,
	} {
		if err := bus.CheckSpace(space); (err == nil) != ok || err != nil && !errors.Is(err, message.ErrInvalid) {
			t.Errorf("CheckSpace(%q) = %v", space, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	if err := bus.CheckName("tool", "web.search"); err != nil {
		t.Error(err)
	}
	if err := bus.CheckName("tool", ""); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("empty name: %v", err)
	}
	if err := bus.CheckName("tool", strings.Repeat("x", 181)); !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("long name: %v", err)
	}
}
