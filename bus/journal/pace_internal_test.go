package journal

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message/proof"
)

// Records are signed in time although the last checkpoint seems to be from the future: the clock
// was set back, or another engine's is ahead.
func TestPaceAfterClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Pace{Every: time.Minute, Records: 1024}
		last := newest{checkpoint: &proof.Checkpoint{To: 5, At: time.Now().Add(time.Hour).Round(0)}, read: time.Now()}
		for range 2 {
			if due := p.isDue(last, 6); due != (time.Since(last.read) >= p.Every) {
				t.Errorf("after %s: due %t", time.Since(last.read), due)
			}
			time.Sleep(p.Every)
		}
	})
}
