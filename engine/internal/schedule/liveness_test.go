package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// A clock that jumps between two looks means that the process was stopped. That time does
// not count as silence.
func TestPauseIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := NewLiveness(), time.Now()
		early, late := toolcall.Key{Call: "early"}, toolcall.Key{Call: "late"}
		l.Hear(early, 1, began)
		l.Hear(late, 1, began.Add(9*time.Second))
		l.AskedToStop(late, began.Add(2*time.Second))
		l.Excuse(5*time.Second, began.Add(10*time.Second))
		for key, want := range map[toolcall.Key]time.Duration{early: 5 * time.Second, late: 10 * time.Second} {
			if got := l.LastHeard(key, 1, began.Add(time.Minute)).Sub(began); got != want {
				t.Errorf("%s was last heard of after %s, want %s", key.Call, got, want)
			}
		}
		if got := l.AskedToStop(late, began.Add(time.Minute)).Sub(began); got != 7*time.Second {
			t.Errorf("it was asked to stop after %s, want 7s", got)
		}
		if got := l.AskedToStop(early, began.Add(time.Minute)).Sub(began); got != time.Minute {
			t.Errorf("an owner that was not asked to stop was asked after %s", got)
		}
		if l.Forget(early); !l.isListening() {
			t.Error("not listening, although one call is left")
		}
		if l.Forget(late); l.isListening() {
			t.Error("still listening, although no call is left")
		}
	})
}
