package weburl

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// What may not stand in a host. Controls and %, for domains, are added in code.
const forbiddenHost = "\x00\t\n\r #/:<>?@[\\]^|"

// parseHost reads the host of a URL; the schemes that are special name
// domains and addresses, the others are opaque text.
func parseHost(s string, special bool) (string, error) {
	if strings.HasPrefix(s, "[") {
		return parseIPv6(s)
	}
	if !special {
		if strings.ContainsAny(s, forbiddenHost) {
			return "", fmt.Errorf("the host %.60q has a character that no host may have", s)
		}
		return percentEncode(s, opaqueSet), nil
	}
	domain := strings.ToLower(percentDecode(s))
	for i := range len(domain) {
		switch c := domain[i]; {
		case c > '~'+1:
			return "", fmt.Errorf("the host %.60q is not ASCII: write it in its xn-- form", s)
		case c < ' ', c == '%', c == '~'+1, strings.IndexByte(forbiddenHost, c) >= 0:
			return "", fmt.Errorf("the host %.60q has a character that no host may have", s)
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

// percentDecode decodes what is validly encoded and leaves the rest.
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

// endsInNumber tells an IPv4 address from a domain, by its last label.
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

// parseIPv4 accepts all the spellings that browsers do, 0x7f.1 among them.
func parseIPv4(s string) (string, error) {
	bad := fmt.Errorf("the host %.60q looks like an IPv4 address and is none", s)
	parts := strings.Split(strings.TrimSuffix(s, "."), ".")
	if len(parts) > 4 {
		return "", bad
	}
	var addr uint64
	for i, p := range parts {
		n, err := parseNumber(p)
		room := uint64(256)
		if i == len(parts)-1 {
			room = 1 << (8 * (5 - len(parts))) // the last part fills what is left
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

// parseNumber reads a part of an IPv4 address: decimal, 0x hexadecimal, or
// octal after a 0.
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
		return math.MaxUint64, nil // a number all the same, only too large for any place
	}
	return n, err
}

func parseIPv6(s string) (string, error) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil || !strings.HasSuffix(s, "]") || !addr.Is6() || addr.Zone() != "" {
		return "", fmt.Errorf("the host %.60q is no IPv6 address", s)
	}
	return "[" + formatIPv6(addr.As16()) + "]", nil
}

// formatIPv6 writes eight groups and shortens the first longest run of zeros,
// with no exception for embedded IPv4 addresses (netip's String makes one).
func formatIPv6(a [16]byte) string {
	var groups [8]uint16
	start, length := -1, 1
	for i := range groups {
		groups[i] = uint16(a[2*i])<<8 | uint16(a[2*i+1])
	}
	for i := 0; i < len(groups); i++ {
		j := i
		for j < len(groups) && groups[j] == 0 {
			j++
		}
		if j-i > length {
			start, length = i, j-i
		}
		i = max(i, j-1)
	}
	var b strings.Builder
	for i := 0; i < len(groups); i++ {
		if i == start {
			b.WriteString("::")
			i += length - 1
			continue
		}
		if i > 0 && (start < 0 || i != start+length) {
			b.WriteByte(':')
		}
		b.WriteString(strconv.FormatUint(uint64(groups[i]), 16))
	}
	return b.String()
}
