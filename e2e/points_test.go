package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// point is a moment at which a process is killed, again and again, on one data
// folder. The moment is seen in the journal or on the wire; the kill follows
// within spread. Whether it struck in time is read from the journal afterwards,
// with hit, and only kills that did are counted.
type point struct {
	name   string
	worker bool     // the tool's worker is killed, else the engine
	tools  []string // of the struck call, in turn
	ask    bool     // the struck call asks
	answer bool     // and is answered, before the kill
	slow   bool     // its tool takes long enough to be hit in mid-run
	see    func(w *world, struck toolcall.Key) *sighting
	spread time.Duration
	twice  bool // it is killed once more while it starts again
	hit    func(strike) bool
}

// strike is what became of one kill.
type strike struct {
	struck toolcall.Key
	dead   time.Time               // when the process was surely dead
	sight  *sighting               // of the point
	last   *toolcall.EventRecord   // of the struck call, before the death
	causes map[toolcall.Cause]bool // of all steps before the death
}

// onStep sees a step of the struck call become durable.
func onStep(cause toolcall.Cause) func(*world, toolcall.Key) *sighting {
	return func(w *world, k toolcall.Key) *sighting { return &sighting{seen: w.obs.when(step(k, cause))} }
}

// onWire sees a request about the struck call on its way to the engine.
func onWire(kind bus.Kind) func(*world, toolcall.Key) *sighting {
	return func(w *world, k toolcall.Key) *sighting { return w.onRequest(kind, k) }
}

// resting gives strikes at which the struck call was in that state and no process
// had started it.
func resting(state message.ToolCallState) func(strike) bool {
	return func(s strike) bool {
		return s.last != nil && s.last.Call.State == state && !s.causes[toolcall.CauseStart]
	}
}

// running gives strikes between the start and the result.
func running(s strike) bool { return s.causes[toolcall.CauseStart] && !s.causes[toolcall.CauseResult] }

// stored gives strikes after the result.
func stored(s strike) bool { return s.causes[toolcall.CauseResult] }

// unanswered gives strikes before the answer to a request that the engine
// had to store cause: it had not, or the request was sent again.
func unanswered(cause toolcall.Cause) func(strike) bool {
	return func(s strike) bool { return !s.causes[cause] || s.sight.n.Load() > 1 }
}

var remote = []string{charge, mail}

// points are the rows of the table in doc.go.
var points = []point{
	{name: "asking", tools: allTools, ask: true, see: onStep(toolcall.CauseAsk), spread: 5 * ms, hit: resting(message.ToolCallAsking)},
	{name: "restarting", tools: allTools, ask: true, see: onStep(toolcall.CauseAsk), spread: 5 * ms, twice: true, hit: resting(message.ToolCallAsking)},
	{name: "answer unanswered", tools: allTools, ask: true, answer: true, see: onWire(bus.KindDecide), spread: 3 * ms, hit: unanswered(toolcall.CauseApprove)},
	{name: "allowed", tools: remote, ask: true, answer: true, see: onStep(toolcall.CauseApprove), hit: resting(message.ToolCallSubmitted)},
	{name: "submitted", tools: remote, see: onStep(toolcall.CauseSubmit), hit: resting(message.ToolCallSubmitted)},
	{name: "local start", tools: []string{note, post}, slow: true, see: onStep(toolcall.CauseStart), spread: 60 * ms, hit: running},
	{name: "worker start", tools: remote, see: onStep(toolcall.CauseStart), spread: 5 * ms, hit: running},
	{name: "result unanswered", tools: remote, see: onWire(bus.KindResult), spread: ms / 2, hit: unanswered(toolcall.CauseResult)},
	{name: "result stored", tools: remote, see: onStep(toolcall.CauseResult), spread: 2 * ms, hit: stored},
	{name: "worker offered", worker: true, tools: remote, see: onStep(toolcall.CauseSubmit), hit: resting(message.ToolCallSubmitted)},
	{name: "worker running", worker: true, tools: remote, slow: true, see: onStep(toolcall.CauseStart), spread: 60 * ms, hit: running},
}

func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for _, p := range points {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			newStage(t).play(p)
		})
	}
}

// TestTableOfPoints keeps the table that people read at the points that are
// tried.
func TestTableOfPoints(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points {
		if !strings.Contains(string(doc), "\n//	"+p.name+"  ") {
			t.Errorf("the table in doc.go has no row %q", p.name)
		}
	}
}
