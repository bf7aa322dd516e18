package node_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

const tools = `
version: 1
tools:
  - {name: upper, command: [tr, a-z, A-Z], concurrency_safe: true}
  - {name: remote, placement: remote, concurrency_safe: true}
  - {name: unserved, concurrency_safe: true}
`

// config returns the configuration of a node on a new folder with a policy that allows
// everything.
func config(t *testing.T) node.Config {
	t.Helper()
	dir := t.TempDir()
	declared, err := toolfile.Parse("tools", []byte(tools))
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(dir, "policy.yaml")
	text := "version: 1\nname: p\nrules:\n  - {name: all, tool_name: [upper, remote, unserved], behavior: allow, audit: {level: full}}\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return node.Config{Dir: node.Dir(filepath.Join(dir, "data")), Space: "default", Durability: journal.DurabilityCached, Policy: []string{policy}, Tools: declared}
}

func start(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	n, err := node.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return n
}

// propose proposes one call.
func propose(t *testing.T, n *node.Node, id message.CallID, tool, input string) {
	t.Helper()
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	_, err := bot.Propose(t.Context(), toolcall.ProposeRequest{V: 1, Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: id, Name: tool, Input: input}}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStartAndClose(t *testing.T) {
	cfg := config(t)
	cfg.Listen = "127.0.0.1:0"
	var lines []string
	cfg.Progress = func(_ *toolcall.Call, p toolcall.ProgressRequest) { lines = append(lines, p.Text) }
	n := start(t, cfg)
	if url, err := cfg.Dir.URL(); err != nil || url == "" || url != n.URL() {
		t.Errorf("the endpoint is %q, %v, want %q", url, err, n.URL())
	}
	if info, err := os.Stat(cfg.Dir.Keys()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file: %v, %v", info, err)
	}
	if keys, err := keyfile.LoadPublic(cfg.Dir.PublicKeys()); err != nil || keys[n.KeyID()] == nil {
		t.Errorf("the public key file has %v, %v", keys, err)
	}
	if p := n.PolicyStatus(); p.Rules != 1 || p.Bundle == "" || n.Journal().Durability() != "cached" {
		t.Errorf("%d rules, policy %q, %s", p.Rules, p.Bundle, n.Journal().Durability())
	}
	propose(t, n, "c1", "upper", `{"a":"b"}`)
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "bot"})
	r, err := bot.Wait(t.Context(), toolcall.WaitRequest{V: 1, Session: "s", Reply: "r"})
	if err != nil || r.Calls[0].Result == nil || r.Calls[0].Result.Output.String() != `{"A":"B"}` {
		t.Errorf("the command's result: %+v, %v", r.Calls, err)
	}
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if url, err := cfg.Dir.URL(); err != nil || url != "" {
		t.Errorf("the endpoint is %q after Close, %v", url, err)
	}
}

func TestOneProcessAtATime(t *testing.T) {
	cfg := config(t)
	start(t, cfg)
	if _, err := node.Start(t.Context(), cfg); !errors.Is(err, embed.ErrStoreLocked) {
		t.Errorf("a second engine on the folder: %v", err)
	}
	if _, err := node.OpenReader(t.Context(), cfg.Dir, "", "default", "ann"); !errors.Is(err, embed.ErrStoreLocked) {
		t.Errorf("a reader while the engine runs: %v", err)
	}
}

