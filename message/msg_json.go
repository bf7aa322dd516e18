package message

import (
	"reflect"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/wire"
)

// marshal encodes the struct that v points to: every member, in the order of its fields. The
// zero Codec can read back the result.
func marshal(v any) ([]byte, error) { return format.Append(nil, v) }

func writeBlock(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	b, _ := reflect.TypeAssert[Block](v)
	return appendBlock(f, dst, b)
}

func appendBlock(f *wire.Format, dst []byte, b Block) ([]byte, error) {
	switch u, unknown := b.(*UnknownBlock); {
	case b == nil:
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "nothing is set")
	case reflect.ValueOf(b).IsNil():
		return dst, strictjson.Wrong(strictjson.ErrMissingMember, "a nil %T", b)
	case unknown:
		return f.AppendRaw(dst, u.Raw)
	default:
		return f.Append(dst, b)
	}
}

func writeContent(f *wire.Format, dst []byte, v reflect.Value) ([]byte, error) {
	c := v.Interface().(Content)
	if !c.IsList() {
		return strictjson.AppendString(dst, c.Text)
	}
	dst = append(dst, '[')
	for i, b := range c.Blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if b != nil && !contentHolds(b.Type()) {
			err = strictjson.Wrong(strictjson.ErrType, "a %s block is not allowed here, only text and data", b.Type())
		} else {
			dst, err = appendBlock(f, dst, b)
		}
		if err != nil {
			return dst, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1)
		}
	}
	return append(dst, ']'), nil
}

func (c Codec) reader() *wire.Reader { return &wire.Reader{Format: &format, Codec: c} }

// decodeInto decodes one object into v, a pointer to a struct of this package.
func (c Codec) decodeInto(data []byte, v any) error { return c.reader().Read(data, v) }

// verify checks conditions that involve several members.
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
