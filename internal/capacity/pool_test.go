package capacity_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message/api"
)

// roomy returns a limit that only Run restricts.
func roomy(run int) capacity.Limit {
	return capacity.Limit{Run: run, Running: 1 << 20, Stay: 1000, Bytes: 1 << 20}
}

// enter takes a place that can run at once.
func enter(t *testing.T, p *capacity.Pool, name string, bytes int) *capacity.Place {
	t.Helper()
	place, err := p.Enter(t.Context(), name, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// submit submits a request that reports its name when it runs, and then leaves.
func submit(t *testing.T, p *capacity.Pool, name string, bytes int, ran chan<- string) {
	t.Helper()
	if err := p.Submit(name, bytes, func(place *capacity.Place, err error) {
		if err != nil {
			ran <- err.Error()
			return
		}
		ran <- name
		place.Leave()
	}); err != nil {
		t.Fatal(err)
	}
}

// Principals take turns, no matter how many requests one of them has already sent.
func TestPrincipalsTakeTurns(t *testing.T) {
	p, ran := capacity.NewPool(roomy(1)), make(chan string, 100)
	first := enter(t, p, "eve", 0)
	for range 10 {
		submit(t, p, "eve", 0, ran)
	}
	submit(t, p, "ann", 0, ran)
	submit(t, p, "bob", 0, ran)
	first.Leave()
	var order []string
	for range 12 {
		order = append(order, <-ran)
	}
	if a, b := slices.Index(order, "ann"), slices.Index(order, "bob"); a > 2 || b > 3 {
		t.Errorf("the order is %v", order)
	}
}

// One principal can run, wait and hold bytes up to half of a limit; the rest is for others.
func TestOnePrincipalUsesHalf(t *testing.T) {
	discard := func(*capacity.Place, error) {}
	t.Run("run", func(t *testing.T) {
		p, ran := capacity.NewPool(roomy(4)), make(chan string, 10)
		enter(t, p, "eve", 0)
		second := enter(t, p, "eve", 0)
		submit(t, p, "eve", 0, ran)
		submit(t, p, "ann", 0, ran)
		if got := <-ran; got != "ann" {
			t.Errorf("%s ran a third request", got)
		}
		second.Leave()
		<-ran
	})
	t.Run("stay", func(t *testing.T) {
		p := capacity.NewPool(capacity.Limit{Run: 1, Running: 1, Stay: 10, Bytes: 1})
		held := enter(t, p, "eve", 0)
		defer held.Leave()
		for range 4 {
			if err := p.Submit("eve", 0, discard); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Submit("eve", 0, discard); !errors.Is(err, capacity.ErrFull) {
			t.Errorf("the sixth request of ten: %v", err)
		}
		if err := p.Submit("ann", 0, discard); err != nil {
			t.Errorf("another principal: %v", err)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		p := capacity.NewPool(capacity.Limit{Run: 9, Running: 100, Stay: 9, Bytes: 100})
		held := enter(t, p, "eve", 30)
		held.Hold(20)
		if err := p.Submit("eve", 1, discard); !errors.Is(err, capacity.ErrFull) {
			t.Errorf("51 of 100 bytes: %v", err)
		}
		held.Leave()
		enter(t, p, "eve", 50).Leave()
	})
	t.Run("running bytes", func(t *testing.T) {
		p, ran := capacity.NewPool(capacity.Limit{Run: 9, Running: 100, Stay: 99, Bytes: 1000}), make(chan string, 10)
		large := enter(t, p, "eve", 200) // larger than the limit, so it runs without others
		submit(t, p, "ann", 1, ran)
		select {
		case <-ran:
			t.Error("a request runs at the same time as one that fills the class")
		default:
		}
		large.Leave()
		<-ran
	})
}

// Close refuses waiting and new requests.
func TestCloseRefusesWaitingRequests(t *testing.T) {
	p, ran := capacity.NewPool(roomy(1)), make(chan string, 10)
	held := enter(t, p, "ann", 0)
	submit(t, p, "ann", 0, ran)
	p.Close()
	if got := <-ran; got != capacity.ErrClosed.Error() {
		t.Errorf("the waiting request got %s", got)
	}
	if _, err := p.Enter(t.Context(), "bob", 0); !errors.Is(err, capacity.ErrClosed) {
		t.Errorf("a new request: %v", err)
	}
	held.Leave()
	held.Leave()
}

// A resting request lets others run, and its principal's share still applies.
func TestRestLetsOthersRun(t *testing.T) {
	p := capacity.NewPool(capacity.Limit{Run: 1, Running: 1, Stay: 4, Bytes: 1})
	place := enter(t, p, "ann", 0)
	ctx := capacity.With(t.Context(), place)
	resume := capacity.Rest(ctx)
	other := enter(t, p, "bob", 0)
	var resumed atomic.Bool
	done := make(chan error)
	go func() {
		err := resume()
		resumed.Store(true)
		done <- err
	}()
	if resumed.Load() {
		t.Error("two requests run in a class for one")
	}
	other.Leave()
	if err := <-done; err != nil {
		t.Error(err)
	}
	place.Leave()
	enter(t, p, "bob", 0).Leave()
	if err := capacity.Rest(t.Context())(); err != nil {
		t.Errorf("without a place: %v", err)
	}
}

// A request whose sender gives up, or that waited too long, never runs and takes no capacity.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ran := capacity.NewPool(roomy(1)), make(chan string, 10)
		defer p.Close()
		held := enter(t, p, "ann", 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Enter(ctx, "bob", 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		submit(t, p, "eve", 0, ran)
		time.Sleep(capacity.MaxWait + time.Second)
		held.Leave()
		if got := <-ran; got != capacity.ErrLate.Error() {
			t.Errorf("a late request: %s", got)
		}
		enter(t, p, "ann", 0).Leave()
	})
}

// Every class can run several requests at the same time and hold their data.
func TestLimits(t *testing.T) {
	limits := capacity.Default()
	for _, c := range api.Classes {
		if l := limits[c]; l.Run < 2 || l.Running < 1<<20 || l.Stay < l.Run || l.Bytes < 2*l.Running {
			t.Errorf("%s: %+v", c, l)
		}
	}
}

// Goroutines stay for the next request, even after more have run at the same time than may stay,
// and end with the pool: a bubble with a remaining goroutine would not end.
func TestRunnersEndWithThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const at = 200
		p, ran, hold := capacity.NewPool(roomy(2*at)), make(chan string, at), make(chan struct{})
		for round := range 3 {
			for range at {
				if err := p.Submit("eve", 0, func(place *capacity.Place, err error) {
					<-hold
					ran <- "eve"
					place.Leave()
				}); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			for range at {
				hold <- struct{}{}
			}
			synctest.Wait()
			if len(ran) != at {
				t.Fatalf("round %d: %d of %d ran", round, len(ran), at)
			}
			for range at {
				<-ran
			}
		}
		p.Close()
		p.Close()
	})
}
