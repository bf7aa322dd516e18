package executor_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Each of these tasks differs from an honest task in one respect.
func TestUnprovenTasksNeverRun(t *testing.T) {
	cases := []struct {
		name   string
		forge  func(e *executortest.Engine, rec *toolcall.EventRecord)
		reason string // part of the reason that the worker gives the engine
	}{
		{"bad signature", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			g := rec.Call.Attempt.Grant
			g.Sig = strings.Map(func(r rune) rune {
				if r == 'A' {
					return 'B'
				}
				return 'A'
			}, g.Sig)
		}, "the signature does not match"},
		{"signature of another grant", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Sig = e.Record("other", `{}`).Call.Attempt.Grant.Sig
		}, "the signature does not match"},
		{"no base64", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Attempt.Grant.Sig = "!" }, "the signature does not match"},
		{"no grant", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Attempt.Grant = nil }, "there is no grant"},
		{"no approval request", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Request = nil }, "no approval request"},
		{"another digest", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Request.Reason = "a person approved it"
		}, "not the ones that were approved"},
		{"a byte of the input", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Input, rec.Call.Request.Input = `{"n":2}`, `{"n":2}`
		}, "not the ones that were approved"},
		{"no input", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Input, rec.Call.Request.Input = "", ""
		}, "not the ones that were approved"},
		{"cut input", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Input, rec.Call.Request.Input = `{"n":1`, `{"n":1`
		}, "not the ones that were approved"},
		{"white space in the input", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Input, rec.Call.Request.Input = `{"n": 1}`, `{"n": 1}`
		}, "not the ones that were approved"},
		{"call shows other input", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Input = `{"n":2}` }, "not the ones of the approval request"},
		{"call names another tool", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Tool = "rm" }, "not an unstarted remote attempt of the tool \"probe\""},
		{"approval request about another tool", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Request.Tool = "rm"
			e.Sign(rec)
		}, "the approval request is about the tool rm"},
		{"grant for another tool", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Tool = "rm"
			e.Sign(rec)
		}, "given for the tool rm"},
		{"call routed elsewhere", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Decision = &toolcall.Decision{Route: "exec.payments"}
			rec.Call.Attempt.Grant.Route = "exec.payments"
			e.Sign(rec)
		}, "not an unstarted remote attempt of the tool"},
		{"grant for another route", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Route = "exec.payments"
			e.Sign(rec)
		}, `given for the route "exec.payments", not ""`},
		{"route taken out of the grant", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Route = "exec.payments"
			e.Sign(rec)
			rec.Call.Attempt.Grant.Route = ""
		}, "the signature does not match"},
		{"approval request about another call", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Request.Call = "other"
			e.Sign(rec)
		}, "the approval request is about the call"},
		{"grant for another call", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Call = "other"
			e.Sign(rec)
		}, "given for the call"},
		{"grant of the first attempt", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Attempt.Number = 2 }, "another attempt"},
		{"another policy", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Bundle = "sha256:other"
			e.Sign(rec)
		}, "its policy bundle differs"},
		{"another idempotency key", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.IdempotencyKey = "ak_other"
			e.Sign(rec)
		}, "idempotency key"},
		{"expiry changed after signing", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Expires = time.Now()
		}, "the signature does not match"},
		{"never valid", func(e *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Call.Attempt.Grant.Expires = time.Now()
			e.Sign(rec)
		}, "it expired"},
		{"started already", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Attempt.Claim = "c" }, "not an unstarted"},
		{"waits for a person", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.Blocked = toolcall.BlockedUnknown }, "not an unstarted"},
		{"only allowed", func(_ *executortest.Engine, rec *toolcall.EventRecord) { rec.Call.State = message.ToolCallAllowed }, "not an unstarted"},
		{"a note", func(_ *executortest.Engine, rec *toolcall.EventRecord) {
			rec.Note = &toolcall.Note{What: "late_result"}
		}, "not an unstarted"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				rec := r.engine.Record("call-1", `{"n":1}`)
				c.forge(r.engine, rec)
				r.engine.Offer(rec)
				_, err := r.engine.Wait(r.t.Context(), rec.Call.Key)
				if err == nil || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("the engine received %v, want a refusal with %q", err, c.reason)
				}
				synctest.Wait()
				r.wantRuns(0)
				r.wantTask(rec.Call.Key, 1, 0)
			})
		})
	}
}

