package blocktest

import (
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/internal/object"
)

// MaxFrameBytes bounds a frame: the largest input of a call is 256 KiB and an
// approval_request carries it twice.
const MaxFrameBytes = 1 << 20

// DecodeFrame decodes one frame. It drops members that it does not know and
// refuses a frame that [blockstream.AppendFrame] could not write.
func DecodeFrame(data []byte) (blockstream.Frame, error) { return DecodeLarge(data, MaxFrameBytes) }

// DecodeLarge is DecodeFrame with another limit.
func DecodeLarge(data []byte, limit int) (blockstream.Frame, error) {
	err := strictjson.Check(data, strictjson.MaxBytes(limit))
	if err != nil {
		return nil, message.DecodeError("decode frame", err)
	}
	f, err := readFrame(data)
	if err == nil {
		_, err = blockstream.AppendFrame(nil, f)
	}
	if err != nil {
		return nil, message.DecodeError("decode frame", err)
	}
	return f, nil
}

func readFrame(raw []byte) (blockstream.Frame, error) {
	r := object.Read(raw)
	t := blockstream.FrameType(r.Text("type"))
	h := blockstream.Header{EventID: r.TextOr("event_id", ""), MessageID: message.ReplyID(r.TextOr("message_id", ""))}
	if err := r.Err(); err != nil {
		return nil, err
	}
	switch t {
	case blockstream.FrameMessageStart:
		f := &blockstream.MessageStart{
			Header: h, Session: message.SessionID(r.Text("session_id")), Timestamp: readNumber(r, "timestamp"),
			DisplayMode: blockstream.DisplayMode(r.Text("display_mode")), NewFromShareLink: readBool(r, "is_new_session_from_share", false),
		}
		return f, r.Err()
	case blockstream.FrameMessageDelta:
		f := &blockstream.MessageDelta{Header: h}
		r.Need("delta", func(raw []byte) error {
			d := object.Read(raw)
			f.StopReason = d.TextOr("stop_reason", "")
			return d.Err()
		})
		return f, r.Err()
	case blockstream.FrameMessageStop:
		return &blockstream.MessageStop{Header: h, DurationMS: readInt(r, "duration_ms")}, r.Err()
	case blockstream.FrameBlockStart:
		f := &blockstream.BlockStart{Header: h, Index: readIndex(r)}
		r.Need("content_block", into(&f.Block, readBlock))
		return f, r.Err()
	case blockstream.FrameBlockDelta:
		f := &blockstream.BlockDelta{Header: h, Index: readIndex(r)}
		r.Need("delta", into(&f.Delta, readDelta))
		return f, r.Err()
	case blockstream.FrameBlockStop:
		return &blockstream.BlockStop{Header: h, Index: readIndex(r), Final: readBool(r, "is_final", false)}, r.Err()
	case blockstream.FrameConnected:
		return &blockstream.Connected{Header: h}, nil
	case blockstream.FrameAuthOK:
		return &blockstream.AuthOK{Header: h}, nil
	case blockstream.FramePong:
		return &blockstream.Pong{Header: h}, nil
	case blockstream.FrameSubscribed:
		f := &blockstream.Subscribed{Header: h, Session: message.SessionID(r.TextOr("session_id", "")), Status: blockstream.SessionStatus(r.Text("status"))}
		return f, r.Err()
	case blockstream.FrameError:
		f := &blockstream.Error{Header: h, Code: blockstream.ErrorCode(r.Text("code")), Message: r.TextOr("message", ""), ApprovalKey: r.TextOr("approval_key", "")}
		return f, r.Err()
	}
	return nil, strictjson.Wrong(strictjson.ErrType, "unknown frame %.60q", string(t))
}

// into makes a member decoder of a value decoder.
func into[T any](dst *T, decode func([]byte) (T, error)) func([]byte) error {
	return func(raw []byte) (err error) {
		*dst, err = decode(raw)
		return err
	}
}

// maxIndex keeps an index an int everywhere; no turn comes near it.
const maxIndex = 1 << 30

func readIndex(r *object.Reader) int {
	var i int64
	r.Need("index", into(&i, strictjson.Int))
	if i < 0 || i > maxIndex {
		r.Fail(strictjson.ErrType, "index %d", i)
	}
	return int(i)
}

// readInt is an integer, or 0 if there is none or null.
func readInt(r *object.Reader, name string) (i int64) {
	r.May(name, into(&i, strictjson.Int))
	return i
}

func readBool(r *object.Reader, name string, alt bool) bool {
	b := alt
	r.May(name, into(&b, strictjson.Bool))
	return b
}

func readNumber(r *object.Reader, name string) (f float64) {
	r.Need(name, func(raw []byte) (err error) {
		if k := strictjson.KindOf(raw); k != "number" {
			return strictjson.Wrong(strictjson.ErrType, "want number, got %s", k)
		}
		if f, err = strconv.ParseFloat(string(raw), 64); err != nil {
			return strictjson.Wrong(strictjson.ErrType, "number %.40s is too large", raw)
		}
		return nil
	})
	return f
}
