package inbox

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
)

// helpKeys are all keys with what they do; a line without keys is a heading or
// a remark.
var helpKeys = [][2]string{
	{"", "THE LIST"},
	{"up down j k", "move; pgup pgdown, home end or g G"},
	{"enter", "open an approval request"},
	{"/", "filter: words that must all occur, in tool, call, session, agent, approval request or arguments"},
	{"m", "only approval requests that you may answer, or all"},
	{"space", "select for one answer to several"},
	{"b", "answer what is selected, or what is similar: the same tool, asked about by the same rule; each is shown first"},
	{"r", "standing approvals that are in force; d takes one back"},
	{"ctrl+l", "ask the engine again and paint anew"},
	{"q", "leave; approval requests stay open"},
	{"", ""},
	{"", "A QUESTION"},
	{"a", "approve exactly these arguments"},
	{"e", "edit them in $VISUAL or $EDITOR, and approve that; the policy decides about it again"},
	{"r", "reject; what you write is told to the model"},
	{"t", "give the result instead of the tool"},
	{"h", "hand over to somebody else, with a note"},
	{"s", "stand aside, with a note: others answer"},
	{"1 to 9", "remember an offered rule with the approval"},
	{"w", "edit what is remembered: the rules, for which calls, until when, how often, up to what sum"},
	{"0", "remember nothing"},
	{"x", "arguments as a tree, or as they came"},
	{"n p", "the next approval request, the one before"},
	{"space up down", "scroll"},
	{"esc", "back"},
	{"", ""},
	{"", "BEFORE IT IS SENT"},
	{"y", "send; for an approval once its last line was shown. What you see is what the digest binds."},
	{"esc", "back, nothing is sent"},
	{"", ""},
	{"", "Characters that terminals obey, hide or that only look like others are shown by their numbers, such as ‹U+202E›."},
	{"", ""},
	{"", "ctrl+c leaves at once, wherever you are."},
}

// helpLines lays the keys out in two columns.
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

// helpScreen lists the keys.
type helpScreen struct{ scroll scroll }

func (s *helpScreen) holds(message.Key) bool { return false }

func (s *helpScreen) key(m *model, k tea.KeyMsg) tea.Cmd {
	if !s.scroll.key(k.String()) {
		m.pop()
	}
	return nil
}

func (s *helpScreen) view(m *model, w, h int) (title string, body []string, keys string) {
	return "Keys", s.scroll.view(m, nil, helpLines(w), w, h), "space more  any other key: back"
}