// TestOneProcessAtATimeOnNATS: engines with an existing NATS share no anchor either, and no loss is
// accepted while one runs.
func TestOneProcessAtATimeOnNATS(t *testing.T) {
	server, err := embed.Start(t.Context(), embed.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	cfg := config(t)
	cfg.NATS, cfg.Listen = server.URL(), ""
	if err := os.Mkdir(string(cfg.Dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := cfg.Dir.WriteConsole("http://127.0.0.1:1"); err != nil { // by a server that was killed
		t.Fatal(err)
	}
	n := start(t, cfg)
	if at, err := cfg.Dir.ConsoleURL(); at != "" || err != nil {
		t.Errorf("the web console of an engine without one is at %q, %v", at, err)
	}
	anchor := cfg.Dir.Anchor(cfg.Space)
	embedded, shared, space, offline := cfg, cfg, cfg, cfg
	embedded.NATS = ""
	shared.Dir, shared.Keys, shared.Anchor = node.Dir(t.TempDir()), cfg.Dir.Keys(), anchor
	space.Space = "other"
	offline.NATS, offline.Offline = "", true
	if err := os.Mkdir(cfg.Dir.Store(), 0o700); err != nil { // of an engine that ran before the journal moved
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		node.Config
		used string
	}{
		"on the folder": {cfg, "the data folder"}, "with an embedded server on the folder": {embedded, "the data folder"}, "of another space on the folder": {space, "the data folder"},
		"on another folder with its anchor file": {shared, anchor}, "for one command": {offline, anchor},
	} {
		if _, err := node.Start(t.Context(), c.Config); !errors.Is(err, embed.ErrStoreLocked) || !strings.Contains(err.Error(), c.used) {
			t.Errorf("a second engine %s: %v", name, err)
		}
	}
	if _, err := (node.Damaged{Dir: cfg.Dir, Space: cfg.Space}).Archive(t.Context(), journal.Retention{By: "ann"}); !errors.Is(err, embed.ErrStoreLocked) || !strings.Contains(err.Error(), anchor) {
		t.Errorf("an archive of the folder: %v", err)
	}
	further := cfg
	further.Dir = node.Dir(t.TempDir())
	further.Keys = cfg.Dir.Keys()
	more := start(t, further)
	connect := func(ctx context.Context) (*nats.Conn, error) {
		return bus.Connect(ctx, cfg.NATS, bus.ConnectOptions{Principal: creds.EngineName})
	}
	nc, err := connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	damaged := node.Damaged{Dir: further.Dir, Keys: further.Keys, Space: "default", NATS: connect}
	accept := func() error {
		_, err := damaged.AcceptLoss(t.Context(), node.Acceptance{By: "ann", Reason: "test", Confirm: func(*journal.Exam) error { return nil }})
		return err
	}
	proposeAgain(t, more, "remote", "c1")
	if err := more.Close(); err != nil { // it signs what it has recorded
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), bus.StreamName("default")); err != nil {
		t.Fatal(err)
	}
	if err := accept(); !errors.Is(err, message.ErrConflict) {
		t.Errorf("acceptance while an engine runs: %v", err)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := accept(); err != nil {
		t.Errorf("acceptance without engines: %v", err)
	}
	start(t, further)
}

// TestForeignKeys: an engine with other keys can run neither at the same time nor later, and
// workers keep the public key of the stream.
func TestForeignKeys(t *testing.T) {
	cfg := config(t)
	n := start(t, cfg)
	want, err := os.ReadFile(cfg.Dir.PublicKeys())
	if err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.Keys = filepath.Join(t.TempDir(), "other.key")
	if _, err := keyfile.LoadOrCreate(other.Keys); err != nil {
		t.Fatal(err)
	}
	unchanged := func(when string) {
		t.Helper()
		if got, err := os.ReadFile(cfg.Dir.PublicKeys()); err != nil || string(got) != string(want) {
			t.Errorf("%s the public key file is %q, %v, want %q", when, got, err, want)
		}
	}
	if _, err := node.Start(t.Context(), other); !errors.Is(err, embed.ErrStoreLocked) {
		t.Errorf("a second engine with other keys: %v", err)
	}
	unchanged("while the engine runs")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Start(t.Context(), other); err == nil {
		t.Error("an engine with other keys used the stream")
	}
	unchanged("after the engine")
}

// TestLostKeys: if the key file of a used journal is missing, the engine writes no new one.
func TestLostKeys(t *testing.T) {
	cfg := config(t)
	if err := start(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	saved := cfg.Dir.Keys() + ".saved"
	if err := os.Rename(cfg.Dir.Keys(), saved); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Start(t.Context(), cfg); !errors.Is(err, message.ErrForeignStream) || !strings.Contains(err.Error(), cfg.Dir.Keys()) {
		t.Errorf("without the key file: %v", err)
	}
	if _, err := os.Lstat(cfg.Dir.Keys()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the engine wrote a key file: %v", err)
	}
	if err := os.Rename(saved, cfg.Dir.Keys()); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
}

// TestStartFailsClean: a failed start closes what it opened, so the next start finds the folder
// free.
func TestStartFailsClean(t *testing.T) {
	cfg := config(t)
	good := cfg.Policy
	cfg.Policy = []string{filepath.Join(t.TempDir(), "none.yaml")}
	if _, err := node.Start(t.Context(), cfg); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a missing policy: %v", err)
	}
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 1\nname: x\nrules: [{name: a, tool_name: uper, behavior: allow}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Policy = []string{bad}
	var le *permission.LoadError
	if _, err := node.Start(t.Context(), cfg); !errors.As(err, &le) {
		t.Fatalf("a rule about an unknown tool: %v", err)
	}
	cfg.Policy = good
	start(t, cfg)
}

func TestReader(t *testing.T) {
	cfg := config(t)
	if _, err := node.OpenReader(t.Context(), cfg.Dir, "", "default", "ann"); !errors.Is(err, message.ErrNotFound) {
		t.Errorf("a missing folder: %v", err)
	}
	n := start(t, cfg)
	propose(t, n, "c1", "remote", `{}`)
	propose(t, n, "c2", "unserved", `{}`)
	propose(t, n, "c3", "unknown", `{}`)
	explained, err := n.Engine().As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "ann"}).Explain(t.Context(), toolcall.ExplainRequest{V: 1, Key: toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: "c1"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := node.OpenReader(t.Context(), cfg.Dir, "", "default", "ann")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for _, tc := range []struct {
		name string
		q    toolcall.ListRequest
		want string
	}{
		{"open, by id", toolcall.ListRequest{Call: "c2"}, "c2 "},
		{"open, by the id of a finished call", toolcall.ListRequest{Call: "c3"}, ""},
		{"finished, by id", toolcall.ListRequest{Call: "c3", All: true}, "c3 "},
		{"by id, of another session", toolcall.ListRequest{Call: "c2", Session: "x", All: true}, ""},
		{"by id, of another reply", toolcall.ListRequest{Call: "c2", Session: "s", Reply: "x", All: true}, ""},
		{"by the whole name", toolcall.ListRequest{Call: "c2", Session: "s", Reply: "r"}, "c2 "},
		{"by a whole name that no call has", toolcall.ListRequest{Call: "x", Session: "s", Reply: "r", All: true}, ""},
		{"by an unknown id", toolcall.ListRequest{Call: "c", All: true}, ""},
		{"open", toolcall.ListRequest{}, "c1 c2 "},
		{"all", toolcall.ListRequest{All: true}, "c1 c2 c3 "},
		{"finished", toolcall.ListRequest{States: []message.ToolCallState{message.ToolCallFinished}}, "c3 "},
		{"another session", toolcall.ListRequest{Session: "x", All: true}, ""},
		{"another reply", toolcall.ListRequest{Reply: "x", All: true}, ""},
		{"blocked", toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseBlocked}, All: true}, ""},
	} {
		got, err := r.List(t.Context(), tc.q)
		if err != nil {
			t.Fatal(err)
		}
		if named := strings.Contains(tc.name, "by"); named && r.HasObserved() {
			t.Errorf("%s: the whole journal was read", tc.name)
		}
		ids := ""
		for _, c := range got.Calls {
			ids += string(c.Call) + " "
		}
		if ids != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, ids, tc.want)
		}
	}
	show, err := r.Show(t.Context(), toolcall.ShowRequest{V: 1, Key: toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: "c1"}})
	if err != nil || show.Call.State != message.ToolCallSubmitted {
		t.Errorf("Show = %+v, %v", show, err)
	}
	offline, err := r.Explain(t.Context(), toolcall.ExplainRequest{V: 1, Key: show.Call.Key})
	if err != nil || offline.Withheld == "" || len(offline.Trace) != 0 || len(explained.Recorded) == 0 || string(offline.Recorded) != string(explained.Recorded) || !reflect.DeepEqual(offline.Decision, explained.Decision) {
		t.Errorf("without an engine the call is explained as %+v, %v; the engine's explanation is %+v", offline, err, explained)
	}
	if _, err := api.Preview.Call(t.Context(), r, api.PreviewRequest{ProposeRequest: toolcall.ProposeRequest{Session: "s", Reply: "r", Calls: []message.ToolCallBlock{{ID: "x", Name: "remote", Input: `{}`}}}}); !errors.Is(err, message.ErrUnavailable) {
		t.Errorf("a preview without a policy: %v", err)
	}
	if _, err := r.SubmitResponse(t.Context(), toolcall.Response{}); !errors.Is(err, message.ErrForbidden) {
		t.Errorf("a reader submits a response: %v", err)
	}
	if _, err := node.OpenReader(t.Context(), cfg.Dir, "", "other", "ann"); !errors.Is(err, embed.ErrStoreLocked) && !errors.Is(err, message.ErrNotFound) {
		t.Errorf("another space: %v", err)
	}
}

