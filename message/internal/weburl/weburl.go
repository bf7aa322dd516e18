// Package weburl normalizes URLs according to the WHATWG URL standard, like the library that
// AgentScope uses: recorded rows compare the two.
//
// It accepts every spelling that browsers accept. Rules judge URLs with package
// permission/internal/urls, which refuses what programs read in different ways. The two
// contracts exclude each other, so each has its own parser.
package weburl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Normalize parses an absolute URL and returns its normal form: scheme and host in lower
// case, no default ports and dot segments, and everything percent-encoded that must be. The
// normal form of a normal form is the same.
//
// It refuses hosts with characters outside ASCII, because converting them to xn-- form needs
// the Unicode tables of IDNA, and a wrong table gives another host.
func Normalize(raw string) (string, error) {
	s := strings.Trim(raw, c0AndSpace)
	s = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || !isScheme(scheme) {
		return "", fmt.Errorf("%.60q is not an absolute URL: it does not begin with a scheme such as https", raw)
	}
	u := href{scheme: strings.ToLower(scheme)}
	_, u.special = defaultPorts[u.scheme]
	if err := u.parse(rest); err != nil {
		return "", fmt.Errorf("%.60q is not a valid URL: %w", raw, err)
	}
	return u.String(), nil
}

// defaultPorts lists the special schemes; file has no port.
var defaultPorts = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

// The standard's percent-encode sets, beyond controls and non-ASCII. The current standard
// also encodes ^ in paths, but the library behind the upstream version that we follow does
// not.
const (
	opaqueSet       = ""
	fragmentSet     = " \"<>`"
	querySet        = " \"#<>"
	specialQuerySet = querySet + "'"
	pathSet         = querySet + "?`{}"
	userinfoSet     = pathSet + "/:;=@[\\]^|"
)

// c0AndSpace is trimmed from both ends.
var c0AndSpace = func() string {
	var b []byte
	for c := byte(0); c <= ' '; c++ {
		b = append(b, c)
	}
	return string(b)
}()

// href holds the parts of a URL, each in normal form.
type href struct {
	scheme   string
	special  bool
	hasHost  bool
	userinfo string // with the @
	host     string
	port     string // with the :
	path     string
	tail     string // query and fragment, with ? and #
}

func (u *href) String() string {
	s := u.scheme + ":"
	switch {
	case u.hasHost:
		s += "//" + u.userinfo + u.host + u.port
	case strings.HasPrefix(u.path, "//"):
		s += "/." // otherwise the path would be read as a host
	}
	return s + u.path + u.tail
}

// parse parses what follows the scheme and its colon.
func (u *href) parse(rest string) error {
	rest, fragment, hasFragment := strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	if hasQuery {
		set := querySet
		if u.special {
			set = specialQuerySet
		}
		u.tail = "?" + percentEncode(query, set)
	}
	if hasFragment {
		u.tail += "#" + percentEncode(fragment, fragmentSet)
	}
	switch {
	case u.scheme == "file":
		return u.parseFile(strings.ReplaceAll(rest, `\`, "/"))
	case u.special:
		rest = strings.TrimLeft(strings.ReplaceAll(rest, `\`, "/"), "/")
		return u.parseAuthority(rest)
	case strings.HasPrefix(rest, "//"):
		return u.parseAuthority(rest[2:])
	case strings.HasPrefix(rest, "/"):
		u.path = u.segments(rest[1:])
	default:
		u.path = percentEncode(rest, opaqueSet)
	}
	return nil
}

// parseFile parses the rest of a file: URL, in which \ is already /.
func (u *href) parseFile(rest string) error {
	u.hasHost = true
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		host, path, _ := strings.Cut(after, "/")
		switch {
		case isDriveLetter(host): // file://C:/x: no host, a path
			path = after
		case host != "":
			h, err := parseHost(host, true)
			if err != nil {
				return err
			}
			if h != "localhost" {
				u.host = h
			}
		}
		u.path = u.segments(path)
		return nil
	}
	u.path = u.segments(strings.TrimPrefix(rest, "/"))
	return nil
}

// parseAuthority parses user, host, port and path.
func (u *href) parseAuthority(rest string) error {
	u.hasHost = true
	authority, path, slash := strings.Cut(rest, "/")
	hostport := authority
	at := strings.LastIndex(authority, "@")
	if at >= 0 {
		u.setUserinfo(authority[:at])
		hostport = authority[at+1:]
	}
	host, port := splitPort(hostport)
	if host == "" && (u.special || at >= 0 || port != "") {
		return errors.New("the host is missing")
	}
	var err error
	if host != "" {
		if u.host, err = parseHost(host, u.special); err != nil {
			return err
		}
	}
	if err := u.setPort(port); err != nil {
		return err
	}
	if u.special || slash {
		u.path = u.segments(path)
	}
	return nil
}

func (u *href) setUserinfo(s string) {
	user, password, _ := strings.Cut(s, ":")
	u.userinfo = percentEncode(user, userinfoSet)
	if password != "" {
		u.userinfo += ":" + percentEncode(password, userinfoSet)
	}
	if u.userinfo != "" {
		u.userinfo += "@"
	}
}

// splitPort cuts at the first colon outside brackets; the port keeps it.
func splitPort(s string) (host, port string) {
	inBrackets := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			inBrackets = true
		case ']':
			inBrackets = false
		case ':':
			if !inBrackets {
				return s[:i], s[i:]
			}
		}
	}
	return s, ""
}

func (u *href) setPort(port string) error {
	digits := strings.TrimPrefix(port, ":")
	if digits == "" {
		return nil
	}
	if strings.Trim(digits, "0123456789") != "" {
		return errors.New("the port is not a number")
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return errors.New("the port is over 65535")
	}
	if p := strconv.FormatUint(n, 10); p != defaultPorts[u.scheme] {
		u.port = ":" + p
	}
	return nil
}

// segments resolves and encodes a path without its first slash.
func (u *href) segments(path string) string {
	var out []string
	parts := strings.Split(path, "/")
	for i, seg := range parts {
		last := i == len(parts)-1
		switch dots(seg) {
		case 2:
			if len(out) > 0 && !(u.scheme == "file" && len(out) == 1 && isDriveLetter(out[0])) {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		case 1:
			if last {
				out = append(out, "")
			}
		default:
			if u.scheme == "file" && len(out) == 0 && isDriveLetter(seg) {
				seg = seg[:1] + ":"
			}
			out = append(out, percentEncode(seg, pathSet))
		}
	}
	return "/" + strings.Join(out, "/")
}

// dots returns 1 if a segment means this folder, 2 for the parent folder, otherwise 0.
func dots(seg string) int {
	if len(seg) > 6 {
		return 0
	}
	switch strings.ReplaceAll(strings.ToLower(seg), "%2e", ".") {
	case ".":
		return 1
	case "..":
		return 2
	}
	return 0
}

// isDriveLetter reports whether s has the form C: or C|.
func isDriveLetter(s string) bool {
	return len(s) == 2 && isLetter(s[0]) && (s[1] == ':' || s[1] == '|')
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isScheme(s string) bool {
	return s != "" && isLetter(s[0]) && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.") == ""
}

// percentEncode encodes controls, non-ASCII and the bytes of set.
func percentEncode(s, set string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || strings.IndexByte(set, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
