package message

import (
	"reflect"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/internal/weburl"
	"github.com/askance-dev/askance/message/internal/wire"
)

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

// normalizeURL returns a URL in normal form.
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
