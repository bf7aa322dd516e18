package journaltest

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// full makes an event record with a value in every field.
func (j *journalTest) full(key toolcall.Key) *toolcall.EventRecord {
	rec := j.record(key, 2)
	c := rec.Call
	content, done := "x", "2026-03-01T12:00:00.000001"
	rule := message.PermissionRule{ToolName: "tool", RuleContent: &content, Behavior: message.BehaviorAllow, Source: "suggested"}
	c.State, c.Cause, c.First = message.ToolCallFinished, "result", 7
	c.Input = "{\"text\": \"é\\u0000 \\\" <&> \u2028\" , \"n\": 1e400, \"big\": 123456789012345678901234567890}"
	c.Order = toolcall.OrderExclusive
	c.Decision = &toolcall.Decision{Behavior: message.BehaviorAsk, Rule: "r", Reason: "why", Errors: []string{"one"}}
	c.Request = &toolcall.ApprovalRequest{V: 1, Key: key, Tool: "tool", Input: c.Input, Requirement: toolcall.Requirement{Users: []string{"ann"}, Deadline: noon}}
	c.Votes = []toolcall.Vote{{Kind: toolcall.ResponseApprove, By: rec.By, At: noon, Digest: "sha256:1", Feedback: "ok\n"}}
	c.Suggested, c.Remember = []message.PermissionRule{rule}, []message.PermissionRule{rule, {ToolName: "tool", Behavior: message.BehaviorAllow}}
	c.Attempt = toolcall.Attempt{Number: 2, Worker: "w", Claim: "claim", OfferedAt: noon, LeaseMS: 10_000, Deadline: noon, Offers: 3,
		Grant: &toolcall.Grant{V: 1, KeyID: "k", Key: key, Approvals: []toolcall.Approval{{By: rec.By, At: noon}}, Expires: noon, Sig: "s"}}
	c.Blocked, c.RetryAt = toolcall.BlockedUnknown, noon
	c.Result = &message.ToolResultBlock{
		ID: key.Call, Name: "tool", State: message.ToolResultSuccess, CreatedAt: done, FinishedAt: &done,
		Output:   message.List(&message.TextBlock{Text: "out", ID: "t", CreatedAt: done}),
		Metadata: map[string]any{"n": int64(1), "f": 1.5, "s": "x", "l": []any{nil, true}, "o": map[string]any{}},
	}
	rec.Path = []toolcall.Step{{Cause: "start", From: "allowed", To: "allowed"}, {Cause: "result", From: "allowed", To: "finished"}}
	return rec
}

func storedComesBack(j *journalTest) {
	key := j.key("s", "r", "c")
	prev := j.add(j.record(key, 1), 0)
	rec := j.full(key)
	prev = j.add(rec, prev)
	j.last(rec)

	late := j.full(key)
	late.Path, late.Note = nil, &toolcall.Note{What: "late_result", Attempt: 1, Text: "sha256:2", Result: late.Call.Result}
	prev = j.add(late, prev)
	j.last(late)

	large := j.record(key, 3)
	large.Call.Input = `{"text":"` + strings.Repeat(`\"`, toolcall.MaxInputBytes/2-20) + `"}`
	large.Call.Request = &toolcall.ApprovalRequest{V: 1, Key: key, Tool: "tool", Input: large.Call.Input}
	large.Call.Result = &message.ToolResultBlock{ID: key.Call, Name: "tool", State: message.ToolResultSuccess,
		Output: message.Content{Text: strings.Repeat("\"", toolcall.MaxOutputBytes-1000)}, Metadata: map[string]any{}}
	j.add(large, prev)
	j.last(large)

	reply := j.record(j.key("s", "r", ""), 1)
	reply.Call, reply.Path = nil, nil
	reply.Reply = &toolcall.ReplyState{Key: j.key("s", "r", ""), Phase: toolcall.ReplyInterrupted, Reason: "enough"}
	j.add(reply, 0)
	j.last(reply)

	session := j.record(j.key("s", "", ""), 1)
	session.Call, session.Path = nil, nil
	session.Session = &toolcall.SessionState{Key: j.key("s", "", ""), Runtime: "bot"}
	j.add(session, 0)
	j.last(session)
}

