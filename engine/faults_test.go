package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func faultCases() []engineCase {
	return []engineCase{
		{"a full journal", fullJournal},
		{"a lost acknowledgement", lostAck},
		{"a lost acknowledgement, and another writer", lostAckRaced},
		{"a record that may not be on the disk", unsynced},
		{"an acknowledgement that comes late", lateAck},
		{"the journal cannot be read after a first event record", unreadableAfterFirst},
		{"closing between a start and its run", closeBetween},
		{"a local start acknowledged after its lease", lateLocalStart},
		{"a call at its limit of event records", recordLimit},
		{"a local result that loses every race", resultCrowded},
		{"the turn comes while the call is being written", turnMeanwhile},
	}
}

type fault = func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error)

// refuse makes appends of certain event records fail, with nothing written.
func refuse(which func(*toolcall.EventRecord) bool, err error) fault {
	return func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if which(rec) {
			return 0, err
		}
		return store(ctx, rec, prev)
	}
}

// cutAfter kills an engine right after it wrote a certain record.
func cutAfter(e *replica, which func(*toolcall.EventRecord) bool) fault {
	return func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if which(rec) {
			e.cord.cut()
		}
		return seq, err
	}
}

// fill makes the journal refuse writes until the function that it returns is
// called.
func (w *world) fill(engines ...*replica) (lift func()) {
	full := &message.Error{Code: message.CodeFull, Op: "append", What: "the journal is full, nothing was written"}
	for _, e := range engines {
		e.cord.onAppend(refuse(func(*toolcall.EventRecord) bool { return true }, full))
	}
	return func() {
		for _, e := range engines {
			e.cord.onAppend(nil)
		}
	}
}

// fullJournal checks that every request fails with the reason, that nothing changes and
// nothing is lost, and that work continues once there is room again.
func fullJournal(w *world) {
	e := w.engine()
	q := e.ask("asking", pay, `{"amount":500}`)
	offered, begun, held := e.submit("offered", remote), e.submit("begun", remote), e.unknown("blocked")
	e.start(begun, "w1", "x")
	running := e.propose(call("running", block, `{}`))[0]
	w.until("it runs", func() bool { return len(w.effects.of(running.Key)) == 1 })
	size := len(w.records())
	lift := w.fill(e)
	w.effects.release(running.Key) // its result must wait for room
	for name, err := range map[string]error{
		"propose":   second(e.bot().Propose(w.Context(), request(call("new", echo, `{}`)))),
		"a batch":   second(e.bot().Propose(w.Context(), request(call("new1", serial, `{}`), call("new2", serial, `{}`)))),
		"approve":   second(e.ann().SubmitResponse(w.Context(), approve(q))),
		"reject":    second(e.ann().SubmitResponse(w.Context(), reject(q))),
		"start":     second(e.worker("w1").Start(w.Context(), startRequest(offered, "y"))),
		"result":    second(e.worker("w1").Result(w.Context(), resultRequest(begun, "x", "done"))),
		"resolve":   second(e.operator().Resolve(w.Context(), resolveRequest(held, toolcall.OutcomeHappened))),
		"interrupt": second(e.bot().Interrupt(w.Context(), toolcall.InterruptRequest{Session: "s", Reply: "r"})),
	} {
		if code := message.AsError("", orUnknown(err)).Code; code != message.CodeFull {
			w.Errorf("%s: %v, want %s", name, err, message.CodeFull)
		}
	}
	w.wantSize(size)
	for _, c := range []*toolcall.Call{q, offered, held} {
		if now := e.waitFor(c.Key, "as it was", func(*toolcall.Call) bool { return true }); now.Seq != c.Seq {
			w.Errorf("%s moved from %s to %s", c.Key, describe(c), describe(now))
		}
	}
	lift()
	w.wantResult(e.finished(running.Key), message.ToolResultSuccess, "ran")
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, "ran")
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(begun, "x", "done"))))
	e.finished(e.propose(call("new", echo, `{}`))[0].Key)
	e.propose(call("new1", serial, `{}`), call("new2", serial, `{}`))
	e.finished(w.key("new2"))
	w.wantRuns(w.key("new"), 1)
}

