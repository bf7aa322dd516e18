package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// effects is the outside world: it remembers everything that ran, and can block a run until
// the test releases it.
type effects struct {
	w     *world
	mu    sync.Mutex // guards runs and gates
	runs  []run
	gates map[toolcall.Key]chan struct{}
}

// run is one effect.
type run struct {
	key     toolcall.Key
	tool    string
	input   string
	attempt int
	claim   string
	owner   string
	idem    string
}

// happened notes an effect and checks that the journal already has the event record that
// permits it.
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
		if record := rec.Record; record != nil && permits(record, r) {
			return
		}
	}
	e.w.Errorf("attempt %d of %s ran with %s before a durable event record permitted it", r.attempt, r.key, r.input)
}

// permits reports whether an event record starts the attempt that ran.
func permits(rec *toolcall.EventRecord, r run) bool {
	c := rec.Call
	started := false
	for _, s := range rec.Path {
		started = started || s.Cause == "start"
	}
	return started && c.Attempt.Number == r.attempt && c.Attempt.Claim == r.claim && c.Attempt.Worker == r.owner && c.Input == r.input
}

// of returns the runs of a call.
func (e *effects) of(key toolcall.Key) []run {
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
func (e *effects) gate(key toolcall.Key) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	g := e.gates[key]
	if g == nil {
		g = make(chan struct{})
		e.gates[key] = g
	}
	return g
}

// release lets the current and future runs of a call end.
func (e *effects) release(key toolcall.Key) {
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

// die makes runs of a killed engine return at once, with no effect outside.
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
// for their gate, or for the end of ctx. The engine names the call in the result.
func (r *runner) Run(ctx context.Context, inv toolcall.Invocation, progress func(string)) message.ToolResultBlock {
	c := inv.Call
	r.effects.happened(run{
		key: c.Key, tool: c.Tool, input: string(inv.Input), attempt: c.Attempt.Number,
		claim: c.Attempt.Claim, owner: r.engine, idem: inv.IdempotencyKey,
	})
	progress("half way")
	out := message.ToolResultBlock{ID: "another", Name: "another", State: message.ToolResultSuccess, Output: message.Content{Text: "ran " + string(inv.Input)}}
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

// audit checks the whole journal after every test.
func (w *world) audit() {
	w.Helper()
	entities := map[toolcall.Key][]*toolcall.EventRecord{}
	records := w.records()
	w.auditStandingApprovals(records)
	w.auditBudgets(records)
	for _, rec := range records {
		switch {
		case rec.Invalid != nil:
			w.Errorf("record %d is invalid: %v", rec.Seq, rec.Invalid)
		case rec.Record != nil && rec.Record.Call != nil:
			entities[rec.Key] = append(entities[rec.Key], rec.Record)
		}
	}
	for key, eventRecords := range entities {
		last, err := toolcall.Replay(eventRecords)
		if err != nil {
			w.Errorf("the state machine could not have written the history of %s: %v", key, err)
			continue
		}
		w.auditRuns(last, eventRecords)
	}
	for _, r := range w.effects.runs {
		if entities[r.key] == nil {
			w.Errorf("%s ran, but the journal has no record of the call", r.key)
		}
	}
}

// auditRuns checks the runs of a call against its event records.
func (w *world) auditRuns(last *toolcall.Call, records []*toolcall.EventRecord) {
	w.Helper()
	runs := w.effects.of(last.Key)
	claims := map[string]bool{}
	for _, r := range runs {
		i := slices.IndexFunc(records, func(rec *toolcall.EventRecord) bool { return permits(rec, r) })
		if i < 0 {
			w.Errorf("attempt %d of %s ran with %s, but no event record permits that", r.attempt, r.key, r.input)
			continue
		}
		w.auditDecision(records[:i+1], r)
		if claims[r.claim] {
			w.Errorf("attempt %d of %s ran twice", r.attempt, r.key)
		}
		claims[r.claim] = true
		if r.idem != last.IdempotencyKey() {
			w.Errorf("attempt %d of %s ran under the key %s", r.attempt, r.key, r.idem)
		}
	}
	again := slices.ContainsFunc(records, func(rec *toolcall.EventRecord) bool {
		return slices.ContainsFunc(rec.Path, func(s toolcall.Step) bool { return s.Cause == "offer" })
	})
	if len(runs) > 1 && !again {
		w.Errorf("%s ran %d times, but no person asked for another attempt", last.Key, len(runs))
	}
}

// auditDecision checks that the input that ran is the input that a rule allowed, or that a
// person approved by its digest.
func (w *world) auditDecision(records []*toolcall.EventRecord, r run) {
	w.Helper()
	c := records[len(records)-1].Call
	if c.Request == nil || c.Request.Input != r.input || c.Request.Key != r.key || c.Request.Tool != r.tool {
		w.Errorf("%s ran with %s, but its approval request is %+v", r.key, r.input, c.Request)
		return
	}
	digest, err := c.Request.Digest()
	if err != nil || digest != c.Digest {
		w.Errorf("%s: the digest is %s, but that of its approval request is %s (%v)", r.key, c.Digest, digest, err)
	}
	need := max(c.Request.Requirement.Quorum, 1)
	approved := len(c.Tally().Approvals) >= need && c.Tally().Agreed
	if c.Decision.Behavior != message.BehaviorAllow && !approved {
		w.Errorf("%s ran although the policy said %s without an approval: votes %+v", r.key, c.Decision.Behavior, c.Votes)
	}
}

// records reads the whole journal.
func (w *world) records() []toolcall.JournalEntry {
	w.Helper()
	ctx, cancel := context.WithCancelCause(context.Background())
	sink := &collector{done: func() { cancel(errDone) }}
	if err := w.journal.Watch(ctx, 0, sink); !errors.Is(err, errDone) {
		w.Fatalf("watch the journal: %v", err)
	}
	return sink.records
}

var errDone = errors.New("caught up")

// collector is a sink that keeps everything up to the journal's end.
type collector struct {
	records []toolcall.JournalEntry
	caught  bool
	done    func()
}

func (c *collector) Record(r toolcall.JournalEntry) {
	if !c.caught {
		c.records = append(c.records, r)
	}
}

func (c *collector) CaughtUp() {
	c.caught = true
	c.done()
}
