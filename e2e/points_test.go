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

// point is a moment at which a process is killed again and again, with one data folder. The test
// sees the moment in the journal or on the wire, and kills within spread. Afterwards hit decides
// from the journal whether the kill came in time. Only such kills are counted.
type point struct {
	name   string
	worker bool     // the tool's worker is killed, otherwise the engine
	tools  []string // the tools of the struck call, in turn
	ask    bool     // the struck call asks
	answer bool     // and is answered before the kill
	slow   bool     // its tool runs long enough to be hit during the run
	see    func(w *world, struck toolcall.Key) *sighting
	spread time.Duration
	both   bool // the engine is killed, and then the worker
	twice  bool // the process is killed once more while it starts again
	hit    func(strike) bool
}

// strike is one kill and what it hit.
type strike struct {
	struck toolcall.Key
	dead   time.Time               // when the process was certainly dead
	sight  *sighting               // the sighting of the point
	last   *toolcall.EventRecord   // the struck call's last record before the kill
	causes map[toolcall.Cause]bool // the causes of all steps before the kill
}

// onStep returns the sighting of the moment when a step of the struck call becomes durable.
func onStep(cause toolcall.Cause) func(*world, toolcall.Key) *sighting {
	return func(w *world, k toolcall.Key) *sighting { return &sighting{seen: w.obs.when(step(k, cause))} }
}

// onWire returns the sighting of a request about the struck call on its way to the engine.
func onWire(kind bus.Kind) func(*world, toolcall.Key) *sighting {
	return func(w *world, k toolcall.Key) *sighting { return w.onRequest(kind, k) }
}

// resting accepts strikes when the struck call was in the state and no process had started it.
func resting(state message.ToolCallState) func(strike) bool {
	return func(s strike) bool {
		return s.last != nil && s.last.Call.State == state && !s.causes[toolcall.CauseStart]
	}
}

// running accepts strikes between the start and the result.
func running(s strike) bool { return s.causes[toolcall.CauseStart] && !s.causes[toolcall.CauseResult] }

// stored accepts strikes after the result.
func stored(s strike) bool { return s.causes[toolcall.CauseResult] }

// unanswered accepts strikes before the reply to a request for which the engine must store a step
// with the cause: the step was not stored, or the request was sent again.
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
	{name: "result lost", both: true, tools: remote, see: onWire(bus.KindResult), hit: running},
	{name: "result stored", tools: remote, see: onStep(toolcall.CauseResult), spread: 2 * ms, hit: stored},
	{name: "worker offered", worker: true, tools: remote, see: onStep(toolcall.CauseSubmit), hit: resting(message.ToolCallSubmitted)},
	{name: "worker started", worker: true, tools: remote, see: onStep(toolcall.CauseStart), spread: 2 * ms, hit: running},
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

// TestTableOfPoints checks that the table in the documentation lists the points of this test.
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
