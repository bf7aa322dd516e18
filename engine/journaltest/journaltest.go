// Package journaltest tests whether an [engine.Journal] keeps its contract.
//
// engine.NewMemory and the journal on JetStream pass [Run]. A test of another
// journal runs the same suite:
//
//	func TestJournal(t *testing.T) {
//		journaltest.Run(t, func(t testing.TB) engine.Journal { return open(t) })
//	}
//
// Nothing here is meant for programs other than tests.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
)

// Space is the space of a journal without a method Space() toolcall.SpaceID.
const Space toolcall.SpaceID = "test"

// caseTime bounds each case. Only a failing case uses it up.
const caseTime = time.Minute

// Run runs the suite. newJournal makes an empty journal for each case, on the
// goroutine of the case, and cleans up with t.Cleanup. Cases run in parallel.
func Run(t *testing.T, newJournal func(t testing.TB) engine.Journal) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeoutCause(t.Context(), caseTime, fmt.Errorf("journaltest: %s takes longer than %s", t.Name(), caseTime))
			t.Cleanup(cancel)
			j := &journalTest{T: t, ctx: ctx, Journal: newJournal(t), space: Space}
			if s, ok := j.Journal.(interface{ Space() toolcall.SpaceID }); ok {
				j.space = s.Space()
			}
			c.run(j)
		})
	}
}

type testCase struct {
	name string
	run  func(*journalTest)
}

// journalTest is a journal under test.
type journalTest struct {
	*testing.T
	ctx context.Context //nolint:containedctx // its life is the struct's
	engine.Journal
	space toolcall.SpaceID
	ids   atomic.Int64
}

// Context ends with the test, or when the test has taken too long.
func (j *journalTest) Context() context.Context { return j.ctx }

func cases() []testCase {
	return []testCase{
		{"compare and swap", compareAndSwap},
		{"one of many racers wins", manyRacers},
		{"entities are independent", entitiesAreIndependent},
		{"stored records can be read back", storedComesBack},
		{"a record that cannot be read back is not stored", unreadableIsRefused},
		{"a record that would be read differently is not stored", otherIsRefused},
		{"callers share no memory with the journal", nothingShared},
		{"history is in order", historyInOrder},
		{"a cancelled append", cancelledAppend},
		{"tools are prepared any number of times", toolsPrepared},
		{"event records and events share one sequence", oneSequence},
		{"events keep their order", eventsInOrder},
		{"reading page by page", readingPages},
		{"reading only one session", readingOneSession},
		{"calls of a reply are counted", countingCalls},
		{"watching the past, then new records", watching},
		{"watching from a sequence", watchingFrom},
		{"watching loses nothing under load", watchingUnderLoad},
		{"the watch ends with its context", watchEnds},
	}
}

