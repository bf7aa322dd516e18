package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

type workload struct {
	name, what  string
	concurrency int // 0: that of the configuration
	call        func(ctx context.Context, b *bench, key toolcall.Key) error
}

var workloads = []workload{
	{"local-1", "allowed, run by the engine; one call at a time", 1, runLocal},
	{"local", "allowed, run by the engine", 0, runLocal},
	{"full", "asked, approved, run by a worker over NATS, result stored", 0, runFull},
}

// Workloads returns the names of all workloads.
func Workloads() []string {
	var out []string
	for _, w := range workloads {
		out = append(out, w.name)
	}
	return out
}

func find(name string) (workload, bool) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
	if i < 0 {
		return workload{}, false
	}
	return workloads[i], true
}

const (
	localTool  = "bench_local"
	remoteTool = "bench_remote"
)

// rules allows one tool and asks about the other.
const rules = `
version: 1
name: bench
rules:
  - {name: local, tool_name: bench_local, behavior: allow, when: args.n >= 0}
  - {name: remote, tool_name: bench_remote, behavior: ask, when: args.n >= 0}
`

const tools = `
version: 1
tools:
  - name: bench_local
    concurrency_safe: true
    input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
  - name: bench_remote
    placement: remote
    concurrency_safe: true
    idempotent: true
    input_schema: {type: object, required: [n], properties: {n: {type: integer}}}
`

func runLocal(ctx context.Context, b *bench, key toolcall.Key) error {
	c, err := b.propose(ctx, key, localTool)
	if err != nil {
		return err
	}
	return b.finished(ctx, c)
}

func runFull(ctx context.Context, b *bench, key toolcall.Key) error {
	c, err := b.propose(ctx, key, remoteTool)
	if err != nil {
		return err
	}
	if c.State != message.ToolCallAsking {
		return fmt.Errorf("call %s is %s, want asking", c.Key, c.State)
	}
	if c, err = b.approver.SubmitResponse(ctx, toolcall.Response{V: 1, Key: c.Key, Digest: c.Digest, Kind: toolcall.ResponseApprove}); err != nil {
		return err
	}
	return b.finished(ctx, c)
}

func (b *bench) propose(ctx context.Context, key toolcall.Key, tool string) (*toolcall.Call, error) {
	n := strconv.FormatUint(b.serial.Add(1), 10)
	r, err := b.runtime.Propose(ctx, toolcall.ProposeRequest{
		V: 1, Session: key.Session, Reply: key.Reply,
		Calls: []message.ToolCallBlock{{ID: key.Call, Name: tool, Input: `{"n":` + n + `}`}},
	})
	if err != nil {
		return nil, err
	}
	return r.Calls[0], nil
}

func (b *bench) finished(ctx context.Context, c *toolcall.Call) error {
	for c.Open() {
		r, err := b.runtime.Wait(ctx, toolcall.WaitRequest{V: 1, Session: c.Session, Reply: c.Reply, Calls: []message.CallID{c.Call}})
		if err != nil {
			return err
		}
		c = r.Calls[0]
	}
	if c.Result.State != message.ToolResultSuccess {
		return errors.New("call " + c.Key.String() + " ended with " + string(c.Result.State) + ": " + c.Result.Output.String())
	}
	return nil
}

const (
	rawStream = "ASKANCE_BENCH_RAW"
	rawPrefix = "askance-bench.raw."
	// pipeline is how many bare publishes are in flight.
	pipeline = 1024
	// stall is how long a publish waits for a place in the pipeline: a slow disk is not an error.
	stall = 30 * time.Second
)

type rawJournal struct {
	js     jetstream.JetStream
	body   []byte
	next   atomic.Uint64         // makes new subjects
	failed atomic.Pointer[error] // the first publish of a pipeline that was refused
}

