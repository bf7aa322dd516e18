package permission_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/permission"
)

func historyPolicy(tool string) string {
	return "version: 1\nname: shop\nrules:\n  - {name: r, tool_name: " + tool + ", behavior: deny}\n"
}

// process is a Live that stores its versions in a folder.
type process struct {
	t *testing.T
	*permission.Live
	src    *memory
	faults []error
}

// begin loads a policy as a starting engine does; "" is a policy that cannot be loaded yet.
func begin(t *testing.T, dir, text string) *process {
	t.Helper()
	p := &process{t: t, src: &memory{name: "rules.yaml", text: text}}
	var err error
	if p.Live, err = permission.NewLive(p.src, permission.LiveOptions{Options: permission.Options{AllowUnknownTools: true}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Reload(t.Context()); (err != nil) != (text == "") {
		t.Fatal(err)
	}
	p.KeepHistory(t.Context(), dir, func(err error) { p.faults = append(p.faults, err) })
	return p
}

func (p *process) load(text string) {
	p.t.Helper()
	p.src.set(text)
	if err := p.Reload(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) want(step string, texts ...string) {
	p.t.Helper()
	all := p.Status().Versions
	if len(all) != len(texts) {
		p.t.Fatalf("%s: %d versions, want %d: %+v", step, len(all), len(texts), all)
	}
	for i, want := range texts {
		if got, ok := p.Text(all[i].Bundle); !ok || len(got.Files) != 1 || got.Files[0].Text != want || got.Files[0].Name != "rules.yaml" {
			p.t.Errorf("%s: version %d is %+v, want %q", step, i, got, want)
		}
	}
	if p.Status().Loaded != all[0].Loaded {
		p.t.Errorf("%s: loaded %v, the newest version %v", step, p.Status().Loaded, all[0].Loaded)
	}
}

// folder lists a folder.
func folder(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Versions survive their process, with the time at which each came into force.
func TestHistoryOutlivesTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "policies", "default")
		a, b, c := historyPolicy("a"), historyPolicy("b"), historyPolicy("c")
		start := time.Now()
		begin(t, dir, a)
		time.Sleep(time.Hour)
		p := begin(t, dir, a)
		p.want("restart", a)
		if since := p.Status().Versions[0].Loaded; !since.Equal(start) {
			t.Errorf("after a restart the policy is in force since %v, want %v", since, start)
		}
		time.Sleep(time.Hour)
		p.load(b)
		p.load(b + "# a comment\n")
		time.Sleep(time.Hour)
		p = begin(t, dir, c)
		p.want("edited while no engine ran", c, b+"# a comment\n", a)
		for i, ago := range []time.Duration{0, time.Hour, 3 * time.Hour} {
			if got := time.Since(p.Status().Versions[i].Loaded); got != ago {
				t.Errorf("version %d came into force %v ago, want %v", i, got, ago)
			}
		}
		time.Sleep(time.Hour)
		p.load(a)
		p = begin(t, dir, a)
		p.want("back to the first", a, c, b+"# a comment\n", a)
		if len(p.faults) > 0 {
			t.Error(p.faults)
		}
		for _, name := range folder(t, dir) {
			if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v %v", name, info.Mode(), err)
			}
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the folder: %v %v", info.Mode(), err)
		}

		p = begin(t, dir, "")
		if v := p.Status().Versions; len(v) != 0 || !p.Status().Loaded.IsZero() {
			t.Errorf("without a policy in force there are the versions %+v", v)
		}
		if _, ok := p.Text(""); ok {
			t.Error("there is a text without a policy in force")
		}
		p.load(c)
		p.want("loaded after the start", c, a, c, b+"# a comment\n", a)
	})
}

// Files that are not versions, or are damaged, are ignored and reported once. They do not affect
// decisions.
func TestDamagedHistory(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, historyPolicy("a"))
	for _, tool := range []string{"b", "c", "d"} {
		p.load(historyPolicy(tool))
	}
	names := folder(t, dir)
	if len(names) != 4 {
		t.Fatal(names)
	}
	damage := func(name string, change func([]byte) []byte) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), change(data), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	damage(names[0], func(b []byte) []byte { return b[:len(b)/2] })
	damage(names[1], func(b []byte) []byte { return []byte(strings.Replace(string(b), "deny", "allow", 1)) })
	damage(names[3], func([]byte) []byte { return nil })
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, strings.Replace(names[0], "a", "b", 1)+"x", "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	p = begin(t, dir, historyPolicy("d"))
	p.want("with damaged files", historyPolicy("d"), historyPolicy("c"))
	if len(p.faults) != 1 || !strings.Contains(p.faults[0].Error(), "5 files in "+dir) {
		t.Errorf("reported %v", p.faults)
	}
	if p.Err() != nil || p.Status().Alarm != "" || p.Status().Refused != 0 {
		t.Errorf("a fault of the history is reported as a fault of the policy: %+v", p.Status())
	}
	if data, err := os.ReadFile(filepath.Join(dir, "README")); err != nil || string(data) != "mine" {
		t.Errorf("a foreign file: %s %v", data, err)
	}
}