// A worker of a route runs only calls that are routed there.
func TestRoutedWorker(t *testing.T) {
	for _, c := range []struct {
		name, call, grant string
		runs              int32
	}{
		{"its own", "exec.payments", "exec.payments", 1},
		{"no route", "", "", 0},
		{"another route", "exec.archive", "exec.archive", 0},
		{"the grant has none", "exec.payments", "", 0},
		{"the grant has another", "exec.payments", "exec.archive", 0},
		{"the call has none", "", "exec.payments", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				rec := r.engine.Record("call-1", `{"n":1}`)
				rec.Call.Decision = &toolcall.Decision{Route: c.call}
				rec.Call.Attempt.Grant.Route = c.grant
				r.engine.Sign(rec)
				r.engine.Offer(rec)
				_, err := r.engine.Wait(r.t.Context(), rec.Call.Key)
				if (err == nil) != (c.runs == 1) {
					t.Errorf("the engine received %v", err)
				}
				synctest.Wait()
				r.wantRuns(c.runs)
			}, executor.WithRoute("exec.payments"))
		})
	}
}

func TestHonestTaskRuns(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		k := r.offer("call-1")
		r.wantResult(k, message.ToolResultSuccess, "ok")
		synctest.Wait()
		r.wantRuns(1)
		r.wantTask(k, 1, 0)
	})
}

// A genuine grant outside its period of validity runs nothing, but the worker does not refuse
// the task: the engine offers the call again.
func TestUntimelyGrants(t *testing.T) {
	cases := []struct {
		name           string
		shift          time.Duration // of the grant's validity, an hour from now
		acks, releases int
		runs           int32
	}{
		{"expires now", -time.Hour, 1, 0, 0},
		{"expired", -2 * time.Hour, 1, 0, 0},
		{"not valid yet", time.Nanosecond, 0, 1, 0},
		{"valid from now", 0, 1, 0, 1},
		{"last moment", -time.Hour + time.Nanosecond, 1, 0, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, ok, func(r *rig) {
				rec := r.engine.Record("call-1", `{"n":1}`)
				g := rec.Call.Attempt.Grant
				g.NotBefore, g.Expires = g.NotBefore.Add(c.shift), g.Expires.Add(c.shift)
				r.engine.Sign(rec)
				r.engine.Offer(rec)
				synctest.Wait()
				r.wantRuns(c.runs)
				r.wantTask(rec.Call.Key, c.acks, c.releases)
				if n := len(r.engine.Requests(executortest.OpStart)); n != int(c.runs) {
					t.Errorf("%d starts were requested, want %d", n, c.runs)
				}
			})
		})
	}
}

// A worker that does not know the engine's key runs nothing and reports it. The engine then
// offers the call again, to a worker that has the key.
func TestUnknownEngineKey(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		rec := r.engine.Record("call-1", `{"n":1}`)
		executortest.NewEngine(tool).Sign(rec)
		r.engine.Offer(rec)
		_, err := r.engine.Wait(r.t.Context(), rec.Call.Key)
		if err == nil || !strings.Contains(err.Error(), "engine key that this worker does not know") {
			t.Errorf("the engine received %v, want a report that the key is unknown", err)
		}
		synctest.Wait()
		r.wantRuns(0)
		r.wantTask(rec.Call.Key, 1, 0)
	})
}

// A worker that rejects one task after another pauses between them, so that other workers get
// the tasks first.
func TestWorkerThatRejectsRests(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		for n := range 12 {
			rec := r.engine.Record(message.CallID(fmt.Sprint("call-", n)), `{"n":1}`)
			executortest.NewEngine(tool).Sign(rec)
			r.engine.Offer(rec)
		}
		time.Sleep(2 * time.Second)
		if n := len(r.engine.Requests(executortest.OpStart)); n < 3 || n > 6 {
			t.Errorf("the worker rejected %d tasks in two seconds, want 3 to 6", n)
		}
	})
}

// The worker cannot refuse a task without a call, because it names no call. It removes the task
// from the queue and continues.
func TestEmptyTasksAreDropped(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Offer(nil)
		r.engine.Offer(&toolcall.EventRecord{})
		k := r.offer("call-1")
		r.wantResult(k, message.ToolResultSuccess, "ok")
		synctest.Wait()
		r.wantRuns(1)
		r.wantTask(toolcall.Key{}, 2, 0)
	})
}

// A refusal that is not answered is sent again. The handler never runs.
func TestRefusalIsRepeatedUntilAnswered(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		r.engine.Faults(failFirst(executortest.OpStart, 3, executortest.Down))
		rec := r.engine.Record("call-1", `{"n":1}`)
		rec.Call.Attempt.Grant = nil
		r.engine.Offer(rec)
		if _, err := r.engine.Wait(r.t.Context(), rec.Call.Key); err == nil {
			t.Error("the call has a result, want a refusal")
		}
		for _, s := range r.engine.Requests(executortest.OpStart) {
			if s.Refuse == "" {
				t.Errorf("start %d refuses nothing", s.N)
			}
		}
		synctest.Wait()
		r.wantRuns(0)
	})
}
