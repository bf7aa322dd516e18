package agui

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// parkEvent is the name of the CUSTOM event which records that a run ended
// because people or the client are to answer. It makes interrupts outlive the
// process: which ones the client holds is known from it alone.
const parkEvent = "askance.agui.park"

// park is its value. It has no arguments, not even a hash of them, and no
// responses: every reader of the session can read it, rules hide nothing of it.
type park struct {
	V     int             `json:"v"` // 1
	Run   string          `json:"run_id"`
	Reply message.ReplyID `json:"reply_id"`
	// Through is the cursor behind the last event that the run has shown.
	Through uint64  `json:"through"`
	Asked   []asked `json:"asked,omitzero"`
	// Tools are the calls that the client is to run, by its own id.
	Tools []string `json:"tools,omitzero"`
}

// asked is one interrupt.
type asked struct {
	ID   string         `json:"id"` // of the interrupt
	Call message.CallID `json:"tool_call_id"`
	// Digest is that of the very approval request that was put; "" of an interrupt that is
	// no approval request about a call.
	Digest string `json:"digest,omitzero"`
	// Expires is what the interrupt said, in RFC 3339.
	Expires string `json:"expires,omitzero"`
}

// parkOf reads a record; nil if the event is none.
func parkOf(e *message.Custom) *park {
	if e.Name != parkEvent {
		return nil
	}
	text, err := json.Marshal(e.Value)
	if err != nil {
		return nil
	}
	p := new(park)
	if err := strictjson.Unmarshal(text, p); err != nil || p.V != 1 || p.Reply == "" {
		return nil
	}
	if slices.ContainsFunc(p.Asked, func(a asked) bool { return !a.isGenuine() }) {
		return nil
	}
	return p
}

// isGenuine reports whether the id of the interrupt agrees with the record: a
// forged record cannot turn a response to one request into one to another.
func (a asked) isGenuine() bool {
	event, call, ok := strings.Cut(a.ID, "/")
	if a.Digest == "" {
		return true // no approval request
	}
	of := message.RequireUserConfirm{EventHeader: message.EventHeader{ID: event}}
	return ok && of.RequestDigest() == a.Digest && (call == string(a.Call) || strings.HasPrefix(call, string(a.Call)+"/"))
}

// event is the record as it is kept.
func (p *park) event() (message.RawJSON, error) {
	text, err := strictjson.Marshal(p)
	if err != nil {
		return nil, err
	}
	value, err := strictjson.Object(text, strictjson.KeepBigIntegers())
	if err != nil {
		return nil, err
	}
	return json.Marshal(&message.Custom{EventHeader: message.NewHeader(""), Name: parkEvent, Value: value})
}

// find is the interrupt of that id.
func (p *park) find(id string) (asked, bool) {
	for _, a := range p.Asked {
		if a.ID == id {
			return a, true
		}
	}
	return asked{}, false
}

// equals reports whether two records say the same of what is waited for.
func (p *park) equals(o *park) bool {
	if o == nil || p.Reply != o.Reply || len(p.Asked) != len(o.Asked) || len(p.Tools) != len(o.Tools) {
		return false
	}
	for i := range p.Asked {
		if p.Asked[i] != o.Asked[i] {
			return false
		}
	}
	for i := range p.Tools {
		if p.Tools[i] != o.Tools[i] {
			return false
		}
	}
	return true
}
