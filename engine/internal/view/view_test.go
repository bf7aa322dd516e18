package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"pgregory.net/rapid"
)

// done is the only known event record of a call: the one with which the allowed call finished.
func done(reply message.ReplyID, call message.CallID, remember ...message.PermissionRule) *toolcall.EventRecord {
	return &toolcall.EventRecord{Call: &toolcall.Call{
		Key:   toolcall.Key{Space: "x", Session: "s", Reply: reply, Call: call},
		State: message.ToolCallFinished, Records: 1, Remember: remember,
	}, Path: []toolcall.Step{{Cause: "result", From: message.ToolCallAllowed, To: message.ToolCallFinished}}}
}

// A view that has forgotten calls reports it, even for a reply whose calls it has all forgotten.
func TestViewKnowsItsGaps(t *testing.T) {
	v, reply := New(2), toolcall.Key{Space: "x", Session: "s", Reply: "r"}
	v.Apply(done("r", "a"), 1)
	if !v.HasAllOf(reply) || v.ReplyPhase(reply) != toolcall.ReplyOpen {
		t.Error("the view does not report that it has all calls of the reply")
	}
	for i := range 5 {
		v.Apply(done("other", message.CallID(fmt.Sprint("c", i))), uint64(2+i))
	}
	if len(v.CallsOf(reply)) != 0 || len(v.calls) != 2 {
		t.Fatalf("%d calls are in memory, want 2 of the other reply", len(v.calls))
	}
	v.Apply(done("r", "b"), 10)
	if v.HasAllOf(reply) || v.ReplyPhase(reply) != toolcall.ReplyOpen {
		t.Error("the view has forgotten a call of the reply but claims to have all")
	}
}

// A view never reports a reply as open that an interrupt has closed, and reads the journal
// only if it may have forgotten an interrupt.
func TestViewKnowsClosedReplies(t *testing.T) {
	v, seq := New(2), uint64(0)
	keyOf := func(reply string) toolcall.Key {
		return toolcall.Key{Space: "x", Session: "s", Reply: message.ReplyID(reply)}
	}
	apply := func(rec *toolcall.EventRecord) {
		seq++
		v.Apply(rec, seq)
		v.ReachSequence(seq)
	}
	interrupt := func(reply string) {
		for _, phase := range []toolcall.ReplyPhase{toolcall.ReplyInterrupted, toolcall.ReplyEnded} {
			apply(&toolcall.EventRecord{Reply: &toolcall.ReplyState{Key: keyOf(reply), Phase: phase}})
		}
	}
	apply(&toolcall.EventRecord{Session: &toolcall.SessionState{Key: keyOf("").SessionKey()}, Prev: &toolcall.Link{}})
	interrupt("closed")
	for i := range 10 {
		apply(done(message.ReplyID(fmt.Sprint("r", i)), "c"))
	}
	check := func(when string, v *View, reply string, want toolcall.ReplyPhase) {
		t.Helper()
		if got := v.ReplyPhase(keyOf(reply)); got != want {
			t.Errorf("%s: the reply %s is %q, want %q", when, reply, got, want)
		}
	}
	check("forgotten", v, "closed", "")
	check("forgotten", v, "r0", toolcall.ReplyOpen)
	apply(done("closed", "late"))
	check("heard of again", v, "closed", "")
	next := New(2)
	s := TakeSnapshot(v, func() {})
	s.Ended, s.Sessions = nil, nil
	if err := Restore(next, "x", s, nil); err != nil {
		t.Fatal(err)
	}
	check("restored", next, "closed", "")
	check("restored", next, "r0", toolcall.ReplyOpen)
	for i := range keepGone {
		apply(done(message.ReplyID(fmt.Sprint("more", i)), "c"))
	}
	check("many calls later", v, "new", toolcall.ReplyOpen)
	for i := range keepGone + 10 {
		interrupt(fmt.Sprint("ended", i))
	}
	check("many interrupts later", v, "closed", "")
	check("many interrupts later", v, "new", "") // the session is as old as the forgotten interrupts
}

// A call that comes back after it was forgotten does not add its rules a second time.
func TestViewRemembersRulesOnce(t *testing.T) {
	v, session := New(1), toolcall.Key{Space: "x", Session: "s"}
	for i := range uint64(10) {
		v.Apply(done("r", message.CallID(fmt.Sprint("c", i%2)), message.PermissionRule{ToolName: "t"}), 1+i)
	}
	if n := len(v.Rules(&toolcall.Call{Key: session})); n != 2 {
		t.Errorf("two calls left %d rules", n)
	}
}

