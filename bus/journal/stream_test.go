package journal_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

func TestOpenJournalIsIdempotent(t *testing.T) {
	b := bustest.New(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			nc, err := b.Connect(context.Background(), bus.ConnectOptions{Principal: "engine"})
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			if _, err := journal.Open(context.Background(), nc, "test", b.Keys(), journal.Options{}); err != nil {
				t.Errorf("one of several engines: %v", err)
			}
		})
	}
	wg.Wait()
	info, err := bustest.Stream(t, b).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := info.Config; c.Discard != jetstream.DiscardNew || c.Storage != jetstream.FileStorage || c.MaxAge != 0 || c.MaxMsgs != -1 || c.MaxBytes != -1 {
		t.Errorf("the stream can lose records: %+v", c)
	}
	if m := info.Config.Metadata; m["askance.space"] != "test" || m["askance.protocol"] != "1" || m["askance.records"] != "3" || m["askance.key"] != b.Keys().ID() {
		t.Errorf("metadata %v", m)
	}
}

func TestForeignStreamIsRefused(t *testing.T) {
	subjects := []string{"askance.v1.test.record.>", "askance.v1.test.event.>"}
	for _, tc := range []struct {
		name string
		make func(c *jetstream.StreamConfig)
		want string // in the error's text
	}{
		{"made by something else", func(c *jetstream.StreamConfig) { c.Metadata = nil }, "not created by askance"},
		{"of another space", func(c *jetstream.StreamConfig) { c.Metadata["askance.space"] = "prod" }, "not created by askance for this space"},
		{"of another protocol", func(c *jetstream.StreamConfig) { c.Metadata["askance.protocol"] = "2" }, `protocol "2"`},
		{"from before event records had a version of their own", func(c *jetstream.StreamConfig) { delete(c.Metadata, "askance.records") }, `event records of version "1", this engine reads version 3`},
		{"of later event records", func(c *jetstream.StreamConfig) { c.Metadata["askance.records"] = "4" }, `event records of version "4", this engine reads version 3`},
		{"of other keys", func(c *jetstream.StreamConfig) { c.Metadata["askance.key"] = "ffff" }, `engine keys "ffff"`},
		{"evicts by age", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }, "max_age"},
		{"evicts by number", func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }, "max_msgs"},
		{"evicts by number per subject", func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, "max_msgs"},
		{"discards the old", func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, "discards old"},
		{"in memory", func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "storage"},
		{"a work queue", func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, "retention"},
		{"compressed", func(c *jetstream.StreamConfig) { c.Compression = jetstream.S2Compression }, "compression"},
		{"with rollup", func(c *jetstream.StreamConfig) { c.AllowRollup = true }, "allow_rollup"},
		{"with expiry", func(c *jetstream.StreamConfig) { c.AllowMsgTTL = true }, "allow_msg_ttl"},
		{"with schedules", func(c *jetstream.StreamConfig) {
			c.AllowMsgSchedules, c.AllowRollup, c.Discard = true, true, jetstream.DiscardOld
		}, "on schedule"},
		{"without acknowledgements", func(c *jetstream.StreamConfig) { c.NoAck, c.AllowAtomicPublish = true, false }, "no_ack"},
		{"persisting later", func(c *jetstream.StreamConfig) {
			c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		}, "persist_mode"},
		{"with more subjects", func(c *jetstream.StreamConfig) { c.Subjects = append(subjects, "mine.>") }, "subjects"},
		{"with other subjects", func(c *jetstream.StreamConfig) {
			c.Subjects = []string{"askance.v1.test.record.*.*.*.f", "askance.v1.test.event.>"}
		}, "subjects"},
		{"without direct gets", func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "allow_direct"},
		{"forgetting ids", func(c *jetstream.StreamConfig) { c.Duplicates = time.Second }, "message ids"},
		{"under another name", func(c *jetstream.StreamConfig) { c.Name = "MINE" }, "stream MINE already stores"},
		{"rewriting subjects", func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "askance.v1.test.event.>", Destination: "x.>"}
		}, "rewrites"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bustest.New(t)
			cfg := jetstream.StreamConfig{
				Name: "ASKANCE_test", Subjects: subjects, Discard: jetstream.DiscardNew, AllowDirect: true, AllowAtomicPublish: true,
				Metadata: map[string]string{"askance.stream": "journal", "askance.space": "test", "askance.protocol": "1", "askance.records": "2", "askance.key": b.Keys().ID()},
			}
			tc.make(&cfg)
			if _, err := bustest.JetStream(t, b).CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			js := bustest.JetStream(t, b)
			if !cfg.NoAck { // otherwise there is no acknowledgement to wait for
				if _, err := js.Publish(t.Context(), "askance.v1.test.event.x.y.z", []byte("theirs")); err != nil {
					t.Fatal(err)
				}
			}
			before, err := js.Stream(t.Context(), cfg.Name)
			if err != nil {
				t.Fatal(err)
			}
			_, err = journal.Open(t.Context(), b.Conn("engine"), "test", b.Keys(), journal.Options{})
			after, serr := before.Info(t.Context())
			if serr != nil || !reflect.DeepEqual(after.Config, before.CachedInfo().Config) || after.State.Msgs != before.CachedInfo().State.Msgs {
				t.Errorf("the stream was changed: %+v, %v; it was %+v", after, serr, before.CachedInfo())
			}
			if !errors.Is(err, message.ErrForeignStream) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("OpenJournal: %v; want foreign stream: …%s…", err, tc.want)
			}
			if e := message.AsError("", err); err != nil && e.Hint == "" {
				t.Error("the error has no hint")
			}
		})
	}
}

