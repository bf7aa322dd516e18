package agui

import (
	"sync"

	"github.com/askance-dev/askance/message"
)

// shapes are reused, so that writing an event allocates nothing but the bytes.
var shapes = sync.Pool{New: func() any { return new(shape) }}

// Object is what AG-UI transfers as one JSON object: an [Event] or a *[RunInput].
type Object interface {
	// MarshalJSON returns the object as [AppendJSON] writes it.
	MarshalJSON() ([]byte, error)

	// fields lists the object's members, once for reading and writing.
	fields(s *shape)
}

// AppendJSON appends the object as one line of JSON: an event's type first, no
// null for an absent member, every required member. AG-UI's 1.0 client takes
// the line unchanged. An object that has no such form, for example an interrupt
// without an approval request, is an error, and dst is returned unchanged.
func AppendJSON(dst []byte, v Object) ([]byte, error) {
	return appendWith(dst, describe(v), func(s *shape) { transfer(v, s) })
}

// MarshalJSON implements json.Marshaler.
func (in *RunInput) MarshalJSON() ([]byte, error) { return AppendJSON(nil, in) }

// describe returns the name of an object for errors.
func describe(v Object) string {
	if _, ok := v.(Event); ok {
		return "AG-UI event"
	}
	return "run input"
}

// transfer reads or writes all members of an object.
func transfer(v Object, s *shape) {
	if e, ok := v.(Event); ok {
		s.discriminator("type", string(e.Type()))
	}
	v.fields(s)
}

// AppendFrame appends the event as one frame of server-sent events: "data: ",
// the JSON, and an empty line. dst comes back as it was if the event cannot be
// written, or if it is longer than [MaxFrameBytes], over which a client ends
// the run.
func AppendFrame(dst []byte, e Event) ([]byte, error) {
	out, err := AppendJSON(append(dst, "data: "...), e)
	if err != nil {
		return dst, err
	}
	if out = append(out, '\n', '\n'); len(out)-len(dst) > MaxFrameBytes {
		return dst, message.Errorf(message.CodeTooLarge, "encode AG-UI event", "a %s of %d bytes, the limit of a frame is %d", e.Type(), len(out)-len(dst), MaxFrameBytes)
	}
	return out, nil
}

func appendWith(dst []byte, noun string, fields func(*shape)) ([]byte, error) {
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
		return dst, message.DecodeError("encode "+noun, err)
	}
	return out, nil
}
