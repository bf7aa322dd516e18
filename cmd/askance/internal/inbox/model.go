// Package inbox is the terminal inbox: it shows the open approval requests of a
// space and sends the responses of one person.
//
// Run shows it until the person quits. Hints announce changes, queries read the
// state, and a clock moves the times. A lost hint costs seconds, never
// correctness: the inbox reads the list every few seconds, and asks the engine
// about a request before it removes the request from the screen.
//
// # Digest
//
// A response names the digest of the request on the screen. The inbox computes
// the digest from what it shows, and refuses to send if the engine named another
// one. It sends an approval only after the last line of the confirmation was on the
// screen. The engine refuses a response to a request that changed or that another
// person decided.
//
// # Lists
//
// Open calls are kept in memory, so that every tab, its counter and every action see the
// same rows: the filter, the order and the groups apply to all of them. Finished calls
// are asked for page by page.
//
// # Standing approvals
//
// A person can select offered rules, edit them, and limit the standing approval by
// scope, end, uses and budget. The confirmation shows exactly what is sent. A
// separate list shows and revokes standing approvals.
//
// # Safe output
//
// All text of agents, tools and other people passes through package reveal, which
// shows control sequences and deceptive characters by number. The editor gets such
// characters as JSON escapes.
//
// # Parts
//
// requests is the state, without side effects. feed updates it from its own
// goroutines, which send messages to the program's loop. Each screen (list, detail,
// terms, compose, confirm, bulk, resolve, standing approvals, explanation, help) is a type with an
// update and a view, on a stack. Everything except the feed runs on one goroutine.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/child"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
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
}

// holder is a screen about calls, which must be kept while it is open.
type holder interface{ holds(k toolcall.Key) bool }

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

func (m *model) Init() tea.Cmd { return tick() }

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		m.now = time.Time(msg)
		m.qs.sweep(m.now, m.holds)
		if s, ok := m.top().(alive); ok && s.isDue(m.now) {
			return m, tea.Batch(tick(), s.ask(m))
		}
		return m, tick()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyMsg:
		return m, m.key(msg)
	case tea.MouseMsg:
		return m, m.mouse(msg)
	case tea.ResumeMsg:
		m.feed.refresh()
		return m, tea.EnableMouseCellMotion
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
	return m.sending[k] || slices.ContainsFunc(m.stack, func(s screen) bool { h, ok := s.(holder); return ok && h.holds(k) })
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
	if k.Type == tea.KeyCtrlZ {
		if child.IsJob() {
			return tea.Suspend
		}
		m.say(m.out.Dim, "No shell can continue the inbox here. Leave it with q; requests stay open.")
		return nil
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

// span is a range of columns, without the column to.
type span struct{ from, to int }

// zones records where the last view drew what can be clicked.
type zones struct {
	tabs      []span
	tabsAt    int            // line of the tabs
	rows      []toolcall.Key // of the lines that are shown; a heading has none
	rowsAt    int            // line of the first one
	listWidth int
}

// wheelRows is how many rows a turn of the wheel moves.
const wheelRows = 3

// mouse handles a mouse event. It never sends a response.
func (m *model) mouse(e tea.MouseMsg) tea.Cmd {
	if m.isSmall() {
		return nil
	}
	step := 0
	switch {
	case e.Button == tea.MouseButtonWheelUp:
		step = -wheelRows
	case e.Button == tea.MouseButtonWheelDown:
		step = wheelRows
	case e.Button != tea.MouseButtonLeft || e.Action != tea.MouseActionPress:
		return nil
	}
	l, ok := m.top().(*listScreen)
	switch {
	case ok && step != 0:
		return l.wheel(m, step, e)
	case ok:
		return l.click(m, e)
	case step != 0:
		if s, ok := m.top().(scroller); ok {
			s.by(step)
		}
	}
	return nil
}

type scroller interface{ by(lines int) }

// wheel moves the selection, or the preview that the pointer is on.
func (l *listScreen) wheel(m *model, step int, e tea.MouseMsg) tea.Cmd {
	onList := e.X < m.zones.listWidth && e.Y < m.zones.rowsAt+l.page+1
	if !onList && l.preview != nil {
		l.preview.scroll.by(step)
		return nil
	}
	rows := l.rows(m)
	l.resolve(rows)
	l.touched = true
	l.move(len(rows), step, keyOf(rows))
	return l.past.ask(m, false)
}

// click chooses a tab or a row; a click on the selected row opens it.
func (l *listScreen) click(m *model, e tea.MouseMsg) tea.Cmd {
	if e.Y == m.zones.tabsAt {
		for i, s := range m.zones.tabs {
			if e.X >= s.from && e.X < s.to {
				return l.show(m, tab(i))
			}
		}
		return nil
	}
	i := e.Y - m.zones.rowsAt
	if e.X >= m.zones.listWidth || i < 0 || i >= len(m.zones.rows) {
		return nil
	}
	q := m.find(m.zones.rows[i])
	if q == nil {
		return nil
	}
	if q.call.Key == l.at && l.touched {
		m.push(newDetail(q))
		return nil
	}
	l.at, l.touched = q.call.Key, true
	l.resolve(l.rows(m))
	return nil
}

// Config says whose inbox it is. Engine, Who, In and Out are required.
type Config struct {
	Engine Engine
	Hints  Hints // nil: the inbox only reads the list every few seconds
	// Preview decides about an edit before it is sent; nil: edits have no preview.
	Preview Preview
	// Resolve resolves a blocked call; nil: the person cannot resolve calls.
	Resolve Resolve
	// Who responds, as the engine knows them.
	Who string
	// Session, if set, is the only session that is shown.
	Session message.SessionID
	// Editor is the command that opens a file for editing.
	Editor []string
	// Signer signs approvals; nil: they go unsigned.
	Signer *Signer
	// In and Out are a terminal.
	In  io.Reader
	Out *term.Out
}

// ErrInterrupted says that the person left with ctrl+c.
var ErrInterrupted = tea.ErrInterrupted

// Run shows the inbox until the person leaves or ctx ends. It returns the cause of
// ctx if that ended, and ErrInterrupted after ctrl+c.
func Run(ctx context.Context, cfg Config) error {
	feeding, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	var p *tea.Program
	f := newFeed(cfg, func(m tea.Msg) { p.Send(m) })
	p = tea.NewProgram(newModel(feeding, cfg, f),
		tea.WithContext(ctx), tea.WithAltScreen(), tea.WithMouseCellMotion(), tea.WithInput(cfg.In), tea.WithOutput(cfg.Out.Writer), tea.WithoutSignalHandler())
	wg.Go(func() { f.run(feeding) })
	_, err := p.Run()
	if ctx.Err() != nil && (err == nil || errors.Is(err, tea.ErrProgramKilled)) {
		return context.Cause(ctx)
	}
	return err
}