// last checks that an entity's last event record equals want.
func (j *journalTest) last(want *toolcall.EventRecord) {
	j.Helper()
	rec, err := j.Last(j.Context(), want.Key())
	if err != nil || rec.Invalid != nil {
		j.Fatalf("Last(%s): %v, %v", want.Key(), err, rec.Invalid)
	}
	j.same(want, rec.Record)
}

// unreadableIsRefused checks that an event record either can be read back, or is refused
// and not written. An unreadable record would leave its call stuck.
func unreadableIsRefused(j *journalTest) {
	nested := func(depth int) any {
		var v any = "leaf"
		for range depth {
			v = map[string]any{"x": v}
		}
		return v
	}
	for name, change := range map[string]func(*toolcall.Call){
		"nested 60 deep":     func(c *toolcall.Call) { c.Result.Metadata["x"] = nested(60) },
		"nested 100 deep":    func(c *toolcall.Call) { c.Result.Metadata["x"] = nested(100) },
		"nested 20,000 deep": func(c *toolcall.Call) { c.Result.Metadata["x"] = nested(20_000) },
		"a huge integer":     func(c *toolcall.Call) { c.Result.Metadata["x"] = uint64(1<<64 - 1) },
		"a huge float":       func(c *toolcall.Call) { c.Result.Metadata["x"] = 1e300 },
		"broken UTF-8":       func(c *toolcall.Call) { c.Result.Output = message.Content{Text: "a\xffb"} },
		"broken UTF-8 input": func(c *toolcall.Call) { c.Input = "{\"a\":\"\xff\"}" },
		"a channel":          func(c *toolcall.Call) { c.Result.Metadata["x"] = make(chan int) },
		"a strange year":     func(c *toolcall.Call) { c.UpdatedAt = time.Date(12345, 1, 1, 0, 0, 0, 0, time.UTC) },
	} {
		key := j.key("s", "r", name)
		record := j.full(key)
		record.Call.Records = 1
		change(record.Call)
		seq, err := j.Append(j.Context(), record, 0)
		rec, lastErr := j.Last(j.Context(), key)
		switch {
		case err != nil && lastErr == nil:
			j.Errorf("%s: the append failed (%v), but something was written", name, err)
		case err == nil && (lastErr != nil || rec.Invalid != nil || rec.Record == nil || rec.Seq != seq):
			j.Errorf("%s: it was stored but cannot be read: %v, %v", name, lastErr, rec.Invalid)
		}
	}
}

// unsteady has a different JSON form each time, like a value that another goroutine changes.
type unsteady struct{ n *atomic.Int64 }

func (u unsteady) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, u.n.Add(1), 10), nil }

// otherIsRefused checks that the journal reads a record back before it writes it, and refuses
// one that would be read differently. The call then continues from the previous record.
func otherIsRefused(j *journalTest) {
	key := j.key("s", "r", "c")
	first := j.record(key, 1)
	prev := j.add(first, 0)
	rec := j.full(key)
	rec.Call.Result.Metadata["x"] = unsteady{new(atomic.Int64)}
	_, err := j.Append(j.Context(), rec, prev)
	j.wantErr(err, &message.Error{Code: message.CodeInternal})
	j.last(first)
	next := j.record(key, 2)
	j.add(next, prev)
	j.last(next)
}

// nothingShared changes the values passed to the journal and the values it returned.
func nothingShared(j *journalTest) {
	key := j.key("s", "r", "c")
	record := j.full(key)
	record.Call.Records = 1
	j.add(record, 0)
	want := encode(j.T, record) // with the link that the journal put in
	spoil := func(record *toolcall.EventRecord) {
		record.Call.Input, record.Call.Votes[0].Feedback, record.Call.Result.Metadata["n"], record.Path[0].Cause = "spoiled", "spoiled", "spoiled", "spoiled"
	}
	spoil(record)
	for range 2 {
		rec, err := j.Last(j.Context(), key)
		if err != nil || encode(j.T, rec.Record) != want {
			j.Fatalf("the stored event record changed with the caller's copy (%v)", err)
		}
		spoil(rec.Record)
	}
	event := message.RawJSON(`{"type":"CUSTOM","id":"e1","name":"x"}`)
	at, err := j.AppendEvent(j.Context(), "bot", key.ReplyKey(), []message.RawJSON{event})
	if err != nil {
		j.Fatal(err)
	}
	clear(event)
	for range 2 {
		records, _, err := j.Read(j.Context(), key.SessionKey(), at-1, 10)
		if err != nil || len(records) != 1 || string(records[0].Event) != `{"type":"CUSTOM","id":"e1","name":"x"}` {
			j.Fatalf("the stored event changed with a reader's copy: %v, %v", records, err)
		}
		clear(records[0].Event)
	}
}

