package urls

import (
	"slices"
	"strings"
)

// cleanPath gives the one form of a URL's path. It refuses escapes behind which
// servers may find a separator or another escape.
func cleanPath(text string) (string, error) {
	if text == "" {
		return "/", nil
	}
	plain, err := unescape(text)
	if err != nil {
		return "", err
	}
	var kept []string
	segments := strings.Split(plain[1:], "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch {
		case s == "." && !last:
		case s == ".":
			kept = append(kept, "")
		case s == "..":
			kept = kept[:max(0, len(kept)-1)]
			if last {
				kept = append(kept, "")
			}
		case strings.HasPrefix(s, "..;"), strings.HasPrefix(s, ".;"):
			return "", fault("has a dot segment with a parameter, which some servers follow")
		case s == "" && !last:
			return "", fault("has an empty path segment, which some servers drop")
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/"), nil
}

// unescape resolves escapes of characters that can stand themselves and writes
// the others in one way. Characters outside ASCII are escaped.
func unescape(text string) (string, error) {
	if !strings.Contains(text, "%") && isASCII(text) {
		return text, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c, escaped := text[i], false
		if c == '%' {
			if i+2 >= len(text) || !isHex(text[i+1]) || !isHex(text[i+2]) {
				return "", fault("has a percent sign without two hexadecimal digits")
			}
			c, escaped = unhex(text[i+1])<<4|unhex(text[i+2]), true
			i += 2
		}
		switch {
		case escaped && slices.Contains([]byte(`/\%;?#`), c), escaped && (c < ' ' || c == 0x7f):
			return "", fault("has an escape in its path that servers resolve at different times")
		case c < 0x80 && (!escaped || isUnreserved(c)):
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		}
	}
	return b.String(), nil
}

const upperHex = "0123456789ABCDEF"

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
