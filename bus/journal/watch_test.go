package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestWatchPastThenPresent(t *testing.T) {
	j := bustest.New(t).Journal("test")
	prev := uint64(0)
	for n := range 5 {
		prev = bustest.MustAppend(t, j, bustest.CallRecord(bustest.ID(n), bustest.CallKey("c1"), message.ToolCallPending, "propose"), prev)
	}
	all, some, none := bustest.Watch(t, j, 0), bustest.Watch(t, j, 3), bustest.Watch(t, j, 5)
	all.Wait(t, "all of the past", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 5 && caught == 5 })
	some.Wait(t, "the rest of the past", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 2 && caught == 2 && r[0].Seq == 4 })
	none.Wait(t, "no past", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 0 && caught == 0 })
	bustest.MustAppend(t, j, bustest.CallRecord("new", bustest.CallKey("c1"), message.ToolCallAllowed, "allow"), prev)
	for _, s := range []*bustest.Sink{all, some, none} {
		r := s.Wait(t, "the new one", func(r []toolcall.JournalEntry, _ int) bool { return len(r) > 0 && r[len(r)-1].Seq == 6 })
		_, _, times := s.Counts()
		if last := r[len(r)-1]; last.Record == nil || last.Record.ID != "new" || last.Key != bustest.CallKey("c1") || times != 1 {
			t.Errorf("last record %+v, caught up %d times", last, times)
		}
	}
}

func TestWatchEmptyJournalIsCaughtUpAtOnce(t *testing.T) {
	bustest.Watch(t, bustest.New(t).Journal("test"), 0).Wait(t, "caught up", func(_ []toolcall.JournalEntry, caught int) bool { return caught == 0 })
}

// If the end of the stream was deleted, a reader that inspects the journal does not wait for it, and
// other readers get an error.
func TestWatchDeletedEnd(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	prev = bustest.MustAppend(t, j, bustest.CallRecord("f2", bustest.CallKey("c1"), message.ToolCallAllowed, "allow"), prev)
	if err := bustest.Stream(t, b).DeleteMsg(t.Context(), prev); err != nil {
		t.Fatal(err)
	}
	if err := j.Watch(t.Context(), 0, bustest.NewSink()); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("Watch returned %v, want damaged", err)
	}
	j = b.JournalWith("test", journal.Options{Inspect: true})
	bustest.Watch(t, j, 0).Wait(t, "one record", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 1 && caught == 1 })
	bustest.Watch(t, j, 1).Wait(t, "none", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == 0 && caught == 0 })
	if _, last, err := j.Read(t.Context(), bustest.CallKey("").SessionKey(), 1, 10); err != nil || last != prev {
		t.Errorf("Read goes on from %d, %v; want %d", last, err, prev)
	}
}

func TestWatchEndsWithItsCause(t *testing.T) {
	j := bustest.New(t).Journal("test")
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := bustest.NewSink()
	done := make(chan error, 1)
	go func() { done <- j.Watch(ctx, 0, s) }()
	s.Wait(t, "caught up", func(_ []toolcall.JournalEntry, caught int) bool { return caught == 0 })
	cancel(cause)
	if err := <-done; !errors.Is(err, cause) {
		t.Errorf("Watch returned %v, want the cause", err)
	}
}

