// Package aguitest reads AG-UI event streams like AG-UI's own client.
//
// Servers only write events, so the reading half exists only for tests. It decodes members
// by the same tables from which package agui writes them.
package aguitest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"

	"github.com/google/uuid"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

// DeviationType reports an event of a type that AG-UI 1.0 does not have; the client drops
// such an event.
const DeviationType agui.DeviationKind = "unknown_type"

// Decoder reads the events of one stream. It keeps the ids that it made for retired events,
// so each stream needs its own.
type Decoder struct {
	// Strict and OnDeviation are as in [agui.Decoder]; Strict also refuses unknown and
	// retired types.
	Strict      bool
	OnDeviation func(agui.Deviation)
	// NewID makes ids for retired events, which had none; nil means random UUIDs.
	NewID func() string

	span, thought string // ids of the open THINKING span and message
}

// DecodeEvent reads one event by the schema of AG-UI 1.0, with a strict
// [Decoder].
func DecodeEvent(data []byte) (agui.Event, error) {
	d := Decoder{Strict: true}
	return d.Event(data)
}

// Event reads one event. It returns nil for an event of a type that 1.0 does not have,
// unless the decoder is strict.
func (d *Decoder) Event(data []byte) (agui.Event, error) {
	kind, err := eventType(data)
	if err != nil {
		return nil, message.DecodeError("decode AG-UI event", err)
	}
	var seen []agui.Deviation
	e := NewEvent(kind)
	if e == nil && !d.Strict {
		if e, data = d.translate(kind, data, &seen); e == nil {
			d.report(agui.Deviation{Kind: DeviationType, Path: "/type", What: "unknown event type " + string(kind)})
			return nil, nil
		}
	}
	if e == nil {
		return nil, message.DecodeError("decode AG-UI event", typeFault("unknown event type %.60q", kind))
	}
	fields := agui.Decoder{Strict: d.Strict, OnDeviation: func(dev agui.Deviation) { seen = append(seen, dev) }}
	if err := fields.Decode(data, e); err != nil {
		return nil, err
	}
	d.report(seen...)
	return e, nil
}

func (d *Decoder) report(seen ...agui.Deviation) {
	if d.OnDeviation == nil {
		return
	}
	for _, dev := range seen {
		d.OnDeviation(dev)
	}
}

// eventType reads the type of an event.
func eventType(data []byte) (agui.EventType, error) {
	if err := strictjson.Check(data, strictjson.MaxBytes(agui.MaxFrameBytes)); err != nil {
		return "", err
	}
	members, err := strictjson.Members(data)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(members, func(m strictjson.Member) bool { return m.Name == "type" })
	if at < 0 {
		return "", strictjson.Within(strictjson.Wrong(strictjson.ErrMissingMember, "%q", "type"), "decode", "/type", -1)
	}
	kind, err := strictjson.Text(members[at].Value)
	switch {
	case err != nil:
		return "", strictjson.Within(err, "decode", "/type", int64(members[at].Offset))
	case kind == "":
		return "", typeFault("an empty type")
	}
	return agui.EventType(kind), nil
}

func typeFault(format string, args ...any) error {
	return strictjson.Within(strictjson.Wrong(strictjson.ErrType, format, args...), "decode", "/type", -1)
}

// translate rewrites a THINKING event, which AG-UI had before 1.0, as its successor, with
// ids that these events lacked: one for the span and one for the message. It returns nil for
// every other type.
func (d *Decoder) translate(kind agui.EventType, data []byte, seen *[]agui.Deviation) (agui.Event, []byte) {
	var e agui.Event
	var id string
	switch kind {
	case "THINKING_START":
		d.span = d.newID()
		e, id = &agui.ReasoningStart{}, d.span
	case "THINKING_END":
		e, id = &agui.ReasoningEnd{}, d.closeID(&d.span)
	case "THINKING_TEXT_MESSAGE_START":
		d.thought = d.newID()
		e, id = &agui.ReasoningMessageStart{}, d.thought
	case "THINKING_TEXT_MESSAGE_CONTENT":
		if d.thought == "" {
			d.thought = d.newID()
		}
		e, id = &agui.ReasoningMessageContent{}, d.thought
	case "THINKING_TEXT_MESSAGE_END":
		e, id = &agui.ReasoningMessageEnd{}, d.closeID(&d.thought)
	default:
		return nil, nil
	}
	*seen = append(*seen, agui.Deviation{Kind: agui.DeviationRetired, Path: "/type", What: string(kind) + ", read as " + string(agui.TypeOf(e))})
	return e, rewrite(data, e, id, seen)
}

