package executor_test

import (
	"context"
	"sync"
	"testing"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var _ engine.Executor = (*executor.Registry)(nil)

func TestRegister(t *testing.T) {
	var r executor.Registry
	cases := []struct {
		tool string
		h    executor.Handler
		ok   bool
	}{{"b", ok, true}, {"a", ok, true}, {"b", ok, false}, {"", ok, false}, {"c", nil, false}}
	for _, c := range cases {
		if err := r.Register(c.tool, c.h); (err == nil) != c.ok {
			t.Errorf("Register(%q): %v, want ok %t", c.tool, err, c.ok)
		}
	}
	if !r.Has("a") || !r.Has("b") || r.Has("") || r.Has("c") {
		t.Error("Has is wrong about a, b, c or the empty name")
	}
}

func TestRegistryRefuses(t *testing.T) {
	ran := false
	var r executor.Registry
	if err := r.Register(tool, func(context.Context, executor.Task) (executor.Output, error) {
		ran = true
		return executor.Text("ran"), nil
	}); err != nil {
		t.Fatal(err)
	}
	call := func(tool, input string) *toolcall.Call {
		return &toolcall.Call{Key: toolcall.Key{Call: "c"}, Tool: tool, Input: input}
	}
	cases := []struct {
		name string
		inv  toolcall.Invocation
		text string
	}{
		{"no call", toolcall.Invocation{Input: message.RawJSON("{}")}, "the invocation names no call"},
		{"unknown tool", toolcall.Invocation{Call: call("rm", "{}"), Input: message.RawJSON("{}")}, `no handler is registered for the tool "rm"`},
		{"no input", toolcall.Invocation{Call: call(tool, `{"n":1}`)}, "refused: the input is not the one that was decided"},
		{"cut input", toolcall.Invocation{Call: call(tool, `{"n":1}`), Input: message.RawJSON(`{"n":1`)}, "refused: the input is not the one that was decided"},
		{"other input", toolcall.Invocation{Call: call(tool, `{"n":1}`), Input: message.RawJSON(`{"n":2}`)}, "refused: the input is not the one that was decided"},
		{"no input", toolcall.Invocation{Call: call(tool, `{}`)}, "refused: the input is not the one that was decided"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if res := r.Run(t.Context(), c.inv, nil); res.State != message.ToolResultError || res.Output.String() != c.text {
				t.Errorf("result %s %q, want error %q", res.State, res.Output.String(), c.text)
			}
		})
	}
	if ran {
		t.Error("the handler was called")
	}
}

// Lines arrive one at a time and none after Run, so the receiver needs no lock.
func TestRegistryProgressIsSerial(t *testing.T) {
	var r executor.Registry
	if err := r.Register(tool, func(_ context.Context, tk executor.Task) (executor.Output, error) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { tk.Progress("line") })
		}
		wg.Wait()
		go tk.Progress("perhaps too late")
		return executor.Output{}, nil
	}); err != nil {
		t.Fatal(err)
	}
	n := 0
	r.Run(t.Context(), toolcall.Invocation{
		Call: &toolcall.Call{Key: toolcall.Key{Call: "c"}, Tool: tool, Input: "{}"}, Input: message.RawJSON("{}"),
	}, func(string) { n++ })
	if n != 8 && n != 9 {
		t.Errorf("%d lines, want 8 or 9", n)
	}
}
