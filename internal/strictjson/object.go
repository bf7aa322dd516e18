package strictjson

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// plainReader reads objects token by token, without the reflection that decodes other
// types. It is reused.
type plainReader struct {
	buf bytes.Buffer
	dec jsontext.Decoder
}

var plainReaders = sync.Pool{New: func() any { return new(plainReader) }}

func readPlain(data []byte) *plainReader {
	r := plainReaders.Get().(*plainReader)
	r.buf = *bytes.NewBuffer(data) // the decoder reads from it without a copy
	r.dec.Reset(&r.buf)
	return r
}

func (r *plainReader) release() {
	r.buf = bytes.Buffer{} // keeps no input alive
	plainReaders.Put(r)
}

// quickObject decodes an object whose bounds were checked. It returns false for other
// values and invalid input, for which the general decoder finds the error.
func quickObject(data []byte, d anyDecoder) (map[string]any, bool) {
	r := readPlain(data)
	defer r.release()
	if r.dec.PeekKind() != '{' {
		return nil, false
	}
	var v any
	if err := d.value(&r.dec, &v); err != nil {
		return nil, false
	}
	if _, err := r.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	m, ok := v.(map[string]any)
	return m, ok
}
