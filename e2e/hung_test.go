//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/toolcall"
)

// TestHungEngine stops one of two engines while it measures the other. After ten seconds requests
// are answered and remote calls finish as if the running engine were the only one. Then the
// stopped engine continues.
func TestHungEngine(t *testing.T) {
	t.Parallel()
	const (
		span    = 7 * time.Second
		resolve = 10 * time.Second // time in which clients may still notice the hung engine
	)
	s, _, _ := newCluster(t, "engine-a")
	alone := s.load("alone", 0, span, func() {})

	hung := s.replica("engine-b")
	hung.start()
	hung.up()
	const tries = 3 // other work on the machine may spoil a measurement
	for try := 1; ; try++ {
		busy := s.busy()
		during := s.load(fmt.Sprint("hung", try), resolve, span, func() { hung.signal(syscall.SIGSTOP) })
		lost := busy()
		busy = s.busy()
		after := s.load(fmt.Sprint("resumed", try), 0, 4*time.Second, func() { hung.signal(syscall.SIGCONT) })
		lostAfter := busy()

		for name, m := range map[string]measured{"alone": alone, "hung": during, "resumed": after} {
			t.Logf("%s: %.1f remote calls a second; of %d requests p50 %s, p99 %s", name, m.rate, len(m.latencies), m.quantile(0.5), m.quantile(0.99))
		}
		var wrong []string
		if p99 := during.quantile(0.99); p99 > 2*time.Second+lost {
			wrong = append(wrong, fmt.Sprintf("with one of two engines hung, p99 of requests is %s (the machine was too busy for %s), want at most 2s", p99, lost))
		}
		if p99 := after.quantile(0.99); p99 > 2*time.Second+lostAfter {
			wrong = append(wrong, fmt.Sprintf("after the hung engine resumed, p99 of requests is %s (the machine was too busy for %s), want at most 2s", p99, lostAfter))
		}
		if want := min(alone.rate, after.rate); during.rate < 0.8*want { // the machine may have other work before or after
			wrong = append(wrong, fmt.Sprintf("with one of two engines hung, %.1f remote calls a second finish, want 80%% of the %.1f before or after", during.rate, want))
		}
		t.Logf("the machine was too busy for %s and then %s", lost, lostAfter)
		if len(wrong) == 0 {
			break
		}
		if try == tries {
			t.Error(strings.Join(wrong, "\n"))
			break
		}
		t.Logf("try %d: %s", try, strings.Join(wrong, "\n"))
	}
	if !strings.Contains(string(hung.tail(64<<10)), "was paused for some seconds") {
		t.Error("the stopped engine did not notice that it was paused")
	}
	s.finish()
}

// measured is the result of a load.
type measured struct {
	rate      float64 // remote calls that finished, a second
	latencies []time.Duration
}

func (m *measured) quantile(q float64) time.Duration {
	if len(m.latencies) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(m.latencies))[int(q*float64(len(m.latencies)-1))]
}

// load lets runtimes propose remote calls, list them and wait for them, one after the other. It
// calls begin when they have begun, waits for skip, and then measures for span.
func (s *stage) load(name string, skip, span time.Duration, begin func()) measured {
	s.t.Helper()
	const bots = 8
	var (
		mu sync.Mutex // guards m
		m  measured
		wg sync.WaitGroup
	)
	from := time.Now().Add(skip)
	end := from.Add(span)
	ctx, cancel := context.WithDeadline(s.t.Context(), end.Add(patience))
	defer cancel()
	timed := func(f func() error) error {
		began := time.Now()
		err := f()
		mu.Lock()
		defer mu.Unlock()
		if began.After(from) {
			m.latencies = append(m.latencies, time.Since(began))
		}
		return err
	}
	for i := range bots {
		c := s.world.bot()
		wg.Go(func() {
			session := fmt.Sprintf("%s-%d", name, i)
			for n := 0; time.Now().Before(end); n++ {
				request := proposal(session, fmt.Sprintf("r%d", n), s.block("c", remote[i%2], effect.Input{N: n, Before: 250}))
				err := timed(func() error {
					got, err := c.Propose(ctx, request)
					s.acknowledged("propose", got.Calls...)
					return err
				})
				if err == nil {
					err = timed(func() error {
						_, err := c.List(ctx, toolcall.ListRequest{Session: request.Session})
						return err
					})
				}
				if err == nil {
					_, err = c.Wait(ctx, toolcall.WaitRequest{Session: request.Session, Reply: request.Reply, TimeoutMS: patience.Milliseconds()})
				}
				if err != nil {
					s.t.Errorf("%s: %v", name, err)
					return
				}
				if now := time.Now(); now.After(from) && now.Before(end) {
					mu.Lock()
					m.rate += 1 / span.Seconds()
					mu.Unlock()
				}
			}
		})
	}
	begin()
	wg.Wait()
	return m
}
