package v1

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/internal/object"
)

// DecodeMsg decodes one dict.
func (c Codec) DecodeMsg(data []byte) (*Msg, error) {
	return decode(c, "decode 1.x message", data, maxDepth, c.msg)
}

// DecodeMsg decodes one dict with the zero Codec.
func DecodeMsg(data []byte) (*Msg, error) { return Codec{}.DecodeMsg(data) }

// AppendMsgs appends a list of dicts.
func (c Codec) AppendMsgs(dst []byte, list []*Msg) ([]byte, error) {
	out, err := object.Array(dst, len(list), func(dst []byte, i int) ([]byte, error) { return c.appendMsg(dst, list[i]) })
	if err != nil {
		return dst, message.Errorf(message.CodeInvalid, "encode messages", "%w", err)
	}
	return out, nil
}

// MarshalJSON gives the dict in the dialect in which it was read.
func (m *Msg) MarshalJSON() ([]byte, error) { return Codec{Dialect: m.Dialect}.AppendMsg(nil, m) }

// Detect tells the dialect of a dict.
func Detect(data []byte) (Dialect, error) {
	return decode(Codec{}, "detect dialect", data, maxDepth, func(data []byte) (Dialect, error) {
		r := object.Read(data)
		if err := r.Err(); err != nil {
			return V1, err
		}
		return detect(r)
	})
}
