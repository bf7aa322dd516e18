package schedule

import (
	"context"
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
