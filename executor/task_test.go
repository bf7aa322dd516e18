package executor_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/toolcall"
)

// queue hands out tasks that the test makes; everything else goes to the engine.
type queue struct {
	*executortest.Engine
	items chan toolcall.Task
}

func (q queue) Next(ctx context.Context) (toolcall.Task, error) {
	select {
	case task := <-q.items:
		return task, nil
	case <-ctx.Done():
		return toolcall.Task{}, ctx.Err()
	}
}

// lastMinute hands out its task at the moment the worker stops.
type lastMinute struct {
	*executortest.Engine
	task toolcall.Task
}

func (l lastMinute) Next(ctx context.Context) (toolcall.Task, error) {
	<-ctx.Done()
	return l.task, nil
}

// ending notes the end of each claim.
type ending struct {
	*executortest.Engine
	ended map[string]int // only the one slot writes
}

func (e ending) Next(ctx context.Context) (toolcall.Task, error) {
	task, err := e.Engine.Next(ctx)
	task.End = func(claim string) { e.ended[claim]++ }
	return task, err
}

// A transport learns of the end of every claim, also of one without a result.
func TestEveryClaimEnds(t *testing.T) {
	for name, c := range map[string]struct {
		tool string // whose calls the engine offers
		err  error  // of the handler
	}{
		"with a result":        {tool, nil},
		"with unknown outcome": {tool, executor.ErrUnknownOutcome},
		"refused":              {"other", nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := ending{executortest.NewEngine(c.tool), map[string]int{}}
				h := func(context.Context, executor.Task) (executor.Output, error) { return executor.Output{}, c.err }
				w, err := executor.NewWorker(e, tool, h, e.Keys(), executor.WithLogger(slog.New(slog.DiscardHandler)))
				if err != nil {
					t.Fatal(err)
				}
				go func() { _ = w.Run(t.Context()) }()
				e.Offer(e.Record("call-1", `{}`))
				synctest.Wait()
				starts := e.Requests(executortest.OpStart)
				if len(starts) != 1 || len(e.ended) != 1 {
					t.Errorf("%d starts, and the claims %v ended", len(starts), e.ended)
				}
				for claim, n := range e.ended {
					if claim == "" || n != 1 {
						t.Errorf("the claim %q ended %d times", claim, n)
					}
				}
				if err := w.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		})
	}
}

func TestTaskOfTheLastMinuteIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executortest.NewEngine(tool)
		rec := e.Record("call-1", `{}`)
		e.Offer(rec)
		released := 0
		q := lastMinute{e, toolcall.Task{Record: rec, Release: func(time.Duration) error { released++; return nil }}}
		w := newWorker(t, q, e)
		go func() { _ = w.Run(t.Context()) }()
		synctest.Wait()
		if err := w.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := len(e.Requests(executortest.OpStart)); released != 1 || n != 0 {
			t.Errorf("%d releases and %d starts, want one and none", released, n)
		}
	})
}

// A task that cannot be acknowledged or released is delivered again, but its call still runs
// only once.
func TestTasksWithoutAWorkingQueue(t *testing.T) {
	broken := errors.New("connection closed")
	for name, task := range map[string]toolcall.Task{
		"fails": {Ack: func(context.Context) error { return broken }, Release: func(time.Duration) error { return broken }},
		"nil":   {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := executortest.NewEngine(tool)
				q := queue{e, make(chan toolcall.Task)}
				w := newWorker(t, q, e)
				go func() { _ = w.Run(t.Context()) }()
				defer func() { _ = w.Close() }()

				task.Record = e.Record("call-1", `{}`)
				e.Offer(task.Record)
				q.items <- task
				q.items <- task // delivered again after the run: the engine refuses the start
				early := task
				early.Record = e.Record("call-2", `{}`)
				early.Record.Call.Attempt.Grant.NotBefore = time.Now().Add(time.Second)
				e.Sign(early.Record)
				q.items <- early
				time.Sleep(time.Minute)
				if c := e.Call(task.Record.Call.Key); c.Result == nil || len(e.Requests(executortest.OpResult)) != 1 {
					t.Error("the call did not run exactly once")
				}
			})
		})
	}
}