// The rules of an answer count from the event record, which may be a later one, that shows
// that the call was allowed.
func TestViewRemembersRulesOfAllowed(t *testing.T) {
	asking, allowed, submitted := message.ToolCallAsking, message.ToolCallAllowed, message.ToolCallSubmitted
	for _, row := range []struct {
		name string
		path []toolcall.Step
		want int
	}{
		{"no path", nil, 0},
		{"asked again", []toolcall.Step{{From: asking, To: message.ToolCallPending}, {From: message.ToolCallPending, To: asking}}, 0},
		{"rejected", []toolcall.Step{{From: asking, To: message.ToolCallFinished}}, 0},
		{"approved", []toolcall.Step{{From: asking, To: allowed}}, 1},
		{"started", []toolcall.Step{{From: submitted, To: submitted}}, 1},
		{"finished", []toolcall.Step{{From: submitted, To: message.ToolCallFinished}}, 1},
	} {
		v, rec := New(1), done("r", "c", message.PermissionRule{ToolName: "t"})
		rec.Path = row.path
		v.Apply(rec, 1)
		if n := len(v.Rules(rec.Call)); n != row.want {
			t.Errorf("%s: %d rules count, want %d", row.name, n, row.want)
		}
	}
}

// Calls are in the order of their first event records, in any order in which they become known.
func TestViewOrdersCalls(t *testing.T) {
	v := New(10)
	for _, seq := range []uint64{3, 1, 4, 2} {
		v.Apply(done("r", message.CallID(fmt.Sprint("c", seq))), seq)
	}
	for i, c := range v.CallsOf(toolcall.Key{Space: "x", Session: "s", Reply: "r"}) {
		if want := message.CallID(fmt.Sprint("c", i+1)); c.Call != want {
			t.Errorf("call %d is %s, want %s", i, c.Call, want)
		}
	}
}

// A reply on which no request waits any more takes up no memory, whether it changed or not.
func TestViewForgetsWhoWaited(t *testing.T) {
	v := New(2)
	reply := toolcall.Key{Space: "x", Session: "s", Reply: "r"}
	one, leaveOne := v.Watch(reply)
	two, leaveTwo := v.Watch(reply)
	leaveOne()
	if len(v.changed) != 1 {
		t.Error("a waiter that leaves removes the other waiter")
	}
	v.Apply(done("r", "a"), 1)
	for _, moved := range []<-chan struct{}{one, two} {
		select {
		case <-moved:
		default:
			t.Error("a waiter was not told of a change")
		}
	}
	again, leaveAgain := v.Watch(reply)
	leaveTwo() // its watch ended with the change: leaving must not remove the newer waiter
	select {
	case <-again:
		t.Error("a waiter was told of a change, but nothing has changed")
	default:
	}
	if len(v.changed) != 1 {
		t.Error("an old waiter that leaves removes the newer waiter")
	}
	for i := range 100 {
		_, leave := v.Watch(toolcall.Key{Space: "x", Session: message.SessionID(fmt.Sprint("unknown", i))})
		leave()
	}
	leaveAgain()
	if len(v.changed) != 0 {
		t.Errorf("%d replies are kept, although no request waits", len(v.changed))
	}
}

