package blockstream

import (
	"fmt"
	"strconv"

	"github.com/askance-dev/askance/message"
)

// Cursor is a position in a session's frames: the journal sequence of the event and the
// number of the frame among the frames of that event. As text it is the event_id of the
// frame; sorting ids as text gives the order of the frames.
type Cursor struct {
	Seq   uint64
	Frame int // 0, 1, …
}

const (
	cursorSeq   = 20 // digits of the largest uint64
	cursorFrame = 6
)

// String returns the event_id.
func (c Cursor) String() string { return fmt.Sprintf("%020d-%06d", c.Seq, c.Frame) }

// Stamp sets the event_ids of the frames of one event; seq is the event's sequence.
func Stamp(frames []Frame, seq uint64) {
	for i, f := range frames {
		f.Head().EventID = Cursor{Seq: seq, Frame: i}.String()
	}
}

// After reports whether a frame at c comes after one at o, for a subscriber who has seen o.
func (c Cursor) After(o Cursor) bool {
	return c.Seq > o.Seq || c.Seq == o.Seq && c.Frame > o.Frame
}

// ParseCursor parses an event_id of this server.
func ParseCursor(id string) (Cursor, error) {
	if len(id) == cursorSeq+1+cursorFrame && id[cursorSeq] == '-' {
		seq, err := strconv.ParseUint(id[:cursorSeq], 10, 64)
		frame, err2 := strconv.ParseUint(id[cursorSeq+1:], 10, 32)
		if c := (Cursor{seq, int(frame)}); err == nil && err2 == nil && c.String() == id {
			return c, nil
		}
	}
	return Cursor{}, &message.Error{Code: message.CodeInvalid, Op: "read last_event_id", What: fmt.Sprintf("%.60q is not an event_id of this server", id), Hint: "send the event_id of the last frame, or none"}
}
