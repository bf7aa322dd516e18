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
		{"an octal number", "version: 010", "[1:10] is 010, which would become 8 (put it in quotes if it is a text, otherwise write 8)"},
		{"a hexadecimal number", "version: 0x1", "is 0x1, which"},
		{"a number with an underscore", "version: 1_0", "is 1_0, which"},
		{"a number as text", "names: [10, -5, 0.5, '1.10', 2026-01-01]", ""},
		{"a last zero", "names: [1.10]", "[1:9] is 1.10, which would become 1.1 ("},
		{"a last fraction of zero", "names: [1.0]", "is 1.0, which would become 1 ("},
		{"no first digit", "names: [.5]", "is .5, which would become 0.5 ("},
		{"a fraction with an underscore", "names: [1_0.5]", "is 1_0.5, which"},
		{"a plus sign", "names:\n  - +491701", "[2:5] is +491701, which would become 491701 ("},
		{"a negative zero", "names: [-0]", "is -0, which would become 0 ("},
		{"infinity", "names: [.inf]", "is .inf, which would become +Inf ("},
		{"negative infinity", "names: [-.inf]", "is -.inf, which"},
		{"not a number", "names: [.nan]", "is .nan, which would become NaN ("},
		{"a tag", "names: [!!str 1.10]", "[1:9] is an anchor, alias, tag or merge key of YAML (write the value out, without it)"},
		{"an anchor", "names: [&a 1.10, *a]", "[1:9] is an anchor"},
		{"an anchor that is not repeated", "version: &a 1", "[1:10] is an anchor"},
		{"an alias", "groups: {a: *a}", "[1:13] is an anchor"},
		{"a merge key", "groups: {<<: {a: x}}", "[1:10] is an anchor"},
		{"a merge key among numbers", "schema: {<<: {a: 1}}", "[1:10] is an anchor"},
		{"a key", "groups: {1.10: x}", "[1:10] is not a text, as each key must be (put the key in quotes)"},
		{"a number as key of a file", "version: 1\n1: x", "[2:1] is not a text"},
		{"true as key of a file", "version: 1\ntrue: x", "[2:1] is not a text"},
		{"null as key of a file", "version: 1\nnull: x", "[2:1] is not a text"},
		{"null as key", "groups: {a: x, ~: y}", "[1:16] is not a text"},
		{"null as key among numbers", "schema: {Null: y}", "[1:10] is not a text"},
		{"True as key among numbers", "schema: {True: y}", "[1:10] is True, which would become true"},
		{"a key in quotes", "groups: {'1.10': x, \"null\": y}", ""},
		{"numbers", "schema: {minimum: 0.0, a: [1.10, .5, True, null], true: x, 200: y}", ""},
		{"a key among numbers", "schema: {minimum: 0.0, 1.0: x}", "[1:24] is 1.0, which"},
		{"an anchor among numbers", "schema: {a: &a 1.10}\nnames: [*a]", "[1:13] is an anchor"},
		{"a fraction as whole number", "version: 1.9", "[1:10] version: must be a whole number (write it without quotes, point or exponent)"},
		{"an exponent", "version: 1e0", "[1:10] version: must be a whole number"},
		{"a whole number in quotes", "version: '1'", "[1:10] version: must be a whole number"},
		{"a number of 65 bits", "version: 18446744073709551617", "[1:10] version: must be a whole number"},
		{"True as text", "names: [True]", "[1:9] is True, which would become true (put it in quotes if it is a text, otherwise write true)"},
		{"words of YAML 1.1", "names: [yes, No, on, true]", ""},
		{"null in a list", "names:\n  - a\n  - Null", "[3:5] is an empty item of a list (remove it, or put it in quotes if it is a text)"},
		{"an empty item", "names:\n  -\n  - a", "is an empty item"},
		{"no value", "version:\nnames: null\ngroups: ~", ""},
		{"a tab", "names:\n  - a\tb", "[2:5] contains a tab (write a space, or put the text in quotes)"},
		{"a tab after a text", "names:\t\n  - a\t# x\ty\n", ""},
		{"a tab in quotes", "groups:\n  c: 'a\tb'\n  a: |\n    x\ty\n", ""},
		{"a byte order mark", "\ufeff# settings\nversion: 1", ""},
		{"a byte order mark and a directive", "\ufeff%YAML 1.2\n---\nversion: 1", "[1:1] contains a YAML directive"},
		{"lines of Windows", "version: 1\r\nnames: [a]\r\n", ""},
		{"the place in lines of Windows", "version: 1\r\ngroups:\r\n  a: |\r\n    x\r\nverzion: 1", "[5:1] unknown"},
		{"a carriage return", "version: 1\n# a\rnames: [a]", "[2:1] contains a carriage return (end lines with LF or CR LF)"},
		{"an end of the document", "version: 1\n...\n# end\n", ""},
		{"keys after the end of the document", "version: 1\n...\nnames: []", "[3:1] has more than one document"},
		{"an empty document", "---\n...\n", ""},
		{"an empty last document", "version: 1\n---\n", "[2:1] has more than one document (use one file for each)"},
		{"an empty first document", "---\n---\nversion: 1", "[2:1] has more than one document"},
		{"a text after numbers", "schema: {minimum: 0.0}\nnames: [1.10]", "[2:9] is 1.10, which"},
		{"an octal number among numbers", "schema: {minimum: 010}", "is 010, which"},
		{"infinity among numbers", "schema: {minimum: .inf}", "is .inf, which"},
		{"odd numbers in texts", "version: 1 # 010\n", ""},
		{"too long", "#" + strings.Repeat("x", textfile.MaxBytes), "is longer than 1 MiB"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var f struct {
				Version textfile.Integer `yaml:"version"`
				Names   []string         `yaml:"names"`
				Groups  map[string]any   `yaml:"groups"`
				Schema  map[string]any   `yaml:"schema"`
			}
			if err := textfile.DecodeYAML([]byte(tc.text), &f, "schema"); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
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

// A text of several lines has no CR, also in a file with lines of Windows.
func TestDecodeYAMLOfWindows(t *testing.T) {
	var f struct{ A, B string }
	if err := textfile.DecodeYAML([]byte("\ufeffa: \"x\r\n  y\"\r\nb: |\r\n  x\r\n  y\r\n"), &f); err != nil || f.A != "x y" || f.B != "x\ny\n" {
		t.Errorf("%+v, %v", f, err)
	}
	if line, col := textfile.Place([]byte("\ufeffa: \"x\r\n  y\"\r\nb: z\r\n"), "$.b"); line != 3 || col != 4 {
		t.Errorf("b is at %d:%d", line, col)
	}
}