// If nothing can be written, policies still come into force.
func TestHistoryCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file", "policies")
	if err := os.WriteFile(filepath.Dir(dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := begin(t, dir, historyPolicy("a"))
	at := len(p.faults)
	p.load(historyPolicy("b"))
	p.want("without a folder", historyPolicy("b"), historyPolicy("a"))
	if at == 0 || len(p.faults) != at+1 || p.Err() != nil {
		t.Errorf("reported %v, the policy: %v", p.faults, p.Err())
	}
}

// Files that a killed process did not finish are removed at the next start. Files that another
// process may be writing are kept.
func TestUnfinishedHistoryIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []struct {
		name string
		ago  time.Duration
	}{{".new-1", time.Hour}, {".new-2", time.Second}, {".mine", time.Hour}} {
		path := filepath.Join(dir, f.name)
		at := time.Now().Add(-f.ago)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	p := begin(t, dir, historyPolicy("a"))
	if names := folder(t, dir); len(names) != 3 || names[0] != ".mine" || names[1] != ".new-2" || len(p.faults) > 0 {
		t.Errorf("the folder has %q; %v", names, p.faults)
	}
}

// The folder has limits, and a version that exceeds them is reported.
func TestHistoryIsBounded(t *testing.T) {
	dir := t.TempDir()
	p := begin(t, dir, historyPolicy("a"))
	for i := range 30 {
		p.load(historyPolicy(fmt.Sprint("t", i)))
	}
	if names := folder(t, dir); len(names) != 20 {
		t.Errorf("%d files", len(names))
	}
	p = begin(t, dir, historyPolicy("t29"))
	if v := p.Status().Versions; len(v) != 20 {
		t.Errorf("%d versions", len(v))
	}
	comment := strings.Repeat("#"+strings.Repeat("x", 98)+"\n", 9000)
	for i := range 6 {
		p.load(historyPolicy(fmt.Sprint("large", i)) + comment)
	}
	size := int64(0)
	for _, name := range folder(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	if n := len(folder(t, dir)); n != 4 || size > 4<<20 {
		t.Errorf("%d files of %d bytes", n, size)
	}
	p = begin(t, dir, historyPolicy("large5")+comment)
	if v := p.Status().Versions; len(v) != 4 || len(p.faults) != 0 {
		t.Errorf("%d versions; %v", len(v), p.faults)
	}
	large, err := permission.NewLive(many{comment}, permission.LiveOptions{Options: permission.Options{AllowUnknownTools: true}})
	if err == nil {
		err = large.Reload(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	var faults []error
	large.KeepHistory(t.Context(), dir, func(err error) { faults = append(faults, err) })
	if len(faults) != 1 || !strings.Contains(faults[0].Error(), "4 MiB") || len(large.Status().Versions) != 1 {
		t.Errorf("%v, %d versions", faults, len(large.Status().Versions))
	}
}

// Processes that share a folder store complete versions there, even at the same time.
func TestHistoryOfSeveralProcesses(t *testing.T) {
	dir := t.TempDir()
	var all []*process
	for i := range 3 {
		all = append(all, begin(t, dir, historyPolicy(fmt.Sprint("p", i))))
	}
	var wg sync.WaitGroup
	for i, p := range all {
		wg.Go(func() {
			for n := range 15 {
				p.src.set(historyPolicy(fmt.Sprintf("p%dn%d", i, n)))
				if err := p.Reload(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for i, p := range all {
		if len(p.faults) > 0 || len(p.Status().Versions) < 16 {
			t.Errorf("process %d: %d versions, %v", i, len(p.Status().Versions), errors.Join(p.faults...))
		}
	}
	p := begin(t, dir, historyPolicy("p0n14"))
	if v := p.Status().Versions; len(v) != 20 && len(v) != 19 || len(p.faults) > 0 {
		t.Errorf("%d versions, %v", len(v), p.faults)
	}
}

// many is a policy source with six large files.
type many struct{ text string }

func (m many) Read(context.Context) (files []permission.File, err error) {
	for i := range 6 {
		text := fmt.Sprintf("version: 1\nname: f%d\nrules:\n  - {name: r%d, tool_name: x, behavior: deny}\n", i, i) + m.text
		files = append(files, permission.File{Name: fmt.Sprint(i, ".yaml"), Data: []byte(text)})
	}
	return files, nil
}
