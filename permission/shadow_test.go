package permission_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// reader is a kind that counts how often it reads a call.
type reader struct {
	prefixMatcher
	reads *atomic.Int64
}

func (reader) Name() string { return "reader" }

func (r reader) Prepare(c permission.Call) any {
	r.reads.Add(1)
	if c.Input["cmd"] == "panic" {
		panic(errors.New("unreadable"))
	}
	return c.Input["cmd"]
}

func (reader) ReadOnly(c permission.Call) bool { return c.Prepared == "ls" }

func (reader) Check(permission.Call) permission.ToolVerdict { return permission.ToolVerdict{} }

// A call is read once for the live policy and its shadow, and both decide as
// each would alone.
func TestShadowSharesTheReading(t *testing.T) {
	reads := new(atomic.Int64)
	tools := []permission.Tool{{Name: "t", Kind: reader{reads: reads}}}
	policies := map[string]string{
		"live":   "version: 1\nname: a\nrules: [{name: a, tool: t, rule_content: git, behavior: allow}, {name: d, tool: t, rule_content: rm, behavior: deny}]\n",
		"shadow": "version: 1\nname: b\ndefaults: {mode: bypass}\nrules: [{name: k, tool: t, behavior: ask, when: 'args.cmd == \"git push\"'}]\n",
	}
	live, err := permission.NewLive(&memory{text: policies["live"]}, permission.LiveOptions{
		Options: permission.Options{Tools: tools}, Shadow: &memory{text: policies["shadow"]}})
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	alone := map[string]*permission.Bundle{}
	for name, text := range policies {
		if alone[name], err = permission.Load([]permission.File{{Name: name, Data: []byte(text)}}, permission.Options{Tools: tools}); err != nil {
			t.Fatal(err)
		}
	}
	differing := uint64(0)
	for _, input := range []string{`{"cmd": "ls"}`, `{"cmd": "git push"}`, `{"cmd": "rm x"}`, `{"cmd": "panic"}`, `{"cmd": 5}`, `[]`, `{}`} {
		for _, mode := range append(allModes, "") { // of no mode each policy has its own
			req := permission.Request{Tool: "t", Input: []byte(input), Mode: mode}
			want, other := alone["live"].Decide(context.Background(), req), alone["shadow"].Decide(context.Background(), req)
			before := reads.Load()
			got := live.Decide(context.Background(), req)
			if n := reads.Load() - before; n > 1 && mode != "" || n > 2 {
				t.Errorf("%s in %q is read %d times", input, mode, n)
			}
			if got.Behavior != want.Behavior || got.Step != want.Step {
				t.Errorf("%s in %q: %s by %s, alone %s by %s", input, mode, got.Behavior, got.Step, want.Behavior, want.Step)
			}
			if want.Behavior != other.Behavior {
				differing++
			}
		}
	}
	if s := live.Status().Shadow; s.Differing != differing || differing == 0 {
		t.Errorf("%d of %d calls differ, alone %d", s.Differing, s.Compared, differing)
	}
	if d := live.Decide(context.Background(), permission.Request{Tool: "t", Input: []byte(`{"cmd": "rm y"}`), Mode: permission.ModeBypass}); d.Behavior != message.BehaviorDeny {
		t.Errorf("rm: %s by %s", d.Behavior, d.Step)
	}
}
