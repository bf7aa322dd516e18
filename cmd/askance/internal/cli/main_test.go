package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/cli"
	"github.com/askance-dev/askance/internal/clitest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TestMain lets the test binary stand in for askance itself, because the demo starts its own
// program again as the worker process.
func TestMain(m *testing.M) {
	clitest.Main(m, func(args []string) int {
		if args[0] == socketChild {
			return socketMain(args[1:])
		}
		if args[0] == mcpServer {
			return mcpServerMain()
		}
		if args[0] == mcpChild {
			return mcpMain()
		}
		return cli.Process(args)
	})
}

// removeSettings removes the settings of the user who runs the tests.
func removeSettings(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "ASKANCE_") {
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// parallel is for tests that mostly wait. They name every file and folder that a command uses.
func parallel(t *testing.T) {
	t.Helper()
	removeSettings(t)
	t.Parallel()
}

// cleanEnvironment is for tests in which commands look for files that no flag names.
func cleanEnvironment(t *testing.T) {
	t.Helper()
	removeSettings(t)
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(t.TempDir())
}

// result is what a command printed and its exit code.
type result struct {
	code     int
	out, err string
}

// run runs one command in this process.
func run(t testing.TB, args ...string) result {
	t.Helper()
	return runWith(t, "", args...)
}

func runWith(t testing.TB, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Main(t.Context(), cli.IO{In: strings.NewReader(stdin), Out: &out, Err: &errs}, args)
	return result{code, out.String(), errs.String()}
}

// ok runs a command that must succeed and returns its output.
func ok(t testing.TB, args ...string) string {
	t.Helper()
	r := run(t, args...)
	if r.code != cli.ExitOK {
		t.Fatalf("askance %s: exit %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// fails runs a command that must exit with the code and print the message.
func fails(t testing.TB, code int, says string, args ...string) result {
	t.Helper()
	r := run(t, args...)
	if r.code != code || !strings.Contains(r.err, says) {
		t.Errorf("askance %s: exit %d, want %d and %q\n%s%s", strings.Join(args, " "), r.code, code, says, r.out, r.err)
	}
	return r
}

// decode reads the only JSON document that a command printed.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("more than one document:\n%s", text)
	}
	return v
}

const testRules = `
version: 1
name: test
rules:
  - {name: small, tool_name: [pay, ship], behavior: allow, when: args.cents <= 100}
  - {name: large, tool_name: [pay, ship], behavior: ask, when: args.cents > 100, message: "'Pay ' + string(args.cents) + ' cents?'"}
  - {name: cap, tool_name: [pay, ship], behavior: deny, when: args.cents > 9000, locked: true}
  - {name: boss, tool_name: boss, behavior: ask, approvers: {users: [boss]}}
  - {name: outside, tool_name: outside, behavior: allow}
`

const testTools = `
version: 1
tools:
  - name: pay
    placement: remote
    concurrency_safe: true
    input_schema: {type: object, required: [cents], additionalProperties: false, properties: {cents: {type: integer, minimum: 0}}}
  - name: ship
    concurrency_safe: true
    command: [cat]
    input_schema: {type: object, required: [cents], additionalProperties: false, properties: {cents: {type: integer, minimum: 0}}}
  - {name: boss, placement: remote, concurrency_safe: true}
  - {name: outside, placement: external, concurrency_safe: true}
`

// served is a running askance serve.
type served struct {
	t       *testing.T
	data    string
	url     string
	open    bool // reachable beyond loopback
	stop    func()
	damaged atomic.Bool // the test damaged the journal: serve may end with it
	metrics string
	http    string // the URL of the gateway
	// durability is what serve claims, and why is its reason.
	durability, why string
	// httpAuth is what serve prints about who may use HTTP.
	httpAuth string
	// errs contains the standard error of a process after it was killed.
	errs bytes.Buffer
}

// serve starts askance serve on a free port and waits until it serves.
func serve(t *testing.T) *served {
	t.Helper()
	return serveRules(t, testRules)
}

// serveRules is like serve, with other rules.
func serveRules(t *testing.T, rules string) *served {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rules.yaml"), rules)
	write(t, filepath.Join(dir, "tools.yaml"), testTools)
	return serveOn(t, filepath.Join(dir, "data"), "--policy", filepath.Join(dir, "rules.yaml"), "--tools", filepath.Join(dir, "tools.yaml"))
}

// serveProcess is like serveOn in a separate process, which kill ends like a crash.
func serveProcess(t *testing.T, data string, args ...string) (s *served, kill func()) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"serve", "--json", "--data", data, "--listen", "127.0.0.1:0"}, args...)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s = &served{t: t, data: data}
	c.Stderr = &s.errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at := decode[struct{ URL, HTTP, Metrics string }](t, line)
	s.url, s.http, s.metrics = at.URL, at.HTTP, at.Metrics
	return s, func() {
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // the process was killed
	}
}

