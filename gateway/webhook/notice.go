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
	TypeRequestEscalated = "request.escalated"
	TypeCallFinished     = "call.finished"
)

// MaxNotice bounds the body of a message in bytes; what does not fit is left
// out and named in Notice.Cut.
const MaxNotice = 256 << 10

// Notice is a message in the format askance.
type Notice struct {
	// Type is one of the Type constants; ID the same over retries.
	Type string `json:"type"`
	ID   string `json:"id"`
	// Seq orders the notices of a space; Timestamp is when it happened.
	Seq       uint64             `json:"seq"`
	Timestamp time.Time          `json:"timestamp"`
	Space     toolcall.SpaceID   `json:"space"`
	By        toolcall.Principal `json:"by"`   // who caused it
	Call      *toolcall.Call     `json:"call"` // redacted as rules say
	// Waiting says who must still agree; only of approval requests.
	Waiting *toolcall.Waiting `json:"waiting,omitzero"`
	Links   *LinkSet          `json:"links,omitzero"`
	// Cut are paths of texts that were left out because the message was too long.
	Cut []string `json:"cut,omitzero"`
}

// LinkSet is where people go. Approve and Reject are only of open approval requests.
type LinkSet struct {
	Request string `json:"request"`
	Approve string `json:"approve,omitzero"`
	Reject  string `json:"reject,omitzero"`
}

// eventOf sorts an event record; "" is of no interest to anybody.
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

var types = map[Event]string{EventRequest: TypeRequestOpened, EventEscalation: TypeRequestEscalated, EventOutcome: TypeCallFinished}

// noticeOf makes the notice of a record for a destination; nil if it is not to
// be told.
func (w *Webhooks) noticeOf(d *Destination, r toolcall.JournalEntry) *Notice {
	if r.Invalid != nil || r.Record == nil {
		return nil
	}
	event := eventOf(r.Record)
	if event == "" || !d.wants(event, r.Record.Call.Tool) {
		return nil
	}
	record := r.Record.Redacted()
	call := record.Call.Clone()
	call.At(r.Seq)
	n := &Notice{
		Type: types[event], ID: "msg_" + string(call.Space) + "_" + strconv.FormatUint(r.Seq, 10), Seq: r.Seq, Timestamp: record.At,
		Space: call.Space, By: record.By, Call: call,
	}
	if waiting, open := call.Waiting(); open {
		n.Waiting = &waiting
	}
	if w.cfg.Links != nil {
		n.Links = w.cfg.Links.of(d.Name, n)
	}
	return n
}

// asks reports whether it is about an open approval request.
func (n *Notice) asks() bool { return n.Type != TypeCallFinished }

// encode writes the notice. Long texts are left out, the longest kind first.
func (n *Notice) encode() ([]byte, error) {
	b, err := strictjson.Marshal(n)
	if err != nil || len(b) <= MaxNotice {
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
	if b, err = strictjson.Marshal(short); err != nil || len(b) <= MaxNotice {
		return b, err
	}
	short.Call = &toolcall.Call{Key: n.Call.Key, Tool: n.Call.Tool, State: n.Call.State, Digest: n.Call.Digest, UpdatedAt: n.Call.UpdatedAt, ProposedAt: n.Call.ProposedAt}
	short.Cut = []string{"call"}
	return strictjson.Marshal(short)
}
