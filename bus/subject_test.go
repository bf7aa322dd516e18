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

// The order of tokens is a contract, because permissions in running systems use exactly these
// subjects.
func TestSubjectLayouts(t *testing.T) {
	full := bus.Subject{Space: "sp", Session: "se", Reply: "re", Call: "ca", Tool: "to", Name: "le", Who: "wh"}
	for kind, want := range map[bus.Kind]string{
		bus.KindRecord:        "askance.v1.sp.record.se.re.ca.f",
		bus.KindWork:          "askance.v1.sp.record.se.re.ca.w.to",
		bus.KindReplyRecord:   "askance.v1.sp.record.se.re.-.f",
		bus.KindSessionRecord: "askance.v1.sp.record.se.-.-.f",
		bus.KindNamedRecord:   "askance.v1.sp.record.-.-.le.f",
		bus.KindEvent:         "askance.v1.sp.event.wh.se.re",
		bus.KindPropose:       "askance.v1.sp.propose.wh",
		bus.KindInterrupt:     "askance.v1.sp.interrupt.wh",
		bus.KindQuery:         "askance.v1.sp.query.wh",
		bus.KindDecide:        "askance.v1.sp.decide.wh",
		bus.KindOperate:       "askance.v1.sp.operate.wh",
		bus.KindAsk:           "askance.v1.sp.ask.se.re.ca",
		bus.KindProgress:      "askance.v1.sp.progress.se.re.ca",
		bus.KindNext:          "askance.v1.sp.work.to.wh.next",
		bus.KindAck:           "askance.v1.sp.work.to.wh.ack",
		bus.KindStart:         "askance.v1.sp.work.to.wh.start",
		bus.KindHeartbeat:     "askance.v1.sp.work.to.wh.heartbeat",
		bus.KindWorkProgress:  "askance.v1.sp.work.to.wh.progress",
		bus.KindResult:        "askance.v1.sp.work.to.wh.result",
		bus.KindCancel:        "askance.v1.sp.work.to.wh.cancel",
		bus.KindAudit:         "askance.v1.sp.audit.wh",
		bus.KindCheckpoint:    "askance.v1.sp.proof.checkpoint",
		bus.KindPresence:      "askance.v1.sp.presence.wh",
	} {
		s := full
		s.Kind = kind
		if got := s.String(); got != want {
			t.Errorf("kind %d: %q, want %q", kind, got, want)
		}
		parsed, err := bus.ParseSubject(want)
		if err != nil || parsed.Kind != kind || parsed.String() != want {
			t.Errorf("ParseSubject(%q) = %+v, %v", want, parsed, err)
		}
	}
	if rows := len(bus.Table()); rows != 23 {
		t.Errorf("the table has %d rows, this test 23", rows)
	}
}

func TestRecordSubjectAndEntity(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for _, tc := range []struct {
		name            string
		key             toolcall.Key
		queue           toolcall.Queue
		subject, entity string
	}{
		{"call", toolcall.Key{Space: "s", Session: "a", Reply: "b", Call: "c"}, toolcall.Queue{}, "askance.v1.s.record.a.b.c.f", "askance.v1.s.record.a.b.c.>"},
		{"task", toolcall.Key{Space: "s", Session: "a", Reply: "b", Call: "c"}, toolcall.Queue{Tool: "web.search"}, "askance.v1.s.record.a.b.c.w.~d2ViLnNlYXJjaA", "askance.v1.s.record.a.b.c.>"},
		{"routed task", toolcall.Key{Space: "s", Session: "a", Reply: "b", Call: "c"}, toolcall.Queue{Tool: "refund", Route: "exec.payments"}, "askance.v1.s.record.a.b.c.w.refund=~ZXhlYy5wYXltZW50cw", "askance.v1.s.record.a.b.c.>"},
		{"reply", toolcall.Key{Space: "s", Session: "a", Reply: "b"}, toolcall.Queue{}, "askance.v1.s.record.a.b.-.f", "askance.v1.s.record.a.b.-.>"},
		{"session", toolcall.Key{Space: "s", Session: "a"}, toolcall.Queue{}, "askance.v1.s.record.a.-.-.f", "askance.v1.s.record.a.-.-.>"},
		{"standing approval", toolcall.Key{Space: "s", Entity: "sta_1"}, toolcall.Queue{}, "askance.v1.s.record.-.-.sta_1.f", "askance.v1.s.record.-.-.sta_1.>"},
		{"budget", toolcall.Key{Space: "s", Entity: "bud_1"}, toolcall.Queue{}, "askance.v1.s.record.-.-.bud_1.f", "askance.v1.s.record.-.-.bud_1.>"},
		{"a reply called dash is no session entity", toolcall.Key{Space: "s", Session: "a", Reply: "-"}, toolcall.Queue{}, "askance.v1.s.record.a.~LQ.-.f", "askance.v1.s.record.a.~LQ.-.>"},
		{"a call called wildcard", toolcall.Key{Space: "s", Session: "*", Reply: ">", Call: "a.b c"}, toolcall.Queue{}, "askance.v1.s.record.~Kg.~Pg.~YS5iIGM.f", "askance.v1.s.record.~Kg.~Pg.~YS5iIGM.>"},
		{"over-long ids", toolcall.Key{Space: "s", Session: message.SessionID(long), Reply: "b", Call: "c"}, toolcall.Queue{},
			"askance.v1.s.record." + string(bus.Encode(long)) + ".b.c.f", "askance.v1.s.record." + string(bus.Encode(long)) + ".b.c.>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := bus.RecordSubject(tc.key, tc.queue)
			if err != nil || s.String() != tc.subject {
				t.Errorf("RecordSubject = %q, %v; want %q", s, err, tc.subject)
			}
			entity, err := bus.EntityOf(tc.key)
			if err != nil || string(entity) != tc.entity {
				t.Errorf("entity = %q, %v; want %q", entity, err, tc.entity)
			}
		})
	}
}

