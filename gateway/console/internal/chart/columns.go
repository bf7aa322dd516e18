package chart

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strings"
)

// Columns are stacked columns over time, or a distribution over classes.
type Columns struct {
	ID      string // names the chart in its page
	Title   string
	Series  []Series
	Columns []Column
	Ticks   []Tick // labels below; nil: the column labels, as many as fit
	Marks   []Tick // vertical lines with a label, such as a median
	Height  int    // of the plot, in pixels; 0: 160
	Head    string // header of the table's first column
	// Wide columns touch each other, as in a distribution.
	Wide bool
}

// Column is one column; Values are in the order of the series.
type Column struct {
	Label  string // below it and in the table
	Long   string // in the tooltip; "": Label
	Values []int
	Href   string // opened by a click, if not empty
}

// Sum is the height of the column.
func (c Column) Sum() int {
	n := 0
	for _, v := range c.Values {
		n += v
	}
	return n
}

// Empty reports whether all values are zero.
func (c Columns) Empty() bool {
	return !slices.ContainsFunc(c.Columns, func(col Column) bool { return col.Sum() > 0 })
}

// Sizes in pixels. The style sheet leaves room for the labels on the left.
const (
	topMargin    = 14
	bottomMargin = 24
	tipLine      = 17
	shownLabels  = 12
	wideRunes    = 60 // in the labels of a wide chart, with a space after each
	narrowLabels = 6  // on a phone
)

// SVG draws the columns.
func (c Columns) SVG() template.HTML {
	var d drawing
	height := cmp.Or(float64(c.Height), 160)
	most := 0
	for _, col := range c.Columns {
		most = max(most, col.Sum())
	}
	step := Step(float64(most))
	top := max(step, math.Ceil(float64(most)/step)*step)
	y := func(v float64) float64 { return height * (1 - v/top) }
	d.addf(`<svg class="chart" height="%v" role="group" aria-label="%v">`, height+topMargin+bottomMargin, c.summary())
	for v := 0.0; v <= top; v += step {
		d.addf(`<text class="y" x="-8" y="%v">%v</text>`, trimmed(y(v)+topMargin+4, 1), Number(v))
	}
	d.addf(`<svg y="%v" height="%v" overflow="visible">`, topMargin, height+bottomMargin)
	for v := 0.0; v <= top; v += step {
		d.addf(`<line class="grid" x2="100%%" y1="%[1]v" y2="%[1]v"/>`, trimmed(math.Floor(y(v))+.5, 1))
	}
	width := 100 / float64(max(1, len(c.Columns)))
	gap := width * .24
	if c.Wide {
		gap = width * .06
	}
	for i, col := range c.Columns {
		c.bars(&d, col, float64(i)*width+gap/2, width-gap, y)
	}
	c.labels(&d, width, height)
	for _, m := range c.Marks {
		anchor := ""
		if m.At > 70 {
			anchor = " end"
		}
		d.addf(`<g class="mark%v"><line x1="%[2]v" x2="%[2]v" y2="%[3]v"/><text x="%[2]v" y="-3">%[4]v</text></g>`, anchor, percent(m.At), height, m.Label)
	}
	for i, col := range c.Columns {
		c.column(&d, col, float64(i)*width, width, height)
	}
	d.addf(`</svg></svg>`)
	return d.html()
}

// bars draws the parts of one column, from the bottom.
func (c Columns) bars(d *drawing, col Column, x, width float64, y func(float64) float64) {
	below := 0.0
	for i, v := range col.Values {
		if v == 0 {
			continue
		}
		high := y(below) - y(below+float64(v))
		d.addf(`<rect class="s-%v" x="%v" y="%v" width="%v" height="%v" rx="1.5"/>`, c.Series[i].Name, percent(x), trimmed(y(below+float64(v)), 1), percent(width), trimmed(max(1, high-.6), 1))
		below += float64(v)
	}
}

