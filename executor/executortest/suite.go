package executortest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Run tests that something that runs tools keeps the promises of executor.Handler.
func Run(t *testing.T, start New) {
	cases := []struct {
		name string
		test func(*testing.T, New)
	}{
		{"the fields of the task", testTask},
		{"the forms of results", testResults},
		{"limits", testLimits},
		{"cancel", testCancel},
		{"progress", testProgress},
		{"at once", testAtOnce},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.test(t, start) })
	}
}

// tool is the name of the tool in every case.
const tool = "probe"

// once runs a single call with h.
func once(t *testing.T, start New, h executor.Handler, input string) Outcome {
	t.Helper()
	return start(t, tool, h).Call(t.Context(), input)
}

// check compares the parts that every result must have.
func check(t *testing.T, got Outcome, state message.ToolResultState, text string) {
	t.Helper()
	r := got.Result
	if r.ID != got.Key.Call || r.Name != tool {
		t.Errorf("the result is for %q of tool %q, want %q of %q", r.ID, r.Name, got.Key.Call, tool)
	}
	if r.State != state || r.Output.String() != text {
		t.Errorf("result %s %q, want %s %q", r.State, r.Output.String(), state, text)
	}
	if r.FinishedAt == nil || r.CreatedAt == "" {
		t.Error("the result has no times")
	}
}

func testTask(t *testing.T, start New) {
	input := "{\"n\": 9007199254740993, \"f\": 1.50,\n\t\"s\":\"\\u00e9 \"}"
	var task executor.Task
	got := once(t, start, func(_ context.Context, tk executor.Task) (executor.Output, error) {
		task = tk
		return executor.Text("ok"), nil
	}, input)
	check(t, got, message.ToolResultSuccess, "ok")
	if string(task.Input) != input {
		t.Errorf("Input = %q, want exactly the bytes %q", task.Input, input)
	}
	if task.Call != got.Key || task.Tool != tool || task.Attempt != 1 {
		t.Errorf("task is %s of %s attempt %d, want %s of %s attempt 1", task.Call, task.Tool, task.Attempt, got.Key, tool)
	}
	if task.IdempotencyKey != got.Key.IdempotencyKey() {
		t.Errorf("IdempotencyKey = %q, want %q", task.IdempotencyKey, got.Key.IdempotencyKey())
	}
}

func testResults(t *testing.T, start New) {
	boom := errors.New("no such file")
	cases := []struct {
		name  string
		h     func() (executor.Output, error)
		state message.ToolResultState
		text  string
	}{
		{"text", func() (executor.Output, error) { return executor.Text("hello\n"), nil }, message.ToolResultSuccess, "hello\n"},
		{"nothing", func() (executor.Output, error) { return executor.Output{}, nil }, message.ToolResultSuccess, ""},
		{"blocks", func() (executor.Output, error) {
			return executor.Output{Content: message.List(&message.TextBlock{Text: "a"}, &message.TextBlock{Text: "b"})}, nil
		}, message.ToolResultSuccess, "a\nb"},
		{"failed", func() (executor.Output, error) {
			return executor.Output{Content: message.Content{Text: "not found"}, State: message.ToolResultError}, nil
		}, message.ToolResultError, "not found"},
		{"error", func() (executor.Output, error) { return executor.Output{}, boom }, message.ToolResultError, "no such file"},
		{"error after output", func() (executor.Output, error) { return executor.Text("line 1"), boom }, message.ToolResultError, "line 1\nno such file"},
		{"panic", func() (executor.Output, error) { panic("index out of range") }, message.ToolResultError, "the tool panicked: index out of range"},
		{"ended goroutine", func() (executor.Output, error) { runtime.Goexit(); return executor.Output{}, nil }, message.ToolResultError, "the tool ended its goroutine without a result"},
		{"broken text", func() (executor.Output, error) { return executor.Text("a\xff\xfeb"), nil }, message.ToolResultSuccess, "a\uFFFDb"},
		{"foreign state", func() (executor.Output, error) {
			return executor.Output{State: message.ToolResultRunning}, nil
		}, message.ToolResultError, `the tool returned the state "running", which ends no call`},
		{"foreign block", func() (executor.Output, error) {
			return executor.Output{Content: message.List(&message.TextBlock{Text: "a"}, &message.ThinkingBlock{})}, nil
		}, message.ToolResultError, "a\nblock 1 of the output was left out: an output holds text and data, not *message.ThinkingBlock"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			check(t, once(t, start, func(context.Context, executor.Task) (executor.Output, error) { return c.h() }, "{}"), c.state, c.text)
		})
	}
}

