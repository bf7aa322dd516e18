package urls

import (
	"net/netip"
	"strings"
)

// Hosts is a list of hosts to compare URLs with.
type Hosts []HostEntry

// HostEntry is one entry of a list: a name, the names below one, an address,
// or a range of addresses; on every port or on one.
type HostEntry struct {
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

func parseEntry(text string) (HostEntry, error) {
	var e HostEntry
	if len(text) > 4*maxName {
		return e, fault("list has an entry that is too long")
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`\@?#`, c) >= 0 {
			return e, fault("list has an entry that is no host")
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

func parseRange(text string) (HostEntry, error) {
	port := 0
	if slash, colon := strings.LastIndexByte(text, '/'), strings.LastIndexByte(text, ':'); colon > slash { // 10.0.0.0/8:8443
		var err error
		if port, err = parsePort(text[colon+1:]); err != nil {
			return HostEntry{}, err
		}
		text = text[:colon]
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return HostEntry{}, fault("list has an entry with a / that is no range of addresses; hosts have no path")
	}
	if p != p.Masked() {
		return HostEntry{}, fault("list has a range whose address has bits outside its mask")
	}
	if p.Addr().Is4In6() {
		return HostEntry{}, fault("list has a range of IPv4 addresses written as IPv6; write it as IPv4")
	}
	return HostEntry{prefix: p, port: port}, nil
}

// Has reports whether the URL's host, and port where the entry has one, is on
// the list.
func (hs Hosts) Has(u URL) bool {
	for _, e := range hs {
		if e.has(u) {
			return true
		}
	}
	return false
}

func (e HostEntry) has(u URL) bool {
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

// Private reports whether the host is known to be no public one: an address
// that is loopback, private, link-local, multicast, unspecified or reserved for
// such use, or a name that never leaves the machine or the local network.
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
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// special are ranges that netip does not count as private: this network,
// shared address space, protocol assignments, documentation, benchmarks,
// reserved, and those IPv6 ranges that carry an IPv4 address.
var special = func() []netip.Prefix {
	var out []netip.Prefix
	for _, text := range []string{"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10"} {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}()