func (c Columns) labels(d *drawing, width, height float64) {
	ticks := c.Ticks
	if ticks == nil {
		for i, col := range c.Columns {
			ticks = append(ticks, Tick{(float64(i) + .5) * width, col.Label})
		}
	}
	fit := shownLabels
	if c.Wide {
		for _, t := range ticks {
			fit = min(fit, max(1, wideRunes/(len([]rune(t.Label))+1)))
		}
	}
	every := (len(ticks) + fit - 1) / fit
	narrow := every * ((len(ticks)/max(1, every) + narrowLabels - 1) / narrowLabels)
	for i := 0; i < len(ticks); i += max(1, every) {
		class := "x"
		if i%max(1, narrow) != 0 {
			class = "x roomy"
		}
		if ticks[i].At > 97 { // half of it would be outside the box
			class += " last"
		}
		d.addf(`<text class="%v" x="%v" y="%v">%v</text>`, class, percent(ticks[i].At), height+17, ticks[i].Label)
	}
}

// column draws the hover target: a band with the numbers next to it.
func (c Columns) column(d *drawing, col Column, x, width, height float64) {
	if col.Sum() == 0 {
		return
	}
	lines := c.lines(col)
	end := `</g>`
	if col.Href != "" {
		end = `</a>`
		d.addf(`<a class="col" tabindex="-1" href="%v" aria-label="%v">`, col.Href, strings.Join(lines, ", "))
	} else {
		d.addf(`<g class="col">`)
	}
	d.addf(`<rect class="hit" x="%v" y="0" width="%v" height="%v"/>`, percent(x), percent(width), height)
	longest := 0
	for _, l := range lines {
		longest = max(longest, len([]rune(l)))
	}
	box := float64(longest)*6.6 + 34
	at, shift := x+width, 6.0
	if at > 60 {
		at, shift = x, -box-6
	}
	d.addf(`<svg class="tip" x="%v" overflow="visible"><rect class="tip-box" x="%v" y="2" width="%v" height="%v" rx="6"/>`, percent(at), trimmed(shift, 1), trimmed(box, 1), len(lines)*tipLine+10)
	shown := 0
	for i, l := range lines {
		if i == 0 {
			d.addf(`<text class="tip-head" x="%v" y="19">%v</text>`, trimmed(shift+10, 1), l)
			continue
		}
		for col.Values[shown] == 0 {
			shown++
		}
		d.addf(`<rect class="s-%v" x="%v" y="%v" width="9" height="9" rx="2"/><text x="%v" y="%v">%v</text>`, c.Series[shown].Name, trimmed(shift+10, 1), i*tipLine+10, trimmed(shift+25, 1), i*tipLine+19, l)
		shown++
	}
	d.addf(`</svg>`)
	d.WriteString(end)
}

// lines returns the tooltip of a column: its label, then each value above zero.
func (c Columns) lines(col Column) []string {
	head := cmp.Or(col.Long, col.Label)
	out := []string{head}
	for i, v := range col.Values {
		if v > 0 {
			out = append(out, c.Series[i].Label+" "+trimmed(float64(v), 0))
		}
	}
	return out
}

// summary describes the chart in words.
func (c Columns) summary() string {
	var parts []string
	for i, s := range c.Series {
		n := 0
		for _, col := range c.Columns {
			n += col.Values[i]
		}
		if n > 0 {
			parts = append(parts, s.Label+" "+trimmed(float64(n), 0))
		}
	}
	if len(parts) == 0 {
		return c.Title + ": nothing"
	}
	return c.Title + ": " + strings.Join(parts, ", ") + ". The table below has every number."
}

// Legend names the series.
func (c Columns) Legend() template.HTML {
	var d drawing
	d.addf(`<ul class="legend">`)
	for _, s := range c.Series {
		d.addf(`<li><i class="s-%v" aria-hidden="true"></i>%v</li>`, s.Name, s.Label)
	}
	d.addf(`</ul>`)
	return d.html()
}

