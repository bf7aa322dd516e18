package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/termtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// several is what approve and reject print for several calls.
type several struct {
	Results []struct {
		Call  message.CallID `json:"tool_call_id"`
		After *toolcall.Call `json:"call"`
		Error *struct {
			Exit int
			Code string
		}
	}
}

// One command responds to several calls and prints the outcome of each.
func TestRespondToSeveral(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	for _, id := range []string{"call_a1", "call_a2", "call_b1", "call_b2", "call_b3"} {
		s.propose("r1", id, "pay", `{"cents":500}`)
	}
	s.propose("r2", "call_c1", "boss", `{}`)
	out := ok(t, "approve", "call_a1", "call_a2", "call_a1", "--yes", "--data", s.data)
	if want := "call_a1 is queued: waiting for a worker\ncall_a2 is queued: waiting for a worker\n"; out != want {
		t.Errorf("approve printed %q, want %q", out, want)
	}
	// If one of two fails, the other is still sent, and the exit code says so.
	r := fails(t, cli.ExitPartial, "1 of 2 calls failed", "reject", "call_a1", "call_b1", "--yes", "--data", s.data)
	if !strings.Contains(r.out, "call_a1: failed: ") || !strings.Contains(r.out, "call_b1 is finished") {
		t.Errorf("reject printed %q", r.out)
	}
	// All fail in the same way.
	r = fails(t, cli.ExitConflict, "2 of 2 calls failed", "approve", "call_a1", "call_a2", "--yes", "--json", "--data", s.data)
	if got := decode[several](t, r.out); len(got.Results) != 2 || got.Results[1].Call != "call_a2" || got.Results[1].Error.Exit != cli.ExitConflict || got.Results[1].After != nil {
		t.Errorf("approve --json printed %s", r.out)
	}
	// A script without --yes is told that the call is finished, not that it must confirm.
	ok(t, "revoke", "call_a2", "--data", s.data)
	fails(t, cli.ExitConflict, "the call call_a2 is finished", "approve", "call_a2", "--data", s.data)
	fails(t, cli.ExitUsage, "pass --yes", "approve", "call_b2", "--data", s.data)
	// A wrong id stops the command before it sends anything.
	fails(t, cli.ExitNotFound, "there is no call call_zz", "approve", "call_b2", "call_zz", "--yes", "--data", s.data)
	// A filter selects the requests that this person can respond to.
	fails(t, cli.ExitNotFound, "no open request that you can respond to", "approve", "--tool", "boss", "--yes", "--as", "ann", "--data", s.data)
	got := decode[several](t, ok(t, "reject", "--mine", "--policy-rule", "large", "--yes", "--json", "--as", "ann", "--data", s.data))
	if len(got.Results) != 2 || got.Results[0].Call != "call_b2" || got.Results[1].After.State != message.ToolCallFinished {
		t.Errorf("reject --mine: %+v", got)
	}
	if out := ok(t, "approve", "--session", "s1", "--yes", "--as", "boss", "--data", s.data); out != "call_c1 is queued: waiting for a worker\n" {
		t.Errorf("approve --session printed %q", out)
	}
}

// The confirmation of several calls shows the arguments that a line leaves out.
func TestConfirmationOfSeveral(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_a1", "boss", `{"note":"`+strings.Repeat("x", 150)+`","last":"end"}`)
	s.propose("r1", "call_a2", "pay", `{"cents":500}`)
	x := termtest.Open(t, 200, 30, exec.CommandContext(t.Context(), os.Args[0], "approve", "call_a1", "call_a2", "--as", "boss", "--data", s.data))
	x.See("Arguments of call_a1:", `"last": "end"`, "Exactly these calls run.", "Approve these 2 calls?")
	x.Miss("Arguments of call_a2")
	x.Press("\x03")
	x.Ends(cli.ExitInterrupted)
}

