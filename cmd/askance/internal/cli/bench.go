package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/bench"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
)

func newBenchCommand(env *environment) *cobra.Command {
	cfg := bench.Config{}
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
records per call; "times sequential" compares with publishes one after the other.`,
		Example: `  askance bench
  askance bench --durability fsynced --concurrency 64 --duration 10s
  askance bench --workload full --calls 20000 --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if cfg.Durability, err = env.cfg.embeddedDurability(bus.DurabilityCached); err != nil {
				return err
			}
			return runBench(c.Context(), env, cfg)
		},
	}
	f := c.Flags()
	f.IntVar(&cfg.Concurrency, "concurrency", 32, "callers at the same time")
	f.IntVar(&cfg.Calls, "calls", 0, "calls of each workload (default as many as fit into --duration)")
	f.DurationVar(&cfg.Duration, "duration", 3*time.Second, "time for each workload")
	env.cfg.bindAs(c, &env.cfg.Durability, "what an acknowledgement means: fsynced (on the disk) or cached (default cached)")
	f.IntVar(&cfg.RecordBytes, "record-bytes", 512, "size of a bare record")
	f.StringSliceVar(&cfg.Workloads, "workload", nil, "only these workloads: "+strings.Join(bench.Workloads(), ", "))
	env.cfg.bindAs(c, &env.cfg.Data, "folder for the journal, kept afterwards (default a temporary one, which is removed)")
	_ = c.RegisterFlagCompletionFunc("workload", cobra.FixedCompletions(bench.Workloads(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func runBench(ctx context.Context, env *environment, cfg bench.Config) error {
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
	fmt.Fprintf(&b, "  %-22s %10s/s\n", fmt.Sprintf("bare, pipelined, %d B", r.Raw.RecordBytes), number(r.Raw.Pipelined))
	fmt.Fprintf(&b, "  %-22s %10s/s   p50 %s  p99 %s\n", "bare, one by one", number(r.Raw.Sequential), micros(r.Raw.P50), micros(r.Raw.P99))
	for _, w := range r.Workloads {
		fmt.Fprintf(&b, "\n%s %s\n", out.Name(w.Name), out.Dim(w.What))
		fmt.Fprintf(&b, "  %-22s %10s/s   p50 %s  p99 %s\n", fmt.Sprintf("%d calls, %d callers", w.Calls, w.Concurrency), number(w.CallsPerSecond), micros(w.P50), micros(w.P99))
		fmt.Fprintf(&b, "  %-22s %10.2f     counted: %d records\n", "records per call", w.RecordsPerCall, w.Records)
		fmt.Fprintf(&b, "  %-22s %9.1f%%     of %s calls/s that the bare journal could carry\n", "share of pipelined", 100*w.ShareOfPipelined, number(r.Raw.Pipelined/w.RecordsPerCall))
		fmt.Fprintf(&b, "  %-22s %10.2f     times %s calls/s\n", "times sequential", w.TimesSequential, number(r.Raw.Sequential/w.RecordsPerCall))
		if w.Concurrency == 1 {
			fmt.Fprintf(&b, "  %-22s %10.2f     times %s for %.0f bare records\n", "p50 over bare", w.P50OverRaw, micros(r.Raw.P50*w.RecordsPerCall), w.RecordsPerCall)
		}
	}
	return b.String()
}

// number writes a rate with thin groups, without digits that mean nothing.
func number(f float64) string {
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func micros(us float64) string {
	if us >= 10_000 {
		return fmt.Sprintf("%.1fms", us/1000)
	}
	return fmt.Sprintf("%.0fµs", us)
}
