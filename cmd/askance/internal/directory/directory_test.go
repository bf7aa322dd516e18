package directory_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/bustest"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// key returns a public key in which every byte is b.
func key(b byte) string {
	pub := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize)).Public()
	return toolcall.FormatPublicKey(pub.(ed25519.PublicKey))
}

func newNamed(texts ...string) []directory.Named {
	var out []directory.Named
	for i, text := range texts {
		out = append(out, directory.Named{Name: string(rune('a'+i)) + ".yaml", Data: []byte(text)})
	}
	return out
}

func TestParse(t *testing.T) {
	d, err := directory.Parse(newNamed(
		"version: 1\ngroups:\n  ops: [bob, ann]\n  finance: [ann, ann]\n  empty: []\napprovers:\n  ann: {keys: ['"+key(1)+"', '"+key(2)+"']}\n",
		"version: 1\ngroups:\n  legal: [ann]\napprovers:\n  ann: {keys: ['"+key(1)+"']}\n")...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{"ann": {"finance", "legal", "ops"}, "bob": {"ops"}, "carol": nil, "": nil} {
		if got := d.Groups(name); !slices.Equal(got, want) {
			t.Errorf("%q is in %q, want %q", name, got, want)
		}
	}
	if keys := d.Keys(); len(keys) != 1 || len(keys["ann"]) != 2 {
		t.Errorf("keys are %v", keys)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":              "",
		"no version":           "groups: {ops: [ann]}",
		"another version":      "version: 2",
		"an unknown key":       "version: 1\ngroup: {ops: [ann]}",
		"a duplicate group":    "version: 1\ngroups:\n  ops: [ann]\n  ops: [bob]\n",
		"a nameless group":     "version: 1\ngroups: {'': [ann]}",
		"a nameless member":    "version: 1\ngroups: {ops: ['']}",
		"an octal member":      "version: 1\ngroups: {ops: [0123]}",
		"an octal group":       "version: 1\ngroups: {0123: [ann]}",
		"a name in Latin-1":    "version: 1\ngroups: {ops: [\xe9va]}",
		"a null member":        "version: 1\ngroups: {ops: [~]}",
		"members as text":      "version: 1\ngroups: {ops: ann}",
		"a nested group":       "version: 1\ngroups: {ops: {admins: [ann]}}",
		"two documents":        "version: 1\n---\nversion: 1\ngroups: {ops: [ann]}",
		"a long name":          "version: 1\ngroups: {ops: [" + strings.Repeat("a", toolcall.MaxIDBytes+1) + "]}",
		"a bad key":            "version: 1\napprovers: {ann: {keys: [ed25519:AAAA]}}",
		"a key without a type": "version: 1\napprovers: {ann: {keys: [" + strings.TrimPrefix(key(1), "ed25519:") + "]}}",
		"a key of two people":  "version: 1\napprovers: {ann: {keys: ['" + key(1) + "']}, bob: {keys: ['" + key(1) + "']}}",
		"an unknown member":    "version: 1\napprovers: {ann: {key: '" + key(1) + "'}}",
		"not YAML":             "version: 1\ngroups: [",
		"too long":             "version: 1\n#" + strings.Repeat("x", textfile.MaxBytes),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := directory.Parse(newNamed(text)...)
			if _, ok := errors.AsType[*textfile.Error](err); !ok || d != nil {
				t.Errorf("%v, %v; want a refusal that names the file", d, err)
			}
		})
	}
	if _, err := directory.Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// Removing a member takes effect, and a file that cannot be read changes nothing.
func TestLive(t *testing.T) {
	b := bustest.New(t)
	bucket, err := journal.OpenDirectoryBucket(t.Context(), b.Conn("engine"), "test", journal.PolicyBucketOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "people.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put := func(text string) {
		t.Helper()
		if _, err := bucket.Put(t.Context(), "more.yaml", []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("version: 2\n")
	if _, err := directory.Open(t.Context(), []string{path}, bucket, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a bad directory was opened")
	}
	write("version: 1\ngroups: {ops: [ann]}\n")
	l, err := directory.Open(t.Context(), []string{path}, bucket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	step := func(what string, wantErr, wantChange bool, want ...string) {
		t.Helper()
		changed, err := l.Reload(t.Context())
		if (err != nil) != wantErr || changed != wantChange {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
		m, err := l.Groups(t.Context(), toolcall.Principal{Name: "ann"})
		if err != nil || !slices.Equal(m.Groups, want) || m.Source != "file+nats-kv" {
			t.Errorf("%s: ann is in %q by %s, %v; want %q", what, m.Groups, m.Source, err, want)
		}
	}
	step("at the start", false, false, "ops")
	put("version: 1\ngroups: {finance: [ann]}")
	step("a bucket with more", false, true, "finance", "ops")
	write("version: 1\ngroups: {ops: [bob]}\n")
	step("out of ops", false, true, "finance")
	write("version: 1\ngroups:\n  ops:\n    - bob\n    - ann") // the first bytes of a longer name
	step("a name that may be cut off", true, false, "finance")
	write("groups: {root: [ann]}\n")
	step("a bad file", true, false, "finance")
	put("version: 1\ngroups: {root: [ann]}")
	step("a good bucket and the bad file", true, false, "finance")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	step("no file", true, false, "finance")
	write("version: 1\n")
	step("both good", false, true, "root")
	if err := bucket.Delete(t.Context(), "more.yaml"); err != nil {
		t.Fatal(err)
	}
	step("out of everything", false, true)
}

// A file that is being written changes no groups: a rule may deny what members of a group propose.
func TestFileThatIsBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "people.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		const start, rest = "version: 1\ngroups:\n  ops: [ann]\n", "  contractors: [bot]\n"
		write(start + rest)
		var log bytes.Buffer // by default, only warnings are logged
		l, err := directory.Open(t.Context(), []string{path}, nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go l.Watch(ctx, time.Second)
		time.Sleep(time.Second / 2) // between two looks
		has := func(what string, want ...string) {
			t.Helper()
			if got := l.Now().Groups("bot"); !slices.Equal(got, want) {
				t.Errorf("%s: bot is in %q, want %q", what, got, want)
			}
		}
		for range 3 {
			write(start)
			time.Sleep(time.Second)
			has("half of the file", "contractors")
			write(start + rest + "  more: [bot]\n")
			time.Sleep(time.Second)
			has("the whole file, at first", "contractors")
			write(start + rest)
			time.Sleep(time.Second)
			has("the old file", "contractors")
		}
		write(start)
		time.Sleep(2 * time.Second)
		has("a file at rest")
		for _, refused := range []bool{true, false} {
			if write(start); refused {
				write("version: 2\n")
			}
			time.Sleep(2 * time.Second)
			if got := l.IsRefused(); got != refused {
				t.Errorf("IsRefused = %t, want %t", got, refused)
			}
		}
		stop()
		synctest.Wait()
		if n := strings.Count(log.String(), `msg="the directory has changed and is in force" people=1`); n != 1 {
			t.Errorf("the log names the change %d times: %s", n, &log)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("version: 1\ngroups:\n  ops: [ann]\napprovers:\n  ann: {keys: ['" + key(1) + "']}\n"))
	f.Add([]byte("version: 1\n---\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := directory.Parse(directory.Named{Name: "x", Data: data})
		if (d == nil) == (err == nil) {
			t.Errorf("%v and %v", d, err)
		}
	})
}
