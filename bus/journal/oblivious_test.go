package journal_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

const (
	askLeader  = "$JS.API.STREAM.MSG.GET."
	askForgets = "$JX.API.STREAM.MSG.GET." // as long as askLeader
)

// oblivious answers for the leader of a journal and lacks records that the other servers have, like
// a leader whose disk is full. Only its own connections use it.
type oblivious struct {
	b  *bustest.Bus
	nc *nats.Conn

	asked      func() // nil, or called before each answer
	replicated bool   // it says that its streams have three replicas while it lacks records

	mu       sync.Mutex // guards all below
	forgot   []uint64
	answered int // requests for which it forgot something
	healAt   int // it remembers again behind so many; 0: when told
}

func newOblivious(t *testing.T, b *bustest.Bus) *oblivious {
	t.Helper()
	f := &oblivious{b: b, nc: b.Conn("leader")}
	f.serve(t, askForgets, f.answer)
	return f
}

// serve answers the requests whose subjects begin with prefix.
func (f *oblivious) serve(t *testing.T, prefix string, answer func(*nats.Msg) []byte) {
	t.Helper()
	sub, err := f.nc.Subscribe(prefix+">", func(m *nats.Msg) { _ = m.Respond(answer(m)) })
	if err == nil {
		err = f.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
}

// forget makes it lack these records for the given number of answers; 0 means until further notice.
func (f *oblivious) forget(answers int, seqs ...uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgot, f.healAt, f.answered = seqs, answers, 0
}

// lacks reports whether a record is forgotten, and counts the answer.
func (f *oblivious) lacks(seq uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.forgot, seq) {
		return false
	}
	if f.answered++; f.answered == f.healAt {
		f.forgot = nil
	}
	return true
}

type leaderAsk struct {
	Seq     uint64 `json:"seq,omitzero"`
	LastFor string `json:"last_by_subj,omitzero"`
	NextFor string `json:"next_by_subj,omitzero"`
}

func (f *oblivious) answer(m *nats.Msg) []byte {
	var r leaderAsk
	if err := strictjson.UnmarshalOpen(m.Data, &r); err != nil {
		return nil
	}
	if f.asked != nil {
		f.asked()
	}
	stream := strings.TrimPrefix(m.Subject, askForgets)
	if r.LastFor == "" {
		data, _ := f.ask(stream, r)
		return data
	}
	data, seq := f.ask(stream, leaderAsk{LastFor: r.LastFor})
	if seq == 0 || !slices.Contains(f.lacking(), seq) {
		return data
	}
	for at := uint64(0); ; { // the last one that it has
		next, seq := f.ask(stream, leaderAsk{Seq: at + 1, NextFor: r.LastFor})
		if seq == 0 {
			if at == 0 {
				return next
			}
			return data
		}
		data, at = next, seq
	}
}

func (f *oblivious) lacking() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.forgot
}

// ask asks the true leader, and for the next record instead of a forgotten one.
func (f *oblivious) ask(stream string, r leaderAsk) (reply []byte, seq uint64) {
	for {
		text, err := strictjson.Marshal(r)
		if err != nil {
			return nil, 0
		}
		m, err := f.nc.Request(askLeader+stream, text, bustest.Patience)
		if err != nil {
			return nil, 0
		}
		var got struct {
			Message struct {
				Seq uint64 `json:"seq"`
			} `json:"message"`
		}
		if err := strictjson.UnmarshalOpen(m.Data, &got); err != nil || got.Message.Seq == 0 {
			return m.Data, 0
		}
		switch {
		case r.LastFor != "" || !f.lacks(got.Message.Seq):
			return m.Data, got.Message.Seq
		case r.NextFor == "":
			return []byte(`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`), 0
		}
		r.Seq = got.Message.Seq + 1
	}
}

// InProcessConn implements nats.InProcessConnProvider.
func (f *oblivious) InProcessConn() (net.Conn, error) {
	c, err := f.b.InProcessConn()
	return asking{c}, err
}

// asking sends the requests to the leader elsewhere.
type asking struct{ net.Conn }

func (a asking) Write(b []byte) (int, error) {
	return a.Conn.Write(bytes.ReplaceAll(b, []byte(askLeader), []byte(askForgets)))
}