func unknownOutcome() error {
	return &message.Error{Code: message.CodeUnknownOutcome, Op: "append", What: "no acknowledgement came"}
}

// storyOf takes one local and one remote call from proposal to result.
func (w *world) storyOf(e *replica, id string) {
	w.Helper()
	q := e.ask(message.CallID(id+"-local"), pay, `{"amount":500}`)
	_, err := e.ann().SubmitResponse(w.Context(), approve(q))
	w.must(err)
	w.wantResult(e.finished(q.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(q.Key, 1)
	w.wantPath(q.Key, "propose+ask approve+start result")
	c := e.submit(message.CallID(id+"-remote"), remote)
	e.start(c, "w1", "x"+id)
	w.must(second(e.worker("w1").Result(w.Context(), resultRequest(c, "x"+id, "done"))))
	w.wantPath(c.Key, "propose+allow+submit start result")
}

// lostAck stores every event record and loses the first acknowledgement of each.
func lostAck(w *world) {
	e := w.engine()
	var lost sync.Map // by the event record's id
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if err != nil {
			return seq, err
		}
		if _, again := lost.LoadOrStore(rec.ID, true); !again {
			return 0, unknownOutcome()
		}
		return seq, err
	})
	w.storyOf(e, "a")
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if _, again := lost.LoadOrStore(rec.ID, true); !again { // the second attempt is not even stored
			return 0, unknownOutcome()
		}
		return store(ctx, rec, prev)
	})
	w.storyOf(e, "b")
}

// unsynced stores a start's record that can be read but that a power loss could still undo.
// Nothing is stored after it, so the call does not run.
func unsynced(w *world) {
	e := w.engine()
	broken := new(atomic.Bool)
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if broken.Swap(true) {
			return 0, cutError("append")
		}
		if _, err := store(ctx, rec, prev); err != nil {
			w.Errorf("store: %v", err)
		}
		return 0, &message.Error{Code: message.CodeUnknownOutcome, Op: "append", What: "the record may not be on the disk", Err: toolcall.ErrUnsynced}
	})
	_, err := e.bot().Propose(w.Context(), request(call("c", echo, `{}`)))
	if !errors.Is(err, message.ErrUnknownOutcome) {
		w.Errorf("the proposal: %v, want an unknown outcome", err)
	}
	w.wantRuns(w.key("c"), 0)
}

// lostAckRaced stores the event record and loses its acknowledgement. Another engine writes
// the next event record before the first engine reads the journal.
func lostAckRaced(w *world) {
	e, other := w.engine(), w.engine()
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if err != nil || rec.Kind() != "submit" {
			return seq, err
		}
		c := rec.Call.Clone()
		if _, err := other.worker("w1").Start(ctx, startRequest(c, "x")); err != nil {
			w.Errorf("start: %v", err)
		}
		return 0, unknownOutcome()
	})
	c := e.propose(call("c", remote, `{}`))[0]
	if c.State != message.ToolCallSubmitted {
		w.Errorf("the proposal returned the call %s", describe(c))
	}
	q := e.ask("q", askRemote, `{}`)
	if _, err := e.ann().SubmitResponse(w.Context(), approve(q)); err != nil {
		w.Errorf("the approval was stored, but its reply is %v", err)
	}
	w.wantPath(q.Key, "propose+ask approve+submit start")
}

// lateAck makes the first send look lost. It arrives while the second is on its way.
func lateAck(w *world) {
	e := w.engine()
	var sent sync.Map // by the event record's id
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		switch times, _ := sent.LoadOrStore(rec.ID, new(atomic.Int32)); times.(*atomic.Int32).Add(1) {
		case 1:
			return 0, unknownOutcome()
		case 2:
			if _, err := store(ctx, rec, prev); err != nil {
				w.Errorf("the late event record: %v", err)
			}
		}
		return store(ctx, rec, prev)
	})
	w.storyOf(e, "a")
}

