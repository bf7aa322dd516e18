package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestAppendConflicts(t *testing.T) {
	j := bustest.New(t).Journal("test")
	key := bustest.CallKey("c1")
	seq := bustest.MustAppend(t, j, bustest.CallRecord("f1", key, message.ToolCallPending, "propose"), 0)
	bustest.MustAppend(t, j, bustest.CallRecord("f2", key, message.ToolCallAllowed, "allow"), seq)
	for _, prev := range []uint64{0, seq, 99} {
		_, err := j.Append(t.Context(), bustest.CallRecord("late", key, message.ToolCallFinished, "deny"), prev)
		if !errors.Is(err, message.ErrConflict) {
			t.Errorf("Append after %d: %v, want a conflict", prev, err)
		}
	}
	if h, _ := j.History(t.Context(), key); len(h) != 2 {
		t.Errorf("the losers were stored: %d event records", len(h))
	}
}

// A caller that changes a record after appending it changes neither the stored record nor the
// base of the next one.
func TestAppendBuildsOnWhatIsStored(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	key := bustest.CallKey("c1")
	first := bustest.CallRecord("f1", key, message.ToolCallPending, "propose")
	first.Call.Decision = &toolcall.Decision{Behavior: message.BehaviorAsk, Reason: "as it was"}
	seq := bustest.MustAppend(t, j, first, 0)
	first.Call.Decision.Reason = "as it is now"
	next := bustest.CallRecord("f2", key, message.ToolCallAsking, "ask")
	next.Call.Decision = first.Call.Decision
	bustest.MustAppend(t, j, next, seq)
	h, err := b.Journal("test").History(t.Context(), key)
	if err != nil || len(h) != 2 {
		t.Fatalf("History = %v, %v", h, err)
	}
	for i, want := range []string{"as it was", "as it is now"} {
		if got := h[i].Record.Call.Decision.Reason; got != want {
			t.Errorf("record %d has the reason %q, want %q", i, got, want)
		}
	}
}

// Appending an event record again after its acknowledgement was lost returns its sequence and does
// not store it twice.
func TestAppendAgainAfterALostAck(t *testing.T) {
	j := bustest.New(t).Journal("test")
	key := bustest.CallKey("c1")
	f1 := bustest.CallRecord("f1", key, message.ToolCallPending, "propose")
	seq := bustest.MustAppend(t, j, f1, 0)
	if again := bustest.MustAppend(t, j, f1, 0); again != seq {
		t.Errorf("appended again: %d, want %d", again, seq)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("f2", key, message.ToolCallAllowed, "allow"), seq)
	if again := bustest.MustAppend(t, j, f1, 0); again != seq {
		t.Errorf("appended again after the entity moved on: %d, want %d", again, seq)
	}
}

func TestAppendRace(t *testing.T) {
	b := bustest.New(t)
	j1, j2 := b.Journal("test"), b.Journal("test") // two engines
	key := bustest.CallKey("c1")
	prev := bustest.MustAppend(t, j1, bustest.CallRecord("f0", key, message.ToolCallAsking, "ask"), 0)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 64 {
		wg.Go(func() {
			<-start
			rec := bustest.CallRecord(bustest.ID(i), key, message.ToolCallAllowed, "approve")
			if i%2 == 1 { // a task is on another subject of the same entity
				rec = bustest.WorkRecord(bustest.ID(i), key, "echo")
			}
			j := j1
			if i%4 >= 2 {
				j = j2
			}
			switch _, err := j.Append(context.Background(), rec, prev); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, message.ErrConflict):
				lost.Add(1)
			default:
				t.Errorf("racer %d: %v", i, err)
			}
		})
	}
	close(start)
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 63 {
		t.Errorf("%d won, %d lost; want 1 and 63", won.Load(), lost.Load())
	}
	if h, _ := j1.History(t.Context(), key); len(h) != 2 {
		t.Errorf("%d event records, want 2", len(h))
	}
}

