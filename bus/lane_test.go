package bus_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"pgregory.net/rapid"
)

func TestEncodeLane(t *testing.T) {
	long, route := strings.Repeat(".", bus.MaxNameBytes), strings.Repeat(".", message.MaxRouteBytes)
	for _, tc := range []struct {
		name string
		lane message.Lane
		want string // "": not looked at
	}{
		{"a tool alone", message.Lane{Tool: "refund"}, "refund"},
		{"a plain route", message.Lane{Tool: "refund", Route: "payments"}, "refund=payments"},
		{"a route with dots", message.Lane{Tool: "web.search", Route: "exec.payments"}, "~d2ViLnNlYXJjaA=~ZXhlYy5wYXltZW50cw"},
		{"a tool that looks like a lane", message.Lane{Tool: "refund=payments"}, "~cmVmdW5kPXBheW1lbnRz"},
		{"a route that looks like a lane", message.Lane{Tool: "a", Route: "b=c"}, "a=~Yj1j"},
		{"the longest", message.Lane{Tool: long, Route: route}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := bus.EncodeLane(tc.lane)
			if tc.want != "" && string(got) != tc.want {
				t.Errorf("EncodeLane = %q, want %q", got, tc.want)
			}
			if back, ok := got.Lane(); !ok || back != tc.lane {
				t.Errorf("Lane() = %s, %v", back, ok)
			}
			if n := len(bus.ConsumerName(tc.lane)); n > 255 {
				t.Errorf("the consumer's name has %d bytes", n)
			}
		})
	}
	if got := bus.EncodeLane(message.Lane{Route: "payments"}); got != "" {
		t.Errorf("a route without a tool has the token %q", got)
	}
}

func TestLaneRefuses(t *testing.T) {
	for _, s := range []string{"", "=", "a=", "=b", "a=b=c", "a=-b", "a=~YQ", "a=~Kh", "a=~", "a=~_w", "a=~~" + strings.Repeat("a", 64), "a.b=c", "a=" + strings.Repeat("b", 65), "~~" + strings.Repeat("a", 64) + "=b"} {
		if l, ok := bus.Token(s).Lane(); ok {
			t.Errorf("%q is the token of %s", s, l)
		}
	}
}

// No two lanes share a subject, a queue or rights, whatever their tools are
// called; and what stands in a subject is read back as it was.
func TestLanesAreInjective(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`[-~=._a]{1,4}`), rapid.StringN(1, 20, 180), rapid.Just(strings.Repeat(".", 180)), rapid.Just(strings.Repeat("x", 200)))
	lane := rapid.Custom(func(t *rapid.T) message.Lane {
		l := message.Lane{Tool: name.Draw(t, "tool")}
		if rapid.Bool().Draw(t, "routed") {
			l.Route = rapid.OneOf(rapid.StringMatching(`[-~=._a]{1,4}`), rapid.Just(strings.Repeat(".", 256))).Draw(t, "route")
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := lane.Draw(t, "a"), lane.Draw(t, "b")
		if (a == b) != (bus.EncodeLane(a) == bus.EncodeLane(b)) || (a == b) != (bus.ConsumerName(a) == bus.ConsumerName(b)) {
			t.Fatalf("%s and %s: %q and %q, %q and %q", a, b, bus.EncodeLane(a), bus.EncodeLane(b), bus.ConsumerName(a), bus.ConsumerName(b))
		}
		key := message.Key{Space: "s", Session: "a", Reply: "b", Call: "c"}
		s, err := bus.FactSubject(key, a)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := bus.ParseSubject(s.String())
		if err != nil || parsed != s {
			t.Fatalf("ParseSubject(%q) = %+v, %v", s, parsed, err)
		}
		back, ok := parsed.Tool.Lane()
		if readable := len(a.Tool) <= bus.MaxNameBytes; ok != readable || ok && back != a {
			t.Fatalf("%s is read back as %s, %v", a, back, ok)
		}
	})
}

func FuzzLane(f *testing.F) {
	for _, s := range []string{"a", "a=b", "a=~Yj1j", "~LQ=~LQ", "=", "a=b=c", "~~=a", "a=~YQ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, ok := bus.Token(s).Lane()
		if ok && string(bus.EncodeLane(l)) != s {
			t.Fatalf("%q names %s, whose token is %q", s, l, bus.EncodeLane(l))
		}
		if _, err := bus.ParseSubject("askance.v1.sp.work." + s + ".w.next"); ok && err != nil {
			t.Fatalf("a subject refuses the lane %q: %v", s, err)
		}
	})
}
