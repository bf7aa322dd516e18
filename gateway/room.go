package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	roomBytes = 1 << 20          // of events that a room keeps for its watchers
	roomHold  = 25 * time.Second // how long the engine holds a request for events
	tryAgain  = time.Second      // pause before a failed request is sent again
)

// roomKey names the watchers of a session that see the same events.
type roomKey struct {
	session message.SessionID
	runtime string // a runtime, which sees unredacted values; "" for all others
}

// room follows one session with one reader of the journal for all watchers. It keeps the last
// events, so a watcher needs only a position and no copy.
type room struct {
	key    roomKey
	cancel context.CancelFunc

	watchers int // guarded by Feeds.mu

	mu      sync.Mutex // guards what follows
	last    []EventBatch
	bytes   int
	lo, hi  uint64        // last has all events of records after lo and up to hi
	changed chan struct{} // closed when there is more
	err     error         // set when the room has ended
}

// enter returns the room of a session; a new one begins after at.
func (f *Feeds) enter(p *Peer, session message.SessionID, at uint64) *room {
	key := roomKey{session: session}
	if p.readRole() == toolcall.RoleRuntime {
		key.runtime = p.Name
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rooms[key]
	if r == nil {
		ctx, cancel := context.WithCancel(context.Background())
		r = &room{key: key, cancel: cancel, lo: at, hi: at, changed: make(chan struct{})}
		f.rooms[key] = r
		go f.follow(ctx, r, p) // until the last watcher leaves
	}
	r.watchers++
	return r
}

func (f *Feeds) leave(r *room) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.watchers--; r.watchers == 0 {
		r.cancel()
		if f.rooms[r.key] == r {
			delete(f.rooms, r.key)
		}
	}
}

// follow reads new events with the rights of the first watcher: all others in the
// room have the same rights.
func (f *Feeds) follow(ctx context.Context, r *room, p *Peer) {
	at := r.hi
	for {
		out, err := f.read(ctx, p, toolcall.EventsRequest{Session: r.key.session, After: at, WaitMS: roomHold.Milliseconds()})
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.mu.Lock()
			if f.rooms[r.key] == r {
				delete(f.rooms, r.key)
			}
			f.mu.Unlock()
			r.fail(err)
			return
		}
		at = out.Next
		r.add(EventBatch{Events: out.Events, Through: out.Next, Live: true})
	}
}

// read requests events, and waits while no engine answers.
func (f *Feeds) read(ctx context.Context, p *Peer, req toolcall.EventsRequest) (toolcall.EventsReply, error) {
	for {
		c, err := p.Reader()
		if err != nil {
			return toolcall.EventsReply{}, err
		}
		out, err := c.Events(ctx, req)
		if err == nil || ctx.Err() != nil || !errors.Is(err, message.ErrUnavailable) {
			return out, err
		}
		if err := sleep.For(ctx, tryAgain); err != nil {
			return toolcall.EventsReply{}, err
		}
	}
}

func (r *room) add(b EventBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hi = b.Through
	if len(b.Events) == 0 {
		return
	}
	r.last = append(r.last, b)
	r.bytes += size(b)
	for r.bytes > roomBytes && len(r.last) > 1 {
		r.lo = r.last[0].Through
		r.bytes -= size(r.last[0])
		r.last = append(r.last[:0:0], r.last[1:]...) // releases the first
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *room) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	close(r.changed)
	r.changed = make(chan struct{})
}

func size(b EventBatch) int {
	n := 0
	for _, ev := range b.Events {
		n += len(ev.Event) + 64
	}
	return n
}

// errPast: the room no longer has the next events.
var errPast = errors.New("the room has moved on")

// next returns the first batch after at. If there is none, more is closed when there may be one.
// All watchers share the events.
func (r *room) next(at uint64) (b EventBatch, more <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.err != nil:
		return b, nil, r.err
	case at < r.lo:
		return b, nil, errPast
	}
	i := sort.Search(len(r.last), func(i int) bool { return r.last[i].Through > at })
	if i == len(r.last) {
		return b, r.changed, nil
	}
	b = r.last[i]
	from := sort.Search(len(b.Events), func(i int) bool { return b.Events[i].Seq > at })
	b.Events = b.Events[from:]
	return b, nil, nil
}

