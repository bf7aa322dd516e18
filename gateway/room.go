package gateway

import (
	"context"
	"errors"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	roomBytes = 1 << 20          // of events that a room keeps at hand for its watchers
	roomHold  = 25 * time.Second // how long the engine holds a request for events
	tryAgain  = time.Second      // after there was no engine
)

// roomKey names what watchers of a session share: they see the same events.
type roomKey struct {
	session message.SessionID
	runtime string // who sees what rules redact; "" for everybody else
}

// room follows one session for all who watch it: one reader of the journal,
// whatever their number. What it has read last stays at hand, so that a watcher
// costs a place in it and no copy.
type room struct {
	key    roomKey
	cancel context.CancelFunc

	watchers int // guarded by Feeds.mu

	mu      sync.Mutex // guards what follows
	last    []EventBatch
	bytes   int
	lo, hi  uint64        // last has all events of records after lo and up to hi
	changed chan struct{} // closed when there is more
	err     error         // the room is over
}

// enter gives the room of a session, which begins behind at if it is new.
func (f *Feeds) enter(p *Peer, session message.SessionID, at uint64) *room {
	key := roomKey{session: session}
	if p.ReadRole() == toolcall.RoleRuntime {
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

// follow reads what comes, with the rights of the watcher who was first: those
// of all others in the room are the same.
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

// read asks whichever engine works now, and waits while none does.
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
		select {
		case <-time.After(tryAgain):
		case <-ctx.Done():
			return toolcall.EventsReply{}, context.Cause(ctx)
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
		r.last = append(r.last[:0:0], r.last[1:]...) // so that the first is let go
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

// errPast: the room does not have the next events any more.
var errPast = errors.New("the room has moved on")

// next is the first batch behind at; more is closed when there may be one. It
// shares its events with all watchers.
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

// Events calls fn, from the caller's goroutine, with the AgentScope events of a
// session as p may see them: first those of records after the sequence after,
// then what comes, in order and without a gap. It rides out times without an
// engine. It returns fn's error, what the engine refuses, or the cause of ctx's
// end. fn must not change the events: they are shared.
func (f *Feeds) Events(ctx context.Context, p *Peer, session message.SessionID, after uint64, fn func(EventBatch) error) error {
	w := &watcher{f: f, p: p, session: session, at: after, fn: fn}
	err := w.run(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watcher is one call of Events: everything up to at has been delivered.
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
		if err := w.catchUp(ctx); err != nil {
			return err
		}
		if err := w.stay(ctx); !errors.Is(err, errPast) {
			return err
		}
	}
}

// catchUp reads the past by itself, with the rights of this very peer.
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

// stay watches the room until it has nothing for this watcher (errPast).
func (w *watcher) stay(ctx context.Context) error {
	r := w.f.enter(w.p, w.session, w.at)
	defer w.f.leave(r)
	for {
		b, more, err := r.next(w.at)
		switch {
		case errors.Is(err, errPast):
			return err
		case err != nil:
			return w.pause(ctx) // what this peer itself is told of it comes from its own request
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

// pause keeps a room that ends again and again from being a loop.
func (w *watcher) pause(ctx context.Context) error {
	select {
	case <-time.After(tryAgain):
		return errPast
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Cursor is a place in a session's event stream: behind the Nth event (counted
// from 1) of the record with sequence Seq, or behind all of them if N is 0. As
// text it is "SEQ" or "SEQ-N"; it is what a stream gives as an event's id and
// takes back as Last-Event-ID.
type Cursor struct {
	Seq uint64
	N   int
}

// String is the cursor as text.
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
		return Cursor{}, &message.Error{Code: message.CodeInvalid, Op: "resume", What: "the cursor " + strconv.Quote(cut(text)) + " is none of ours", Hint: "send the id of the last event that was received, or none"}
	}
	return c, nil
}

// cut shortens text from outside for a message.
func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// Resume is Events from a cursor, event by event: fn gets each event of the
// session behind from with the cursor of its own place. live, if not nil, is
// called once, when the past has been delivered.
func (f *Feeds) Resume(ctx context.Context, p *Peer, session message.SessionID, from Cursor, live func() error, fn func(Cursor, toolcall.SequencedEvent) error) error {
	after, skip := from.Seq, from.N
	if skip > 0 {
		after--
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