// However many calls were forgotten, the number of a new call is exact, and that of an old
// call is never too low. The view needs the journal's count only if it has not seen all calls.
func TestViewCountsCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := New(rapid.IntRange(0, 4).Draw(t, "keep"))
		seen := map[message.ReplyID][]*toolcall.Call{} // in order
		for seq := range rapid.Uint64Range(1, 20).Draw(t, "records") {
			reply := rapid.SampledFrom([]message.ReplyID{"a", "b", "c"}).Draw(t, "reply")
			calls := seen[reply]
			rec := done(reply, message.CallID(fmt.Sprint("c", len(calls))))
			switch i := rapid.IntRange(0, 3).Draw(t, "what"); {
			case i == 0:
				rec.Call.State = message.ToolCallPending
			case i == 1 && len(calls) > 0: // it ends, or comes back
				old := rapid.SampledFrom(calls).Draw(t, "old")
				rec.Call.Key, rec.Call.Records, rec.Call.First = old.Key, 2, old.First
			}
			v.Apply(rec, 1+seq)
			if rec.Call.Records == 1 {
				seen[reply] = append(calls, rec.Call)
			}
			for reply, calls := range seen {
				key := toolcall.Key{Space: "x", Session: "s", Reply: reply}
				fresh := &toolcall.Call{Key: key}
				fresh.Key.Call = "new"
				if _, known := v.CountUpTo(fresh); !known {
					LearnCount(v, key, len(calls), 1+seq)
				}
				if n, known := v.CountUpTo(fresh); n != len(calls)+1 && known {
					t.Fatalf("the new call of %d is number %d", len(calls)+1, n)
				}
				for i, c := range calls {
					if n, known := v.CountUpTo(c); known && (n < i+1 || n > len(calls)) {
						t.Fatalf("call %d of %d is number %d", i+1, len(calls), n)
					}
				}
			}
		}
	})
}

// A view refuses a count that may miss a call that the view has since forgotten, with or
// without its whole reply.
func TestViewRefusesAnOldCount(t *testing.T) {
	for _, whole := range []bool{false, true} {
		v := New(0)
		seq := uint64(0)
		apply := func(reply message.ReplyID, id message.CallID, state message.ToolCallState) {
			rec := done(reply, id)
			rec.Call.State = state
			seq++
			v.Apply(rec, seq)
		}
		apply("a", "c0", message.ToolCallFinished)
		key := toolcall.Key{Space: "x", Session: "s", Reply: "a"}
		fresh := &toolcall.Call{Key: key}
		fresh.Key.Call = "new"
		if !whole {
			apply("a", "open", message.ToolCallPending)
		}
		calls, through := int(seq), seq
		apply("a", "late", message.ToolCallFinished)
		if LearnCount(v, key, calls, through) {
			n, known := v.CountUpTo(fresh)
			t.Errorf("whole %t: %d of %d calls were noted: %d, %t", whole, calls, seq, n, known)
		}
		if !LearnCount(v, key, int(seq), seq) {
			t.Errorf("whole %t: the current count is refused", whole)
		}
	}
}

// A snapshot names the sessions with an open call or a rule and only a few others, so the cost
// of a start depends on what is open and not on how many sessions there were. A view that
// begins from a snapshot never claims to have all calls of a session.
func TestSnapshotNamesFewSessions(t *testing.T) {
	const sessions = 3000
	v := New(sessions)
	key := func(i int) toolcall.Key {
		return toolcall.Key{Space: "x", Session: message.SessionID(fmt.Sprint("s", i)), Reply: "r", Call: "c"}
	}
	records := map[uint64]*toolcall.EventRecord{}
	apply := func(rec *toolcall.EventRecord) {
		seq := uint64(len(records) + 1)
		if rec.Call != nil {
			rec.Call.Seq = seq
		}
		records[seq] = rec
		v.Apply(rec, seq)
	}
	for i := range sessions {
		apply(&toolcall.EventRecord{Session: &toolcall.SessionState{Key: key(i).SessionKey()}, Prev: &toolcall.Link{}})
		var rec *toolcall.EventRecord
		switch i {
		case 7:
			rec = done("r", "c", message.PermissionRule{ToolName: "t"})
		case 8:
			rec = done("r", "c")
			rec.Call.State, rec.Path[0].To = message.ToolCallAsking, message.ToolCallAsking
		default:
			rec = done("r", "c")
		}
		rec.Call.Key = key(i)
		apply(rec)
	}
	s := TakeSnapshot(v, func() {})
	named := map[message.SessionID]bool{}
	for _, x := range s.Sessions {
		named[x.Session] = true
	}
	if n := len(s.Sessions); n != snapshotIdle+2 || !named["s7"] || !named["s8"] || !named["s2999"] || named["s9"] {
		t.Errorf("the snapshot names %d sessions, want %d with the open call, the rule and the last one", n, snapshotIdle+2)
	}
	next := New(sessions)
	if err := Restore(next, "x", s, records); err != nil {
		t.Fatal(err)
	}
	next.gone.upTo = 1
	if state, seq := next.Session(key(9).SessionKey()); seq != 0 || state.Key.Session != "" {
		t.Errorf("a session that the snapshot does not name is known: %v", state)
	}
	if reply := key(9); !next.gone.mayHave(next, toolcall.Key{Space: "x", Session: reply.Session, Reply: "other"}) {
		t.Error("the view claims that a reply of a session that the snapshot does not name never existed")
	}
}

