package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// lossy is a journal that stores the event records of calls, loses their acknowledgements and
// then cannot be read.
type lossy struct {
	*Memory
	lost atomic.Bool
}

func (l *lossy) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	seq, err := l.Memory.Append(ctx, rec, prev)
	if rec.Call == nil {
		return seq, err
	}
	l.lost.Store(true)
	return 0, &message.Error{Code: message.CodeUnknownOutcome, Op: "append", What: "no acknowledgement"}
}

func (l *lossy) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	if l.lost.Load() {
		return toolcall.JournalEntry{}, &message.Error{Code: message.CodeUnavailable, Op: "last", What: "no answer"}
	}
	return l.Memory.Last(ctx, key)
}

// A write that is stored although its acknowledgement is lost reaches the view.
func TestLostAcknowledgementReachesTheView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := started(t, &lossy{Memory: NewMemory()})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
		_, err := bot.Propose(ctx, toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "a", Name: "t", Input: "{}"}}})
		if !errors.Is(err, message.ErrUnknownOutcome) {
			t.Errorf("proposing ended with %v, want an unknown outcome", err)
		}
		synctest.Wait()
		if c := e.view.Call(toolcall.Key{Space: "x", Session: "s", Reply: "r", Call: "a"}); c == nil || c.State != message.ToolCallAsking {
			t.Errorf("the view has %+v, want the call, asking", c)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// started returns an engine with a tool t whose calls all ask.
func started(t *testing.T, j Journal) *Engine {
	t.Helper()
	policy, err := permission.Compile(permission.Policy{}, permission.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New("x", j, policy, []Tool{{Tool: permission.Tool{Name: "t"}, ConcurrencySafe: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// lagging is a journal that acknowledges event records late.
type lagging struct{ *Memory }

func (j lagging) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	seq, err := j.Memory.Append(ctx, rec, prev)
	time.Sleep(250 * time.Millisecond) // in a bubble
	return seq, err
}

// A client that has seen an event of a call finds the call in a list, even while the engine
// that writes it waits for the acknowledgement.
func TestListKnowsWhatIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := started(t, lagging{NewMemory()})
		bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
		proposed := make(chan error, 1)
		go func() {
			_, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "a", Name: "t", Input: "{}"}}})
			proposed <- err
		}()
		for after := uint64(0); ; {
			page, err := bot.Events(t.Context(), toolcall.EventsRequest{Session: "s", After: after, WaitMS: 1})
			if err != nil {
				t.Fatal(err)
			}
			if after = page.Next; len(page.Events) > 0 {
				break
			}
		}
		out, err := bot.List(t.Context(), toolcall.ListRequest{Session: "s", States: []message.ToolCallState{message.ToolCallAsking}})
		if err != nil || len(out.Calls) != 1 {
			t.Errorf("the list has %d calls, %v", len(out.Calls), err)
		}
		if err := errors.Join(<-proposed, e.Close()); err != nil {
			t.Error(err)
		}
	})
}

// ahead is a journal whose queue can hand out a task before reads show its record.
type ahead struct {
	*Memory
	TaskQueue
	seq    uint64
	stored time.Time
}

func (a *ahead) RecordOf(string) (uint64, time.Time) { return a.seq, a.stored }

// A worker drops a task whose start is refused. So it is told to ask again while reads of the
// journal may be older than the task.
func TestTaskBeforeItsRecordCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := permission.Compile(permission.Policy{}, permission.Options{})
		if err != nil {
			t.Fatal(err)
		}
		j := &ahead{Memory: NewMemory()}
		e, err := New("x", j, policy, []Tool{{Tool: permission.Tool{Name: "t"}, Placement: toolcall.PlaceRemote}}, WithLag(func() time.Duration { return time.Second }))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		bot := e.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
		made, err := bot.Propose(t.Context(), toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "a", Name: "t", Input: "{}"}}})
		if err != nil {
			t.Fatal(err)
		}
		c := made.Calls[0]
		unknown := c.Key
		unknown.Call = "b"
		for name, tc := range map[string]struct {
			key  toolcall.Key
			task string
			seq  uint64
			age  time.Duration
			want message.Code
		}{
			"a newer task":                  {c.Key, "task", c.Seq + 1, time.Second, message.CodeUnavailable},
			"a newer task that may be void": {c.Key, "task", c.Seq + 1, toolcall.ReadLag, message.CodeSuperseded},
			"the record was read":           {c.Key, "task", c.Seq, time.Second, message.CodeSuperseded},
			"no task":                       {c.Key, "", c.Seq + 1, time.Second, message.CodeSuperseded},
			"the call's first record":       {unknown, "task", c.Seq + 1, time.Second, message.CodeUnavailable},
			"no such call":                  {unknown, "task", c.Seq + 1, toolcall.ReadLag, message.CodeNotFound},
		} {
			j.seq, j.stored = tc.seq, time.Now().Add(-tc.age)
			_, err := e.As(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w"}).Start(t.Context(), toolcall.StartRequest{V: 1, Key: tc.key, Attempt: 1, Claim: "x", Task: tc.task})
			if code := message.AsError("", err).Code; err == nil || code != tc.want {
				t.Errorf("%s: %v, want %s", name, err, tc.want)
			}
		}
		w := e.As(toolcall.Principal{Role: toolcall.RoleWorker, Name: "w"})
		for attempt := range 3 { // none has started here
			_, err := w.Result(t.Context(), toolcall.ResultRequest{V: 1, Key: c.Key, Attempt: attempt, Claim: "x", Result: message.ToolResultBlock{State: message.ToolResultSuccess}})
			_, beat := w.Heartbeat(t.Context(), toolcall.HeartbeatRequest{V: 1, Key: c.Key, Attempt: attempt, Claim: "x"})
			if !errors.Is(err, message.ErrUnavailable) || !errors.Is(beat, message.ErrUnavailable) {
				t.Errorf("attempt %d: the result gets %v and a heartbeat %v, want unavailable", attempt, err, beat)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
