package object

import (
	"math"
	"strconv"

	"github.com/askance-dev/askance/internal/strictjson"
)

// Writer appends one object. Members stand in the order of the calls.
type Writer struct {
	buf   []byte
	more  bool // a comma is due before the next member
	names map[string]bool
	err   error
}

// Write begins an object behind dst.
func Write(dst []byte) *Writer { return &Writer{buf: append(dst, '{'), names: map[string]bool{}} }

// End closes the object. After an error what stands in the buffer is of no use.
func (w *Writer) End() ([]byte, error) { return append(w.buf, '}'), w.err }

// Put writes a member by a function that appends its value.
func (w *Writer) Put(name string, value func(dst []byte) ([]byte, error)) {
	if w.err != nil {
		return
	}
	if w.names[name] {
		w.err = strictjson.Within(strictjson.Wrong(strictjson.ErrDuplicateName, "%.60q", name), "encode", "", -1)
		return
	}
	w.names[name] = true
	if w.more {
		w.buf = append(w.buf, ',')
	}
	w.more = true
	buf, err := strictjson.AppendString(w.buf, name)
	if err == nil {
		buf, err = value(append(buf, ':'))
	}
	if err != nil {
		w.err = strictjson.Within(err, "encode", strictjson.Step(name), -1)
		return
	}
	w.buf = buf
}

// Text writes a string.
func (w *Writer) Text(name, s string) {
	w.Put(name, func(dst []byte) ([]byte, error) { return strictjson.AppendString(dst, s) })
}

// TextIf writes a string unless it is empty.
func (w *Writer) TextIf(name, s string) {
	if s != "" {
		w.Text(name, s)
	}
}

// TextPtr writes a string, or null.
func (w *Writer) TextPtr(name string, s *string) {
	if s == nil {
		w.Raw(name, nil)
		return
	}
	w.Text(name, *s)
}

// Int writes an integer.
func (w *Writer) Int(name string, i int64) {
	w.Put(name, func(dst []byte) ([]byte, error) { return strconv.AppendInt(dst, i, 10), nil })
}

// Bool writes a boolean.
func (w *Writer) Bool(name string, b bool) {
	w.Put(name, func(dst []byte) ([]byte, error) { return strconv.AppendBool(dst, b), nil })
}

// Raw writes JSON byte for byte, null if there is none.
func (w *Writer) Raw(name string, raw []byte) {
	w.Put(name, func(dst []byte) ([]byte, error) { return Raw(dst, raw) })
}

// Raw appends JSON byte for byte, null if there is none. It must be one valid
// value.
func Raw(dst, raw []byte) ([]byte, error) {
	if raw == nil {
		return append(dst, "null"...), nil
	}
	if err := strictjson.Check(raw, strictjson.MaxBytes(math.MaxInt)); err != nil {
		return dst, err
	}
	return append(dst, raw...), nil
}

// Object writes an object.
func (w *Writer) Object(name string, members func(*Writer)) {
	w.Put(name, func(dst []byte) ([]byte, error) {
		in := Write(dst)
		members(in)
		return in.End()
	})
}

// Array writes an array of n values, each appended by item.
func (w *Writer) Array(name string, n int, item func(dst []byte, i int) ([]byte, error)) {
	w.Put(name, func(dst []byte) ([]byte, error) { return Array(dst, n, item) })
}

// Array appends an array of n values.
func Array(dst []byte, n int, item func(dst []byte, i int) ([]byte, error)) ([]byte, error) {
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = item(dst, i); err != nil {
			return dst, strictjson.Within(err, "encode", "/"+strconv.Itoa(i), -1)
		}
	}
	return append(dst, ']'), nil
}
