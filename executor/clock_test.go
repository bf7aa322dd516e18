package executor_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/executortest"
	"github.com/askance-dev/askance/message"
)

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// A worker whose clock makes a grant invalid measures the difference by the engine's replies
// and logs it once. It reports the difference to the engine each time it receives the task.
func TestWorkerReportsItsClock(t *testing.T) {
	var log lockedBuffer
	bubble(t, ok, func(r *rig) {
		const behind = 4 * time.Minute
		r.engine.Ahead(behind)
		rec := r.engine.Record("call-1", `{"n":1}`)
		rec.Call.Attempt.Grant.NotBefore = time.Now().Add(behind - 5*time.Second)
		rec.Call.Attempt.Grant.Expires = time.Now().Add(behind + time.Hour)
		r.engine.Sign(rec)
		meet := func() { // the queue delivers the task, again
			r.engine.Offer(rec)
			synctest.Wait()
		}
		meet()
		meet()
		r.wantRuns(0)
		beats := r.engine.Requests(executortest.OpHeartbeat)
		if len(beats) != 4 || beats[0].ClockMS != 0 || beats[0].Attempt != 0 || beats[1].Attempt != 1 || beats[1].ClockMS != -behind.Milliseconds() || beats[len(beats)-1].ClockMS != -behind.Milliseconds() {
			t.Errorf("the engine received %+v, want a measurement and then %d ms", beats, -behind.Milliseconds())
		}
		if n := log.count("clock differs"); n != 1 {
			t.Errorf("the worker logged %d times that its clock differs, want once", n)
		}
		r.engine.Ahead(0) // the clock is corrected
		meet()
		if beats = r.engine.Requests(executortest.OpHeartbeat); beats[len(beats)-1].ClockMS != 0 {
			t.Errorf("after the clock was corrected the engine received %d ms", beats[len(beats)-1].ClockMS)
		}
		if n := log.count("agrees with the engine's again"); n != 1 {
			t.Errorf("the worker logged %d times that its clock is correct again, want once", n)
		}
		time.Sleep(behind)
		meet()
		r.wantResult(rec.Call.Key, message.ToolResultSuccess, "ok")
		r.wantRuns(1)
		if n := log.count(`level=INFO msg="ran the call"`); n != 1 {
			t.Errorf("the worker logged %d times that it ran the call, want once", n)
		}
	}, executor.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
}

// A worker whose clock is ahead leaves a task to the workers whose clocks are right. The task is
// dropped once its grant has expired by the engine's clock.
func TestClockAheadReleasesTheTask(t *testing.T) {
	bubble(t, ok, func(r *rig) {
		const ahead = 2 * time.Hour
		r.engine.Ahead(-ahead)
		rec := r.engine.Record("call-1", `{"n":1}`)
		g := rec.Call.Attempt.Grant
		g.NotBefore, g.Expires = g.NotBefore.Add(-ahead), g.Expires.Add(-ahead)
		r.engine.Sign(rec)
		r.engine.Offer(rec)
		synctest.Wait()
		r.wantTask(rec.Call.Key, 0, 1)
		time.Sleep(time.Hour)
		r.engine.Offer(rec)
		synctest.Wait()
		r.wantTask(rec.Call.Key, 1, 1)
		r.wantRuns(0)
	})
}
