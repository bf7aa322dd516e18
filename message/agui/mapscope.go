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

func (s *scope) lose(e message.Event, l Loss) {
	if s.opt.OnLoss != nil {
		s.opt.OnLoss(e, l)
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
func (s *scope) readTime(e message.Event) {
	at := e.Header().CreatedAt
	for _, layout := range layouts {
		t, err := time.Parse(layout, at) // without a zone, as AgentScope writes it, it is UTC
		ms := t.UnixMilli()
		if err != nil || ms < -maxSafe || ms > maxSafe {
			continue
		}
		s.at = &ms
		if t.Nanosecond()%int(time.Millisecond) != 0 || layout == time.RFC3339 && !strings.HasSuffix(at, "Z") {
			s.lose(e, LossTime)
		}
		return
	}
	if at != "" {
		s.lose(e, LossTime)
	}
	s.at = nil
}

// base returns the Base of an AG-UI event made from e: its time, its metadata and, under
// [sourceName], its id and more.
func (s *scope) base(e message.Event, more map[string]any) Base {
	h := e.Header()
	own := map[string]any{}
	if h.ID != "" {
		own["eventId"] = h.ID
	}
	maps.Copy(own, more)
	all := make(map[string]any, len(h.Metadata)+1)
	for k, v := range h.Metadata {
		if k == sourceName || k == reservedName {
			s.lose(e, LossMetadata)
			continue
		}
		all[k] = v
	}
	if len(own) > 0 {
		all[sourceName] = own
	}
	raw, err := strictjson.Marshal(all)
	if err != nil { // something that JSON cannot represent
		s.lose(e, LossMetadata)
		raw, err = strictjson.Marshal(map[string]any{sourceName: own})
	}
	if err != nil || len(all) == 0 {
		return Base{Timestamp: s.at}
	}
	return Base{Timestamp: s.at, Metadata: raw}
}

func (s *scope) taggedBase(e message.Event, more map[string]any) Tagged {
	return Tagged{Base: s.base(e, more)}
}

// plainBase returns the base of an event with only a time.
func (s *scope) plainBase() Tagged { return Tagged{Base: Base{Timestamp: s.at}} }

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
func (s *scope) nameMessage(e message.Event, kind message.BlockType, id string) (string, bool) {
	at := blockKey{kind, id}
	if _, known := s.names[at]; known {
		s.lose(e, LossOutOfPlace)
		return "", false
	}
	s.names[at] = s.makeID(id, string(kind))
	return s.names[at], true
}

// makeID makes an id that no message has: id itself if it is free, or else id with more
// appended. The same events always give the same ids.
func (s *scope) makeID(id, more string) string {
	want := id
	for n := 1; s.used[want]; n++ {
		want = id + "/" + more
		if n > 1 {
			want += "/" + strconv.Itoa(n)
		}
	}
	s.used[want] = true
	return want
}

func (s *scope) recordOpen(kind message.BlockType, id string, closing ...Event) {
	s.open = append(s.open, opening{blockKey{kind, id}, closing})
}

// isOpen returns the message of a block that is being written, or false.
func (s *scope) isOpen(e message.Event, kind message.BlockType, id string) (string, bool) {
	at := blockKey{kind, id}
	if !slices.ContainsFunc(s.open, func(o opening) bool { return o.at == at }) {
		s.lose(e, LossOutOfPlace)
		return "", false
	}
	return s.names[at], true
}

func (s *scope) recordClosed(kind message.BlockType, id string) {
	at := blockKey{kind, id}
	s.open = slices.DeleteFunc(s.open, func(o opening) bool { return o.at == at })
}

// stampTime sets the time of events that the mapper adds.
func stampTime(events []Event, at *int64) []Event {
	for _, e := range events {
		e.Common().Timestamp = at
	}
	return events
}

// closeOpen closes every open item, latest first.
func (s *scope) closeOpen() (out []Event) {
	for _, o := range slices.Backward(s.open) {
		out = append(out, stampTime(o.close, s.at)...)
	}
	s.open = nil
	return out
}
