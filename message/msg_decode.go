package message

import (
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/wire"
)

func (c Codec) reader() *wire.Reader { return &wire.Reader{Format: &format, Codec: c} }

// decodeInto decodes one object into v, a pointer to a struct of this package.
func (c Codec) decodeInto(data []byte, v any) error { return c.reader().Read(data, v) }

// verify makes the checks that involve more than one member.
func verify(v any, reading bool) error {
	switch v := v.(type) {
	case *Msg:
		if !reading {
			return nil
		}
		if i, err := v.findMisplaced(); err != nil {
			return strictjson.Within(strictjson.Wrong(strictjson.ErrType, "%s", err), "decode", "/content/"+strconv.Itoa(i), -1)
		}
	case *ToolResultDataDelta:
		return v.verify()
	}
	return nil
}
