package journal

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// A scan keeps only tokens of subjects, not the headers that contain the subjects.
func TestScanKeepsNoHeaders(t *testing.T) {
	const replies, header = 2000, 50_000
	s := newReplyScan()
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	for i := range replies {
		key := toolcall.Key{Space: "x", Session: "s", Reply: message.ReplyID(fmt.Sprint("r", i)), Call: "c"}
		subject, err := bus.RecordSubject(key, toolcall.Queue{})
		if err != nil {
			t.Fatal(err)
		}
		text := subject.String()
		text = (text + strings.Repeat(" ", header))[:len(text)]
		c := &toolcall.Call{Key: key, State: message.ToolCallAsking}
		s.noteRecord(stored{seq: uint64(i + 1), subject: text}, toolcall.JournalEntry{Record: &toolcall.EventRecord{Call: c}})
	}
	if len(s.replies) != replies {
		t.Fatalf("%d replies", len(s.replies))
	}
	if size := heap() - before; size > replies*header/10 {
		t.Errorf("a scan of %d replies keeps %d MB", replies, size>>20)
	}
	runtime.KeepAlive(s)
}

// An archiver whose clock is ahead neither archives what is young, nor what granted a standing approval
// that is in force.
func TestArchiverWhoseClockIsAhead(t *testing.T) {
	clock := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC) // of the server
	s := newReplyScan()
	s.clock, s.head = clock, 100
	s.granted["sta"] = toolcall.StandingApproval{ID: "sta", Terms: toolcall.StandingTerms{Until: clock.Add(time.Hour)}}
	for i, x := range []replyRecords{
		{reply: "old", last: clock.Add(-48 * time.Hour).UnixNano()},
		{reply: "young", last: clock.Add(-time.Hour).UnixNano()},
		{reply: "grants", last: clock.Add(-48 * time.Hour).UnixNano(), granted: []toolcall.StandingID{"sta"}},
	} {
		at := s.replyOf("s", x.reply)
		x.session, x.seqs = at.session, []uint64{uint64(i) + 1}
		*at = x
	}
	for _, ahead := range []time.Duration{0, time.Minute, 24 * time.Hour, 365 * 24 * time.Hour} {
		got := s.chooseReplies(Retention{OlderThan: 24 * time.Hour}, clock.Add(ahead))
		if len(got) != 1 || got[0].reply != "old" {
			t.Errorf("a clock that is %s ahead: %d replies are archived, want only the old one", ahead, len(got))
		}
	}
	if got := s.chooseReplies(Retention{OlderThan: 24 * time.Hour}, clock.Add(-25*time.Hour)); len(got) > 0 {
		t.Errorf("a clock that is behind: %d replies are archived", len(got))
	}
}

// The requests for a deletion delete exactly the archived records, however these are mixed with
// records that stay.
func TestDeletionPlan(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		subjects := map[uint64]string{}
		p := newDeletionPlan(nil)
		replies := map[string]bool{}
		for seq := uint64(1); seq <= 60; seq++ {
			session, reply := fmt.Sprint("s", random.IntN(3)), fmt.Sprint("r", random.IntN(4))
			at := session + "." + reply
			switch n := random.IntN(10); {
			case n == 0:
				at, subjects[seq] = session, "askance.v1.x.record."+session+".-.-.f"
			case n == 1:
				at, subjects[seq] = "name", "askance.v1.x.record.-.-.name.f"
			case n < 4:
				subjects[seq] = "askance.v1.x.event.rt." + at
			case n == 4:
				at, subjects[seq] = "later", "askance.v1.x.record."+at+".c.later.kind" // stays
			default:
				subjects[seq] = "askance.v1.x.record." + at + ".c.f"
			}
			if _, known := replies[at]; !known {
				replies[at] = random.IntN(4) > 0 && at != "later"
			}
			if replies[at] || at != "later" && seed%3 == 0 && random.IntN(5) == 0 {
				p.gone = append(p.gone, proof.Range{From: seq, Through: seq})
			}
		}
		for seq := uint64(1); seq <= 60; seq++ {
			p.add(stored{seq: seq, subject: subjects[seq]})
		}
		left, all := maps.Clone(subjects), uint64(0)
		for _, d := range p.listRequests() {
			all += d.records
			if d.records == 1 {
				delete(left, d.last)
				continue
			}
			maps.DeleteFunc(left, func(seq uint64, subject string) bool { return seq <= d.last && covers(d.filter, subject) })
		}
		if all != p.gone.count() {
			t.Errorf("seed %d: requests for %d of %d records", seed, all, p.gone.count())
		}
		for seq, subject := range subjects {
			if _, stays := left[seq]; stays == p.gone.has(seq, seq) {
				t.Fatalf("seed %d: record %d on %s goes %t, and is there %t", seed, seq, subject, !stays, stays)
			}
		}
	}
}

// One request deletes records of a session only if few others are between them: NATS reads all.
func TestDeletionPlanOfDistantRecords(t *testing.T) {
	for distance, want := range map[uint64]int{2 * purgeSpan: 1, 2*purgeSpan + 1: 2} {
		p := newDeletionPlan(ranges{{From: 1, Through: 1}, {From: 1 + distance, Through: 1 + distance}})
		p.add(stored{seq: 1, subject: "askance.v1.x.record.s.r1.c.f"})
		p.add(stored{seq: 1 + distance, subject: "askance.v1.x.record.s.r2.c.f"})
		if got := p.listRequests(); len(got) != want {
			t.Errorf("at a distance of %d: %+v, want %d requests", distance, got, want)
		}
	}
}

// covers matches a filter as NATS does.
func covers(filter, subject string) bool {
	f, s := strings.Split(filter, "."), strings.Split(subject, ".")
	for i, part := range f {
		switch {
		case part == ">":
			return len(s) > i
		case i >= len(s) || part != "*" && part != s[i]:
			return false
		}
	}
	return len(f) == len(s)
}
