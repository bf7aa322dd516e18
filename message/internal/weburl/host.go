package weburl

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
)

// forbiddenHost are characters that a host must not contain. Controls, and % in domains, are checked in code.
const forbiddenHost = "\x00\t\n\r #/:<>?@[\\]^|"

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
		case c > '~'+1:
			return "", fmt.Errorf("the host %.60q is not ASCII: write it in its xn-- form", s)
		case c < ' ', c == '%', c == '~'+1, strings.IndexByte(forbiddenHost, c) >= 0:
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
	return "[" + formatIPv6(addr.As16()) + "]", nil
}

// formatIPv6 formats eight groups and shortens the first longest run of zeros, without the
// exception for embedded IPv4 addresses that netip's String makes.
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