// Table renders the same numbers as a table; rows without values are left out.
func (c Columns) Table() template.HTML {
	var d drawing
	d.addf(`<table class="numbers"><caption class="visually-hidden">%v</caption><thead><tr><th scope="col">%v</th>`, c.Title, c.Head)
	for _, s := range c.Series {
		d.addf(`<th scope="col">%v</th>`, s.Label)
	}
	d.addf(`</tr></thead><tbody>`)
	for _, col := range c.Columns {
		if col.Sum() == 0 {
			continue
		}
		label := c.lines(col)[0]
		if col.Href != "" {
			d.addf(`<tr><th scope="row"><a href="%v">%v</a></th>`, col.Href, label)
		} else {
			d.addf(`<tr><th scope="row">%v</th>`, label)
		}
		for _, v := range col.Values {
			d.addf(`<td>%v</td>`, v)
		}
		d.addf(`</tr>`)
	}
	d.addf(`</tbody></table>`)
	return d.html()
}

// Share draws parts of a whole as one bar, for a table row. most is the sum that fills the width; 0
// means the sum of values.
func Share(series []Series, values []int, most int) template.HTML {
	var d drawing
	sum := 0
	var words []string
	for i, v := range values {
		sum += v
		if v > 0 {
			words = append(words, series[i].Label+" "+trimmed(float64(v), 0))
		}
	}
	label := cmp.Or(strings.Join(words, ", "), "none")
	d.addf(`<svg class="share" height="8" role="img" aria-label="%[1]v"><title>%[1]v</title><rect class="track" width="100%%" height="8" rx="2"/>`, label)
	x, all := 0.0, float64(max(most, sum, 1))
	for i, v := range values {
		if v == 0 {
			continue
		}
		width := 100 * float64(v) / all
		d.addf(`<rect class="s-%v" x="%v" width="%v" height="8"/>`, series[i].Name, percent(x), percent(width))
		x += width
	}
	d.addf(`</svg>`)
	return d.html()
}

// Heat is a heat map: a table whose cells are darker where the number is larger.
type Heat struct {
	Title string
	Head  string // header of the first column
	Names []Series
	Rows  []HeatRow
}

// HeatRow is a row; Values and Hrefs are in the order of the names.
type HeatRow struct {
	Label, Href string
	Values      []int
	Hrefs       []string // "": no link
}

// shades is how many shades a colour has besides none: the classes h-1 to h-5.
const shades = 5

// HTML renders the table.
func (h Heat) HTML() template.HTML {
	var d drawing
	most := 1
	for _, r := range h.Rows {
		for _, v := range r.Values {
			most = max(most, v)
		}
	}
	d.addf(`<table class="heat"><caption class="visually-hidden">%v</caption><thead><tr><th scope="col">%v</th>`, h.Title, h.Head)
	for _, n := range h.Names {
		d.addf(`<th scope="col">%v</th>`, n.Label)
	}
	d.addf(`</tr></thead><tbody>`)
	for _, r := range h.Rows {
		if r.Href != "" {
			d.addf(`<tr><th scope="row"><a class="cut" href="%v">%v</a></th>`, r.Href, r.Label)
		} else {
			d.addf(`<tr><th scope="row"><span class="cut">%v</span></th>`, r.Label)
		}
		for i, v := range r.Values {
			// The logarithm keeps one busy cell from hiding all others.
			shade := int(math.Ceil(shades * math.Log1p(float64(v)) / math.Log1p(float64(most))))
			switch {
			case v == 0:
				d.addf(`<td class="h-0">·</td>`)
			case i < len(r.Hrefs) && r.Hrefs[i] != "":
				d.addf(`<td class="of-%v h-%v"><a href="%v" aria-label="%v">%v</a></td>`, h.Names[i].Name, shade, r.Hrefs[i], r.Label+", "+h.Names[i].Label+": "+trimmed(float64(v), 0), Number(float64(v)))
			default:
				d.addf(`<td class="of-%v h-%v">%v</td>`, h.Names[i].Name, shade, Number(float64(v)))
			}
		}
		d.addf(`</tr>`)
	}
	d.addf(`</tbody></table>`)
	return d.html()
}