func testLimits(t *testing.T, start New) {
	long := strings.Repeat("0123456789abcdef", toolcall.MaxOutputBytes/16+1)
	got := once(t, start, func(context.Context, executor.Task) (executor.Output, error) {
		return executor.Text(long), nil
	}, "{}").Result
	text := got.Output.String()
	kept, note, ok := strings.Cut(text, "\n")
	switch {
	case got.State != message.ToolResultError:
		t.Errorf("state %s, want error", got.State)
	case len(text) > toolcall.MaxOutputBytes:
		t.Errorf("output of %d bytes, want at most %d", len(text), toolcall.MaxOutputBytes)
	case !strings.HasPrefix(long, kept) || len(kept) < toolcall.MaxOutputBytes*9/10:
		t.Errorf("%d bytes kept, want almost the first %d", len(kept), toolcall.MaxOutputBytes)
	case !ok || !strings.Contains(note, "over the limit"):
		t.Errorf("the note is %.200q, want one about the limit", note)
	}
}

func testCancel(t *testing.T, start New) {
	why := errors.New("no one needs it any more")
	cases := []struct {
		name  string
		end   func(ctx context.Context) (executor.Output, error)
		state message.ToolResultState
		texts []string // each is part of the output
	}{
		{"gives up", func(ctx context.Context) (executor.Output, error) {
			return executor.Text("half"), ctx.Err()
		}, message.ToolResultInterrupted, []string{"half"}},
		{"fails meanwhile", func(context.Context) (executor.Output, error) {
			return executor.Output{}, errors.New("broken pipe")
		}, message.ToolResultInterrupted, []string{"broken pipe"}},
		{"had finished", func(context.Context) (executor.Output, error) {
			return executor.Text("done"), nil
		}, message.ToolResultSuccess, []string{"done"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			got := start(t, tool, func(ctx context.Context, _ executor.Task) (executor.Output, error) {
				cancel(why)
				<-ctx.Done()
				return c.end(ctx)
			}).Call(ctx, "{}").Result
			if got.State != c.state {
				t.Errorf("state %s, want %s", got.State, c.state)
			}
			for _, text := range c.texts {
				if !strings.Contains(got.Output.String(), text) {
					t.Errorf("output %q, want %q in it", got.Output.String(), text)
				}
			}
		})
	}
}

func testProgress(t *testing.T, start New) {
	var leaked executor.Task
	got := once(t, start, func(_ context.Context, tk executor.Task) (executor.Output, error) {
		leaked = tk
		tk.Progress("one\n")
		tk.Progressf("%s\xff", "two")
		tk.Progress(strings.Repeat("x", toolcall.MaxTextBytes+1))
		return executor.Text("ok"), nil
	}, "{}")
	leaked.Progress("too late")
	// Lines may be lost, but not changed, and none arrives after the end.
	want := []string{"one", "two\uFFFD", strings.Repeat("x", toolcall.MaxTextBytes)}
	next := 0
	for _, line := range got.Progress {
		i := slices.Index(want[next:], line)
		if i < 0 {
			t.Fatalf("progress = %.60q, want lines of %.60q in this order", got.Progress, want)
		}
		next += i + 1
	}
}

func testAtOnce(t *testing.T, start New) {
	both := make(chan struct{}, 2)
	meet := make(chan struct{})
	r := start(t, tool, func(_ context.Context, tk executor.Task) (executor.Output, error) {
		both <- struct{}{}
		<-meet // opened only when both are here
		return executor.Text(string(tk.Input)), nil
	})
	var wg sync.WaitGroup
	outcomes := make([]Outcome, 2)
	for i, input := range []string{`{"i":0}`, `{"i":1}`} {
		wg.Go(func() { outcomes[i] = r.Call(t.Context(), input) })
	}
	<-both
	<-both
	close(meet)
	wg.Wait()
	check(t, outcomes[0], message.ToolResultSuccess, `{"i":0}`)
	check(t, outcomes[1], message.ToolResultSuccess, `{"i":1}`)
}
