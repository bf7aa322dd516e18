package agui

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// scope is shared by the parts of a [Mapper]: the run and the reply, the time of the event
// that is being mapped, which items are open and which ids are used.
type scope struct {
	run       Run
	opt       Mapping
	reply     message.ReplyID
	fromStart bool         // the mapper has seen the beginning of the reply
	at        *int64       // timestamp of the last event
	buffer    *message.Msg // data blocks and results that have not ended
	round     round

	open  []opening // in the order of opening
	names map[blockKey]string
	used  map[string]bool // message ids
}

// round is the model's work between two results; its calls belong to one message.
type round struct {
	parent string // the id of the message
	called bool   // whether a call has used it
}

// opening is an item that must be closed before the run finishes.
type opening struct {
	at    blockKey
	close []Event
}

// blockKey identifies a block of AgentScope; ids are unique only within a kind.
type blockKey struct {
	kind message.BlockType
	id   string
}

// blockStep is the kind that stands for an open step among the blocks.
const blockStep message.BlockType = "step"

func (m *scope) lose(e message.Event, l Loss) {
	if m.opt.OnLoss != nil {
		m.opt.OnLoss(e, l)
	}
}

// sourceName is the key in an event's metadata for everything without a place in AG-UI, the
// source of RAW events, and the prefix of CUSTOM names and activity types.
const sourceName = "agentscope"

// reservedName is the metadata key that AG-UI reserves for itself.
const reservedName = "ag-ui"

// layouts are the formats of created_at: AgentScope's own, and one with a zone.
var layouts = []string{"2006-01-02T15:04:05", time.RFC3339}

// readTime sets the time of the AG-UI events that an event becomes.
func (m *scope) readTime(e message.Event) {
	at := e.Header().CreatedAt
	for _, layout := range layouts {
		t, err := time.Parse(layout, at) // without a zone, as AgentScope writes it, it is UTC
		ms := t.UnixMilli()
		if err != nil || ms < -maxSafe || ms > maxSafe {
			continue
		}
		m.at = &ms
		if t.Nanosecond()%int(time.Millisecond) != 0 || layout == time.RFC3339 && !strings.HasSuffix(at, "Z") {
			m.lose(e, LossTime)
		}
		return
	}
	if at != "" {
		m.lose(e, LossTime)
	}
	m.at = nil
}

// base returns the Base of an AG-UI event made from e: its time, its metadata and, under
// [sourceName], its id and more.
func (m *scope) base(e message.Event, more map[string]any) Base {
	h := e.Header()
	own := map[string]any{}
	if h.ID != "" {
		own["eventId"] = h.ID
	}
	maps.Copy(own, more)
	all := make(map[string]any, len(h.Metadata)+1)
	for k, v := range h.Metadata {
		if k == sourceName || k == reservedName {
			m.lose(e, LossMetadata)
			continue
		}
		all[k] = v
	}
	if len(own) > 0 {
		all[sourceName] = own
	}
	raw, err := strictjson.Marshal(all)
	if err != nil { // something that JSON cannot represent
		m.lose(e, LossMetadata)
		raw, err = strictjson.Marshal(map[string]any{sourceName: own})
	}
	if err != nil || len(all) == 0 {
		return Base{Timestamp: m.at}
	}
	return Base{Timestamp: m.at, Metadata: raw}
}

func (m *scope) taggedBase(e message.Event, more map[string]any) Tagged {
	return Tagged{Base: m.base(e, more)}
}

// plainBase returns the base of an event with only a time.
func (m *scope) plainBase() Tagged { return Tagged{Base: Base{Timestamp: m.at}} }

// object encodes an object, or returns nil if JSON cannot represent it.
func object(members map[string]any) message.RawJSON {
	raw, err := strictjson.Marshal(members)
	if err != nil {
		return nil
	}
	return raw
}

// nameMessage returns the id of a block's message: the block's own id, unless another message
// has it. It returns false if the block was begun before.
func (m *scope) nameMessage(e message.Event, kind message.BlockType, id string) (string, bool) {
	at := blockKey{kind, id}
	if _, known := m.names[at]; known {
		m.lose(e, LossOutOfPlace)
		return "", false
	}
	m.names[at] = m.makeID(id, string(kind))
	return m.names[at], true
}

// makeID makes an id that no message has: id itself if it is free, or else id with more
// appended. The same events always give the same ids.
func (m *scope) makeID(id, more string) string {
	want := id
	for n := 1; m.used[want]; n++ {
		want = id + "/" + more
		if n > 1 {
			want += "/" + strconv.Itoa(n)
		}
	}
	m.used[want] = true
	return want
}

func (m *scope) recordOpen(kind message.BlockType, id string, closing ...Event) {
	m.open = append(m.open, opening{blockKey{kind, id}, closing})
}

// isOpen returns the message of a block that is being written, or false.
func (m *scope) isOpen(e message.Event, kind message.BlockType, id string) (string, bool) {
	at := blockKey{kind, id}
	if !slices.ContainsFunc(m.open, func(o opening) bool { return o.at == at }) {
		m.lose(e, LossOutOfPlace)
		return "", false
	}
	return m.names[at], true
}

func (m *scope) recordClosed(kind message.BlockType, id string) {
	at := blockKey{kind, id}
	m.open = slices.DeleteFunc(m.open, func(o opening) bool { return o.at == at })
}

// stampTime sets the time of events that the mapper adds.
func stampTime(events []Event, at *int64) []Event {
	for _, e := range events {
		e.Common().Timestamp = at
	}
	return events
}

// closeOpen closes every open item, latest first.
func (m *scope) closeOpen() (out []Event) {
	for _, o := range slices.Backward(m.open) {
		out = append(out, stampTime(o.close, m.at)...)
	}
	m.open = nil
	return out
}
