package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// EventBatch is a part of a session's event stream.
type EventBatch struct {
	Events  []toolcall.SequencedEvent
	Through uint64 // the sequence to continue after
	Live    bool   // the past was delivered; the first live batch may be empty
}

// Change is a changed call or a progress line: one of Call and Progress is set.
type Change struct {
	Seq      uint64             // of the event record
	Kind     string             // toolcall.EventRecord.Kind
	By       toolcall.Principal // who caused it
	At       time.Time
	Call     *toolcall.Call // redacted as rules say
	Progress *toolcall.ProgressRequest
}

// ErrBehind ends a subscription whose reader was too slow: subscribe and read the
// list of calls again.
var ErrBehind = errors.New("the subscriber was too slow and missed changes")

// changeQueue is how many changes wait for one subscriber.
const changeQueue = 1024

// Feeds are the live feeds of one space, shared by all watchers.
type Feeds struct {
	space *Space
	log   *slog.Logger

	mu        sync.Mutex // guards what follows
	subs      map[*changes]struct{}
	rooms     map[roomKey]*room
	listening chan struct{} // closed while the journal is followed
}

// newFeeds makes the feeds of a space. Run runs them.
func newFeeds(space *Space, log *slog.Logger) *Feeds {
	return &Feeds{space: space, log: log, subs: map[*changes]struct{}{}, rooms: map[roomKey]*room{}, listening: make(chan struct{})}
}

// Run follows the journal for all subscribers until ctx ends.
func (f *Feeds) Run(ctx context.Context) {
	if f.space.Progress != nil {
		stop := f.space.Progress(func(p toolcall.ProgressRequest) { f.publish(Change{Progress: &p}) })
		defer stop()
	}
	for ctx.Err() == nil {
		err := f.space.Watch(ctx, (*changeSink)(f))
		if ctx.Err() != nil {
			return
		}
		f.log.Warn("cannot follow the journal; trying again", "err", err)
		f.drop() // subscribers may have missed something
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

// changes is one subscriber.
type changes struct {
	queue  chan Change
	behind chan struct{} // closed when it missed something
}

type changeSink Feeds

func (f *changeSink) CaughtUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.listening)
}

func (f *changeSink) Record(r toolcall.JournalEntry) {
	if r.Record == nil || r.Record.Call == nil {
		return
	}
	r.Record.Call.At(r.Seq)
	(*Feeds)(f).publish(Change{Seq: r.Seq, Kind: r.Record.Kind(), By: r.Record.By, At: r.Record.At, Call: f.space.ShowCall(r.Record.Call)})
}

func (f *Feeds) publish(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		select {
		case s.queue <- c:
		default:
			close(s.behind)
			delete(f.subs, s)
		}
	}
}

// drop ends all subscriptions.
func (f *Feeds) drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.listening:
		f.listening = make(chan struct{})
	default:
	}
	for s := range f.subs {
		close(s.behind)
		delete(f.subs, s)
	}
}

// Changes calls fn with every change from now on, from the caller's goroutine and in
// order. It first calls subscribed, if not nil: a list of calls that is read there
// misses nothing. It returns fn's or subscribed's error, ErrBehind, or the cause of
// ctx's end.
func (f *Feeds) Changes(ctx context.Context, subscribed func() error, fn func(Change) error) error {
	s, err := f.subscribe(ctx)
	if err != nil {
		return err
	}
	defer f.unsubscribe(s)
	if subscribed != nil {
		if err := subscribed(); err != nil {
			return err
		}
	}
	for {
		select {
		case c := <-s.queue:
			if err := fn(c); err != nil {
				return err
			}
		case <-s.behind:
			return ErrBehind
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// subscribe waits until the journal is followed.
func (f *Feeds) subscribe(ctx context.Context) (*changes, error) {
	s := &changes{queue: make(chan Change, changeQueue), behind: make(chan struct{})}
	for {
		f.mu.Lock()
		listening := f.listening
		select {
		case <-listening:
			f.subs[s] = struct{}{}
			f.mu.Unlock()
			return s, nil
		default:
		}
		f.mu.Unlock()
		select {
		case <-listening:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (f *Feeds) unsubscribe(s *changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
}

// Listeners distribute the progress of running calls: Add is a Space.Progress. The
// zero value is ready, and safe for concurrent use.
type Listeners struct {
	mu   sync.Mutex // guards what follows
	next int
	all  map[int]func(toolcall.ProgressRequest)
}

// Add calls f with each progress line until stop is called. f must not block and must not call
// the Listeners.
func (l *Listeners) Add(f func(toolcall.ProgressRequest)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[int]func(toolcall.ProgressRequest){}
	}
	id := l.next
	l.next++
	l.all[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.all, id)
	}
}

// Tell calls all listeners.
func (l *Listeners) Tell(p toolcall.ProgressRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.all {
		f(p)
	}
}
