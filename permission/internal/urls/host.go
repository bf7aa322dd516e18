package urls

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// DNS limits on the length of a name.
const (
	maxName  = 253
	maxLabel = 63
)

func cleanHost(text string) (string, bool, error) {
	switch {
	case text == "":
		return "", false, fault("has no host")
	case strings.HasPrefix(text, "["):
		return cleanIPv6(strings.TrimSuffix(text[1:], "]"))
	case strings.ContainsAny(text, "%"):
		return "", false, fault("has an escape in its host")
	}
	name := toLower(text)
	if !isASCII(name) || strings.Contains(name, "xn--") {
		var err error
		if name, err = toASCII(name); err != nil {
			return "", false, err
		}
	}
	name = strings.TrimSuffix(name, ".")
	labels := strings.Split(name, ".")
	if isNumeric(labels[len(labels)-1]) {
		addr, err := netip.ParseAddr(name)
		if err != nil || !addr.Is4() {
			return "", false, fault("has a numeric host that is not a plain IPv4 address")
		}
		return addr.String(), true, nil
	}
	if len(name) > maxName {
		return "", false, fault("has a host name longer than %d bytes", maxName)
	}
	for _, l := range labels {
		if !validLabel(l) {
			return "", false, fault("has a host name that is not valid in DNS: labels are 1 to %d letters, digits, - and _", maxLabel)
		}
	}
	return name, false, nil
}

// toLower changes only ASCII letters; toASCII handles all others.
func toLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// cleanIPv6 reads an address in brackets. An IPv4-mapped IPv6 address leads to the IPv4 address, so
// it becomes one.
func cleanIPv6(text string) (string, bool, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false, fault("has no IPv6 address in its brackets")
	}
	return addr.Unmap().String(), true, nil
}

// isNumeric reports whether a last label makes clients read the whole host as a number: "0x7f.1",
// "2130706433" and "0177.0.0.1" are then all 127.0.0.1.
func isNumeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdefABCDEF") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

func validLabel(l string) bool {
	return l != "" && len(l) <= maxLabel && l[0] != '-' && l[len(l)-1] != '-' && strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// The two ways in which clients convert a name to ASCII; they differ for ß and three other
// characters.
var present, former = profile(false), profile(true)

func profile(transitional bool) *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false), idna.CheckJoiners(true),
		idna.StrictDomainName(true), idna.Transitional(transitional))
}

// toASCII converts an international name to punycode. A name that different clients convert to
// different hosts is refused.
func toASCII(name string) (string, error) {
	if len(name) > 4*maxName {
		return "", fault("has a host name that is too long")
	}
	a, err := present.ToASCII(name)
	if err != nil {
		return "", fault("has an international host name that is not valid")
	}
	if b, err := former.ToASCII(name); err != nil || a != b {
		return "", fault("has an international host name that clients read in two ways")
	}
	return a, nil
}

// Hosts is a list of hosts to compare with URLs.
type Hosts []hostEntry

// hostEntry is one entry of a list: a name, the names below one, an address, or a range of
// addresses; on every port or only one.
type hostEntry struct {
	name   string       // exact; "" with below or a range
	below  string       // ".example.com" for *.example.com
	prefix netip.Prefix // of a range
	port   int          // 0: every port
}

// ParseHosts reads the entries of a list:
//
//	example.com        that name
//	*.example.com      every name below it, not itself
//	192.0.2.7  [::1]   an address
//	10.0.0.0/8         the addresses of a range
//	example.com:8443   any of these on one port; IPv6 in brackets then
//
// An entry without a port stands for all ports. Every error is an *Error.
func ParseHosts(entries []string) (Hosts, error) {
	hosts := make(Hosts, 0, len(entries))
	for _, text := range entries {
		e, err := parseEntry(text)
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, e)
	}
	return hosts, nil
}

func parseEntry(text string) (hostEntry, error) {
	var e hostEntry
	if len(text) > 4*maxName {
		return e, fault("list has an entry that is too long")
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`\@?#`, c) >= 0 {
			return e, fault("list has an entry that is not a host")
		}
	}
	if strings.Contains(text, "/") {
		return parseRange(text)
	}
	host, port, err := splitPort(text)
	if err != nil {
		return e, err
	}
	if strings.Count(text, ":") > 1 && !strings.HasPrefix(text, "[") {
		host, port = "["+text+"]", "" // an IPv6 address without brackets
	}
	if port != "" {
		if e.port, err = parsePort(port); err != nil {
			return e, err
		}
	}
	base, below := strings.CutPrefix(host, "*.")
	if strings.Contains(base, "*") {
		return e, fault("list has a * that does not stand for all names below one; write *.example.com")
	}
	name, addr, err := cleanHost(base)
	switch {
	case err != nil:
		return e, err
	case below && addr:
		return e, fault("list has *. before an address; write a range such as 10.0.0.0/8")
	case below:
		e.below = "." + name
	default:
		e.name = name
	}
	return e, nil
}

