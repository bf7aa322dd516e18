package paths_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/permission/internal/paths"
)

func TestWithin(t *testing.T) {
	for _, c := range []struct{ path, dir, want string }{
		{"/data", "/data", "true"},
		{"/data/", "/data", "true"},
		{"/data", "/data/", "true"},
		{"/data/x", "/data", "true"},
		{"/data//x/./y", "/data", "true"},
		{"/data/x/../y", "/data", "true"},
		{"/x/../data/y", "/data", "true"},
		{"/anything", "/", "true"},
		{"/data2", "/data", "false"},
		{"/data-x/y", "/data", "false"},
		{"/dat", "/data", "false"},
		{"/data/..", "/data", "false"},
		{"/data/../etc/passwd", "/data", "false"},
		{"/data/x/../../etc/passwd", "/data", "false"},
		{"/data/./../etc", "/data", "false"},
		{"/data//..//etc", "/data", "false"},
		{"/../../data/x", "/data", "true"},
		{"/DATA/x", "/data", "error"},         // inside on a file system that ignores case
		{"/data/%2e%2e/etc", "/data", "true"}, // a file with this name: paths are not unescaped
		{"/data/...", "/data", "error"},       // a name that consists of dots
		{"data/x", "/data", "error"},
		{"./data", "/data", "error"},
		{"../data", "/data", "error"},
		{"~/x", "/data", "error"},
		{"~root/x", "/data", "error"},
		{"", "/data", "error"},
		{"/data", "", "error"},
		{"/data", "data", "error"},
		{`/data\..\etc`, "/data", "error"},
		{`C:\data`, "/data", "error"},
		{"C:/data", "/data", "error"},
		{`\\host\share`, "/data", "error"},
		{"//data/x", "/data", "error"}, // another machine
		{"/data/x\x00.txt", "/data", "error"},
		{"/data/x\n", "/data", "error"},
		{"/data/\u202etxt.exe", "/data", "error"},
		{"/data/a\u200bb", "/data", "error"},
		{"/data/\xff", "/data", "error"},
		{"file:///data/x", "/data", "error"},
		{"/proc/self/root/data/x", "/data", "error"},
		{"/proc//1/task/./7/cwd/x", "/data", "error"},
		{"/proc/self/root/../data/x", "/data", "error"}, // up from the root
		{"/proc/self/map_files/400000-401000", "/proc", "error"},
		{"/proc/self/exe", "/proc", "error"},
		{"/dev/fd/3", "/data", "error"},
		{"/proc/cpuinfo", "/proc", "true"},
		{"/dev/null", "/data", "false"},
		{"/" + strings.Repeat("a", paths.MaxLen), "/", "error"},
	} {
		ok, err := paths.Within(c.path, c.dir)
		got := fmt.Sprint(ok)
		if err != nil {
			got = "error"
			if e := (*paths.Error)(nil); !errors.As(err, &e) || ok {
				t.Errorf("%q within %q: %v, %T", c.path, c.dir, ok, err)
			}
		}
		if got != c.want {
			t.Errorf("%q within %q = %s, want %s (%v)", c.path, c.dir, got, c.want, err)
		}
	}
}

func TestWithinAny(t *testing.T) {
	for _, c := range []struct {
		path string
		dirs []string
		want string
	}{
		{"/b/x", []string{"/a", "/b"}, "true"},
		{"/c/x", []string{"/a", "/b"}, "false"},
		{"/c/x", nil, "false"},
		{"/a/x", []string{"/a", "b"}, "error"},
		{"x", []string{"/a"}, "error"},
	} {
		ok, err := paths.WithinAny(c.path, c.dirs)
		got := fmt.Sprint(ok)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%q within %q = %s, want %s", c.path, c.dirs, got, c.want)
		}
	}
}

