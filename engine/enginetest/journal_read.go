package enginetest

import (
	"fmt"
	"strings"

	"github.com/askance-dev/askance/message"
)

// event makes a streamed event that can be told from others.
func event(n int) message.RawJSON {
	return message.RawJSON(fmt.Sprintf(`{"type":"CUSTOM","id":"ev-%d","created_at":"2026-03-01T12:00:00","metadata":{},"name":"n%d","value":{}}`, n, n))
}

func (j *journalTest) emit(reply message.Key, ns ...int) uint64 {
	j.Helper()
	events := make([]message.RawJSON, len(ns))
	for i, n := range ns {
		events[i] = event(n)
	}
	seq, err := j.AppendEvent(j.Context(), "bot", reply, events)
	if err != nil {
		j.Fatalf("append events: %v", err)
	}
	return seq
}

// story writes facts of two calls and events of their session, and returns
// what was written in a readable form.
func (j *journalTest) story(session string) []string {
	j.Helper()
	a, b := j.key(session, "r", "a"), j.key(session, "r2", "b")
	var out []string
	var prevA, prevB uint64
	for n := 1; n <= 4; n++ {
		prevA = j.add(j.fact(a, n), prevA)
		j.emit(a.ReplyKey(), 10*n, 10*n+1)
		prevB = j.add(j.fact(b, n), prevB)
		j.emit(b.ReplyKey(), 100*n)
		out = append(out, fmt.Sprint("a", n), fmt.Sprint("ev-", 10*n), fmt.Sprint("ev-", 10*n+1), fmt.Sprint("b", n), fmt.Sprint("ev-", 100*n))
	}
	return out
}

// name tells a record of a story.
func name(r message.Record) string {
	if r.Fact != nil && r.Fact.Call != nil {
		return fmt.Sprint(r.Key.Call, r.Fact.Call.Facts)
	}
	_, rest, _ := strings.Cut(string(r.Event), `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

func oneSequence(j *journalTest) {
	want := j.story("s")
	records, last, err := j.Read(j.Context(), j.key("s", "", ""), 0, 1000)
	if err != nil || len(records) != len(want) {
		j.Fatalf("%d records (%v), want %d", len(records), err, len(want))
	}
	for i, r := range records {
		if name(r) != want[i] || i > 0 && r.Seq <= records[i-1].Seq || r.Time.IsZero() {
			j.Errorf("record %d is %s at %d, want %s", i, name(r), r.Seq, want[i])
		}
		if r.Event != nil && (r.Runtime != "bot" || r.Key.Session != "s" || r.Key.Reply == "" || r.Key.Call != "" || r.Key.Space != j.space) {
			j.Errorf("event %d is of %s by %q", i, r.Key, r.Runtime)
		}
	}
	if last < records[len(records)-1].Seq {
		j.Errorf("the cursor %d is before the last record, %d", last, records[len(records)-1].Seq)
	}
}

func eventsInOrder(j *journalTest) {
	reply := j.key("s", "r", "")
	ns := make([]int, 300)
	for i := range ns {
		ns[i] = i
	}
	seq := j.emit(reply, ns...)
	records, _, err := j.Read(j.Context(), j.key("s", "", ""), 0, 1000)
	if err != nil || len(records) != len(ns) {
		j.Fatalf("%d events (%v), want %d", len(records), err, len(ns))
	}
	for i, r := range records {
		if string(r.Event) != string(event(i)) {
			j.Fatalf("event %d is %s", i, r.Event)
		}
	}
	if seq != records[len(ns)-1].Seq {
		j.Errorf("AppendEvent gave %d, the last event is at %d", seq, records[len(ns)-1].Seq)
	}
}

// readingPages reads a story in pages of every size, from cursor to cursor.
func readingPages(j *journalTest) {
	want := strings.Join(j.story("s"), " ")
	j.story("other")
	for _, limit := range []int{1, 2, 3, 7, 20, 100} {
		var got []string
		after := uint64(0)
		for range 100 {
			records, last, err := j.Read(j.Context(), j.key("s", "", ""), after, limit)
			if err != nil || len(records) > limit {
				j.Fatalf("limit %d: %d records, %v", limit, len(records), err)
			}
			if last < after || len(records) > 0 && last < records[len(records)-1].Seq {
				j.Fatalf("limit %d: the cursor went from %d to %d", limit, after, last)
			}
			for _, r := range records {
				if r.Seq <= after {
					j.Errorf("limit %d: record %d was asked for after %d", limit, r.Seq, after)
				}
				got = append(got, name(r))
			}
			if after = last; len(records) < limit {
				break
			}
		}
		if s := strings.Join(got, " "); s != want {
			j.Errorf("limit %d: read %s, want %s", limit, s, want)
		}
		records, last, err := j.Read(j.Context(), j.key("s", "", ""), after, limit)
		if err != nil || len(records) != 0 || last < after {
			j.Errorf("limit %d: behind the end: %d records, cursor %d after %d, %v", limit, len(records), last, after, err)
		}
		if n := j.emit(j.key("third", "r", ""), limit); n <= last {
			j.Errorf("limit %d: a new record got sequence %d, the cursor was %d", limit, n, last)
		}
	}
}

func readingOneSession(j *journalTest) {
	for _, id := range strangeIDs {
		j.emit(j.key(id, "r", ""), 1)
	}
	for _, id := range strangeIDs {
		records, _, err := j.Read(j.Context(), j.key(id, "", ""), 0, 1000)
		if err != nil || len(records) != 1 || records[0].Key != j.key(id, "r", "") {
			j.Errorf("session %.30q has %d records, %v", id, len(records), err)
		}
	}
	records, _, err := j.Read(j.Context(), j.key("unknown", "", ""), 0, 10)
	if err != nil || len(records) != 0 {
		j.Errorf("an unknown session has %d records, %v", len(records), err)
	}
}
