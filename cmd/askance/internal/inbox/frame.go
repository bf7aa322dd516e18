package inbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/internal/asked"
)

// View implements tea.Model.
func (m *model) View() string {
	switch {
	case m.width == 0:
		return "" // the terminal has not said how large it is
	case m.small():
		text := fmt.Sprintf("%dx%d is too small,\n%dx%d is enough.\nq leaves", m.width, m.height, minWidth, minHeight)
		return frame(strings.Split(text, "\n"), m.width, m.height)
	}
	bodyHeight := m.height - 3
	title, body, keys := m.top().view(m, m.width, bodyHeight)
	lines := make([]string, 0, m.height)
	lines = append(lines, m.titleLine(title))
	for i := range bodyHeight {
		if i < len(body) {
			lines = append(lines, body[i])
		} else {
			lines = append(lines, "")
		}
	}
	lines = append(lines, m.status, m.out.Dim(fitKeys(keys, m.width)))
	return frame(lines, m.width, m.height)
}

// frame fits lines into the terminal, so that nothing ever wraps or scrolls.
func frame(lines []string, w, h int) string {
	lines = lines[:min(len(lines), h)]
	for i, l := range lines {
		lines[i] = fit(l, w)
	}
	return strings.Join(lines, "\n")
}

// fit cuts a painted line to w columns.
func fit(line string, w int) string { return ansi.Truncate(line, w, "…") }

// fitKeys leaves out the last of what keys do until the rest fits, but never
// the way out and the way to the help.
func fitKeys(keys string, w int) string {
	all := strings.Split(keys, "  ")
	for i := len(all) - 1; i >= 0 && ansi.StringWidth(strings.Join(all, "  ")) > w; i-- {
		if first, _, _ := strings.Cut(all[i], " "); first != "?" && first != "esc" && first != "q" {
			all = slices.Delete(all, i, i+1)
		}
	}
	return fit(strings.Join(all, "  "), w)
}

// titleLine has the title on the left and the state of the inbox on the right.
func (m *model) titleLine(title string) string {
	right := m.state()
	left := fit(title, max(0, m.width-ansi.StringWidth(right)-2))
	gap := m.width - ansi.StringWidth(left) - ansi.StringWidth(right)
	return m.out.Bold(left) + strings.Repeat(" ", max(1, gap)) + right
}

func (m *model) state() string {
	switch {
	case m.trouble != nil:
		return m.out.Bad("no answer for " + asked.Span(m.now.Sub(m.since)) + ", trying")
	case !m.loaded:
		return m.out.Dim("asking the engine")
	}
	plus := ""
	if m.more {
		plus = "+"
	}
	text := fmt.Sprintf("%d%s open", m.qs.count(), plus)
	if m.sending > 0 {
		text += ", sending"
	}
	return m.out.Good(text)
}