func TestTextFunctions(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(string) (string, error)
		in   string
		want string
	}{
		{"clean", paths.Clean, "a/./b/../c//d/", "a/c/d"},
		{"clean", paths.Clean, "../a/..", ".."},
		{"clean", paths.Clean, "/..", "/"},
		{"clean", paths.Clean, "~", ""},
		{"abs", paths.Abs, "/a/../b", "/b"},
		{"abs", paths.Abs, "a", ""},
		{"base", paths.Base, "/a/b/..", "a"},
		{"base", paths.Base, "/", "/"},
		{"base", paths.Base, "a/.env", ".env"},
		{"dir", paths.Dir, "/a/b/../c", "/a"},
		{"dir", paths.Dir, "a", "."},
		{"ext", paths.Ext, "/a/b.tar.GZ", ".GZ"},
		{"ext", paths.Ext, "/a.b/c", ""},
		{"ext", paths.Ext, "/a/.env", ""},
		{"ext", paths.Ext, "x.txt/.", ".txt"},
		{"ext", paths.Ext, "a/../..", ""},
		{"ext", paths.Ext, "", ""},
	} {
		got, err := c.f(c.in)
		if got != c.want && (c.want != "" || err == nil) {
			t.Errorf("%s(%q) = %q, %v; want %q", c.name, c.in, got, err, c.want)
		}
	}
	for _, c := range [][3]string{{"/w", "a/../../x", "/x"}, {"/w", "/etc", "/etc"}, {"/w/", "./a", "/w/a"}, {"w", "a", ""}, {"/w", "", ""}, {"/w", "~/a", ""}, {"", "a", ""}, {"/", "proc/self/root/../etc", ""}, {"/proc/self", "cwd/x", ""}} {
		got, err := paths.Join(c[0], c[1])
		if got != c[2] || (c[2] == "") != (err != nil) {
			t.Errorf("join(%q, %q) = %q, %v; want %q", c[0], c[1], got, err, c[2])
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct{ path, pattern, want string }{
		{"/a/b.go", "/a/*.go", "true"},
		{"/a/x/b.go", "/a/*.go", "false"},
		{"/a/x/b.go", "/a/**/*.go", "true"},
		{"/a/b.go", "/a/**/*.go", "true"},
		{"/a", "/a/**", "true"},
		{"/a/b/c", "/a/**", "true"},
		{"/a/../b", "/a/**", "false"},
		{"/ab", "/a/**", "false"},
		{"/a/.env", "/**/.env", "true"},
		{"/.env", "/**/.env", "true"},
		{"/a/.env.x", "/**/.env", "false"},
		{"src/x", "src/*", "true"},
		{"./src/../secret", "src/*", "false"},
		{"/a/é", "/a/?", "true"},
		{"/a/[x]", "/a/[x]", "true"},
		{"/a/b/c/d/e", "/**/c/**", "true"},
		{"/a/b/c/b/d", "/a/**/b/d", "true"},
		{"/", "/", "true"},
		{"/", "/**", "true"},
		{"a", "/a", "error"},
		{"/a", "a", "error"},
		{"/a", "/a/../b", "error"},
		{"/a", "/a/", "error"},
		{"/a", "/a**", "error"},
		{"/a", "", "error"},
		{"/a", "/" + strings.Repeat("a", paths.MaxPattern), "error"},
	} {
		ok, err := paths.Match(c.path, c.pattern)
		got := fmt.Sprint(ok)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("match(%q, %q) = %s, want %s (%v)", c.path, c.pattern, got, c.want, err)
		}
	}
	long := strings.Repeat("a", 2000)
	if ok, err := paths.Match("/"+long, "/"+strings.Repeat("a*", 120)+"b"); ok || err != nil {
		t.Errorf("long match: %v, %v", ok, err)
	}
}

