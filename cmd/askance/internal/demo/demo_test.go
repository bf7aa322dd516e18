package demo_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/examples/incident"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/lint"
	"github.com/askance-dev/askance/toolcall"
)

// runTool runs one call of the worker's program on fake time.
func runTool(ctx context.Context, t *testing.T, tool, key, workspace, input string) (out, progress string, err error) {
	t.Helper()
	var o, p bytes.Buffer
	err = demo.RunTool(ctx, demo.Call{Tool: tool, IdempotencyKey: key, Workspace: workspace, Input: strings.NewReader(input), Output: &o, Progress: &p})
	return o.String(), p.String(), err
}

const refundInput = `{"order_id":"A-1","charge_id":"ch_1","amount_cents":1250,"currency":"EUR","reason":"x"}`

func TestRefundIsIdempotent(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for i, key := range []string{"k1", "k1", "k2"} {
			out, progress, err := runTool(t.Context(), t, "refund", key, dir, refundInput)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"refunded 12.50 EUR to the buyer of A-1, receipt re_0001", "already refunded, receipt re_0001", "refunded 12.50 EUR to the buyer of A-1, receipt re_0002"}[i]
			if out != want || !strings.HasPrefix(progress, "looking up A-1\n") {
				t.Errorf("refund %d: %q, %q", i, out, progress)
			}
		}
	})
	booked, err := demo.ReadLedger(filepath.Join(dir, demo.Ledger))
	if err != nil || len(booked) != 2 || booked[0].Key != "k1" || booked[1].Key != "k2" || booked[0].Cents != 1250 {
		t.Errorf("the ledger is %+v, %v", booked, err)
	}
}

func TestToolFaults(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		stopped, stop := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		stop(enough)
		for _, tc := range []struct {
			name, tool, key, input, want string
			cancelled                    bool
		}{
			{"no such tool", "dance", "k", `{}`, "no tool", false},
			{"no key", "refund", "", refundInput, "idempotency key", false},
			{"no JSON", "refund", "k", `{`, "JSON", false},
			{"unknown member", "restart_service", "k", `{"service":"x","force":true}`, "force", false},
			{"cancelled", "restart_service", "k", `{"service":"x"}`, "enough", true},
		} {
			ctx := t.Context()
			if tc.cancelled {
				ctx = stopped
			}
			if _, _, err := runTool(ctx, t, tc.tool, tc.key, dir, tc.input); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
			}
		}
	})
	if _, err := os.Stat(filepath.Join(dir, demo.Ledger)); err == nil {
		t.Error("a refund that failed was booked")
	}
	if err := os.WriteFile(filepath.Join(dir, demo.Ledger), []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := demo.ReadLedger(filepath.Join(dir, demo.Ledger)); err == nil {
		t.Error("a damaged ledger was read")
	}
}

// local runs one of the tools that run in the engine's process.
func local(t *testing.T, workspace, tool, input string) message.ToolResultBlock {
	t.Helper()
	var r executor.Registry
	if err := demo.Register(&r, workspace); err != nil {
		t.Fatal(err)
	}
	c := &toolcall.Call{Key: toolcall.Key{Call: "c"}, Tool: tool, Input: input}
	return r.Run(t.Context(), toolcall.Invocation{Call: c, Input: []byte(input)}, nil)
}

func TestLocalTools(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, incident.Files); err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "workspace")
	for _, tc := range []struct {
		tool, input, want string
		state             message.ToolResultState
	}{
		{"shell", `{"command":"grep -c ERROR logs/checkout.log"}`, "14", message.ToolResultSuccess},
		{"shell", `{"command":"exit 3"}`, "exit status 3", message.ToolResultError},
		{"read_log", `{"path":"logs/checkout.log"}`, "release 3.8.1", message.ToolResultSuccess},
		{"read_log", `{"path":"../policy.yaml"}`, "escapes", message.ToolResultError},
		{"read_log", `{"path":"logs/none.log"}`, "no such file", message.ToolResultError},
		{"read_log", `{"Path":"x"}`, "Path", message.ToolResultError},
	} {
		if r := local(t, ws, tc.tool, tc.input); r.State != tc.state || !strings.Contains(r.Output.String(), tc.want) {
			t.Errorf("%s %s = %s %q, want %s %q", tc.tool, tc.input, r.State, r.Output.String(), tc.state, tc.want)
		}
	}
}

