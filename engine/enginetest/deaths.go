package enginetest

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/askance-dev/askance/message"
)

// deathCases let the engine that does the work die before or right after each
// of its writes, while another one lives. Whoever asked asks the other one
// then, as clients do. Nothing may be lost, nothing may run twice.
func deathCases() []testCase[*world] {
	var cases []testCase[*world]
	for n := int32(1); n <= storyWrites; n++ {
		for _, stored := range []bool{false, true} {
			name := fmt.Sprintf("before write %d", n)
			if stored {
				name = fmt.Sprintf("after write %d", n)
			}
			cases = append(cases, testCase[*world]{name, func(w *world) { diesAt(w, n, stored) }})
		}
	}
	return cases
}

// storyWrites is how often the story of diesAt is written to: the session's
// owner, three proposals, an answer, two starts, three results.
const storyWrites = 10

// mortal is an engine whose n-th write is its last act, and another one.
type mortal struct {
	w        *world
	e, other *replica
}

// ask asks the mortal engine, and the other one if it gets no answer.
func (m *mortal) ask(what string, do func(*replica) error) {
	m.w.Helper()
	err := do(m.e)
	if err == nil {
		return
	}
	if code := message.AsError("", err).Code; code != message.CodeUnavailable {
		m.w.Fatalf("%s: a dying engine answers %v", what, err)
	}
	if err := do(m.other); err != nil {
		m.w.Fatalf("%s: the other engine answers %v", what, err)
	}
}

// work starts a remote call and brings its result, as one worker.
func (m *mortal) work(c *message.Call) {
	m.w.Helper()
	ctx, started := m.w.Context(), false
	m.ask("start", func(r *replica) error {
		reply, err := r.worker("w1").Start(ctx, startRequest(c, "x"))
		if err == nil && !started {
			started = true
			m.w.effects.happened(run{key: c.Key, tool: c.Tool, input: c.Input, attempt: 1, claim: "x", owner: "w1", idem: reply.IdempotencyKey})
		}
		return err
	})
	m.ask("result", func(r *replica) error { return second(r.worker("w1").Result(ctx, resultRequest(c, "x", "done"))) })
}

func diesAt(w *world, n int32, stored bool) {
	m := &mortal{w: w, e: w.engine(), other: w.engine()}
	var writes atomic.Int32
	m.e.cord.onAppend(func(ctx context.Context, f *message.Fact, prev uint64, store appendFunc) (uint64, error) {
		if writes.Add(1) != n {
			return store(ctx, f, prev)
		}
		if stored {
			if _, err := store(ctx, f, prev); err != nil {
				w.Errorf("the last write: %v", err)
			}
		}
		m.e.cord.cut()
		return 0, cutError("append")
	})
	var calls []*message.Call
	m.ask("propose", func(r *replica) error {
		out, err := r.bot().Propose(w.Context(), request(call("local", again, `{}`), call("asks", askRemote, `{}`), call("remote", remote, `{}`)))
		calls = out.Calls
		return err
	})
	m.ask("answer", func(r *replica) error {
		_, err := r.ann().Answer(w.Context(), approve(calls[1]))
		if e := message.AsError("", orUnknown(err)); e.Code == message.CodeFinished || e.Code == message.CodeState {
			return nil // it was stored, and its answer got lost
		}
		return err
	})
	m.work(calls[1])
	m.work(calls[2])
	if writes.Load() < n { // the local result is its last
		m.other.finished(calls[0].Key)
	}
	if writes.Load() < n {
		w.Errorf("the engine wrote %d times and outlived the story", writes.Load())
	}
	m.e.kill()
	for _, c := range calls {
		w.wantResult(m.other.finished(c.Key), message.ToolResultSuccess, "")
	}
	w.wantRuns(calls[1].Key, 1)
	w.wantRuns(calls[2].Key, 1)
}
