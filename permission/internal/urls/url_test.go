package urls_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/internal/urls"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ url, want string }{ // host port path; "" is refused
		{"https://example.com", "example.com 443 /"},
		{"https://example.com/a/b?c#d", "example.com 443 /a/b"},
		{"HTTPS://EXAMPLE.com.:443/a/../b", "example.com 443 /b"},
		{"http://example.com:/", "example.com 80 /"},
		{"http://example.com:00080/", "example.com 80 /"},
		{"wss://h/x", "h 443 /x"},
		{"gopher://h", "h 0 /"},
		{"http://a_b.example/", "a_b.example 80 /"},
		{"http://r3---sn.example/", "r3---sn.example 80 /"},
		// User information is not the host.
		{"http://good.example@evil.example/", "evil.example 80 /"},
		{"http://good.example:80@evil.example/", "evil.example 80 /"},
		{"http://good.example%2F@evil.example/", "evil.example 80 /"},
		{"http://good.example#@evil.example/", "good.example 80 /"},
		{"http://good.example?@evil.example/", "good.example 80 /"},
		{"http://good.example/@evil.example/", "good.example 80 /@evil.example/"},
		{"http://a@b@good.example/", ""},
		{"http://@good.example/", "good.example 80 /"},
		{"http://us[er@good.example/", ""},
		// Separators that programs read in different ways.
		{`http://good.example\@evil.example/`, ""},
		{`http:\\good.example`, ""},
		{`http:/\good.example`, ""},
		{"http:good.example", ""},
		{"http:/good.example", ""},
		{"http:///good.example", ""},
		{"//good.example/", ""},
		{"good.example", ""},
		{"good.example:80/", ""},
		{"", ""},
		{"://good.example", ""},
		{"1http://good.example", ""},
		{" http://good.example", ""},
		{"http://good.example ", ""},
		{"ht\ttp://good.example", ""},
		{"http://good.example\n.evil.example", ""},
		{"http://good.example\x00.evil.example", ""},
		{"http://good.example:80:81/", ""},
		{"javascript:alert(1)//good.example", ""},
		{"file:///etc/passwd", ""},
		{"data:text/html,x", ""},
		// A host that programs ignore.
		{"file://good.example/etc/passwd", ""},
		{"FILE://good.example/etc/passwd", ""},
		{"javascript://good.example/%0aalert(1)", ""},
		{"jar://good.example/!/", ""},
		// Ports.
		{"http://h:65535", "h 65535 /"}, {"http://h:65536", ""}, {"http://h:0", ""}, {"http://h:-1", ""}, {"http://h:8o", ""}, {"http://h:+80", ""},
		{"http://h:٨٠/", ""},
		// Escapes in the host.
		{"http://ex%61mple.com", ""}, {"http://good.example%00.evil.example", ""}, {"http://good.example%2eevil.example", ""},
		{"http://good.example%2f.evil.example", ""},
		// Dots and labels.
		{"http://example.com..", ""}, {"http://.example.com", ""}, {"http://exa..mple", ""}, {"http://.", ""},
		{"http://-a.example", ""}, {"http://a-.example", ""}, {"http://a b.example", ""}, {"http://a!b.example", ""}, {"http://*.example", ""},
		{"http://" + strings.Repeat("a", 64) + ".example", ""},
		{"http://" + strings.Repeat("a.", 127) + "example", ""},
		// International names.
		{"http://bücher.example/", "xn--bcher-kva.example 80 /"},
		{"http://BÜCHER.example/", "xn--bcher-kva.example 80 /"},
		{"http://XN--BCHER-KVA.example/", "xn--bcher-kva.example 80 /"},
		{"http://ｅｘａｍｐｌｅ.com/", "example.com 80 /"},
		{"http://example。com/", "example.com 80 /"},
		{"http://exam\u00adple.com/", "example.com 80 /"},
		{"http://exam\u200bple.com/", "example.com 80 /"},  // both profiles drop it
		{"http://K.example/", "k.example 80 /"},            // the Kelvin sign
		{"http://еxample.com/", "xn--xample-2of.com 80 /"}, // a Cyrillic letter makes another name
		{"http://faß.example/", ""},
		{"http://a\u200db.example/", ""},
		{"http://xn--.example/", ""},
		{"http://xn--a.example/", ""},
		{"http://good.example℀.evil.example/", ""},
		{"http://good.example\u2024evil.example/", ""}, // one dot leader
		{"http://good.example\u3000/", ""},
		{"http://good.example／evil/", ""},
		{"http://good.example＠evil.example/", ""},
		{"http://good.example：80/", ""},
		// Addresses.
		{"http://127.0.0.1/", "127.0.0.1 80 /"}, {"http://127.0.0.1./", "127.0.0.1 80 /"},
		{"http://１２７.0.0.1/", "127.0.0.1 80 /"},
		{"http://127.1/", ""}, {"http://2130706433/", ""}, {"http://0x7f.0.0.1/", ""}, {"http://0x7f000001/", ""}, {"http://0177.0.0.1/", ""},
		{"http://127.0.0.01/", ""}, {"http://1.2.3.4.5/", ""}, {"http://256.0.0.1/", ""}, {"http://a.1/", ""}, {"http://a.0x/", ""}, {"http://a.0xf/", ""},
		{"http://[::1]:8080/", "::1 8080 /"}, {"http://[0:0:0:0:0:0:0:1]/", "::1 80 /"}, {"http://[2001:DB8::A]/", "2001:db8::a 80 /"},
		{"http://[::ffff:127.0.0.1]/", "127.0.0.1 80 /"}, {"http://[::ffff:7f00:1]/", "127.0.0.1 80 /"},
		{"http://[fe80::1%25eth0]/", ""}, {"http://[fe80::1%eth0]/", ""}, {"http://[::1/", ""}, {"http://::1/", ""}, {"http://[::1]x/", ""}, {"http://[127.0.0.1]/", ""}, {"http://[]/", ""},
		{"http://[good.example]/", ""}, {"http://x[::1]/", ""},
		// Paths.
		{"http://h/./a/./b/../c/", "h 80 /a/c/"}, {"http://h/../../a", "h 80 /a"}, {"http://h/a/..", "h 80 /"}, {"http://h/a/.", "h 80 /a/"},
		{"http://h/%61%2e%2E/b", "h 80 /a../b"}, {"http://h/a/%2e%2e/b", "h 80 /b"}, {"http://h/a%20b%c3%a9", "h 80 /a%20b%C3%A9"}, {"http://h/é", "h 80 /%C3%A9"},
		{"http://h/a%2fb", "h 80 !"}, {"http://h/a%5cb", "h 80 !"}, {"http://h/a%252e", "h 80 !"}, {"http://h/a%00", "h 80 !"}, {"http://h/a%3fb", "h 80 !"},
		{"http://h/a%zz", "h 80 !"}, {"http://h/a%2", "h 80 !"}, {"http://h/a//b", "h 80 !"}, {"http://h/a/..;x/b", "h 80 !"}, {"http://h/a/%2e.;/b", "h 80 !"},
		{"http://h/" + strings.Repeat("a", urls.MaxLen), ""},
	} {
		u, err := urls.Parse(c.url)
		got := ""
		if err == nil {
			path, err := u.Path()
			if err != nil {
				path = "!"
			}
			got = fmt.Sprint(u.Host, " ", u.Port, " ", path)
		} else if e := (*urls.Error)(nil); !errors.As(err, &e) {
			t.Errorf("Parse(%q): error %T", c.url, err)
		}
		if got != c.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", c.url, got, err, c.want)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, c := range []struct {
		list string
		url  string
		want bool
	}{
		{"example.com", "https://example.com/x", true},
		{"EXAMPLE.com.", "https://example.com/x", true},
		{"example.com", "https://example.com:8443/", true},
		{"example.com:443", "https://example.com/", true},
		{"example.com:443", "http://example.com/", false},
		{"example.com:443", "https://example.com:8443/", false},
		{"example.com", "https://www.example.com/", false},
		{"example.com", "https://example.com.evil.example/", false},
		{"example.com", "https://evilexample.com/", false},
		{"example.com", "https://example.com@evil.example/", false},
		{"example.com", "https://evil.example/example.com", false},
		{"example.com", "https://evil.example?example.com", false},
		{"example.com", "https://example.co", false},
		{"*.example.com", "https://www.example.com/", true},
		{"*.example.com", "https://a.b.EXAMPLE.com/", true},
		{"*.example.com", "https://example.com/", false},
		{"*.example.com", "https://evilexample.com/", false},
		{"*.example.com:8443", "https://a.example.com:8443/", true},
		{"*.example.com:8443", "https://a.example.com/", false},
		{"bücher.example", "https://xn--bcher-kva.example/", true},
		{"xn--bcher-kva.example", "https://BÜCHER.example/", true},
		{"127.0.0.1", "http://[::ffff:127.0.0.1]/", true},
		{"[::1]", "http://[0:0::1]:80/", true},
		{"::1", "http://[::1]/", true},
		{"[::1]:81", "http://[::1]/", false},
		{"10.0.0.0/8", "http://10.255.0.1/", true},
		{"10.0.0.0/8", "http://11.0.0.1/", false},
		{"10.0.0.0/8:8443", "https://10.0.0.1:8443/", true},
		{"10.0.0.0/8:8443", "https://10.0.0.1/", false},
		{"2001:db8::/32:8443", "https://[2001:db8::1]:8443/", true},
		{"10.0.0.0/8", "http://[::ffff:10.0.0.1]/", true},
		{"10.0.0.0/8", "http://10.example/", false},
		{"fe80::/10", "http://[fe80::1]/", true},
		{"", "http://h/", false},
		{"a.example,b.example", "http://b.example/", true},
	} {
		hs, err := urls.ParseHosts(split(c.list))
		if err != nil {
			t.Errorf("ParseHosts(%q): %v", c.list, err)
			continue
		}
		u, err := urls.Parse(c.url)
		if err != nil || hs.Has(u) != c.want {
			t.Errorf("%q on %q = %v, %v; want %v", c.url, c.list, hs.Has(u), err, c.want)
		}
	}
	for _, bad := range []string{"http://example.com", "example.com/", "example.com/x", "a@b", "*", "*.", "**.a", "a.*", "*a.example", "*.1.2.3.4", "h:0", "h:x",
		"10.0.0.1/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "", " ", "ex ample", "0x7f.1", "127.1", "h%61", `a\b`, "fe80::1%eth0"} {
		if hs, err := urls.ParseHosts([]string{bad}); err == nil {
			t.Errorf("ParseHosts(%q) = %+v", bad, hs)
		}
	}
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func TestWithin(t *testing.T) {
	for _, c := range []struct{ base, url, want string }{
		{"https://api.example/v1", "https://api.example/v1", "true"},
		{"https://api.example/v1", "https://api.example/v1/x", "true"},
		{"https://api.example/v1/", "https://api.example/v1/x?y", "true"},
		{"https://api.example/v1/", "https://api.example/v1", "false"},
		{"https://api.example/v1", "https://api.example/v10", "false"},
		{"https://api.example/v1", "https://api.example/v1/../v2", "false"},
		{"https://api.example/v1", "https://api.example/v1/%2e%2e/v2", "false"},
		{"https://api.example/v1", "https://api.example/v1/..%2fv2", "error"},
		{"https://api.example/v1", "https://api.example/v1%2f..%2fv2", "error"},
		{"https://api.example/v1", "https://api.example/%76%31/x", "true"},
		{"https://api.example/v1", "http://api.example/v1", "false"},
		{"https://api.example/v1", "https://api.example:444/v1", "false"},
		{"https://api.example:443/v1", "https://API.example./v1", "true"},
		{"https://api.example", "https://api.example.evil.example/", "false"},
		{"https://api.example", "https://evil.example/%2f", "false"},
	} {
		base, err := urls.Parse(c.base)
		if err != nil {
			t.Fatal(err)
		}
		u, err := urls.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		got := "error"
		if ok, err := u.Within(base); err == nil {
			got = fmt.Sprint(ok)
		}
		if got != c.want {
			t.Errorf("%q within %q = %s, want %s", c.url, c.base, got, c.want)
		}
	}
}

