package cli

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/bench"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
)

func newBenchCommand(env *environment) *cobra.Command {
	cfg := bench.Config{}
	var earlier string
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure calls per second and compare them with the bare journal",
		Long: `Runs an engine with an embedded NATS server under load. In the same run and on the
same connection it measures the bare journal: compare-and-swap publishes, pipelined
and one after the other.

  local-1  a call that a rule allows and the engine's process runs, one at a time
  local    the same, with --concurrency calls at the same time
  full     a call that is requested, approved, run by a worker over NATS, and finished

"share of pipelined" compares calls/s with the rate of the bare journal for as many
records per call; "times sequential" compares with publishes one after the other.

Rates change with the load of the machine. What one call uses changes less: processor
time, bytes in the journal, allocations, and messages through the NATS server, for
callers, engine, worker and server together. Judge a change by these figures.`,
		Example: `  askance bench
  askance bench --durability fsynced --concurrency 64 --duration 10s
  askance bench --workload full --calls 20000 --profile
  askance bench --json >before.json
  askance bench --compare before.json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if cfg.Durability = journal.Durability(env.cfg.Durability); cfg.Durability != journal.DurabilityQuorum {
				if cfg.Durability, err = env.cfg.embeddedDurability(journal.DurabilityCached); err != nil {
					return err
				}
			}
			old, err := readBenchReport(earlier)
			if err != nil {
				return usageError{err}
			}
			return runBench(c.Context(), env, cfg, old)
		},
	}
	f := c.Flags()
	f.IntVar(&cfg.Concurrency, "concurrency", 32, "callers at the same time")
	f.IntVar(&cfg.Calls, "calls", 0, "calls of each workload (default as many as fit into --duration)")
	durationVar(f, &cfg.Duration, "duration", 3*time.Second, "time for each workload")
	env.cfg.bindAs(c, &env.cfg.Durability, "what an acknowledgement means: fsynced (on the disk), cached, or quorum: with most of three servers in this process (default cached)")
	f.IntVar(&cfg.RecordBytes, "record-bytes", 512, "size of a bare record")
	f.StringSliceVar(&cfg.Workloads, "workload", nil, "only these workloads: "+strings.Join(bench.Workloads(), ", "))
	f.IntVar(&cfg.Open, "open", 0, "leave this many requests open at the end, and measure their memory")
	f.StringVar(&earlier, "compare", "", "print the figures next to those of an earlier report, a file that --json wrote")
	f.BoolVar(&cfg.Profile, "profile", false, "divide the processor time of a call into stages; with --data it also keeps a .pprof file for each workload")
	env.cfg.bindAs(c, &env.cfg.Data, "folder for the journal, kept afterwards (default a temporary one, which is removed)")
	_ = c.RegisterFlagCompletionFunc("workload", cobra.FixedCompletions(bench.Workloads(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

// readBenchReport reads an earlier report; nil without a file.
func readBenchReport(file string) (*bench.Report, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the earlier report: %w", err)
	}
	r := new(bench.Report)
	if err := strictjson.UnmarshalOpen(text, r); err != nil {
		return nil, fmt.Errorf("%s is not a report of askance bench --json: %w", file, err)
	}
	if len(r.Workloads) == 0 {
		return nil, fmt.Errorf("%s is not a report of askance bench --json: it has no workloads", file)
	}
	return r, nil
}

func runBench(ctx context.Context, env *environment, cfg bench.Config, old *bench.Report) error {
	dir := env.cfg.Data
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "askance-bench-"); err != nil {
			return fmt.Errorf("bench: make a data folder: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // the system cleans its temporary folder
	}
	cfg.Dir = filepath.Join(dir, "bench")
	if err := cfg.Check(); err != nil {
		return usageError{err}
	}
	bar := newBenchBar(env, &cfg)
	r, err := bench.Run(ctx, cfg)
	bar()
	if err != nil {
		return err
	}
	if old != nil {
		r.Compared = r.Compare(old)
	}
	return env.print(r, benchText(env.out, r))
}

func newBenchBar(env *environment, cfg *bench.Config) (done func()) {
	if env.json || !env.err.Terminal() {
		return func() {}
	}
	const parts = 1000
	bar := progressbar.NewOptions(parts, progressbar.OptionSetWriter(env.err), progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(false), progressbar.OptionThrottle(50*time.Millisecond))
	cfg.Progress = func(phase string, f float64) {
		bar.Describe(fmt.Sprintf("%-18s", phase))
		_ = bar.Set(min(parts-1, int(f*parts))) // the bar is not essential
	}
	return func() { _ = bar.Finish() }
}

func benchText(out *term.Out, r *bench.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", out.Bold(fmt.Sprintf("Durability %s, %d callers, %d CPUs, %s", r.Durability, r.Concurrency, r.CPUs, r.Go)))
	fmt.Fprintf(&b, "  %-22s %10s/s   %s of processor time\n", fmt.Sprintf("bare, pipelined, %d B", r.Raw.RecordBytes), number(r.Raw.Pipelined), micros(r.Raw.PipelinedCPU))
	fmt.Fprintf(&b, "  %-22s %10s/s   %s of processor time  p50 %s  p99 %s\n", "bare, one by one", number(r.Raw.Sequential), micros(r.Raw.SequentialCPU), micros(r.Raw.P50), micros(r.Raw.P99))
	for _, w := range r.Workloads {
		writeWorkload(&b, out, r, w)
	}
	if r.Open != nil {
		fmt.Fprintf(&b, "\n%s\n", out.Bold(number(float64(r.Open.Requests))+" open requests"))
		fmt.Fprintf(&b, "  %-22s %10s B   %s B of the resident set, for each request\n", "memory", number(r.Open.HeapBytes), number(r.Open.ResidentBytes))
	}
	if r.Compared != nil {
		writeComparison(&b, out, r.Compared)
	}
	return b.String()
}

func writeWorkload(b *strings.Builder, out *term.Out, r *bench.Report, w bench.Outcome) {
	fmt.Fprintf(b, "\n%s %s\n", out.Name(w.Name), out.Dim(w.What))
	fmt.Fprintf(b, "  %-22s %10s/s   p50 %s  p99 %s\n", fmt.Sprintf("%d calls, %d callers", w.Calls, w.Concurrency), number(w.CallsPerSecond), micros(w.P50), micros(w.P99))
	fmt.Fprintf(b, "  %-22s %9.1f%%     of %s calls/s that the bare journal could carry\n", "share of pipelined", 100*w.ShareOfPipelined, number(r.Raw.Pipelined/w.RecordsPerCall))
	fmt.Fprintf(b, "  %-22s %10.2f     times %s calls/s\n", "times sequential", w.TimesSequential, number(r.Raw.Sequential/w.RecordsPerCall))
	if w.Concurrency == 1 {
		fmt.Fprintf(b, "  %-22s %10.2f     times %s for %.0f bare records\n", "p50 over bare", w.P50OverRaw, micros(r.Raw.P50*w.RecordsPerCall), w.RecordsPerCall)
	}
	fmt.Fprintf(b, "  %s\n", out.Dim("each call:"))
	fmt.Fprintf(b, "  %-22s %10s     %s of it in the system; %.1f times that of %.0f bare records\n", "processor time", micros(w.PerCall.CPU), micros(w.PerCall.SystemCPU), w.CPUOverRaw, w.RecordsPerCall)
	fmt.Fprintf(b, "  %-22s %10.2f     counted: %d records\n", "records per call", w.RecordsPerCall, w.Records)
	fmt.Fprintf(b, "  %-22s %10s B   %s B in all streams\n", "in the journal", number(w.PerCall.JournalBytes), number(w.PerCall.StoredBytes))
	fmt.Fprintf(b, "  %-22s %10s     %s B\n", "allocations", number(w.PerCall.Allocations), number(w.PerCall.AllocatedBytes))
	fmt.Fprintf(b, "  %-22s %10.1f     in, %.1f out through the NATS server\n", "messages", w.PerCall.MessagesIn, w.PerCall.MessagesOut)
	if len(w.Stages) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s\n", out.Dim("processor time by stage:"))
	for _, s := range w.Stages {
		fmt.Fprintf(b, "  %-22s %9.1f%%  %8s  %s\n", s.Name, 100*s.Share, micros(s.CPU), out.Dim(s.What))
	}
}

func writeComparison(b *strings.Builder, out *term.Out, c *bench.Comparison) {
	fmt.Fprintf(b, "\n%s\n", out.Bold("Compared with the earlier report"))
	for _, n := range c.Notes {
		fmt.Fprintf(b, "  Not the same: %s.\n", n)
	}
	fmt.Fprintf(b, "  %-8s %-34s %12s %12s %8s\n", "", "", "old", "new", "new÷old")
	for _, f := range c.Figures {
		ratio := "-"
		if f.Ratio != 0 {
			ratio = fmt.Sprintf("%.2f", f.Ratio)
		}
		fmt.Fprintf(b, "  %-8s %-34s %12s %12s %8s\n", f.Workload, f.Figure, quantity(f.Old), quantity(f.New), ratio)
	}
}

// quantity formats a figure of any size, with decimals if it is small.
func quantity(f float64) string {
	if f < 100 {
		return fmt.Sprintf("%.2f", f)
	}
	return number(f)
}

// number formats a rate without decimals.
func number(f float64) string { return asked.Number(int(math.RoundToEven(f))) }

func micros(us float64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1fms", us/1000)
	}
	return fmt.Sprintf("%.0fµs", us)
}
