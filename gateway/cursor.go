package gateway

import (
	"context"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/message"
)

// Cursor is a place in a session's event stream: behind the Nth event (counted
// from 1) of the record with sequence Seq, or behind all of them if N is 0. As
// text it is "SEQ" or "SEQ-N"; it is what a stream gives as an event's id and
// takes back as Last-Event-ID.
type Cursor struct {
	Seq uint64
	N   int
}

// String is the cursor as text.
func (c Cursor) String() string {
	if c.N == 0 {
		return strconv.FormatUint(c.Seq, 10)
	}
	return strconv.FormatUint(c.Seq, 10) + "-" + strconv.Itoa(c.N)
}

// ParseCursor reads a cursor.
func ParseCursor(text string) (Cursor, error) {
	seq, n, parts := strings.Cut(text, "-")
	var c Cursor
	var err error
	if c.Seq, err = strconv.ParseUint(seq, 10, 64); err == nil && parts {
		var number uint64
		number, err = strconv.ParseUint(n, 10, 31)
		c.N = int(number) // 31 bits
		if number == 0 || c.Seq == 0 {
			err = strconv.ErrRange
		}
	}
	if err != nil {
		return Cursor{}, &message.Error{Code: message.CodeInvalid, Op: "resume", What: "the cursor " + strconv.Quote(cut(text)) + " is none of ours", Hint: "send the id of the last event that was received, or none"}
	}
	return c, nil
}

// cut shortens text from outside for a message.
func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

// Resume is Events from a cursor, event by event: fn gets each event of the
// session behind from with the cursor of its own place. live, if not nil, is
// called once, when the past has been delivered.
func (f *Feeds) Resume(ctx context.Context, p *Peer, session message.SessionID, from Cursor, live func() error, fn func(Cursor, message.SequencedEvent) error) error {
	after, skip := from.Seq, from.N
	if skip > 0 {
		after--
	}
	at := Cursor{Seq: after}
	return f.Events(ctx, p, session, after, func(b EventBatch) error {
		for _, ev := range b.Events {
			if ev.Seq != at.Seq {
				at = Cursor{Seq: ev.Seq}
			}
			at.N++
			if ev.Seq == from.Seq && at.N <= skip {
				continue
			}
			if err := fn(at, ev); err != nil {
				return err
			}
		}
		if b.Live && live != nil {
			call := live
			live = nil
			return call()
		}
		return nil
	})
}
