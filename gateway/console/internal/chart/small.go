package chart

import (
	"cmp"
	"html/template"
	"math"
	"strings"
)

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
