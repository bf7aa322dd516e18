package agui

import (
	"sync"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// shapes are reused, so that writing an event allocates nothing but the bytes.
var shapes = sync.Pool{New: func() any { return new(shape) }}

// AppendJSON appends the event as one line of JSON: its type first, no null for
// an absent member, what is required always. What it writes, [DecodeEvent]
// takes and the 1.0 client leaves unchanged. An event that would not be so, for
// instance an interrupt without a question, is an error, and dst comes back as
// it was.
func AppendJSON(dst []byte, e Event) ([]byte, error) {
	if u, ok := e.(*Unknown); ok {
		return dst, message.DecodeError("encode AG-UI event", strictjson.Wrong(strictjson.ErrType, "an event of unknown type %.60q cannot be sent", u.Kind))
	}
	kind := e.Type()
	return appendWith(dst, "encode AG-UI event", func(s *shape) {
		s.key("type")
		s.quote("type", string(kind))
		e.fields(s)
	})
}

// AppendJSON appends the input as one line of JSON, as [AppendJSON] does an
// event.
func (in *RunInput) AppendJSON(dst []byte) ([]byte, error) {
	return appendWith(dst, "encode run input", in.fields)
}

// MarshalJSON implements json.Marshaler.
func (in *RunInput) MarshalJSON() ([]byte, error) { return in.AppendJSON(nil) }

func appendWith(dst []byte, op string, fields func(*shape)) ([]byte, error) {
	s, ok := shapes.Get().(*shape)
	if !ok {
		s = new(shape)
	}
	*s = shape{out: dst}
	err := s.writeObject(fields)
	out := s.out
	*s = shape{}
	shapes.Put(s)
	if err != nil {
		return dst, message.DecodeError(op, err)
	}
	return out, nil
}
