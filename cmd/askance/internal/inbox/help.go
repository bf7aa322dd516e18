package inbox

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/toolcall"
)

// helpKeys are all keys and their effect; a line without keys is a heading or a note.
var helpKeys = [][2]string{
	{"", "LIST"},
	{"up down j k", "move; pgup pgdown, home end or g G"},
	{"enter", "open a request"},
	{"/", "filter by words, which must all occur in tool, call, session, agent, request or arguments"},
	{"m", "only requests that you can respond to, or all"},
	{"space", "select for one response to several requests"},
	{"b", "respond to the selected requests, or to similar ones: the same tool and the same rule; you review each one first"},
	{"r", "standing approvals; d revokes one"},
	{"ctrl+l", "reload and redraw"},
	{"q", "quit; requests stay open"},
	{"", ""},
	{"", "REQUEST"},
	{"a", "approve exactly these arguments"},
	{"e", "edit the arguments in $VISUAL or $EDITOR and approve them; the policy decides again"},
	{"r", "reject, with feedback for the model"},
	{"t", "respond: supply the result instead of the tool"},
	{"h", "delegate to another person, with a note"},
	{"s", "skip, with a note: other approvers decide"},
	{"1 to 9", "add an offered rule as a standing approval"},
	{"w", "edit the standing approval: rules, scope, end, number of calls, budget"},
	{"0", "remove the standing approval"},
	{"x", "arguments as a tree or raw"},
	{"i", "explain how the policy decided, rule by rule"},
	{"n p", "next, previous request"},
	{"space up down", "scroll"},
	{"esc", "back"},
	{"", ""},
	{"", "CONFIRMATION"},
	{"y", "send; an approval only after its last line was shown. The digest covers exactly what you see."},
	{"esc", "back, without sending"},
	{"", ""},
	{"", "Characters that control the terminal, are invisible, or look like others are shown by number, such as ‹U+202E›."},
	{"", ""},
	{"", "ctrl+c quits at once."},
}

func helpLines(w int) []string {
	const column = 16
	var out []string
	for _, k := range helpKeys {
		if k[0] == "" {
			out = append(out, wrap(k[1], w)...)
			continue
		}
		label := k[0]
		for _, piece := range wrap(k[1], max(12, w-column-2)) {
			out = append(out, "  "+cell(label, column)+piece)
			label = ""
		}
	}
	return out
}

type helpScreen struct{ scroll scroll }

func (s *helpScreen) holds(toolcall.Key) bool { return false }

func (s *helpScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	if !s.scroll.key(k.String()) {
		m.pop()
	}
	return nil
}

func (s *helpScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	return "Keys", s.scroll.view(m, nil, helpLines(w), w, h), "space more  any other key: back"
}
