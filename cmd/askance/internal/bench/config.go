package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/bus"
)

// Config says what to measure.
type Config struct {
	Dir         string // for the journal; should be empty, and on the disk to measure
	Durability  bus.Durability
	Concurrency int           // callers at once
	Calls       int           // of each workload; 0: as many as fit into Duration
	Duration    time.Duration // of each workload and each bare run
	RecordBytes int           // body of a bare record
	Workloads   []string      // names; empty: all
	Open        int           // requests left open at the end, to measure their memory
	// Profile divides the processor time into stages and writes a profile of each workload to Dir.
	Profile bool
	// Progress, if set, is called with the progress of a phase, from 0 to 1.
	Progress func(phase string, done float64)
}

// Check refuses a configuration that cannot be measured.
func (c Config) Check() error {
	switch {
	case c.Concurrency < 1 || c.Concurrency > maxConcurrency:
		return fmt.Errorf("concurrency is %d, want 1 to %d", c.Concurrency, maxConcurrency)
	case c.Calls < 0 || c.Calls > maxCalls:
		return fmt.Errorf("calls is %d, want at most %d", c.Calls, maxCalls)
	case c.Open < 0 || c.Open > maxCalls:
		return fmt.Errorf("open is %d, want at most %d", c.Open, maxCalls)
	case c.Duration <= 0 || c.Duration > maxDuration:
		return fmt.Errorf("duration is %s, want up to %s", c.Duration, maxDuration)
	case c.RecordBytes < 1 || c.RecordBytes > maxRecord:
		return fmt.Errorf("record bytes is %d, want 1 to %d", c.RecordBytes, maxRecord)
	case c.Dir == "":
		return errors.New("there is no folder for the journal")
	}
	for _, name := range c.Workloads {
		if _, ok := find(name); !ok {
			return fmt.Errorf("there is no workload %q", name)
		}
	}
	return nil
}

// Limits of a run.
const (
	maxConcurrency = 4096
	maxCalls       = 10_000_000
	maxDuration    = time.Hour
	maxRecord      = 512 << 10
)

// Report is the outcome.
type Report struct {
	Durability  string    `json:"durability"`
	Concurrency int       `json:"concurrency"`
	CPUs        int       `json:"cpus"`
	Go          string    `json:"go"`
	Raw         Raw       `json:"raw"`
	Workloads   []Outcome `json:"workloads"`
	Open        *Open     `json:"open,omitempty"`
	// Compared is the result of [Report.Compare], if there is an earlier report.
	Compared *Comparison `json:"compared,omitempty"`
}

// Raw has the figures of the bare journal: compare-and-swap publishes on the
// connection that the engine's journal uses.
type Raw struct {
	RecordBytes int     `json:"record_bytes"`
	Pipelined   float64 `json:"pipelined_per_s"`  // many in flight, each to its own subject
	Sequential  float64 `json:"sequential_per_s"` // one after the other, to one subject
	P50         float64 `json:"sequential_p50_us"`
	P99         float64 `json:"sequential_p99_us"`
	// PipelinedCPU and SequentialCPU are the processor time of one publish, in
	// microseconds; 0: unknown on this system.
	PipelinedCPU  float64 `json:"pipelined_cpu_us"`
	SequentialCPU float64 `json:"sequential_cpu_us"`
}

// Outcome has the figures of one workload.
type Outcome struct {
	Name           string  `json:"name"`
	What           string  `json:"what"`
	Concurrency    int     `json:"concurrency"`
	Calls          int     `json:"calls"`
	Seconds        float64 `json:"seconds"`
	CallsPerSecond float64 `json:"calls_per_s"`
	P50            float64 `json:"p50_us"` // from the proposal to the result
	P99            float64 `json:"p99_us"`
	Records        uint64  `json:"records"`
	RecordsPerCall float64 `json:"records_per_call"`
	// ShareOfPipelined is the calls per second as a share of what the bare
	// journal could carry: pipelined publishes per second ÷ records per call.
	ShareOfPipelined float64 `json:"share_of_pipelined"`
	// TimesSequential is the same against publishes one after the other.
	TimesSequential float64 `json:"times_sequential"`
	// P50OverRaw is the p50 ÷ (records per call × p50 of one bare publish). It is
	// meaningful if calls run one at a time.
	P50OverRaw float64 `json:"p50_over_raw"`
	// CPUOverRaw is the processor time ÷ (records per call × that of one pipelined
	// bare publish): a figure that depends less on the machine.
	CPUOverRaw float64 `json:"cpu_over_raw"`
	PerCall    Cost    `json:"per_call"`
	// Stages divide PerCall.CPU, the largest first; none without Config.Profile.
	Stages []StageCost `json:"stages,omitempty"`
}
