package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/termtest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func TestListAndShow(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	if out := ok(t, "list", "--data", s.data); out != "No open calls.\n" {
		t.Errorf("list printed %q", out)
	}
	s.propose("r1", "c-ask", "pay", `{"cents":500}`)
	s.propose("r1", "c-allow", "pay", `{"cents":5}`)
	s.propose("r1", "c-deny", "pay", `{"cents":9001}`)
	s.propose("r1", "c-bad", "pay", `{"cents":"5"}`)
	s.propose("r1", "c-outside", "outside", `{}`)
	s.propose("r1", "c-\x1b[2J", "pay", "{\"cents\":501}")
	golden(t, "list", ok(t, "list", "--data", s.data))
	golden(t, "list-all", ok(t, "list", "--data", s.data, "--all"))
	golden(t, "show-asking", ok(t, "show", "c-ask", "--data", s.data))
	golden(t, "show-submitted", ok(t, "show", "s1/r1/c-allow", "--data", s.data))
	golden(t, "show-denied", ok(t, "show", "c-deny", "--data", s.data))

	calls := decode[toolcall.ListReply](t, ok(t, "list", "--state", "asking,submitted", "--json", "--nats", s.url)).Calls
	var ids []string
	for _, c := range calls {
		ids = append(ids, string(c.Call))
	}
	if got := strings.Join(ids, " "); got != "c-ask c-allow c-outside c-\x1b[2J" {
		t.Errorf("list --json has %q", got)
	}
	if n := len(decode[toolcall.ListReply](t, ok(t, "list", "--session", "other", "--all", "--json", "--data", s.data)).Calls); n != 0 {
		t.Errorf("%d calls of another session", n)
	}
	if n := len(decode[toolcall.ListReply](t, ok(t, "list", "--blocked", "--json", "--data", s.data)).Calls); n != 0 {
		t.Errorf("%d blocked calls", n)
	}
	show := decode[toolcall.ShowReply](t, ok(t, "show", "c-ask", "--json", "--data", s.data))
	if show.Call.State != message.ToolCallAsking || show.Call.Digest == "" || len(show.History) != 1 {
		t.Errorf("show --json = %+v", show)
	}
}

