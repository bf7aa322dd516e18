package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Limits of a session's timeline.
const (
	eventsBefore = 10_000 // at most read before the call
	eventsAfter  = 10_000 // at most read from the call on
	firstReach   = 20_000 // how many records before the call reading starts
	shownItems   = 150
	shownAfter   = 50   // items after the call's last one
	shownText    = 4000 // bytes of one text

	summarizedCalls = 500 // calls read for their summaries, up to the last item
)

// step is one line of the call's own history.
type step struct {
	What, By, Detail string
	At               time.Time
	Tone             string
}

// stepsOf describes the event records of a call.
func stepsOf(history []toolcall.HistoryEntry) []step {
	var out []step
	for _, h := range history {
		if h.Note != nil {
			out = append(out, step{What: "noted: " + strings.ReplaceAll(h.Note.What, "_", " "), By: h.By.Name, At: h.At, Detail: "nothing changed", Tone: "plain"})
			continue
		}
		var words []string
		tone := "plain"
		for _, s := range h.Path {
			w, t := asked.Step(s.Cause)
			words = append(words, w)
			tone = cmp.Or(t, tone)
		}
		s := step{What: strings.Join(words, ", "), By: asked.Actor(h.By), At: h.At, Tone: tone}
		if h.Worker != "" && (h.By.Role != toolcall.RoleWorker || h.By.Name != h.Worker) {
			s.Detail = "worker " + h.Worker
		}
		out = append(out, s)
	}
	return out
}

// timeline is the history of a session, from its events.
type timeline struct {
	Items    []item
	Earlier  bool   // earlier items are left out
	Later    bool   // later items are left out
	Proposed string // the call's input as the model wrote it; "" if not streamed
	IsHidden bool   // the model streamed the input, and rules hide what
}

type item struct {
	Kind string // text, thinking, call, asked, answered, output, end, user
	Who  string
	Text string
	At   string
	Href string
	Tone string
	This bool // it concerns the call of the page

	Call  toolcall.Key // zero if it concerns no call
	About string       // what the call would do, without the tool
}

// readTimeline reads the events of the session around the call. Other sessions may own most of the
// preceding records, so it starts further back until it has enough.
func readTimeline(ctx context.Context, c engine.Client, call *toolcall.Call) (timeline, error) {
	for reach := uint64(firstReach); ; reach *= 16 {
		t := teller{call: call.Key, runtime: call.Runtime, texts: map[string]int{}, inputs: map[message.CallID]*strings.Builder{}, tools: map[string]string{}}
		start := call.First - min(call.First, reach)
		before, more, err := t.read(ctx, c, call, start)
		if err != nil {
			return timeline{}, err
		}
		if before < eventsBefore && start > 0 {
			continue
		}
		out := t.timeline(call, start > 0, more)
		return out, out.summarize(ctx, c, call.Session)
	}
}

// summarize adds to each item what its call would do.
func (t *timeline) summarize(ctx context.Context, c engine.Client, session message.SessionID) error {
	if !slices.ContainsFunc(t.Items, func(i item) bool { return i.Call != toolcall.Key{} }) {
		return nil
	}
	r := toolcall.ListRequest{V: 1, Session: session, All: true, Sort: "-" + toolcall.SortProposed}
	if last, err := time.Parse(time.RFC3339, t.Items[len(t.Items)-1].At); err == nil && t.Later {
		r.Until = last.Add(time.Minute) // the engine records a call later than its event
	}
	calls, err := engine.ListAll(ctx, c, r, summarizedCalls)
	if err != nil {
		return err
	}
	about := make(map[toolcall.Key]string, len(calls))
	for _, call := range calls {
		about[call.Key] = aboutCall(call.Tool, asked.Title(call))
	}
	for i := range t.Items {
		t.Items[i].About = about[t.Items[i].Call]
	}
	return nil
}

