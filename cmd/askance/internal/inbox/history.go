package inbox

import (
	"context"
	"errors"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// listedHistory is a page of finished calls, and what was asked.
type listedHistory struct {
	words   string
	first   bool // it restarts the list
	request toolcall.ListRequest
	page    toolcall.ListReply
	err     error
}

// historyPage is how many finished calls are asked for at once.
const historyPage = 100

// history has the finished calls that the engine has listed, newest first.
type history struct {
	rows   []*request
	rev    int
	known  bool
	more   bool
	words  string // the filter of the list
	next   toolcall.ListRequest
	asking bool
	err    error
}

// ask asks for finished calls, if the tab is shown and needs some: from the beginning if
// again is set or the filter changed, else the next page.
func (p *history) ask(m *model, again bool) tea.Cmd {
	l := m.list
	words := strings.TrimSpace(l.filter.Value())
	again = again || words != p.words || !p.known
	if l.tab != tabHistory || p.asking || !again && (!p.more || l.row < len(l.rows(m))-1) {
		return nil
	}
	r := p.next
	if again {
		r = toolcall.ListRequest{V: 1, Session: m.cfg.Session, All: true, Phases: []toolcall.Phase{toolcall.PhaseFinished}, Newest: true, Words: words, Limit: historyPage}
	}
	p.asking = true
	return m.inBackground(askWithin, func(ctx context.Context, engine Engine) replyMsg {
		page, err := engine.List(ctx, r)
		if r.Newest && errors.Is(err, message.ErrInvalid) { // an engine of an older version
			r.Newest, r.Words = false, ""
			page, err = engine.List(ctx, r)
		}
		found := listedHistory{words: words, first: again, request: r, page: page, err: err}
		return func(m *model) tea.Cmd { return p.take(m, found) }
	})
}

// take adds a page of finished calls.
func (p *history) take(m *model, r listedHistory) tea.Cmd {
	p.asking, p.err = false, r.err
	if r.err != nil {
		return nil
	}
	if r.first {
		p.rows = nil
	}
	for _, c := range r.page.Calls {
		p.rows = append(p.rows, &request{call: c, over: "finished"})
	}
	p.words, p.known = r.words, true
	p.next, p.more = r.request, r.page.Next != 0
	p.next.After = r.page.Next
	p.rev++
	return p.ask(m, false) // the filter may have changed meanwhile
}

// find returns a call that is open or in the loaded history.
func (m *model) find(k toolcall.Key) *request {
	if q := m.qs.get(k); q != nil {
		return q
	}
	for _, q := range m.list.past.rows {
		if q.call.Key == k {
			return q
		}
	}
	return nil
}