// journal opens a journal for which this is the leader.
func (f *oblivious) journal(t *testing.T, o journal.Options) *journal.Journal {
	t.Helper()
	nc, err := bus.ConnectInProcess(t.Context(), f, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	j, err := journal.Open(t.Context(), nc, "test", f.b.Keys(), o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// If another server's consumer delivers two records after the same one, which the leader forgot, the
// second does not count, neither then nor when another server leads.
func TestForkThatTheLeaderForgot(t *testing.T) {
	for _, forgot := range [][]uint64{{3, 4}, {3}} {
		b := bustest.New(t)
		f := bustest.NewForker(b.Conn("forker"))
		one, two := b.JournalWith("test", journal.Options{Publisher: f}), b.JournalWith("test", journal.Options{Publisher: f})
		leader := newOblivious(t, b)
		j := leader.journal(t, journal.Options{})
		watched := bustest.Watch(t, j, 0)
		bustest.MustAppend(t, one, bustest.CallRecord("other", bustest.CallKey("other"), message.ToolCallPending, "propose"), 0)
		prev := bustest.MustAppend(t, one, bustest.CallRecord("first", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
		watched.Wait(t, "the first records", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 2 })
		leader.forget(0, forgot...)
		if won, lost := fork(t, f, one, two, prev); won != nil || !errors.Is(lost, message.ErrConflict) {
			t.Errorf("the writers got %v and %v, want success and a conflict", won, lost)
		}
		got := watched.Wait(t, "the fork", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 4 })
		checkEntries(t, "Watch", got, "1 other", "2 first", "3 reject", "4 void")
		leader.forget(0)
		if last, err := j.Last(t.Context(), bustest.CallKey("c1")); err != nil || last.Seq != 3 {
			t.Errorf("Last = %+v, %v", last, err)
		}
		if _, err := j.Append(t.Context(), bustest.CallRecord("start", bustest.CallKey("c1"), message.ToolCallAllowed, "start"), 4); !errors.Is(err, message.ErrConflict) {
			t.Errorf("a record that follows the void one: %v, want a conflict", err)
		}
	}
}

// duplicating stores a record and gives no answer, then makes the leader forget. When the
// record comes again it answers as a cluster does, which looks at the id first, or as one
// server, which compares first.
type duplicating struct {
	journal.Publisher
	at     uint64 // what a cluster answers; 0: ask the server
	forget func()
	ack    journal.Ack
}

func (d *duplicating) Publish(ctx context.Context, w journal.Write) (journal.Ack, error) {
	if d.ack.Seq != 0 && d.at == 0 {
		return d.Publisher.Publish(ctx, w)
	}
	if d.ack.Seq != 0 {
		return journal.Ack{Stream: d.ack.Stream, Seq: d.at, Duplicate: true}, nil
	}
	var err error
	if d.ack, err = d.Publisher.Publish(ctx, w); err != nil {
		return d.ack, err
	}
	d.forget()
	return journal.Ack{}, context.DeadlineExceeded
}

// If a record is stored and its acknowledgement lost, a leader that forgot the record must not make
// it look unwritten.
func TestDuplicateOfAForgottenRecord(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		at      uint64
		answers int
		forgot  []uint64
		want    error // nil: success
	}{
		"for a while, cluster":           {at: 2, answers: 4, forgot: []uint64{2}},
		"for a while, one server":        {answers: 4, forgot: []uint64{2}},
		"until the end, cluster":         {at: 2, forgot: []uint64{2}, want: message.ErrUnknownOutcome},
		"until the end, one server":      {forgot: []uint64{2}, want: message.ErrUnknownOutcome},
		"the id has another place":       {at: 1},
		"another place, and forgotten":   {at: 1, forgot: []uint64{2}, want: message.ErrUnknownOutcome},
		"no record there, and forgotten": {at: 3, forgot: []uint64{2}, want: message.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			bustest.MustAppend(t, b.Journal("test"), bustest.CallRecord("other", bustest.CallKey("other"), message.ToolCallPending, "propose"), 0)
			f := newOblivious(t, b)
			p := &duplicating{Publisher: journal.NewDirect(b.Conn("engine")), at: tc.at, forget: func() { f.forget(tc.answers, tc.forgot...) }}
			limit := bustest.Patience
			if tc.want != nil {
				limit = 3 * time.Second // the journal asks until the end, and before that it must publish
			}
			j := f.journal(t, journal.Options{Publisher: p})
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			seq, err := j.Append(ctx, bustest.CallRecord("mine", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
			if tc.want == nil && (err != nil || seq != 2) || !errors.Is(err, tc.want) {
				t.Errorf("Append = %d, %v; want %v", seq, err, tc.want)
			}
			if err := j.Ready(t.Context()); tc.want == nil && err != nil {
				t.Errorf("the record is stored, but the journal is not ready: %v", err)
			}
		})
	}
}

// A reader that begins after many calls does not ask the leader about each new one.
func TestReadersAskForFewRecords(t *testing.T) {
	b := bustest.New(t)
	w := b.Journal("test")
	const calls = 600
	for i := range calls {
		bustest.MustAppend(t, w, bustest.CallRecord(bustest.ID(i), bustest.CallKey(bustest.ID(i)), message.ToolCallPending, "propose"), 0)
	}
	j, nc := b.Journal("test"), b.Conn("counter")
	asked, err := nc.SubscribeSync("$JS.API.*.GET.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	bustest.Watch(t, j, 1).Wait(t, "all", func(r []toolcall.JournalEntry, caught int) bool { return len(r) == calls-1 && caught >= 0 })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := asked.Pending(); err != nil || n < 1 || n > calls/2 {
		t.Errorf("the watch asked %d times for %d new calls: %v", n, calls, err)
	}
}
