package message

import (
	"encoding/base64"
	"fmt"
)

// joinBase64 decodes two base64 texts, each with its own padding, and encodes
// their bytes as one.
func joinBase64(a, b string) (string, error) {
	bytes, err := decodeBase64(nil, a)
	if err != nil {
		return "", fmt.Errorf("what is there already is %w", err)
	}
	if bytes, err = decodeBase64(bytes, b); err != nil {
		return "", fmt.Errorf("the chunk is %w", err)
	}
	return base64.StdEncoding.EncodeToString(bytes), nil
}

// decodeBase64 appends the bytes of s as Python's lenient decoder reads them:
// ASCII characters outside the standard alphabet (line ends, - and _ too) are
// dropped, everything after complete padding is ignored, missing padding is an
// error, and so is text that is not ASCII.
func decodeBase64(dst []byte, s string) ([]byte, error) {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return nil, fmt.Errorf("%w: byte %d is not ASCII", ErrNotBase64, i)
		}
	}
	var quad uint32 // the bits of the characters since the last whole group
	n, pads := 0, 0 // characters in quad, padding seen behind them
	for i := range len(s) {
		if s[i] == '=' {
			if n >= 2 {
				if pads++; n+pads >= 4 {
					return appendQuad(dst, quad, n), nil
				}
			}
			continue
		}
		v := sextet(s[i])
		if v < 0 {
			continue
		}
		pads = 0
		quad = quad<<6 | uint32(v)
		if n++; n == 4 {
			dst = append(dst, byte(quad>>16), byte(quad>>8), byte(quad))
			quad, n = 0, 0
		}
	}
	switch n {
	case 0:
		return dst, nil
	case 1:
		return nil, fmt.Errorf("%w: one character is left over", ErrNotBase64)
	default:
		return nil, fmt.Errorf("%w: the padding is missing", ErrNotBase64)
	}
}

// appendQuad appends the whole bytes of a group that ended after n characters.
func appendQuad(dst []byte, quad uint32, n int) []byte {
	switch n {
	case 2:
		return append(dst, byte(quad>>4))
	case 3:
		return append(dst, byte(quad>>10), byte(quad>>2))
	}
	return dst
}

// sextet is the value of a base64 character, or -1.
func sextet(c byte) int {
	switch {
	case 'A' <= c && c <= 'Z':
		return int(c - 'A')
	case 'a' <= c && c <= 'z':
		return int(c-'a') + 26
	case '0' <= c && c <= '9':
		return int(c-'0') + 52
	case c == '+':
		return 62
	case c == '/':
		return 63
	}
	return -1
}
