package bus_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// forker is a Publisher that stores two writes after the same record and answers neither, like a
// leader whose disk is full. The server accepts both because they are one batch: see [bus.Write].
// When they are sent again it answers like a cluster, which checks the id before it compares the
// sequence: see TestForkOnACluster.
type forker struct {
	bus.Publisher
	nc *nats.Conn

	mu    sync.Mutex // guards all below
	armed bool
	held  []*nats.Msg
	holds chan struct{} // has one for each write in held
	both  chan struct{} // closed when both are stored
	acks  map[string]bus.Ack
	own   bool // the server answers itself when they come again
}

func newForker(nc *nats.Conn) *forker {
	return &forker{Publisher: bus.NewDirect(nc), nc: nc, holds: make(chan struct{}, 2), both: make(chan struct{})}
}

var errNoAnswer = errors.New("no answer")

func (f *forker) arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

func (f *forker) Publish(ctx context.Context, w bus.Write) (bus.Ack, error) {
	f.mu.Lock()
	ack, again := f.acks[w.Msg.Header.Get("Nats-Msg-Id")]
	f.mu.Unlock()
	if again && !f.own {
		return ack, nil
	}
	if !f.hold(w.Msg) {
		return f.Publisher.Publish(ctx, w)
	}
	f.holds <- struct{}{}
	select {
	case <-f.both:
		return bus.Ack{}, errNoAnswer
	case <-ctx.Done():
		return bus.Ack{}, context.Cause(ctx)
	}
}

func (f *forker) hold(m *nats.Msg) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || len(f.held) == 2 {
		return false
	}
	next := &nats.Msg{Subject: m.Subject, Data: slices.Clone(m.Data), Header: nats.Header{}}
	for name, values := range m.Header {
		next.Header[name] = slices.Clone(values)
	}
	if f.held = append(f.held, next); len(f.held) < 2 {
		return true
	}
	for i, m := range f.held {
		m.Header.Set("Nats-Batch-Id", "fork")
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
	}
	f.held[1].Header.Set("Nats-Batch-Commit", "1")
	f.acks = f.store()
	close(f.both)
	return true
}

// store returns the later answers by id, or none if the server did not store both.
func (f *forker) store() map[string]bus.Ack {
	if err := f.nc.PublishMsg(f.held[0]); err != nil {
		return nil
	}
	reply, err := f.nc.RequestMsg(f.held[1], patience)
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	if err != nil || strictjson.UnmarshalOpen(reply.Data, &ack) != nil || ack.Seq == 0 {
		return nil
	}
	acks := map[string]bus.Ack{}
	for i, m := range f.held {
		acks[m.Header.Get("Nats-Msg-Id")] = bus.Ack{Stream: ack.Stream, Seq: ack.Seq - 1 + uint64(i), Duplicate: true}
	}
	return acks
}

// forked is a journal in which the records 3 and 4 of a call follow the record 2.
type forked struct {
	*ledgered
	won, lost error // of the writers
}

// newForked begins the call with the given number of records before the fork.
func newForked(t *testing.T, before int) *forked {
	w := &forked{ledgered: &ledgered{Bus: bustest.New(t), t: t}}
	f := newForker(w.Conn("forker"))
	one, two := w.JournalWith("test", bus.JournalOptions{Publisher: f}), w.JournalWith("test", bus.JournalOptions{Publisher: f})
	w.j = one
	w.l = ledgerOf(t, one)
	mustAppend(t, one, callRecord("other", callKey("other"), message.ToolCallPending, "propose"), 0)
	prev := uint64(0)
	for i := range before {
		prev = mustAppend(t, one, callRecord(id(i), callKey("c1"), message.ToolCallPending, "propose"), prev)
	}
	w.won, w.lost = fork(t, f, one, two, prev)
	return w
}

