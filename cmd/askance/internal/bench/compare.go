package bench

import (
	"fmt"
	"slices"
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
