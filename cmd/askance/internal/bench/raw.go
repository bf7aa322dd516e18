package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