// fork writes two records of c1 after the same one.
func fork(t *testing.T, f *forker, one, two *bus.Journal, prev uint64) (won, lost error) {
	f.arm()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, won = one.Append(t.Context(), callRecord("reject", callKey("c1"), message.ToolCallFinished, "reject"), prev)
	})
	select {
	case <-f.holds:
	case <-t.Context().Done():
	}
	wg.Go(func() {
		_, lost = two.Append(t.Context(), callRecord("approve", callKey("c1"), message.ToolCallAllowed, "approve"), prev)
	})
	wg.Wait()
	return won, lost
}

// checkEntries compares the entries with the records that count.
func checkEntries(t *testing.T, what string, got []toolcall.JournalEntry, want ...string) {
	t.Helper()
	var text []string
	for _, r := range got {
		switch {
		case r.Record != nil:
			text = append(text, fmt.Sprintf("%d %s", r.Seq, r.Record.ID))
		case r.Invalid != nil:
			text = append(text, fmt.Sprintf("%d void", r.Seq))
		}
	}
	if !slices.Equal(text, want) {
		t.Errorf("%s: %q, want %q", what, text, want)
	}
}

// If two records follow the same one, the first counts for their writers and for every reader, and
// the next record is written after both.
func TestForkHasOneWinner(t *testing.T) {
	for _, before := range []int{0, 1} {
		t.Run(fmt.Sprintf("after %d records", before), func(t *testing.T) {
			w := newForked(t, before)
			won := uint64(before + 2)
			if w.won != nil || !errors.Is(w.lost, message.ErrConflict) {
				t.Errorf("the writers got %v and %v, want success and a conflict", w.won, w.lost)
			}
			key, n := callKey("c1"), strconv.FormatUint
			fork := []string{n(won, 10) + " reject", n(won+1, 10) + " void"}
			all := append([]string{"1 other", "2 record-0"}[:before+1], fork...)
			readers := map[string]*bus.Journal{"the winner's": w.j, "a new journal": w.Journal("test")}
			for name, j := range readers {
				if last, err := j.Last(t.Context(), key); err != nil || last.Seq != won {
					t.Errorf("%s: Last = %+v, %v", name, last, err)
				}
				history, err := j.History(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				checkEntries(t, name+": History", history, all[1:]...)
				for after := range won + 1 {
					j := w.Journal("test") // remembers nothing
					records, _, err := j.Read(t.Context(), key.SessionKey(), after, 100)
					if err != nil {
						t.Fatal(err)
					}
					checkEntries(t, fmt.Sprintf("Read after %d", after), records, all[after:]...)
					watched := watch(t, j, after).wait(t, "the fork", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == len(all)-int(after) })
					checkEntries(t, fmt.Sprintf("Watch after %d", after), watched, all[after:]...)
				}
			}
			if _, err := w.Journal("test").Append(t.Context(), callRecord("start", key, message.ToolCallAllowed, "start"), won+1); !errors.Is(err, message.ErrConflict) {
				t.Errorf("a record that follows the void one: %v, want a conflict", err)
			}
			next := mustAppend(t, w.Journal("test"), callRecord("note", key, message.ToolCallFinished, "note"), won)
			for _, j := range readers {
				if last, err := j.Last(t.Context(), key); err != nil || last.Seq != next || last.Record.Prev.Seq != won {
					t.Errorf("Last after the next record = %+v, %v", last, err)
				}
			}
		})
	}
}

