// Package urls reads URLs so that every program that opens a URL goes to the host that the policy
// has judged.
//
// Programs disagree about odd URLs. "http://good.example\@evil.example" leads a browser to one
// host and a library to another. [Parse] refuses text that is read in more than one way, instead
// of picking a reading: white space, control characters, backslashes, percent signs in the host,
// more than one @, numbers that only look like IPv4 addresses, international names with two
// readings. What remains is canonical: lower case, punycode, no trailing dot, the shortest IPv6
// form, an IPv4 address in place of an IPv4-mapped IPv6 one, and an explicit port. Faults that
// concern only the path are reported only by [URL.Path].
//
//	u, err := urls.Parse("https://EXAMPLE.com.:443/a/../b")
//	u.Host, u.Port // "example.com", 443
//	u.Path()       // "/b"
//
// [Hosts] is a list of hosts to compare with; [URL.Within] compares with a base URL by whole path
// segments.
//
// The package resolves no names: a host that is not on a list can still have the address of one
// that is.
package urls

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxLen is the length limit of a URL in bytes.
const MaxLen = 8 << 10

// Error says why a text is not a URL that everyone reads alike. It does not repeat the text, which
// may contain a password.
type Error struct{ Msg string }

// Error returns the reason.
func (e *Error) Error() string { return "URL " + e.Msg }

func fault(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// URL is a URL in canonical form.
type URL struct {
	Scheme string // lower case
	User   bool   // it has a user name or a password
	// Host is a name in lower case and punycode without a trailing dot, or an address in its
	// shortest form, with IPv6 unbracketed.
	Host string
	Addr bool // Host is an address
	Port int  // 0 if none is given and the scheme has no default
	path string
}

var defaultPorts = map[string]int{"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21, "ssh": 22, "git": 9418, "nats": 4222}

// hostless are schemes whose URLs lead to no host, even if they contain one: programs open
// file://example.com/etc/passwd as a local file and run javascript://example.com/%0ax().
var hostless = map[string]bool{"file": true, "javascript": true, "vbscript": true, "data": true, "blob": true, "about": true,
	"view-source": true, "jar": true, "filesystem": true, "mailto": true, "cid": true, "urn": true}

// Parse parses an absolute URL with a host. Every error is an *Error.
func Parse(text string) (URL, error) {
	if len(text) > MaxLen {
		return URL{}, fault("is longer than %d bytes", MaxLen)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c <= ' ' || c == 0x7f:
			return URL{}, fault("contains white space or a control character")
		case c == '\\':
			return URL{}, fault("contains a backslash, which some programs read as a slash")
		}
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !validScheme(scheme) {
		return URL{}, fault("has no scheme")
	}
	u := URL{Scheme: toLower(scheme)}
	if hostless[u.Scheme] {
		return URL{}, fault("has the scheme %s, whose URLs lead to no host", u.Scheme)
	}
	rest, ok = strings.CutPrefix(rest, "//")
	if !ok {
		return URL{}, fault("has no // after its scheme, and so no host")
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	if err := u.readAuthority(rest[:end]); err != nil {
		return URL{}, err
	}
	u.path = rest[end:]
	if i := strings.IndexAny(u.path, "?#"); i >= 0 {
		u.path = u.path[:i]
	}
	return u, nil
}

func validScheme(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

func (u *URL) readAuthority(text string) error {
	switch strings.Count(text, "@") {
	case 0:
	case 1:
		user, host, _ := strings.Cut(text, "@")
		if strings.ContainsAny(user, "[]<>\"^`{|}") || !isASCII(user) {
			return fault("has a user name with characters that must be escaped")
		}
		u.User, text = true, host
	default:
		return fault("has more than one @")
	}
	host, port, err := splitPort(text)
	if err != nil {
		return err
	}
	if u.Host, u.Addr, err = cleanHost(host); err != nil {
		return err
	}
	u.Port = defaultPorts[u.Scheme]
	if port != "" {
		u.Port, err = parsePort(port)
	}
	return err
}

// splitPort splits host:port; an empty port counts as none.
func splitPort(text string) (host, port string, err error) {
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return "", "", fault("has no ] after its address")
		}
		host, port = text[:end+1], text[end+1:]
		if port != "" && port[0] != ':' {
			return "", "", fault("has text after the ] of its address")
		}
		return host, strings.TrimPrefix(port, ":"), nil
	}
	host, port, _ = strings.Cut(text, ":")
	return host, port, nil
}

func parsePort(text string) (int, error) {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, fault("has a port that is not a number")
		}
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, fault("has a port outside 1 to 65535")
	}
	return int(n), nil
}

// Origin is scheme://host:port, with IPv6 in brackets. The scheme's default port is omitted.
func (u URL) Origin() string {
	host := u.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if u.Port == defaultPorts[u.Scheme] {
		return u.Scheme + "://" + host
	}
	return u.Scheme + "://" + host + ":" + strconv.Itoa(u.Port)
}

// Path is the path without dot segments. It begins with "/" and has percent signs only for
// characters that must be escaped. A path that servers read in different ways is an *Error, which
// does not affect the host.
func (u URL) Path() (string, error) { return cleanPath(u.path) }

// Within reports whether u has the scheme, host and port of base and the same path or one below it,
// by whole segments. The error is about a path; if the hosts already differ, no path is checked.
func (u URL) Within(base URL) (bool, error) {
	root, err := base.Path()
	if err != nil {
		return false, err
	}
	switch {
	case u.Scheme != base.Scheme || u.Port != base.Port:
		return false, nil
	case u.Host != base.Host && slices.ContainsFunc(u.IPv4s(), func(v4 URL) bool { return v4.Host == base.Host }):
		return false, ErrEmbedded
	case u.Host != base.Host:
		return false, nil
	}
	path, err := u.Path()
	if err != nil {
		return false, err
	}
	return path == root || strings.HasPrefix(path, strings.TrimSuffix(root, "/")+"/"), nil
}

// cleanPath returns the canonical form of a URL's path. It refuses escapes that servers may decode
// to a separator or to another escape.
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

// unescape resolves escapes of characters that need none, and writes the others in one way.
// Characters outside ASCII are escaped.
func unescape(text string) (string, error) {
	if !strings.Contains(text, "%") && isASCII(text) {
		return text, nil
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c, escaped := text[i], false
		if c == '%' {
			n, err := strconv.ParseUint(text[i+1:min(i+3, len(text))], 16, 8)
			if err != nil || i+2 >= len(text) {
				return "", fault("has a percent sign without two hexadecimal digits")
			}
			c, escaped = byte(n), true
			i += 2
		}
		switch {
		case escaped && slices.Contains([]byte(`/\%;?#`), c), escaped && (c < ' ' || c == 0x7f):
			return "", fault("has an escape in its path that servers resolve at different times")
		case c < 0x80 && (!escaped || isUnreserved(c)):
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String(), nil
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}
