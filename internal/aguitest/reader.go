package aguitest

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/agui"
)

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
