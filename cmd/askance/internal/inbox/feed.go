package inbox

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Engine is the part of engine.Client that the inbox uses.
type Engine interface {
	List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error)
	Show(ctx context.Context, r toolcall.ShowRequest) (toolcall.ShowReply, error)
	SubmitResponse(ctx context.Context, r toolcall.Response) (*toolcall.Call, error)
	StandingApprovals(ctx context.Context, r toolcall.StandingApprovalsRequest) (toolcall.StandingApprovalsReply, error)
	ShowStandingApproval(ctx context.Context, r toolcall.ShowStandingApprovalRequest) (toolcall.ShowStandingApprovalReply, error)
	Explain(ctx context.Context, r toolcall.ExplainRequest) (toolcall.ExplainReply, error)
	RevokeStandingApproval(ctx context.Context, r toolcall.RevokeStandingApprovalRequest) (*toolcall.StandingApproval, error)
}

// Preview asks what an edit would do, without sending it.
type Preview func(ctx context.Context, r api.PreviewRequest) (api.PreviewReply, error)

// Hints subscribes to changes of approval requests: f is called for each that opens,
// changes or closes, until stop is called. Hints may be lost.
type Hints func(ctx context.Context, f func(k toolcall.Key, asking bool)) (stop func(), err error)

const (
	// every is how often the changes are listed, hints or not. If a list takes long, it is
	// read less often, for at most a tenth of the time.
	every = 3 * time.Second
	// again is the pause after a query that the engine did not answer.
	again = time.Second
	// gather is how long a hint waits for others.
	gather = 40 * time.Millisecond
	// More hints than manyHints at once lead to one list.
	manyHints = 16
	askWithin = 3 * time.Second
	// maxListed bounds the standing approvals that are shown.
	maxListed = 2000
)

type (
	// listedMsg has a page of the open calls that changed. The last page of a whole list has
	// listed, the keys of all its pages.
	listedMsg struct {
		calls  []*toolcall.Call
		listed map[toolcall.Key]bool
	}
	// sawMsg has the current state of one call; nil if there is no such call.
	sawMsg struct {
		key  toolcall.Key
		call *toolcall.Call
		by   string // who changed it last
	}
	// troubleMsg says that the engine does not answer: what is shown may be old.
	troubleMsg struct{ err error }
)

// feed reads changes from the engine. Only its goroutine may call post.
type feed struct {
	engine  Engine
	hints   Hints
	session message.SessionID
	post    func(tea.Msg)

	news  chan toolcall.Key // calls to look up
	whole chan struct{}     // requests to read the whole list

	// Only run uses these.
	pause   time.Duration                   // until the list is read again
	open    map[toolcall.Key]toolcall.Phase // of calls that were open when they were last seen; nil: not listed yet
	through uint64                          // every change up to this sequence is known
	off     bool                            // the last count differed from the known calls
}

func newFeed(cfg Config, post func(tea.Msg)) *feed {
	return &feed{engine: cfg.Engine, hints: cfg.Hints, session: cfg.Session, post: post, news: make(chan toolcall.Key, 256), whole: make(chan struct{}, 1)}
}

// look asks for the current state of a call. It does not block.
func (f *feed) look(k toolcall.Key) {
	select {
	case f.news <- k:
	default: // too many: the whole list has it
		f.refresh()
	}
}

// refresh asks for the whole list. It does not block.
func (f *feed) refresh() {
	select {
	case f.whole <- struct{}{}:
	default: // already requested
	}
}

// run reads changes until ctx ends.
func (f *feed) run(ctx context.Context) {
	stop := f.subscribe(ctx)
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case k := <-f.news:
			err = f.see(ctx, Gather(ctx, k, f.news, gather))
		case <-f.whole:
			f.open = nil
			err = f.list(ctx)
			timer.Reset(f.pause)
		case <-timer.C:
			err = f.list(ctx)
			timer.Reset(f.pause)
		}
		if err != nil && ctx.Err() == nil {
			f.post(troubleMsg{err})
			timer.Reset(again)
		}
	}
}

// subscribe listens for hints. Without them, only the list shows changes.
func (f *feed) subscribe(ctx context.Context) (stop func()) {
	if f.hints == nil {
		return func() {}
	}
	stop, err := f.hints(ctx, func(k toolcall.Key, _ bool) {
		if f.session == "" || k.Session == f.session {
			f.look(k)
		}
	})
	if err != nil {
		f.post(troubleMsg{err})
		return func() {}
	}
	return stop
}