func TestAppendRefuses(t *testing.T) {
	j := bustest.New(t, bustest.With(func(o *embed.Options) { o.MaxPayload = 64 << 10 })).Journal("test")
	big := bustest.CallRecord("big", bustest.CallKey("c1"), message.ToolCallPending, "propose")
	big.Call.Input = `"` + strings.Repeat("x", 64<<10) + `"`
	elsewhere := bustest.CallKey("c1")
	elsewhere.Space = "other"
	for _, tc := range []struct {
		name   string
		record *toolcall.EventRecord
		want   error
	}{
		{"too large", big, message.ErrTooLarge},
		{"no key", &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "x"}, message.ErrInvalid},
		{"another space", bustest.CallRecord("f", elsewhere, message.ToolCallPending, "propose"), message.ErrInvalid},
		{"id with a line break", bustest.CallRecord("f\r\nNats-TTL: 1s", bustest.CallKey("c1"), message.ToolCallPending, "propose"), message.ErrInvalid},
		{"no id", bustest.CallRecord("", bustest.CallKey("c1"), message.ToolCallPending, "propose"), message.ErrInvalid},
		{"not UTF-8", bustest.CallRecord("f", bustest.CallKey("c1"), message.ToolCallPending, "\xff"), message.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := j.Append(t.Context(), tc.record, 0); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
	if recs, last, err := j.Read(t.Context(), bustest.CallKey("").SessionKey(), 0, 10); err != nil || len(recs) != 0 || last != 0 {
		t.Errorf("a refused record was stored: %v %d %v", recs, last, err)
	}
}

// flaky is a Publisher whose faults are scripted: each publish takes the next.
type flaky struct {
	journal.Publisher
	mu     sync.Mutex // guards script and calls
	script []string
	calls  int
}

func (f *flaky) Publish(ctx context.Context, w journal.Write) (journal.Ack, error) {
	f.mu.Lock()
	f.calls++
	step := ""
	if len(f.script) > 0 {
		step, f.script = f.script[0], f.script[1:]
	}
	f.mu.Unlock()
	switch step {
	case "stored, ack lost":
		if _, err := f.Publisher.Publish(ctx, w); err != nil {
			return journal.Ack{}, err
		}
		<-ctx.Done()
		return journal.Ack{}, ctx.Err()
	case "stored, batch lost":
		if _, err := f.Publisher.Publish(ctx, w); err != nil {
			return journal.Ack{}, err
		}
		<-ctx.Done()
		return journal.Ack{}, journal.ErrBatchLost
	case "lost":
		<-ctx.Done()
		return journal.Ack{}, ctx.Err()
	case "10164":
		return journal.Ack{}, &jetstream.APIError{Code: 400, ErrorCode: 10164, Description: "wrong last sequence"}
	case "stored by others":
		if _, err := f.Publisher.Publish(ctx, w); err != nil {
			return journal.Ack{}, err
		}
		return journal.Ack{}, &jetstream.APIError{Code: 503, ErrorCode: 10063, Description: "expected stream sequence does not match"}
	case "no responders":
		return journal.Ack{}, nats.ErrNoResponders
	case "in process":
		return journal.Ack{}, &jetstream.APIError{Code: 409, ErrorCode: 10158, Description: "duplicate message id is in process"}
	case "full":
		return journal.Ack{}, &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}
	case "resources":
		return journal.Ack{}, &jetstream.APIError{Code: 503, ErrorCode: 10023, Description: "insufficient resources"}
	case "too large":
		return journal.Ack{}, &jetstream.APIError{Code: 400, ErrorCode: 10054, Description: "message size exceeds maximum allowed"}
	case "other stream":
		ack, err := f.Publisher.Publish(ctx, w)
		ack.Stream = "ELSEWHERE"
		return ack, err
	}
	return f.Publisher.Publish(ctx, w)
}

// Append when the server's answer is lost, late or bad. The test runs on fake time, so that waiting
// for answers that never come takes no time.
func TestAppendFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		script []string
		want   error // nil: success
		stored int   // event records at the end
	}{
		{"ack lost once", []string{"stored, ack lost"}, nil, 1},
		{"publish lost once", []string{"lost"}, nil, 1},
		{"lost and lost ack", []string{"lost", "stored, ack lost", "lost"}, nil, 1},
		{"no responders at first", []string{"no responders", "no responders", "in process"}, nil, 1},
		{"no responders", repeat("no responders", 99), message.ErrUnavailable, 0},
		{"never an answer", repeat("lost", 99), message.ErrUnknownOutcome, 0},
		{"stored, never an ack", append([]string{"stored, ack lost"}, repeat("lost", 99)...), message.ErrUnknownOutcome, 1},
		{"full", []string{"full"}, message.ErrFull, 0},
		{"out of resources", []string{"resources"}, message.ErrFull, 0},
		{"too large", []string{"too large"}, message.ErrTooLarge, 0},
		{"full after a lost one", []string{"lost", "full"}, message.ErrUnknownOutcome, 0},
		{"stored, then told full", []string{"stored, ack lost", "full"}, message.ErrUnknownOutcome, 1},
		{"behind a write on its way", []string{"10164", "10164"}, nil, 1},
		{"behind a write that is never stored", repeat("10164", 99), message.ErrUnavailable, 0},
		{"a conflict with itself", []string{"stored, ack lost", "10164"}, nil, 1},
		{"in the pipeline behind itself", []string{"lost", "10164", "10164"}, nil, 1},
		{"the leader could not store it, others could", []string{"stored by others"}, nil, 1},
		{"the same, and full", []string{"stored by others", "full"}, message.ErrUnknownOutcome, 1},
		{"another stream answered", []string{"other stream"}, message.ErrForeignStream, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := bustest.Dir(t)
			synctest.Test(t, func(t *testing.T) {
				b := bustest.New(t, bustest.In(dir))
				p := &flaky{Publisher: journal.NewDirect(b.Conn("engine")), script: tc.script}
				j := b.JournalWith("test", journal.Options{Publisher: p})
				key := bustest.CallKey("c1")
				seq, err := j.Append(t.Context(), bustest.CallRecord("f1", key, message.ToolCallPending, "propose"), 0)
				if tc.want == nil && (err != nil || seq != 1) || tc.want != nil && !errors.Is(err, tc.want) {
					t.Errorf("Append = %d, %v; want %v", seq, err, tc.want)
				}
				if h, err := j.History(t.Context(), key); err != nil || len(h) != tc.stored {
					t.Errorf("%d event records, %v; want %d", len(h), err, tc.stored)
				}
			})
		})
	}
}

