package urls_test

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/internal/urls"
)

// FuzzParse compares with the standard library: a URL that both accept has the same host and
// port, and the normal form of a URL is parsed as itself.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://example.com:443/a/../b", "http://u:p@h:1/%2e", "http://[::ffff:1.2.3.4]/", "http://bücher.example/", "http://a.b./x?y#z", "HTTP://A%2F@b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := urls.Parse(text)
		if err != nil {
			return
		}
		again, err := urls.Parse(u.Origin())
		if err != nil || again.Host != u.Host || again.Port != u.Port || again.Scheme != u.Scheme {
			t.Fatalf("%q has the origin %q, which parses as %+v, %v", text, u.Origin(), again, err)
		}
		hs, err := urls.ParseHosts([]string{net.JoinHostPort(u.Host, strconv.Itoa(max(u.Port, 1)))})
		if err != nil || (u.Port > 0 && !hs.Has(u)) {
			t.Fatalf("%q is not on a list of its own host: %v", text, err)
		}
		if path, err := u.Path(); err == nil {
			if strings.Contains(path, "/../") || strings.HasSuffix(path, "/..") || path[0] != '/' {
				t.Fatalf("%q has the path %q", text, path)
			}
			if same, err := urls.Parse(u.Origin() + path); err != nil && len(u.Origin()+path) <= urls.MaxLen {
				t.Fatal(err)
			} else if err != nil {
				return // percent signs and dots make it longer
			} else if p, err := same.Path(); err != nil || p != path {
				t.Fatalf("path %q becomes %q, %v", path, p, err)
			}
		}
		std, err := url.Parse(text)
		if err != nil {
			return
		}
		host := strings.TrimSuffix(strings.ToLower(std.Hostname()), ".")
		if ip := net.ParseIP(host); ip != nil {
			host = ip.String()
		}
		for _, r := range host {
			if r >= 0x80 {
				return // the library does not convert names
			}
		}
		if host != u.Host {
			t.Fatalf("%q has the host %q, but %q for the standard library", text, u.Host, host)
		}
		if p := std.Port(); p != "" {
			if n, _ := strconv.Atoi(p); n != u.Port {
				t.Fatalf("%q has port %d, but %s for the standard library", text, u.Port, p)
			}
		}
	})
}
