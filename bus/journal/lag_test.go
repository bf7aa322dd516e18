package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
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

const (
	askInfo     = "$JS.API.STREAM.INFO."
	askInfoLate = "$JX.API.STREAM.INFO." // as long as askInfo
)

// lagging is a leader that has not applied records yet which other servers deliver. It catches up
// when it is asked often enough how far it is.
type lagging struct{ *oblivious }

func newLagging(t *testing.T, b *bustest.Bus) lagging {
	t.Helper()
	f := lagging{newOblivious(t, b)}
	f.serve(t, askInfoLate, f.info)
	return f
}

// info answers without the records that it lacks, which are the last ones.
func (l lagging) info(m *nats.Msg) []byte {
	stream := strings.TrimPrefix(m.Subject, askInfoLate)
	reply, err := l.nc.Request(askInfo+stream, m.Data, bustest.Patience)
	if err != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.forgot) == 0 || stream != bus.StreamName("test") {
		return reply.Data
	}
	if l.answered++; l.answered == l.healAt {
		l.forgot = nil
		return reply.Data
	}
	if l.replicated {
		reply.Data = bytes.Replace(reply.Data, []byte(`"num_replicas":1`), []byte(`"num_replicas":3`), 1)
	}
	return withLast(reply.Data, l.forgot[0]-1)
}

// withLast changes how many messages a stream has, by its info.
func withLast(info []byte, n uint64) []byte {
	var all map[string]any
	if err := json.Unmarshal(info, &all); err != nil {
		return nil
	}
	state := all["state"].(map[string]any)
	state["last_seq"], state["messages"] = n, n
	out, _ := json.Marshal(all)
	return out
}

// InProcessConn implements nats.InProcessConnProvider.
func (l lagging) InProcessConn() (net.Conn, error) {
	c, err := l.oblivious.InProcessConn()
	return askingInfo{c}, err
}

type askingInfo struct{ net.Conn }

func (a askingInfo) Write(b []byte) (int, error) {
	return a.Conn.Write(bytes.ReplaceAll(b, []byte(askInfo), []byte(askInfoLate)))
}

