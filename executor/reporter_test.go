package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// told is a network that records the lines it is sent.
type told struct {
	lines []string
	fail  error
	delay time.Duration
}

func (t *told) send(ctx context.Context, i int, text string) error {
	select {
	case <-time.After(t.delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	t.lines = append(t.lines, fmt.Sprintf("%d %s", i, text))
	return t.fail
}

func report(t *testing.T, n *told, f func(*reporter)) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		r := &reporter{ctx: t.Context(), send: n.send}
		f(r)
		begun := time.Now()
		r.close()
		r.add("too late")
		took = time.Since(begun)
	})
	return took
}

func TestProgressIsNumberedAndFlushed(t *testing.T) {
	var n told
	report(t, &n, func(r *reporter) {
		for _, l := range []string{"a", "b", "c"} {
			r.add(l)
		}
	})
	if want := []string{"1 a", "2 b", "3 c"}; !slices.Equal(n.lines, want) {
		t.Errorf("sent %q, want %q", n.lines, want)
	}
}

func TestProgressKeepsTheRateAndTheNewestLines(t *testing.T) {
	var n told
	report(t, &n, func(r *reporter) {
		for i := range 10_000 { // ten seconds of a line each millisecond
			r.add(fmt.Sprint(i + 1))
			time.Sleep(time.Millisecond)
		}
	})
	if most := int(10*time.Second/progressEvery) + progressKept + 2; len(n.lines) > most || len(n.lines) < most/2 {
		t.Errorf("%d lines were sent in 10 s, want about %d", len(n.lines), most)
	}
	if last := n.lines[len(n.lines)-1]; last != "10000 10000" {
		t.Errorf("the last line is %q, want the newest", last)
	}
	for _, l := range n.lines {
		var i, text int
		if _, err := fmt.Sscanf(l, "%d %d", &i, &text); err != nil || i != text {
			t.Errorf("line %q carries another line's number", l)
		}
	}
}

// A network that does not answer delays a finished run only a little.
func TestProgressDoesNotHoldUpTheResult(t *testing.T) {
	for name, n := range map[string]*told{
		"fails": {fail: errors.New("down")}, "hangs": {delay: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			hang := n.delay
			n.delay = 0
			took := report(t, n, func(r *reporter) {
				r.add("first")
				synctest.Wait()
				n.delay = min(hang, progressTimeout) // the attempt limits each try to this
				for range progressKept {
					r.add("more")
				}
			})
			if took > progressFlush+progressEvery+progressTimeout {
				t.Errorf("closing took %s", took)
			}
		})
	}
}

func TestBackoffIsJitteredAndCapped(t *testing.T) {
	var b backoff
	want := backoffFirst
	for range 30 {
		if d := b.next(); d < want/2 || d > want {
			t.Errorf("waits %s, want between %s and %s", d, want/2, want)
		}
		want = min(2*want, backoffLast)
	}
}