func parseRange(text string) (hostEntry, error) {
	port := 0
	if slash, colon := strings.LastIndexByte(text, '/'), strings.LastIndexByte(text, ':'); colon > slash { // 10.0.0.0/8:8443
		var err error
		if port, err = parsePort(text[colon+1:]); err != nil {
			return hostEntry{}, err
		}
		text = text[:colon]
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return hostEntry{}, fault("list has an entry with a / that is not a range of addresses; hosts have no path")
	}
	if p != p.Masked() {
		return hostEntry{}, fault("list has a range whose address has bits outside its mask")
	}
	if p.Addr().Is4In6() {
		return hostEntry{}, fault("list has a range of IPv4 addresses written as IPv6; write it as IPv4")
	}
	return hostEntry{prefix: p, port: port}, nil
}

// Has reports whether the list contains the URL's host, on its port if the entry has one.
func (hs Hosts) Has(u URL) bool {
	return slices.ContainsFunc(hs, func(e hostEntry) bool { return e.has(u) })
}

func (e hostEntry) has(u URL) bool {
	if e.port != 0 && e.port != u.Port {
		return false
	}
	switch {
	case e.prefix.IsValid():
		addr, err := netip.ParseAddr(u.Host)
		return u.Addr && err == nil && e.prefix.Contains(addr)
	case e.below != "":
		return !u.Addr && strings.HasSuffix(u.Host, e.below)
	default:
		return u.Host == e.name
	}
}

// IPv4s returns the URL with each IPv4 address that some networks take the IPv6 address for.
func (u URL) IPv4s() []URL {
	addr, err := netip.ParseAddr(u.Host)
	if !u.Addr || err != nil || !addr.Is6() {
		return nil
	}
	var out []URL
	b := addr.As16()
	add := func(at [4]int, mask byte) {
		u.Host = netip.AddrFrom4([4]byte{b[at[0]] ^ mask, b[at[1]] ^ mask, b[at[2]] ^ mask, b[at[3]] ^ mask}).String()
		out = append(out, u)
	}
	for _, e := range embedding {
		for _, at := range e.at {
			if e.prefix.Contains(addr) {
				add(at, 0)
			}
		}
	}
	switch {
	case teredo.Contains(addr): // the address of the client is inverted
		add(inLast, 0xff)
	case b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, below any prefix
		add(inLast, 0)
	}
	return out
}

var (
	inLast = [4]int{12, 13, 14, 15}
	teredo = netip.MustParsePrefix("2001::/32")
)

// embedding are the ranges that embed an IPv4 address, with the places of its bytes: compatible,
// translated, NAT64, local NAT64 with its prefixes of 48, 56, 64 and 96 bits, 6to4, servers of Teredo.
var embedding = []struct {
	prefix netip.Prefix
	at     [][4]int
}{
	{netip.MustParsePrefix("::/96"), [][4]int{inLast}},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), [][4]int{inLast}},
	{netip.MustParsePrefix("64:ff9b::/96"), [][4]int{inLast}},
	{netip.MustParsePrefix("64:ff9b:1::/48"), [][4]int{{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, inLast}},
	{netip.MustParsePrefix("2002::/16"), [][4]int{{2, 3, 4, 5}}},
	{teredo, [][4]int{{4, 5, 6, 7}}},
}

// ErrEmbedded is the error of a question about a URL's address whose answer depends on the network.
var ErrEmbedded = &Error{Msg: "has an IPv6 address that some networks take for an IPv4 address, for which the answer is another one"}

// Private reports whether the host is known not to be public: an address that is loopback, private,
// link-local, multicast, unspecified or reserved for such use, or a name that never leaves the
// machine or the local network.
func (u URL) Private() bool {
	if u.Addr {
		addr, err := netip.ParseAddr(u.Host)
		return err != nil || !isPublic(addr)
	}
	for _, local := range []string{"localhost", "local", "internal", "localdomain", "lan", "home", "corp", "intranet", "arpa"} {
		if u.Host == local || strings.HasSuffix(u.Host, "."+local) {
			return true
		}
	}
	return !strings.Contains(u.Host, ".")
}

func isPublic(a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// special are ranges that netip does not count as private: this network, shared address space,
// protocol assignments, documentation, benchmarks, reserved, and IPv6 ranges that embed an IPv4
// address.
var special = func() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "100::/64", "2001::/23", "2001:db8::/32", "fec0::/10"} {
		out = append(out, netip.MustParsePrefix(text))
	}
	for _, e := range embedding {
		out = append(out, e.prefix)
	}
	return out
}()
