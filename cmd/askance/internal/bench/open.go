package bench

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/askance-dev/askance/message"
)

// Open has the memory use of open requests for approval, in the engine and in the
// embedded server, which share the process.
type Open struct {
	Requests int `json:"requests"`
	// HeapBytes and ResidentBytes are bytes per request; ResidentBytes is 0 if it is
	// unknown on this system.
	HeapBytes     float64 `json:"heap_bytes"`
	ResidentBytes float64 `json:"resident_bytes"`
}

// leaveOpen makes requests that no one answers, and compares the memory before and after.
func (b *bench) leaveOpen(ctx context.Context) (*Open, error) {
	n := b.cfg.Open
	remote, _ := find("full")
	if err := b.warm(ctx, remote, b.cfg.Concurrency); err != nil {
		return nil, err
	}
	heap, resident := readMemory()
	var made atomic.Int64
	err := each(ctx, b.cfg.Concurrency, func(ctx context.Context, i int) error {
		for ctx.Err() == nil {
			done := made.Add(1)
			if done > int64(n) {
				return nil
			}
			c, err := b.propose(ctx, b.key(i), remoteTool)
			if err != nil {
				return err
			}
			if c.State != message.ToolCallAsking {
				return fmt.Errorf("call %s is %s, want asking", c.Key, c.State)
			}
			if i == 0 {
				b.cfg.Progress("open requests", float64(done)/float64(n))
			}
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("leave requests open: %w", err)
	}
	heapAfter, residentAfter := readMemory()
	o := &Open{Requests: n, HeapBytes: (heapAfter - heap) / float64(n)}
	if resident > 0 {
		o.ResidentBytes = (residentAfter - resident) / float64(n)
	}
	return o, nil
}

// readMemory collects garbage, and returns the bytes of live objects and of the resident
// set; the latter is 0 if it is unknown.
func readMemory() (heap, resident float64) {
	debug.FreeOSMemory()
	live := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(live)
	text, err := os.ReadFile("/proc/self/statm") // in pages: size, resident, ...
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		pages, _ := strconv.ParseFloat(fields[1], 64)
		resident = pages * float64(os.Getpagesize())
	}
	return float64(live[0].Value.Uint64()), resident
}
