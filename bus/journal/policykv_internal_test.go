package journal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// fullBucket lists more entries than its watcher keeps, as the client of NATS does.
type fullBucket struct{ jetstream.KeyValue }

func (fullBucket) Watch(context.Context, string, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	w := &fullWatcher{updates: make(chan jetstream.KeyValueEntry), stopped: make(chan struct{})}
	go func() {
		for range 3 {
			w.updates <- (jetstream.KeyValueEntry)(entry{})
		}
		<-w.stopped
		close(w.updates)
	}()
	return w, nil
}

type entry struct{ jetstream.KeyValueEntry }

type fullWatcher struct {
	updates chan jetstream.KeyValueEntry
	stopped chan struct{}
}

func (w *fullWatcher) Updates() <-chan jetstream.KeyValueEntry { return w.updates }
func (w *fullWatcher) Error() <-chan error                     { return nil }
func (w *fullWatcher) Stop() error                             { close(w.stopped); return nil }

// A listing that fails leaves no goroutine: synctest waits for all of them.
func TestListingThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := errors.New("bad entry")
		if err := readBucket(t.Context(), "list", fullBucket{}, ">", func(jetstream.KeyValueEntry) error { return bad }); !errors.Is(err, bad) {
			t.Errorf("readBucket = %v, want %v", err, bad)
		}
	})
}

// endlessBucket has a watcher that never ends, as the client of NATS does if the connection closes
// while the watcher begins.
type endlessBucket struct{ jetstream.KeyValue }

func (endlessBucket) Bucket() string { return "policies" }

func (endlessBucket) Watch(context.Context, string, ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return &fullWatcher{updates: make(chan jetstream.KeyValueEntry), stopped: make(chan struct{})}, nil
}

// A listing ends with its context even if its watcher does not.
func TestListingThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := readBucket(ctx, "list", endlessBucket{}, ">", func(jetstream.KeyValueEntry) error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("readBucket = %v, want %v", err, context.DeadlineExceeded)
		}
		<-time.After(2 * drainTime) // of the fake clock
	})
}