// unreadableAfterFirst lets the view lag and makes the reply unreadable, so that the engine
// cannot tell whether the reply was interrupted. The call must not begin before it can.
func unreadableAfterFirst(w *world) {
	e := w.engine()
	catchUp := e.cord.lag()
	defer catchUp()
	var down atomic.Bool
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		down.Store(rec.Call != nil && rec.Call.Records == 1)
		return seq, err
	})
	e.cord.onLast(func(key toolcall.Key) error {
		if down.Load() && key.Call == "" && key.Reply != "" {
			return cutError("last")
		}
		return nil
	})
	c := e.propose(call("c", echo, `{}`))[0]
	w.wantRuns(c.Key, 0) // whether it may begin is not known yet
	down.Store(false)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 1)
}

// closeBetween closes an engine while the record that starts a call is being written. The
// call must run: its start is recorded.
func closeBetween(w *world) {
	e := w.engine()
	closed := make(chan struct{})
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if rec.Call == nil || rec.Call.Records != 1 {
			return store(ctx, rec, prev)
		}
		go func() {
			defer close(closed)
			e.stop()
		}()
		w.until("the engine is closing", func() bool {
			_, err := e.operator().Info(ctx)
			return err != nil
		})
		return store(ctx, rec, prev)
	})
	_, err := e.bot().Propose(w.Context(), request(call("c", echo, `{}`)))
	w.must(err)
	<-closed
	w.wantResult(w.engine().finished(w.key("c")), message.ToolResultSuccess, "ran")
	w.wantPath(w.key("c"), "propose+allow+start result")
}

// lateLocalStart lets the engine learn that its start is stored only after another engine has
// given up the attempt. It does not begin, and gives the attempt back.
func lateLocalStart(w *world) {
	e, other := w.engine(), w.engine()
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if err == nil && rec.Call != nil && rec.Call.Records == 1 {
			other.held(rec.Call.Key, toolcall.BlockedUnknown)
		}
		return seq, err
	})
	c := e.propose(call("c", blockOnce, `{}`))[0]
	w.effects.release(c.Key)
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 1)
	w.wantPath(c.Key, "propose+allow+start suspend return offer+start result")
}

// recordLimit checks that a call with the maximum number of event records can still be ended.
func recordLimit(w *world) {
	e := w.engine()
	c := e.submit("c", remote)
	rec, err := w.journal.Last(w.Context(), c.Key)
	w.must(err)
	prev := rec.Seq
	record := rec.Record
	for record.Call.Records < toolcall.MaxRecordsPerCall {
		record.ID = fmt.Sprint("offer-", record.Call.Records)
		record.Path = []toolcall.Step{{Cause: "offer", From: "submitted", To: "submitted"}}
		record.Call.Records++
		record.Call.Cause, record.Call.First, record.Call.Seq = "offer", c.First, 0
		prev, err = w.journal.Append(w.Context(), record, prev)
		w.must(err)
	}
	_, err = e.worker("w1").Start(w.Context(), startRequest(c, "x"))
	w.wantErr(err, message.ErrTooLarge)
	e.interrupt()
	w.wantResult(e.finished(c.Key), message.ToolResultInterrupted, "")
}

// turnMeanwhile ends what a call waits for while the engine waits for the acknowledgement of
// that call, or between the engine's look at the other call and the event record that the
// call waits. Nothing else wakes the call.
func turnMeanwhile(w *world) {
	e := w.engine()
	meanwhile := func(id message.CallID, do func()) fault {
		return func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
			if rec.Call != nil && rec.Call.Call == id && rec.Call.Records == 1 {
				do()
			}
			return store(ctx, rec, prev)
		}
	}
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		seq, err := store(ctx, rec, prev)
		if rec.Call != nil && rec.Call.Call == "b" && rec.Call.Records == 1 {
			w.effects.release(w.key("a"))
			e.finished(w.key("a"))
		}
		return seq, err
	})
	e.propose(call("a", blockTurn, `{}`), call("b", serial, `{}`))
	w.wantResult(e.finished(w.key("b")), message.ToolResultSuccess, "ran")

	e.cord.onAppend(meanwhile("d", func() {
		_, err := e.ann().SubmitResponse(w.Context(), reject(e.state(w.key("c"), message.ToolCallAsking)))
		w.must(err)
	}))
	got := e.propose(call("c", deploy, `{}`), call("d", deploy, `{}`))
	if !strings.Contains(w.path(w.key("d")), "hide") {
		w.Fatalf("d is %s: the test missed its moment", describe(got[1]))
	}
	e.state(w.key("d"), message.ToolCallAsking)
}

