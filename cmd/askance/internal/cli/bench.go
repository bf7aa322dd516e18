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
			if cfg.Durability = bus.Durability(env.cfg.Durability); cfg.Durability != bus.DurabilityQuorum {
				if cfg.Durability, err = env.cfg.embeddedDurability(bus.DurabilityCached); err != nil {
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