func repeat(s string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = s
	}
	return out
}

// late stores a write after the caller has stopped waiting, or when told to.
type late struct {
	journal.Publisher
	now chan struct{}
}

func (l late) Publish(ctx context.Context, w journal.Write) (journal.Ack, error) {
	go func() {
		<-l.now
		_, _ = l.Publisher.Publish(context.Background(), w)
	}()
	<-ctx.Done()
	return journal.Ack{}, ctx.Err()
}

// Append reports that nothing was written only if that is certain: a fault of another stream proves
// nothing about this one.
func TestFullIsCertain(t *testing.T) {
	for _, tc := range []struct {
		broken string
		want   error
	}{
		{"ASKANCE_other", message.ErrUnknownOutcome},
		{"ASKANCE_test", message.ErrFull},
	} {
		t.Run(tc.broken, func(t *testing.T) {
			dir := bustest.Dir(t)
			synctest.Test(t, func(t *testing.T) {
				b := bustest.New(t, bustest.In(dir))
				p := late{journal.NewDirect(b.Conn("engine")), make(chan struct{})}
				j := b.JournalWith("test", journal.Options{Publisher: p, Health: func() error {
					return &journal.HealthError{Problems: []string{"write error"}, Broken: []string{tc.broken}}
				}})
				_, err := j.Append(t.Context(), bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
				if !errors.Is(err, tc.want) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				close(p.now)
			})
		})
	}
}

// If another engine wrote while this engine's acknowledgement was lost, the result is certainly a
// conflict.
func TestAppendLostThenOvertaken(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		other := b.Journal("test")
		key := bustest.CallKey("c1")
		p := &flaky{Publisher: journal.NewDirect(b.Conn("engine")), script: []string{"lost"}}
		j := b.JournalWith("test", journal.Options{Publisher: p})
		done := make(chan error, 1)
		go func() {
			_, err := j.Append(context.Background(), bustest.CallRecord("mine", key, message.ToolCallPending, "propose"), 0)
			done <- err
		}()
		time.Sleep(time.Second) // the publish waits for its answer
		bustest.MustAppend(t, other, bustest.CallRecord("theirs", key, message.ToolCallPending, "propose"), 0)
		if err := <-done; !errors.Is(err, message.ErrConflict) {
			t.Errorf("%v, want a conflict", err)
		}
	})
}

func TestAppendCancelled(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		p := &flaky{Publisher: journal.NewDirect(b.Conn("engine")), script: repeat("lost", 9)}
		j := b.JournalWith("test", journal.Options{Publisher: p})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := j.Append(ctx, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrUnknownOutcome) {
			t.Errorf("cancelled under way: %v", err)
		}
		if d := time.Since(began); d > 200*time.Millisecond {
			t.Errorf("returned %v after the end of its context", d)
		}
		before := p.calls
		if _, err := j.Append(ctx, bustest.CallRecord("f2", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrUnavailable) {
			t.Errorf("cancelled before: %v", err)
		}
		if p.calls != before {
			t.Error("a message was sent after the end of the context")
		}
	})
}

