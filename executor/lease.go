package executor

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// lease is the time that the engine grants before it counts a silent owner as
// dead, as this worker's own clocks measure it.
type lease struct {
	since  time.Time // before the sending that was stored: the engine began to count no earlier
	length time.Duration
}

// errNotBegun says that nothing of the attempt ran here, and nothing will.
var errNotBegun = errors.New("the attempt was not begun")

// mayBegin refuses to begin what the engine may have given up, or may give up
// before it hears a first heartbeat.
func (l lease) mayBegin() error {
	if l.length < toolcall.MinLease {
		return fmt.Errorf("%w: the engine's lease of %s is shorter than the %s that a worker can keep; give the tool a longer lease", errNotBegun, l.length, toolcall.MinLease)
	}
	if past := elapsed(l.since); past > toolcall.BeginWithin(l.length) {
		return fmt.Errorf("%w: %s of the lease of %s had passed", errNotBegun, past.Round(time.Millisecond), l.length)
	}
	return nil
}

func elapsed(t time.Time) time.Duration { return toolcall.Elapsed(t, time.Now()) }

// maxBegun bounds how many grants a worker remembers.
const maxBegun = 1 << 16

// begunGrants remembers the grants whose attempts have begun in this process,
// until they expire. An expired grant begins nothing.
type begunGrants struct {
	mu    sync.Mutex // guards what follows
	known map[string]time.Time
	order []string // oldest first
}

// add notes a grant and reports whether it is the first time.
func (b *begunGrants) add(g *toolcall.Grant, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, again := b.known[g.Nonce]; again {
		return false
	}
	if b.known == nil {
		b.known = map[string]time.Time{}
	}
	for len(b.order) > 0 && (len(b.order) >= maxBegun || now.After(b.known[b.order[0]])) {
		delete(b.known, b.order[0])
		b.order = b.order[1:]
	}
	b.known[g.Nonce] = g.Expires
	b.order = append(b.order, g.Nonce)
	return true
}
