package inbox

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Events may be old, duplicated and out of order. At the end each approval request agrees with
// its call's last event record, and no resolved request opens again.
func TestRequestsConverge(t *testing.T) {
	now := time.Unix(1e9, 0)
	rapid.Check(t, func(t *rapid.T) {
		type state struct{ calls []*toolcall.Call }
		var all []state
		for i := range rapid.IntRange(1, 4).Draw(t, "calls") {
			var s state
			for seq := range rapid.IntRange(1, 5).Draw(t, "records") {
				c := &toolcall.Call{Key: toolcall.Key{Call: message.CallID(fmt.Sprint(i))}, State: message.ToolCallAsking, Request: &toolcall.ApprovalRequest{}, Seq: uint64(seq + 1)}
				if seq > 0 && rapid.Bool().Draw(t, "closes") {
					c.State, c.Cause = message.ToolCallFinished, "expire"
				}
				s.calls = append(s.calls, c)
			}
			all = append(all, s)
		}
		var qs requests
		last := map[toolcall.Key]*toolcall.Call{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
			c := s.calls[rapid.IntRange(0, len(s.calls)-1).Draw(t, "record")]
			if have := last[c.Key]; have == nil && c.State != message.ToolCallAsking {
				continue // never shown, so there is nothing to resolve
			} else if have == nil || have.Seq < c.Seq {
				last[c.Key] = c
			}
			qs.take(c, "", now)
		}
		for k, c := range last {
			q := qs.get(k)
			if q == nil || q.call.Seq != c.Seq || q.open() != (c.State == message.ToolCallAsking) {
				t.Fatalf("%v is %+v, want %+v", k, q, c)
			}
		}
	})
}

func TestResolvedLeave(t *testing.T) {
	now := time.Unix(1e9, 0)
	var qs requests
	c := asking(t, "c", nil)
	qs.take(c, "", now)
	closed := c.Clone()
	closed.State, closed.Cause, closed.Seq = message.ToolCallFinished, "expire", 5
	qs.take(closed, "", now)
	never, always := func(toolcall.Key) bool { return false }, func(toolcall.Key) bool { return true }
	qs.sweep(now.Add(linger-1), never)
	qs.sweep(now.Add(linger), always)
	if q := qs.get(c.Key); q == nil || q.over != "expired: no decision in time" {
		t.Fatalf("the request was removed too early: %+v", q)
	}
	qs.sweep(now.Add(linger), never)
	qs.take(c, "", now) // an outdated list
	if q := qs.get(c.Key); q != nil {
		t.Errorf("the request came back: %+v", q)
	}
	qs.sweep(now.Add(memory), never)
	if len(qs.past) != 0 {
		t.Error("the removed request is remembered forever")
	}
}

func TestListedFindsTheMissing(t *testing.T) {
	now := time.Unix(1e9, 0)
	var qs requests
	a, b := asking(t, "a", nil), asking(t, "b", nil)
	qs.takeList([]*toolcall.Call{a, b}, listed(a, b).listed, now)
	if got := qs.takeList([]*toolcall.Call{b}, nil, now); got != nil {
		t.Errorf("an incomplete list reports that %v are missing", got)
	}
	if got := qs.takeList([]*toolcall.Call{b}, listed(b).listed, now); len(got) != 1 || got[0] != a.Key {
		t.Errorf("missing: %v", got)
	}
	qs.markGone(a.Key, now)
	if q := qs.get(a.Key); q.open() {
		t.Error("an unknown call is open")
	}
}

func TestMatcher(t *testing.T) {
	q := &request{call: asking(t, "call_7", func(req *toolcall.ApprovalRequest) { req.Text = "Refund to Ann?" })}
	for filter, want := range map[string]bool{"": true, "refund": true, "PAY ann": true, "call_7 bob": false, "large": true, `"cents":1`: true} {
		if got := matcher(filter)(q); got != want {
			t.Errorf("%q matches: %v", filter, got)
		}
	}
}

// collectPosts starts a feed and collects its messages.
func collectPosts(t *testing.T, e *fakeEngine, hints Hints) (*feed, <-chan tea.Msg) {
	t.Helper()
	ch := make(chan tea.Msg, 100)
	f := newFeed(Config{Engine: e, Hints: hints}, func(m tea.Msg) { ch <- m })
	return f, ch
}

func TestFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := asking(t, "c", nil)
		e := &fakeEngine{calls: map[toolcall.Key]*toolcall.Call{c.Key: c}}
		var hint func(toolcall.Key, bool)
		stopped := false
		f, got := collectPosts(t, e, func(_ context.Context, h func(toolcall.Key, bool)) (func(), error) {
			hint = h
			return func() { stopped = true }, nil
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { f.run(ctx); close(done) }()
		if m, ok := (<-got).(listedMsg); !ok || len(m.calls) != 1 || m.listed == nil {
			t.Errorf("the first message is %+v", m)
		}
		begin := time.Now()
		for range 5 { // a burst about one call leads to one read
			hint(c.Key, false)
		}
		if m, ok := (<-got).(sawMsg); !ok || m.call != c || time.Since(begin) > gather {
			t.Errorf("then received %+v after %v", m, time.Since(begin))
		}
		if m, ok := (<-got).(listedMsg); !ok || time.Since(begin) != every {
			t.Errorf("then received %+v after %v", m, time.Since(begin))
		}
		e.mu.Lock()
		e.err = message.ErrUnavailable
		e.mu.Unlock()
		begin = time.Now()
		if m, ok := (<-got).(troubleMsg); !ok || time.Since(begin) != every {
			t.Errorf("then received %+v after %v", m, time.Since(begin))
		}
		if m, ok := (<-got).(troubleMsg); !ok || time.Since(begin) != every+again {
			t.Errorf("then received %+v after %v", m, time.Since(begin))
		}
		stop()
		<-done
		if !stopped {
			t.Error("the feed still listens")
		}
	})
}

// After a flood of hints the feed reads the list, and reads calls sixteen at a time.
func TestFeedFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &fakeEngine{}
		f, got := collectPosts(t, e, nil)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go f.run(ctx)
		<-got
		for i := range 1000 {
			f.look(toolcall.Key{Call: message.CallID(fmt.Sprint(i))})
		}
		time.Sleep(every - 1)
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.listed < 2 || e.listed > 5 {
			t.Errorf("the list was requested %d times", e.listed)
		}
	})
}

func TestScrub(t *testing.T) {
	if got := scrub("нет,\n\tno\x1b[2J \u202eа\u200b"); got != "нет,\n\tno[2J а" {
		t.Errorf("scrub = %q", got)
	}
}
