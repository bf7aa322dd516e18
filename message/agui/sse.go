package agui

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// ContentType is the media type of a stream of events.
const ContentType = "text/event-stream"

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

// Writer writes a stream of events. It is not safe for concurrent use.
type Writer struct {
	w    io.Writer
	peer Peer
	buf  []byte
	// OnLoss, if set, is told what the peer's version cannot carry.
	OnLoss func(e Event, loss Loss)
}

// NewWriter returns a writer of events for that peer. Whoever owns w flushes
// it.
func NewWriter(w io.Writer, peer Peer) *Writer { return &Writer{w: w, peer: peer} }

// Write writes one event, as the peer reads it, in one call of the underlying
// Write. Nothing is written if the event cannot be.
func (w *Writer) Write(e Event) error {
	adapted, lost := w.peer.Adapt(e)
	if w.OnLoss != nil {
		for _, l := range lost {
			w.OnLoss(e, l)
		}
	}
	var err error
	if w.buf, err = AppendFrame(w.buf[:0], adapted); err != nil {
		return err
	}
	_, err = w.w.Write(w.buf)
	return err
}

// KeepAlive writes a comment, which clients skip and proxies count as life.
func (w *Writer) KeepAlive() error {
	_, err := io.WriteString(w.w, ": keep-alive\n\n")
	return err
}

// Reader reads a stream of events as AG-UI's own client does: frames end at two
// line feeds in a row and nowhere else, of a frame only the lines that begin
// with "data:" count, a frame without one is skipped, and a last frame needs no
// empty line behind it. It is not safe for concurrent use.
type Reader struct {
	in    *bufio.Reader
	dec   *Decoder
	frame []byte
	err   error
}

// NewReader returns a reader that decodes with d; nil: the zero [Decoder].
func NewReader(r io.Reader, d *Decoder) *Reader {
	if d == nil {
		d = new(Decoder)
	}
	return &Reader{in: bufio.NewReader(r), dec: d}
}

// Next returns the next event, an *[Unknown] for one of unknown type. At the
// end of the stream it returns [io.EOF]. The first error ends the stream, and
// every later call returns it again.
func (r *Reader) Next() (Event, error) {
	for r.err == nil {
		var data []byte
		if data, r.err = r.next(); r.err != nil {
			break
		}
		if data == nil {
			continue
		}
		e, err := r.dec.Event(data)
		if err == nil {
			return e, nil
		}
		r.err = err
	}
	return nil, r.err
}

// next reads one frame and returns its data, nil if it has none.
func (r *Reader) next() ([]byte, error) {
	r.frame = r.frame[:0]
	for {
		line, err := r.in.ReadSlice('\n')
		r.frame = append(r.frame, line...)
		switch {
		case len(r.frame) > MaxFrameBytes:
			return nil, message.DecodeError("read AG-UI stream", &strictjson.Error{Op: "read", Offset: MaxFrameBytes, Err: strictjson.ErrTooLarge})
		case bytes.HasSuffix(r.frame, []byte("\n\n")), errors.Is(err, io.EOF) && len(r.frame) > 0:
			return dataOf(r.frame), nil
		case string(r.frame) == "\n":
			r.frame = r.frame[:0] // an empty line more between two frames
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// dataOf joins the data lines of a frame; nil if it has none.
func dataOf(frame []byte) []byte {
	var data []byte
	for line := range bytes.SplitSeq(frame, []byte("\n")) {
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if data == nil {
			data = make([]byte, 0, len(value))
		} else {
			data = append(data, '\n')
		}
		data = append(data, value...)
	}
	return data
}
