package inbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

// The smallest screen on which a question can be read.
const (
	minWidth  = 40
	minHeight = 10
)

// screen is one of the things that can be on the terminal.
type screen interface {
	// key is told of a key that was pressed.
	key(m *model, k tea.KeyMsg) tea.Cmd
	// view gives the title, the body in lines of any number, of which the first
	// are shown, and what the keys do. w and h are the body's columns and rows.
	view(m *model, w, h int) (title string, body []string, keys string)
	// holds is the question that must stay at hand while the screen is there.
	holds(k message.Key) bool
}

// model is the program's state. All of it belongs to the program's loop.
type model struct {
	ctx    context.Context //nolint:containedctx // the life of the program, for what it asks the engine
	cfg    Config
	out    *term.Out
	feed   *feed
	qs     questions
	list   *listScreen
	stack  []screen // above the list
	now    time.Time
	width  int
	height int

	loaded  bool // the engine has answered once
	more    bool // there are more questions than are kept
	trouble error
	since   time.Time // of the trouble
	status  string    // what happened last, painted
	sending int       // answers under way
}

func newModel(ctx context.Context, cfg Config, f *feed) *model {
	return &model{ctx: ctx, cfg: cfg, out: cfg.Out, feed: f, list: newList(), now: time.Now()}
}

// tickMsg moves the clock.
type tickMsg time.Time

func tick() tea.Cmd {
	return tea.Tick(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) })
}

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		m.now = time.Time(msg)
		m.qs.sweep(m.now, m.holds)
		return m, tick()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		return m, m.key(msg)
	case listedMsg:
		m.answers()
		m.more = !msg.complete
		for _, k := range m.qs.listed(msg.calls, msg.complete, m.now) {
			m.feed.look(k)
		}
	case sawMsg:
		m.answers()
		if msg.call == nil {
			m.qs.unknown(msg.key, m.now)
		} else {
			m.qs.take(msg.call, msg.by, m.now)
		}
	case troubleMsg:
		if m.trouble == nil {
			m.since = m.now
		}
		m.trouble = msg.err
	case sentMsg:
		return m, m.sent(msg)
	case editedMsg:
		return m, m.edited(msg)
	}
	return m, nil
}

// answers notes that the engine has answered.
func (m *model) answers() { m.loaded, m.trouble = true, nil }

// holds reports whether a screen still shows a question.
func (m *model) holds(k message.Key) bool {
	for _, s := range m.stack {
		if s.holds(k) {
			return true
		}
	}
	return false
}

// top is the screen that is shown.
func (m *model) top() screen {
	if n := len(m.stack); n > 0 {
		return m.stack[n-1]
	}
	return m.list
}

func (m *model) push(s screen) { m.stack, m.status = append(m.stack, s), "" }

// pop leaves the screen that is shown.
func (m *model) pop() {
	if n := len(m.stack); n > 0 {
		m.stack = m.stack[:n-1]
	}
}

// key gives a key to the screen that is shown.
func (m *model) key(k tea.KeyMsg) tea.Cmd {
	if k.Type == tea.KeyCtrlC || m.small() && k.String() == "q" {
		return tea.Quit
	}
	if m.small() {
		return nil // whoever cannot read must not decide
	}
	s := m.top()
	_, writes := s.(writer)
	if l, ok := s.(*listScreen); ok {
		writes = l.typing
	}
	switch {
	case k.Alt && (!writes || k.Type == tea.KeyEsc): // esc and a key that arrived together
		k.Alt = false
		return tea.Sequence(m.key(tea.KeyMsg{Type: tea.KeyEsc}), m.key(k))
	case writes:
	case k.Paste: // keys decide; what was pasted by mistake must not
		return nil
	case k.Type == tea.KeyRunes && len(k.Runes) > 1: // typed fast, or a slow line
		return m.each(k.Runes)
	case k.String() == "?":
		if _, open := s.(*helpScreen); !open {
			m.push(&helpScreen{})
			return nil
		}
	}
	return s.key(m, k)
}

// each gives keys that arrived together one by one.
func (m *model) each(runes []rune) tea.Cmd {
	cmds := make([]tea.Cmd, 0, len(runes))
	for _, r := range runes {
		cmds = append(cmds, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}))
	}
	return tea.Batch(cmds...)
}

// writer is a screen on which keys are letters.
type writer interface{ writes() }

func (m *model) small() bool { return m.width < minWidth || m.height < minHeight }

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
	lines = append(lines, m.status, m.out.Dim(fit(keys, m.width)))
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

// say shows what happened, until the next thing does.
func (m *model) say(paint func(string) string, format string, args ...any) {
	m.status = paint(reveal.Line(fmt.Sprintf(format, args...)))
}
