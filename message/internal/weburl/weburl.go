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
	"math"
	"net/netip"
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
	s := strings.TrimFunc(raw, func(r rune) bool { return r <= ' ' })
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

// forbiddenHost are characters that a host must not contain. Controls, and % in domains, are checked in code.
const forbiddenHost = "\x00\t\n\r #/:<>?@[\\]^|"

const del = 0x7f // the last ASCII character, a control

// parseHost parses the host of a URL. For special schemes it is a domain or an address, for
// others opaque text.
func parseHost(s string, special bool) (string, error) {
	if strings.HasPrefix(s, "[") {
		return parseIPv6(s)
	}
	if !special {
		if strings.ContainsAny(s, forbiddenHost) {
			return "", fmt.Errorf("the host %.60q contains an invalid character", s)
		}
		return percentEncode(s, opaqueSet), nil
	}
	domain := strings.ToLower(percentDecode(s))
	for i := range len(domain) {
		switch c := domain[i]; {
		case c > del:
			return "", fmt.Errorf("the host %.60q is not ASCII: write it in its xn-- form", s)
		case c < ' ', c == '%', c == del, strings.IndexByte(forbiddenHost, c) >= 0:
			return "", fmt.Errorf("the host %.60q contains an invalid character", s)
		}
	}
	if domain == "" {
		return "", errors.New("the host is missing")
	}
	if endsInNumber(domain) {
		return parseIPv4(domain)
	}
	return domain, nil
}

// percentDecode decodes what is validly encoded and leaves the rest unchanged.
func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// endsInNumber distinguishes an IPv4 address from a domain by the last label.
func endsInNumber(domain string) bool {
	labels := strings.Split(strings.TrimSuffix(domain, "."), ".")
	last := labels[len(labels)-1]
	if last == "" {
		return false
	}
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	_, err := parseNumber(last)
	return err == nil
}

// parseIPv4 accepts all spellings that browsers accept, such as 0x7f.1.
func parseIPv4(s string) (string, error) {
	bad := fmt.Errorf("the host %.60q looks like an IPv4 address, but is not one", s)
	parts := strings.Split(strings.TrimSuffix(s, "."), ".")
	if len(parts) > 4 {
		return "", bad
	}
	var addr uint64
	for i, p := range parts {
		n, err := parseNumber(p)
		room := uint64(256)
		if i == len(parts)-1 {
			room = 1 << (8 * (5 - len(parts))) // the last part fills the remaining bytes
		}
		if err != nil || n >= room {
			return "", bad
		}
		if i < len(parts)-1 {
			addr |= n << (8 * (3 - i))
		} else {
			addr |= n
		}
	}
	return netip.AddrFrom4([4]byte{byte(addr >> 24), byte(addr >> 16), byte(addr >> 8), byte(addr)}).String(), nil
}

// parseNumber parses a part of an IPv4 address: decimal, hexadecimal after 0x, or octal after
// 0.
func parseNumber(s string) (uint64, error) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"):
		if s, base = s[2:], 16; s == "" {
			return 0, nil
		}
	case len(s) > 1 && s[0] == '0':
		s, base = s[1:], 8
	}
	n, err := strconv.ParseUint(s, base, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxUint64, nil // still a number, but too large anywhere
	}
	return n, err
}

func parseIPv6(s string) (string, error) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil || !strings.HasSuffix(s, "]") || !addr.Is6() || addr.Zone() != "" {
		return "", fmt.Errorf("the host %.60q is not an IPv6 address", s)
	}
	if a := addr.As16(); addr.Is4In6() { // String writes a dotted address
		return fmt.Sprintf("[::ffff:%x:%x]", int(a[12])<<8|int(a[13]), int(a[14])<<8|int(a[15])), nil
	}
	return "[" + addr.String() + "]", nil
}
