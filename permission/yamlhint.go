package permission

import (
	"bytes"
	"unicode/utf8"
)

// notUTF8 is where a file stops being UTF-8, and what it may be instead.
func notUTF8(data []byte) (line, col int, hint string) {
	hint = "save it as UTF-8"
	if bytes.HasPrefix(data, []byte{0xff, 0xfe}) || bytes.HasPrefix(data, []byte{0xfe, 0xff}) {
		return 1, 1, "it looks like UTF-16: save it as UTF-8"
	}
	at := 0
	for at < len(data) {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	line, col = position(data, at)
	return line, col, hint
}

// position is the place of a byte: line and column from 1, in characters.
func position(data []byte, at int) (line, col int) {
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return bytes.Count(data[:start], []byte("\n")) + 1, utf8.RuneCount(data[start:at]) + 1
}