// A NATS server is stopped and started several times while event records are written. No acknowledged
// record is missing, none is delivered twice, and they arrive in the order of their sequences.
func TestWatchSurvivesServerRestarts(t *testing.T) {
	b := bustest.New(t, bustest.Listening())
	open := func() *journal.Journal {
		j, err := journal.Open(t.Context(), b.Dial("engine"), "test", b.Keys(), journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	w := bustest.Watch(t, open(), 0)
	j := open()
	acked := map[uint64]string{}
	var mu sync.Mutex // guards acked
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for c := range 4 {
		writers.Go(func() {
			key, prev := bustest.CallKey(fmt.Sprint("c", c)), uint64(0)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				rec := bustest.CallRecord(fmt.Sprintf("f-%d-%d", c, n), key, message.ToolCallPending, "propose")
				for {
					seq, err := j.Append(t.Context(), rec, prev)
					if err == nil {
						mu.Lock()
						acked[seq] = rec.ID
						mu.Unlock()
						prev = seq
						break
					}
					if !errors.Is(err, message.ErrUnavailable) && !errors.Is(err, message.ErrUnknownOutcome) {
						t.Errorf("append: %v", err)
						return
					}
				}
			}
		})
	}
	for round := range 3 {
		enough := 100 * (round + 1)
		w.Wait(t, "records", func(r []toolcall.JournalEntry, _ int) bool { return len(r) >= enough })
		b.Restart()
	}
	w.Wait(t, "records after the last restart", func(r []toolcall.JournalEntry, _ int) bool { return len(r) >= 400 })
	close(stop)
	writers.Wait()
	end := uint64(0)
	for seq := range acked {
		end = max(end, seq)
	}
	records := w.Wait(t, "the end", func(r []toolcall.JournalEntry, _ int) bool { return r[len(r)-1].Seq >= end })
	for i, r := range records {
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has sequence %d: a gap or a repetition", i, r.Seq)
		}
		if r.Invalid != nil {
			t.Errorf("record %d is invalid: %v", r.Seq, r.Invalid)
		}
		if want, ok := acked[r.Seq]; ok && r.Record.ID != want {
			t.Errorf("record %d is %s, acknowledged was %s", r.Seq, r.Record.ID, want)
		}
	}
}

// A stream that lost its end or was replaced is no longer the journal.
func TestWatchNoticesAnotherJournal(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		// When the last stream of an account is deleted, the server removes the account's folder a moment
		// later, perhaps while a new stream is being created in it.
		b.Journal("neighbour")
		j := b.Journal("test")
		bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
		s := bustest.NewSink()
		done := make(chan error, 1)
		go func() { done <- j.Watch(t.Context(), 0, s) }()
		synctest.Wait()
		js, _ := jetstream.New(b.Conn("admin"))
		if err := js.DeleteStream(t.Context(), "ASKANCE_test"); err != nil {
			t.Fatal(err)
		}
		b.Journal("test") // another engine creates it again
		select {
		case err := <-done:
			if !errors.Is(err, message.ErrDamaged) {
				t.Errorf("Watch returned %v, want damaged", err)
			}
		case <-time.After(5 * time.Minute):
			t.Error("Watch goes on with another journal")
		}
	})
}

// Streamed events and event records share one order, and Read pages through both.
func TestReadPages(t *testing.T) {
	j := bustest.New(t).Journal("test")
	reply := bustest.CallKey("").ReplyKey()
	other := toolcall.Key{Space: "test", Session: "s2", Reply: "r1"}
	rng := rand.New(rand.NewPCG(1, 2))
	var want []uint64
	prev := map[string]uint64{}
	for n := range 60 {
		switch rng.IntN(4) {
		case 0:
			seq, err := j.AppendEvent(t.Context(), "rt", reply, events(n))
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, seq)
		case 1:
			c := fmt.Sprint("c", rng.IntN(3))
			prev[c] = bustest.MustAppend(t, j, bustest.CallRecord(bustest.ID(n), bustest.CallKey(c), message.ToolCallPending, "propose"), prev[c])
			want = append(want, prev[c])
		case 2:
			if _, err := j.AppendEvent(t.Context(), "other.runtime", other, events(n)); err != nil {
				t.Fatal(err)
			}
		case 3:
			k := other
			k.Call = message.CallID(fmt.Sprint("x", n))
			bustest.MustAppend(t, j, bustest.CallRecord(bustest.ID(n), k, message.ToolCallPending, "propose"), 0)
		}
	}
	for _, limit := range []int{1, 2, 7, 1000} {
		var got []uint64
		after := uint64(0)
		for rounds := 0; ; rounds++ {
			recs, last, err := j.Read(t.Context(), reply.SessionKey(), after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(recs) > limit || rounds > 100 {
				t.Fatalf("limit %d: %d records in round %d", limit, len(recs), rounds)
			}
			for _, r := range recs {
				if r.Invalid != nil || r.Key.Session != "s1" {
					t.Errorf("record %+v", r)
				}
				got = append(got, r.Seq)
			}
			if len(recs) == 0 && last == after {
				break
			}
			after = last
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d: read %v, want %v", limit, got, want)
		}
		if after != 60 {
			t.Errorf("limit %d: the cursor ends at %d, the journal at 60", limit, after)
		}
	}
}

func events(ns ...int) []message.RawJSON {
	var out []message.RawJSON
	for _, n := range ns {
		out = append(out, message.RawJSON(fmt.Sprintf(`{"type":"TEXT_BLOCK_DELTA","id":"ev%d","delta":"x"}`, n)))
	}
	return out
}