func TestAppendOnAClosedConnection(t *testing.T) {
	b := bustest.New(t)
	nc := b.Conn("engine")
	j, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if _, err := j.Append(t.Context(), bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	if _, err := j.AppendEvent(t.Context(), "rt", bustest.CallKey("").ReplyKey(), events(1)); !errors.Is(err, message.ErrUnavailable) || message.AsError("", err).Hint == "" {
		t.Errorf("events: %v, want unavailable with a hint", err)
	}
	if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: job}); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("a tool: %v, want unavailable", err)
	}
	if _, err := j.Last(t.Context(), bustest.CallKey("c1")); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("a read: %v, want unavailable", err)
	}
	if err := j.Watch(t.Context(), 0, bustest.NewSink()); err == nil {
		t.Error("Watch on a closed connection returned no error")
	}
}

func TestAppendManyEntities(t *testing.T) {
	j := bustest.New(t).Journal("test")
	var wg sync.WaitGroup
	for c := range 16 {
		wg.Go(func() {
			key := bustest.CallKey(fmt.Sprint("c", c))
			prev := uint64(0)
			for n := range 8 {
				seq, err := j.Append(context.Background(), bustest.CallRecord(fmt.Sprintf("f-%d-%d", c, n), key, message.ToolCallPending, "propose"), prev)
				if err != nil {
					t.Error(err)
					return
				}
				prev = seq
			}
			if h, err := j.History(context.Background(), key); err != nil || len(h) != 8 {
				t.Errorf("call %d has %d event records, %v", c, len(h), err)
			}
		})
	}
	wg.Wait()
}

// A record of an unanswered batch is acknowledged once the server is known to have synced it: by
// the server's health, or by a record that it stored later.
func TestRecordOfALostBatchIsOnTheDisk(t *testing.T) {
	broken := &journal.HealthError{Problems: []string{"write error"}, Broken: []string{"ASKANCE_test"}}
	for _, tc := range []struct {
		name   string
		health func() error
		later  bool // another record is stored meanwhile
		want   error
	}{
		{"the server here is well", func() error { return nil }, false, nil},
		{"the server here is broken", func() error { return broken }, false, message.ErrUnknownOutcome},
		{"a server elsewhere", nil, false, message.ErrUnknownOutcome},
		{"a server elsewhere that stores more", nil, true, nil},
	} {
		for _, script := range [][]string{{"stored, batch lost"}, {"stored, batch lost", "10164"}} {
			t.Run(tc.name+", "+script[len(script)-1], func(t *testing.T) {
				dir := bustest.Dir(t)
				synctest.Test(t, func(t *testing.T) {
					b := bustest.New(t, bustest.In(dir))
					p := &flaky{Publisher: journal.NewDirect(b.Conn("engine")), script: script}
					j := b.JournalWith("test", journal.Options{Publisher: p, Health: tc.health})
					done := make(chan error, 1)
					go func() {
						_, err := j.Append(context.Background(), bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
						done <- err
					}()
					time.Sleep(5 * time.Second) // the batch is given up and the record is found
					if tc.later {
						bustest.MustAppend(t, j, bustest.CallRecord("f2", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0)
					}
					if err := <-done; tc.want == nil && err != nil || tc.want != nil && !errors.Is(err, tc.want) {
						t.Errorf("%v, want %v", err, tc.want)
					}
				})
			})
		}
	}
}

// held is a Publisher that delays the acknowledgement of one record.
type held struct {
	journal.Publisher
	direct journal.Publisher
	id     string
	gate   chan struct{}
}

func (h held) Publish(ctx context.Context, w journal.Write) (journal.Ack, error) {
	if w.Msg.Header.Get(nats.MsgIdHdr) != h.id {
		return h.Publisher.Publish(ctx, w)
	}
	ack, err := h.direct.Publish(ctx, w)
	<-h.gate
	return ack, err
}

// The late acknowledgement of an earlier record from an external server does not prove that the
// record of a lost batch is on the disk.
func TestEarlierRecordProvesNoSync(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		direct := journal.NewDirect(b.Conn("engine"))
		p := held{&flaky{Publisher: direct, script: []string{"stored, batch lost"}}, direct, "f1", make(chan struct{})}
		j := b.JournalWith("test", journal.Options{Publisher: p})
		var wg sync.WaitGroup
		wg.Go(func() {
			bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
		})
		synctest.Wait()
		wg.Go(func() {
			_, err := j.Append(context.Background(), bustest.CallRecord("f2", bustest.CallKey("c2"), message.ToolCallPending, "propose"), 0)
			if !errors.Is(err, message.ErrUnknownOutcome) || !errors.Is(err, toolcall.ErrUnsynced) {
				t.Errorf("%v, want an unknown outcome", err)
			}
		})
		time.Sleep(5 * time.Second) // the batch is given up and the record is found
		close(p.gate)
		wg.Wait()
	})
}