// TestOfflineRunsNothing: an engine that is started for one response must not run waiting calls.
func TestOfflineRunsNothing(t *testing.T) {
	cfg := config(t)
	n := start(t, cfg)
	propose(t, n, "c2", "unserved", `{}`)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Tools { // declare a command for it
		if cfg.Tools[i].Name == "unserved" {
			cfg.Tools[i].Command = []string{"cat"}
		}
	}
	cfg.Offline = true
	n = start(t, cfg)
	c := n.Engine().As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "ann"})
	r, err := c.List(t.Context(), toolcall.ListRequest{V: 1})
	if err != nil || len(r.Calls) != 1 || r.Calls[0].State != message.ToolCallAllowed || r.Calls[0].Started() {
		t.Errorf("List = %+v, %v", r.Calls, err)
	}
	if url, err := cfg.Dir.URL(); url != "" || err != nil {
		t.Errorf("an engine that accepts no requests has the endpoint %q, %v", url, err)
	}
}

// An allow rule that means less than in AgentScope is reported in the log. The working
// directories reach the tools' checks.
func TestNoticesAndWorkingDirs(t *testing.T) {
	cfg := config(t)
	var err error
	if cfg.Tools, err = toolfile.Parse("tools", []byte("version: 1\ntools:\n  - {name: Write, kind: write, concurrency_safe: true}\n")); err != nil {
		t.Fatal(err)
	}
	text := "version: 1\nname: p\nrules:\n  - {name: sources, tool_name: Write, rule_content: 'src/**', behavior: allow}\n"
	if err := os.WriteFile(cfg.Policy[0], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer // read when the engine has stopped
	cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	folder := t.TempDir()
	for _, name := range []string{"p.yaml", ".p.yaml.swp"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg.Policy = []string{folder}
	cfg.Cwd, cfg.Mode = t.TempDir(), "accept_edits"
	if err := node.Check(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	propose(t, n, "inside", "Write", `{"file_path": "a.txt"}`)
	propose(t, n, "outside", "Write", `{"file_path": "/nowhere/a.txt"}`)
	bot := n.Engine().As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: "ann"})
	for id, want := range map[message.CallID]message.Behavior{"inside": message.BehaviorAllow, "outside": message.BehaviorAsk} {
		r, err := bot.Show(t.Context(), toolcall.ShowRequest{V: 1, Key: toolcall.Key{Space: "default", Session: "s", Reply: "r", Call: id}})
		if err != nil || r.Call.Decision == nil || r.Call.Decision.Behavior != want {
			t.Errorf("%s: %+v, %v, want %s", id, r.Call.Decision, err, want)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if strings.Count(log.String(), "rule=sources") != 1 || !strings.Contains(log.String(), "working directories") {
		t.Errorf("the log does not say once what the rule means:\n%s", log.String())
	}
	if !strings.Contains(log.String(), ".p.yaml.swp") || !strings.Contains(log.String(), "hidden") {
		t.Errorf("the log does not say which file is not read:\n%s", log.String())
	}
}

// A server that listens at all addresses is reached at one.
func TestConsoleURLOfAllAddresses(t *testing.T) {
	for recorded, want := range map[string]string{
		"http://0.0.0.0:8650": "http://127.0.0.1:8650", "https://[::]:8650": "https://127.0.0.1:8650", "http://10.0.0.0:8650": "http://10.0.0.0:8650",
	} {
		d := node.Dir(t.TempDir())
		lock, err := embed.LockFolder(string(d))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.WriteConsole(recorded); err != nil {
			t.Fatal(err)
		}
		if got, err := d.ConsoleURL(); got != want || err != nil {
			t.Errorf("%s: %q, %v", recorded, got, err)
		}
		if err := lock.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := d.ConsoleURL(); got != "" || err != nil { // it was killed
			t.Errorf("%s, and no server runs: %q, %v", recorded, got, err)
		}
	}
}
