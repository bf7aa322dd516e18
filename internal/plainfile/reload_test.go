package plainfile_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/internal/plainfile"
)

// A reloader reports each new fault once, and when it ends.
func TestReloaderReportsWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := errors.New("a"), errors.New("b")
		outcomes := []error{nil, a, a, b, nil, nil, a}
		var reported []error
		r := plainfile.Reloader{Report: func(err error) { reported = append(reported, err) }}
		start := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		r.Watch(ctx, time.Second, func(context.Context) error {
			err := outcomes[0]
			if outcomes = outcomes[1:]; len(outcomes) == 0 {
				defer stop()
			}
			return err
		})
		if want := []error{a, b, nil}; !slices.Equal(reported, want) {
			t.Errorf("reported %v, want %v", reported, want)
		}
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("seven looks took %v, want 7s", took)
		}
		if _, err := r.Fault(); err != nil {
			t.Errorf("an error after the end is remembered: %v", err)
		}
		if err := r.Reload(t.Context(), func(context.Context) error { return a }); !errors.Is(err, a) {
			t.Errorf("Reload = %v, want %v", err, a)
		}
		since := time.Now()
		time.Sleep(time.Second)
		_ = r.Reload(t.Context(), func(context.Context) error { return b })
		if at, err := r.Fault(); !errors.Is(err, b) || !at.Equal(since) {
			t.Errorf("Fault = %v since %v, want %v since %v", err, at, b, since)
		}
	})
}

// Reloads never run at the same time.
func TestReloaderSerializes(t *testing.T) {
	var r plainfile.Reloader
	var wg sync.WaitGroup
	n := 0
	for range 4 {
		wg.Go(func() {
			for range 500 {
				_ = r.Reload(t.Context(), func(context.Context) error {
					before := n
					runtime.Gosched()
					n = before + 1
					return nil
				})
			}
		})
	}
	wg.Wait()
	if n != 2000 {
		t.Errorf("%d of 2000 reloads counted: some ran at the same time", n)
	}
}