// Both records of a fork are genuine, so verification reports a fork rather than tampering, and the
// receipt of its call proves the record that counts.
func TestForkIsNoTampering(t *testing.T) {
	w := newForked(t, 1)
	mustAppend(t, w.j, callRecord("note", callKey("c1"), message.ToolCallFinished, "note"), 3)
	for _, signed := range []bool{false, true} {
		if signed {
			w.sign()
		}
		r := verifyAgainst(t, w.l, proof.Options{Keys: toolcall.NewKeySet(w.Keys().Public()), Name: bus.NameOf})
		if r.Found != 0 && signed || r.Void != 1 || len(r.Voids) != 1 || r.Voids[0].Seq != 4 || r.Voids[0].Call != "s1/r1/c1" {
			t.Errorf("signed %v: %+v", signed, r)
		}
		for _, f := range r.Findings {
			if f.Kind != proof.NoCheckpoint {
				t.Errorf("signed %v: %s", signed, f)
			}
		}
	}
	records, err := bus.CallRecords(t.Context(), w.l, callKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for _, r := range records {
		seqs = append(seqs, r.Seq)
	}
	if !slices.Equal(seqs, []uint64{2, 3, 5}) {
		t.Errorf("the receipt would have %d", seqs)
	}
}

// follow stores a record of c1 after a void one, like an engine of a release that did not know void
// records.
func (w *forked) follow(id string, prev uint64) {
	w.t.Helper()
	before := genuine(w.t, w.Conn("old"), bus.StreamName("test"), prev)
	header := map[string][]string{}
	for _, name := range []string{"Nats-Msg-Id", headerPrev, headerFilter, bus.HeaderMAC} {
		header[name] = before.Header[name]
	}
	r := callRecord(id, callKey("c1"), message.ToolCallAllowed, "start")
	r.Prev = proof.LinkTo(prev, proof.Leaf(before.Subject, proof.Content(header, before.Data)))
	body, err := toolcall.EncodeStored(r, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	mac := w.Keys().RecordMAC(before.Subject, prev, body)
	m := &nats.Msg{Subject: before.Subject, Data: body, Header: nats.Header{}}
	m.Header.Set("Nats-Msg-Id", id)
	m.Header.Set(headerPrev, strconv.FormatUint(prev, 10))
	m.Header.Set(headerFilter, before.Header.Get(headerFilter))
	m.Header.Set(bus.HeaderMAC, w.Keys().ID()+" "+base64.RawURLEncoding.EncodeToString(mac[:]))
	store(w.t, w.Conn("old"), m)
}

// If an old engine continues from the second of two records, none of its records counts, and the
// call continues from the first.
func TestRecordsBehindAVoidOne(t *testing.T) {
	w := newForked(t, 1)
	w.follow("old-1", 4)
	w.follow("old-2", 5)
	key, all := callKey("c1"), []string{"1 other", "2 record-0", "3 reject", "4 void", "5 void", "6 void"}
	for name, read := range map[string]func(*bus.Journal) error{
		"nothing":   func(*bus.Journal) error { return nil },
		"History":   func(j *bus.Journal) error { _, err := j.History(t.Context(), key); return err },
		"the first": func(j *bus.Journal) error { _, _, err := j.Read(t.Context(), key.SessionKey(), 0, 4); return err },
	} {
		j := w.Journal("test")
		if err := read(j); err != nil {
			t.Fatal(err)
		}
		if last, err := j.Last(t.Context(), key); err != nil || last.Seq != 3 {
			t.Errorf("%s read: Last = %+v, %v", name, last, err)
		}
	}
	for after := range uint64(6) {
		records, _, err := w.Journal("test").Read(t.Context(), key.SessionKey(), after, 100)
		if err != nil {
			t.Fatal(err)
		}
		checkEntries(t, fmt.Sprintf("Read after %d", after), records, all[after:]...)
		watched := watch(t, w.Journal("test"), after).wait(t, "all", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 6-int(after) })
		checkEntries(t, fmt.Sprintf("Watch after %d", after), watched, all[after:]...)
	}
	for prev := uint64(4); prev <= 6; prev++ {
		if _, err := w.Journal("test").Append(t.Context(), callRecord("start", key, message.ToolCallAllowed, "start"), prev); !errors.Is(err, message.ErrConflict) {
			t.Errorf("a record that follows %d: %v, want a conflict", prev, err)
		}
	}
	next := mustAppend(t, w.Journal("test"), callRecord("note", key, message.ToolCallFinished, "note"), 3)
	if last, err := w.Journal("test").Last(t.Context(), key); err != nil || last.Seq != next {
		t.Errorf("Last after the next record = %+v, %v", last, err)
	}
	w.sign()
	r := verifyAgainst(t, w.l, proof.Options{Keys: toolcall.NewKeySet(w.Keys().Public()), Name: bus.NameOf})
	if r.Found != 0 || r.Void != 3 {
		t.Errorf("verify: %+v", r)
	}
	records, err := bus.CallRecords(t.Context(), w.l, key)
	if err != nil || len(records) != 3 || records[2].Seq != next {
		t.Errorf("the receipt would have %+v, %v", records, err)
	}
}

// unnamed is a journal whose records lack what they follow.
type unnamed struct{ bus.Auditing }

func (u unnamed) Records(ctx context.Context, r bus.RecordsRequest) (bus.RecordsReply, error) {
	rep, err := u.Auditing.Records(ctx, r)
	for i := range rep.Records {
		rep.Records[i].Header = maps.Clone(rep.Records[i].Header)
		rep.Records[i].Header[headerPrev] = []string{"x"}
	}
	return rep, err
}

// A receipt contains every record that its verification must judge, even wrong ones.
func TestCallRecordsDropNothingInSilence(t *testing.T) {
	w := newForked(t, 1)
	records, err := bus.CallRecords(t.Context(), unnamed{w.l}, callKey("c1"))
	if err != nil || len(records) != 3 {
		t.Errorf("%d records, %v; want 3", len(records), err)
	}
}

// One approver rejects a call on one engine, another approves it on another engine, and the journal
// has both responses after the request. The call is rejected everywhere and its task cannot start.
func TestForkedResponses(t *testing.T) {
	w := newWorld(t)
	f := newForker(w.Conn("forker"))
	w.opened = bus.JournalOptions{Publisher: f}
	one, two := w.engineOf(storedSpace(), bus.ServiceOptions{}), w.engineOf(storedSpace(), bus.ServiceOptions{})
	asked := propose(t, w.client(toolcall.RoleRuntime, "bot"), toolCall("c1", askedJob, `{"n":1}`))[0]
	respond := func(at *replica, who string, kind toolcall.ResponseKind) error {
		_, err := at.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: who}).SubmitResponse(t.Context(), toolcall.Response{Key: asked.Key, Digest: asked.Digest, Kind: kind})
		return err
	}
	f.arm()
	rejected := make(chan error, 1)
	go func() { rejected <- respond(one, "ann", toolcall.ResponseReject) }()
	select {
	case <-f.holds:
	case err := <-rejected:
		t.Fatalf("reject: %v", err)
	}
	if err := respond(two, "bob", toolcall.ResponseApprove); err == nil {
		t.Error("the call was approved")
	}
	if err := <-rejected; err != nil {
		t.Errorf("reject: %v", err)
	}
	task := next(t, w.worker(askedJob, "wk"))
	c := task.Record.Call
	if c.State != message.ToolCallSubmitted {
		t.Fatalf("the task is %+v, want the void one", c)
	}
	for name, e := range map[string]*replica{"where it was rejected": one, "where it was approved": two, "a new engine": w.engineOf(storedSpace(), bus.ServiceOptions{})} {
		_, err := e.Worker(toolcall.Principal{Role: toolcall.RoleWorker, Name: "wk"}, toolcall.Queue{Tool: askedJob}).Start(t.Context(), toolcall.StartRequest{Key: c.Key, Attempt: c.Attempt.Number, Claim: "claim", Nonce: c.Attempt.Grant.Nonce})
		if err == nil {
			t.Errorf("%s: the void task started", name)
		}
		by := e.As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "ann"})
		show, err := by.Show(t.Context(), toolcall.ShowRequest{Key: asked.Key})
		if err != nil || show.Call.State != message.ToolCallFinished || len(show.History) != 2 {
			t.Errorf("%s: Show = %+v, %v", name, show, err)
		}
		list, err := by.List(t.Context(), toolcall.ListRequest{All: true})
		if err != nil || len(list.Calls) != 1 || list.Calls[0].State != message.ToolCallFinished || list.Calls[0].Votes[0].By.Name != "ann" {
			t.Errorf("%s: List = %+v, %v", name, list.Calls, err)
		}
	}
}