// incidentPolicy returns the script's policy, compiled for its tools.
func incidentPolicy(t *testing.T) (*permission.Bundle, []engine.Tool) {
	t.Helper()
	read := func(name string) []byte {
		data, err := incident.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	declared, err := toolfile.Parse("tools.yaml", read("tools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var opts permission.Options
	var tools []engine.Tool
	for _, d := range declared {
		opts.Tools, tools = append(opts.Tools, d.Tool.Tool), append(tools, d.Tool)
	}
	files := []permission.File{{Name: "policy.yaml", Data: read("policy.yaml")}}
	for _, f := range lint.Run(files, lint.Options{Options: opts}).Findings {
		if f.Code != "L23" { // the Go function behind shell has no kind
			t.Errorf("people copy this policy: %s", f)
		}
	}
	b, err := permission.Load(files, opts)
	if err != nil {
		t.Fatal(err)
	}
	return b, tools
}

// TestIncidentPolicy checks the rules that the demo shows.
func TestIncidentPolicy(t *testing.T) {
	b, _ := incidentPolicy(t)
	refund := func(cents string) string {
		return `{"order_id":"A-1","charge_id":"ch_1","amount_cents":` + cents + `,"currency":"EUR","reason":"x"}`
	}
	for _, tc := range []struct {
		tool, input string
		want        message.Behavior
	}{
		{"read_log", `{"path":"logs/checkout.log"}`, message.BehaviorAllow},
		{"read_log", `{"path":"logs/../policy.yaml"}`, message.BehaviorAsk},
		{"read_log", `{"path":"/etc/passwd"}`, message.BehaviorAsk},
		{"shell", `{"command":"grep -c ERROR logs/checkout.log"}`, message.BehaviorAllow},
		{"shell", `{"command":"grep -c ERROR logs/checkout.log; id"}`, message.BehaviorAsk},
		{"shell", `{"command":"grep -c ERROR logs/checkout.log\nid"}`, message.BehaviorAsk},
		{"shell", `{"command":"rm -rf logs"}`, message.BehaviorDeny},
		{"shell", `{"command":"true;rm -rf logs"}`, message.BehaviorDeny},
		{"shell", `{"command":"/bin/rm logs/checkout.log"}`, message.BehaviorDeny},
		{"shell", `{"command":"alarm on"}`, message.BehaviorAsk},
		{"refund", refund("5000"), message.BehaviorAllow},
		{"refund", refund("5001"), message.BehaviorAsk},
		{"refund", refund("100001"), message.BehaviorDeny},
		{"restart_service", `{"service":"checkout"}`, message.BehaviorAllow},
		{"restart_service", `{"service":"billing"}`, message.BehaviorAsk},
	} {
		if d := b.Decide(t.Context(), permission.Request{Tool: tc.tool, Input: []byte(tc.input)}); d.Behavior != tc.want {
			t.Errorf("%s %s: %s (%s), want %s", tc.tool, tc.input, d.Behavior, d.Reason, tc.want)
		}
	}
}

// TestBotStopsWithItsContext: a bot that waits for an answer does not keep a program from ending.
func TestBotStopsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, tools := incidentPolicy(t)
		eng, err := engine.New("default", engine.NewMemory(), b, tools)
		if err != nil {
			t.Fatal(err)
		}
		if err := eng.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = eng.Close() }()
		ctx, stop := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		done := make(chan error, 1)
		bot := demo.Bot{Client: eng.As(toolcall.Principal{Role: toolcall.RoleRuntime, Name: "b"}), Name: "b", Session: "s", Reply: "r"}
		data, err := incident.Files.ReadFile("stream.sse")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, err := bot.Play(ctx, bytes.NewReader(data)); done <- err }()
		synctest.Wait()
		stop(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("Play = %v, want the cause", err)
		}
	})
}

// TestOpenReplacesNothing: the folder may contain the user's own policy.
func TestOpenReplacesNothing(t *testing.T) {
	for _, name := range []string{"policy.yaml", "tools.yaml", "stream.sse", "workspace/logs/checkout.log"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			mine := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(mine), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(mine, []byte("mine\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := demo.Open(t.Context(), demo.Config{Dir: node.Dir(dir), Script: incident.Files, Space: "default"})
			if !errors.Is(err, message.ErrInvalid) || !strings.Contains(err.Error(), mine) {
				t.Errorf("Open = %v, want an error that names %s", err, mine)
			}
			if got, err := os.ReadFile(mine); err != nil || string(got) != "mine\n" {
				t.Errorf("%s is now %q, %v", name, got, err)
			}
			for _, other := range []string{"policy.yaml", "tools.yaml", "stream.sse", "engine.key"} {
				if _, err := os.Stat(filepath.Join(dir, other)); err == nil && other != name {
					t.Errorf("%s was written anyway", other)
				}
			}
		})
	}
}
