package executor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
)

// queue hands out items as its owner made them; the rest is the engine's.
type queue struct {
	*executortest.Engine
	items chan message.WorkItem
}

func (q queue) Next(ctx context.Context) (message.WorkItem, error) {
	select {
	case item := <-q.items:
		return item, nil
	case <-ctx.Done():
		return message.WorkItem{}, ctx.Err()
	}
}

// lastMinute hands out its item in the moment in which the worker stops.
type lastMinute struct {
	*executortest.Engine
	item message.WorkItem
}

func (q lastMinute) Next(ctx context.Context) (message.WorkItem, error) {
	<-ctx.Done()
	return q.item, nil
}

func TestItemOfTheLastMinuteIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := executortest.NewEngine(tool)
		f := e.Fact("call-1", `{}`)
		e.Offer(f)
		released := 0
		q := lastMinute{e, message.WorkItem{Fact: f, Release: func(time.Duration) error { released++; return nil }}}
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

// An item that cannot be acknowledged or given back comes again; that is the
// queue's trouble and not the call's.
func TestItemsWithoutAWorkingQueue(t *testing.T) {
	broken := errors.New("connection closed")
	for name, item := range map[string]message.WorkItem{
		"fails": {Ack: func(context.Context) error { return broken }, Release: func(time.Duration) error { return broken }},
		"nil":   {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := executortest.NewEngine(tool)
				q := queue{e, make(chan message.WorkItem)}
				w := newWorker(t, q, e)
				go func() { _ = w.Run(t.Context()) }()
				defer func() { _ = w.Close() }()

				item.Fact = e.Fact("call-1", `{}`)
				e.Offer(item.Fact)
				q.items <- item
				q.items <- item // again, after the run: the engine says no
				early := item
				early.Fact = e.Fact("call-2", `{}`)
				early.Fact.Call.Attempt.Grant.NotBefore = time.Now().Add(time.Second)
				e.Sign(early.Fact)
				q.items <- early
				time.Sleep(time.Minute)
				if c := e.Call(item.Fact.Call.Key); c.Result == nil || len(e.Requests(executortest.OpResult)) != 1 {
					t.Error("the call did not run once")
				}
			})
		})
	}
}
