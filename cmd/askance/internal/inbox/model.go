package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/toolcall"
)

// The smallest screen on which an approval request can be read.
const (
	minWidth  = 40
	minHeight = 10
)

// screen is what the terminal shows, apart from the frame.
type screen interface {
	// key handles a key press.
	key(m *model, k tea.KeyMsg) tea.Cmd
	// view gives the title, the body, whose first lines are shown, and what the keys
	// do. w and h are the body's columns and rows.
	view(m *model, w, h int) (title string, body []string, keys string)
	// holds reports whether the call must be kept while the screen is open.
	holds(k toolcall.Key) bool
}

// model is the program's state. Only the program's loop uses it.
type model struct {
	ctx    context.Context //nolint:containedctx // the life of the program, for what it asks the engine
	cfg    Config
	out    *term.Out
	feed   *feed
	qs     requests
	list   *listScreen
	stack  []screen // above the list
	now    time.Time
	width  int
	height int

	loaded  bool // the engine has answered once
	loading bool // the first list of open calls is not complete
	zones   zones
	trouble error
	since   time.Time             // of the trouble
	status  string                // what happened last, painted
	sending map[toolcall.Key]bool // responses being sent
	edits   map[string]string     // what the person wrote in the editor and did not send, by digest
}

func newModel(ctx context.Context, cfg Config, f *feed) *model {
	return &model{ctx: ctx, cfg: cfg, out: cfg.Out, feed: f, list: newList(), now: time.Now(), loading: true, sending: map[toolcall.Key]bool{}, edits: map[string]string{}}
}

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
		if s, ok := m.top().(alive); ok {
			return m, tea.Batch(tick(), s.tick(m))
		}
		return m, tick()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		return m, m.key(msg)
	case tea.MouseMsg:
		return m, m.mouse(msg)
	case listedMsg:
		m.takeList(msg)
	case sawMsg:
		m.noteAnswer()
		if msg.call == nil {
			m.qs.markGone(msg.key, m.now)
		} else {
			m.qs.take(msg.call, msg.by, m.now)
		}
	case troubleMsg:
		if m.trouble == nil {
			m.since = m.now
		}
		m.trouble = msg.err
	case replyMsg:
		return m, msg(m)
	}
	return m, nil
}

// takeList adds a part of the list of open calls. Calls that are missing on the whole list
// are looked up; if they are very many, only those that a screen shows.
func (m *model) takeList(msg listedMsg) {
	m.noteAnswer()
	if msg.listed != nil {
		m.loading = false
	}
	for i, k := range m.qs.takeList(msg.calls, msg.listed, m.now) {
		if i < manyHints || m.holds(k) || m.list.at == k {
			m.feed.look(k)
		} else {
			m.qs.drop(k)
		}
	}
}

// noteAnswer records that the engine has answered.
func (m *model) noteAnswer() { m.loaded, m.trouble = true, nil }

// holds reports whether a screen still shows an approval request.
func (m *model) holds(k toolcall.Key) bool {
	return m.sending[k] || slices.ContainsFunc(m.stack, func(s screen) bool { return s.holds(k) })
}

func (m *model) top() screen {
	if n := len(m.stack); n > 0 {
		return m.stack[n-1]
	}
	return m.list
}

func (m *model) push(s screen) { m.stack, m.status = append(m.stack, s), "" }

// pop closes the top screen and clears the status.
func (m *model) pop() {
	if n := len(m.stack); n > 0 {
		m.stack, m.status = m.stack[:n-1], ""
	}
}

func (m *model) key(k tea.KeyMsg) tea.Cmd {
	if k.Type == tea.KeyCtrlC {
		return tea.Interrupt
	}
	if m.isSmall() && k.String() == "q" {
		return tea.Quit
	}
	if m.isSmall() {
		return nil // a person who cannot read must not decide
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

// each handles keys that arrived together one by one.
func (m *model) each(runes []rune) tea.Cmd {
	cmds := make([]tea.Cmd, 0, len(runes))
	for _, r := range runes {
		cmds = append(cmds, m.key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}}))
	}
	return tea.Batch(cmds...)
}

// writer is a screen on which keys are text.
type writer interface{ writes() }

func (m *model) isSmall() bool { return m.width < minWidth || m.height < minHeight }

// say shows a status line until the next one.
func (m *model) say(paint func(string) string, format string, args ...any) {
	m.status = paint(reveal.Line(fmt.Sprintf(format, args...)))
}

// replyMsg applies what the engine or the editor answered to the state of the program.
type replyMsg func(m *model) tea.Cmd

// inBackground asks the engine outside the program's loop, which then applies the reply.
func (m *model) inBackground(within time.Duration, f func(context.Context, Engine) replyMsg) tea.Cmd {
	parent, engine := m.ctx, m.cfg.Engine
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(parent, within)
		defer cancel()
		return f(ctx, engine)
	}
}