// Gather returns the calls of hints that arrive within a time of the first, each once; nil
// if ctx ends.
func Gather(ctx context.Context, first toolcall.Key, news <-chan toolcall.Key, within time.Duration) []toolcall.Key {
	keys, seen := []toolcall.Key{first}, map[toolcall.Key]bool{first: true}
	t := time.After(within)
	for {
		select {
		case k := <-news:
			if !seen[k] {
				keys, seen[k] = append(keys, k), true
			}
		case <-t:
			return keys
		case <-ctx.Done():
			return nil
		}
	}
}

// see reads calls one by one. If they are many, it reads the list first, and calls that
// are missing on it are looked up later.
func (f *feed) see(ctx context.Context, keys []toolcall.Key) error {
	if len(keys) > manyHints {
		if err := f.list(ctx); err != nil {
			return err
		}
	}
	for i, k := range keys {
		if i >= manyHints {
			return nil // the next list has them
		}
		if err := f.show(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (f *feed) show(ctx context.Context, k toolcall.Key) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	r, err := f.engine.Show(ctx, toolcall.ShowRequest{V: 1, Key: k})
	if errors.Is(err, message.ErrNotFound) {
		delete(f.open, k)
		f.post(sawMsg{key: k})
		return nil
	}
	if err != nil {
		return err
	}
	by := ""
	if n := len(r.History); n > 0 {
		by = r.History[n-1].By.Name
	}
	f.note(r.Call)
	f.post(sawMsg{k, r.Call, by})
	return nil
}

// note records whether a call is open, once the open calls are known.
func (f *feed) note(c *toolcall.Call) {
	switch {
	case f.open == nil:
	case c.Open():
		f.open[c.Key] = c.Phase()
	default:
		delete(f.open, c.Key)
	}
}

// list reads the calls that changed since the last list, and posts each page as it comes.
// It reads all calls if open is nil, at the start and after changes were missed.
func (f *feed) list(ctx context.Context) error {
	begin := time.Now()
	defer func() { f.pause = max(every, 10*time.Since(begin)) }()
	all := f.open == nil
	if all {
		f.through, f.off = 0, false
	}
	open := map[toolcall.Key]toolcall.Phase{}
	r := toolcall.ListRequest{V: 1, Session: f.session, Sort: toolcall.SortChanged, After: f.through, All: !all && f.session == ""}
	for {
		page, err := f.page(ctx, r)
		if err != nil {
			return err
		}
		for _, c := range page.Calls {
			open[c.Key], r.After = c.Phase(), c.Seq
			f.note(c)
		}
		if page.Next != 0 {
			f.post(listedMsg{page.Calls, nil})
			continue
		}
		var listed map[toolcall.Key]bool
		if all {
			f.open, listed = open, map[toolcall.Key]bool{}
			for k := range open {
				listed[k] = true
			}
		}
		f.post(listedMsg{page.Calls, listed})
		f.through = r.After
		f.compare(page.Counts)
		return nil
	}
}

// compare makes the next list read all calls if the engine's count differs from the known
// calls twice in a row: the first time, changes may be on their way.
func (f *feed) compare(counts map[toolcall.Phase]int) {
	known := map[toolcall.Phase]int{}
	for _, phase := range f.open {
		known[phase]++
	}
	counts = maps.Clone(counts)
	delete(counts, toolcall.PhaseFinished)
	was := f.off
	if f.off = !maps.Equal(counts, known); f.off && was {
		f.open = nil
	}
}

func (f *feed) page(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return f.engine.List(ctx, r)
}

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
func (h *history) ask(m *model, again bool) tea.Cmd {
	l := m.list
	words := strings.TrimSpace(l.filter.Value())
	again = again || words != h.words || !h.known
	if l.tab != tabHistory || h.asking || !again && (!h.more || l.row < len(l.rows(m))-1) {
		return nil
	}
	r := h.next
	if again {
		r = toolcall.ListRequest{V: 1, Session: m.cfg.Session, All: true, Phases: []toolcall.Phase{toolcall.PhaseFinished}, Newest: true, Words: words, Limit: historyPage}
	}
	h.asking = true
	return m.inBackground(askWithin, func(ctx context.Context, engine Engine) replyMsg {
		page, err := engine.List(ctx, r)
		found := listedHistory{words: words, first: again, request: r, page: page, err: err}
		return func(m *model) tea.Cmd { return h.take(m, found) }
	})
}

// take adds a page of finished calls.
func (h *history) take(m *model, r listedHistory) tea.Cmd {
	h.asking, h.err = false, r.err
	if r.err != nil {
		return nil
	}
	if r.first {
		h.rows = nil
	}
	for _, c := range r.page.Calls {
		h.rows = append(h.rows, &request{call: c, over: "finished"})
	}
	h.words, h.known = r.words, true
	h.next, h.more = r.request, r.page.Next != 0
	h.next.After = r.page.Next
	h.rev++
	return h.ask(m, false) // the filter may have changed meanwhile
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