func (j *journalTest) key(session, reply, call string) toolcall.Key {
	return toolcall.Key{Space: j.space, Session: message.SessionID(session), Reply: message.ReplyID(reply), Call: message.CallID(call)}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// record makes the n-th event record of a call: its proposal, then a series of hide steps,
// which form a valid history.
func (j *journalTest) record(key toolcall.Key, n int) *toolcall.EventRecord {
	c := &toolcall.Call{
		Key: key, Runtime: "bot", Agent: "agent", Tool: "tool", Input: `{"n":1}`, State: message.ToolCallPending,
		Cause: "propose", Proposal: "sha256:00", ProposedAt: noon, UpdatedAt: noon.Add(time.Duration(n)), Records: n,
	}
	step := toolcall.Step{Cause: "propose", To: message.ToolCallPending}
	if n > 1 {
		c.Cause, c.Behind = "hide", message.CallID(fmt.Sprint("call-", n))
		step = toolcall.Step{Cause: "hide", From: message.ToolCallPending, To: message.ToolCallPending}
	}
	return &toolcall.EventRecord{
		V: toolcall.RecordVersion, ID: fmt.Sprintf("record-%d", j.ids.Add(1)), Path: []toolcall.Step{step},
		By: toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot", Auth: "test"}, At: noon, Engine: "e1", Call: c,
	}
}

// add appends and returns the sequence.
func (j *journalTest) add(rec *toolcall.EventRecord, prev uint64) uint64 {
	j.Helper()
	seq, err := j.Append(j.Context(), rec, prev)
	if err != nil {
		j.Fatalf("append %s at %d: %v", rec.Key(), prev, err)
	}
	return seq
}

// same compares event records in their stored form.
func (j *journalTest) same(want, got *toolcall.EventRecord) {
	j.Helper()
	if diff := cmp.Diff(encode(j.T, want), encode(j.T, got)); diff != "" {
		j.Errorf("the event record changed (-stored +read):\n%s", diff)
	}
}

// wantErr checks the code of an error, and that the error says what failed,
// where, and what to do.
func (j *journalTest) wantErr(err error, want *message.Error) {
	j.Helper()
	var e *message.Error
	if !errors.As(err, &e) || e.Code != want.Code {
		j.Fatalf("error = %v, want one with code %s", err, want.Code)
	}
	if e.What == "" || e.Op == "" || e.Hint == "" {
		j.Errorf("error %q (op %q, hint %q) does not say what failed, where, and what to do", e.What, e.Op, e.Hint)
	}
}

func encode(t *testing.T, rec *toolcall.EventRecord) string {
	t.Helper()
	if rec == nil {
		return "(none)"
	}
	b, err := strictjson.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func compareAndSwap(j *journalTest) {
	key := j.key("s", "r", "c")
	if _, err := j.Last(j.Context(), key); err == nil {
		j.Error("Last of an empty entity gave no error")
	} else {
		j.wantErr(err, message.ErrNotFound)
	}
	first := j.record(key, 1)
	seq := j.add(first, 0)
	for _, prev := range []uint64{0, seq + 1, seq + 1000, math.MaxUint32} {
		if _, err := j.Append(j.Context(), j.record(key, 2), prev); err == nil {
			j.Errorf("append at %d, the last event record is at %d: no error", prev, seq)
		} else {
			j.wantErr(err, message.ErrConflict)
		}
	}
	second := j.record(key, 2)
	next := j.add(second, seq)
	if next <= seq {
		j.Errorf("the second event record has sequence %d, the first %d", next, seq)
	}
	if _, err := j.Append(j.Context(), j.record(key, 3), seq); err == nil {
		j.Error("append at an older event record gave no error")
	} else {
		j.wantErr(err, message.ErrConflict)
	}
	rec, err := j.Last(j.Context(), key)
	if err != nil || rec.Seq != next || rec.Key != key || rec.Invalid != nil || rec.Time.IsZero() {
		j.Fatalf("Last = %+v, %v, want sequence %d", rec, err, next)
	}
	j.same(second, rec.Record)
}

// manyRacers lets 64 writers compete for the same next record, in several rounds.
func manyRacers(j *journalTest) {
	const racers, rounds = 64, 4
	key, prev := j.key("s", "r", "c"), uint64(0)
	for round := range rounds {
		var won, lost atomic.Int64
		var seq atomic.Uint64
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range racers {
			rec := j.record(key, round+1)
			wg.Go(func() {
				<-begin
				at, err := j.Append(j.Context(), rec, prev)
				switch {
				case err == nil:
					won.Add(1)
					seq.Store(at)
				case message.AsError("", err).Code == message.CodeConflict:
					lost.Add(1)
				default:
					j.Errorf("a racer got %v", err)
				}
			})
		}
		close(begin)
		wg.Wait()
		if won.Load() != 1 || lost.Load() != racers-1 {
			j.Fatalf("round %d: %d won and %d lost", round, won.Load(), lost.Load())
		}
		prev = seq.Load()
	}
	records, err := j.History(j.Context(), key)
	if err != nil || len(records) != rounds {
		j.Errorf("%d event records are stored (%v), want %d", len(records), err, rounds)
	}
}

// strangeIDs are ids that models and users might send.
var strangeIDs = []string{
	"c", "C", "c.d", "c*", "*", ">", "c>", "-", "_", "c d", "c\td", "c\nd", "c\x00d", "\u00e9", "e\u0301", "日本", "%63", "c%2Ed",
	"..", ".", "a.b.c.f", "f", "$JS.API", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 10_000), strings.Repeat("é", 5000),
}

// entitiesAreIndependent writes to the entities of call, reply and session of each
// strange id and reads every one back.
func entitiesAreIndependent(j *journalTest) {
	stored := map[toolcall.Key]*toolcall.EventRecord{}
	put := func(record *toolcall.EventRecord) {
		if stored[record.Key()] != nil {
			return
		}
		stored[record.Key()] = record
		j.add(record, 0)
	}
	plain := func(key toolcall.Key) *toolcall.EventRecord {
		record := j.record(key, 1)
		record.Path, record.Call = nil, nil
		return record
	}
	for _, id := range strangeIDs {
		put(j.record(j.key("s", "r", id), 1))
		put(j.record(j.key("s", id, "c"), 1))
		put(j.record(j.key(id, "r", "c"), 1))
		reply := plain(j.key("s", id, ""))
		reply.Reply = &toolcall.ReplyState{Key: j.key("s", id, ""), Phase: toolcall.ReplyOpen}
		put(reply)
		session := plain(j.key(id, "", ""))
		session.Session = &toolcall.SessionState{Key: j.key(id, "", ""), Runtime: "bot"}
		put(session)
	}
	for key, record := range stored {
		rec, err := j.Last(j.Context(), key)
		if err != nil || rec.Key != key {
			j.Errorf("Last(%.40q) = key %.40q, %v", key, rec.Key, err)
			continue
		}
		j.same(record, rec.Record)
	}
}

func historyInOrder(j *journalTest) {
	key, other := j.key("s", "r", "c"), j.key("s", "r", "c2")
	var prev, prevOther uint64
	for n := 1; n <= 20; n++ {
		prev = j.add(j.record(key, n), prev)
		if n%3 == 0 {
			prevOther = j.add(j.record(other, n/3), prevOther)
		}
	}
	records, err := j.History(j.Context(), key)
	if err != nil || len(records) != 20 {
		j.Fatalf("%d event records (%v), want 20", len(records), err)
	}
	for i, r := range records {
		if r.Record.Call.Records != i+1 || r.Key != key || i > 0 && r.Seq <= records[i-1].Seq {
			j.Errorf("event record %d of the history is number %d of %s at %d", i, r.Record.Call.Records, r.Key, r.Seq)
		}
	}
	if records, err := j.History(j.Context(), j.key("s", "r", "unknown")); len(records) != 0 {
		j.Errorf("an unknown call has %d event records (%v)", len(records), err)
	}
}

func cancelledAppend(j *journalTest) {
	key := j.key("s", "r", "c")
	seq := j.add(j.record(key, 1), 0)
	ctx, cancel := context.WithCancel(j.Context())
	cancel()
	record := j.record(key, 2)
	_, err := j.Append(ctx, record, seq)
	code := message.AsError("", err).Code
	if err == nil || code != message.CodeUnavailable && code != message.CodeUnknownOutcome {
		j.Fatalf("append with an ended context: %v", err)
	}
	rec, err := j.Last(j.Context(), key)
	if err != nil || code == message.CodeUnavailable && rec.Seq != seq {
		j.Errorf("Append reported that nothing was written, but the last event record is at %d, not %d (%v)", rec.Seq, seq, err)
	}
}

func toolsPrepared(j *journalTest) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for _, tool := range []string{"tool", "a tool with spaces.and*dots>", fmt.Sprint("tool", i%2)} {
				if err := j.EnsureQueue(j.Context(), toolcall.Queue{Tool: tool}); err != nil {
					j.Errorf("prepare %q: %v", tool, err)
				}
			}
		})
	}
	wg.Wait()
	switch d := j.Durability(); d {
	case "memory", "cached", "fsynced", "quorum":
	default:
		j.Errorf("durability is %q", d)
	}
}
