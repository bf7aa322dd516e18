package executor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// program is a Command that runs one of the test programs.
func program(t *testing.T, name string) executor.Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A program built with the race detector would sleep a second before it ends.
	return executor.Command{Argv: []string{self}, Env: []string{helperEnv + "=" + name, "GORACE=atexit_sleep_ms=0"}}
}

// runCommand runs one call of c and returns its result and progress.
func runCommand(ctx context.Context, t *testing.T, c executor.Command, input string) (message.ToolResultBlock, []string) {
	t.Helper()
	h, err := c.Handler()
	if err != nil {
		t.Fatal(err)
	}
	var r executor.Registry
	if err := r.Register(tool, h); err != nil {
		t.Fatal(err)
	}
	key := toolcall.Key{Space: "sp", Session: "se", Reply: "re", Call: "ca ll"}
	var mu sync.Mutex // guards lines
	var lines []string
	res := r.Run(ctx, toolcall.Invocation{
		Call:  &toolcall.Call{Key: key, Tool: tool, Input: input, Attempt: toolcall.Attempt{Number: 2}},
		Input: message.RawJSON(input), IdempotencyKey: key.IdempotencyKey(),
	}, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, text)
	})
	return res, lines
}

func TestCommandResults(t *testing.T) {
	long := strings.Repeat("y", 1024)
	cases := []struct {
		program, input string
		state          message.ToolResultState
		text           string
		progress       []string
	}{
		{"cat", "{\"a\": 1}", message.ToolResultSuccess, "{\"a\": 1}", nil},
		{"cat", strings.Repeat(" ", toolcall.MaxInputBytes-2) + "{}", message.ToolResultSuccess, strings.Repeat(" ", toolcall.MaxInputBytes-2) + "{}", nil},
		{"deaf", strings.Repeat(" ", toolcall.MaxInputBytes-2) + "{}", message.ToolResultSuccess, "never read its input", nil},
		{"binary", "{}", message.ToolResultSuccess, "a\x00\uFFFDb", nil},
		{"fail", "{}", message.ToolResultError, "half\nthe command ended with exit status 3: reading\nno such file", []string{"reading", "no such file"}},
		{"mumble", "{}", message.ToolResultSuccess, "", []string{"10%", "20%", "done\uFFFD", long, "no newline"}},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s %d", c.program, len(c.input)), func(t *testing.T) {
			res, lines := runCommand(t.Context(), t, program(t, c.program), c.input)
			if got := res.Output.String(); res.State != c.state || got != c.text {
				t.Errorf("result %s %.200q, want %s %.200q", res.State, got, c.state, c.text)
			}
			if !slices.Equal(lines, c.progress) {
				t.Errorf("progress %.200q, want %.200q", lines, c.progress)
			}
		})
	}
}

func TestCommandOutputIsBounded(t *testing.T) {
	res, _ := runCommand(t.Context(), t, program(t, "flood"), "{}")
	text := res.Output.String()
	if res.State != message.ToolResultError || len(text) > toolcall.MaxOutputBytes || !strings.Contains(text, "output of 8388608 bytes is over the limit") {
		t.Errorf("result %s of %d bytes ending in %q", res.State, len(text), text[max(0, len(text)-200):])
	}
}

func TestCommandErrorHasTheLastLines(t *testing.T) {
	res, _ := runCommand(t.Context(), t, program(t, "complain"), "{}")
	text := res.Output.String()
	if res.State != message.ToolResultError || !strings.HasSuffix(text, "complaint 999") || strings.Count(text, "\n") != 19 {
		t.Errorf("result %s %q, want the last 20 lines", res.State, text)
	}
}

// A program does not see the worker's environment variables.
func TestCommandEnvironment(t *testing.T) {
	t.Setenv("ASKANCE_TOKEN", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("LC_TIME", "C")
	t.Setenv("REGION", "eu")
	t.Setenv("ASKANCE_ATTEMPT", "99")
	c := program(t, "env")
	c.Env = append(c.Env, "MODE=test", "REGION=us")
	c.PassEnv = []string{"REGION", "NOT_SET", "ASKANCE_ATTEMPT"}
	res, _ := runCommand(t.Context(), t, c, "{}")
	got := res.Output.String()
	if strings.Contains(got, "secret") {
		t.Errorf("a secret reached the program:\n%s", got)
	}
	key := toolcall.Key{Space: "sp", Session: "se", Reply: "re", Call: "ca ll"}
	for _, want := range []string{
		"ASKANCE_ATTEMPT=2", "ASKANCE_INPUT_BYTES=2", "ASKANCE_CALL_ID=ca ll", "ASKANCE_IDEMPOTENCY_KEY=" + key.IdempotencyKey(), "ASKANCE_REPLY_ID=re",
		"ASKANCE_SESSION_ID=se", "ASKANCE_SPACE=sp", "ASKANCE_TOOL=" + tool, "LC_TIME=C", "MODE=test", "REGION=us",
	} {
		if !slices.Contains(strings.Split(got, "\n"), want) {
			t.Errorf("%s is missing in:\n%s", want, got)
		}
	}
	for pair := range strings.SplitSeq(got, "\n") {
		name, _, _ := strings.Cut(pair, "=")
		known := slices.Contains(executor.Inherited, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "ASKANCE_") || slices.Contains([]string{"MODE", "REGION", "GORACE"}, name)
		if !known {
			t.Errorf("%s reached the program", name)
		}
	}
}

func TestCommandThatCannotStart(t *testing.T) {
	dir := t.TempDir()
	c := program(t, "cat")
	c.Dir = filepath.Join(dir, "missing")
	res, _ := runCommand(t.Context(), t, c, "{}")
	if res.State != message.ToolResultError || !strings.HasPrefix(res.Output.String(), "start ") {
		t.Errorf("result %s %q", res.State, res.Output.String())
	}
}

// No id can inject a variable or an argument. The call ends: another worker could not run it either.
func TestCommandWithHostileIDs(t *testing.T) {
	h, err := program(t, "env").Handler()
	if err != nil {
		t.Fatal(err)
	}
	_, err = h(t.Context(), executor.Task{Call: toolcall.Key{Call: "a\x00PATH=/evil"}, Input: message.RawJSON("{}")})
	if err == nil || strings.HasPrefix(err.Error(), "start ") || !strings.Contains(err.Error(), "with other ids") {
		t.Errorf("an id with a NUL: %v", err)
	}
}

func TestCommandIsCheckedFirst(t *testing.T) {
	cases := map[string]executor.Command{
		"no program":         {},
		"empty program":      {Argv: []string{""}},
		"missing program":    {Argv: []string{"no-such-program-anywhere"}},
		"bad variable":       {Argv: []string{os.Args[0]}, Env: []string{"NOVALUE"}},
		"nameless":           {Argv: []string{os.Args[0]}, Env: []string{"=x"}},
		"negative grace":     {Argv: []string{os.Args[0]}, Grace: -1},
		"not a program":      {Argv: []string{t.TempDir()}},
		"program in no PATH": {Argv: []string{"executor.test.missing"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Handler(); err == nil {
				t.Error("Handler accepted it")
			} else if strings.Contains(err.Error(), "NOVALUE=") {
				t.Errorf("%v shows a value", err)
			}
		})
	}
}