// read turns the events after start into items. It reports how many came before the call, and
// whether there are more.
func (t *teller) read(ctx context.Context, c engine.Client, call *toolcall.Call, start uint64) (before int, more bool, err error) {
	after, from := start, 0
	for from < eventsAfter {
		page, err := c.Events(ctx, toolcall.EventsRequest{V: 1, Session: call.Session, After: after, Limit: 1000})
		if errors.Is(err, message.ErrNotFound) {
			return before, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		for _, e := range page.Events {
			if e.Seq < call.First {
				before++
			} else {
				from++
			}
			if ev, err := message.DecodeEvent(e.Event); err == nil {
				t.tell(ev)
			}
		}
		if page.Next == after {
			return before, false, nil
		}
		after = page.Next
	}
	return before, true, nil
}

// timeline returns the items around those of the call.
func (t *teller) timeline(call *toolcall.Call, earlier, later bool) timeline {
	out := timeline{Items: t.items}
	if b := t.inputs[call.Call]; b != nil && !call.Hides() {
		out.Proposed = b.String()
	}
	out.IsHidden = t.hidden
	last := len(t.items) - 1
	for i := range t.items {
		if t.items[i].This {
			last = i
		}
	}
	to := min(len(t.items), max(last+1+shownAfter, shownItems))
	from := max(0, to-shownItems)
	out.Items, out.Earlier, out.Later = t.items[from:to], earlier || from > 0, later || to < len(t.items)
	return out
}

type teller struct {
	call    toolcall.Key
	runtime string // the authenticated runtime of the session
	agent   string
	hidden  bool // see timeline
	items   []item
	texts   map[string]int // block id: its item
	inputs  map[message.CallID]*strings.Builder
	tools   map[string]string // names by reply and call
}

func (t *teller) add(ev message.Event, i item) {
	i.At = ev.Header().CreatedAt
	t.items = append(t.items, i)
}

func (t *teller) addCall(ev message.Event, id message.CallID, i item) {
	k := t.call
	k.Reply, k.Call = ev.ReplyID(), id
	i.Call, i.This = k, k == t.call
	if !i.This {
		i.Href = address(k, nil)
	}
	t.add(ev, i)
}

func (t *teller) tell(ev message.Event) {
	switch ev := ev.(type) {
	case *message.ReplyStart:
		t.agent = ev.Name
	case *message.TextBlockDelta:
		t.addText(ev, "text", ev.BlockID, ev.Delta)
	case *message.ThinkingBlockDelta:
		t.addText(ev, "thinking", ev.BlockID, ev.Delta)
	case *message.ToolCallStart:
		t.start(ev)
	case *message.ToolCallDelta:
		t.hidden = t.hidden || t.inputs[ev.ToolCallID] != nil && engine.HidesPieces(ev)
		if b := t.inputs[ev.ToolCallID]; b != nil && b.Len() < toolcall.MaxInputBytes {
			b.WriteString(ev.Delta)
		}
	case *message.RequireUserConfirm:
		for _, c := range ev.ToolCalls {
			t.addCall(ev, c.ID, item{Kind: "asked", Who: c.Name, Text: "approval requested for", Tone: "ask"})
		}
	case *message.UserConfirmResult:
		for _, c := range ev.ConfirmResults {
			text, tone := "rejected", "bad"
			if c.Confirmed {
				text, tone = "approved", "good"
			}
			t.addCall(ev, c.ToolCall.ID, item{Kind: "answered", Who: c.ToolCall.Name, Text: text, Tone: tone})
		}
	case *message.ToolResultStart:
		t.tools[callOf(ev, ev.ToolCallID)] = ev.ToolCallName
	case *message.ToolResultTextDelta:
		t.addText(ev, "output", callOf(ev, ev.ToolCallID), ev.Delta)
	case *message.ToolResultEnd:
		tone := "good"
		if ev.State != message.ToolResultSuccess {
			tone = "bad"
		}
		t.addCall(ev, ev.ToolCallID, item{Kind: "end", Who: t.tools[callOf(ev, ev.ToolCallID)], Text: string(ev.State) + ":", Tone: tone})
	case *message.Custom:
		t.addUser(ev)
	case *message.UserInterrupt:
		t.add(ev, item{Kind: "end", Text: "interrupted", Tone: "bad"})
	case *message.ReplyEnd:
		t.add(ev, item{Kind: "end", Who: t.agent, Text: "reply ended", Tone: "plain"})
	default: // not shown
	}
}

func (t *teller) start(ev *message.ToolCallStart) {
	if k := t.call; ev.ReplyID() == k.Reply && ev.ToolCallID == k.Call {
		t.inputs[ev.ToolCallID] = new(strings.Builder)
	}
	t.tools[callOf(ev, ev.ToolCallID)] = ev.ToolCallName
	t.addCall(ev, ev.ToolCallID, item{Kind: "call", Who: ev.ToolCallName, Text: "proposed", Tone: "work"})
}

// addUser adds a person's messages. It shows the runtime of the session as the author, because the
// runtime could invent the name in the record.
func (t *teller) addUser(ev *message.Custom) {
	turn, ok := agent.ParseRecord(ev)
	if !ok {
		return
	}
	for _, m := range turn.Messages {
		t.add(ev, item{Kind: "user", Who: t.runtime, Text: textOf(m), Tone: "ask"})
	}
}

// callOf names a call within the session.
func callOf(ev message.Event, id message.CallID) string {
	return string(ev.ReplyID()) + "\x00" + string(id)
}

func textOf(m *message.Msg) string {
	var b strings.Builder
	for _, block := range m.Content {
		if t, ok := block.(*message.TextBlock); ok && b.Len() < shownText {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// addText extends a streamed text.
func (t *teller) addText(ev message.Event, kind, block, delta string) {
	id := kind + "\x00" + string(ev.ReplyID()) + "\x00" + block
	i, ok := t.texts[id]
	if !ok {
		i = len(t.items)
		t.texts[id] = i
		t.add(ev, item{Kind: kind, Who: t.agent, Tone: "plain"})
	}
	if it := &t.items[i]; len(it.Text) < shownText {
		it.Text += delta
		if len(it.Text) >= shownText {
			it.Text = strings.ToValidUTF8(it.Text[:shownText], "") + " …"
		}
	}
}

// tick is the interval of the event of that name. The script reconnects when the stream has been silent
// for more than twice as long.
const tick = 10 * time.Second

// changed reports that a page may be out of date.
type changed struct {
	ID  string `json:"id"`           // of the call, as domID has it
	Key string `json:"key"`          // of the call, as formKey has it
	Say string `json:"say,omitzero"` // announced when an approval request opens or ends
	New bool   `json:"new,omitzero"` // an approval request opened
	By  string `json:"by,omitzero"`  // who changed it
}

// progressed is a progress line of a running call.
type progressed struct {
	ID   string `json:"id"`
	Line line   `json:"line"`
}

// events streams changes to a page until the reader disconnects or falls behind, its login ends, or
// the server stops. The page reloads once connected, so it misses nothing.
func (in *Console) events(w http.ResponseWriter, r *http.Request, p *gateway.Peer) error {
	if _, err := p.Reader(); err != nil {
		return err
	}
	return gateway.Streaming(r.Context(), w, tick, "tick", func(ctx context.Context, out *gateway.Stream) error {
		ready := func() error { return out.Event("", "ready", []byte("{}")) }
		_ = p.Feeds.Changes(ctx, ready, func(c gateway.Change) error { return in.tell(out, c) }) // its error only ends the stream
		return nil
	})
}

func (in *Console) tell(out *gateway.Stream, c gateway.Change) error {
	if c.Progress != nil {
		l := in.progress.add(*c.Progress)
		return out.JSON("progress", progressed{domID(c.Progress.Key), l})
	}
	ev := changed{ID: domID(c.Call.Key), Key: formKey(c.Call.Key), By: reveal.Name(c.By.Name)}
	switch {
	case c.Call.State == message.ToolCallAsking && c.Call.Request != nil && len(c.Call.Votes) == 0:
		ev.New, ev.Say = true, "New approval request: "+reveal.Line(c.Call.Request.Text)
	case c.Call.State != message.ToolCallAsking && asked.WasAsked(c.Call) && !c.Call.Started():
		ev.Say = reveal.Line(c.Call.Tool + " " + asked.Verdict(c.Call, c.By.Name))
	}
	return out.JSON("changed", ev)
}

var _ gateway.Surface = (*Console)(nil)

// Limits on stored progress.
const (
	keptCalls = 200
	keptLines = 100
)

// line is a progress line with misleading characters made visible.
type line struct {
	Attempt int    `json:"attempt"`
	N       int    `json:"n"`
	Text    string `json:"text"`
}

// progress stores the last lines of running calls for pages opened later. It records only while a
// page is open.
type progress struct {
	mu    sync.Mutex // guards what follows
	lines map[toolcall.Key][]line
	order []toolcall.Key // oldest first
}

// add stores a line once, even though every stream adds it.
func (p *progress) add(r toolcall.ProgressRequest) line {
	l := line{Attempt: r.Attempt, N: r.N, Text: reveal.Text(r.Text)}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, known := p.lines[r.Key]
	if slices.ContainsFunc(all, func(o line) bool { return o.Attempt == l.Attempt && o.N == l.N }) {
		return l
	}
	if !known {
		p.order = append(p.order, r.Key)
		if len(p.order) > keptCalls {
			delete(p.lines, p.order[0])
			p.order = p.order[1:]
		}
	}
	all = append(all, l)
	if len(all) > keptLines {
		all = all[1:]
	}
	p.lines[r.Key] = slices.Clip(all)
	return l
}

func (p *progress) linesOf(k toolcall.Key) []line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines[k])
}
