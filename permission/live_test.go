package permission_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

func rulesFile(behavior string) string {
	return "version: 1\nname: live\nrules:\n  - {name: r, tool_name: t, behavior: " + behavior + "}\n"
}

func write(t testing.TB, path, text string) {
	t.Helper()
	// As the documentation says: written under another name, then renamed.
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// watched is a Live on a folder with its reports.
type watched struct {
	*permission.Live
	dir string

	mu     sync.Mutex
	alarms []string
	loaded []string
}

func newLive(t testing.TB) *watched {
	t.Helper()
	w := &watched{dir: t.TempDir()}
	l, err := permission.NewLive(permission.Paths(w.dir), permission.LiveOptions{
		Options: permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "read", ReadOnly: true}}},
		Alarm: func(err error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if err != nil && w.Err() == nil {
				t.Error("Err is nil during an alarm")
			}
			w.alarms = append(w.alarms, firstLine(err))
		},
		Loaded: func(b *permission.Bundle) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.loaded = append(w.loaded, b.Hash())
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Live = l
	return w
}

func (w *watched) file(name string) string { return filepath.Join(w.dir, name) }

func (w *watched) reports() (alarms []string, loaded int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.alarms...), len(w.loaded)
}

func firstLine(err error) string {
	if err == nil {
		return "ended"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func (w *watched) want(t testing.TB, when string, want message.Behavior) {
	t.Helper()
	d := w.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`), Mode: permission.ModeDefault})
	if d.Behavior != want {
		t.Errorf("%s: %s by %s, want %s", when, d.Behavior, d.Step, want)
	}
	if d.Bundle != w.Hash() {
		t.Errorf("%s: decided by %q, but %q is in force", when, d.Bundle, w.Hash())
	}
}

func TestLiveBeforeTheFirstPolicy(t *testing.T) {
	w := newLive(t)
	for _, mode := range allModes {
		w.want(t, "without a policy", message.BehaviorDeny)
		d := w.Decide(context.Background(), permission.Request{Tool: "read", Input: []byte(`{}`), Mode: mode})
		if d.Behavior != message.BehaviorAllow || d.Step != permission.StepReadOnly {
			t.Errorf("read-only tool in %s: %s by %s", mode, d.Behavior, d.Step)
		}
		d = w.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`), Mode: mode,
			SessionRules: []message.PermissionRule{{ToolName: "t", Behavior: message.BehaviorAllow}}})
		if d.Behavior != message.BehaviorDeny || d.Step != permission.StepNoPolicy {
			t.Errorf("standing approval in %s: %s by %s", mode, d.Behavior, d.Step)
		}
		d = w.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`), Mode: mode,
			SessionRules: []message.PermissionRule{{ToolName: "t", Behavior: message.BehaviorAsk}}})
		if d.Behavior != message.BehaviorDeny {
			t.Errorf("with an ask rule of the session in %s: %s by %s", mode, d.Behavior, d.Step)
		}
	}
	if d, hit := w.Denied(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`)}); !hit || d.Behavior != message.BehaviorDeny {
		t.Errorf("Denied = %s, %v", d.Behavior, hit)
	}
	if d, hit := w.Denied(context.Background(), permission.Request{Tool: "read", Input: []byte(`{}`)}); hit {
		t.Errorf("Denied of a read-only tool = %s", d.Behavior)
	}
}

