package paths

import (
	"path"
	"strings"
)

// Match reports whether the cleaned path fits the pattern as a whole. In a
// segment "*" is any text, "?" any one character; "**" as a segment is any
// number of segments, none included. Nothing else is special; a pattern has no
// "." and ".." segments.
//
// An absolute pattern needs an absolute path and a relative one a relative
// path; that they differ is an error, because such a rule never does its work.
func Match(p, pattern string) (bool, error) {
	if err := CheckPattern(pattern); err != nil {
		return false, err
	}
	c, err := Clean(p)
	if err != nil {
		return false, err
	}
	if (c[0] == '/') != (pattern[0] == '/') {
		return false, fault("and its pattern must both be absolute or both relative")
	}
	return matchSegments(segments(c), segments(pattern)), nil
}

// MaxPattern is the longest pattern, in bytes: matching takes time in
// proportion to the product of both lengths.
const MaxPattern = 256

// CheckPattern says whether a text is a pattern of Match.
func CheckPattern(pattern string) error {
	if err := check(pattern); err != nil {
		return err
	}
	if len(pattern) > MaxPattern {
		return fault("pattern is longer than 256 bytes")
	}
	if path.Clean(pattern) != pattern {
		return fault("pattern is not clean: it has . or .. or a separator too many")
	}
	for _, s := range segments(pattern) {
		if s != "**" && strings.Contains(s, "**") {
			return fault("pattern has ** together with other text in one segment")
		}
	}
	return nil
}

func segments(clean string) []string {
	clean = strings.TrimPrefix(clean, "/")
	if clean == "" || clean == "." {
		return nil
	}
	return strings.Split(clean, "/")
}

// matchSegments takes time in proportion to the product of the lengths: of
// several "**" only the last one is ever tried again.
func matchSegments(path, pattern []string) bool {
	retryPath, retryPattern := -1, -1
	i, j := 0, 0
	for i < len(path) {
		switch {
		case j < len(pattern) && pattern[j] == "**":
			retryPath, retryPattern = i, j
			j++
		case j < len(pattern) && matchText(path[i], pattern[j]):
			i, j = i+1, j+1
		case retryPattern >= 0:
			retryPath++
			i, j = retryPath, retryPattern+1
		default:
			return false
		}
	}
	for j < len(pattern) && pattern[j] == "**" {
		j++
	}
	return j == len(pattern)
}

// matchText is the same for the characters of one segment.
func matchText(text, pattern string) bool {
	t, p := []rune(text), []rune(pattern)
	retryText, retryPattern := -1, -1
	i, j := 0, 0
	for i < len(t) {
		switch {
		case j < len(p) && p[j] == '*':
			retryText, retryPattern = i, j
			j++
		case j < len(p) && (p[j] == '?' || p[j] == t[i]):
			i, j = i+1, j+1
		case retryPattern >= 0:
			retryText++
			i, j = retryText, retryPattern+1
		default:
			return false
		}
	}
	for j < len(p) && p[j] == '*' {
		j++
	}
	return j == len(p)
}
