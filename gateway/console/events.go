package console

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

// tick is the interval of keep-alive events. The script reconnects when the stream has been silent
// for more than twice as long.
const tick = 10 * time.Second

// changed reports that a page may be out of date.
type changed struct {
	ID  string `json:"id"`           // of the call, as domID has it
	Key string `json:"key"`          // of the call, as formKey has it
	Say string `json:"say,omitzero"` // announced when an approval request opens or ends
	New bool   `json:"new,omitzero"` // an approval request opened
	By  string `json:"by,omitzero"`  // who changed it
}

// progressed is a progress line of a running call.
type progressed struct {
	ID   string `json:"id"`
	Line line   `json:"line"`
}

// events streams changes to a page. The page reloads once connected, so it misses nothing.
func (in *Console) events(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
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
	in.follow(ctx, out, f)
	return nil
}

// follow writes until the reader disconnects or falls behind, its login ends, or the server stops.
// The page then reconnects and reloads.
func (in *Console) follow(ctx context.Context, out *gateway.SSE, f *follower) {
	err := out.Event("", "ready", []byte("{}"))
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for err == nil {
		select {
		case c := <-f.changes:
			if ctx.Err() != nil { // it waited for a slow reader
				return
			}
			err = in.tell(out, c)
		case <-timer.C:
			err = out.Event("", "tick", []byte("{}"))
		case <-f.ended:
			return
		}
	}
}

// follower passes the changes in a space to one stream.
type follower struct {
	changes chan gateway.Change
	ready   chan struct{} // closed once subscribed
	ended   chan struct{} // closed when the subscription ends
}

func (f *follower) run(ctx context.Context, feeds *gateway.Feeds) {
	defer close(f.ended)
	subscribed := func() error { close(f.ready); return nil }
	_ = feeds.Changes(ctx, subscribed, func(c gateway.Change) error { // its error only ends the stream
		select {
		case f.changes <- c:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func (in *Console) tell(out *gateway.SSE, c gateway.Change) error {
	if c.Progress != nil {
		l := in.progress.add(*c.Progress)
		return out.JSON("progress", progressed{domID(c.Progress.Key), l})
	}
	ev := changed{ID: domID(c.Call.Key), Key: formKey(c.Call.Key), By: reveal.Name(c.By.Name)}
	switch {
	case c.Call.State == message.ToolCallAsking && c.Call.Request != nil && len(c.Call.Votes) == 0:
		ev.New, ev.Say = true, "New approval request: "+reveal.Line(c.Call.Request.Text)
	case c.Call.State != message.ToolCallAsking && asked.WasAsked(c.Call) && !c.Call.Started():
		ev.Say = reveal.Line(c.Call.Tool + " " + asked.Verdict(c.Call, c.By.Name))
	}
	return out.JSON("changed", ev)
}

var _ gateway.Surface = (*Console)(nil)

// Limits on stored progress.
const (
	keptCalls = 200
	keptLines = 100
)

// line is a progress line with misleading characters made visible.
type line struct {
	Attempt int    `json:"attempt"`
	N       int    `json:"n"`
	Text    string `json:"text"`
}

// progress stores the last lines of running calls for pages opened later. It records only while a
// page is open.
type progress struct {
	mu    sync.Mutex // guards what follows
	lines map[toolcall.Key][]line
	order []toolcall.Key // oldest first
}

// add stores a line once, even though every stream adds it.
func (p *progress) add(r toolcall.ProgressRequest) line {
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

func (p *progress) linesOf(k toolcall.Key) []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[k])
}
