package main

import (
	"fmt"
	"html"
	"strings"
)

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
