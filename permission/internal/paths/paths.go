// Package paths compares file paths without reading files: cleaned, by whole segments, and never by
// how their texts begin.
//
//	ok, err := paths.Within("/srv/app/../secrets/k", "/srv/app") // false
//
// It refuses texts that programs read in different ways: NUL and other control characters,
// backslashes, drives, a leading "~" or "//", and links of processes such as /proc/self/root. If
// Windows or a case-insensitive file system reads a path differently and that would change the
// result of a comparison, it is an error; see [Fold]. A relative path names a file only together
// with a folder; see [Join].
//
// Cleaning is textual. If a folder on the way is a symbolic link, "a/../b" and the file system may
// disagree, and a path inside a folder may lead out of it; the caller must resolve
// links first.
package paths

import (
	"path"
	"regexp"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/askance-dev/askance/toolcall"
)

// MaxLen is the length limit of a path in bytes: PATH_MAX on Linux.
const MaxLen = 4096

// Error says why a text is not a path that every program reads alike.
type Error struct{ Msg string }

// Error returns the reason. It does not repeat the path.
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
	case strings.IndexFunc(p, toolcall.IsHidden) >= 0:
		return fault("contains characters that cannot be seen")
	}
	return checkLinks(p)
}

// checkLinks refuses an absolute path through a link that Linux has in every process: it leads
// anywhere, as /proc/self/root does.
func checkLinks(p string) error {
	if !strings.Contains(p, "proc") && !strings.Contains(p, "dev") {
		return nil
	}
	for i, c := range p + "/" {
		if c == '/' && ofProcess.MatchString(path.Clean(p[:i])) {
			return fault("leads through a link of a process, so it can name any file")
		}
	}
	return nil
}

var ofProcess = regexp.MustCompile(`^/(?:proc/[^/]+(?:/task/[^/]+)?/(?:cwd|root|exe|fd|map_files)|dev/(?:fd|std(?:in|out|err)))$`)

// Clean resolves ".", ".." and double separators in the text. The result for an absolute path is
// absolute; one that leads above "/" stays at "/".
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
		return "", fault("is not absolute: join it with the folder it is used in")
	}
	return path.Clean(p), nil
}

// Join returns the absolute path that a program running in dir, which must be absolute, opens for
// p: p itself if it is absolute.
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
	whole := base + "/" + p // cleaned as a whole, so that ".." in p can leave dir
	if err := checkLinks(whole); err != nil {
		return "", err
	}
	return path.Clean(whole), nil
}

// Within reports whether p is dir or below it. Both must be absolute.
func Within(p, dir string) (bool, error) { return WithinAny(p, []string{dir}) }

// WithinAny reports whether p is one of dirs or below one. All must be absolute, even those after a
// match. Without dirs the result is false.
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

// isBelow compares the paths as written and folded.
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

var errTwoReadings = fault("has a name in a different case, or with a dot, space or colon at its end, which systems read differently")

func hasPrefix(inner, outer string) bool {
	if outer == "/" {
		return true
	}
	rest, ok := strings.CutPrefix(inner, outer)
	return ok && (rest == "" || rest[0] == '/')
}

// Base returns the last segment of the cleaned path, "/" for the root.
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

// Dir returns the cleaned path without its last segment.
func Dir(p string) (string, error) {
	c, err := Clean(p)
	return path.Dir(c), err
}

// Ext returns the last segment's extension with its dot, starting at the last dot; "" if there is
// none or the name only begins with a dot.
func Ext(p string) (string, error) {
	b, err := Base(p)
	if err != nil {
		return "", err
	}
	if i := strings.LastIndexByte(b, '.'); i > 0 && b != ".." {
		return b[i:], nil
	}
	return "", nil
}

// Match reports whether the whole cleaned path matches the pattern. In a segment "*" is any text
// and "?" any one character; "**" as a segment is any number of segments, including none. Nothing
// else is special; a pattern has no "." or ".." segments.
//
// An absolute pattern needs an absolute path, and a relative pattern a relative path. A mismatch is
// an error, because such a rule would never do its work.
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

// MaxPattern is the length limit of a pattern in bytes: matching takes time proportional to the
// product of both lengths.
const MaxPattern = 256