func TestRecordSubjectRefuses(t *testing.T) {
	for _, key := range []toolcall.Key{
		{}, {Space: "s"}, {Space: "s", Reply: "b"}, {Space: "s", Session: "a", Call: "c"},
		{Space: "S", Session: "a"}, {Session: "a", Reply: "b", Call: "c"},
	} {
		if s, err := bus.RecordSubject(key, toolcall.Queue{}); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("RecordSubject(%+v) = %q, %v; want invalid", key, s, err)
		}
	}
}

// The longest subjects must fit the server's control line together with the
// longest reply subject.
func TestSubjectsFitTheControlLine(t *testing.T) {
	longest := bus.Encode(strings.Repeat(".", bus.MaxNameBytes))
	queue := bus.EncodeQueue(toolcall.Queue{Tool: strings.Repeat(".", bus.MaxNameBytes), Route: strings.Repeat(".", toolcall.MaxRouteBytes)})
	for _, row := range bus.Table() {
		s := bus.Subject{Space: toolcall.SpaceID(strings.Repeat("s", 32)), Kind: row.Kind, Session: longest, Reply: longest, Call: longest, Tool: queue, Who: longest}
		line := "HPUB " + s.String() + " " + bus.InboxPrefix(strings.Repeat(".", bus.MaxNameBytes)) + strings.Repeat(".x", 30) + " 1234567 1234567"
		if len(line) > 4096 {
			t.Errorf("%s: the control line can have %d bytes", row.Layout, len(line))
		}
	}
	if n := len(bus.StreamName(toolcall.SpaceID(strings.Repeat("s", 32)))); n > 255 {
		t.Errorf("stream names can have %d bytes", n)
	}
}

func TestParseSubjectRefuses(t *testing.T) {
	for _, s := range []string{
		"", "askance", "askance.v1.", "askance.v1.sp", "askance.v2.sp.query.a", "askance.v1.SP.query.a", "askance.v1.s p.query.a",
		"askance.v1.sp.query", "askance.v1.sp.query.", "askance.v1.sp.query.*", "askance.v1.sp.query.>", "askance.v1.sp.query.a.b",
		"askance.v1.sp.record.a.b.c", "askance.v1.sp.record.a.b.c.g", "askance.v1.sp.record.a.-.c.f", "askance.v1.sp.record.-.b.c.f", "askance.v1.sp.record.-.-.-.f",
		"askance.v1.sp.record.a.b.-.w.t", "askance.v1.sp.record.a.b.c.w.~YQ", "askance.v1.sp.record.a.b.c=d.f", "askance.v1.sp.query.a=b", "askance.v1.sp.record.a.b.c.w.t=", "askance.v1.sp.record.a.b.c.w.=r", "askance.v1.sp.record.a.b.c.w.t=r=s", "askance.v1.sp.record.a.b.c.w.t=~YQ", "askance.v1.sp.record.a.b.c.w.t=~_w", "askance.v1.sp.record.a.b.c.w.t.u.v.w.x.y", "askance.v1.sp.work.t.w.kill",
		"askance.v1.sp.query.a ", " askance.v1.sp.query.a",
	} {
		if got, err := bus.ParseSubject(s); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("ParseSubject(%q) = %+v, %v; want invalid", s, got, err)
		}
	}
}

// No two keys share a subject, and every subject of an entity is within its
// filter and no other.
func TestSubjectsAreInjective(t *testing.T) {
	id := rapid.OneOf(rapid.StringMatching(`[-~.*>a]{1,3}`), rapid.StringN(1, 5, -1))
	key := rapid.Custom(func(t *rapid.T) toolcall.Key {
		k := toolcall.Key{Space: "s", Session: message.SessionID(id.Draw(t, "session"))}
		if depth := rapid.IntRange(1, 3).Draw(t, "depth"); depth > 1 {
			k.Reply = message.ReplyID(id.Draw(t, "reply"))
			if depth > 2 {
				k.Call = message.CallID(id.Draw(t, "call"))
			}
		}
		return k
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := key.Draw(t, "a"), key.Draw(t, "b")
		sa, errA := bus.RecordSubject(a, toolcall.Queue{})
		sb, errB := bus.RecordSubject(b, toolcall.Queue{})
		ta, _ := bus.EntityOf(a)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if (a == b) != (sa.String() == sb.String()) {
			t.Fatalf("%v and %v: %q and %q", a, b, sa, sb)
		}
		if within := strings.HasPrefix(sb.String(), strings.TrimSuffix(string(ta), ">")); within != (a == b) {
			t.Fatalf("%q within %q: %v", sb, ta, within)
		}
	})
}

func FuzzParseSubject(f *testing.F) {
	for _, row := range bus.Table() {
		f.Add("askance.v1.sp." + strings.NewReplacer("<", "", ">", "").Replace(row.Layout))
	}
	f.Add("askance.v1.sp.record.~~" + strings.Repeat("0", 64) + ".b.c.w.~LQ")
	f.Add("askance.v1..record.>")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := bus.ParseSubject(text)
		if err != nil {
			return
		}
		if s.String() != text {
			t.Fatalf("ParseSubject(%q) builds %q", text, s)
		}
		if strings.ContainsAny(text, "*> \r\n\t") || strings.Contains(text, "..") {
			t.Fatalf("%q was accepted", text)
		}
	})
}
