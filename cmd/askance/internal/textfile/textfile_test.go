package textfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
)

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if _, err := textfile.Read("tools file", path, 4); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "tools file: ") {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{"": "", "1234": "", "12345": "tools file " + path + ": is longer than 4 bytes"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := textfile.Read("tools file", path, 4)
		if want == "" && (err != nil || string(got) != text) {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
		if bad, ok := errors.AsType[*textfile.Error](err); want != "" && (!ok || bad.File != path || err.Error() != want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestDecodeYAML(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"one key", "version: 1", ""},
		{"one document", "---\nversion: 1\n...\n", ""},
		{"an unknown key", "version: 1\nverzion: 2", `unknown field "verzion"`},
		{"a duplicate key", "version: 1\nversion: 2", "already defined"},
		{"two documents", "version: 1\n---\nversion: 1", "has more than one document"},
		{"a broken document after it", "version: 1\n---\n[", "[3:"},
		{"no YAML", "version: [", "[1:"},
		{"a directive", "# settings\n\n%YAML 1.2\n---\nversion: 1", `[3:1] contains a YAML directive (leave out the line "%YAML 1.2")`},
		{"a directive without a document", "%TAG ! tag:x,2000:", "contains a YAML directive"},
		{"a percent sign elsewhere", "version: 1 # \n# %YAML\n", ""},
		{"another encoding", "version: 1\n# caf\xe9\n", "[2:1] is not UTF-8 (save the file as UTF-8)"},
		{"an octal number", "version: 01", "[1:10] is 01, which programs read in different ways (put it in quotes if it is a text"},
		{"a hexadecimal number", "version: 0x1", "is 0x1, which"},
		{"a number with an underscore", "version: 1_0", "is 1_0, which"},
		{"odd numbers in texts", "version: 1 # 010\n", ""},
		{"too long", "#" + strings.Repeat("x", textfile.MaxBytes), "is longer than 1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var f struct {
				Version int `yaml:"version"`
			}
			if err := textfile.DecodeYAML([]byte(tc.text), &f); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	if textfile.CheckVersion(1) != nil || textfile.CheckVersion(0) == nil || textfile.CheckVersion(2) == nil {
		t.Error("a version other than 1 is accepted, or 1 is not")
	}
}

func TestErrorNamesThePart(t *testing.T) {
	err := &textfile.Error{Kind: "tools file", File: "t.yaml", Part: "tool refund", Err: fs.ErrInvalid}
	if got, want := err.Error(), "tools file t.yaml: tool refund: invalid argument"; got != want || !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("%q, want %q", got, want)
	}
}