// rewrite replaces the type and ids of an event. A member that only the successor has is an
// unknown member of the retired event.
func rewrite(data []byte, e agui.Event, id string, seen *[]agui.Deviation) []byte {
	quote := func(text string) []byte { return must(strictjson.AppendString(nil, text)) }
	out := append([]byte(`{"type":`), quote(string(agui.TypeOf(e)))...)
	out = append(append(out, `,"messageId":`...), quote(id)...)
	if agui.TypeOf(e) == "REASONING_MESSAGE_START" {
		out = append(out, `,"role":"reasoning"`...)
	}
	for _, m := range must(strictjson.Members(data)) {
		switch {
		case m.Name == "type":
		case m.Name == "messageId", m.Name == "role":
			*seen = append(*seen, agui.Deviation{Kind: agui.DeviationMember, Path: "/" + m.Name, What: "unknown member"})
		case m.Name == "title" && agui.TypeOf(e) == "REASONING_START":
			*seen = append(*seen, agui.Deviation{Kind: agui.DeviationRetired, Path: "/title", What: "a title, which cannot be kept: " + string(m.Value)})
		default:
			out = append(append(out, ','), quote(m.Name)...)
			out = append(append(out, ':'), m.Value...)
		}
	}
	return append(out, '}')
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the input was checked before
	}
	return v
}

func (d *Decoder) newID() string {
	if d.NewID != nil {
		return d.NewID()
	}
	return uuid.NewString()
}

// closeID returns the id and forgets it. If there is none, it makes an id that refers to
// nothing open, so the stream does not verify.
func (d *Decoder) closeID(id *string) string {
	closed := *id
	*id = ""
	if closed == "" {
		closed = d.newID()
	}
	return closed
}

// NewEvent returns an empty event, or nil for a type that 1.0 does not have.
func NewEvent(kind agui.EventType) agui.Event {
	for _, e := range agui.Events {
		if agui.TypeOf(e) == kind {
			return reflect.New(reflect.TypeOf(e).Elem()).Interface().(agui.Event)
		}
	}
	return nil
}

// Reader reads a stream of events like AG-UI's own client: only two consecutive line feeds
// end a frame. Only lines that begin with "data:" count. A frame without such a line is
// skipped, and the last frame needs no empty line after it.
type Reader struct {
	in    *bufio.Reader
	dec   *Decoder
	frame []byte
	err   error
}

// NewReader returns a reader that decodes with d, or the zero [Decoder] if d is nil.
func NewReader(r io.Reader, d *Decoder) *Reader {
	if d == nil {
		d = new(Decoder)
	}
	return &Reader{in: bufio.NewReader(r), dec: d}
}

// Next returns the next event that the client does not drop. At the end of the
// stream it returns [io.EOF]. The first error ends the stream, and every later
// call returns it again.
func (r *Reader) Next() (agui.Event, error) {
	for r.err == nil {
		var data []byte
		if data, r.err = r.readFrame(); r.err != nil || data == nil {
			continue
		}
		var e agui.Event
		if e, r.err = r.dec.Event(data); e != nil {
			return e, nil
		}
	}
	return nil, r.err
}

// readFrame reads one frame and returns its data, or nil if it has none.
func (r *Reader) readFrame() ([]byte, error) {
	r.frame = r.frame[:0]
	for {
		line, err := r.in.ReadSlice('\n')
		r.frame = append(r.frame, line...)
		switch {
		case len(r.frame) > agui.MaxFrameBytes:
			return nil, message.Errorf(message.CodeTooLarge, "read AG-UI stream", "a frame is longer than %d bytes", agui.MaxFrameBytes)
		case bytes.HasSuffix(r.frame, []byte("\n\n")), errors.Is(err, io.EOF) && len(r.frame) > 0:
			return joinData(r.frame), nil
		case string(r.frame) == "\n":
			r.frame = r.frame[:0] // one more empty line between two frames
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// joinData joins the data lines of a frame, or returns nil if it has none. Empty data is
// not nil.
func joinData(frame []byte) []byte {
	var data []byte
	for line := range bytes.SplitSeq(frame, []byte("\n")) {
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if data == nil {
			data = []byte{}
		} else {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
	}
	return data
}
