package executor

import (
	"log/slog"
	"testing"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// A reply from an engine that hung is too imprecise to replace an earlier measurement of the
// clock.
func TestSlowReplyDoesNotCorrectTheClock(t *testing.T) {
	var k clock
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log := slog.New(slog.DiscardHandler)
	k.measure(log, sent, sent.Add(time.Millisecond), sent.Add(-5*time.Second))
	want := k.on(toolcall.HeartbeatRequest{})
	k.measure(log, sent, sent.Add(30*time.Second), sent.Add(10*time.Second))
	if got := k.on(toolcall.HeartbeatRequest{}); want.ClockMS < 5000 || got.ClockMS != want.ClockMS {
		t.Errorf("the clock was %d ms ahead, after a slow reply it is %d", want.ClockMS, got.ClockMS)
	}
	k.measure(log, sent, sent.Add(time.Millisecond), sent)
	if got := k.on(toolcall.HeartbeatRequest{}); got.ClockMS != 0 {
		t.Errorf("a corrected clock is still %d ms ahead", got.ClockMS)
	}
}