func TestPrivateAndOrigin(t *testing.T) {
	for _, c := range []struct {
		url, origin string
		private     bool
	}{
		{"http://Example.com:80/x", "http://example.com", false},
		{"http://example.com:8080/", "http://example.com:8080", false},
		{"gopher://example.com/", "gopher://example.com", false},
		{"https://[2606:4700::1111]/", "https://[2606:4700::1111]", false},
		{"http://1.1.1.1/", "http://1.1.1.1", false},
		{"http://localhost:3000/", "http://localhost:3000", true},
		{"http://a.localhost/", "http://a.localhost", true},
		{"http://printer/", "http://printer", true},
		{"http://metadata.google.internal/", "http://metadata.google.internal", true},
		{"http://127.9.9.9/", "http://127.9.9.9", true},
		{"http://169.254.169.254/", "http://169.254.169.254", true},
		{"http://10.0.0.1/", "http://10.0.0.1", true},
		{"http://100.64.1.1/", "http://100.64.1.1", true},
		{"http://0.0.0.0/", "http://0.0.0.0", true},
		{"http://224.0.0.1/", "http://224.0.0.1", true},
		{"http://255.255.255.255/", "http://255.255.255.255", true},
		{"http://[::1]/", "http://[::1]", true},
		{"http://[::ffff:10.0.0.1]/", "http://10.0.0.1", true},
		{"http://[64:ff9b::a00:1]/", "http://[64:ff9b::a00:1]", true},
		{"http://[fd00::1]/", "http://[fd00::1]", true},
		{"http://[fe80::1]/", "http://[fe80::1]", true},
	} {
		u, err := urls.Parse(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if u.Origin() != c.origin || u.Private() != c.private {
			t.Errorf("%s: origin %s, private %v", c.url, u.Origin(), u.Private())
		}
	}
}
