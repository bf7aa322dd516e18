package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
)

// A clock that jumps between two looks stands for a process that was stopped:
// the time is no time of silence.
func TestPauseIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newLeases(), time.Now()
		early, late := message.Key{Call: "early"}, message.Key{Call: "late"}
		l.hear(early, 1, began)
		l.hear(late, 1, began.Add(9*time.Second))
		l.excuse(5*time.Second, began.Add(10*time.Second))
		for key, want := range map[message.Key]time.Duration{early: 5 * time.Second, late: 10 * time.Second} {
			if got := l.last(key, 1, began.Add(time.Minute)).Sub(began); got != want {
				t.Errorf("%s counts as heard of after %s, want %s", key.Call, got, want)
			}
		}
		if l.forget(early); !l.any() {
			t.Error("one is left")
		}
		if l.forget(late); l.any() {
			t.Error("nothing is left")
		}
	})
}
