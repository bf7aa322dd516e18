package cli_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const routeRules = `
version: 1
name: routes
rules:
  - {name: large, tool_name: [pay, ship], behavior: ask, when: args.cents > 100, executor: {subject: exec.payments, timeout: 45s}, audit: {level: full}}
  - {name: small, tool_name: [pay, ship], behavior: allow, when: args.cents <= 100}
  - {name: outside, tool_name: outside, behavior: allow, executor: {subject: exec.payments}}
`

// process starts askance as a separate process and returns the first line that it prints.
func process(t *testing.T, args ...string) (first string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], args...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = c.Stdout // workers print to standard error
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_ = c.Wait()         // killed
	})
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("askance %v: %v", args, err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }() // so the process never blocks on its output
	return line
}

// Calls that a rule routes run only at workers of that subject. Each worker is a process whose
// login gives it no further rights.
func TestRoutedCallEndToEnd(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	data, rules, tools := filepath.Join(dir, "data"), filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "tools.yaml")
	write(t, rules, routeRules)
	write(t, tools, testTools)
	ok(t, "creds", "init", "--data", data)
	plain, routed := credFile(t, data, "worker", "w-plain", "--tool", "pay"), credFile(t, data, "worker", "w-pay", "--tool", "pay", "--tool", "ship", "--subject", "exec.payments")
	bot := credFile(t, data, "runtime", "bot")
	ok(t, "creds", "add", "approver", "ann", "--data", data)
	if out := ok(t, "creds", "list", "--data", data); !strings.Contains(out, "pay, ship on exec.payments") {
		t.Errorf("the logins are\n%s", out)
	}
	url := decode[struct{ URL string }](t, process(t, "serve", "--json", "--data", data, "--listen", "127.0.0.1:0", "--http", "off", "--durability", "cached", "--policy", rules, "--tools", tools)).URL
	worker := func(creds string, more ...string) {
		argv := append([]string{"worker", "--nats", url, "--creds", creds, "--data", filepath.Join(dir, "w"), "--engine-key", filepath.Join(data, "engine.pub"), "--tool", "pay"}, more...)
		process(t, append(argv, "--", "sh", "-c", `read -r in; echo "$ASKANCE_TOOL $in"`)...)
	}
	worker(plain)
	worker(routed, "--tool", "ship", "--subject", "exec.payments")

	nc, err := bus.Connect(t.Context(), url, bus.ConnectOptions{Principal: "bot", CredsFile: bot})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	runtime, err := bus.NewClient(nc, "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if err != nil {
		t.Fatal(err)
	}
	calls := []message.ToolCallBlock{
		{ID: "c1", Name: "pay", Input: `{"cents":500}`}, {ID: "c2", Name: "ship", Input: `{"cents":500}`}, {ID: "c3", Name: "pay", Input: `{"cents":5}`},
		{ID: "c4", Name: "ship", Input: `{"cents":5}`}, {ID: "c5", Name: "outside", Input: `{}`},
	}
	if _, err := runtime.Propose(t.Context(), toolcall.ProposeRequest{Session: "s1", Reply: "r1", Calls: calls}); err != nil {
		t.Fatal(err)
	}
	for _, c := range calls[:2] {
		ok(t, "approve", string(c.ID), "--yes", "--data", data, "--as", "ann")
	}
	got, err := runtime.Wait(t.Context(), toolcall.WaitRequest{Session: "s1", Reply: "r1", Calls: []message.CallID{"c1", "c2", "c3", "c4", "c5"}, TimeoutMS: patience.Milliseconds()})
	if err != nil || !got.Done {
		t.Fatalf("wait: %+v, %v", got, err)
	}
	for i, want := range []struct{ worker, output string }{
		{"w-pay", `pay {"cents":500}`}, {"w-pay", `ship {"cents":500}`}, {"w-plain", `pay {"cents":5}`}, {"", `{"cents":5}`}, {"", "Permission denied"},
	} {
		c := got.Calls[i]
		if at := c.Attempt.Worker; want.worker != "" && at != want.worker || !strings.Contains(c.Result.Output.String(), want.output) {
			t.Errorf("%s ran at %q: %q", c.Call, at, c.Result.Output)
		}
		if routed := i < 2; routed != (c.Attempt.Deadline.Sub(c.Attempt.StartedAt) == 45*time.Second) {
			t.Errorf("%s has a lease from %s to %s", c.Call, c.Attempt.StartedAt, c.Attempt.Deadline)
		}
	}
	out := ok(t, "show", "c1", "--data", data, "--as", "ann")
	for _, want := range []string{"on exec.payments", "at most 45s"} {
		if !strings.Contains(out, want) {
			t.Errorf("show does not print %q:\n%s", want, out)
		}
	}
	out = ok(t, "show", "c1", "--explain", "--data", data, "--as", "ann")
	if then, now := strings.Index(out, "explanation at the time of the decision:"), strings.Index(out, "explanation with the current policy:"); then < 0 || now < then || strings.Count(out, "large") < 3 {
		t.Errorf("show --explain does not print both explanations:\n%s", out)
	}
	if x := decode[struct{ Explain toolcall.ExplainReply }](t, ok(t, "show", "c1", "--explain", "--json", "--data", data, "--as", "ann")).Explain; len(x.Recorded) == 0 || !strings.Contains(string(x.Recorded), `"trace"`) {
		t.Errorf("the recorded explanation is %s", x.Recorded)
	}
	// With its login a worker can read no other queue.
	fails(t, cli.ExitForbidden, "", "worker", "--nats", url, "--creds", plain, "--data", filepath.Join(dir, "w"), "--engine-key", filepath.Join(data, "engine.pub"), "--tool", "pay", "--subject", "exec.payments", "--", "cat")
	fails(t, cli.ExitForbidden, "", "worker", "--nats", url, "--creds", routed, "--data", filepath.Join(dir, "w"), "--engine-key", filepath.Join(data, "engine.pub"), "--tool", "pay", "--", "cat")
	fails(t, cli.ExitUsage, "calls cannot be routed to the subject", "worker", "--tool", "pay", "--subject", "", "--", "cat")
}
