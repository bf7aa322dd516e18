package bus_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Workers of one tool can take each other's tasks off the queue without losing
// calls: the engine offers a call again until a worker has started it.
func TestSiblingsLoseNothing(t *testing.T) {
	const offered = 2 * time.Minute
	for _, verb := range []bus.AckVerb{bus.AckDone, bus.AckDrop, bus.AckRelease} {
		for _, started := range []bool{false, true} {
			name := string(verb) + " before the start"
			if started {
				name = string(verb) + " after the start"
			}
			t.Run(name, func(t *testing.T) {
				dir := bustest.Dir(t)
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, bustest.In(dir))
					sp := testSpace()
					sp.tools = append([]engine.Tool{}, sp.tools...)
					for i := range sp.tools {
						sp.tools[i].OfferTimeout = offered
					}
					w.engineOf(sp, bus.ServiceOptions{})
					bot := w.client(toolcall.RoleRuntime, "bot")
					propose(t, bot, toolCall("c1", job, `{}`))
					wk, sibling := w.worker(job, "wk"), w.Conn("wk2")
					task, err := wk.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					start := toolcall.StartRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "mine"}
					if started {
						if _, err := wk.Start(t.Context(), start); err != nil {
							t.Fatal(err)
						}
					}
					// The first task of the tool's queue has a predictable name.
					guess := `{"v":1,"op":"ack","body":{"task":"` + guessedTask(t, w) + `","verb":"` + string(verb) + `"}}`
					_ = rawRequest(t, sibling, "askance.v1.test.work.job.wk2.ack", guess)
					if !started { // as if its own worker had died as well: the task is delivered again
						for task.Record = nil; task.Record == nil; {
							if task, err = wk.Next(t.Context()); err != nil && !errors.Is(err, message.ErrUnavailable) {
								t.Fatal(err)
							}
						}
						if task.Record.Call.Call != "c1" {
							t.Fatalf("another task came: %s", task.Record.Call.Key)
						}
						if _, err := wk.Start(t.Context(), start); err != nil {
							t.Fatal(err)
						}
					}
					stolen := toolcall.ResultRequest{Key: bustest.CallKey("c1"), Attempt: 1, Claim: "mine", Result: message.ToolResultBlock{State: message.ToolResultSuccess, Output: message.Content{Text: "stolen"}}}
					if _, err := w.worker(job, "wk2").Result(t.Context(), stolen); !errors.Is(err, message.ErrSuperseded) {
						t.Errorf("a sibling's result with the very claim: %v, want superseded", err)
					}
					mine := stolen
					mine.Result.Output = message.Content{Text: "done"}
					if r, err := wk.Result(t.Context(), mine); err != nil || !r.Stored {
						t.Fatalf("the result: %+v, %v", r, err)
					}
					if c := finished(t, bot, "c1")[0]; c.Result.Output.Text != "done" || c.Attempt.Worker != "wk" {
						t.Errorf("ended with %q by %q", c.Result.Output.Text, c.Attempt.Worker)
					}
				})
			})
		}
	}
}

// guessedTask returns the acknowledgement subject of the call's task.
func guessedTask(t *testing.T, w *world) string {
	t.Helper()
	r, err := w.Journal("test").Last(t.Context(), bustest.CallKey("c1"))
	if err != nil {
		t.Fatal(err)
	}
	seq := r.Seq
	if r.Record.WorkQueue() == (toolcall.Queue{}) { // started meanwhile
		seq--
	}
	return "$JS.ACK.ASKANCE_test." + bus.ConsumerName(toolcall.Queue{Tool: job}) + ".1." + strconv.FormatUint(seq, 10) + ".1.1700000000000000000.0"
}