// The beginning of an id names a call if no other id begins with it.
func TestPrefixOfAnID(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_x1", "pay", `{"cents":500}`)
	s.propose("r1", "call_y10", "pay", `{"cents":600}`)
	s.propose("r1", "call_y11", "pay", `{"cents":700}`)
	s.propose("r1", "call_y1", "pay", `{"cents":800}`)
	for id, want := range map[string]string{"call_x": `"cents": 500`, "s1/r1/call_x": `"cents": 500`, "call_y11": `"cents": 700`, "call_y1": `"cents": 800`} {
		if out := ok(t, "show", id, "--data", s.data); !strings.Contains(out, want) {
			t.Errorf("show %s printed\n%s", id, out)
		}
	}
	r := fails(t, cli.ExitUsage, "4 calls have ids that begin with call_", "approve", "call_", "--yes", "--data", s.data)
	if !strings.Contains(r.err, "s1/r1/call_y10 (pay, asking)") {
		t.Errorf("the error does not list the calls:\n%s", r.err)
	}
	fails(t, cli.ExitNotFound, "no call has the id cal", "show", "cal", "--data", s.data)
}

// Without a confirmation, only an id that could mean no other call is accepted. An agent can give
// a call the short form of an id that a person has just seen.
func TestOnlyWholeIDsWithoutConfirmation(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "call_x1", "pay", `{"cents":500}`)
	r := fails(t, cli.ExitUsage, "list -o name --data "+s.data+" prints\n  s1/", "approve", "call_x", "--yes", "--data", s.data)
	if !strings.Contains(r.err, "s1/r1/call_x1 (pay, asking)") {
		t.Errorf("the error does not name the call:\n%s", r.err)
	}
	s.propose("r2", "call_x", "pay", `{"cents":600}`) // the agent chooses the short form
	for _, command := range [][]string{{"approve"}, {"reject"}, {"edit", "--args", "{}"}, {"respond", "--output", "x"}, {"delegate"}} {
		fails(t, cli.ExitUsage, "call_x could mean 2 calls", append(command, "call_x", "--yes", "--data", s.data)...)
	}
	for _, command := range []string{"resolve", "revoke", "interrupt"} { // they never ask
		args := []string{command, "call_x", "--data", s.data}
		if command == "resolve" {
			args = append(args, "--outcome", "happened", "--output", "x")
		}
		fails(t, cli.ExitUsage, "call_x could mean 2 calls", args...)
	}
	fails(t, cli.ExitUsage, "call_x could mean 2 calls", "approve", "call_x", "call_x1", "--yes", "--data", s.data)
	s.propose("r3", "s1/r2/call_x", "pay", `{"cents":700}`) // or the full address
	fails(t, cli.ExitUsage, "s1/r2/call_x could mean 2 calls", "approve", "s1/r2/call_x", "--yes", "--data", s.data)
	for id, reply := range map[string]string{"call_x1": "r1", "call_x": "r2", "s1/r2/call_x": "r3"} {
		ok(t, "reject", id, "--session", "s1", "--reply", reply, "--yes", "--data", s.data)
		s.propose("again"+reply, id, "pay", `{"cents":500}`) // the same id in another reply
		fails(t, cli.ExitUsage, id+" could mean ", "approve", id, "--yes", "--data", s.data)
	}
	ok(t, "approve", "s1/againr1/call_x1", "--yes", "--data", s.data)
	fails(t, cli.ExitUsage, "call_x could mean", "resolve", "call_x", "--outcome", "happened", "--output", "x", "--data", s.data)
	// A digest identifies the call.
	digest := decode[toolcall.ShowReply](t, ok(t, "show", "s1/againr2/call_x", "--json", "--data", s.data)).Call.Digest
	ok(t, "approve", "call_x", "--reply", "againr2", "--digest", digest, "--yes", "--data", s.data)
}

