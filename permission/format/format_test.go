package format_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/format"
)

func TestSource(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			in, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(strings.Replace(path, ".in.", ".out.", 1))
			if err != nil {
				t.Fatal(err)
			}
			got, err := format.Source(path, in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%s", diff, got)
			}
		})
	}
}

// TestTwiceIsOnce: formatting any rule file of the repository twice has the same result as
// formatting it once.
func TestTwiceIsOnce(t *testing.T) {
	n := 0
	for _, pattern := range []string{"testdata/*.yaml", "../lint/testdata/*/*.yaml", "../testdata/cases/*/rules.yaml", "../../examples/*/policy.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			in, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			once, err := format.Source(path, in)
			if _, refused := errors.AsType[*permission.LoadError](err); refused {
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			twice, err := format.Source(path, once)
			if err != nil {
				t.Errorf("%s, again: %v\n%s", path, err, once)
				continue
			}
			if diff := cmp.Diff(string(once), string(twice)); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
			n++
		}
	}
	if n < 40 {
		t.Errorf("formatted only %d files, so the search is broken", n)
	}
}

func TestRefusesWhatDoesNotLoad(t *testing.T) {
	_, err := format.Source("x.yaml", []byte("version: 1\nname: x\nrules: [{nome: a}]\n"))
	if _, refused := errors.AsType[*permission.LoadError](err); !refused {
		t.Errorf("error %v", err)
	}
}

// Formatting removes a byte order mark and CR LF, and changes nothing else.
func TestOddLineEnds(t *testing.T) {
	const text = "version: 1\nname: x\nrules:\n  - name: a\n    tool: t\n    behavior: deny\n"
	out, err := format.Source("x.yaml", []byte("\ufeff"+strings.ReplaceAll(text, "\n", "\r\n")))
	if err != nil || string(out) != text {
		t.Errorf("%q, %v", out, err)
	}
}

func TestPolicy(t *testing.T) {
	content := "git status:*"
	p := permission.Policy{Mode: permission.ModeAcceptEdits, Rules: []permission.Rule{
		{Name: "specifier/allow/Bash(git status:*)", Tools: []string{"Bash"}, RuleContent: &content, Behavior: "allow", Source: "userSettings"},
		{Name: "no", Description: "odd: # text", Tools: []string{"a", "b/*"}, Behavior: "ask", When: "args.x == \"1\"", Locked: true,
			Approvers: permission.Approvers{Users: []string{"ann", "true"}}, Expiry: 90 * time.Second},
	}}
	out, err := format.Policy("imported", "From settings.\nSecond line.", p)
	if err != nil {
		t.Fatal(err)
	}
	want := `# From settings.
# Second line.
version: 1
name: imported
defaults: {mode: accept_edits}
rules:
  - name: "specifier/allow/Bash(git status:*)"
    tool: Bash
    rule_content: "git status:*"
    behavior: allow
    source: userSettings

  - name: "no"
    description: "odd: # text"
    tool: [a, "b/*"]
    behavior: ask
    when: "args.x == \"1\""
    locked: true
    approvers: {users: [ann, "true"]}
    expiry: 1m30s
`
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
	p.Rules[0].Quorum = 3
	if _, err := format.Policy("imported", "", p); !errors.Is(err, format.ErrNotWritten) {
		t.Errorf("a setting without a key is dropped: %v", err)
	}
}
