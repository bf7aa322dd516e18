// Package bench measures what an engine costs over the bare journal: it compares
// the allowed local path, and the whole path of request, approval, remote run and
// result, with compare-and-swap publishes to the same NATS server on the same
// connection, in the same run.
//
// Every report has the durability, the concurrency and the size of the bare
// records: figures mean nothing without them. Records, bytes and messages are
// counted in the server, not assumed. The bare publishes run before and after the
// calls, and the faster run counts, so that a noisy neighbour makes the engine look
// worse, never better. On a noisy machine, compare the figures per call, not the
// rates.
package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/pprof/profile"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// space keeps a bench separate from everything else.
const space = toolcall.SpaceID("bench")

// bench is a running engine with a worker, under load.
type bench struct {
	cfg      Config
	cluster  *embed.Cluster // nil: the node has an embedded server
	node     *node.Node
	runtime  engine.Client
	approver engine.Client
	js       jetstream.JetStream
	raw      *rawJournal
	serial   atomic.Uint64 // numbers calls

	closers []func() error // called in reverse order
}

// Run measures. It leaves the journal in Config.Dir.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Check(); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if cfg.Progress == nil {
		cfg.Progress = func(string, float64) {}
	}
	b := &bench{cfg: cfg}
	report, err := b.open(ctx)
	if err == nil {
		err = b.run(ctx, report)
	}
	if err = errors.Join(err, b.close()); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return report, nil
}

func (b *bench) close() error {
	var err error
	for _, v := range slices.Backward(b.closers) {
		err = errors.Join(err, v())
	}
	return err
}

func (b *bench) open(ctx context.Context) (*Report, error) {
	policy := filepath.Join(b.cfg.Dir, "policy.yaml")
	if err := errors.Join(os.MkdirAll(b.cfg.Dir, 0o700), os.WriteFile(policy, []byte(rules), 0o600)); err != nil {
		return nil, err
	}
	declared, err := toolfile.Parse("the tools of the bench", []byte(tools))
	if err != nil {
		return nil, err
	}
	var registry executor.Registry
	if err := registry.Register(localTool, echo); err != nil {
		return nil, err
	}
	replicas := 1
	c := node.Config{Dir: node.Dir(b.cfg.Dir), Space: space, Durability: b.cfg.Durability, Policy: []string{policy}, Tools: declared, Local: &registry}
	if c.Durability == journal.DurabilityQuorum {
		if b.cluster, err = embed.StartCluster(ctx, b.cfg.Dir, clusterSize); err != nil {
			return nil, err
		}
		b.closers = append(b.closers, func() error { b.cluster.Close(); return nil })
		c.NATS, replicas = b.cluster.URL(), clusterSize
	}
	if b.node, err = node.Start(ctx, c); err != nil {
		return nil, err
	}
	b.closers = append(b.closers, b.node.Close)
	b.runtime = b.node.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bench"})
	b.approver = b.node.Engine().As(toolcall.Principal{Role: toolcall.RoleApprover, Name: "bench"})
	if b.js, err = jetstream.New(b.node.Conn()); err != nil {
		return nil, err
	}
	if b.raw, err = newRaw(ctx, b.node.Conn(), b.cfg.RecordBytes, replicas); err != nil {
		return nil, err
	}
	return &Report{
		Durability: b.node.Journal().Durability(), Concurrency: b.cfg.Concurrency, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Raw: Raw{RecordBytes: b.cfg.RecordBytes}, Workloads: []Outcome{},
	}, b.startWorker(ctx)
}

// clusterSize is how many servers hold a journal with the durability quorum.
const clusterSize = 3

// echo is the tool. It does nothing, so only the engine is measured.
func echo(_ context.Context, t executor.Task) (executor.Output, error) {
	return executor.Text(string(t.Input)), nil
}

// startWorker runs the remote tool over its own connection.
func (b *bench) startWorker(ctx context.Context) error {
	const name = "bench-worker"
	nc, err := b.node.Connect(ctx, name)
	if err != nil {
		return err
	}
	b.closers = append(b.closers, func() error { nc.Close(); return nil })
	transport, err := bus.NewWorker(nc, space, remoteTool, name, nil)
	if err != nil {
		return err
	}
	keys := toolcall.NewKeySet(b.node.Engine().PublicKey())
	w, err := executor.NewWorker(transport, remoteTool, echo, keys, executor.WithSlots(b.cfg.Concurrency), executor.WithName(name), executor.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(context.WithoutCancel(ctx)) }) // Close also returns the error
	b.closers = append(b.closers, func() error { err := w.Close(); wg.Wait(); return err })
	return nil
}

func (b *bench) run(ctx context.Context, report *Report) error {
	// A fifth of the time each, twice, is enough for a rate.
	bare := max(b.cfg.Duration/5, 100*time.Millisecond)
	if err := b.raw.measure(ctx, &report.Raw, bare, b.cfg.Progress); err != nil {
		return err
	}
	for _, w := range workloads {
		if len(b.cfg.Workloads) > 0 && !slices.Contains(b.cfg.Workloads, w.name) {
			continue
		}
		o, err := b.load(ctx, w)
		if err != nil {
			return fmt.Errorf("workload %s: %w", w.name, err)
		}
		report.Workloads = append(report.Workloads, o)
	}
	if err := b.raw.measure(ctx, &report.Raw, bare, b.cfg.Progress); err != nil {
		return err
	}
	for i := range report.Workloads {
		report.Workloads[i].compare(report.Raw)
	}
	if b.cfg.Open == 0 {
		return nil
	}
	var err error
	report.Open, err = b.leaveOpen(ctx)
	return err
}