// A snapshot that names a void record is not restored.
func TestForkInASnapshot(t *testing.T) {
	w := newForked(t, 1)
	// As on an existing server: the embedded one compares every record that it stores.
	s := bus.NewSnapshots(ledgerOf(t, w.JournalWith("test", bus.JournalOptions{})), filepath.Join(t.TempDir(), "test"))
	found, err := s.ReadRecords(t.Context(), []uint64{1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	checkEntries(t, "ReadRecords", found, "1 other", "2 record-0", "3 reject", "4 void")
}

// A reply with a void record stays in the journal, because an interrupted archive run must not delete
// only the record that counts.
func TestForkIsNotArchived(t *testing.T) {
	w := newForked(t, 1)
	mustAppend(t, w.j, callRecord("note", callKey("c1"), message.ToolCallFinished, "note"), 3)
	mustAppend(t, w.j, callRecord("end", callKey("other"), message.ToolCallFinished, "result"), 1)
	mustAppend(t, w.j, callRecord("last", inReply("last", "a"), message.ToolCallPending, "propose"), 0)
	l := ledgerOf(t, w.JournalWith("test", bus.JournalOptions{Archives: bus.ArchiveFolder(t.TempDir())}))
	if done, err := l.Archive(t.Context(), bus.Retention{By: "ann", Reason: "test"}); err != nil || done.Replies != 0 {
		t.Errorf("archived %+v, %v", done, err)
	}
}

// A fork on three servers, which give the writers their own answers.
func TestForkOnACluster(t *testing.T) {
	t.Parallel()
	c := bustest.NewCluster(t, 3)
	f := newForker(c.Conn("forker"))
	keys, o := newClusterKeys(t), bus.JournalOptions{Publisher: f}
	one, err := onCluster(t, c.Conn("engine"), keys, o)
	if err != nil {
		t.Fatal(err)
	}
	two, err := onCluster(t, c.Conn("engine"), keys, o)
	if err != nil {
		t.Fatal(err)
	}
	prev := mustAppend(t, one, callRecord("first", callKey("c1"), message.ToolCallPending, "propose"), 0)
	f.own = true
	if won, lost := fork(t, f, one, two, prev); won != nil || !errors.Is(lost, message.ErrConflict) {
		t.Errorf("the writers got %v and %v, want success and a conflict", won, lost)
	}
	history, err := one.History(t.Context(), callKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	checkEntries(t, "History", history, "1 first", "2 reject", "3 void")
	mustAppend(t, two, callRecord("note", callKey("c1"), message.ToolCallFinished, "note"), 2)
}

// A leader whose disk is full forgets records that another server has. The lack of a record after the
// previous one proves nothing.
func TestForgetfulLeaderProvesNothing(t *testing.T) {
	for _, forgotten := range [][]uint64{{3, 4}, {4}} {
		t.Run(fmt.Sprint(forgotten), func(t *testing.T) {
			w := newForked(t, 1)
			js, err := jetstream.New(w.Conn("leader"))
			if err != nil {
				t.Fatal(err)
			}
			stream, err := js.Stream(t.Context(), bus.StreamName("test"))
			if err != nil {
				t.Fatal(err)
			}
			void, err := w.Journal("test").IsVoidAfter(t.Context(), 4, func() {
				for _, seq := range forgotten {
					if err := stream.DeleteMsg(t.Context(), seq); err != nil {
						t.Fatal(err)
					}
				}
			})
			if void || !errors.Is(err, message.ErrUnavailable) {
				t.Errorf("void %v, error %v, want an error that tells to try again", void, err)
			}
		})
	}
}
