package inbox

import (
	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/toolcall"
)

// helpKeys lists all keys and their effect; a line without keys is a heading or a note.
var helpKeys = [][2]string{
	{"", "LISTS"},
	{"1 to 4, tab", "open requests, running calls, blocked calls, history; also [ ] and shift+tab"},
	{"up down j k", "move; pgup pgdown, home end or g G"},
	{"enter", "open a call"},
	{"/", "filter by words, which must all occur in summary, tool, call, session, agent, request or arguments; every action stays within the filter"},
	{"m", "only requests that you can respond to, or all"},
	{"o O", "next order (deadline, newest, oldest, tool, agent), reverse it"},
	{"v", "group by tool, agent or session, or not"},
	{"J K", "scroll the preview"},
	{"space *", "select a request, or all on the list"},
	{"a r", "with a selection: approve or reject all of it"},
	{"b", "one response to the selected requests, or to similar ones: the same tool and the same rule"},
	{"R", "standing approvals; d revokes one"},
	{"esc", "clear the filter and the selection"},
	{"ctrl+l", "reload and redraw"},
	{"q", "quit; requests stay open"},
	{"", ""},
	{"", "A REQUEST, ALSO FROM THE LIST"},
	{"a", "approve exactly these arguments"},
	{"e", "edit the arguments in $VISUAL or $EDITOR and approve them; the policy decides again"},
	{"r", "reject, with feedback for the model"},
	{"t", "respond: supply the result instead of the tool"},
	{"h", "delegate to another person, with a note"},
	{"s", "skip, with a note: other approvers decide"},
	{"r", "on a blocked or external call: resolve it, as an operator"},
	{"i", "explain how the policy decided, rule by rule"},
	{"w", "edit the standing approval: rules, scope, end, number of calls, budget"},
	{"", ""},
	{"", "IN AN OPENED REQUEST"},
	{"1 to 9", "add an offered rule as a standing approval"},
	{"0", "remove the standing approval"},
	{"x", "arguments as a tree or raw"},
	{"n p", "next, previous call on the list"},
	{"space up down", "scroll"},
	{"esc", "back"},
	{"", ""},
	{"", "CONFIRMATION"},
	{"y", "send; an approval only after the last line was shown. The digest covers exactly what you see."},
	{"Y", "send, and open the next request"},
	{"x", "also show the signed request"},
	{"esc", "back, without sending"},
	{"", ""},
	{"", "ONE RESPONSE TO SEVERAL"},
	{"y r", "approve, reject all that are included"},
	{"space", "exclude or include a request"},
	{"enter", "review a request"},
	{"", ""},
	{"", "MOUSE"},
	{"click", "choose a tab or a row; a click on the selected row opens it"},
	{"wheel", "move, or scroll the preview under the pointer; shift and drag selects text"},
	{"", ""},
	{"", "! after a time: at most 5 minutes are left. Such times are red, those below 30 minutes yellow."},
	{"", "Characters that control the terminal, are invisible, or look like others are shown by number, such as ‹U+202E›."},
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
