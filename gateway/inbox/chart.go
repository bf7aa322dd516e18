package inbox

import (
	"math"

	"github.com/askance-dev/askance/internal/asked"
)

// column is one column of a chart: how many of each outcome.
type column struct {
	Label string
	Parts map[string]int
}

// Sum is how many there are in all.
func (c column) Sum() int {
	n := 0
	for _, p := range c.Parts {
		n += p
	}
	return n
}

// chart is a stack of bars, laid out: the template only writes it down. The
// same numbers stand in a table beside it.
type chart struct {
	Title   string
	Head    string // of the first column of the table
	Columns []column
	W, H    int
	Bars    []bar
	Grid    []gridLine
	Labels  []axisLabel
	Empty   bool
}

type bar struct {
	X, Y, W, H float64
	Kind       string
	Title      string
}

type gridLine struct {
	Y    float64
	Text int
}

type axisLabel struct {
	X    float64
	Text string
}

// Sizes of a chart, in its own units.
const (
	chartW, chartH           = 720, 220
	leftMargin, bottomMargin = 34, 22
	topMargin                = 10
	mostLabels               = 12
	gapShare                 = 0.22 // of a column
)

// layOut places the bars of columns.
func layOut(title, head string, columns []column) chart {
	c := chart{Title: title, Head: head, Columns: columns, W: chartW, H: chartH, Empty: true}
	most := 0
	for _, col := range columns {
		most = max(most, col.Sum())
	}
	c.Empty = most == 0
	step := niceStep(most)
	top := max(step, (most+step-1)/step*step)
	height := float64(chartH - topMargin - bottomMargin)
	y := func(n int) float64 { return topMargin + height*(1-float64(n)/float64(top)) }
	for n := 0; n <= top; n += step {
		c.Grid = append(c.Grid, gridLine{y(n), n})
	}
	width := float64(chartW-leftMargin) / float64(len(columns))
	every := (len(columns) + mostLabels - 1) / mostLabels
	for i, col := range columns {
		x := leftMargin + width*float64(i)
		if i%every == 0 {
			c.Labels = append(c.Labels, axisLabel{x + width/2, col.Label})
		}
		below := 0
		for _, kind := range outcomes {
			n := col.Parts[kind.Value]
			if n == 0 {
				continue
			}
			c.Bars = append(c.Bars, bar{X: x + width*gapShare/2, W: width * (1 - gapShare), Y: y(below + n), H: y(below) - y(below+n), Kind: kind.Value, Title: col.Label + ": " + asked.Count(n, "request") + " " + kind.Label})
			below += n
		}
	}
	return c
}

// niceStep is the distance of the lines behind the bars: 1, 2 or 5 times a power
// of ten, so that there are at most five of them.
func niceStep(most int) int {
	if most <= 4 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(float64(most)/4)))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power*4 >= float64(most) {
			return max(1, int(m*power))
		}
	}
	return most
}
