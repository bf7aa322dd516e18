package console

import (
	"html/template"
	"strings"
)

// icons are the SVG paths of the icons, for a 1.8 wide stroke in a 24 by 24 box.
var icons = map[string]string{
	"overview": "M3 12h4l3-8 4 16 3-8h4",
	"inbox":    "M3 13h5l1.5 3h5L16 13h5M3 13l3-8h12l3 8v6H3z",
	"workers":  "M4 4h16v6H4zM4 14h16v6H4zM8 7h.01M8 17h.01M12 7h4M12 17h4",
	"history":  "M3.5 12a8.5 8.5 0 1 0 2.600-6.100M3.5 4v4h4M12 7.5V12l3 2",
	"audit":    "M12 3l7.5 3v5.5c0 4.5-3 7.800-7.5 9.5-4.5-1.700-7.5-5-7.5-9.5V6zM8.800 12l2.300 2.300 4.200-4.5",
	"insights": "M4 20V4M4 20h16M8.5 16v-4M13 16V8M17.5 16v-6",
	"policy":   "M6 3h8.5L19 7.5V21H6zM14 3v5h5M9 12.5h7M9 16.5h5",
	"standing": "M8.5 14.5a4.5 4.5 0 1 1 3.700-2L21 12.5M17.5 12.5v3.5M20.5 12.5v2.5",
	"timeline": "M4 6h8M8 12h9M13 18h7M4 3v18",
	"search":   "M10.5 17.5a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM15.600 15.600 20.5 20.5",
	"moon":     "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
	"keyboard": "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M17.5 10h.01M8 14h8",
	"book":     "M5 4.5A1.5 1.5 0 0 1 6.5 3H19v15H6.5A1.5 1.5 0 0 0 5 19.5zM5 19.5A1.5 1.5 0 0 0 6.5 21H19v-3",
	"logout":   "M10 4H5v16h5M14.5 8l4 4-4 4M18.5 12H10",
	"more":     "M4 7h16M4 12h16M4 17h16",
	"check":    "M5 12.5l4.5 4.5L19 7.5",
	"cross":    "M6 6l12 12M18 6L6 18",
	"clock":    "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7.5V12l3 2",
	"alert":    "M12 4l9 16H3zM12 10v4.5M12 17.5h.01",
	"call":     "M5 5h14v10H9l-4 4z",
	"download": "M12 4v11M7.5 11l4.5 4.5 4.5-4.5M4 20h16",
	"play":     "M7 4.5v15l12-7.5z",
	"user":     "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20.5c.8-4 3.600-6 7.5-6s6.700 2 7.5 6",
	"tool":     "M14.5 6.5a4 4 0 0 1 5-1L17 8l1 2 2.800-2.300a4 4 0 0 1-5.300 5L8 20l-3-3 7.5-7.300a4 4 0 0 1 2-3.200z",
}

// icon renders an icon. Icons are decoration: the text next to each names it.
func icon(name string) template.HTML {
	var b strings.Builder
	b.WriteString(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d="`)
	b.WriteString(template.HTMLEscapeString(icons[name]))
	b.WriteString(`"/></svg>`)
	return template.HTML(b.String()) //nolint:gosec // the paths are ours
}
