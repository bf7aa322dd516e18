package permission_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// placeTool returns a tool with the arguments that these rules use.
func placeTool(t testing.TB) permission.Tool {
	return permission.Tool{Name: "t", Schema: schema(t, `{"type": "object", "properties": {
		"path": {"type": "string", "maxLength": 4096}, "url": {"type": "string", "maxLength": 8192},
		"list": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 300}}}}`)}
}

func TestPlaceFunctions(t *testing.T) {
	opts := permission.Options{Tools: []permission.Tool{placeTool(t)}}
	for _, c := range []struct {
		when, input string
		want        string // true, false, or path or url for an error of that type
	}{
		{`path.within(args.path, ctx.working_dirs)`, `{"path": "/work/a"}`, "true"},
		{`path.within(args.path, ctx.working_dirs)`, `{"path": "/work2/a"}`, "false"},
		{`path.within(args.path, ctx.working_dirs)`, `{"path": "/work/../etc"}`, "false"},
		{`path.within(args.path, ctx.working_dirs)`, `{"path": "a"}`, "path"},
		{`path.within(args.path, ctx.working_dirs)`, `{"path": "/work/a\u0000"}`, "path"},
		{`path.within(args.path, ctx.cwd)`, `{"path": "/work/here/x"}`, "true"},
		{`path.within(path.join(ctx.cwd, args.path), ctx.working_dirs)`, `{"path": "../a"}`, "true"},
		{`path.within(path.join(ctx.cwd, args.path), ctx.working_dirs)`, `{"path": "../../a"}`, "false"},
		{`path.within(path.join(ctx.cwd, args.path), ctx.working_dirs)`, `{"path": "~/a"}`, "path"},
		{`path.clean(args.path) == "/a/c"`, `{"path": "/a/b/../c/"}`, "true"},
		{`path.base(args.path) == ".env"`, `{"path": "/a/.env/x/.."}`, "true"},
		{`path.dir(args.path) == "/a"`, `{"path": "/a/x"}`, "true"},
		{`path.ext(args.path) in [".go", ".md"]`, `{"path": "x.md"}`, "true"},
		{`path.isAbs(args.path)`, `{"path": "x"}`, "false"},
		{`path.isAbs(args.path)`, `{"path": "\\\\x"}`, "path"},
		{`path.match(args.path, "/**/.ssh/**")`, `{"path": "/root/x/../.ssh/id"}`, "true"},
		{`path.match(args.path, "/src/*.go")`, `{"path": "/src/a/../../etc/x.go"}`, "false"},
		{`args.list.all(p, path.within(p, "/work"))`, `{"list": ["/work/a", "/worka"]}`, "false"},
		{`url.host(args.url) == "example.com"`, `{"url": "https://EXAMPLE.com.:443/x"}`, "true"},
		{`url.host(args.url) == "example.com"`, `{"url": "https://example.com@evil.example"}`, "false"},
		{`url.host(args.url) == "example.com"`, `{"url": "https://example.com\\@evil.example"}`, "url"},
		{`url.host(args.url) == "example.com"`, `{"url": "https://ex%61mple.com"}`, "url"},
		{`url.hostIn(args.url, ["example.com", "*.example.com:8443"])`, `{"url": "https://a.example.com:8443"}`, "true"},
		{`url.hostIn(args.url, ["example.com", "*.example.com:8443"])`, `{"url": "https://example.com.evil.example"}`, "false"},
		{`url.hostIn(args.url, args.list)`, `{"url": "https://example.com", "list": ["a/b"]}`, "url"},
		{`url.hostIn(args.url, ["10.0.0.0/8"])`, `{"url": "http://[64:ff9b::a01:203]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3:80"])`, `{"url": "http://[2002:a01:203::1]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[::a01:203]/"}`, "url"},
		{`url.hostIn(args.url, ["10.0.0.0/8"])`, `{"url": "http://[64:ff9b::b01:203]/"}`, "false"},
		{`url.hostIn(args.url, ["10.0.0.0/8", "64:ff9b::/96"])`, `{"url": "http://[64:ff9b::a01:203]/"}`, "true"},
		{`url.hostIn(args.url, ["10.0.0.0/8"])`, `{"url": "http://[64:ff9b:1::a01:203]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[64:ff9b:1:a01:2:300::]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[64:ff9b:1:a:1:203::]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[64:ff9b:1::a:102:300:0]/"}`, "url"},
		{`url.hostIn(args.url, ["10.0.0.0/8"])`, `{"url": "http://[64:ff9b:1::b01:203]/"}`, "false"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[::ffff:0:a01:203]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[2001:0:808:808:0:3fff:f5fe:fdfc]/"}`, "url"},
		{`url.hostIn(args.url, ["8.8.8.8"])`, `{"url": "http://[2001:0:808:808:0:3fff:f5fe:fdfc]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[2001:0:808:808:0:3fff:a01:203]/"}`, "false"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[2606:4700::5efe:a01:203]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[fe80::200:5efe:a01:203]/"}`, "url"},
		{`url.hostIn(args.url, ["10.1.2.3"])`, `{"url": "http://[2606:4700::1:5efe:a01:203]/"}`, "false"},
		{`url.within(args.url, "http://10.1.2.3/")`, `{"url": "http://[2606:4700::5efe:a01:203]/"}`, "url"},
		{`url.isPrivate(args.url)`, `{"url": "http://[2606:4700::5efe:a01:203]/"}`, "url"},
		{`url.isPrivate(args.url)`, `{"url": "http://[2606:4700::5efe:808:808]/"}`, "false"},
		{`url.isPrivate(args.url)`, `{"url": "http://[2001:0:808:808::]/"}`, "true"},
		{`url.within(args.url, "http://10.1.2.3/")`, `{"url": "http://[64:ff9b:1::a01:203]/"}`, "url"},
		{`url.within(args.url, "http://10.1.2.3/")`, `{"url": "http://[64:ff9b::a01:203]/"}`, "url"},
		{`url.within(args.url, "http://10.1.2.4/")`, `{"url": "http://[64:ff9b::a01:203]/"}`, "false"},
		{`url.within(args.url, "http://10.1.2.3:8080/")`, `{"url": "http://[64:ff9b::a01:203]/"}`, "false"},
		{`url.hostIn(args.url, ["::1", "0.0.0.0/8"])`, `{"url": "http://[::1]/"}`, "true"},
		{`url.isPrivate(args.url) || url.isAddress(args.url)`, `{"url": "http://[::ffff:169.254.169.254]/"}`, "true"},
		{`url.isPrivate(args.url)`, `{"url": "http://2852039166/"}`, "url"},
		{`url.hasUser(args.url)`, `{"url": "https://u:p@example.com"}`, "true"},
		{`url.port(args.url) == 443 && url.scheme(args.url) == "https"`, `{"url": "HTTPS://example.com"}`, "true"},
		{`url.port(args.url) == 443`, `{"url": "gopher://example.com"}`, "url"},
		{`url.origin(args.url) == "https://example.com"`, `{"url": "https://example.com:443/x"}`, "true"},
		{`url.path(args.url).startsWith("/v1/")`, `{"url": "https://example.com/v1/../v2/"}`, "false"},
		{`url.path(args.url).startsWith("/v1/")`, `{"url": "https://example.com/v1/..%2fv2/"}`, "url"},
		{`url.within(args.url, "https://api.example/v1")`, `{"url": "https://api.example/v1/x"}`, "true"},
		{`url.within(args.url, "https://api.example/v1")`, `{"url": "https://api.example/v10"}`, "false"},
		{`url.within(args.url, "https://api.example/v1")`, `{"url": "//api.example/v1"}`, "url"},
		{`dyn(args).path == "/work/a" && path.within(dyn(args).path, "/work")`, `{"path": "/work/a"}`, "true"},
	} {
		b := compile(t, opts, rule("r", message.BehaviorAllow, c.when))
		d := b.Decide(t.Context(), permission.Request{Tool: "t", Input: []byte(c.input), Mode: permission.ModeBypass,
			Cwd: "/work/here", WorkingDirs: []string{"/work", "/tmp/x"}})
		got := fmt.Sprint(d.Rule == "r")
		if len(d.Errors) > 0 {
			pe, ue := (*permission.PathError)(nil), (*permission.URLError)(nil)
			switch {
			case errors.As(d.Errors[0], &pe):
				got = "path"
			case errors.As(d.Errors[0], &ue):
				got = "url"
			default:
				got = d.Errors[0].Error()
			}
			if d.Behavior == message.BehaviorAllow {
				t.Errorf("%s on %s: allowed with errors", c.when, c.input)
			}
		}
		if got != c.want {
			t.Errorf("%s on %s = %s, want %s", c.when, c.input, got, c.want)
		}
	}
}

// A URL may contain a password, which must not appear in errors.
func TestURLErrorsDoNotRepeatTheURL(t *testing.T) {
	b := compile(t, permission.Options{Tools: []permission.Tool{placeTool(t)}}, rule("r", message.BehaviorDeny, `url.host(args.url) == "x"`))
	d := decide(b, permission.ModeDefault, `{"url": "https://user:hunter2@exa%20mple.com"}`)
	if len(d.Errors) != 1 || strings.Contains(fmt.Sprint(d), "hunter2") {
		t.Errorf("%+v", d)
	}
}

// Constants that can never be parsed are found at load.
func TestBadLiteralsAreRefused(t *testing.T) {
	for _, when := range []string{
		`url.hostIn(args.url, ["example.com", "https://example.com"])`,
		`url.hostIn(args.url, ["*"])`,
		`url.within(args.url, "api.example/v1")`,
		`url.within(args.url, "https://api.example/a%2fb")`,
		`path.within(args.path, "data")`,
		`path.within(args.path, ["/data", "~/data"])`,
		`path.match(args.path, "/a/../b")`,
		`path.within(args.path, 1)`,
		`path.witin(args.path, "/data")`,
		`url.hostIn(args.url, "example.com")`,
	} {
		_, err := permission.Compile(permission.Policy{Rules: []permission.Rule{rule("r", message.BehaviorAllow, when)}},
			permission.Options{Tools: []permission.Tool{placeTool(t)}})
		var le *permission.LoadError
		if !errors.As(err, &le) || len(le.Problems) == 0 || le.Problems[0].Line != 1 || le.Problems[0].Col < 1 {
			t.Errorf("%s: %v", when, err)
		}
	}
}

func TestFunctionsAreDescribed(t *testing.T) {
	last := ""
	for _, f := range permission.Functions() {
		if f.Name <= last || !strings.HasPrefix(f.Signature, f.Name+"(") || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%+v after %s", f, last)
		}
		last = f.Name
	}
}

// For all texts, a refused path or URL fails closed, and a path that is inside stays inside in
// any other spelling.
func TestPlacesHoldInAnySpelling(t *testing.T) {
	b := compile(t, permission.Options{Tools: []permission.Tool{{Name: "t"}}},
		rule("in", message.BehaviorAllow, `path.within(args.path, "/data") && url.hostIn(args.url, ["good.example"])`))
	segment := rapid.SampledFrom([]string{"..", ".", "", "data", "data2", "x", "~", "%2e%2e", "a\\b", "..."})
	host := rapid.SampledFrom([]string{"good.example", "GOOD.example.", "evil.example", "good.example.evil.example", "good.example@evil.example",
		"evil.example@good.example", "good.example:8080", `good.example\@evil.example`, "good.example%00.evil.example", "good.example/@evil.example", "evil.example#good.example"})
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(segment, 1, 6).Draw(t, "segments")
		h := host.Draw(t, "host")
		p := "/" + strings.Join(parts, "/")
		in := fmt.Sprintf(`{"path": %q, "url": %q}`, p, "https://"+h)
		if d := decide(b, permission.ModeDefault, in); d.Behavior == message.BehaviorAllow && !(inside(parts) && leadsToGood(h)) {
			t.Fatalf("%s is allowed", in)
		}
	})
}

// inside walks the segments as a file system does.
func inside(parts []string) bool {
	var at []string
	for _, p := range parts {
		switch p {
		case "", ".":
		case "..":
			at = at[:max(0, len(at)-1)]
		default:
			at = append(at, p)
		}
	}
	return len(at) > 0 && at[0] == "data"
}

func leadsToGood(h string) bool {
	switch h {
	case "good.example", "GOOD.example.", "evil.example@good.example", "good.example:8080", "good.example/@evil.example":
		return true
	}
	return false
}