// serveOn is like serve on a data folder, with only the given flags.
func serveOn(t *testing.T, data string, args ...string) *served {
	t.Helper()
	first := []string{"serve", "--json", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	if !slices.Contains(args, "--nats") {
		first = append(first, "--durability", "cached")
	}
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	var errs bytes.Buffer
	var wg sync.WaitGroup
	s := &served{t: t, data: data, stop: func() { cancel(); wg.Wait() }}
	wg.Go(func() {
		code := cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: pw, Err: &errs}, append(first, args...))
		_ = pw.CloseWithError(errors.New("serve ended"))
		if code != cli.ExitOK && code != cli.ExitInterrupted && (code != cli.ExitDamaged || !s.damaged.Load()) {
			t.Errorf("askance serve: exit %d\n%s", code, errs.String())
		}
	})
	t.Cleanup(s.stop)
	line, err := bufio.NewReader(pr).ReadString('\n')
	if err != nil {
		s.stop()
		t.Fatalf("askance serve: %v\n%s", err, errs.String())
	}
	started := decode[struct {
		URL     string `json:"url"`
		HTTP    string `json:"http"`
		Auth    string `json:"http_auth"`
		Metrics string `json:"metrics"`
		Open    bool   `json:"open_beyond_loopback"`

		Durability    string `json:"durability"`
		DurabilityWhy string `json:"durability_why"`
	}](t, line)
	s.durability, s.why = started.Durability, started.DurabilityWhy
	s.url, s.http, s.metrics, s.open = started.URL, started.HTTP, started.Metrics, started.Open
	s.httpAuth = started.Auth
	return s
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// connection returns a connection of a client with the name.
func (s *served) connection(name string) *nats.Conn {
	s.t.Helper()
	nc, err := bus.Connect(s.t.Context(), s.url, bus.ConnectOptions{Principal: name})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// bot returns a runtime of the served engine.
func (s *served) bot() *bus.Client {
	s.t.Helper()
	c, err := bus.NewClient(s.connection("bot"), "default", toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// propose proposes one call in a reply of the session s1.
func (s *served) propose(reply, id, tool, input string) *toolcall.Call {
	s.t.Helper()
	r, err := s.bot().Propose(s.t.Context(), toolcall.ProposeRequest{
		V: 1, Session: "s1", Reply: message.ReplyID(reply), Agent: "agent", Calls: []message.ToolCallBlock{{ID: message.CallID(id), Name: tool, Input: input}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.Calls[0]
}

// finished waits for the end of a call.
func (s *served) finished(id string) *toolcall.Call {
	s.t.Helper()
	for {
		r, err := s.bot().Wait(s.t.Context(), toolcall.WaitRequest{V: 1, Session: "s1", Reply: "r1", Calls: []message.CallID{message.CallID(id)}})
		if err != nil {
			s.t.Fatal(err)
		}
		if r.Done {
			return r.Calls[0]
		}
	}
}

// volatile describes what differs from run to run in printed text.
var volatile = []clitest.Volatile{
	{What: regexp.MustCompile(`sha256:[0-9a-f]{64}`), With: "sha256:HASH"},
	{What: regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), With: "DATE TIME"},
	{What: regexp.MustCompile(`(?m)^    \d{4}-\d\d-\d\d$`), With: "    DATE"},
	{What: regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`), With: "HH:MM:SS.mmm"},
	{What: regexp.MustCompile(`\bAGE +`), With: "AGE  "},
	{What: regexp.MustCompile(`\b(\d+m )?\d+s {2,}`), With: "0s   "}, // in a column that is wider on a slow machine
	{What: regexp.MustCompile(`\b\d+s\b( +)`), With: "0s$1"},
	{What: regexp.MustCompile(`key [0-9a-f]{16}`), With: "key KEYID"},
	{What: regexp.MustCompile(`eng_[0-9a-f]+`), With: "eng_ID"},
}

// golden compares printed text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	clitest.Golden(t, name, got, volatile...)
}

// follow starts a command that prints until it is interrupted, at the latest when the test ends,
// and returns its lines one by one.
func follow(t *testing.T, args ...string) (next func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	pr, pw := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		code := cli.Main(ctx, cli.IO{In: strings.NewReader(""), Out: pw, Err: io.Discard}, args)
		_ = pw.Close()
		ended <- code
	}()
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, pr) // until the command ends
		if code := <-ended; code != cli.ExitInterrupted {
			t.Errorf("%s ended with %d", strings.Join(args, " "), code)
		}
	})
	lines := bufio.NewScanner(pr)
	lines.Buffer(nil, 1<<20)
	return func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("%s ended: %v", strings.Join(args, " "), lines.Err())
		}
		return lines.Text()
	}
}
