package bench

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus/journal"
)

// Comparison compares a report with an earlier one. It draws no conclusion, because
// rates and times also change with the load of the machine.
type Comparison struct {
	Notes   []string `json:"notes"` // differences other than the code
	Figures []Change `json:"figures"`
}

// Change is one figure in both reports.
type Change struct {
	Workload string  `json:"workload"` // "bare" for the bare journal
	Figure   string  `json:"figure"`   // with its unit
	Old      float64 `json:"old"`
	New      float64 `json:"new"`
	Ratio    float64 `json:"ratio"` // new ÷ old; 0 if old is 0 or not in the report
}

var figures = []struct {
	name string
	of   func(o Outcome) float64
}{
	{"calls/s", func(o Outcome) float64 { return o.CallsPerSecond }},
	{"p50, µs", func(o Outcome) float64 { return o.P50 }},
	{"p99, µs", func(o Outcome) float64 { return o.P99 }},
	{"share of pipelined, %", func(o Outcome) float64 { return 100 * o.ShareOfPipelined }},
	{"times sequential", func(o Outcome) float64 { return o.TimesSequential }},
	{"p50 over bare", func(o Outcome) float64 { return o.P50OverRaw }},
	{"processor time, µs", func(o Outcome) float64 { return o.PerCall.CPU }},
	{"of it in the system, µs", func(o Outcome) float64 { return o.PerCall.SystemCPU }},
	{"processor time over bare", func(o Outcome) float64 { return o.CPUOverRaw }},
	{"allocations", func(o Outcome) float64 { return o.PerCall.Allocations }},
	{"allocated, B", func(o Outcome) float64 { return o.PerCall.AllocatedBytes }},
	{"records", func(o Outcome) float64 { return o.RecordsPerCall }},
	{"journal, B", func(o Outcome) float64 { return o.PerCall.JournalBytes }},
	{"all streams, B", func(o Outcome) float64 { return o.PerCall.StoredBytes }},
	{"messages in", func(o Outcome) float64 { return o.PerCall.MessagesIn }},
	{"messages out", func(o Outcome) float64 { return o.PerCall.MessagesOut }},
}

// Compare compares r with an earlier report. Workloads that only r has are left out, with a note.
func (r *Report) Compare(old *Report) *Comparison {
	c := &Comparison{Notes: []string{}, Figures: []Change{}}
	c.note("durability", old.Durability, r.Durability)
	c.note("concurrency", old.Concurrency, r.Concurrency)
	c.note("CPUs", old.CPUs, r.CPUs)
	c.note("Go", old.Go, r.Go)
	c.note("size of a bare record", old.Raw.RecordBytes, r.Raw.RecordBytes)
	c.add("bare", "pipelined/s", old.Raw.Pipelined, r.Raw.Pipelined)
	c.add("bare", "sequential/s", old.Raw.Sequential, r.Raw.Sequential)
	c.add("bare", "pipelined, µs of processor time", old.Raw.PipelinedCPU, r.Raw.PipelinedCPU)
	c.add("bare", "sequential, µs of processor time", old.Raw.SequentialCPU, r.Raw.SequentialCPU)
	for _, o := range r.Workloads {
		i := slices.IndexFunc(old.Workloads, func(w Outcome) bool { return w.Name == o.Name })
		if i < 0 {
			c.Notes = append(c.Notes, "the earlier report has no workload "+o.Name)
			continue
		}
		for _, f := range figures {
			c.add(o.Name, f.name, f.of(old.Workloads[i]), f.of(o))
		}
		c.addStages(old.Workloads[i], o)
	}
	return c
}

func (c *Comparison) note(what string, old, now any) {
	if old != now {
		c.Notes = append(c.Notes, fmt.Sprintf("%s was %v and is %v", what, old, now))
	}
}

func (c *Comparison) add(workload, figure string, old, now float64) {
	change := Change{Workload: workload, Figure: figure, Old: old, New: now}
	if old != 0 {
		change.Ratio = now / old
	}
	c.Figures = append(c.Figures, change)
}

// addStages compares the stages of two profiles, if both reports have one.
func (c *Comparison) addStages(old, now Outcome) {
	if len(old.Stages) == 0 {
		return
	}
	for _, s := range now.Stages {
		i := slices.IndexFunc(old.Stages, func(o StageCost) bool { return o.Name == s.Name })
		if i >= 0 {
			c.add(now.Name, "stage "+s.Name+", µs", old.Stages[i].CPU, s.CPU)
		}
	}
}

// Config says what to measure.
type Config struct {
	Dir         string // for the journal; should be empty, and on the disk to measure
	Durability  journal.Durability
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