// A stream whose settings were weakened while an engine uses it is not ready.
func TestEditedStreamIsNotReady(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	if err := j.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := bustest.Stream(t, b).CachedInfo().Config
	cfg.SubjectTransform = &jetstream.SubjectTransformConfig{Source: ">", Destination: "x.>"}
	if _, err := bustest.JetStream(t, b).UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := j.Ready(t.Context()); !errors.Is(err, message.ErrForeignStream) || !strings.Contains(err.Error(), "it rewrites subjects") {
		t.Errorf("Ready = %v", err)
	}
}

func TestOpenJournalRefusesBadSpaces(t *testing.T) {
	b := bustest.New(t)
	for _, space := range []toolcall.SpaceID{"", "a.b", "UPPER", ">"} {
		if _, err := journal.Open(t.Context(), b.Conn("engine"), space, b.Keys(), journal.Options{}); !errors.Is(err, message.ErrInvalid) {
			t.Errorf("space %q: %v, want invalid", space, err)
		}
	}
}

func TestDurability(t *testing.T) {
	b := bustest.New(t, bustest.Fsynced())
	for said, want := range map[journal.Durability]string{"": "cached", journal.DurabilityCached: "cached", journal.DurabilityFsynced: "fsynced"} {
		if got := b.JournalWith("test", journal.Options{Durability: said}).Durability(); got != want {
			t.Errorf("one server said to be %q: %q, want %q", said, got, want)
		}
	}
	if got := b.Journal("test").Durability(); got != "fsynced" {
		t.Errorf("an embedded fsynced server: %q", got)
	}
}

func TestEnsureQueue(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := j.EnsureQueue(context.Background(), toolcall.Queue{Tool: "web.search"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := b.Journal("test").EnsureQueue(t.Context(), toolcall.Queue{Tool: "web.search"}); err != nil {
		t.Errorf("another engine: %v", err)
	}
	c, err := bustest.Stream(t, b).Consumer(t.Context(), bus.ConsumerName(toolcall.Queue{Tool: "web.search"}))
	if err != nil {
		t.Fatal(err)
	}
	cfg := c.CachedInfo().Config
	if cfg.FilterSubject != "askance.v1.test.record.*.*.*.w.~d2ViLnNlYXJjaA" || cfg.MaxDeliver != -1 || cfg.AckPolicy != jetstream.AckExplicitPolicy || cfg.AckWait != 10*time.Second {
		t.Errorf("consumer %+v", cfg)
	}
}

func TestEnsureQueueRefuses(t *testing.T) {
	b := bustest.New(t)
	j := b.Journal("test")
	if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: ""}); !errors.Is(err, message.ErrInvalid) {
		t.Errorf("no name: %v", err)
	}
	if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: bustest.LongID}); !errors.Is(err, message.ErrTooLarge) {
		t.Errorf("long name: %v", err)
	}
	_, err := bustest.Stream(t, b).CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "w_echo", MaxDeliver: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.EnsureQueue(t.Context(), toolcall.Queue{Tool: "echo"}); !errors.Is(err, message.ErrForeignStream) {
		t.Errorf("a foreign consumer: %v", err)
	}
}

