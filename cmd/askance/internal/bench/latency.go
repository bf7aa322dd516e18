package bench

import (
	"slices"
	"sync"
	"time"
)

// latencies collects durations. Its methods may be called from several
// goroutines.
type latencies struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

func (l *latencies) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// percentile gives the duration, in microseconds, that p of 100 do not exceed.
func (l *latencies) percentile(p int) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) == 0 {
		return 0
	}
	sorted := slices.Clone(l.all)
	slices.Sort(sorted)
	i := (len(sorted)*p+99)/100 - 1
	return float64(sorted[max(0, i)].Nanoseconds()) / 1e3
}