// Events calls fn, from the caller's goroutine, with the AgentScope events of a session as p may
// see them: first those of records after a sequence, then new ones, in order and without a gap.
// It waits while no engine answers. It returns fn's error, an engine's refusal, or the cause of
// ctx's end. fn must not change the events, because they are shared.
func (f *Feeds) Events(ctx context.Context, p *Peer, session message.SessionID, after uint64, fn func(EventBatch) error) error {
	w := &watcher{f: f, p: p, session: session, at: after, fn: fn}
	err := w.run(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watcher is one call of Events.
//
// Invariant: every event up to at was delivered, none after it.
type watcher struct {
	f       *Feeds
	p       *Peer
	session message.SessionID
	at      uint64
	live    bool
	fn      func(EventBatch) error
}

func (w *watcher) run(ctx context.Context) error {
	for {
		before := w.at
		if err := w.catchUp(ctx); err != nil {
			return err
		}
		if err := w.follow(ctx); !errors.Is(err, errPast) {
			return err
		}
		if w.at == before { // this engine lags behind the room
			if err := sleep.For(ctx, tryAgain); err != nil {
				return err
			}
		}
	}
}

// catchUp reads the past from the engine, with the peer's own rights.
func (w *watcher) catchUp(ctx context.Context) error {
	for {
		out, err := w.f.read(ctx, w.p, toolcall.EventsRequest{Session: w.session, After: w.at})
		if err != nil {
			return err
		}
		w.at = out.Next
		over := len(out.Events) == 0
		if over && w.live {
			return nil
		}
		w.live = w.live || over
		if err := w.fn(EventBatch{Events: out.Events, Through: w.at, Live: w.live}); err != nil || over {
			return err
		}
	}
}

// follow delivers the room's events until it lacks the next one (errPast).
func (w *watcher) follow(ctx context.Context) error {
	r := w.f.enter(w.p, w.session, w.at)
	defer w.f.leave(r)
	for {
		b, more, err := r.next(w.at)
		switch {
		case errors.Is(err, errPast):
			return err
		case err != nil:
			return cmp.Or(sleep.For(ctx, tryAgain), errPast) // the peer's own request then reports its refusal
		case more == nil:
			w.at = b.Through
			if len(b.Events) == 0 {
				continue
			}
			if err := w.fn(b); err != nil {
				return err
			}
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Cursor is a position in a session's event stream: after the Nth event (from 1) of the record
// with sequence Seq, or after all of them if N is 0. As text, "SEQ" or "SEQ-N", it is the id of
// an event in a stream, which clients return as Last-Event-ID.
type Cursor struct {
	Seq uint64
	N   int
}

func (c Cursor) String() string {
	if c.N == 0 {
		return strconv.FormatUint(c.Seq, 10)
	}
	return strconv.FormatUint(c.Seq, 10) + "-" + strconv.Itoa(c.N)
}

// ParseCursor reads a cursor.
func ParseCursor(text string) (Cursor, error) {
	seq, n, parts := strings.Cut(text, "-")
	var c Cursor
	var err error
	if c.Seq, err = strconv.ParseUint(seq, 10, 64); err == nil && parts {
		var number uint64
		number, err = strconv.ParseUint(n, 10, 31)
		c.N = int(number) // 31 bits
		if number == 0 || c.Seq == 0 {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return Cursor{}, &message.Error{Code: message.CodeInvalid, Op: "resume", What: fmt.Sprintf("the cursor %.64q is not valid", text), Hint: "send the id of the last event that you received, or none"}
	}
	return c, nil
}

// Resume is Events from a cursor: fn gets each later event with its own cursor. live,
// if not nil, is called once, after the past was delivered.
func (f *Feeds) Resume(ctx context.Context, p *Peer, session message.SessionID, from Cursor, live func() error, fn func(Cursor, toolcall.SequencedEvent) error) error {
	after, skip := from.Seq, from.N
	if skip > 0 {
		after--
		if _, err := f.read(ctx, p, toolcall.EventsRequest{Session: session, After: from.Seq, Limit: 1}); err != nil { // a cursor beyond the end
			return err
		}
	}
	at := Cursor{Seq: after}
	return f.Events(ctx, p, session, after, func(b EventBatch) error {
		for _, ev := range b.Events {
			if ev.Seq != at.Seq {
				at = Cursor{Seq: ev.Seq}
			}
			at.N++
			if ev.Seq == from.Seq && at.N <= skip {
				continue
			}
			if err := fn(at, ev); err != nil {
				return err
			}
		}
		if b.Live && live != nil {
			call := live
			live = nil
			return call()
		}
		return nil
	})
}