// A list can be filtered by phase, and every call in a reply has its phase. The journal stores no
// phase.
func TestListByPhase(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c-ask", "pay", `{"cents":500}`)
	s.propose("r2", "c-queued", "outside", `{}`)
	s.propose("r3", "c-denied", "pay", `{"cents":9999}`)
	for flags, want := range map[string]string{
		"--phase asking": "c-ask asking", "--phase queued": "c-queued queued", "--phase finished": "c-denied finished", "--blocked": "",
		"--phase asking,queued": "c-ask asking|c-queued queued", "--phase asking --phase finished --tool pay": "c-ask asking|c-denied finished",
	} {
		var got []string
		for _, c := range decode[toolcall.ListReply](t, ok(t, append(strings.Fields("list --json --data "+s.data), strings.Fields(flags)...)...)).Calls {
			got = append(got, string(c.Call)+" "+string(c.InPhase))
		}
		if strings.Join(got, "|") != want {
			t.Errorf("list %s: %q, want %q", flags, got, want)
		}
	}
	fails(t, cli.ExitUsage, `--phase "asked": use waiting, asking`, "list", "--phase", "asked")
	fails(t, cli.ExitUsage, "did you mean asking?", "list", "--phase", "askin")
	if export := ok(t, "audit", "export", "--data", s.data); !strings.Contains(export, "c-denied") || strings.Contains(strings.ReplaceAll(export, `\`, ""), `"phase":"finished"`) {
		t.Errorf("the journal stores the phase of a call:\n%s", export)
	}
}

// A preview decides like a proposal but leaves nothing behind.
func TestPreview(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	for input, want := range map[string]string{`{"cents":5}`: "allow", `{"cents":500}`: "ask", `{"cents":9999}`: "deny", `{"cents":"x"}`: "refused"} {
		if out := ok(t, "preview", "pay", "--args", input, "--data", s.data); !strings.HasPrefix(out, want+" pay: ") {
			t.Errorf("preview of %s, want %s:\n%s", input, want, out)
		}
		reply := decode[api.PreviewReply](t, ok(t, "preview", "pay", "--args", input, "--json", "--data", s.data))
		if c := reply.Calls[0]; (c.Decision == nil) != (want == "refused") || c.Decision != nil && string(c.Decision.Behavior) != want {
			t.Errorf("preview of %s: %+v, want %s", input, reply, want)
		}
	}
	if calls := decode[toolcall.ListReply](t, ok(t, "list", "--all", "--json", "--data", s.data)).Calls; len(calls) != 0 {
		t.Errorf("previews left calls: %+v", calls)
	}
	if out := ok(t, "preview", "picker", "--external", "--data", s.data); !strings.HasPrefix(out, "ask picker: ") {
		t.Errorf("preview of a tool that the runtime brings:\n%s", out)
	}
	if out := ok(t, "preview", "picker", "--data", s.data); !strings.HasPrefix(out, "refused picker: ") || !strings.Contains(out, "pass --external") {
		t.Errorf("preview of a tool that no one declared:\n%s", out)
	}
	definition := `{"input_schema": {"type": "object", "maxProperties": 0}}`
	if out := ok(t, "preview", "picker", "--define", definition, "--args", `{"x": 1}`, "--data", s.data); !strings.Contains(out, "the arguments do not fit the tool's schema") {
		t.Errorf("preview of a declared tool:\n%s", out)
	}
	fails(t, cli.ExitUsage, "--define: decode JSON (line 1, column 1)", "preview", "picker", "--define", "[", "--data", s.data)
	s.stop()
	fails(t, cli.ExitUnavailable, "start askance serve", "preview", "pay", "--data", s.data)
}

// A call from the command line is decided, run and answered like a call of an agent. The same
// name is the same call.
func TestCall(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	call := func(code int, says, tool, input string, more ...string) result {
		return fails(t, code, says, append([]string{"call", tool, "--args", input, "--data", s.data}, more...)...)
	}
	const small = `{"cents":5}`
	if r := call(cli.ExitOK, "", "ship", small); r.out != small+"\n" {
		t.Errorf("the result is %q", r.out)
	}
	if r := call(cli.ExitForbidden, "not allowed: denied", "ship", `{"cents":9999}`); !strings.Contains(r.out, "rule cap") {
		t.Errorf("the result of a denied call is %q", r.out)
	}
	refused := call(cli.ExitForbidden, "not allowed: refused", "ship", `{"cents":"x"}`)
	if out := pasted(t, strings.TrimSuffix(printed(t, refused.err, "hint: "), " tells why")); !strings.Contains(out, "the arguments do not fit the tool's schema") {
		t.Errorf("the command of the hint printed %q", out)
	}
	call(cli.ExitForbidden, "not allowed: refused", "nothing", "{}")
	call(cli.ExitForbidden, "not allowed: refused; did you mean ship?", "shpi", "{}")
	if r := call(cli.ExitForbidden, "not allowed: refused\n", "ship", "{\"cents\": 1,\n}"); !strings.Contains(r.out, "(line 1, column 12)") {
		t.Errorf("the result of a call without JSON is %q", r.out)
	}
	fails(t, cli.ExitUnavailable, "check --space: perhaps the server has no space tem", "call", "ship", "--data", s.data, "--space", "tem")
	call(cli.ExitUsage, "one tool", "ship", small, "pay")
	named := []string{"--session", "s7", "--reply", "r7", "--id", "c7", "--no-wait"}
	for range 2 {
		if r := call(cli.ExitOK, "", "ship", `{"cents":500}`, named...); !strings.HasPrefix(r.out, "c7 is asking: needs approval (") {
			t.Errorf("the waiting call is %q", r.out)
		}
	}
	call(cli.ExitConflict, "", "ship", small, named...)
	approved := make(chan result)
	go func() {
		approved <- run(t, "call", "ship", "--args", `{"cents":500}`, "--session", "s7", "--reply", "r7", "--id", "c7", "--data", s.data)
	}()
	ok(t, "approve", "s7/r7/c7", "--yes", "--data", s.data)
	if r := <-approved; r.code != cli.ExitOK || r.out != `{"cents":500}`+"\n" {
		t.Errorf("the approved call: %+v", r)
	}
	if c := decode[toolcall.Call](t, ok(t, "call", "ship", "--args", `{"cents":500}`, "--session", "s7", "--reply", "r7", "--id", "c7", "--json", "--data", s.data)); c.State != message.ToolCallFinished {
		t.Errorf("the finished call is %s", c.State)
	}
	s.stop()
	if r := call(cli.ExitUnavailable, "start it with askance serve", "ship", small); strings.Contains(r.err, "--offline") {
		t.Errorf("the command has no such flag: %s", r.err)
	}
}

func TestAddresses(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c", "pay", `{"cents":500}`)
	s.propose("r2", "c", "pay", `{"cents":600}`)
	s.propose("r/3", "x/y", "pay", `{"cents":700}`)

	r := fails(t, cli.ExitUsage, "2 calls have the id c", "show", "c", "--data", s.data)
	for _, want := range []string{"s1/r1/c (pay, asking)", "s1/r2/c (pay, asking)"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the error does not list %s:\n%s", want, r.err)
		}
	}
	for _, tc := range []struct{ args, want string }{
		{"c --reply r2", `"cents": 600`},
		{"c --session s1 --reply r1", `"cents": 500`},
		{"s1/r2/c", `"cents": 600`},
		{"s1/r/3/x/y", `"cents": 700`},
		{"x/y", `"cents": 700`},
	} {
		if out := ok(t, append([]string{"show", "--data", s.data}, strings.Fields(tc.args)...)...); !strings.Contains(out, tc.want) {
			t.Errorf("show %s printed\n%s\nwant %s", tc.args, out, tc.want)
		}
	}
	fails(t, cli.ExitNotFound, "there is no call nope", "show", "nope", "--data", s.data)
	fails(t, cli.ExitNotFound, "there is no call s1/r1/nope", "show", "s1/r1/nope", "--data", s.data)

	// When one of the two is finished, the id means the open one.
	ok(t, "reject", "s1/r1/c", "--yes", "--data", s.data)
	if out := ok(t, "show", "c", "--data", s.data); !strings.Contains(out, `"cents": 600`) {
		t.Errorf("show c printed a finished call although one is open:\n%s", out)
	}
}

func TestResponses(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	digest := s.propose("r1", "c1", "ship", `{"cents":500}`).Digest

	doc := fails(t, cli.ExitConflict, "changed after you opened it", "approve", "c1", "--data", s.data, "--digest", "sha256:00", "--json")
	if d := decode[struct {
		Error struct {
			Exit   int
			Code   string
			Digest string
		}
	}](t, doc.err); d.Error.Exit != cli.ExitConflict || d.Error.Code != "digest_mismatch" || d.Error.Digest != digest {
		t.Errorf("the error document is %s", doc.err)
	}
	call := decode[toolcall.Call](t, ok(t, "approve", "c1", "--data", s.data, "--digest", digest, "--json", "--as", "ann"))
	if v := call.Votes[0]; v.By.Name != "ann" || v.By.Role != toolcall.RoleApprover || v.Digest != digest {
		t.Errorf("the vote is %+v", v)
	}
	if c := s.finished("c1"); c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != `{"cents":500}` {
		t.Errorf("the approved call ended as %+v", c.Result)
	}
	fails(t, cli.ExitConflict, "ann (NATS, not authenticated) responded first: approve", "approve", "c1", "--data", s.data, "--yes")
	fails(t, cli.ExitConflict, "the call has been started", "revoke", "c1", "--data", s.data)

	s.propose("r1", "c2", "ship", `{"cents":500}`)
	ok(t, "reject", "c2", "--yes", "--feedback", "too much", "--data", s.data)
	if c := s.finished("c2"); c.Result.State != message.ToolResultDenied || !strings.Contains(c.Result.Output.String(), "too much") {
		t.Errorf("the rejected call ended as %+v", c.Result)
	}

	// Lines stay lines, each below the first, so that none looks like another row.
	s.propose("r1", "c-lines", "ship", `{"cents":500}`)
	ok(t, "reject", "c-lines", "--yes", "--feedback", "too much\n  result     success", "--data", s.data)
	if out := ok(t, "show", "c-lines", "--data", s.data); !strings.Contains(out, "\n  feedback   too much\n               result     success\n") {
		t.Errorf("show printed\n%s", out)
	}

	s.propose("r1", "c3", "ship", `{"cents":500}`)
	if r := runWith(t, "paid by hand\n", "respond", "c3", "--output", "-", "--yes", "--data", s.data); r.code != cli.ExitOK {
		t.Fatalf("respond: exit %d\n%s", r.code, r.err)
	}
	if c := s.finished("c3"); c.Result.State != message.ToolResultSuccess || c.Result.Output.String() != "paid by hand" || c.Started() {
		t.Errorf("the call with a response ended as %+v", c.Result)
	}

	s.propose("r1", "c4", "boss", `{}`)
	fails(t, cli.ExitForbidden, "you cannot respond: only boss can", "approve", "c4", "--yes", "--as", "ann", "--data", s.data)
	if out := ok(t, "approve", "c4", "--yes", "--as", "boss", "--data", s.data); !strings.Contains(out, "c4 is queued: waiting for a worker") {
		t.Errorf("approve printed %q", out)
	}
	if out := ok(t, "revoke", "c4", "--reason", "changed my mind", "--data", s.data); !strings.Contains(out, "c4 is finished") {
		t.Errorf("revoke printed %q", out)
	}
}

// A mistake in the editor does not lose what the person wrote, and the file is gone afterwards.
func TestEditAfterAMistake(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	tmp := t.TempDir()
	s.propose("r1", "c1", "ship", `{"cents":500}`)
	edit := func(args ...string) *termtest.Terminal {
		cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"edit", "c1", "--data", s.data}, args...)...)
		cmd.Env = append(cmd.Env, "EDITOR=sed -i s/500/5O/", "TMPDIR="+tmp)
		return termtest.Open(t, 300, 20, cmd)
	}
	x := edit()
	x.See("Your text is in " + tmp)
	x.Ends(cli.ExitUsage)
	kept, err := filepath.Glob(filepath.Join(tmp, "askance-edit-*", "input.json"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept: %v, %v", kept, err)
	}
	write(t, kept[0], `{"cents": 50}`)
	x = edit("--args", "@"+kept[0], "--yes")
	x.Ends(cli.ExitOK)
	if c := s.finished("c1"); c.Input != `{"cents": 50}` {
		t.Errorf("the call ran with %s", c.Input)
	}
}

func TestEdit(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "ship", `{"cents":500}`)
	fails(t, cli.ExitUsage, "not a JSON object", "edit", "c1", "--args", "[1]", "--yes", "--data", s.data)
	fails(t, cli.ExitUsage, "not a JSON object", "edit", "c1", "--args", `{"cents":1,"cents":2}`, "--yes", "--data", s.data)
	fails(t, cli.ExitUsage, "the arguments do not fit the tool's schema", "edit", "c1", "--args", `{"cents":-1}`, "--yes", "--data", s.data)
	fails(t, cli.ExitNotFound, "no such file", "edit", "c1", "--args", "@missing.json", "--yes", "--data", s.data)
	write(t, "new.json", "{\"cents\": 50}\n")
	r := run(t, "edit", "c1", "--args", "@new.json", "--yes", "--data", s.data)
	if r.code != cli.ExitOK || !strings.Contains(r.err, "-   \"cents\": 500\n+   \"cents\": 50\n") {
		t.Errorf("edit: exit %d\n%s%s", r.code, r.out, r.err)
	}
	if c := s.finished("c1"); c.Input != `{"cents": 50}` || c.Result.Output.String() != `{"cents": 50}` || !c.Votes[0].Edited {
		t.Errorf("the edited call is %+v", c)
	}

	if out := ok(t, "show", "c1", "--data", s.data); !strings.Contains(out, "  edited\n      {\n    -   \"cents\": 500\n    +   \"cents\": 50\n      }\n  history\n") {
		t.Errorf("show does not print what the agent proposed:\n%s", out)
	}

	s.propose("r1", "c2", "ship", `{"cents":500}`)
	fails(t, cli.ExitForbidden, "the policy denies the edited call: rule cap", "edit", "c2", "--args", `{"cents":9001}`, "--yes", "--data", s.data)
	if text := ok(t, "list", "--data", s.data); !strings.Contains(text, "c2") {
		t.Errorf("an edit that the policy denies ended the request:\n%s", text)
	}
	ok(t, "approve", "c2", "--yes", "--data", s.data)
	if c := s.finished("c2"); c.Input != `{"cents":500}` {
		t.Errorf("approved without an edit, the call ran with %s", c.Input)
	}
}

// What an edit changed is shown without the values that a rule hides.
func TestShowEditWithHiddenValues(t *testing.T) {
	cleanEnvironment(t)
	s := serveRules(t, "version: 1\nname: x\nrules:\n  - {name: secret, tool_name: outside, behavior: ask, redact: [args.pin]}\n")
	s.propose("r1", "c1", "outside", `{"pin":"correct-horse","n":1}`)
	ok(t, "edit", "c1", "--args", `{"pin":"battery-staple","n":2}`, "--yes", "--data", s.data)
	show := func() string { return ok(t, "show", "c1", "--data", s.data) }
	running := show()
	s.stop()
	for _, out := range []string{running, show()} {
		if !strings.Contains(out, `-   "n": 1`) || !strings.Contains(out, `+   "n": 2`) || strings.Contains(out, "correct-horse") || strings.Contains(out, "battery-staple") {
			t.Errorf("show prints\n%s", out)
		}
	}
}

func TestInterruptAndResolve(t *testing.T) {
	cleanEnvironment(t)
	s := serve(t)
	s.propose("r1", "c1", "pay", `{"cents":500}`)
	s.propose("r1", "c2", "pay", `{"cents":5}`)
	fails(t, cli.ExitUsage, "use happened, did_not_happen or run_again", "resolve", "c2", "--outcome", "maybe", "--data", s.data)
	fails(t, cli.ExitConflict, "neither blocked nor run by its runtime", "resolve", "c2", "--outcome", "happened", "--output", "", "--data", s.data)
	fails(t, cli.ExitNotFound, "the reply s1/r9 has no calls", "interrupt", "--session", "s1", "--reply", "r9", "--data", s.data)
	if out := ok(t, "interrupt", "c1", "--reason", "wrong ticket", "--data", s.data); !strings.Contains(out, "Reply s1/r1 interrupted, 2 open calls ended.") {
		t.Errorf("interrupt printed %q", out)
	}
	for _, id := range []string{"c1", "c2"} {
		if c := s.finished(id); c.Result.State != message.ToolResultInterrupted {
			t.Errorf("%s ended as %s", id, c.Result.State)
		}
	}
}

func TestUnavailable(t *testing.T) {
	parallel(t)
	s := serve(t)
	fails(t, cli.ExitUnavailable, "cannot reach nats://127.0.0.1:1", "list", "--nats", "nats://127.0.0.1:1")
	fails(t, cli.ExitUnavailable, "cannot reach nats://127.0.0.1:1", "serve", "--nats", "nats://user:secret@127.0.0.1:1", "--data", t.TempDir())
	fails(t, cli.ExitUnavailable, "no engine of the space \"other\" runs at "+s.url, "list", "--space", "other", "--data", s.data)
	fails(t, cli.ExitUnavailable, "another process uses", "serve", "--data", s.data, "--listen", "127.0.0.1:0")
	taken := strings.TrimPrefix(s.url, "nats://")
	if r := fails(t, cli.ExitUnavailable, "error: another process listens on "+taken+"\nhint: stop it, or choose another address with --listen", "serve", "--data", t.TempDir(), "--listen", taken); strings.Contains(r.err, "ERROR") {
		t.Errorf("a taken port is reported twice:\n%s", r.err)
	}
	fails(t, cli.ExitNotFound, "has no askance journal", "list", "--data", t.TempDir())
	fails(t, cli.ExitNotFound, "has no askance journal", "journal", "check", "--data", t.TempDir())
	fails(t, cli.ExitNotFound, "has no askance journal", "journal", "backup", filepath.Join(t.TempDir(), "copy"), "--data", t.TempDir())
	fails(t, cli.ExitNotFound, "has no askance journal", "approve", "c", "--yes", "--data", t.TempDir())
	fails(t, cli.ExitUnavailable, "no server runs on", "worker", "--tool", "x", "--engine-key", s.data+"/engine.pub", "--data", t.TempDir(), "--", "cat")
	fails(t, cli.ExitNotFound, "engine.pub", "worker", "--tool", "x", "--data", t.TempDir(), "--", "cat")
	fails(t, cli.ExitUsage, "no-such-program", "worker", "--tool", "x", "--data", s.data, "--", "no-such-program")
	for _, r := range []result{run(t, "list", "--nats", "nats://user:secret@127.0.0.1:1"), run(t, "list", "--json", "--nats", "nats://user:secret@127.0.0.1:1")} {
		if strings.Contains(r.err, "secret") {
			t.Errorf("an error contains a password:\n%s", r.err)
		}
	}
}

func TestBadFiles(t *testing.T) {
	cleanEnvironment(t)
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	write(t, bad, "version: 1\nname: x\nrules:\n  - {name: a, tool_name: pay, behavior: allow, when: args.cents <}\n")
	tools := filepath.Join(dir, "tools.yaml")
	write(t, tools, testTools)
	r := fails(t, cli.ExitUsage, "policy refused, 1 problem", "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "d"), "--policy", bad, "--tools", tools)
	if !strings.Contains(r.err, bad+":4:") {
		t.Errorf("the error does not contain the position: %s", r.err)
	}
	if _, err := os.Stat(filepath.Join(dir, "d", "endpoint")); err == nil {
		t.Error("a server that did not start left its endpoint behind")
	}
	write(t, bad, "version: 1\ntools: [{name: a, lease: soon}]")
	fails(t, cli.ExitUsage, "lease", "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "d"), "--tools", bad)
	fails(t, cli.ExitNotFound, "no such file", "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "d"), "--tools", filepath.Join(dir, "none"))
	fails(t, cli.ExitNotFound, "no such file", "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "d"), "--policy", filepath.Join(dir, "none"))
}
