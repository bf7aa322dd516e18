package journal

import (
	"testing"
	"time"

	"github.com/askance-dev/askance/message/proof"
)

// What is stored after a key was retired, even a copy of its last checkpoint, hides no genuine one.
func TestCheckpointsStoredLate(t *testing.T) {
	end := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	n := newestSearch{
		retired: proof.Retired{"k": end}, doubted: map[doubt]*newest{},
		isKnown: func(c *proof.Checkpoint) bool { return c.Number == 1 },
	}
	for _, x := range []struct { // from the last message to the first
		place, number uint64
		stored        time.Time
	}{{5, 3, end.Add(time.Hour)}, {4, 2, end.Add(time.Hour)}, {3, 2, end.Add(-time.Minute)}, {2, 1, end.Add(-time.Hour)}} {
		n.add(&proof.Sealed{Checkpoint: proof.Checkpoint{Number: x.number, KeyID: "k", At: end.Add(-time.Hour)}}, stored{seq: x.place, time: x.stored})
	}
	if n.checkpoint == nil || n.place != 3 {
		t.Errorf("the last checkpoint is %v at place %d, want the genuine second one at 3", n.checkpoint, n.place)
	}
}
