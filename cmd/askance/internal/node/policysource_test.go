package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Files that are put one after the other are loaded together, once, and not
// before the last has been at rest.
func TestABucketIsLoadedWhenItIsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, ended, out := make(chan struct{}, 1), make(chan error, 1), make(chan error, 1)
		start := time.Now()
		var loaded []time.Duration
		go func() {
			out <- whenAtRest(changed, ended, func() { loaded = append(loaded, time.Since(start)) })
		}()
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		want := func(what string, times ...time.Duration) {
			t.Helper()
			if len(loaded) != len(times) {
				t.Fatalf("%s: loaded at %v, want %v", what, loaded, times)
			}
			for i, at := range times {
				if loaded[i] != at {
					t.Errorf("%s: loaded at %v, want %v", what, loaded, times)
				}
			}
		}
		after(time.Hour)
		want("nothing has changed")
		for range 5 { // each change waits anew
			changed <- struct{}{}
			after(settleFor - time.Millisecond)
			want("changes go on")
		}
		first := time.Since(start) + time.Millisecond
		after(time.Second)
		want("at rest", first)
		after(time.Hour)
		want("long at rest", first)
		second := time.Since(start) + settleFor
		changed <- struct{}{}
		after(time.Second)
		want("a second series", first, second)

		changed <- struct{}{}
		synctest.Wait()
		stop := errors.New("stopping")
		ended <- stop
		if err := <-out; !errors.Is(err, stop) {
			t.Errorf("ended with %v", err)
		}
		after(time.Hour)
		want("after the end", first, second)
	})
}
