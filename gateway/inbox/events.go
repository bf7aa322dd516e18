package inbox

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// tick is how often a stream says that it is alive. The script takes a stream
// that is silent for more than twice as long for dead.
const tick = 10 * time.Second

// changed says that a page may be old.
type changed struct {
	ID  string `json:"id"`           // of the call, as domID has it
	Say string `json:"say,omitzero"` // for people, where an approval request opened or ended
	New bool   `json:"new,omitzero"` // an approval request opened
	By  string `json:"by,omitzero"`  // who moved it
}

// progressed is a line of a running call.
type progressed struct {
	ID   string `json:"id"`
	Line line   `json:"line"`
}

// events tells a page what changes, until it goes away. What it has missed
// before, and while it was too slow, it reads by loading itself again.
func (in *Inbox) events(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if _, err := p.Reader(); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(r.Context())
	f := &follower{changes: make(chan gateway.Change, 16), ready: make(chan struct{}), ended: make(chan struct{})}
	go f.run(ctx, p.Feeds)
	defer func() { stop(); <-f.ended }()
	select {
	case <-f.ready:
	case <-f.ended:
		return nil
	}
	out := gateway.NewSSE(w)
	in.follow(out, f)
	return nil
}

// follow writes until the reader is gone, the server stops or the reader was
// too slow: then it comes back, and reads everything again.
func (in *Inbox) follow(out *gateway.SSE, f *follower) {
	err := out.Event("", "ready", []byte("{}"))
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for err == nil {
		select {
		case c := <-f.changes:
			err = in.tell(out, c)
		case <-timer.C:
			err = out.Event("", "tick", []byte("{}"))
		case <-f.ended:
			return
		}
	}
}

// follower brings the changes of a space to one stream.
type follower struct {
	changes chan gateway.Change
	ready   chan struct{} // closed when nothing can be missed any more
	ended   chan struct{} // closed when no more changes come
}

func (f *follower) run(ctx context.Context, feeds *gateway.Feeds) {
	defer close(f.ended)
	subscribed := func() error { close(f.ready); return nil }
	_ = feeds.Changes(ctx, subscribed, func(c gateway.Change) error { // its end is what matters
		select {
		case f.changes <- c:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// tell writes one change.
func (in *Inbox) tell(out *gateway.SSE, c gateway.Change) error {
	if c.Progress != nil {
		l := in.progress.note(*c.Progress)
		return out.JSON("progress", progressed{domID(c.Progress.Key), l})
	}
	ev := changed{ID: domID(c.Call.Key), By: reveal.Line(c.By.Name)}
	switch {
	case c.Call.State == message.ToolCallAsking && c.Call.Request != nil && len(c.Call.Votes) == 0:
		ev.New, ev.Say = true, "New approval request: "+reveal.Line(c.Call.Request.Text)
	case c.Call.State != message.ToolCallAsking && asked.WasAsked(c.Call) && !c.Call.Started():
		ev.Say = reveal.Line(c.Call.Tool + " " + asked.Verdict(c.Call, c.By.Name))
	}
	return out.JSON("changed", ev)
}

var _ gateway.Surface = (*Inbox)(nil)

// Bounds of what is kept of running calls.
const (
	keptCalls = 200
	keptLines = 100
)

// line is a line of progress, made visible.
type line struct {
	Attempt int    `json:"attempt"`
	N       int    `json:"n"`
	Text    string `json:"text"`
}

// progress keeps the last lines of running calls for pages that come later.
// They are kept as long as somebody watches, and nowhere else.
type progress struct {
	mu    sync.Mutex // guards what follows
	lines map[toolcall.Key][]line
	order []toolcall.Key // oldest first
}

func newProgress() *progress { return &progress{lines: map[toolcall.Key][]line{}} }

// note keeps a line. Every stream brings it: it is kept once.
func (p *progress) note(r toolcall.ProgressRequest) line {
	l := line{Attempt: r.Attempt, N: r.N, Text: reveal.Text(r.Text)}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, known := p.lines[r.Key]
	if slices.ContainsFunc(all, func(o line) bool { return o.Attempt == l.Attempt && o.N == l.N }) {
		return l
	}
	if !known {
		p.order = append(p.order, r.Key)
		if len(p.order) > keptCalls {
			delete(p.lines, p.order[0])
			p.order = p.order[1:]
		}
	}
	all = append(all, l)
	if len(all) > keptLines {
		all = all[1:]
	}
	p.lines[r.Key] = slices.Clip(all)
	return l
}

// of are the lines of a call.
func (p *progress) of(k toolcall.Key) []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[k])
}
