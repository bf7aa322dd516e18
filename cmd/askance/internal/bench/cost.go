package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
)

// Cost has the resources that one call uses. If other processes share the machine,
// they change less than a rate. They include the callers, the worker, the embedded
// server, and the checkpoints that sign the records of the calls.
type Cost struct {
	CPU            float64 `json:"cpu_us"` // processor time, user and system; 0: unknown on this system
	SystemCPU      float64 `json:"system_cpu_us"`
	Allocations    float64 `json:"allocations"`
	AllocatedBytes float64 `json:"allocated_bytes"`
	JournalBytes   float64 `json:"journal_bytes"`
	StoredBytes    float64 `json:"stored_bytes"` // in all streams, including checkpoints and open tasks
	MessagesIn     float64 `json:"messages_in"`  // to NATS servers: from clients, and from each other
	MessagesOut    float64 `json:"messages_out"` // from NATS servers
}

// reading is the state of every meter at one moment.
type reading struct {
	user, system            time.Duration
	objects, bytes          uint64
	records, journal        uint64
	stored                  uint64
	messagesIn, messagesOut int64
}

// read reads every meter. It signs new records first, so that each workload pays for
// its own checkpoints.
func (b *bench) read(ctx context.Context) (reading, error) {
	if _, err := b.node.Ledger().Checkpoint(ctx); err != nil {
		return reading{}, fmt.Errorf("sign the journal: %w", err)
	}
	s, err := b.js.Stream(ctx, bus.StreamName(space))
	if err != nil {
		return reading{}, fmt.Errorf("count the records: %w", err)
	}
	account, err := b.js.AccountInfo(ctx)
	if err != nil {
		return reading{}, fmt.Errorf("count what is stored: %w", err)
	}
	state := s.CachedInfo().State
	r := readProcess()
	r.records, r.journal, r.stored = state.LastSeq, state.Bytes, account.Store
	count := b.node.Messages
	if b.cluster != nil {
		count = b.cluster.Messages
	}
	if r.messagesIn, r.messagesOut, err = count(); err != nil {
		return reading{}, fmt.Errorf("count the messages: %w", err)
	}
	return r, nil
}

func readProcess() reading {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	r := reading{objects: samples[0].Value.Uint64(), bytes: samples[1].Value.Uint64()}
	r.user, r.system = processTime()
	return r
}

// costSince divides what was used since the reading before by the number of calls.
func (r reading) costSince(before reading, calls int) Cost {
	per := func(used float64) float64 { return used / float64(calls) }
	micros := func(d time.Duration) float64 { return per(float64(d.Nanoseconds()) / 1e3) }
	return Cost{
		CPU: micros(r.user + r.system - before.user - before.system), SystemCPU: micros(r.system - before.system),
		Allocations: per(float64(r.objects - before.objects)), AllocatedBytes: per(float64(r.bytes - before.bytes)),
		JournalBytes: per(float64(r.journal) - float64(before.journal)), StoredBytes: per(float64(r.stored) - float64(before.stored)),
		MessagesIn: per(float64(r.messagesIn - before.messagesIn)), MessagesOut: per(float64(r.messagesOut - before.messagesOut)),
	}
}

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
	runtime.GC() // a pool keeps its objects for one collection
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