func TestReloadKeepsTheLastGoodPolicy(t *testing.T) {
	w := newLive(t)
	if err := w.Reload(t.Context()); err == nil || w.Err() == nil {
		t.Error("an empty folder is accepted as a policy")
	}
	w.want(t, "after an empty folder", message.BehaviorDeny)

	write(t, w.file("a.yaml"), rulesFile("allow"))
	if err := w.Reload(t.Context()); err != nil || w.Err() != nil {
		t.Fatal(err, w.Err())
	}
	w.want(t, "after a good file", message.BehaviorAllow)
	good := w.Hash()

	write(t, w.file("b.yml"), "version: 1\nname: b\nrules:\n  - {name: x, tool_name: t, behavior: deny, when: nope}\n")
	err := w.Reload(t.Context())
	var le *permission.LoadError
	if !errors.As(err, &le) || !errors.Is(w.Err(), err) {
		t.Errorf("Reload = %v, Err = %v", err, w.Err())
	}
	if w.Hash() != good {
		t.Error("a bad policy came into force")
	}
	w.want(t, "after a bad file", message.BehaviorAllow)

	write(t, w.file("b.yml"), "version: 1\nname: b\nrules:\n  - {name: x, tool_name: t, behavior: deny}\n")
	if err := w.Reload(t.Context()); err != nil || w.Err() != nil {
		t.Fatal(err, w.Err())
	}
	w.want(t, "after the file was fixed", message.BehaviorDeny)

	if err := os.Remove(w.file("a.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.file("b.yml")); err != nil {
		t.Fatal(err)
	}
	if err := w.Reload(t.Context()); err == nil {
		t.Error("missing files are accepted as a policy")
	}
	w.want(t, "after the files have gone", message.BehaviorDeny)

	alarms, loaded := w.reports()
	if len(alarms) != 5 || alarms[1] != "ended" || alarms[2] != "policy refused, 1 problem" || alarms[3] != "ended" || loaded != 2 {
		t.Errorf("alarms %q, %d loaded", alarms, loaded)
	}
}

// An approval request keeps its bundle. The newest deny rules are checked again before anything
// runs.
func TestDeniedAsksTheNewestRules(t *testing.T) {
	w := newLive(t)
	write(t, w.file("a.yaml"), rulesFile("ask"))
	if err := w.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	old, req := w.Bundle(), permission.Request{Tool: "t", Input: []byte(`{}`)}
	if d, hit := w.Denied(t.Context(), req); hit {
		t.Errorf("an ask rule denies: %+v", d)
	}
	write(t, w.file("a.yaml"), rulesFile("deny"))
	if err := w.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d, hit := w.Denied(t.Context(), req); !hit || d.Behavior != message.BehaviorDeny || d.Rule != "r" || d.Bundle == old.Hash() {
		t.Errorf("Denied = %+v, %v", d, hit)
	}
	if d := old.Decide(t.Context(), req); d.Behavior != message.BehaviorAsk || d.Bundle != old.Hash() {
		t.Errorf("the old bundle has changed: %+v", d)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLive(t)
		write(t, w.file("a.yaml"), rulesFile("allow"))
		if err := w.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := errors.New("stopping")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Watch(ctx, time.Second) }()
		looks := func(n int) { time.Sleep(time.Duration(n) * time.Second); synctest.Wait() }

		looks(3)
		w.want(t, "unchanged", message.BehaviorAllow)

		write(t, w.file("a.yaml"), rulesFile("deny"))
		looks(1)
		w.want(t, "seen once", message.BehaviorAllow)
		looks(1)
		w.want(t, "seen twice", message.BehaviorDeny)

		for i := range 4 { // a file that keeps changing is not loaded
			write(t, w.file("a.yaml"), rulesFile("allow")+strings.Repeat("#\n", i+1))
			looks(1)
			w.want(t, "while it changes", message.BehaviorDeny)
		}
		looks(1)
		w.want(t, "when it has resolved", message.BehaviorAllow)

		write(t, w.file("a.yaml"), "rules: [")
		looks(5)
		w.want(t, "bad", message.BehaviorAllow)
		if w.Err() == nil {
			t.Error("a bad file causes no error")
		}
		write(t, w.file("b.yaml"), "version: 1\nname: b\nrules: []\n")
		write(t, w.file("a.yaml"), rulesFile("ask"))
		looks(2)
		w.want(t, "fixed, with a second file", message.BehaviorAsk)

		if err := os.Rename(w.file("a.yaml"), w.file("a.off")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(w.file("b.yaml")); err != nil {
			t.Fatal(err)
		}
		looks(3)
		w.want(t, "missing", message.BehaviorAsk)
		if w.Err() == nil {
			t.Error("missing files cause no error")
		}
		write(t, w.file("b.yaml"), "version: 1\nname: b\nrules: []\n")
		write(t, w.file("a.yaml"), rulesFile("ask"))
		looks(2)
		if w.Err() != nil {
			t.Errorf("the alarm remains after the files were restored: %v", w.Err())
		}

		cancel(stop)
		if err := <-ended; !errors.Is(err, stop) {
			t.Errorf("Watch ended with %v", err)
		}
		alarms, loaded := w.reports()
		if len(alarms) != 4 || alarms[1] != "ended" || alarms[3] != "ended" {
			t.Errorf("alarms %q", alarms)
		}
		if loaded != 5 {
			t.Errorf("%d bundles came into force, want 5", loaded)
		}
	})
}

