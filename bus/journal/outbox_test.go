package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

func openOutbox(t *testing.T, j *journal.Journal) *journal.Outbox {
	t.Helper()
	o, err := journal.OpenOutbox(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// follow starts to follow a destination and returns the deliveries; end stops it.
func follow(t *testing.T, o *journal.Outbox, name string) (out chan toolcall.Delivery, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, done := make(chan toolcall.Delivery, 100), make(chan struct{})
	go func() {
		defer close(done)
		if err := o.Follow(ctx, name, func(_ context.Context, d toolcall.Delivery) { out <- d }); !errors.Is(err, context.Canceled) {
			t.Errorf("Follow: %v", err)
		}
	}()
	end = func() { cancel(); <-done }
	t.Cleanup(end)
	return out, end
}

func handed(t *testing.T, out chan toolcall.Delivery) toolcall.Delivery {
	t.Helper()
	select {
	case d := <-out:
		return d
	case <-time.After(bustest.Patience):
		t.Fatal("nothing was delivered")
		return toolcall.Delivery{}
	}
}

// TestOutbox checks that each event record is delivered to one of several processes until it is
// resolved, even if processes die.
func TestOutbox(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	bustest.MustAppend(t, j, bustest.CallRecord("f0", bustest.CallKey("c0"), message.ToolCallPending, "propose"), 0)
	o := openOutbox(t, j)
	// The destination begins when it is first followed.
	first, end := follow(t, o, "hook")
	begun(t, b, "hook")
	seq := bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	d := handed(t, first)
	if d.Record.Seq != seq || d.Record.Invalid != nil || d.Attempt != 1 {
		t.Errorf("handed out %+v", d)
	}
	if err := d.Again(0); err != nil {
		t.Fatal(err)
	}
	again := handed(t, first)
	if again.Record.Seq != d.Record.Seq || again.Attempt != 2 {
		t.Errorf("asked for again, handed out %+v", again)
	}
	end() // it dies before it resolves the delivery: nothing is lost
	if err := again.Again(0); err != nil {
		t.Fatal(err)
	}
	seq = bustest.MustAppend(t, j, bustest.WorkRecord("f2", bustest.CallKey("c2"), "web"), 0)
	second, _ := follow(t, openOutbox(t, b.Journal("test")), "hook")
	third, _ := follow(t, openOutbox(t, b.Journal("test")), "hook")
	var got []uint64
	for range 2 {
		var d toolcall.Delivery
		select {
		case d = <-second:
		case d = <-third:
		case <-time.After(bustest.Patience):
			t.Fatal("nothing was delivered")
		}
		got = append(got, d.Record.Seq)
		if err := d.Done(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, []uint64{again.Record.Seq, seq}) {
		t.Errorf("handed out %v, want %d and %d", got, again.Record.Seq, seq)
	}
	r, err := o.Record(t.Context(), seq)
	if err != nil || r.Record == nil || r.Record.ID != "f2" {
		t.Errorf("Record = %+v, %v", r, err)
	}
	if _, err := o.Record(t.Context(), seq+100); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("Record of nothing: %v", err)
	}
}

// begun waits until a destination is followed. Records written from now on are delivered, earlier
// ones are not.
func begun(t *testing.T, b *bustest.Bus, name string) {
	t.Helper()
	st := bustest.Stream(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	for {
		_, err := st.Consumer(ctx, "h_"+name)
		if err == nil {
			return
		}
		if !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatalf("%s is not followed: %v", name, err)
		}
	}
}

// noted waits until it is stored up to which record the destination hook has received all.
func noted(t *testing.T, b *bustest.Bus, seq uint64) jetstream.KeyValue {
	t.Helper()
	kv, err := bustest.JetStream(t, b).KeyValue(t.Context(), journal.OutboxBucketName("test"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := kv.Watch(t.Context(), "at.hook")
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop() //nolint:errcheck // the end of the connection does so too
	for {
		select {
		case e := <-w.Updates():
			if e != nil && strings.Contains(string(e.Value()), fmt.Sprintf(`"seq":%d,`, seq)) {
				return kv
			}
		case <-time.After(bustest.Patience):
			t.Fatal("the place of hook is not noted")
		}
	}
}

// A destination whose consumer was deleted continues where it was, also in another process.
func TestOutboxWithoutItsConsumer(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	before := bustest.MustAppend(t, j, bustest.CallRecord("f0", bustest.CallKey("c0"), message.ToolCallPending, "propose"), 0)
	_, end := follow(t, openOutbox(t, j), "hook")
	noted(t, b, before)
	end()
	if err := bustest.Stream(t, b).DeleteConsumer(t.Context(), "h_hook"); err != nil {
		t.Fatal(err)
	}
	seq := bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	got, end := follow(t, openOutbox(t, j), "hook")
	if d := handed(t, got); d.Record.Seq != seq {
		t.Errorf("delivered %d, want %d", d.Record.Seq, seq)
	}
	// An engine that was cut off while the destination was forgotten knows the place itself.
	kv := noted(t, b, before)
	if err := kv.Purge(t.Context(), "at.hook"); err != nil {
		t.Fatal(err)
	}
	if err := bustest.Stream(t, b).DeleteConsumer(t.Context(), "h_hook"); err != nil {
		t.Fatal(err)
	}
	d := handed(t, got)
	if d.Record.Seq != seq {
		t.Errorf("delivered %d, want %d again", d.Record.Seq, seq)
	}
	if err := d.Again(0); err != nil {
		t.Fatal(err)
	}
	end()
	third, _ := follow(t, openOutbox(t, j), "hook") // the consumer of this setting is taken as it is
	handed(t, third)
}

// A consumer that is deleted while a process opens it loses no messages.
func TestOutboxWhoseConsumerVanishes(t *testing.T) {
	w := newArchiving(t)
	add := func(id string) uint64 {
		return bustest.MustAppend(t, w.j, bustest.CallRecord(id, bustest.CallKey(id), message.ToolCallPending, "propose"), 0)
	}
	before := add("before")
	_, end := follow(t, openOutbox(t, w.j), "hook")
	noted(t, w.Bus, before)
	end()
	seq := add("between")
	st := bustest.Stream(t, w.Bus)
	var once sync.Once
	j := w.openThrough(func(c net.Conn, b []byte) (int, error) {
		if bytes.Contains(b, []byte("$JS.API.CONSUMER.CREATE.ASKANCE_test.h_hook")) {
			once.Do(func() {
				if err := st.DeleteConsumer(t.Context(), "h_hook"); err != nil {
					t.Error(err)
				}
			})
		}
		return c.Write(b)
	})
	got, _ := follow(t, openOutbox(t, j), "hook")
	if d := handed(t, got); d.Record.Seq != seq {
		t.Errorf("delivered %d, want %d", d.Record.Seq, seq)
	}
}

// A consumer of something else with the name of a destination stays as it is.
func TestOutboxOfAForeignConsumer(t *testing.T) {
	b := bustest.New(t)
	o, st := openOutbox(t, b.Journal("test")), bustest.Stream(t, b)
	cfg := jetstream.ConsumerConfig{Durable: "h_hook", AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverNewPolicy}
	if _, err := st.CreateConsumer(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if err := o.Follow(ctx, "hook", nil); !errors.Is(err, message.ErrForeignStream) {
		t.Errorf("Follow: %v", err)
	}
	if c, err := st.Consumer(t.Context(), "h_hook"); err != nil || c.CachedInfo().Config.MaxDeliver != -1 || c.CachedInfo().Config.FilterSubjects != nil {
		t.Errorf("the consumer is %+v, %v", c, err)
	}
}

// What a killed process held comes again soon.
func TestOutboxOfAKilledProcess(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		nc := b.Conn("engine")
		killed, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{})
		if err != nil {
			t.Fatal(err)
		}
		first, end := follow(t, openOutbox(t, killed), "hook")
		begun(t, b, "hook")
		stream := bustest.Stream(t, b)
		made, err := stream.Consumer(t.Context(), "h_hook")
		if err != nil {
			t.Fatal(err)
		}
		older := made.CachedInfo().Config
		older.AckWait = 2 * time.Minute // as an older build made it
		if _, err := stream.UpdateConsumer(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		j := b.Journal("test")
		bustest.MustAppend(t, j, bustest.CallRecord("f1", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
		handed(t, first)
		nc.Close()
		end()
		second, _ := follow(t, openOutbox(t, j), "hook")
		select {
		case <-second:
		case <-time.After(40 * time.Second):
			t.Error("the delivery of a killed process did not come again within 40 seconds")
		}
	})
}

// A record that waited for a slow receiver's other messages has its whole time for its own attempt.
func TestOutboxOfASlowReceiver(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		j := b.Journal("test")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		var attempts []int
		go func() {
			_ = openOutbox(t, j).Follow(ctx, "hook", func(ctx context.Context, d toolcall.Delivery) {
				mu.Lock()
				attempts = append(attempts, d.Attempt)
				mu.Unlock()
				time.Sleep(70 * time.Second) // the longest timeout of a destination, and a slow look at the request
				_ = d.Done(ctx)
			})
		}()
		begun(t, b, "hook")
		const records = 130
		for i := range records {
			bustest.MustAppend(t, j, bustest.CallRecord(fmt.Sprint("f", i), bustest.CallKey(fmt.Sprint("c", i)), message.ToolCallPending, "propose"), 0)
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if len(attempts) != records || slices.Max(attempts) != 1 {
			t.Errorf("%d attempts, the highest number is %d; want %d, all with number 1", len(attempts), slices.Max(attempts), records)
		}
	})
}

// The log says why a destination gets nothing.
func TestOutboxThatCannotBeRead(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		b := bustest.New(t, bustest.In(dir))
		var log strings.Builder
		nc := b.Conn("engine")
		j, err := journal.Open(t.Context(), nc, "test", b.Keys(), journal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		_, end := follow(t, openOutbox(t, j), "hook")
		begun(t, b, "hook")
		nc.Close()
		time.Sleep(time.Minute)
		end()
		if n := strings.Count(log.String(), "destination=hook"); n < 2 || n > 6 || !strings.Contains(log.String(), "connection closed") {
			t.Errorf("after a minute without a connection the log is %q", log.String())
		}
	})
}

func TestOutboxLetters(t *testing.T) {
	j := bustest.New(t).Journal("test")
	o := openOutbox(t, j)
	letters := []toolcall.DeadLetter{
		{Destination: "a", Seq: 9, Attempts: 3, Error: "refused", At: bustest.At},
		{Destination: "a", Seq: 10, Attempts: 1, Error: "gone", At: bustest.At},
		{Destination: "b", Seq: 1, Attempts: 8, Error: "late", At: bustest.At},
	}
	for _, l := range slices.Backward(letters) {
		if err := o.AddDeadLetter(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	got, err := openOutbox(t, j).DeadLetters(t.Context())
	if d := cmp.Diff(letters, got); err != nil || d != "" {
		t.Errorf("Letters: %v\n%s", err, d)
	}
	if err := o.RemoveDeadLetter(t.Context(), "a", 10); err != nil {
		t.Fatal(err)
	}
	if err := o.RemoveDeadLetter(t.Context(), "a", 10); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("dug up twice: %v", err)
	}
	if got, err := o.DeadLetters(t.Context()); err != nil || len(got) != 2 {
		t.Errorf("then there are %v, %v", got, err)
	}
	journal.LimitOutbox(o, 3) // two letters, and for a minute the mark of a removed one
	if err := o.AddDeadLetter(t.Context(), letters[1]); !errors.Is(err, message.ErrFull) {
		t.Errorf("one more dead letter than the bucket takes: %v", err)
	}
	letters[0].Attempts++
	if err := o.AddDeadLetter(t.Context(), letters[0]); err != nil {
		t.Errorf("a retry of a dead letter that failed: %v", err)
	}
	for _, token := range []string{"1", "2", "3", "4"} {
		if first, err := o.UseOnce(t.Context(), token, time.Hour); err != nil || !first {
			t.Fatalf("a token: %t, %v", first, err)
		}
	}
	journal.LimitOutbox(o, 4)
	if err := o.AddDeadLetter(t.Context(), letters[1]); err != nil {
		t.Errorf("a dead letter among used tokens: %v", err)
	}
	if got, err := o.DeadLetters(t.Context()); err != nil || cmp.Diff(letters, got) != "" {
		t.Errorf("in the end there are %v, %v", got, err)
	}
	for _, name := range []string{"", "a.b", "a*", ">", "a b", "ü", string(make([]byte, 65))} {
		if err := o.AddDeadLetter(t.Context(), toolcall.DeadLetter{Destination: name}); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("destination %q: %v", name, err)
		}
		if err := o.Follow(t.Context(), name, nil); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("following %q: %v", name, err)
		}
	}
}

// TestOutboxUseOnce uses one token in many places at once.
func TestOutboxUseOnce(t *testing.T) {
	j := bustest.New(t).Journal("test")
	firsts := make(chan bool, 16)
	for range cap(firsts) {
		o := openOutbox(t, j)
		go func() {
			first, err := o.UseOnce(t.Context(), "to.ken *>", time.Hour)
			if err != nil {
				t.Error(err)
			}
			firsts <- first
		}()
	}
	n := 0
	for range cap(firsts) {
		if <-firsts {
			n++
		}
	}
	if n != 1 {
		t.Errorf("used for the first time %d times", n)
	}
	if first, err := openOutbox(t, j).UseOnce(t.Context(), "another", time.Hour); err != nil || !first {
		t.Errorf("another token: %v, %v", first, err)
	}
}