// CheckPattern reports why a text is not a pattern for Match.
func CheckPattern(pattern string) error {
	if err := check(pattern); err != nil {
		return err
	}
	if len(pattern) > MaxPattern {
		return fault("pattern is longer than 256 bytes")
	}
	if path.Clean(pattern) != pattern {
		return fault("pattern is not clean: it has . or .. or an extra separator")
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

// matchWild takes time proportional to the product of the lengths: it backtracks only to the last
// wildcard.
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

// Paths of other systems. Windows reads many texts as the same path: C:\Data\k, c:/data/K,
// \\?\C:\data\k, /data/k., /data/k::$DATA. A call does not say which system its tool runs on, so a
// comparison must hold under both readings.

// IsForeign reports whether only Windows reads the text as a path: with backslashes, a drive, or
// the name of another machine.
func IsForeign(p string) bool {
	return strings.IndexByte(p, '\\') >= 0 || hasDrive(p) || strings.HasPrefix(p, "//")
}

// Fold returns a common spelling of all texts that Windows, or a case-insensitive file system,
// reads as the same path: cleaned, with slashes, in lower case, composed, and without the drive,
// streams (k:s), and dots and spaces at the ends of names. It is an error if the text does not determine
// the file.
func Fold(p string) (string, error) {
	if isFolded(p) {
		return p, nil
	}
	p = strings.ReplaceAll(p, `\`, "/")
	if rest, ok := strings.CutPrefix(p, "//?/"); ok && hasDrive(rest) {
		p = rest
	} else if rest, ok := strings.CutPrefix(p, "//./"); ok && hasDrive(rest) {
		p = rest
	}
	switch {
	case strings.HasPrefix(p, "//"), strings.HasPrefix(p, "/??/"):
		return "", fault("begins like the name of another machine or of a device, as Windows reads it")
	case hasDrive(p) && (len(p) == 2 || p[2] != '/'):
		return "", fault("names a drive without a folder, which Windows reads relative to the drive's current folder")
	case hasDrive(p):
		p = p[2:]
	}
	parts := strings.Split(p, "/")
	for i, part := range parts {
		if part == "" || part == "." || part == ".." {
			continue
		}
		name, err := foldName(part)
		if err != nil {
			return "", err
		}
		parts[i] = name
	}
	if device.MatchString(parts[len(parts)-1]) {
		return "", fault("ends in the name of a Windows device")
	}
	return path.Clean(strings.Join(parts, "/")), nil
}

func foldName(name string) (string, error) {
	name, _, _ = strings.Cut(name, ":")
	name = strings.TrimRight(name, ". ")
	switch {
	case name == "":
		return "", fault("has a name of only dots and spaces, which systems read differently")
	case shortName.MatchString(name):
		return "", fault("has a name such as PROGRA~1, which on Windows can stand for any longer name")
	}
	return foldCase(name), nil
}

// FoldPattern folds a path pattern for comparison with results of Fold.
func FoldPattern(pattern string) string {
	pattern = strings.ReplaceAll(pattern, `\`, "/")
	for _, prefix := range []string{"//?/", "//./"} {
		if rest, ok := strings.CutPrefix(pattern, prefix); ok && hasDrive(rest) {
			pattern = rest
		}
	}
	if hasDrive(pattern) {
		pattern = pattern[2:]
	}
	return foldCase(pattern)
}

// Drive returns the drive that a path or pattern begins with, in lower case; "" if it has none.
func Drive(p string) string {
	p = strings.TrimPrefix(strings.TrimPrefix(strings.ReplaceAll(p, `\`, "/"), "//?/"), "//./")
	if !hasDrive(p) {
		return ""
	}
	return strings.ToLower(p[:1])
}

var (
	shortName = regexp.MustCompile(`^[^.~ ]{1,7}~[0-9]{1,6}(\.[^.]{0,3})?$`)
	device    = regexp.MustCompile(`^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])$`)
)

func hasDrive(p string) bool {
	return len(p) >= 2 && p[1] == ':' && (p[0]|0x20 >= 'a' && p[0]|0x20 <= 'z')
}

// foldCase goes through upper case, so that letters with two lower-case forms become equal. As macOS
// does, it also takes ß for ss, ligatures for their letters, and composed for decomposed letters.
func foldCase(s string) string {
	s = strings.ToLower(strings.ToUpper(s))
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(s)))
}

// isFolded quickly recognizes the common case: a path that Fold would not change.
func isFolded(p string) bool {
	last := 0 // start of the last name
	for i := range len(p) {
		switch c := p[i]; {
		case c == '/':
			if i+1 == len(p) && i > 0 || i > last && endsOddly(p[i-1]) || i > 0 && p[i-1] == '/' {
				return false
			}
			last = i + 1
		case c >= 0x80, c >= 'A' && c <= 'Z', c == '\\', c == ':', c == '~', c < ' ':
			return false
		}
	}
	if p == "" || p == "." || p == "/" {
		return p != ""
	}
	return !endsOddly(p[len(p)-1]) && !device.MatchString(p[last:])
}

func endsOddly(c byte) bool { return c == '.' || c == ' ' }