// resultCrowded lets the result of a tool that has run lose the race for the next record many
// times. The result must not get lost.
func resultCrowded(w *world) {
	e := w.engine()
	var races atomic.Int32
	e.cord.onAppend(func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error) {
		if rec.Kind() == "result" && races.Add(1) <= 150 {
			return 0, &message.Error{Code: message.CodeConflict, Op: "append", What: "another writer was first", Hint: "decide again"}
		}
		return store(ctx, rec, prev)
	})
	c := e.propose(call("c", echo, `{}`))[0]
	w.wantResult(e.finished(c.Key), message.ToolResultSuccess, "ran")
	w.wantRuns(c.Key, 1)
}

// cord connects one engine to the journal. A test can cut it, as the death of the process
// does, hold back what it reads, and inject faults.
type cord struct {
	engine.Journal
	severed context.Context //nolint:containedctx // its life is the struct's
	sever   context.CancelFunc

	mu     sync.Mutex // guards the fields below
	append func(ctx context.Context, rec *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error)
	last   func(key toolcall.Key) error
	hold   chan struct{} // non-nil: the watch delivers nothing until it is closed
}

type appendFunc func(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error)

func newCord(j engine.Journal) *cord {
	ctx, cancel := context.WithCancel(context.Background())
	return &cord{Journal: j, severed: ctx, sever: cancel}
}

var errCut = errors.New("the cord is cut")

func cutError(op string) error {
	return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the journal is out of reach", Hint: "try again", Err: errCut}
}

func (c *cord) cut() { c.sever() }

// onAppend makes f replace Append; nil restores it.
func (c *cord) onAppend(f func(ctx context.Context, record *toolcall.EventRecord, prev uint64, store appendFunc) (uint64, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append = f
}

// onLast lets f make Last fail; nil removes the fault.
func (c *cord) onLast(f func(key toolcall.Key) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = f
}

// lag holds the watch back until the function that it returns is called.
func (c *cord) lag() (catchUp func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	hold := make(chan struct{})
	c.hold = hold
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		closeOnce(hold)
	}
}

func (c *cord) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	if c.severed.Err() != nil {
		return 0, cutError("append")
	}
	c.mu.Lock()
	instead := c.append
	c.mu.Unlock()
	if instead != nil {
		return instead(ctx, rec, prev, c.Journal.Append)
	}
	return c.Journal.Append(ctx, rec, prev)
}

func (c *cord) AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error) {
	if c.severed.Err() != nil {
		return 0, cutError("append")
	}
	return c.Journal.AppendEvent(ctx, runtime, reply, events)
}

func (c *cord) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	if c.severed.Err() != nil {
		return toolcall.JournalEntry{}, cutError("last")
	}
	c.mu.Lock()
	fault := c.last
	c.mu.Unlock()
	if fault != nil {
		if err := fault(key); err != nil {
			return toolcall.JournalEntry{}, err
		}
	}
	return c.Journal.Last(ctx, key)
}

func (c *cord) Watch(ctx context.Context, after uint64, sink toolcall.Sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.severed, func() { cancel(errCut) })()
	return c.Journal.Watch(ctx, after, &lagging{c, ctx, sink})
}

// lagging is a sink that waits while the cord lags.
type lagging struct {
	c    *cord
	ctx  context.Context //nolint:containedctx // its life is the struct's
	sink toolcall.Sink
}

// ready waits while the cord lags, and reports whether the cord is still uncut.
func (l *lagging) ready() bool {
	l.c.mu.Lock()
	hold := l.c.hold
	l.c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-l.ctx.Done():
		}
	}
	return l.c.severed.Err() == nil
}

func (l *lagging) Wants(seq uint64, id string, stored time.Time) bool {
	if !l.ready() {
		return false
	}
	choosy, ok := l.sink.(toolcall.ChoosySink)
	return !ok || choosy.Wants(seq, id, stored)
}

func (l *lagging) Record(r toolcall.JournalEntry) {
	if l.ready() {
		l.sink.Record(r)
	}
}

func (l *lagging) CaughtUp() { l.sink.CaughtUp() }