// With --yes only the outcome is printed, and a wrong flag is refused before a call is printed.
func TestShortOutput(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	if r := run(t, "approve", "c1", "--remember", "--until", "soon", "--yes", "--data", s.data); r.code != cli.ExitUsage || strings.Contains(r.err, "digest") {
		t.Errorf("a wrong --until: exit %d\n%s", r.code, r.err)
	}
	if r := run(t, "approve", "c1", "--yes", "--data", s.data); r.code != cli.ExitOK || r.err != "" || r.out != "c1 is queued: waiting for a worker\n" {
		t.Errorf("approve --yes: exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// A person who skipped a request cannot approve it, and the command explains this.
func TestApproveAfterSkip(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), quorumRules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	s := serveOn(t, filepath.Join(dir, "data"), "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
	s.propose("r1", "c", "pay", `{"cents":500}`)
	ok(t, "delegate", "c", "--note", "a relative", "--yes", "--as", "ann", "--data", s.data)
	fails(t, cli.ExitForbidden, "call c: you skipped: you can only reject this request now", "approve", "c", "--yes", "--as", "ann", "--data", s.data)
	t.Setenv("ASKANCE_TOKEN", strings.TrimSpace(ok(t, "token", "create", "ann", "--role", "approver", "--data", s.data)))
	fails(t, cli.ExitForbidden, "you skipped: you can only reject", "approve", "c", "--yes", "--server", s.http)
	t.Setenv("ASKANCE_TOKEN", "")
	if out := ok(t, "reject", "c", "--yes", "--as", "ann", "--data", s.data); !strings.Contains(out, "c is finished") {
		t.Errorf("reject printed %q", out)
	}
}

// pasted runs a command that another command printed, as a person who copies it into a shell.
func pasted(t *testing.T, command string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, "askance")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(command, "go run ./cmd/askance", "askance")).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

// printed returns the rest of the only line that contains the words.
func printed(t *testing.T, text, words string) string {
	t.Helper()
	_, after, found := strings.Cut(text, words)
	command, _, _ := strings.Cut(after, "\n")
	if !found || strings.Contains(after, words) {
		t.Fatalf("the text does not contain %q once:\n%s", words, text)
	}
	return command
}

// Ctrl-C ends the wait of askance call, not the call. The commands that it prints work as they are,
// also for a data folder that a shell must quote.
func TestCallStopsWaiting(t *testing.T) {
	cleanEnvironment(t)
	write(t, "rules.yaml", testRules)
	write(t, "tools.yaml", testTools)
	s := serveOn(t, "ann's data", "--policy", "rules.yaml", "--tools", "tools.yaml")
	c := exec.CommandContext(t.Context(), os.Args[0], "call", "ship", "--args", `{"cents": 500}`, "--agent", "bot 1", "--as", "ann", "--data", s.data)
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said := ""
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "decide with ") {
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _ = c.Wait(); c.ProcessState.ExitCode() != cli.ExitInterrupted || !strings.Contains(said, "\nStopped waiting. The call stays open.\n") || strings.Contains(said, "error:") {
		t.Fatalf("exit %d\n%s", c.ProcessState.ExitCode(), said)
	}
	pasted(t, printed(t, said, "decide with ")+" --yes")
	if out := pasted(t, printed(t, said, "wait again: ")); out != `{"cents": 500}`+"\n" {
		t.Errorf("the command that waits again printed %q", out)
	}
	if out := pasted(t, printed(t, said, "end it:     ")); !strings.Contains(out, "interrupted, 0 open calls ended") {
		t.Errorf("the command that ends the call printed %q", out)
	}
}

// Ctrl-C ends a following command with exit code 130 and without an error.
func TestInterruptEndsWith130(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	c := exec.CommandContext(t.Context(), os.Args[0], "events", "tail", "s1", "--data", s.data)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _ = c.Wait(); c.ProcessState.ExitCode() != 130 || errs.Len() > 0 {
		t.Errorf("exit %d\n%s", c.ProcessState.ExitCode(), errs.String())
	}
}

// An agent chooses an id that a shell splits into the addresses of two other calls: list -o name
// still prints one word for each call, which names that call alone.
func TestNamesAreSingleWords(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "victim", "boss", "{}")
	s.propose("r3", "decoy", "pay", `{"cents":500}`)
	s.propose("r3", "decoy s1/r1/victim", "pay", `{"cents":600}`)
	names := strings.Fields(ok(t, "list", "--tool", "pay", "-o", "name", "--data", s.data))
	if want := []string{"s1/r3/decoy", "s1/r3/decoy%20s1%2Fr1%2Fvictim"}; !slices.Equal(names, want) {
		t.Fatalf("list -o name printed %q, want %q", names, want)
	}
	ok(t, append([]string{"reject", "--yes", "--data", s.data}, names...)...)
	if out := ok(t, "list", "-o", "name", "--data", s.data); out != "s1/r1/victim\n" {
		t.Errorf("after the calls of pay were rejected, these are open: %s", out)
	}
}