// A comparison that Windows, or a file system that ignores case, decides differently is an error,
// so the wrong reading decides neither an allow nor a deny rule.
func TestTwoReadings(t *testing.T) {
	for _, c := range []struct{ path, folder, pattern, within, match string }{
		{"/srv/secret/k", "/srv/secret", "/srv/secret/*", "true", "true"},
		{"/srv/Secret/K", "/srv/Secret", "/srv/Secret/*", "true", "true"},
		{"/srv/SECRET/k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{"/srv/secret./k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{"/srv/secret /k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{"/srv/secret:$I30:$INDEX_ALLOCATION/k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{"/srv/SECRE~1/k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{"/srv/app/.. /secret/k", "/srv/app", "/srv/app/**", "error", "error"},
		{"/srv/app/con", "/srv/app", "/srv/app/*", "error", "error"},
		{"//srv/secret/k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{`\\srv\secret\k`, "/srv/secret", "/srv/secret/*", "error", "error"},
		{"C:/srv/secret/k", "/srv/secret", "/srv/secret/*", "error", "error"},
		{"/srv/cafe\u0301/k", "/srv/caf\u00e9", "/srv/caf\u00e9/*", "error", "error"},
		{"/srv/cafe\u0301/k", "/srv/cafe\u0301", "/srv/cafe\u0301/*", "true", "true"},
		{"/srv/con\ufb01g/k", "/srv/config", "/srv/config/*", "error", "error"},
		{"/srv/STRASSE/k", "/srv/stra\u00dfe", "/srv/stra\u00dfe/*", "error", "error"},
		{"/srv/.env::$DATA", "/srv", "/srv/.env", "true", "error"},
		{"/srv/.env.", "/srv", "/srv/.env", "true", "error"},
		{"/srv/.ENV", "/srv", "/srv/.env", "true", "error"},
		{"/srv/x.exe:a.txt", "/srv", "/srv/*.txt", "true", "error"},
		{"/srv/10:00:00.log", "/srv", "/srv/**", "true", "true"}, // inside in both readings
		{"/srv/10:00:00.log", "/data", "/data/**", "false", "false"},
	} {
		for name, compare := range map[string]func() (bool, error){
			c.within:       func() (bool, error) { return paths.Within(c.path, c.folder) },
			c.match:        func() (bool, error) { return paths.Match(c.path, c.pattern) },
			c.within + " ": func() (bool, error) { return paths.WithinAny(c.path, []string{c.folder}) },
		} {
			got := fmt.Sprint(compare())
			if want := strings.TrimSpace(name); want == "error" && !strings.HasPrefix(got, "false path") || want != "error" && got != want+" <nil>" {
				t.Errorf("%q in %s, %s: %s, want %s", c.path, c.folder, c.pattern, got, want)
			}
		}
	}
	for _, p := range []string{"/srv/.env::$DATA", "/srv/.env.", "/srv/a.txt:b.exe", "/srv/ENV~1", "/srv/nul", `C:\x`} {
		for name, f := range map[string]func(string) (string, error){"base": paths.Base, "ext": paths.Ext} {
			if got, err := f(p); err == nil {
				t.Errorf("%s(%q) = %q", name, p, got)
			}
		}
	}
}

// If Fold's quick check leaves a path unchanged, so does the full one.
func TestFold(t *testing.T) {
	for p, want := range map[string]string{
		"/srv/a.b": "/srv/a.b", "/a/../b": "/b", "/A/x. ": "/a/x", "/x:y": "/x", "/a~1/.": "", "/": "/", "/a//b/": "/a/b", "/nul": "", "/nul/x": "/nul/x",
		"/a./b": "/a/b", "/a/. ": "", "/\u212a": "/k", "/x/..": "/", "/a\\b": "/a/b", "/.env": "/.env",
	} {
		for _, p := range []string{p, "C:" + p, "c:" + strings.ToUpper(p), `\\?\z:` + p} {
			got, err := paths.Fold(p)
			if got != want || (want == "") != (err != nil) {
				t.Errorf("%q is %q (%v), want %q", p, got, err, want)
			}
		}
	}
}

// FuzzWithin compares with the standard library: the relative path to a path inside a folder
// never goes up.
func FuzzWithin(f *testing.F) {
	f.Add("/a/../b", "/b")
	f.Add("/a/b//c/.", "/a/./b")
	f.Add("/a/c:", "/a")
	f.Add("/a/~", "/a")
	f.Add("/", "/")
	f.Fuzz(func(t *testing.T, p, dir string) {
		ok, err := paths.Within(p, dir)
		if err != nil {
			return
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		if want := rel != ".." && !strings.HasPrefix(rel, "../"); ok != want {
			t.Fatalf("%q within %q = %v, but the relative path is %q", p, dir, ok, rel)
		}
		if !ok {
			return
		}
		// "./" as in a shell: a first segment such as "~" or "c:" alone has two readings.
		if again, err := paths.Join(dir, "./"+rel); err != nil || again != filepath.Clean(p) {
			t.Fatalf("join(%q, %q) = %q, %v", dir, rel, again, err)
		}
	})
}
