// Package chart draws charts as SVG on the server: columns over time, distributions,
// shares, sparklines and heat maps.
//
//	c := chart.Columns{Title: "Calls", Series: series, Columns: columns}
//	c.SVG()   // drawing; links and hover need no script
//	c.Table() // the same numbers for people who cannot see it
//
// Horizontal positions are percentages and text has a fixed size, so a drawing fits any
// width without a script. Colours are the classes s-NAME of the style sheet: there
// is no inline style. Labels are escaped; callers make misleading characters visible.
//
// A JavaScript library would draw nothing without a script, needs inline styles, which
// the content security policy forbids, and is larger than all scripts of the console.
package chart

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"
)

// Series is one kind of value; its colour is the class s-Name.
type Series struct{ Name, Label string }

// Tick is a labelled place on an axis; At is in percent.
type Tick struct {
	At    float64
	Label string
}

// Step returns the distance between grid lines for values up to most: 1, 2 or 5 times a power of
// ten, giving at most four lines above zero.
func Step(most float64) float64 {
	for base := 1.0; ; base *= 10 {
		for _, m := range []float64{1, 2, 5} {
			if base*m*4 >= most {
				return base * m
			}
		}
	}
}

// timeSteps are the possible distances between ticks on a time axis.
var timeSteps = []time.Duration{
	time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 7 * 24 * time.Hour, 14 * 24 * time.Hour, 30 * 24 * time.Hour, 90 * 24 * time.Hour,
}

// TimeTicks returns at most n ticks at round instants (UTC) from since to until.
func TimeTicks(since, until time.Time, n int) []Tick {
	all := until.Sub(since)
	if all <= 0 || n < 1 {
		return nil
	}
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if all/s < time.Duration(n) {
			step = s
			break
		}
	}
	var out []Tick
	for at := since.UTC().Truncate(step); !at.After(until); at = at.Add(step) {
		if !at.Before(since) {
			out = append(out, Tick{100 * float64(at.Sub(since)) / float64(all), timeLabel(at, step)})
		}
	}
	return out
}

func timeLabel(at time.Time, step time.Duration) string {
	switch {
	case step >= 24*time.Hour || at.Equal(at.Truncate(24*time.Hour)):
		return at.Format("Jan 2")
	case step >= time.Minute:
		return at.Format("15:04")
	case step >= time.Second:
		return at.Format("15:04:05")
	}
	return at.Format("05.000")
}

// Number formats a value as people read it: 950, 1.2k, 3.4M.
func Number(v float64) string {
	for _, u := range []struct {
		from float64
		unit string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= u.from {
			return trimmed(v/u.from, 1) + u.unit
		}
	}
	return trimmed(v, 1)
}

// trimmed formats v with at most digits digits after the point.
func trimmed(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// percent formats a position or a length on the horizontal axis.
func percent(v float64) string { return trimmed(v, 3) + "%" }

// drawing collects markup. Every argument is escaped.
type drawing struct{ strings.Builder }

func (d *drawing) addf(format string, args ...any) {
	for i, a := range args {
		args[i] = template.HTMLEscapeString(fmt.Sprint(a))
	}
	_, _ = fmt.Fprintf(d, format, args...) // a strings.Builder never fails
}

func (d *drawing) html() template.HTML {
	return template.HTML(d.String()) //nolint:gosec // addf escapes every argument
}
