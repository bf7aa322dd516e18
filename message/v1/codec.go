package v1

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/wire"
)

// Reasons why this package does not read a dict. Each is wrapped in a [*message.Error].
var (
	ErrIs20 = errors.New("this is a message of AgentScope 2.0: read it with package message")
	ErrIs00 = errors.New("this is a message of AgentScope 0.0.x, which is not supported")
)

// DefaultMaxBytes bounds a dict, and a list of dicts.
const DefaultMaxBytes = strictjson.DefaultMaxBytes

// maxDepth leaves room for the levels that a conversion adds around values.
const maxDepth = strictjson.DefaultMaxDepth - 8

// Codec reads, writes and converts dicts. The zero value is ready to use and writes V1.
// It has no state, and is safe for concurrent use if its functions are.
type Codec struct {
	// Dialect is the dialect to write.
	Dialect Dialect
	// MaxBytes bounds what is decoded; 0 means DefaultMaxBytes.
	MaxBytes int
	// Now is the clock for timestamps that V1 dicts leave out; nil means time.Now.
	Now func() time.Time
	// NewID makes the ids that V1 dicts leave out; nil means random ids.
	NewID func() string
	// Location is the time zone of timestamps, which contain none. If it is nil, the
	// zone is unknown, and the times of messages have none either.
	Location *time.Location
	// Digest returns the digest of the open approval request about a call, for the requests
	// that FromMsgs writes. If it is nil, no digest is written, and no decision will match.
	Digest func(reply message.ReplyID, call message.CallID) string
	// OnLoss is called for everything that the other side has no place for.
	OnLoss func(Loss)
}

// Loss is something that a conversion or a dialect cannot keep.
type Loss struct {
	Row  int    // in the table of the package documentation
	ID   string // of the message that contained it
	What string // for people
}

func (c Codec) reportLoss(row int, id, what string) {
	if c.OnLoss != nil {
		c.OnLoss(Loss{row, id, what})
	}
}

// DecodeMsgs decodes a list of dicts, a conversation.
func (c Codec) DecodeMsgs(data []byte) ([]*Msg, error) {
	return decode(c, "decode 1.x messages", data, maxDepth+1, func(data []byte) ([]*Msg, error) {
		list := []*Msg{}
		items, err := strictjson.Items(data)
		for i := 0; i < len(items) && err == nil; i++ {
			var m *Msg
			if m, err = c.msg(items[i].Value); err != nil {
				err = strictjson.Within(err, "decode", "/"+strconv.Itoa(i), int64(items[i].Offset))
			}
			list = append(list, m)
		}
		return list, err
	})
}

func decode[T any](c Codec, op string, data []byte, depth int, read func([]byte) (T, error)) (T, error) {
	var none T
	limit := c.MaxBytes
	if limit <= 0 {
		limit = DefaultMaxBytes
	}
	err := strictjson.Check(data, strictjson.MaxBytes(limit), strictjson.MaxDepth(depth))
	if err == nil {
		var v T
		if v, err = read(data); err == nil {
			return v, nil
		}
	}
	return none, message.DecodeError(op, err)
}

// detect determines the dialect by members that only one generation has.
func detect(members []strictjson.Member) (Dialect, error) {
	switch {
	case has(members, "__module__"):
		return V01, nil
	case has(members, "__type"):
		return V1, wrongAge(ErrIs00)
	case has(members, "created_at"), has(members, "finished_at"):
		return V1, wrongAge(ErrIs20)
	}
	for _, m := range members {
		if m.Name != "content" || strictjson.KindOf(m.Value) != "array" {
			continue
		}
		blocks, err := strictjson.Items(m.Value)
		if err != nil {
			return V1, err
		}
		for _, b := range blocks {
			inner, _ := strictjson.Members(b.Value) // other values are refused when they are read
			switch strictjson.TextMember(inner, wire.TypeMember) {
			case "tool_call", "data", "hint":
				return V1, wrongAge(ErrIs20)
			}
		}
	}
	return V1, nil
}

// has reports whether a member is present, even if it is null.
func has(members []strictjson.Member, name string) bool {
	return slices.ContainsFunc(members, func(m strictjson.Member) bool { return m.Name == name })
}

func wrongAge(err error) error { return &strictjson.Error{Op: "decode", Offset: -1, Err: err} }

// The rows of the table in doc.go that are reported to Codec.OnLoss.
const (
	rowOnlyV1    = 1
	rowFile      = 2
	rowOutput    = 3
	rowMediaType = 4
	rowURL       = 5
	rowExtra     = 6
	rowUnknown   = 7
	rowRawInput  = 8
	rowResults   = 9
	rowSystem    = 10
	rowReserved  = 11
	rowMsgFields = 20
	rowBlock     = 21
	rowResult    = 23
	rowRunning   = 24
	rowHint      = 25
	rowData      = 26
	rowInput     = 27
)

// RowCallState is the row for what FromMsgs puts into metadata.askance.
const RowCallState = 22
