package askance_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askance-dev/askance"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const policy = `
version: 1
name: test
rules:
  - {name: reads, tool_name: read, behavior: allow}
  - {name: writes, tool_name: write, behavior: ask, expiry: 5m}
  - {name: drops, tool_name: drop, behavior: deny, message: "'Archive it instead.'"}
`

type text struct {
	Text string `json:"text" jsonschema:"what it is about"`
	N    int    `json:"n,omitempty"`
}

type handler = func(context.Context, text) (string, error)

func echo(_ context.Context, in text) (string, error) { return "echo " + in.Text, nil }

// open starts an app with the tools of the policy; read and write run these.
func open(t testing.TB, read, write handler, opts ...askance.Option) *askance.App {
	t.Helper()
	app, err := askance.Open(t.Context(), askance.Rules(policy), []askance.Tool{
		askance.Func("read", "Reads.", read, askance.ReadOnly()), askance.Func("write", "Writes.", write),
		askance.Func("drop", "Drops.", echo, askance.Destructive()),
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = app.Close() })
	return app
}

// responds is an approver who gives one response to all requests.
func responds(r askance.Response) askance.Option {
	return askance.Approver("ann", func(context.Context, askance.Request) askance.Response { return r })
}

func TestCallReturnsTheResult(t *testing.T) {
	for _, tt := range []struct {
		name     string
		response askance.Response
		want     string
		ran      bool
	}{
		{"approved", askance.Approve(), "echo it", true},
		{"approved with an edit", askance.ApproveEdited(`{"text":"that"}`), "echo that", true},
		{"responded", askance.Respond("by hand"), "by hand", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ran atomic.Bool
			app := open(t, echo, func(ctx context.Context, in text) (string, error) {
				ran.Store(true)
				return echo(ctx, in)
			}, responds(tt.response))
			r, err := app.Call(t.Context(), "write", text{Text: "it"})
			if err != nil || r.Output != tt.want || ran.Load() != tt.ran {
				t.Fatalf("Call = %+v, %v, ran %t; want %q, ran %t", r, err, ran.Load(), tt.want, tt.ran)
			}
		})
	}
}

func TestCallSaysWhyNot(t *testing.T) {
	fails := func(context.Context, text) (string, error) { return "", errors.New("the disk is full") }
	for _, tt := range []struct {
		name   string
		opts   []askance.Option
		tool   string
		args   any
		want   error
		reason string
	}{
		{"denied", nil, "drop", text{Text: "it"}, askance.ErrDenied, "Archive it instead."},
		{"rejected", []askance.Option{responds(askance.Reject("not on Fridays"))}, "write", text{Text: "it"}, askance.ErrRejected, "not on Fridays"},
		{"rejected without feedback", []askance.Option{responds(askance.Reject(""))}, "write", text{Text: "it"}, askance.ErrRejected, "denied by the user ann"},
		{"unknown tool", nil, "rm", text{Text: "it"}, askance.ErrInvalid, "rm"},
		{"a missing member", nil, "read", `{}`, askance.ErrInvalid, "text"},
		{"a further member", nil, "read", `{"text":"it","force":true}`, askance.ErrInvalid, "force"},
		{"no object", nil, "read", []byte(`[]`), askance.ErrInvalid, ""},
		{"no JSON", nil, "read", make(chan int), askance.ErrInvalid, "chan"},
		{"failed", nil, "read", text{Text: "it"}, askance.ErrFailed, "the disk is full"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := open(t, fails, fails, tt.opts...).Call(t.Context(), tt.tool, tt.args)
			e, ok := errors.AsType[*askance.CallError](err)
			if !ok || !errors.Is(err, tt.want) || !strings.Contains(e.Reason, tt.reason) {
				t.Fatalf("Call = %v (%+v), want %v and a reason with %q", err, e, tt.want, tt.reason)
			}
			if strings.Contains(err.Error(), "system-reminder") || strings.HasSuffix(err.Error(), ")") == (tt.name == "rejected without feedback") {
				t.Errorf("the error is not for people: %v", err)
			}
		})
	}
}

func TestCallReturnsWhenTheRequestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := open(t, echo, echo)
		start := time.Now()
		_, err := app.Call(t.Context(), "write", text{Text: "it"})
		if !errors.Is(err, askance.ErrExpired) || time.Since(start).Round(time.Second) != 5*time.Minute {
			t.Fatalf("Call = %v after %s, want ErrExpired after 5m", err, time.Since(start))
		}
		_ = app.Close()
	})
}

func TestCallReturnsWhenAnotherPersonRevokesOrInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := open(t, echo, echo)
		defer func() { _ = app.Close() }()
		errs := make(chan error, 1)
		go func() {
			_, err := app.Call(t.Context(), "write", text{Text: "it"}, askance.ID("one"))
			errs <- err
		}()
		synctest.Wait()
		operator := app.As(toolcall.Principal{Role: toolcall.RoleOperator, Name: "ops"})
		if _, err := operator.Interrupt(t.Context(), toolcall.InterruptRequest{Session: "app", Reply: "one"}); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !errors.Is(err, askance.ErrInterrupted) || errors.Is(err, context.Canceled) {
			t.Fatalf("Call = %v, want ErrInterrupted alone", err)
		}
	})
}

// Many more calls than processors wait at once, half of them inside the function of
// another call, three deep.
func TestManyCallsAtOnceDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	var app *askance.App
	var ran atomic.Int64
	nest := func(ctx context.Context, in text) (string, error) {
		ran.Add(1)
		if in.N == 0 {
			return "leaf", nil
		}
		tool := "read"
		if in.N%2 == 0 {
			tool = "write" // a person is asked while the outer function runs
		}
		r, err := app.Call(ctx, tool, text{Text: in.Text, N: in.N - 1})
		if err != nil {
			return "", err
		}
		return r.Output + "<" + tool, nil
	}
	app = open(t, nest, nest, responds(askance.Approve()))
	const calls = 64
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			n := i % 4
			r, err := app.Call(t.Context(), "read", text{Text: fmt.Sprint(i), N: n})
			if want := "leaf" + []string{"", "<read", "<read<write", "<read<write<read"}[n]; err != nil || r.Output != want {
				t.Errorf("call %d = %+v, %v; want %s", i, r, err, want)
			}
		})
	}
	wg.Wait()
	if want := int64(calls / 4 * (1 + 2 + 3 + 4)); ran.Load() != want {
		t.Errorf("%d functions ran, want %d", ran.Load(), want)
	}
}

func TestEndOfTheContextInterruptsTheCall(t *testing.T) {
	why := errors.New("the user left")
	t.Run("asking", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		app := open(t, echo, func(context.Context, text) (string, error) { t.Error("it ran"); return "", nil },
			askance.Approver("ann", func(asked context.Context, _ askance.Request) askance.Response {
				cancel(why)
				<-asked.Done() // the request is closed
				return askance.Approve()
			}))
		_, err := app.Call(ctx, "write", text{Text: "it"})
		e, _ := errors.AsType[*askance.CallError](err)
		if !errors.Is(err, askance.ErrInterrupted) || !errors.Is(err, why) || e.Call.Open() || !strings.Contains(err.Error(), "(call again if") {
			t.Fatalf("Call = %v, want an interrupted call that did not run", err)
		}
	})
	t.Run("running", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := make(chan struct{})
		app := open(t, func(ctx context.Context, _ text) (string, error) {
			cancel(why)
			<-ctx.Done()
			close(stopped)
			return "", ctx.Err()
		}, echo)
		if _, err := app.Call(ctx, "read", text{Text: "it"}); !errors.Is(err, askance.ErrInterrupted) || !errors.Is(err, why) || !strings.Contains(err.Error(), "(it may have taken effect: find out") {
			t.Fatalf("Call = %v, want an interrupted call that may have run", err)
		}
		<-stopped
	})
	t.Run("before the proposal", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		app := open(t, func(context.Context, text) (string, error) { t.Error("it ran"); return "", nil }, echo)
		if _, err := app.Call(ctx, "read", text{Text: "it"}); !errors.Is(err, why) {
			t.Fatalf("Call = %v, want %v", err, why)
		}
	})
	t.Run("kept open", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		given := make(chan struct{})
		app := open(t, echo, echo, askance.Approver("ann", func(context.Context, askance.Request) askance.Response {
			cancel(why)
			<-given
			return askance.Approve()
		}))
		_, err := app.Call(ctx, "write", text{Text: "it"}, askance.ID("a"), askance.KeepOpen())
		if e, _ := errors.AsType[*askance.CallError](err); !errors.Is(err, why) || !e.Call.Open() {
			t.Fatalf("Call = %v, want an open call", err)
		}
		close(given)
		if r, err := app.Call(t.Context(), "write", text{Text: "it"}, askance.ID("a")); err != nil || r.Output != "echo it" {
			t.Fatalf("the same call again = %+v, %v", r, err)
		}
	})
}

func TestTheSameIDIsTheSameCall(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	app := open(t, func(ctx context.Context, in text) (string, error) { ran.Add(1); return echo(ctx, in) }, echo)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if r, err := app.Call(t.Context(), "read", text{Text: "it"}, askance.ID("a")); err != nil || r.Output != "echo it" {
				t.Errorf("Call = %+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if _, err := app.Call(t.Context(), "read", text{Text: "other"}, askance.ID("a")); !errors.Is(err, message.ErrConflict) {
		t.Errorf("other arguments under the same id = %v, want a conflict", err)
	}
	if _, err := app.Call(t.Context(), "read", text{Text: "it"}, askance.ID("a"), askance.InSession("b")); err != nil || ran.Load() != 2 {
		t.Errorf("the same id in another session = %v, %d runs in all; want 2", err, ran.Load())
	}
}

// A call that is asked about inside a running function must not keep Close from
// returning.
func TestCloseEndsCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var app *askance.App
		inner := make(chan error, 1)
		app = open(t, func(ctx context.Context, _ text) (string, error) {
			_, err := app.Call(ctx, "write", text{Text: "inner"})
			inner <- err
			return "", err
		}, echo, askance.Approver("ann", func(ctx context.Context, _ askance.Request) askance.Response {
			<-ctx.Done()
			panic("the terminal is gone")
		}))
		outer := make(chan error, 1)
		go func() { _, err := app.Call(t.Context(), "read", text{Text: "outer"}); outer <- err }()
		synctest.Wait()
		start := time.Now()
		if err := errors.Join(app.Close(), app.Close()); err != nil || time.Since(start) > time.Second {
			t.Errorf("Close = %v after %s", err, time.Since(start))
		}
		if err := <-inner; !errors.Is(err, askance.ErrClosed) {
			t.Errorf("the inner Call = %v, want ErrClosed", err)
		}
		// The outer function fails at once with the inner call, and its result may be first.
		if err := <-outer; !errors.Is(err, askance.ErrClosed) && (!errors.Is(err, askance.ErrFailed) || !strings.Contains(err.Error(), "the app is closed")) {
			t.Errorf("the outer Call = %v, want ErrClosed, or ErrFailed by it", err)
		}
		if _, err := app.Call(t.Context(), "read", text{Text: "it"}); !errors.Is(err, askance.ErrClosed) {
			t.Errorf("Call after Close = %v, want ErrClosed", err)
		}
	})
}

func TestOpenRefuses(t *testing.T) {
	type tree struct{ Left *tree }
	one := func(tools ...askance.Tool) []askance.Tool { return tools }
	for _, tt := range []struct {
		name  string
		rules string
		tools []askance.Tool
		opts  []askance.Option
		want  string
	}{
		{"a rule about no tool", policy, one(askance.Func("read", "", echo)), nil, "write"},
		{"two tools of one name", "version: 1\nname: x\nrules: []", one(askance.Func("a", "", echo), askance.Func("a", "", echo)), nil, `tool "a"`},
		{"a tool without a name", "version: 1\nname: x\nrules: []", one(askance.Func("", "", echo)), nil, "name"},
		{"a tool without a function", "version: 1\nname: x\nrules: []", one(askance.Func[text, string]("a", "", nil)), nil, "nil"},
		{"an input that is no struct", "version: 1\nname: x\nrules: []", one(askance.Func("a", "", func(context.Context, string) (string, error) { return "", nil })), nil, "use a struct"},
		{"an input without a schema", "version: 1\nname: x\nrules: []", one(askance.Func("a", "", func(context.Context, tree) (string, error) { return "", nil })), nil, "cycle"},
		{"a schema that does not compile", "version: 1\nname: x\nrules: []", one(askance.Func("a", "", echo, askance.Schema(`{"type":"objekt"}`))), nil, "compile schema"},
		{"listening on memory", "version: 1\nname: x\nrules: []", nil, []askance.Option{askance.Listen("127.0.0.1:0")}, "Data"},
		{"no name", "version: 1\nname: x\nrules: []", nil, []askance.Option{askance.Name("")}, "name"},
		{"an approver who cannot be asked", "version: 1\nname: x\nrules: []", nil, []askance.Option{askance.Approver("ann", nil)}, "Approver"},
		{"a bad option of the engine", "version: 1\nname: x\nrules: []", nil, []askance.Option{askance.Engine(engine.WithKeep(-1))}, "keep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			app, err := askance.Open(t.Context(), askance.Rules(tt.rules), tt.tools, tt.opts...)
			if err == nil {
				_ = app.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestOutputsOfFunctions(t *testing.T) {
	t.Parallel()
	app, err := askance.Open(t.Context(), askance.Rules("version: 1\nname: x\nrules: []"), []askance.Tool{
		askance.Func("value", "", func(_ context.Context, in text) (text, error) { return in, nil }, askance.ReadOnly()),
		askance.Func("output", "", func(context.Context, text) (executor.Output, error) { return executor.Text("as it is"), nil }, askance.ReadOnly()),
		askance.Func("strange", "", func(context.Context, text) (any, error) { return make(chan int), nil }, askance.ReadOnly()),
		askance.Func("task", "", func(ctx context.Context, _ text) (string, error) {
			task, _ := askance.TaskFrom(ctx)
			return string(task.Call.Call), nil
		}, askance.ReadOnly()),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	var value text
	if r, err := app.Call(t.Context(), "value", text{Text: "it", N: 7}); err != nil || r.Decode(&value) != nil || value != (text{"it", 7}) {
		t.Errorf("value = %+v, %v, decoded %+v", r, err, value)
	}
	if r, err := app.Call(t.Context(), "output", text{}); err != nil || r.Output != "as it is" || r.Decode(&value) == nil {
		t.Errorf("output = %+v, %v", r, err)
	}
	if _, err := app.Call(t.Context(), "strange", text{}); !errors.Is(err, askance.ErrFailed) || !strings.Contains(err.Error(), "the tool has run") {
		t.Errorf("strange = %v", err)
	}
	if r, err := app.Call(t.Context(), "task", text{}, askance.ID("a")); err != nil || r.Output != "a" {
		t.Errorf("task = %+v, %v", r, err)
	}
}

func TestToolsAreDefinedForTheModel(t *testing.T) {
	t.Parallel()
	defs := open(t, echo, echo).Tools()
	i := slices.IndexFunc(defs, func(d askance.Definition) bool { return d.Name == "read" })
	want := `{"type":"object","properties":{"text":{"type":"string","description":"what it is about"},"n":{"type":"integer"}},"required":["text"],"additionalProperties":false}`
	if got := string(defs[i].InputSchema); got != want || defs[i].Description != "Reads." {
		t.Errorf("the definition of read is %+v with schema\n%s, want\n%s", defs[i], got, want)
	}
}

// A call that a function makes belongs to the call that the function runs, unless the
// function says that it does not.
func TestCallInAFunctionHasAParent(t *testing.T) {
	t.Parallel()
	var app *askance.App
	parents := map[string]*toolcall.Parent{}
	read := func(ctx context.Context, in text) (string, error) {
		for name, opts := range map[string][]askance.CallOption{"inner": {askance.ID("inner")}, "alone": {askance.ID("alone"), askance.NoParent()}} {
			r, err := app.Call(ctx, "write", in, opts...)
			if err != nil {
				return "", err
			}
			parents[name] = r.Call.Parent
		}
		return "", nil
	}
	app = open(t, read, echo, responds(askance.Approve()))
	r, err := app.Call(t.Context(), "read", text{}, askance.ID("outer"))
	if err != nil {
		t.Fatal(err)
	}
	if p := parents["inner"]; p == nil || p.Call != "outer" || p.Reply != r.Call.Reply || p.Session != r.Call.Session || p.Tool != "read" || p.Depth != 1 {
		t.Errorf("the call within the function has the parent %+v", p)
	}
	if parents["alone"] != nil || r.Call.Parent != nil {
		t.Errorf("calls without a parent have %+v and %+v", parents["alone"], r.Call.Parent)
	}
}

// A changed rule file comes into force while the app is open; a faulty one does not.
func TestPolicyIsReloaded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yaml")
	write := func(behavior string) {
		rules := "version: 1\nname: test\nrules:\n  - {name: drops, tool_name: drop, behavior: " + behavior + "}\n"
		if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("allow")
	synctest.Test(t, func(t *testing.T) {
		app, err := askance.Open(t.Context(), permission.Paths(file), []askance.Tool{askance.Func("drop", "Drops.", echo)})
		if err != nil {
			t.Fatal(err)
		}
		defer app.Close()
		for _, row := range []struct {
			behavior string
			denied   bool
		}{{"allow", false}, {"deny", true}, {"perhaps", true}, {"allow", false}} {
			write(row.behavior)
			time.Sleep(time.Minute) // long enough to be read again also where the size is the same
			_, err := app.Call(t.Context(), "drop", text{})
			if errors.Is(err, askance.ErrDenied) != row.denied || !row.denied && err != nil {
				t.Errorf("with a rule that says %s: %v", row.behavior, err)
			}
		}
	})
}

// A program does not share its folder or its anchor file with another engine.
func TestOneEngineOnAFolder(t *testing.T) {
	data := t.TempDir()
	anchor := filepath.Join(data, "anchors", "default")
	tools := []askance.Tool{askance.Func("read", "Reads.", echo), askance.Func("write", "Writes.", echo), askance.Func("drop", "Drops.", echo)}
	run := func() error {
		app, err := askance.Open(t.Context(), askance.Rules(policy), tools, askance.Data(data))
		if err == nil {
			err = app.Close()
		}
		return err
	}
	for what, lock := range map[string]func() (io.Closer, error){
		"the data folder " + data:   func() (io.Closer, error) { return embed.LockFolder(data) },
		"the anchor file " + anchor: func() (io.Closer, error) { return embed.LockAnchor(anchor) },
	} {
		other, err := lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := run(); !errors.Is(err, embed.ErrStoreLocked) || !strings.Contains(err.Error(), what) {
			t.Errorf("a program while another engine has %s: %v", what, err)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(); err != nil {
		t.Error(err)
	}
}
