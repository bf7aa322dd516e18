package inbox

import (
	"slices"
	"sync"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

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
	lines map[message.Key][]line
	order []message.Key // oldest first
}

func newProgress() *progress { return &progress{lines: map[message.Key][]line{}} }

// note keeps a line. Every stream brings it: it is kept once.
func (p *progress) note(r message.ProgressRequest) line {
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
func (p *progress) of(k message.Key) []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[k])
}
