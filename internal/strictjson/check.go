package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// Check reports whether data is one acceptable JSON value, without decoding it.
func Check(data []byte, opts ...Option) error {
	if err := bounds("check", data, limitsOf(opts)); err != nil {
		return err
	}
	r := readPlain(data)
	defer r.release()
	if err := r.dec.SkipValue(); err != nil {
		return errorOf("check", err)
	}
	return atEnd("check", &r.dec)
}

// Bounds checks only size and nesting, for which it needs no parser. It does not check
// syntax. It is for callers with a strict parser of their own, and for output of
// [Marshal], in which Check could find no other error.
func Bounds(data []byte, opts ...Option) error { return bounds("check", data, limitsOf(opts)) }

// bounds checks size and nesting without a parser, so that the parser, which
// recurses, never sees hostile nesting.
func bounds(op string, data []byte, l limits) error {
	if len(data) > l.bytes {
		return &Error{Op: op, Offset: int64(l.bytes), Err: fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, len(data), l.bytes)}
	}
	if at := tooDeep(data, l.depth); at >= 0 {
		return &Error{Op: op, Path: pointerAt(data, at), Offset: int64(at), Err: fmt.Errorf("%w: over %d levels", ErrTooDeep, l.depth)}
	}
	return nil
}

// tooDeep returns the offset of the first bracket that opens level limit+1, or
// -1. On invalid JSON its count may be wrong, but only after the point where
// any parser stops, so no parser goes deeper than limit.
func tooDeep(data []byte, limit int) int {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= limit {
		return -1
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = TextEnd(data, i)
		case '{', '[':
			if depth++; depth > limit {
				return i
			}
		case '}', ']':
			depth--
		}
	}
	return -1
}

// TextEnd returns the offset of the quote that ends the string beginning at i, or the end of data.
func TextEnd(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return i
}

// pointerAt returns the JSON pointer of the last value that begins before offset at,
// for error texts.
func pointerAt(data []byte, at int) string {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data[:at]))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return string(dec.StackPointer())
		}
	}
}

// atEnd returns an error if anything but white space is left.
func atEnd(op string, dec *jsontext.Decoder) error {
	switch _, err := dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &Error{Op: op, Offset: dec.InputOffset(), Err: fmt.Errorf("%w: a second value after the first", ErrSyntax)}
	default:
		return errorOf(op, err)
	}
}