func TestAppendEvent(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	long := toolcall.Key{Space: "test", Session: message.SessionID(bustest.LongID), Reply: "odd.reply id"}
	evs := events(1, 2, 3)
	seq, err := j.AppendEvent(t.Context(), "my runtime", long, evs)
	if err != nil || seq != 3 {
		t.Fatalf("AppendEvent = %d, %v", seq, err)
	}
	again, err := j.AppendEvent(t.Context(), "my runtime", long, evs)
	if err != nil || again != 3 {
		t.Errorf("appended again: %d, %v; want 3", again, err)
	}
	recs, last, err := j.Read(t.Context(), long.SessionKey(), 0, 10)
	if err != nil || len(recs) != 3 || last != 3 {
		t.Fatalf("Read: %d records up to %d, %v", len(recs), last, err)
	}
	for i, r := range recs {
		if r.Invalid != nil || r.Key != long || r.Runtime != "my runtime" || string(r.Event) != string(evs[i]) || r.Record != nil {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	for name, tc := range map[string]struct {
		runtime string
		key     toolcall.Key
		events  []message.RawJSON
		want    error
	}{
		"none":                 {"rt", long, nil, message.ErrInvalid},
		"no runtime":           {"", long, evs, message.ErrInvalid},
		"long runtime":         {bustest.LongID, long, evs, message.ErrTooLarge},
		"no reply":             {"rt", long.SessionKey(), evs, message.ErrInvalid},
		"another space":        {"rt", toolcall.Key{Space: "x", Session: "s", Reply: "r"}, evs, message.ErrInvalid},
		"one of them no JSON":  {"rt", long, append(events(9), message.RawJSON("{")), message.ErrInvalid},
		"one of them a string": {"rt", long, append(events(9), message.RawJSON(`"x"`)), message.ErrInvalid},
	} {
		if _, err := j.AppendEvent(t.Context(), tc.runtime, tc.key, tc.events); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
	if _, last, _ := j.Read(t.Context(), long.SessionKey(), 0, 10); last != 3 {
		t.Errorf("a refused request stored something: the journal ends at %d", last)
	}
}

// An event whose headers name another session than its subject is not passed
// off as one of that session.
func TestEventUnderAFalseName(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	m := nats.NewMsg("askance.v1.test.event.rt." + string(bus.Encode(bustest.LongID)) + ".r1")
	m.Header.Set("Askance-Session", "czE") // s1
	m.Data = []byte(`{"type":"CUSTOM"}`)
	bustest.Store(t, b.Conn("forger"), m)
	r := bustest.Watch(t, j, 0).Wait(t, "the event", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 1 })
	if r[0].Invalid == nil || r[0].Event != nil {
		t.Errorf("delivered %+v", r[0])
	}
}

// settledSink reads so slowly that everything the server sends ahead has to wait.
type settledSink struct {
	*bustest.Sink
	nc *nats.Conn
	n  int
}

func (s *settledSink) Record(r toolcall.JournalEntry) {
	if s.n++; s.n%4 == 0 {
		for before, same := uint64(0), 0; same < 3; same++ {
			if now := s.nc.Stats().InMsgs; now != before {
				before, same = now, 0
			}
			_ = s.nc.Flush() // the count shows what arrived
		}
	}
	s.Sink.Record(r)
}

// A reader that is slower than the server misses nothing and reads nothing twice.
func TestWatchSlowReader(t *testing.T) {
	const records = 1500
	b := bustest.New(t, bustest.Listening())
	j, prev := b.Journal("test"), uint64(0)
	for n := range records {
		prev = bustest.MustAppend(t, j, bustest.CallRecord(bustest.ID(n), bustest.CallKey("c1"), message.ToolCallPending, "propose"), prev)
	}
	nc := b.Dial("engine")
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Errorf("the connection reports %v", err) })
	slow, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &settledSink{Sink: bustest.NewSink(), nc: nc}
	done := make(chan error, 1)
	go func() { done <- slow.Watch(ctx, 0, s) }()
	s.Wait(t, "all", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == records && caught == records })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %v, want canceled", err)
	}
	if n := nc.Stats().InMsgs; n > records+records/4 {
		t.Errorf("%d messages came for %d records", n, records)
	}
}
