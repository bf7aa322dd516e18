package v1

import (
	"errors"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// Why a dict is none of this package's. Each arrives inside a
// [*message.Error].
var (
	ErrIs20 = errors.New("this is a message of AgentScope 2.0: read it with package message")
	ErrIs00 = errors.New("this is a message of AgentScope 0.0.x, which is not supported")
)

// DefaultMaxBytes bounds a dict, and a list of them.
const DefaultMaxBytes = strictjson.DefaultMaxBytes

// maxDepth leaves room for the levels that a conversion puts around values.
const maxDepth = strictjson.DefaultMaxDepth - 8

// Codec reads, writes and converts. The zero value is ready to use: it writes
// V1. It has no state and may be used from several goroutines if its functions
// may.
type Codec struct {
	// Dialect is what is written.
	Dialect Dialect
	// MaxBytes bounds what is decoded; 0: DefaultMaxBytes.
	MaxBytes int
	// Now is the clock for timestamps that V1 dicts leave out; nil: time.Now.
	Now func() time.Time
	// NewID makes the ids that V1 dicts leave out; nil: random ones.
	NewID func() string
	// Location is the zone of timestamps, which name none. nil: unknown; the
	// times of messages stay without a zone, too.
	Location *time.Location
	// Digest names the approval request that is open about a call, for the requests that
	// FromMsgs writes; nil: none is named, and no decision will fit.
	Digest func(reply message.ReplyID, call message.CallID) string
	// OnLoss is told of everything that the other side has no place for.
	OnLoss func(Loss)
}

// Loss is something that a conversion or a dialect cannot keep.
type Loss struct {
	Row  int    // of the table in the package's documentation
	ID   string // of the message it was part of
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
		err := object.Each(data, func(raw []byte) error {
			m, err := c.msg(raw)
			list = append(list, m)
			return err
		})
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
	code := message.CodeInvalid
	if errors.Is(err, strictjson.ErrTooLarge) {
		code = message.CodeTooLarge
	}
	return none, message.Errorf(code, op, "%w", err)
}

// detect goes by the members that only one age has.
func detect(r *object.Reader) (Dialect, error) {
	switch {
	case r.There("__module__"):
		return V01, nil
	case r.There("__type"):
		return V1, wrongAge(ErrIs00)
	case r.There("created_at"), r.There("finished_at"):
		return V1, wrongAge(ErrIs20)
	}
	var err error
	r.May("content", func(raw []byte) error {
		if strictjson.KindOf(raw) != "array" {
			return nil
		}
		return object.Each(raw, func(raw []byte) error {
			if strictjson.KindOf(raw) != "object" {
				return nil // refused when it is read
			}
			b := object.Read(raw)
			switch t := typeOf(b); t {
			case "tool_call", "data", "hint":
				err = wrongAge(ErrIs20)
			}
			return b.Err()
		})
	})
	if err == nil {
		err = r.Err()
	}
	return V1, err
}

func wrongAge(err error) error { return &strictjson.Error{Op: "decode", Offset: -1, Err: err} }

// typeOf is a block's type, "" if it has none that is text.
func typeOf(b *object.Reader) string {
	for _, m := range b.Members() {
		if m.Name == "type" && strictjson.KindOf(m.Value) == "string" {
			t, _ := strictjson.Text(m.Value)
			return t
		}
	}
	return ""
}
