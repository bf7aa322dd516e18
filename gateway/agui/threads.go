package agui

import (
	"context"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// threadKey names a thread on this server.
type threadKey struct {
	space   toolcall.SpaceID
	session message.SessionID
}

// threads are the threads that clients follow on this server.
type threads struct {
	mu   sync.Mutex
	open map[threadKey]*load
}

// load counts the streams of one thread.
type load struct {
	watchers int
	runs     int           // streams that may begin or resume something
	left     chan struct{} // closed and replaced when a watcher leaves
	// deciding is held by the one request that reads the thread and acts on it, so responses are
	// taken one request at a time.
	deciding chan struct{}
}

// enter counts a stream. The caller must call leave.
func (t *threads) enter(k threadKey, runs bool) (*load, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.open[k]
	if l == nil {
		l = &load{left: make(chan struct{}), deciding: make(chan struct{}, 1)}
		t.open[k] = l
	}
	if l.watchers >= MaxWatchers {
		return nil, &message.Error{Code: message.CodeOverLimit, Op: "run", What: "too many streams follow this thread", Hint: "close some of them"}
	}
	l.watchers++
	if runs {
		l.runs++
	}
	return l, nil
}

func (t *threads) leave(k threadKey, runs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.open[k]
	if runs {
		l.runs--
	}
	close(l.left)
	l.left = make(chan struct{})
	if l.watchers--; l.watchers == 0 {
		delete(t.open, k)
	}
}

// hasOtherRuns reports whether other runs of the thread are in progress, and returns a channel
// that is closed when a stream leaves.
func (t *threads) hasOtherRuns(l *load) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.runs > 1, l.left
}

// busyError refuses a second run of a thread.
func busyError() error {
	return &message.Error{Code: message.CodeConflict, Op: "run", What: "a run of this thread is under way", Hint: "wait for its end, or POST to /agui/connect to follow it"}
}

// lockDeciding waits for the right to act on the thread.
func (l *load) lockDeciding(ctx context.Context) (release func(), err error) {
	select {
	case l.deciding <- struct{}{}:
		return func() { <-l.deciding }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
