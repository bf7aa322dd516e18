package permission_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// Files that editors and people leave in a folder are not part of the policy, and are reported.
func TestFilesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.yaml", "b.YML", ".a.yaml.swp", ".hidden.yaml", "a.yaml~", "#a.yaml#", "4913", "a.yaml.bak", "README.md"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("ann@host.1234:1", filepath.Join(dir, ".#a.yaml")); err != nil { // the lock file of Emacs is a link without a target
		t.Fatal(err)
	}
	for _, name := range []string{"..2026_01_01", ".git"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("..2026_01_01", filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	source := permission.Paths(dir)
	files, err := source.Read(t.Context())
	if err != nil || len(files) != 2 || files[0].Name != filepath.Join(dir, "a.yaml") || files[1].Name != filepath.Join(dir, "b.YML") {
		t.Errorf("Read = %+v, %v", files, err)
	}
	var got []string
	for _, n := range source.Ignored() {
		got = append(got, strings.TrimPrefix(n.String(), dir+"/"))
	}
	want := []string{
		"#a.yaml# is ignored because it does not end in .yaml or .yml", ".#a.yaml is ignored because it is hidden", ".a.yaml.swp is ignored because it is hidden",
		".git is ignored because it is hidden", ".hidden.yaml is ignored because it is hidden", "4913 is ignored because it does not end in .yaml or .yml",
		"README.md is ignored because it does not end in .yaml or .yml", "a.yaml.bak is ignored because it does not end in .yaml or .yml",
		"a.yaml~ is ignored because it does not end in .yaml or .yml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// A name that is not UTF-8 has no place in a record or reply: such a rule file is refused, and others
// are listed with a mark in their name.
func TestNamesAreUTF8(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), rulesFile("allow"))
	if err := os.WriteFile(filepath.Join(dir, "\xff.txt"), nil, 0o600); err != nil {
		return // the file system has only UTF-8 names
	}
	live, err := permission.NewLive(permission.Paths(dir), permission.LiveOptions{Options: permission.Options{AllowUnknownTools: true}})
	if err == nil {
		err = live.Reload(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"file", "folder"} {
		odd := filepath.Join(dir, "\xff.yaml")
		if kind == "folder" {
			err = os.Mkdir(odd, 0o700)
		} else {
			err = os.WriteFile(odd, []byte(rulesFile("deny")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := live.Reload(t.Context()); err == nil {
			t.Errorf("a %s with such a name is read", kind)
		}
		status := live.Status()
		if _, err := strictjson.Marshal(status); err != nil || status.Alarm == "" || len(status.Ignored) != 1 {
			t.Errorf("%s: status %+v: %v", kind, status, err)
		}
		if err := os.Remove(odd); err != nil {
			t.Fatal(err)
		}
	}
}

// A subfolder might contain deny rules that its author expects to be in force.
func TestSubfoldersAreRefused(t *testing.T) {
	elsewhere := t.TempDir()
	for name, create := range map[string]func(string) error{
		"folder":      func(path string) error { return os.Mkdir(path, 0o700) },
		"folder.yaml": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":        func(path string) error { return os.Symlink(elsewhere, path) },
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "a.yaml"), rulesFile("allow"))
		if err := create(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, err := permission.Paths(dir).Read(t.Context())
		if e, ok := errors.AsType[*message.Error](err); !ok || !strings.Contains(e.What, filepath.Join(dir, name)+" is a folder, not a file, and subfolders of the policy folder "+dir+" are not read") || e.Hint == "" {
			t.Errorf("%s: Read = %v", name, err)
		}
	}
}

// A file that is cut off at any byte never replaces the complete one. At the first load it is
// refused, unless it is cut at the end of a line.
func TestNoHalfWrittenFileIsLoaded(t *testing.T) {
	const whole = "version: 1\nname: live\nrules:\n  - {name: r, tool_name: t, behavior: allow}\n\n  - name: last\n    tool_name: t\n    behavior: deny\n    when: '1 == 1'\n"
	for _, end := range []string{"", "...\n", "...", "...\r\n"} {
		w := newLive(t)
		path, text := w.file("a.yaml"), whole+end
		write(t, path, text)
		if err := w.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		for cut := range len(strings.TrimRight(text, "\r\n")) {
			if err := os.WriteFile(path, []byte(text[:cut]), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := w.Reload(t.Context()); err == nil {
				t.Errorf("a file with %d of %d bytes is loaded, end %q", cut, len(text), end)
			}
			w.want(t, fmt.Sprintf("after %d bytes", cut), message.BehaviorDeny)
			if fresh := permission.Paths(path); cut > 0 && text[cut-1] != '\n' {
				if _, err := fresh.Read(t.Context()); err == nil {
					t.Errorf("a file with %d of %d bytes is read at the first load, end %q", cut, len(text), end)
				}
			}
		}
		write(t, path, text)
		if err := w.Reload(t.Context()); err != nil || w.Err() != nil {
			t.Errorf("the complete file: %v", err)
		}
		// A deny rule is removed on purpose, as the end marker shows.
		write(t, path, whole[:strings.Index(whole, "\n  - name: last")]+"...\n")
		if err := w.Reload(t.Context()); err != nil {
			t.Errorf("a file with an end marker: %v", err)
		}
		w.want(t, "without the deny rule", message.BehaviorAllow)
		write(t, path, "version: 1\nname: other\nrules:\n  - {name: r, tool_name: t, behavior: ask}\n")
		if err := w.Reload(t.Context()); err == nil {
			t.Error("a file without its end marker is loaded")
		}
		w.want(t, "after it lost its end", message.BehaviorAllow)
	}
}

// A file in another encoding has no line ends to look for: it is refused for its encoding.
func TestEncodingIsNamed(t *testing.T) {
	w := newLive(t)
	write(t, w.file("a.yaml"), "\xff\xfev\x00e\x00\n\x00")
	if err := w.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "it looks like UTF-16: save it as UTF-8") {
		t.Errorf("UTF-16: %v", err)
	}
}

// Text after the end marker would not be a rule.
func TestNothingFollowsTheEnd(t *testing.T) {
	const rules = "version: 1\nname: live\nrules:\n  - {name: r, tool_name: t, behavior: allow}\n...\n"
	if _, err := permission.Parse(permission.File{Name: "a", Data: []byte(rules + "# end\n")}); err != nil {
		t.Errorf("a comment after the end: %v", err)
	}
	for _, more := range []string{"rules: []\n", "  - {name: s, tool_name: t, behavior: deny}\n", "---\nversion: 1\nname: b\nrules: []\n", "x\n"} {
		if p, err := permission.Parse(permission.File{Name: "a", Data: []byte(rules + more)}); err == nil {
			t.Errorf("%q after the end: %d rules", more, len(p.Rules))
		}
	}
}
