package console

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Bounds of a session's timeline.
const (
	readEvents = 20_000
	shownItems = 150
	shownText  = 4000 // bytes of one text
)

// step is one line of the call's own history.
type step struct {
	What, By, Detail string
	At               time.Time
	Tone             string
}

// stepsOf words the event records of a call.
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
			if t != "" {
				tone = t
			}
		}
		s := step{What: strings.Join(words, ", "), By: asked.Actor(h.By), At: h.At, Tone: tone}
		if h.Worker != "" && (h.By.Role != toolcall.RoleWorker || h.By.Name != h.Worker) {
			s.Detail = "worker " + h.Worker
		}
		out = append(out, s)
	}
	return out
}

// timeline is the history of a session from its events.
type timeline struct {
	Items    []item
	Earlier  bool   // earlier items are left out
	Proposed string // the call's input as the model wrote it; "": it was not streamed
}

// item is one event of a timeline.
type item struct {
	Kind string // text, thinking, call, asked, answered, output, end, user
	Who  string
	Text string
	At   string
	Href string
	Tone string
	This bool // it concerns the call of the page
}

// readTimeline reads the events of the call's session.
func readTimeline(ctx context.Context, c engine.Client, call *toolcall.Call) (timeline, error) {
	t := teller{call: call.Key, runtime: call.Runtime, texts: map[string]int{}, inputs: map[message.CallID]*strings.Builder{}, tools: map[string]string{}}
	after, read := uint64(0), 0
	for read < readEvents {
		page, err := c.Events(ctx, toolcall.EventsRequest{V: 1, Session: call.Session, After: after, Limit: 1000})
		if errors.Is(err, message.ErrNotFound) {
			break
		}
		if err != nil {
			return timeline{}, err
		}
		for _, e := range page.Events {
			if ev, err := message.DecodeEvent(e.Event); err == nil {
				t.tell(ev)
			}
		}
		if read += len(page.Events); page.Next == after {
			break
		}
		after = page.Next
	}
	out := timeline{Items: t.items}
	if b := t.inputs[call.Call]; b != nil && !call.Hides() {
		out.Proposed = b.String()
	}
	if n := len(out.Items); n > shownItems {
		out.Items, out.Earlier = out.Items[n-shownItems:], true
	}
	return out, nil
}

// teller makes items from events.
type teller struct {
	call    toolcall.Key
	runtime string // the authenticated runtime of the session
	agent   string
	items   []item
	texts   map[string]int // block id: its item
	inputs  map[message.CallID]*strings.Builder
	tools   map[string]string // their names, by reply and call
}

func (t *teller) add(ev message.Event, i item) {
	i.At = ev.Header().CreatedAt
	t.items = append(t.items, i)
}

// addCall adds an item with a link to a call.
func (t *teller) addCall(ev message.Event, id message.CallID, i item) {
	k := t.call
	k.Reply, k.Call = ev.ReplyID(), id
	i.This = k == t.call
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

// addUser adds the messages of a person. Their author is the runtime of the session,
// because the runtime could invent the name in the record.
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

// textOf is the text of a message.
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
