package main

import (
	_ "embed" // the page and its last section are files
	"fmt"
	"html"
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

// bar is a row of a plot. Rows of one group have one color.
type bar struct {
	label string
	group string
	value float64
}

const (
	plotWidth  = 760
	labelWidth = 250
	barHeight  = 18
	rowHeight  = 26
	topMargin  = 44
	numberRoom = 90 // for the number after the longest bar
)

// colors also differ in lightness, so they can be told apart in grayscale.
var colors = []string{"#1f6feb", "#a5b4c4", "#d97706", "#6b7280"}

// plotBars draws horizontal bars on a linear scale from zero.
func plotBars(title string, bars []bar, format func(float64) string) string {
	most, groups := 0.0, map[string]int{}
	for _, b := range bars {
		most = max(most, b.value)
		if _, ok := groups[b.group]; !ok {
			groups[b.group] = len(groups)
		}
	}
	var s strings.Builder
	height := topMargin + rowHeight*len(bars) + 10
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" font-family="system-ui, sans-serif" font-size="13">`+"\n", plotWidth, height)
	fmt.Fprintf(&s, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, height)
	fmt.Fprintf(&s, `<text x="10" y="26" font-size="15" font-weight="600" fill="#111">%s</text>`+"\n", html.EscapeString(title))
	for i, b := range bars {
		y := topMargin + i*rowHeight
		width := 0.0
		if most > 0 {
			width = b.value / most * (plotWidth - labelWidth - numberRoom)
		}
		fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end" fill="#111">%s</text>`, labelWidth-8, y+13, html.EscapeString(b.label))
		fmt.Fprintf(&s, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`, labelWidth, y, width, barHeight, colors[groups[b.group]%len(colors)])
		fmt.Fprintf(&s, `<text x="%.1f" y="%d" fill="#333">%s</text>`+"\n", labelWidth+width+6, y+13, html.EscapeString(format(b.value)))
	}
	return s.String() + "</svg>\n"
}