// event makes the n-th streamed event; all are distinct.
func event(n int) message.RawJSON {
	return message.RawJSON(fmt.Sprintf(`{"type":"CUSTOM","id":"ev-%d","created_at":"2026-03-01T12:00:00","metadata":{},"name":"n%d","value":{}}`, n, n))
}

func (j *journalTest) emit(reply toolcall.Key, ns ...int) uint64 {
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

// story writes event records of two calls and events of their session, and returns
// what was written in a readable form.
func (j *journalTest) story(session string) []string {
	j.Helper()
	a, b := j.key(session, "r", "a"), j.key(session, "r2", "b")
	var out []string
	var prevA, prevB uint64
	for n := 1; n <= 4; n++ {
		prevA = j.add(j.record(a, n), prevA)
		j.emit(a.ReplyKey(), 10*n, 10*n+1)
		prevB = j.add(j.record(b, n), prevB)
		j.emit(b.ReplyKey(), 100*n)
		out = append(out, fmt.Sprint("a", n), fmt.Sprint("ev-", 10*n), fmt.Sprint("ev-", 10*n+1), fmt.Sprint("b", n), fmt.Sprint("ev-", 100*n))
	}
	return out
}

// name identifies a record of a story.
func name(r toolcall.JournalEntry) string {
	if r.Record != nil && r.Record.Call != nil {
		return fmt.Sprint(r.Key.Call, r.Record.Call.Records)
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
			j.Errorf("event %d belongs to %s and is by %q", i, r.Key, r.Runtime)
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
		j.Errorf("AppendEvent returned %d, the last event is at %d", seq, records[len(ns)-1].Seq)
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
			after = last
			if len(records) < limit {
				break
			}
		}
		if s := strings.Join(got, " "); s != want {
			j.Errorf("limit %d: read %s, want %s", limit, s, want)
		}
		records, last, err := j.Read(j.Context(), j.key("s", "", ""), after, limit)
		if err != nil || len(records) != 0 || last < after {
			j.Errorf("limit %d: after the end: %d records, cursor %d after %d, %v", limit, len(records), last, after, err)
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

// countingCalls checks that only the calls of a reply are counted, remote tasks once.
func countingCalls(j *journalTest) {
	count := func(reply toolcall.Key, want int) {
		j.Helper()
		n, through, err := j.CountCalls(j.Context(), reply)
		if err != nil || n != want {
			j.Errorf("%s has %d calls, %v, want %d", reply, n, err, want)
		}
		if seq := j.emit(j.key("s", "other", ""), int(j.ids.Add(1))); n != want || through >= seq {
			j.Errorf("%s was counted through %d, which came later", reply, through)
		}
	}
	count(j.key("s", "r", ""), 0)
	for i, id := range strangeIDs {
		key := j.key("s", "r", id)
		j.add(j.record(key, 2), j.add(j.record(key, 1), 0))
		j.add(j.record(j.key("s", "other", id), 1), 0)
		count(j.key("s", "r", ""), i+1)
	}
	j.emit(j.key("s", "r", ""), 1, 2)
	task := j.record(j.key("s", "remote", "task"), 1)
	task.Call.State, task.Call.Placement = message.ToolCallSubmitted, toolcall.PlaceRemote
	task.Path = append(task.Path, toolcall.Step{Cause: "submit", From: message.ToolCallPending, To: message.ToolCallSubmitted})
	j.add(j.record(task.Key(), 2), j.add(task, 0))
	count(j.key("s", "remote", ""), 1)
	count(j.key("s", "r", ""), len(strangeIDs))
	count(j.key("x", "r", ""), 0)
}
