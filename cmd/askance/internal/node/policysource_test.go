package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
)

// Files that are put one after the other are loaded together, once, and only after no file has
// changed for a while.
func TestABucketIsLoadedWhenItIsAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, ended, out := make(chan struct{}, 1), make(chan error, 1), make(chan error, 1)
		start := time.Now()
		loads := make(chan time.Duration, 10)
		go func() {
			out <- whenAtRest(changed, ended, func() { loads <- time.Since(start) })
		}()
		var loaded []time.Duration
		after := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		want := func(what string, times ...time.Duration) {
			t.Helper()
			for len(loads) > 0 {
				loaded = append(loaded, <-loads)
			}
			if len(loaded) != len(times) {
				t.Fatalf("%s: loaded at %v, want %v", what, loaded, times)
			}
			for i, at := range times {
				if loaded[i] != at {
					t.Errorf("%s: loaded at %v, want %v", what, loaded, times)
				}
			}
		}
		after(time.Hour)
		want("nothing has changed")
		for range 5 { // each change restarts the wait
			changed <- struct{}{}
			after(resolveFor - time.Millisecond)
			want("changes go on")
		}
		first := time.Since(start) + time.Millisecond
		after(time.Second)
		want("at rest", first)
		after(time.Hour)
		want("long at rest", first)
		second := time.Since(start) + resolveFor
		changed <- struct{}{}
		after(time.Second)
		want("a second series", first, second)

		changed <- struct{}{}
		synctest.Wait()
		stop := errors.New("stopping")
		ended <- stop
		if err := <-out; !errors.Is(err, stop) {
			t.Errorf("ended with %v", err)
		}
		after(time.Hour)
		want("after the end", first, second)
	})
}

// A change of the bucket does not load rule files next to it, which may be half written.
func TestABucketLoadsNoFilesNextToIt(t *testing.T) {
	for _, files := range []bool{false, true} {
		live, err := permission.NewLive(rulesOf("version: 1\nname: p\nrules:\n  - {name: r, tool_name: t, behavior: ask}\n"), permission.LiveOptions{Options: PolicyOptions(nil)})
		if err != nil {
			t.Fatal(err)
		}
		policy{live: live, files: files}.loadBucket(t.Context())
		if loaded := live.Status().Rules == 1; loaded == files {
			t.Errorf("files next to the bucket: %v, loaded: %v", files, loaded)
		}
	}
}

// rulesOf is a policy source with one file.
type rulesOf string

func (r rulesOf) Read(context.Context) ([]permission.File, error) {
	return []permission.File{{Name: "rules.yaml", Data: []byte(r)}}, nil
}

// Links on this machine are not followed for calls that rules route to another machine.
func TestRoutedCallsAreNotResolvedHere(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "safe"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	schema, err := permission.CompileSchema([]byte(`{"type": "object", "required": ["path"], "properties": {"path": {"type": "string", "format": "path"}, "far": {"type": "boolean"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	live, err := permission.NewLive(rulesOf(`version: 1
name: x
rules:
  - {name: safe, tool: save, behavior: allow, when: "ctx.resolved[args.path] == '`+filepath.Join(dir, "safe", "f")+`'"}
  - {name: far, tool: save, behavior: allow, when: "has(args.far) && args.far && ctx.resolved[args.path] != ''", executor: {subject: exec.far}}
`), permission.LiveOptions{Options: permission.Options{Tools: []permission.Tool{{Name: "save", Schema: schema}}, Enforced: engine.Duties()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := prepared{live, map[string]*permission.Schema{"save": schema}}
	path := filepath.Join(dir, "link", "f")
	for input, want := range map[string]message.Behavior{
		`{"path": "` + path + `"}`:              message.BehaviorAllow, // it runs here
		`{"path": "` + path + `", "far": true}`: message.BehaviorAsk,
	} {
		r := permission.Request{Tool: "save", Input: []byte(input), Cwd: dir}
		d, x := p.Decide(t.Context(), r), p.Explain(t.Context(), r)
		if d.Behavior != want || x.Decision != want {
			t.Errorf("%s: %s, explained as %s, want %s (%s)", input, d.Behavior, x.Decision, want, d.Reason)
		}
	}
}

// TestReporterTellsWatchedRules: a rule that only warns or audits would otherwise never be
// reported. What was reported is not reported again.
func TestReporterTellsWatchedRules(t *testing.T) {
	var out bytes.Buffer
	r := reporter{log: slog.New(slog.NewTextHandler(&out, nil)), failed: map[string]uint64{}, watched: map[string]uint64{}}
	for _, step := range []struct {
		watched uint64
		want    string
	}{{3, "rule=cap times=3"}, {3, ""}, {4, "rule=cap times=1"}} {
		out.Reset()
		r.say(api.PolicyStatusReply{ByRule: []api.PolicyRuleCount{{Rule: "cap", Watched: step.watched}}})
		if got := out.String(); !strings.Contains(got, step.want) || (step.want == "") != (got == "") {
			t.Errorf("reported %q, want %q in it", got, step.want)
		}
	}
}