func (o *Outcome) compare(raw Raw) {
	if o.RecordsPerCall == 0 {
		return
	}
	if raw.Pipelined > 0 {
		o.ShareOfPipelined = o.CallsPerSecond / (raw.Pipelined / o.RecordsPerCall)
	}
	if raw.PipelinedCPU > 0 {
		o.CPUOverRaw = o.PerCall.CPU / (raw.PipelinedCPU * o.RecordsPerCall)
	}
	if raw.Sequential > 0 {
		o.TimesSequential = o.CallsPerSecond / (raw.Sequential / o.RecordsPerCall)
		o.P50OverRaw = o.P50 / (raw.P50 * o.RecordsPerCall)
	}
}

// load runs one workload until its time is over or its calls are made.
func (b *bench) load(ctx context.Context, w workload) (Outcome, error) {
	o := Outcome{Name: w.name, What: w.what, Concurrency: w.concurrency}
	o.Concurrency = cmp.Or(o.Concurrency, b.cfg.Concurrency)
	if err := b.warm(ctx, w, o.Concurrency); err != nil {
		return o, err
	}
	before, err := b.read(ctx)
	if err != nil {
		return o, err
	}
	stop, err := b.profile(&o)
	if err != nil {
		return o, err
	}
	began := time.Now()
	times, err := b.callers(ctx, w, o.Concurrency, began)
	took := time.Since(began)
	var after reading
	if err == nil {
		after, err = b.read(ctx)
	}
	if err = errors.Join(err, stop()); err != nil {
		return o, err
	}
	o.Calls, o.Seconds, o.Records = times.count(), took.Seconds(), after.records-before.records
	if o.Calls == 0 {
		return o, errors.New("no call ended in the given time")
	}
	o.CallsPerSecond = float64(o.Calls) / o.Seconds
	o.P50, o.P99 = times.percentile(50), times.percentile(99)
	o.RecordsPerCall = float64(o.Records) / float64(o.Calls)
	o.PerCall = after.costSince(before, o.Calls)
	for i := range o.Stages {
		o.Stages[i].CPU = o.Stages[i].Share * o.PerCall.CPU
	}
	return o, nil
}

// profile takes a CPU profile until stop is called, if the configuration asks for one. stop
// writes it to a file and divides it into stages.
func (b *bench) profile(o *Outcome) (stop func() error, err error) {
	if !b.cfg.Profile {
		return func() error { return nil }, nil
	}
	var data bytes.Buffer
	if err := pprof.StartCPUProfile(&data); err != nil {
		return nil, fmt.Errorf("take a profile: %w", err)
	}
	return func() error {
		pprof.StopCPUProfile()
		if err := os.WriteFile(profileFile(b.cfg.Dir, o.Name), data.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write the profile: %w", err)
		}
		p, err := profile.Parse(&data)
		if err != nil {
			return fmt.Errorf("read the profile: %w", err)
		}
		o.Stages, err = attribute(p)
		return err
	}, nil
}

// warm makes one call per caller, so that sessions are bound and queues exist when
// the clock starts.
func (b *bench) warm(ctx context.Context, w workload, callers int) error {
	return each(ctx, callers, func(ctx context.Context, i int) error { return w.call(ctx, b, b.key(i)) })
}

// callers runs the load and returns how long each call took.
func (b *bench) callers(ctx context.Context, w workload, callers int, began time.Time) (*latencies, error) {
	var made atomic.Int64
	times := new(latencies)
	err := each(ctx, callers, func(ctx context.Context, i int) error {
		for ctx.Err() == nil {
			n := made.Add(1)
			done := time.Since(began).Seconds() / b.cfg.Duration.Seconds()
			if b.cfg.Calls > 0 {
				done = float64(n-1) / float64(b.cfg.Calls)
			}
			if done >= 1 {
				return nil
			}
			t := time.Now()
			if err := w.call(ctx, b, b.key(i)); err != nil {
				return err
			}
			times.add(time.Since(t))
			if i == 0 {
				b.cfg.Progress(w.name, done)
			}
		}
		return context.Cause(ctx)
	})
	return times, err
}

// key names the next call of a caller: each caller has its own session, and each call
// its own reply.
func (b *bench) key(caller int) toolcall.Key {
	n := strconv.FormatUint(b.serial.Add(1), 10)
	return toolcall.Key{Session: message.SessionID("s" + strconv.Itoa(caller)), Reply: message.ReplyID("r" + n), Call: "c"}
}

// each runs f for 0 to n-1 concurrently and returns the first error, which also ends
// the context of the others.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := f(ctx, i); err != nil {
				stop(err) // only the first counts
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// latencies collects durations. Several goroutines may call add; the other methods are for
// the time after it.
type latencies struct {
	mu  sync.Mutex // guards all
	all []time.Duration
}

func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, d)
}

func (l *latencies) count() int { return len(l.all) }

// percentile returns the duration, in microseconds, that p of 100 do not exceed.
func (l *latencies) percentile(p int) float64 {
	if len(l.all) == 0 {
		return 0
	}
	i := (len(l.all)*p+99)/100 - 1
	return float64(slices.Sorted(slices.Values(l.all))[max(0, i)].Nanoseconds()) / 1e3
}
