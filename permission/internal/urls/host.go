package urls

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// Lengths of a name, as DNS has them.
const (
	maxName  = 253
	maxLabel = 63
)

// cleanHost gives the one form of a host, and whether it is an address.
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
			return "", false, fault("has a number as host that is no plain IPv4 address")
		}
		return addr.String(), true, nil
	}
	if len(name) > maxName {
		return "", false, fault("has a host name longer than %d bytes", maxName)
	}
	for _, l := range labels {
		if !validLabel(l) {
			return "", false, fault("has a host name that DNS does not know: labels are 1 to %d letters, digits, - and _", maxLabel)
		}
	}
	return name, false, nil
}

// toLower changes ASCII letters alone: what others become is the business of
// toASCII.
func toLower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// cleanIPv6 reads what stands in brackets. An IPv4 address in IPv6 clothing
// leads to the IPv4 address, so it is one.
func cleanIPv6(text string) (string, bool, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false, fault("has no IPv6 address in its brackets")
	}
	return addr.Unmap().String(), true, nil
}

// isNumeric reports whether a last label makes clients read the whole host as a
// number: then "0x7f.1", "2130706433" and "0177.0.0.1" are all 127.0.0.1.
func isNumeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.IndexFunc(hex, func(r rune) bool { return r >= 0x80 || !isHex(byte(r)) }) < 0
	}
	return label != "" && strings.IndexFunc(label, func(r rune) bool { return r < '0' || r > '9' }) < 0
}

func validLabel(l string) bool {
	if l == "" || len(l) > maxLabel || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for _, c := range []byte(l) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// The two ways in which clients turn a name into ASCII; they differ in ß and
// three other characters.
var present, former = profile(false), profile(true)

func profile(transitional bool) *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckHyphens(false), idna.CheckJoiners(true),
		idna.StrictDomainName(true), idna.Transitional(transitional))
}

// toASCII writes an international name in punycode. One that names two hosts,
// depending on the client, is refused.
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
