package bus_test

import (
	"strings"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

func TestEncodeQueue(t *testing.T) {
	long, route := strings.Repeat(".", bus.MaxNameBytes), strings.Repeat(".", toolcall.MaxRouteBytes)
	for _, tc := range []struct {
		name  string
		queue toolcall.Queue
		want  string // "": not looked at
	}{
		{"only a tool", toolcall.Queue{Tool: "refund"}, "refund"},
		{"a plain route", toolcall.Queue{Tool: "refund", Route: "payments"}, "refund=payments"},
		{"a route with dots", toolcall.Queue{Tool: "web.search", Route: "exec.payments"}, "~d2ViLnNlYXJjaA=~ZXhlYy5wYXltZW50cw"},
		{"a tool that looks like a queue", toolcall.Queue{Tool: "refund=payments"}, "~cmVmdW5kPXBheW1lbnRz"},
		{"a route that looks like a queue", toolcall.Queue{Tool: "a", Route: "b=c"}, "a=~Yj1j"},
		{"the longest", toolcall.Queue{Tool: long, Route: route}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := bus.EncodeQueue(tc.queue)
			if tc.want != "" && string(got) != tc.want {
				t.Errorf("EncodeQueue = %q, want %q", got, tc.want)
			}
			if back, ok := got.Queue(); !ok || back != tc.queue {
				t.Errorf("Queue() = %s, %v", back, ok)
			}
			if n := len(bus.ConsumerName(tc.queue)); n > 255 {
				t.Errorf("the consumer's name has %d bytes", n)
			}
		})
	}
	if got := bus.EncodeQueue(toolcall.Queue{Route: "payments"}); got != "" {
		t.Errorf("a route without a tool has the token %q", got)
	}
}

func TestQueueRefuses(t *testing.T) {
	for _, s := range []string{"", "=", "a=", "=b", "a=b=c", "a=-b", "a=~YQ", "a=~Kh", "a=~", "a=~_w", "a=~~" + strings.Repeat("a", 64), "a.b=c", "a=" + strings.Repeat("b", 65), "~~" + strings.Repeat("a", 64) + "=b"} {
		if l, ok := bus.Token(s).Queue(); ok {
			t.Errorf("%q is the token of %s", s, l)
		}
	}
}

// For any names of tools, no two queues share a subject, a consumer or rights, and every queue can
// be read from its subject.
func TestQueuesAreInjective(t *testing.T) {
	name := rapid.OneOf(rapid.StringMatching(`[-~=._a]{1,4}`), rapid.StringN(1, 20, 180), rapid.Just(strings.Repeat(".", 180)), rapid.Just(strings.Repeat("x", 200)))
	queue := rapid.Custom(func(t *rapid.T) toolcall.Queue {
		l := toolcall.Queue{Tool: name.Draw(t, "tool")}
		if rapid.Bool().Draw(t, "routed") {
			l.Route = rapid.OneOf(rapid.StringMatching(`[-~=._a]{1,4}`), rapid.Just(strings.Repeat(".", 256))).Draw(t, "route")
		}
		return l
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := queue.Draw(t, "a"), queue.Draw(t, "b")
		if (a == b) != (bus.EncodeQueue(a) == bus.EncodeQueue(b)) || (a == b) != (bus.ConsumerName(a) == bus.ConsumerName(b)) {
			t.Fatalf("%s and %s: %q and %q, %q and %q", a, b, bus.EncodeQueue(a), bus.EncodeQueue(b), bus.ConsumerName(a), bus.ConsumerName(b))
		}
		key := toolcall.Key{Space: "s", Session: "a", Reply: "b", Call: "c"}
		s, err := bus.RecordSubject(key, a)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := bus.ParseSubject(s.String())
		if err != nil || parsed != s {
			t.Fatalf("ParseSubject(%q) = %+v, %v", s, parsed, err)
		}
		back, ok := parsed.Tool.Queue()
		if readable := len(a.Tool) <= bus.MaxNameBytes; ok != readable || ok && back != a {
			t.Fatalf("%s is read back as %s, %v", a, back, ok)
		}
	})
}

func FuzzQueue(f *testing.F) {
	for _, s := range []string{"a", "a=b", "a=~Yj1j", "~LQ=~LQ", "=", "a=b=c", "~~=a", "a=~YQ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, ok := bus.Token(s).Queue()
		if ok && string(bus.EncodeQueue(l)) != s {
			t.Fatalf("%q names %s, whose token is %q", s, l, bus.EncodeQueue(l))
		}
		if _, err := bus.ParseSubject("askance.v1.sp.work." + s + ".w.next"); ok && err != nil {
			t.Fatalf("a subject refuses the queue %q: %v", s, err)
		}
	})
}
