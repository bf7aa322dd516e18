package reviewers

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// tooSoon is less time than a person needs to read an approval request.
const tooSoon = 2 * time.Second

// kept is how long the times of responses are kept: the longest window of the limits.
const kept = time.Hour

// counts are the figures of one person or group.
type counts struct {
	load   toolcall.ReviewerLoad // Open and the sums
	took   times
	recent []time.Time // times of responses of any kind within the last hour, in order
}

func (c *counts) countVote(kind toolcall.ResponseKind, took time.Duration) {
	switch kind {
	case toolcall.ResponseApprove:
		c.load.Approved++
	case toolcall.ResponseReject:
		c.load.Rejected++
	case toolcall.ResponseRespond:
		c.load.Responded++
	case toolcall.ResponseSkip, toolcall.ResponseDelegate:
		c.load.Passed++
		return
	default:
		return
	}
	c.load.Answered++
	c.load.TotalMS += took.Milliseconds()
	if took <= tooSoon {
		c.load.Within2S++
	}
	c.took.add(took)
}

// maxRecent bounds the times that are kept for one person; more responses within the hour
// are not counted.
const maxRecent = 10_000

// addRecent adds a time to those that are kept, in order, and drops those no longer needed.
// Because the clocks of engines differ, the new time may be earlier than known ones.
func addRecent(recent []time.Time, at time.Time) []time.Time {
	i := len(recent)
	for i > 0 && recent[i-1].After(at) {
		i--
	}
	recent = slices.Insert(recent, i, at)
	return recent[max(firstWithin(recent, at, kept), len(recent)-maxRecent):]
}

// countWithin counts the times in the window that ends at now.
func countWithin(recent []time.Time, now time.Time, window time.Duration) int {
	return len(recent) - firstWithin(recent, now, window)
}

// firstWithin is the index of the first time in the window that ends at now.
func firstWithin(recent []time.Time, now time.Time, window time.Duration) int {
	return sort.Search(len(recent), func(i int) bool { return now.Sub(recent[i]) < window })
}

func (c *counts) loadOf(now time.Time) toolcall.ReviewerLoad {
	out := c.load
	out.MedianMS = c.took.median().Milliseconds()
	out.LastMinute, out.LastHour = countWithin(c.recent, now, time.Minute), countWithin(c.recent, now, time.Hour)
	return out
}

// times is a histogram with buckets that grow by a tenth. Bucket 0 is below a millisecond;
// the last one holds everything above its lower bound.
type times struct {
	n       int
	buckets []uint32
}

const (
	growth     = 1.1
	maxBuckets = 256
)

func (t *times) add(d time.Duration) {
	i := 0
	if ms := float64(d) / float64(time.Millisecond); ms >= 1 {
		i = min(maxBuckets-1, 1+int(math.Log(ms)/math.Log(growth)))
	}
	for len(t.buckets) <= i {
		t.buckets = append(t.buckets, 0)
	}
	t.buckets[i]++
	t.n++
}

// median is the middle of the bucket that contains the lower median.
func (t *times) median() time.Duration {
	left := (t.n - 1) / 2
	for i, n := range t.buckets {
		if left -= int(n); left < 0 && n > 0 {
			if i == 0 {
				return 0
			}
			return time.Duration(math.Pow(growth, float64(i)-0.5) * float64(time.Millisecond))
		}
	}
	return 0
}
