// Package paths compares file paths without touching files: cleaned, by whole
// segments, and never by how their texts begin.
//
//	ok, err := paths.Within("/srv/app/../secrets/k", "/srv/app") // false
//
// It refuses what programs read in several ways: NUL and other control
// characters, backslashes, drives, a leading "~" or "//". Where Windows or a file
// system without case reads a path differently, a comparison whose result depends
// on that is an error; see [Fold]. A relative path names a file only together with
// a folder; see [Join].
//
// Cleaning is textual. Where a folder on the way is a symbolic link, "a/../b"
// and the file system may disagree, and a path inside a folder may lead out of
// it; who prepares a request resolves links before.
package paths

import (
	"path"
	"strings"
	"unicode"
)

// MaxLen is the longest path that is read, in bytes: PATH_MAX of Linux.
const MaxLen = 4096

// Error says why a text is no path that every program reads alike.
type Error struct{ Msg string }

// Error gives the reason. It does not repeat the path.
func (e *Error) Error() string { return "path " + e.Msg }

func fault(msg string) error { return &Error{msg} }

func check(p string) error {
	switch {
	case p == "":
		return fault("is empty")
	case len(p) > MaxLen:
		return fault("is longer than 4096 bytes")
	case p[0] == '~':
		return fault("begins with ~, which some programs replace by a home folder")
	case strings.IndexByte(p, '\\') >= 0:
		return fault("contains a backslash, which some programs read as a separator")
	case hasDrive(p):
		return fault("begins with a drive, which only Windows reads as one")
	case strings.HasPrefix(p, "//"):
		return fault("begins with //, which some systems read as the name of another machine")
	case strings.IndexFunc(p, hasHidden) >= 0:
		return fault("contains characters that cannot be seen")
	}
	return nil
}

func hasHidden(r rune) bool {
	if r < 0x80 {
		return r < ' ' || r == 0x7f
	}
	return r == unicode.ReplacementChar || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Clean resolves "." and ".." and doubled separators in the text. The result of
// an absolute path is absolute; one that leads above "/" stays at "/".
func Clean(p string) (string, error) {
	if err := check(p); err != nil {
		return "", err
	}
	return path.Clean(p), nil
}

// Abs is Clean for paths that must be absolute.
func Abs(p string) (string, error) {
	if err := check(p); err != nil {
		return "", err
	}
	if p[0] != '/' {
		return "", fault("is not absolute: join it with the folder in which it is used")
	}
	return path.Clean(p), nil
}

// Join is the absolute path that a program running in dir, which must be
// absolute, opens for p: p itself where it is absolute.
func Join(dir, p string) (string, error) {
	base, err := Abs(dir)
	if err != nil {
		return "", err
	}
	if err := check(p); err != nil {
		return "", err
	}
	if p[0] == '/' {
		return path.Clean(p), nil
	}
	// Cleaned as a whole, so that ".." of p leaves dir.
	return path.Clean(base + "/" + p), nil
}

// Within reports whether p is dir or below it. Both must be absolute.
func Within(p, dir string) (bool, error) {
	inner, err := Abs(p)
	if err != nil {
		return false, err
	}
	outer, err := Abs(dir)
	if err != nil {
		return false, err
	}
	return isBelow(inner, outer)
}

// WithinAny reports whether p is one of dirs or below one. All must be
// absolute, also those behind the one that fits; no dirs contain nothing.
func WithinAny(p string, dirs []string) (bool, error) {
	inner, err := Abs(p)
	if err != nil {
		return false, err
	}
	found := false
	for _, d := range dirs {
		outer, err := Abs(d)
		if err != nil {
			return false, err
		}
		below, err := isBelow(inner, outer)
		if err != nil {
			return false, err
		}
		found = found || below
	}
	return found, nil
}

// isBelow compares as written and folded.
func isBelow(inner, outer string) (bool, error) {
	innerFolded, err := Fold(inner)
	if err != nil {
		return false, err
	}
	outerFolded, err := Fold(outer)
	if err != nil {
		return false, err
	}
	below := hasPrefix(inner, outer)
	if below != hasPrefix(innerFolded, outerFolded) {
		return false, errTwoReadings
	}
	return below, nil
}

var errTwoReadings = fault("has a name in other case, or with a dot, blank or colon at its end, which systems read differently")

func hasPrefix(inner, outer string) bool {
	if outer == "/" {
		return true
	}
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '/')
}

// Base is the last segment of the cleaned path, "/" for the root.
func Base(p string) (string, error) {
	c, err := Clean(p)
	if err != nil {
		return "", err
	}
	folded, err := Fold(c)
	if err != nil {
		return "", err
	}
	if path.Base(folded) != foldCase(path.Base(c)) {
		return "", errTwoReadings
	}
	return path.Base(c), nil
}

// Dir is the cleaned path without its last segment.
func Dir(p string) (string, error) {
	c, err := Clean(p)
	return path.Dir(c), err
}

// Ext is the last segment's text from its last dot on, with the dot; "" for
// none, and for a name that only begins with a dot.
func Ext(p string) (string, error) {
	b, err := Base(p)
	if err != nil {
		return "", err
	}
	if i := strings.LastIndexByte(b, '.'); i > 0 {
		return b[i:], nil
	}
	return "", nil
}

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
	folded, err := Fold(c)
	if err != nil {
		return false, err
	}
	matches := matchSegments(segments(c), segments(pattern))
	if matches != matchSegments(segments(folded), segments(FoldPattern(pattern))) {
		return false, errTwoReadings
	}
	return matches, nil
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

func matchSegments(path, pattern []string) bool {
	return matchWild(path, pattern, "**", matchText)
}

func matchText(text, pattern string) bool {
	return matchWild([]rune(text), []rune(pattern), '*', func(r, p rune) bool { return p == '?' || p == r })
}

// matchWild takes time in proportion to the product of the lengths: of several
// wildcards only the last one is ever tried again.
func matchWild[T comparable](text, pattern []T, wild T, fits func(text, pattern T) bool) bool {
	retryText, retryPattern := -1, -1
	i, j := 0, 0
	for i < len(text) {
		switch {
		case j < len(pattern) && pattern[j] == wild:
			retryText, retryPattern = i, j
			j++
		case j < len(pattern) && fits(text[i], pattern[j]):
			i, j = i+1, j+1
		case retryPattern >= 0:
			retryText++
			i, j = retryText, retryPattern+1
		default:
			return false
		}
	}
	for j < len(pattern) && pattern[j] == wild {
		j++
	}
	return j == len(pattern)
}
