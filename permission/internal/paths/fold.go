package paths

import (
	"path"
	"regexp"
	"strings"
)

// Paths of other systems. Windows reads many texts as the same path: C:\Data\k, c:/data/K,
// \\?\C:\data\k, /data/k., /data/k::$DATA. A call does not say which system its tool runs on, so a
// comparison must hold under both readings.

// IsForeign reports whether only Windows reads the text as a path: with backslashes, a drive, or
// the name of another machine.
func IsForeign(p string) bool {
	return strings.IndexByte(p, '\\') >= 0 || hasDrive(p) || strings.HasPrefix(p, "//")
}

// Fold returns a common spelling of all texts that Windows, or a case-insensitive file system,
// reads as the same path: cleaned, with slashes, in lower case, and without the drive, streams
// (k:s), and dots and spaces at the ends of names. It is an error if the text does not determine
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

// foldCase goes through upper case, so that letters with two lower-case forms become equal.
func foldCase(s string) string { return strings.ToLower(strings.ToUpper(s)) }

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
