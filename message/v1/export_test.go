package v1

import (
	"github.com/askance-dev/askance/internal/strictjson"
)

// DecodeMsg decodes one dict.
func (c Codec) DecodeMsg(data []byte) (*Msg, error) {
	return decode(c, "decode 1.x message", data, maxDepth, c.msg)
}

// DecodeMsg decodes one dict with the zero Codec.
func DecodeMsg(data []byte) (*Msg, error) { return Codec{}.DecodeMsg(data) }

// AppendMsgs appends a list of dicts.
func (c Codec) AppendMsgs(dst []byte, list []*Msg) ([]byte, error) {
	out := append(dst, '[')
	for i, m := range list {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = c.AppendMsg(out, m); err != nil {
			return dst, err
		}
	}
	return append(out, ']'), nil
}

// MarshalJSON returns the dict in the dialect in which it was decoded.
func (m *Msg) MarshalJSON() ([]byte, error) { return Codec{Dialect: m.Dialect}.AppendMsg(nil, m) }

// Detect returns the dialect of a dict.
func Detect(data []byte) (Dialect, error) {
	return decode(Codec{}, "detect dialect", data, maxDepth, func(data []byte) (Dialect, error) {
		members, err := strictjson.Members(data)
		if err != nil {
			return V1, err
		}
		return detect(members)
	})
}
