package inbox

import (
	_ "embed"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/toolcall"
)

// helpKeys lists all keys and their effect, after a tab; a line without a tab is a heading or a note.
//
//go:embed help.txt
var helpKeys string

func helpLines(w int) []string {
	const column = 16
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(helpKeys, "\n"), "\n") {
		label, effect, isKey := strings.Cut(line, "\t")
		if !isKey {
			out = append(out, wrap(line, w)...)
			continue
		}
		for _, piece := range wrap(effect, max(12, w-column-2)) {
			out = append(out, "  "+cell(label, column)+piece)
			label = ""
		}
	}
	return out
}

type helpScreen struct{ scroll }

func (s *helpScreen) holds(toolcall.Key) bool { return false }

func (s *helpScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	if !s.scroll.key(k.String()) {
		m.pop()
	}
	return nil
}

func (s *helpScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	return "Keys", s.scroll.view(m, nil, helpLines(w), h), "space more  any other key: back"
}
