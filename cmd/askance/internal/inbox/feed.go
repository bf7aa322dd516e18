package inbox

import (
	"context"
	"errors"
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Engine is what the inbox asks and tells. engine.Client has it.
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

// Hints subscribes to what happens to approval requests: f is called for each that
// opens, changes or closes, until stop is called. Hints may be lost.
type Hints func(ctx context.Context, f func(k toolcall.Key, asking bool)) (stop func(), err error)

const (
	// every is how often the list is asked for, hints or not. A list that takes long is asked
	// for less often: at most a tenth of the time goes into it.
	every = 3 * time.Second
	// again is the pause after an approval request that the engine did not answer.
	again = time.Second
	// gather is how long a hint waits for others.
	gather = 40 * time.Millisecond
	// manyHints at once are answered by one list.
	manyHints = 16
	askWithin = 3 * time.Second
	// maxListed bounds the standing approvals that are shown.
	maxListed = 2000
)

// The messages of the feed.
type (
	// listedMsg has a page of the open calls. With the last page comes listed, the keys of all
	// pages.
	listedMsg struct {
		calls  []*toolcall.Call
		listed map[toolcall.Key]bool
	}
	// sawMsg has one call as it stands; nil if there is no such call.
	sawMsg struct {
		key  toolcall.Key
		call *toolcall.Call
		by   string // who moved it last
	}
	// troubleMsg: the engine does not answer; what is shown may be old.
	troubleMsg struct{ err error }
)

// feed asks the engine. post may be called from its goroutine only.
type feed struct {
	engine  Engine
	hints   Hints
	session message.SessionID
	post    func(tea.Msg)

	news  chan toolcall.Key // hinted at, or to be looked at
	whole chan struct{}     // ask for the list
	pause time.Duration     // until the list is asked for again; belongs to run
}

func newFeed(cfg Config, post func(tea.Msg)) *feed {
	return &feed{engine: cfg.Engine, hints: cfg.Hints, session: cfg.Session, post: post, news: make(chan toolcall.Key, 256), whole: make(chan struct{}, 1)}
}

// look asks what became of a call. It does not block.
func (f *feed) look(k toolcall.Key) {
	select {
	case f.news <- k:
	default: // so many: the list says it as well
		f.refresh()
	}
}

// refresh asks for the list. It does not block.
func (f *feed) refresh() {
	select {
	case f.whole <- struct{}{}:
	default: // it is being asked for
	}
}

// run feeds until ctx ends.
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
			err = f.see(ctx, f.others(ctx, k))
		case <-f.whole:
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

// subscribe listens for hints. Without them the list alone has to do.
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

// others gathers what is hinted at within a moment, each call once.
func (f *feed) others(ctx context.Context, first toolcall.Key) []toolcall.Key {
	keys, seen := []toolcall.Key{first}, map[toolcall.Key]bool{first: true}
	t := time.NewTimer(gather)
	defer t.Stop()
	for {
		select {
		case k := <-f.news:
			if !seen[k] {
				keys, seen[k] = append(keys, k), true
			}
		case <-t.C:
			return keys
		case <-ctx.Done():
			return nil
		}
	}
}

// see looks at calls one by one, or at the list if they are many; the list
// leads to looks at those that are not on it.
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
	f.post(sawMsg{k, r.Call, by})
	return nil
}

// list asks for the open calls page by page, and posts each page as it comes.
func (f *feed) list(ctx context.Context) error {
	begin := time.Now()
	defer func() { f.pause = max(every, 10*time.Since(begin)) }()
	listed := map[toolcall.Key]bool{}
	r := toolcall.ListRequest{V: 1, Session: f.session}
	for {
		page, err := f.page(ctx, r)
		if err != nil {
			return err
		}
		for _, c := range page.Calls {
			listed[c.Key] = true
		}
		if page.Next == 0 {
			f.post(listedMsg{page.Calls, listed})
			return nil
		}
		f.post(listedMsg{page.Calls, nil})
		r.After = page.Next
	}
}

func (f *feed) page(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return f.engine.List(ctx, r)
}