// Every check reads the content, so a change counts even if size and time of the file are unchanged.
func TestWatchFindsAChangeThatTheClockHides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLive(t)
		path := w.file("a.yaml")
		write(t, path, rulesFile("deny"))
		stamp := time.Unix(1_700_000_000, 0)
		if err := os.Chtimes(path, stamp, stamp); err != nil {
			t.Fatal(err)
		}
		if err := w.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.Watch(ctx, time.Second) }()
		write(t, path, rulesFile("ask ")) // the same length as deny
		if err := os.Chtimes(path, stamp, stamp); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // two checks: the second finds that it is complete
		synctest.Wait()
		w.want(t, "hidden change", message.BehaviorAsk)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch = %v", err)
		}
	})
}

// unhurried is a Source that blocks until its context ends.
type unhurried struct{}

func (unhurried) Read(ctx context.Context) ([]permission.File, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Being stopped during a read is not a fault of the policy.
func TestWatchIsStoppedWhileItReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := permission.NewLive(unhurried{}, permission.LiveOptions{Alarm: func(err error) { t.Errorf("alarm: %v", err) }})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- l.Watch(ctx, time.Second) }()
		time.Sleep(1500 * time.Millisecond)
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || l.Err() != nil {
			t.Errorf("Watch ended with %v, the policy with %v", err, l.Err())
		}
	})
}

func TestWatchNeedsAnInterval(t *testing.T) {
	if err := newLive(t).Watch(t.Context(), 0); err == nil {
		t.Error("an interval of 0 is accepted")
	}
}

// Decisions continue while policies are replaced. Each is made by one bundle.
func TestReloadWhileDeciding(t *testing.T) {
	w := newLive(t)
	write(t, w.file("a.yaml"), rulesFile("allow"))
	if err := w.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			seen := map[string]message.Behavior{}
			for ctx.Err() == nil {
				d := w.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{}`)})
				if b, ok := seen[d.Bundle]; ok && b != d.Behavior {
					t.Errorf("bundle %s decides %s and %s", d.Bundle, b, d.Behavior)
				}
				seen[d.Bundle] = d.Behavior
			}
		})
	}
	for range 10 {
		for _, behavior := range []string{"deny", "ask", "allow"} {
			write(t, w.file("a.yaml"), rulesFile(behavior))
			if err := w.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	cancel()
	wg.Wait()
}

func TestNewLiveRefusesBadTools(t *testing.T) {
	if _, err := permission.NewLive(permission.Paths("x"), permission.LiveOptions{
		Options: permission.Options{Tools: []permission.Tool{{Name: "t"}, {Name: "t"}}}}); err == nil {
		t.Error("two tools with the same name are accepted")
	}
}

// A file that was renamed or moved to another layer is loaded again, because faults and
// explanations name both.
func TestWatchLoadsARenamedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, source, _, _ := liveOn(t, policyText(ruleText("a", "allow", "")), "")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Watch(ctx, time.Second) }()
		loads := func() uint64 { time.Sleep(3 * time.Second); synctest.Wait(); return p.Status().Loads }
		if n := loads(); n != 1 {
			t.Errorf("%d loads of an unchanged file", n)
		}
		source.rename("other")
		if n := loads(); n != 2 {
			t.Errorf("%d loads with a renamed file, want 2", n)
		}
		source.move(permission.LayerManaged)
		if n := loads(); n != 3 {
			t.Errorf("%d loads with a file in another layer, want 3", n)
		}
		if d := ask(p, `{}`); d.Layer != permission.LayerManaged {
			t.Errorf("the rule is of layer %q", d.Layer)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
