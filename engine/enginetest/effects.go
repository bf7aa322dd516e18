package enginetest

import (
	"context"
	"strings"
	"sync"

	"github.com/askance-dev/askance/message"
)

// effects is the outside world: it remembers everything that ran, and can hold
// a run until the test lets it go.
type effects struct {
	w     *world
	mu    sync.Mutex // guards runs and gates
	runs  []run
	gates map[message.Key]chan struct{}
}

// run is one effect.
type run struct {
	key     message.Key
	tool    string
	input   string
	attempt int
	claim   string
	owner   string
	idem    string
}

// happened notes an effect. It checks that the fact which permits it is in the
// journal already.
func (e *effects) happened(r run) {
	e.mu.Lock()
	e.runs = append(e.runs, r)
	e.mu.Unlock()
	history, err := e.w.journal.History(context.Background(), r.key)
	if err != nil {
		e.w.Errorf("read the history of %s: %v", r.key, err)
		return
	}
	for _, rec := range history {
		if f := rec.Fact; f != nil && permits(f, r) {
			return
		}
	}
	e.w.Errorf("attempt %d of %s ran with %s before a durable fact permitted it", r.attempt, r.key, r.input)
}

// permits reports whether a fact starts the attempt that ran.
func permits(f *message.Fact, r run) bool {
	c := f.Call
	started := false
	for _, s := range f.Path {
		started = started || s.Cause == "start"
	}
	return started && c.Attempt.Number == r.attempt && c.Attempt.Claim == r.claim && c.Attempt.Worker == r.owner && c.Input == r.input
}

// of gives the runs of a call.
func (e *effects) of(key message.Key) []run {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []run
	for _, r := range e.runs {
		if r.key == key {
			out = append(out, r)
		}
	}
	return out
}

// gate is closed when the run of a call may end.
func (e *effects) gate(key message.Key) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gates[key]
	if g == nil {
		g = make(chan struct{})
		e.gates[key] = g
	}
	return g
}

// release lets the runs of a call end, those to come too.
func (e *effects) release(key message.Key) {
	g := e.gate(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	closeOnce(g)
}

func (e *effects) releaseAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.gates {
		closeOnce(g)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// runner is an engine's executor.
type runner struct {
	effects *effects
	engine  string
	mu      sync.Mutex
	without map[string]bool // tools that this replica cannot run
	dead    chan struct{}
}

func (r *runner) lacks(tool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.without == nil {
		r.without = map[string]bool{}
	}
	r.without[tool] = true
}

// die makes runs of a killed engine return at once; nobody hears of it.
func (r *runner) die() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead == nil {
		r.dead = make(chan struct{})
	}
	closeOnce(r.dead)
}

func (r *runner) deadline() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead == nil {
		r.dead = make(chan struct{})
	}
	return r.dead
}

func (r *runner) Has(tool string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.without[tool]
}

// Run implements engine.Executor. Tools whose names begin with "block" wait
// for their gate, or for the end of ctx.
func (r *runner) Run(ctx context.Context, inv message.Invocation, progress func(string)) message.ToolResultBlock {
	c := inv.Call
	r.effects.happened(run{
		key: c.Key, tool: c.Tool, input: string(inv.Input), attempt: c.Attempt.Number,
		claim: c.Attempt.Claim, owner: r.engine, idem: inv.IdempotencyKey,
	})
	progress("half way")
	out := message.ToolResultBlock{ID: c.Call, Name: c.Tool, State: message.ToolResultSuccess, Output: message.Content{Text: "ran " + string(inv.Input)}}
	if strings.HasPrefix(c.Tool, "block") {
		select {
		case <-r.effects.gate(c.Key):
		case <-r.deadline():
			out.State = message.ToolResultInterrupted
		case <-ctx.Done():
			out.State, out.Output.Text = message.ToolResultInterrupted, context.Cause(ctx).Error()
		}
	}
	return out
}
