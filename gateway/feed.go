package gateway

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
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
		f.drop()                     // subscribers may have missed something
		_ = sleep.For(ctx, tryAgain) // the loop ends with ctx
	}
}

type changes struct {
	queue  chan Change
	behind chan struct{} // closed when it missed something
}

type changeSink Feeds

func (c *changeSink) CaughtUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.listening)
}

func (c *changeSink) Record(r toolcall.JournalEntry) {
	if r.Record == nil || r.Record.Call == nil {
		return
	}
	r.Record.Call.At(r.Seq)
	(*Feeds)(c).publish(Change{Seq: r.Seq, Kind: r.Record.Kind(), By: r.Record.By, At: r.Record.At, Call: c.space.ShowCall(r.Record.Call)})
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

// Every yields at each interval until ctx ends.
func Every(ctx context.Context, interval time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case at := <-tick.C:
				if !yield(at) {
					return
				}
			}
		}
	}
}

// Stream is a stream of server-sent events with keep-alive comments. It is safe for
// concurrent use.
type Stream struct {
	mu  sync.Mutex
	sse *SSE
	ctx context.Context //nolint:containedctx // of the request: nothing is written once it has ended
}

// Streaming replies with a stream that f writes. At each interval it sends the event alive with
// the time, or a comment, which clients skip, if alive is "". ctx ends with the request, or when the peer stops
// reading; f must then return. Streaming returns the error of f unless ctx has ended.
func Streaming(ctx context.Context, w http.ResponseWriter, interval time.Duration, alive string, f func(context.Context, *Stream) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	s := &Stream{sse: NewSSE(w), ctx: ctx}
	if err := s.keepAlive(alive); err != nil { // sends the headers
		return nil // the peer is gone
	}
	wg.Go(func() {
		for range Every(ctx, interval) {
			if err := s.keepAlive(alive); err != nil {
				cancel(err)
			}
		}
	})
	if err := f(ctx, s); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// Event writes one event; id and name may be empty. data with line breaks is split as the format
// requires.
func (s *Stream) Event(id, name string, data []byte) error {
	var b strings.Builder
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	if name != "" {
		b.WriteString("event: " + name + "\n")
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		b.WriteString("data: " + strings.TrimSuffix(line, "\r") + "\n")
	}
	b.WriteString("\n")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return s.sse.Write([]byte(b.String()))
}

// JSON writes an event with a JSON document.
func (s *Stream) JSON(name string, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return err
	}
	return s.Event("", name, b)
}

func (s *Stream) keepAlive(event string) error {
	if event != "" {
		return s.Event("", event, time.Now().UTC().AppendFormat(nil, time.RFC3339))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sse.KeepAlive()
}

// writeTimeout is how long a reader of a stream may take to accept one write.
const writeTimeout = 10 * time.Second

// SSE writes server-sent events. Only one goroutine may use it.
type SSE struct{ w http.ResponseWriter }

// NewSSE begins a stream of server-sent events.
func NewSSE(w http.ResponseWriter) *SSE {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return &SSE{w}
}

// KeepAlive writes a comment, which clients skip.
func (s *SSE) KeepAlive() error { return s.Write([]byte(":\n\n")) }

// Write writes framed bytes as the function Write does.
func (s *SSE) Write(b []byte) error { return Write(s.w, b) }

// Write writes and flushes a part of a reply. A reader that does not accept it within writeTimeout
// is disconnected.
func Write(w http.ResponseWriter, b []byte) error {
	rc := http.NewResponseController(w)
	if err := limitWrite(w); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	if err := rc.Flush(); err != nil {
		return err
	}
	_ = rc.SetWriteDeadline(time.Time{}) // fails as above. HTTP/2 ends a stream at its deadline, even if nothing is written then
	return nil
}

// limitWrite sets the deadline of what is written next.
func limitWrite(w http.ResponseWriter) error {
	return http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// Ended returns an error that tells the peer why a stream ends although its session continues.
// ctx is the request's. Ended returns nil if ctx has not ended or the peer is gone.
func Ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil, errors.Is(cause, context.Canceled):
		return nil
	case errors.Is(cause, errExpired), errors.Is(cause, errRevoked):
		return &message.Error{Code: message.CodeForbidden, Op: "stream", What: cause.Error(), Hint: "connect again with new credentials"}
	case errors.Is(cause, errClosing):
		return &message.Error{Code: message.CodeUnavailable, Op: "stream", What: cause.Error(), Hint: "connect again in a moment"}
	}
	return message.AsError("stream", cause)
}