// A full stream refuses new calls while open ones can still finish, and accepts new ones again when
// it has room.
func TestFullStream(t *testing.T) {
	b := bustest.New(t)
	j := b.JournalWith("test", journal.Options{Stream: journal.StreamOptions{MaxBytes: 1 << 20}, HeadRoom: 256 << 10})
	big := func(rec *toolcall.EventRecord) *toolcall.EventRecord {
		rec.Call.Input = `"` + strings.Repeat("x", 32<<10) + rec.ID + `"` // each another, so that each is stored
		return rec
	}
	open := bustest.CallKey("open")
	prev := bustest.MustAppend(t, j, bustest.CallRecord("open", open, message.ToolCallPending, "propose"), 0)
	var err error
	taken := 0
	for ; err == nil && taken < 100; taken++ {
		_, err = j.Append(t.Context(), big(bustest.CallRecord(bustest.ID(taken), bustest.CallKey(bustest.ID(taken)), message.ToolCallPending, "propose")), 0)
	}
	if !errors.Is(err, message.ErrFull) || taken < 20 {
		t.Fatalf("after %d calls: %v, want full", taken, err)
	}
	if _, err := j.AppendEvent(t.Context(), "rt", open.ReplyKey(), events(1)); !errors.Is(err, message.ErrFull) {
		t.Errorf("an event in the head-room: %v, want full", err)
	}
	// The head-room is not for records that precede new calls either.
	session := &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "session", At: bustest.At, Engine: "e", Session: &toolcall.SessionState{Key: toolcall.Key{Space: "test", Session: "new"}, Runtime: "rt"}}
	if _, err := j.Append(t.Context(), session, 0); !errors.Is(err, message.ErrFull) {
		t.Errorf("the owner of a session in the head-room: %v, want full", err)
	}
	// An interrupt ends calls, and the head-room is for open calls …
	bustest.MustAppend(t, j, &toolcall.EventRecord{V: toolcall.RecordVersion, ID: "interrupt", At: bustest.At, Engine: "e", Reply: &toolcall.ReplyState{Key: open.ReplyKey(), Phase: toolcall.ReplyInterrupted}}, 0)
	prev = bustest.MustAppend(t, j, big(bustest.CallRecord("allowed", open, message.ToolCallAllowed, "allow")), prev)
	// … and when it is used up, the server refuses, and nothing is partly written.
	for n := 0; err == nil || n == 0; n++ {
		var seq uint64
		if seq, err = j.Append(t.Context(), big(bustest.CallRecord("more"+bustest.ID(n), open, message.ToolCallAllowed, "allow")), prev); err == nil {
			prev = seq
		}
		if n > 50 {
			t.Fatal("a stream of 1 MiB never fills up")
		}
	}
	if !errors.Is(err, message.ErrFull) {
		t.Fatalf("the full stream: %v, want full", err)
	}
	if last, err := j.Last(t.Context(), open); err != nil || last.Seq != prev {
		t.Errorf("Last = %d, %v; want %d", last.Seq, err, prev)
	}
	// An operator makes room.
	js := bustest.JetStream(t, b)
	cfg := bustest.Stream(t, b).CachedInfo().Config
	cfg.MaxBytes = 8 << 20
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	bustest.MustAppend(t, j, bustest.CallRecord("done", open, message.ToolCallFinished, "result"), prev)
	bustest.MustAppend(t, j, bustest.CallRecord("new", bustest.CallKey("new"), message.ToolCallPending, "propose"), 0)
}

// The server's own limit of disk space, smaller than the stream's.
func TestFullServer(t *testing.T) {
	dir := t.TempDir()
	b := bustest.New(t, bustest.In(dir), bustest.With(func(o *embed.Options) { o.MaxStore = 512 << 10 }))
	j := b.Journal("test")
	key, prev := bustest.CallKey("c1"), uint64(0)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		rec := bustest.CallRecord(bustest.ID(n), key, message.ToolCallPending, "propose")
		rec.Call.Input = `"` + strings.Repeat("x", 32<<10) + rec.ID + `"` // each another, so that each is stored
		var seq uint64
		if seq, err = j.Append(t.Context(), rec, prev); err == nil {
			prev = seq
		}
	}
	if !errors.Is(err, message.ErrFull) {
		t.Fatalf("%v, want full", err)
	}
	b.Close()
	again := bustest.New(t, bustest.In(dir)) // with room
	again.UseKeys(b.Keys())
	bustest.MustAppend(t, again.Journal("test"), bustest.CallRecord("done", key, message.ToolCallFinished, "result"), prev)
}