func (l lagging) journal(t *testing.T) *journal.Journal {
	t.Helper()
	nc, err := bus.ConnectInProcess(t.Context(), l, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	j, err := journal.Open(t.Context(), nc, "test", l.b.Keys(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	j.ExpectLag()
	return j
}

// What a journal has delivered is in everything that is read from it later, although the leader of
// a cluster can be behind the server that delivered it.
func TestReadsAreNotOlderThanWhatWasDelivered(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(t *testing.T, j *journal.Journal) (last uint64, err error){
		"Last": func(t *testing.T, j *journal.Journal) (uint64, error) {
			r, err := j.Last(t.Context(), bustest.CallKey("c1"))
			return r.Seq, err
		},
		"Last of an unknown call": func(t *testing.T, j *journal.Journal) (uint64, error) {
			_, err := j.Last(t.Context(), bustest.CallKey("unknown"))
			if errors.Is(err, message.ErrNotFound) {
				return 3, nil
			}
			return 0, err
		},
		"History": func(t *testing.T, j *journal.Journal) (last uint64, err error) {
			all, err := j.History(t.Context(), bustest.CallKey("c1"))
			for _, r := range all {
				last = r.Seq
			}
			return last, err
		},
		"Read": func(t *testing.T, j *journal.Journal) (uint64, error) {
			_, last, err := j.Read(t.Context(), bustest.CallKey("").SessionKey(), 1, 10)
			return last, err
		},
		"CountCalls": func(t *testing.T, j *journal.Journal) (uint64, error) {
			_, through, err := j.CountCalls(t.Context(), bustest.CallKey("").ReplyKey())
			return through, err
		},
		"Ready": func(t *testing.T, j *journal.Journal) (uint64, error) { return 3, j.Ready(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			writer, leader := b.Journal("test"), newLagging(t, b)
			j := leader.journal(t)
			watched := bustest.Watch(t, j, 0)
			bustest.MustAppend(t, writer, bustest.CallRecord("other", bustest.CallKey("other"), message.ToolCallPending, "propose"), 0)
			watched.Wait(t, "the first record", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 1 })
			leader.forget(5, 2, 3)
			prev := bustest.MustAppend(t, writer, bustest.CallRecord("first", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
			bustest.MustAppend(t, writer, bustest.CallRecord("second", bustest.CallKey("c1"), message.ToolCallAsking, "ask"), prev)
			watched.Wait(t, "all records", func(r []toolcall.JournalEntry, _ int) bool { return len(r) == 3 })
			if last, err := read(t, j); err != nil || last != 3 {
				t.Errorf("read up to %d, %v; want 3", last, err)
			}
		})
	}
}

// Requests can be sent again while the records that a new leader lacks may only be late. The code
// damaged would tell clients that nothing runs until an operator decides.
func TestMissingRecordsDuringAnElection(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	leader := newLagging(t, b)
	leader.replicated = true
	j := leader.journal(t)
	record := bustest.CallRecord("new", bustest.CallKey("c2"), message.ToolCallPending, "propose")
	bustest.MustAppend(t, j, bustest.CallRecord("first", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
	leader.forget(0, 1)
	j.ForgetLook()
	_, err := j.Append(t.Context(), record, 0)
	_, lastErr := j.Last(t.Context(), bustest.CallKey("c3"))
	for name, err := range map[string]error{"append": err, "last": lastErr, "ready": j.Ready(t.Context())} {
		if e := message.AsError("", err); e.Code != message.CodeUnavailable || !errors.Is(err, message.ErrDamaged) {
			t.Errorf("%s: %v, want unavailable because of missing records", name, err)
		}
	}
	leader.forget(0)
	bustest.MustAppend(t, j, record, 0)
}

// Records that are missing for longer than an election takes are lost, and the error says what to do.
func TestMissingRecordsAfterAnElection(t *testing.T) {
	dir := bustest.Dir(t)
	synctest.Test(t, func(t *testing.T) {
		leader := newLagging(t, bustest.New(t, bustest.In(dir)))
		leader.replicated = true
		j := leader.journal(t)
		bustest.MustAppend(t, j, bustest.CallRecord("first", bustest.CallKey("c1"), message.ToolCallPending, "propose"), 0)
		leader.forget(0, 1)
		err := j.Watch(t.Context(), 0, bustest.NewSink())
		if e := message.AsError("", err); e.Code != message.CodeDamaged || !strings.Contains(e.Hint, "accept-loss") {
			t.Errorf("the watch ended with %v, want damaged and what to do", err)
		}
	})
}

// askingReady is a sink that asks whether the journal is ready as soon as it has got a record.
type askingReady struct {
	*bustest.Sink
	j     *journal.Journal
	ready chan error
}

func (a askingReady) Record(r toolcall.JournalEntry) {
	a.Sink.Record(r)
	a.ready <- a.j.Ready(context.Background())
}

// next returns what Ready returned for the next record.
func (a askingReady) next(t *testing.T) error {
	t.Helper()
	select {
	case err := <-a.ready:
		return err
	case <-time.After(bustest.Patience):
		t.Fatal("no record was delivered")
		return nil
	}
}

// Records that a cluster lost after it had delivered them are found missing, also by the
// first reader: the examination does not wait for them.
func TestDeliveredRecordsThatAreLost(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	writer, leader := b.Journal("test"), newLagging(t, b)
	j := leader.journal(t)
	a := askingReady{bustest.NewSink(), j, make(chan error, 2)}
	var wg sync.WaitGroup
	wg.Go(func() { _ = j.Watch(t.Context(), 0, a) }) // ends with the test
	t.Cleanup(wg.Wait)
	bustest.MustAppend(t, writer, bustest.CallRecord("a", bustest.CallKey("a"), message.ToolCallPending, "propose"), 0)
	if err := a.next(t); err != nil {
		t.Errorf("Ready with all records: %v", err)
	}
	leader.forget(0, 2)
	bustest.MustAppend(t, writer, bustest.CallRecord("b", bustest.CallKey("b"), message.ToolCallPending, "propose"), 0)
	if err := a.next(t); !errors.Is(err, message.ErrDamaged) {
		t.Errorf("Ready: %v, want damaged", err)
	}
}

// A process can receive a record that builds on one which another process received.
func TestRecordOnOneThatTheLeaderLacks(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	writer, leader := b.Journal("test"), newLagging(t, b)
	if err := writer.EnsureQueue(t.Context(), toolcall.Queue{Tool: job}); err != nil {
		t.Fatal(err)
	}
	j, other := leader.journal(t), leader.journal(t)
	prev := bustest.MustAppend(t, writer, bustest.CallRecord("first", bustest.CallKey("c1"), message.ToolCallAsking, "ask"), 0)
	out, _ := follow(t, openOutbox(t, j), "other")
	begun(t, b, "other")
	leader.forget(5, 1, 2)
	bustest.MustAppend(t, writer, bustest.WorkRecord("second", bustest.CallKey("c1"), job), prev)
	if d := handed(t, out); d.Record.Record == nil || d.Record.Record.Call.State != message.ToolCallSubmitted {
		t.Errorf("the outbox delivered %+v", d.Record)
	}
	leader.forget(5, 1, 2)
	tasks, err := other.TakeTasks(t.Context(), toolcall.Queue{Tool: job}, 1, time.Minute)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if s, err := toolcall.DecodeStored(tasks[0].Record); err != nil || s.IsCompact() {
		t.Errorf("the worker's task is not a whole record: %v", err)
	}
}

// A bucket is not listed again and again if the last changes were removed from it.
func TestBucketWithoutItsLastChange(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p, nc := openBucket(t, b), b.Conn("operator")
	put(t, p, "a.yaml", "1")
	put(t, p, "b.yaml", "2")
	if err := p.Delete(t.Context(), "b.yaml"); err != nil {
		t.Fatal(err)
	}
	kv, err := must(jetstream.New(nc)).KeyValue(t.Context(), p.Name())
	if err == nil {
		err = kv.PurgeDeletes(t.Context(), jetstream.DeleteMarkersOlderThan(-1))
	}
	if err != nil {
		t.Fatal(err)
	}
	contents(t, p)
	listed, err := nc.SubscribeSync("$JS.API.CONSUMER.CREATE.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := contents(t, p); got != "a.yaml=1" {
		t.Errorf("read %q", got)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := listed.Pending(); n > 0 || err != nil {
		t.Errorf("listed %d times, %v", n, err)
	}
}

// The server that lists the files of a bucket can be behind the one that says whether they changed.
func TestFilesListedBeforeTheirLastChange(t *testing.T) {
	b := bustest.New(t)
	writer := openBucket(t, b)
	put(t, writer, "a.yaml", "1")
	change := sync.OnceFunc(func() { put(t, writer, "a.yaml", "2") })
	leader := newOblivious(t, b)
	leader.asked = change // the leader has it, once the other server was asked for the list
	knows := make(chan uint64, 1)
	sub, err := leader.nc.Subscribe(askInfoLate+">", func(m *nats.Msg) {
		reply, err := leader.nc.Request(askInfo+strings.TrimPrefix(m.Subject, askInfoLate), m.Data, bustest.Patience)
		if err != nil {
			return
		}
		select {
		case n := <-knows:
			reply.Data = withLast(reply.Data, n)
		default:
		}
		_ = m.Respond(reply.Data)
	})
	if err == nil {
		err = leader.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	nc, err := bus.ConnectInProcess(t.Context(), lagging{leader}, bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	p, err := journal.OpenPolicyBucket(t.Context(), nc, "test", journal.PolicyBucketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	knows <- 2
	if got := contents(t, p); got != "a.yaml=1" {
		t.Errorf("listed %q", got)
	}
	change()
	if got := contents(t, p); got != "a.yaml=2" {
		t.Errorf("a change that the list lacked is never read: %q", got)
	}
}