func newRaw(ctx context.Context, nc *nats.Conn, size, replicas int) (*rawJournal, error) {
	r := &rawJournal{body: make([]byte, size)}
	var err error
	r.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(pipeline),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, _ *nats.Msg, err error) {
			if !isInPipeline(err) {
				r.failed.CompareAndSwap(nil, &err)
			}
		}))
	if err != nil {
		return nil, err
	}
	_, err = r.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: rawStream, Subjects: []string{rawPrefix + ">"}, Storage: jetstream.FileStorage, Replicas: replicas,
		Discard: jetstream.DiscardNew, AllowDirect: true, AllowAtomicPublish: true,
	})
	if err != nil {
		return nil, fmt.Errorf("create the stream for bare records: %w", err)
	}
	return r, nil
}

// isInPipeline reports whether a cluster has not yet counted the previous record: its
// leader acknowledges a record a moment before it counts the record.
func isInPipeline(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == 10164
}

func (r *rawJournal) subject() string { return rawPrefix + strconv.FormatUint(r.next.Add(1), 10) }

// pipelined publishes for d with many in flight and returns publishes/s and their number.
func (r *rawJournal) pipelined(ctx context.Context, d time.Duration, progress func(float64)) (rate float64, n int, err error) {
	began := time.Now()
	for time.Since(began) < d && ctx.Err() == nil {
		_, err := r.js.PublishAsync(r.subject(), r.body, jetstream.WithExpectLastSequencePerSubject(0), jetstream.WithStallWait(stall))
		if err != nil {
			return 0, 0, fmt.Errorf("bare publish: %w", err)
		}
		if n++; n%pipeline == 0 {
			progress(time.Since(began).Seconds() / d.Seconds())
		}
	}
	select {
	case <-r.js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	took := time.Since(began)
	if err := r.failed.Load(); err != nil {
		return 0, 0, fmt.Errorf("bare publish: %w", *err)
	}
	return float64(n) / took.Seconds(), n, nil
}

// sequential publishes to one subject for d, each with the sequence of the previous
// one as expected, and returns publishes/s and the times of each.
func (r *rawJournal) sequential(ctx context.Context, d time.Duration, progress func(float64)) (float64, *latencies, error) {
	began := time.Now()
	subject := r.subject()
	times := new(latencies)
	last := uint64(0)
	for time.Since(began) < d {
		t := time.Now()
		ack, err := r.js.Publish(ctx, subject, r.body, jetstream.WithExpectLastSequencePerSubject(last))
		if isInPipeline(err) {
			continue
		}
		if err != nil {
			return 0, nil, fmt.Errorf("bare publish: %w", err)
		}
		last = ack.Sequence
		times.add(time.Since(t))
		if times.count()%256 == 0 {
			progress(time.Since(began).Seconds() / d.Seconds())
		}
	}
	if times.count() == 0 {
		return 0, nil, errors.New("bare publish: none in the given time")
	}
	return float64(times.count()) / time.Since(began).Seconds(), times, nil
}

func (r *rawJournal) measure(ctx context.Context, best *Raw, d time.Duration, progress func(string, float64)) error {
	before := readProcess()
	p, n, err := r.pipelined(ctx, d, func(f float64) { progress("bare, pipelined", f) })
	if err != nil {
		return err
	}
	between := readProcess()
	s, times, err := r.sequential(ctx, d, func(f float64) { progress("bare, sequential", f) })
	if err != nil {
		return err
	}
	best.PipelinedCPU = least(best.PipelinedCPU, between.costSince(before, n).CPU)
	best.SequentialCPU = least(best.SequentialCPU, readProcess().costSince(between, times.count()).CPU)
	best.Pipelined = max(best.Pipelined, p)
	if s > best.Sequential {
		best.Sequential, best.P50, best.P99 = s, times.percentile(50), times.percentile(99)
	}
	return nil
}

// least returns the smaller of two figures; the first is 0 if it is not known yet.
func least(known, next float64) float64 {
	if known == 0 {
		return next
	}
	return min(known, next)
}