// A view that starts from a snapshot knows the time of the newest record without applying any.
func TestClockAfterASnapshot(t *testing.T) {
	v := New(10)
	late := time.Date(2026, 1, 1, 12, 5, 0, 0, time.UTC)
	rec := done("r", "c", message.PermissionRule{ToolName: "t"})
	rec.At = late
	rec.Call.Seq = 1
	rec.Call.Key = toolcall.Key{Space: "x", Session: "s", Reply: "r", Call: "c"}
	v.Apply(rec, 1)
	if got := v.Book.Clock(&toolcall.StandingApproval{}, late.Add(-time.Hour)); !got.Equal(late) {
		t.Fatalf("before: %v", got)
	}
	late = late.Add(time.Minute)
	v.Apply(&toolcall.EventRecord{At: late, Budget: &toolcall.BudgetState{ID: "b", Space: "x"}}, 2) // not in the snapshot
	s := TakeSnapshot(v, func() {})
	next, into := New(10), New(10)
	if err := Restore(next, "x", s, map[uint64]*toolcall.EventRecord{1: rec}); err != nil {
		t.Fatal(err)
	}
	Adopt(into, next)
	if got := into.Book.Clock(&toolcall.StandingApproval{}, late.Add(-time.Hour)); !got.Equal(late) {
		t.Errorf("after a snapshot: %v, want %v", got, late)
	}
}

// For any order of records and clocks, a standing approval is judged by the latest time of the records
// that came after it.
func TestClockOfAStandingApproval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v, began := New(10), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		at := func(minutes int) time.Time { return began.Add(time.Duration(minutes) * time.Minute) }
		minutes := map[uint64]int{}
		for range rapid.IntRange(1, 20).Draw(t, "records") { // the writer's own arrive early, and some twice
			seq := rapid.Uint64Range(1, 12).Draw(t, "seq")
			if _, known := minutes[seq]; !known {
				minutes[seq] = rapid.IntRange(0, 9).Draw(t, "minutes")
			}
			v.Book.noteTime(seq, at(minutes[seq]))
		}
		granted, now := rapid.Uint64Range(0, 13).Draw(t, "granted"), rapid.IntRange(0, 9).Draw(t, "now")
		want := now
		for seq, m := range minutes {
			if seq > granted {
				want = max(want, m)
			}
		}
		sa := toolcall.StandingApproval{ID: "sta"}
		v.Book.addGranted([]toolcall.StandingApproval{sa}, granted)
		if rapid.Bool().Draw(t, "used") {
			v.Book.apply(&sa, granted+rapid.Uint64Range(1, 12).Draw(t, "use"))
		}
		if rapid.Bool().Draw(t, "snapshot") {
			s, next := &Snapshot{}, New(10)
			v.Book.addTo(s)
			s.Granted = nil // their records are not in this test
			if sa.Seq = 0; v.Book.Get("sta").Seq == 0 {
				next.Book.addGranted([]toolcall.StandingApproval{sa}, granted)
			}
			records := map[uint64]*toolcall.EventRecord{}
			for _, seq := range s.Standing {
				records[seq] = &toolcall.EventRecord{Standing: &sa, At: began}
			}
			if err := Restore(next, "", s, records); err != nil {
				t.Fatal(err)
			}
			v = next
		}
		if got := v.Book.Clock(&sa, at(now)); !got.Equal(at(want)) {
			t.Errorf("an approval of record %d, at minute %d, records %v: %s, want minute %d", granted, now, minutes, got, want)
		}
	})
}

// An archive that recorded a session again took the record that the snapshot names: the
// snapshot can still be used, for a later record has the session.
func TestForgetArchivedSession(t *testing.T) {
	s := &Snapshot{Seq: 10, Sessions: []SessionAt{{Session: message.SessionID("s"), Seq: 5, Begin: 5, Used: 9}}}
	s.Forget(map[uint64]bool{5: true})
	if err := Restore(New(10), "test", s, map[uint64]*toolcall.EventRecord{}); err != nil {
		t.Errorf("after an archive: %v", err)
	}
}
