package archtest_test

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/askance-dev/askance/internal/archtest"
)

// outside is the one folder next to the module that a test may read. Only drift_test.go may name
// it.
const outside = ".." + "/shared"

// The texts of the module must be true on every machine: no file names a folder of this machine,
// its package registries, or something outside the module. These names are read from the machine.
func TestNoForeignWords(t *testing.T) {
	dir := root(t)
	files, err := archtest.Files(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	words := machineWords(t, dir)
	read := 0
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil || !utf8.Valid(text) || copiedVector(file) {
			continue // deleted in the meantime, binary, or not ours to change
		}
		read++
		for _, w := range foreignWords(file, string(text), words) {
			t.Errorf("%s: contains %q, which means something only on this machine", file, w)
		}
	}
	if read < 50 {
		t.Errorf("read %d files; the module has more, so the search is broken", read)
	}
}

func foreignWords(file, text string, words []string) []string {
	var out []string
	for _, w := range words {
		if standsIn(text, w) {
			out = append(out, w)
		}
	}
	if file != "internal/archtest/drift_test.go" && strings.Contains(text, outside) {
		out = append(out, outside)
	}
	return out
}

// standsIn reports whether a text contains a path or a host on its own and not as part of a
// longer one, as lib/src/app or /src/apple contain /src/app.
func standsIn(text, word string) bool {
	if !strings.Contains(text, word) {
		return false
	}
	found, err := regexp.MatchString(`(^|[^\w./-])(\w+://)?`+regexp.QuoteMeta(word)+`($|[^\w-])`, text)
	return err == nil && found
}

// machineWords collects the module's own folder, the go command's folders, and
// the hosts of the module proxy and the checksum database.
func machineWords(t *testing.T, dir string) []string {
	t.Helper()
	words := folders(dir)
	for name, value := range goEnv(t) {
		switch name {
		case "GOPATH", "GOMODCACHE", "GOCACHE":
			words = append(words, folders(value)...)
		case "GOPROXY", "GOSUMDB":
			words = append(words, hosts(value)...)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// folders returns the paths that name a place on this machine only. Folders directly below the
// root, such as /go or /src, could be ordinary words.
func folders(paths ...string) []string {
	return slices.DeleteFunc(paths, func(p string) bool {
		return !filepath.IsAbs(p) || strings.Count(filepath.ToSlash(filepath.Clean(p)), "/") < 2
	})
}

func goEnv(t *testing.T) map[string]string {
	t.Helper()
	names := []string{"GOPATH", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOSUMDB"}
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		t.Fatalf("go env: %v", err)
	}
	values := map[string]string{}
	for i, line := range strings.Split(strings.TrimRight(string(out), "\n"), "\n") {
		values[names[i]] = line
	}
	return values
}

// hosts returns the host names in a list of URLs or bare hosts. Words without a dot (off, direct)
// are not hosts.
func hosts(list string) []string {
	var out []string
	for _, item := range strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(",| ", r) }) {
		host := item
		if u, err := url.Parse(item); err == nil && u.Host != "" {
			host = u.Hostname()
		}
		host, _, _ = strings.Cut(host, "+") // a checksum database with its key
		if strings.Contains(host, ".") {
			out = append(out, host)
		}
	}
	return out
}

// copiedVector reports whether a file is a byte-for-byte copy that drift_test.go checks.
func copiedVector(file string) bool {
	parts := strings.Split(file, "/")
	return len(parts) >= 3 && parts[len(parts)-3] == "testdata" && slices.Contains(vectorFolders, parts[len(parts)-2])
}

func TestForeignWords(t *testing.T) {
	words := []string{"/srv/build/askance", "registry.example"}
	tests := []struct {
		name, file, text string
		want             []string
	}{
		{"clean", "README.md", "run make test", nil},
		{"a path", "Makefile", "cd /srv/build/askance/bus", []string{"/srv/build/askance"}},
		{"the folder itself", "Makefile", "cd /srv/build/askance", []string{"/srv/build/askance"}},
		{"a path in quotes", "x.go", `"/srv/build/askance/bus"`, []string{"/srv/build/askance"}},
		{"a part of a longer path", "x.go", "lib/srv/build/askance and /srv/build/askances", nil},
		{"a host", "go.mod", "https://registry.example/x", []string{"registry.example"}},
		{"a host without a scheme", "go.mod", "at registry.example.", []string{"registry.example"}},
		{"a part of a longer host", "go.mod", "my.registry.example-2", nil},
		{"outside the module", "message/x_test.go", "open " + outside + "/spec", []string{outside}},
		{"outside the module, where it is allowed", "internal/archtest/drift_test.go", outside, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := foreignWords(tt.file, tt.text, words); !slices.Equal(got, tt.want) {
				t.Errorf("foreignWords = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFolders(t *testing.T) {
	got := folders("/srv/build/askance", "/go", "/", "", "off", "/opt/go/cache")
	if want := []string{"/srv/build/askance", "/opt/go/cache"}; !slices.Equal(got, want) {
		t.Errorf("folders = %q, want %q", got, want)
	}
}

func TestHosts(t *testing.T) {
	got := hosts("https://user@goproxy.example:8443/x,http://second.example|direct sum.example+033de0ae+Ac4 off")
	want := []string{"goproxy.example", "second.example", "sum.example"}
	if !slices.Equal(got, want) {
		t.Errorf("hosts = %q, want %q", got, want)
	}
}
