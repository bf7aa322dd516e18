package main

import (
	_ "embed" // the page and its last section are files
	"fmt"
	"strings"
	"text/template"
)

// The pages of a report, by their paths in the repository.
const (
	pageFile   = "BENCHMARKS.md"
	stagesPlot = "docs/images/bench-stages.svg"
	ratesPlot  = "docs/images/bench-rates.svg"
	timesPlot  = "docs/images/bench-times.svg"
)

//go:embed page.md.tmpl
var pageText string

// remains describes the largest remaining costs; written by hand after a run.
//
//go:embed remains.txt
var remains string

// files returns the page and its plots, by path.
func (d *data) files() map[string]string {
	return map[string]string{
		pageFile:   d.page(),
		stagesPlot: plotBars("Processor time of one full call by stage, cached", d.stageBars(), formatMicros),
		ratesPlot:  plotBars(fmt.Sprintf("Finished per second, %d callers", d.Concurrency), d.systemBars(func(r row) float64 { return r.PerSecond }), formatCount),
		timesPlot:  plotBars("Processor time of one call or job, server included", d.systemBars(func(r row) float64 { return r.CPU }), formatMicros),
	}
}

func (d *data) page() string {
	t := template.Must(template.New(pageFile).Funcs(template.FuncMap{
		"count": formatCount, "micros": formatMicros, "bytes": formatBytes, "percent": func(f float64) string { return fmt.Sprintf("%.1f%%", 100*f) },
	}).Parse(pageText))
	var b strings.Builder
	err := t.Execute(&b, map[string]any{"Data": d, "Rows": d.rows(), "Remains": strings.TrimSpace(remains)})
	if err != nil {
		panic("the template does not match its data: " + err.Error()) // the test renders it
	}
	return b.String()
}

// row is a workload of askance or of a system that it is compared with. The template reads
// the fields; times are in microseconds.
type row struct {
	System, Durability, What string
	PerSecond, P50, P99, CPU float64
	own                      bool
}

// rows returns the workloads with many callers, and the jobs of the peers.
func (d *data) rows() []row {
	var out []row
	for _, r := range d.Reports {
		for _, w := range r.Workloads {
			if w.Concurrency == d.Concurrency {
				out = append(out, row{"askance, " + w.Name, r.Durability, w.What, w.CallsPerSecond, w.P50, w.P99, w.PerCall.CPU, true})
			}
		}
	}
	for _, j := range d.Jobs {
		out = append(out, row{j.System + " " + j.Version, j.Durability, j.What, j.PerSecond, j.P50, j.P99, j.CPU + j.ServerCPU, false})
	}
	return out
}

func (d *data) systemBars(figure func(row) float64) []bar {
	var out []bar
	for _, r := range d.rows() {
		group := "peers"
		if r.own {
			group = "askance"
		}
		out = append(out, bar{r.System + ", " + r.Durability, group, figure(r)})
	}
	return out
}

func (d *data) stageBars() []bar {
	var out []bar
	for _, r := range d.Reports {
		for _, w := range r.Workloads {
			if r.Durability == "cached" && w.Name == "full" {
				for _, s := range w.Stages {
					out = append(out, bar{s.Name, "", s.CPU})
				}
			}
		}
	}
	return out
}

// formatCount formats a count with groups of three digits, small ones with decimals.
func formatCount(f float64) string {
	if f < 100 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0")
	}
	s := fmt.Sprintf("%.0f", f)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// formatMicros formats microseconds for people.
func formatMicros(us float64) string {
	switch {
	case us == 0:
		return "-"
	case us < 10:
		return fmt.Sprintf("%.2f µs", us)
	case us < 10_000:
		return formatCount(us) + " µs"
	}
	return fmt.Sprintf("%.1f ms", us/1000)
}

func formatBytes(f float64) string {
	if f < 10_000 {
		return formatCount(f) + " B"
	}
	if f < 10e6 {
		return fmt.Sprintf("%.1f kB", f/1e3)
	}
	if f < 10e9 {
		return fmt.Sprintf("%.1f MB", f/1e6)
	}
	return fmt.Sprintf("%.1f GB", f/1e9)
}
