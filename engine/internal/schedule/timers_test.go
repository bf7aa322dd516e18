package schedule

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// The writer of a record and the watch may both set its timer. The engine still looks only
// once and sends only one reminder.
func TestDoubledTimerFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timers, fired := NewTimers(), map[Due]int{}
		at, call, other := time.Now().Add(time.Hour), toolcall.Key{Call: "c"}, toolcall.Key{Call: "d"}
		for range 2 {
			timers.Set(at, call, 1)
			timers.Set(at, other, 1)
			timers.Set(at, call, 2)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			timers.Run(ctx, NewLiveness(), func(d Due) { fired[Due{Key: d.Key, Seq: d.Seq}]++ })
		}()
		time.Sleep(2 * time.Hour)
		stop()
		<-done
		want := []Due{{Key: call, Seq: 1}, {Key: other, Seq: 1}, {Key: call, Seq: 2}}
		for _, d := range want {
			if fired[d] != 1 {
				t.Errorf("%s, record %d: %d looks, want 1", d.Key.Call, d.Seq, fired[d])
			}
		}
		if len(fired) != len(want) {
			t.Errorf("looks at %v", fired)
		}
	})
}

// A wait, such as the grace before a look at a reply, is as long as it was when the clock is set.
// The time of a record comes later if the clock is set back, and earlier if it is set forward.
func TestTimersWhenTheClockIsSet(t *testing.T) {
	for _, tc := range []struct {
		name string
		jump time.Duration
		due  time.Duration // when the time comes
	}{
		{"not set", 0, 30 * time.Minute},
		{"back", -time.Hour, 90 * time.Minute},
		{"back by a day", -24 * time.Hour, 24*time.Hour + 30*time.Minute},
		{"forward", time.Hour, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timers, began, jump := NewTimers(), time.Now(), time.Duration(0)
				timers.clock = func() time.Time { return time.Now().Add(jump) }
				reply, call, older := toolcall.Key{Session: "s"}, toolcall.Key{Call: "c"}, toolcall.Key{Call: "older"}
				timers.SetAfter(time.Second, reply, 0)
				timers.Set(began.Add(30*time.Minute), call, 1)
				jump = tc.jump
				timers.Set(began.Add(tc.jump+time.Minute), older, 1)
				fired := make(map[toolcall.Key]time.Duration)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					timers.Run(ctx, NewLiveness(), func(d Due) { fired[d.Key] = time.Since(began) })
				}()
				time.Sleep(tc.due + time.Minute)
				stop()
				<-done
				want := map[toolcall.Key]time.Duration{reply: time.Second, call: tc.due, older: time.Minute}
				if !maps.Equal(fired, want) {
					t.Errorf("the looks came after %v, want %v", fired, want)
				}
			})
		})
	}
}
