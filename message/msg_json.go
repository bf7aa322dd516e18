package message

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/weburl"
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

// The structs of this package define AgentScope's fields in their tags, which package wire
// uses to read and write.

// format is AgentScope 2.0's use of JSON.
var format = wire.Format{
	Name:   typeName,
	Words:  wordsOf,
	Rules:  map[string]func(string) (string, error){"url": normalizeURL},
	Verify: verify,
	Generate: func(r *wire.Reader, what string) string {
		c := r.Codec.(Codec)
		if what == "id" {
			return c.newID()
		}
		return c.now()
	},
	Types: map[reflect.Type]wire.Type{
		reflect.TypeFor[Block]():   {Read: readInto(readBlock), Write: writeBlock},
		reflect.TypeFor[Source]():  {Read: readInto(readSource)},
		reflect.TypeFor[Content](): {Read: readInto(readContent), Write: writeContent},
	},
}

// readInto converts a function that returns a value to a reader.
func readInto[T any](read func(*wire.Reader, []byte) (T, error)) func(*wire.Reader, []byte, reflect.Value) error {
	return func(r *wire.Reader, raw []byte, v reflect.Value) error {
		value, err := read(r, raw)
		*v.Addr().Interface().(*T) = value
		return err
	}
}

func normalizeURL(text string) (string, error) {
	u, err := weburl.Normalize(text)
	if err != nil {
		return "", strictjson.Wrong(strictjson.ErrType, "%s", err)
	}
	return u, nil
}

// word is a string type with a closed list of values, which does not include its zero value.
type word interface {
	// Valid reports whether the value is exactly one on the list.
	Valid() bool
	// words returns the list, separated by comma and space.
	words() string
}

func isWord(s, list string) bool {
	for w := range strings.SplitSeq(list, ", ") {
		if s == w {
			return true
		}
	}
	return false
}

func wordsOf(t reflect.Type) []string {
	if w, ok := reflect.TypeAssert[word](reflect.Zero(t)); ok {
		return strings.Split(w.words(), ", ")
	}
	return nil
}
