package webhook

import (
	"strconv"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The types of notices.
const (
	TypeRequestOpened    = "request.opened"
	typeRequestEscalated = "request.escalated"
	TypeCallFinished     = "call.finished"
)

// maxNotice bounds the body of a message in bytes. Notice.Cut names what is left out.
const maxNotice = 256 << 10

// Notice is a message in the format askance.
type Notice struct {
	// Type is one of the Type constants; retries keep the ID.
	Type string `json:"type"`
	ID   string `json:"id"`
	// Seq orders the notices of a space; Timestamp is when it happened.
	Seq       uint64             `json:"seq"`
	Timestamp time.Time          `json:"timestamp"`
	Space     toolcall.SpaceID   `json:"space"`
	By        toolcall.Principal `json:"by"`   // who caused it
	Call      *toolcall.Call     `json:"call"` // redacted as rules say
	// Waiting says whose approval is missing; only in approval requests.
	Waiting *toolcall.Waiting `json:"waiting,omitzero"`
	Links   *LinkSet          `json:"links,omitzero"`
	// Cut are the paths of texts that were left out because of maxNotice.
	Cut []string `json:"cut,omitzero"`
}

// LinkSet has the links of a message; Approve and Reject only of open requests.
type LinkSet struct {
	Request string `json:"request"`
	Approve string `json:"approve,omitzero"`
	Reject  string `json:"reject,omitzero"`
}

// eventOf returns the event of a record, or "" if it has none.
func eventOf(f *toolcall.EventRecord) Event {
	switch {
	case f == nil || f.Call == nil || f.Note != nil:
		return ""
	case f.Call.State == message.ToolCallFinished:
		return EventOutcome
	case f.Call.State != message.ToolCallAsking:
		return ""
	}
	switch f.Kind() {
	case "vote", "skip", "delegate": // the approval request is the same
		return ""
	case "escalate":
		return EventEscalation
	}
	return EventRequest
}

var types = map[Event]string{EventRequest: TypeRequestOpened, EventEscalation: typeRequestEscalated, EventOutcome: TypeCallFinished}

// noticeOf makes the notice of a record, or returns nil if the destination does not want it.
func (w *Webhooks) noticeOf(d *Destination, r toolcall.JournalEntry) *Notice {
	if r.Invalid != nil || r.Record == nil {
		return nil
	}
	event := eventOf(r.Record)
	if event == "" || !d.wants(event, r.Record.Call.Tool) {
		return nil
	}
	record, call := r.Record, w.cfg.Space.ShowCall(r.Record.Call).Clone()
	call.At(r.Seq)
	n := &Notice{
		Type: types[event], ID: "msg_" + string(call.Space) + "_" + strconv.FormatUint(r.Seq, 10), Seq: r.Seq, Timestamp: record.At,
		Space: call.Space, By: record.By, Call: call,
	}
	if waiting, open := call.Waiting(); open {
		n.Waiting = &waiting
	}
	if w.cfg.Links != nil {
		n.Links = w.cfg.Links.makeSet(d.Name, n)
	}
	return n
}

// isRequest reports whether it is about an open approval request.
func (n *Notice) isRequest() bool { return n.Type != TypeCallFinished }

// encode encodes the notice and leaves out long texts, the longest kind first.
func (n *Notice) encode() ([]byte, error) {
	b, err := strictjson.Marshal(n)
	if err != nil || len(b) <= maxNotice {
		return b, err
	}
	short := *n
	short.Call = n.Call.Clone()
	short.Call.Input, short.Cut = "", []string{"call.input"}
	if q := short.Call.Request; q != nil {
		cut := *q
		cut.Input, short.Call.Request = "", &cut
		short.Cut = append(short.Cut, "call.request.input")
	}
	if short.Call.Result != nil {
		short.Call.Result = nil
		short.Cut = append(short.Cut, "call.result")
	}
	if b, err = strictjson.Marshal(short); err != nil || len(b) <= maxNotice {
		return b, err
	}
	short.Call = &toolcall.Call{Key: n.Call.Key, Tool: n.Call.Tool, State: n.Call.State, Digest: n.Call.Digest, UpdatedAt: n.Call.UpdatedAt, ProposedAt: n.Call.ProposedAt}
	short.Cut = []string{"call"}
	return strictjson.Marshal(short)
}
