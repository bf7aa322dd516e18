// Command peers measures plain jobs on asynq with Redis, River with PostgreSQL,
// and Temporal's development server, one after the other, and prints them as
// JSON. A caller sends a job, a worker in the same process returns its payload,
// and the caller waits for the end of the job before it sends the next one.
//
// redis-server, initdb and postgres must be in the PATH; Temporal's server is linked. For a
// system that cannot run, the output contains the reason.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// job is one row of the output.
type job struct {
	System      string  `json:"system"`
	Version     string  `json:"version"`
	Durability  string  `json:"durability"` // as askance names it, or "memory"
	What        string  `json:"what"`
	Concurrency int     `json:"concurrency"`
	Jobs        int     `json:"jobs"`
	PerSecond   float64 `json:"jobs_per_s"`
	P50         float64 `json:"p50_us"`
	P99         float64 `json:"p99_us"`
	CPU         float64 `json:"cpu_us"`        // of caller and worker, for each job
	ServerCPU   float64 `json:"server_cpu_us"` // of the server's own processes
	Failed      string  `json:"failed,omitempty"`
}

// load is the same for every system.
type load struct {
	concurrency int
	duration    time.Duration
}

// peer starts a system, calls measure with a function that sends one job and waits for it,
// and stops the system.
type peer struct {
	system, module, durability, what string
	run                              func(ctx context.Context, l load, measure measureFunc) error
}

// measureFunc runs the load. server is the process whose processor time counts as the
// server's, or 0 if the server is in this process.
type measureFunc func(server int, send func(ctx context.Context, payload []byte) error) error

var peers = []peer{
	{"asynq", "github.com/hibiken/asynq", "cached", "Redis, appendfsync everysec", runAsynq("everysec")},
	{"asynq", "github.com/hibiken/asynq", "fsynced", "Redis, appendfsync always", runAsynq("always")},
	{"River", "github.com/riverqueue/river", "cached", "PostgreSQL, synchronous_commit off", runRiver("off")},
	{"River", "github.com/riverqueue/river", "fsynced", "PostgreSQL, synchronous_commit on", runRiver("on")},
	{"Temporal", "go.temporal.io/server", "memory", "its own server with SQLite in memory, a workflow with one activity", runTemporal},
}

func main() {
	var l load
	flag.IntVar(&l.concurrency, "concurrency", 32, "callers and worker slots")
	flag.DurationVar(&l.duration, "duration", 3*time.Second, "time for each system")
	only := flag.String("only", "", "one system")
	flag.Parse()
	out := []job{}
	for _, p := range peers {
		if *only != "" && !strings.EqualFold(*only, p.system) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s, %s\n", p.system, p.what)
		out = append(out, p.measure(l))
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// patience bounds the time of one system beyond its load.
const patience = 90 * time.Second

func (p peer) measure(l load) job {
	ctx, stop := context.WithTimeout(context.Background(), l.duration+patience)
	defer stop()
	j := job{System: p.system, Version: versionOf(p.module), Durability: p.durability, What: p.what, Concurrency: l.concurrency}
	err := p.run(ctx, l, func(server int, send func(context.Context, []byte) error) error {
		return l.measure(ctx, &j, server, send)
	})
	if err != nil {
		j.Failed = err.Error()
	}
	return j
}

func (l load) measure(ctx context.Context, j *job, server int, send func(context.Context, []byte) error) error {
	var serial atomic.Int64
	next := func() []byte { return []byte(`{"n":` + strconv.FormatInt(serial.Add(1), 10) + `}`) }
	callers := func(until time.Time) ([]time.Duration, error) {
		var mu sync.Mutex
		var times []time.Duration
		var failed error
		var wg sync.WaitGroup
		for range l.concurrency {
			wg.Go(func() {
				for first := true; first || time.Now().Before(until); first = false {
					began := time.Now()
					err := send(ctx, next())
					mu.Lock()
					times = append(times, time.Since(began))
					if err != nil {
						failed = err
					}
					stop := failed != nil
					mu.Unlock()
					if stop {
						return
					}
				}
			})
		}
		wg.Wait()
		return times, failed
	}
	if _, err := callers(time.Now()); err != nil { // one each, to establish connections and fill caches
		return fmt.Errorf("the first job: %w", err)
	}
	own, others, began := ownTime(), treeTime(server), time.Now()
	times, err := callers(began.Add(l.duration))
	if err != nil {
		return err
	}
	took := time.Since(began)
	j.Jobs = len(times)
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(j.Jobs) }
	j.CPU, j.ServerCPU = each(ownTime()-own), each(treeTime(server)-others)
	j.PerSecond = float64(j.Jobs) / took.Seconds()
	slices.Sort(times)
	j.P50 = float64(times[len(times)/2].Nanoseconds()) / 1e3
	j.P99 = float64(times[len(times)*99/100].Nanoseconds()) / 1e3
	return nil
}

// waiting tells callers that their job ended.
type waiting struct{ m sync.Map }

// add returns the channel that is closed when the job with the payload ends.
func (w *waiting) add(payload []byte) <-chan struct{} {
	c := make(chan struct{})
	w.m.Store(string(payload), c)
	return c
}

func (w *waiting) end(payload []byte) {
	if c, ok := w.m.LoadAndDelete(string(payload)); ok {
		close(c.(chan struct{}))
	}
}

func await(ctx context.Context, ended <-chan struct{}) error {
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the job did not end: %w", context.Cause(ctx))
	}
}

func versionOf(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == module {
				return d.Version
			}
		}
	}
	return ""
}

func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
