package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestProcesses plays the examples of several processes as their READMEs do: a
// server, a worker, a runtime and a person, each a process of its own.
func TestProcesses(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/", "../cmd/askance", "./remote-runtime", "./remote-worker")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	t.Run("remote-runtime", func(t *testing.T) { playRemoteRuntime(t, bin) })
	t.Run("agentscope-v1", func(t *testing.T) { playAgentScopeV1(t, bin) })
}

func playRemoteRuntime(t *testing.T, bin string) {
	data := filepath.Join(t.TempDir(), "data")
	start(t, filepath.Join(bin, "askance"), "serve", "--data", data, "--listen", "127.0.0.1:0",
		"--policy", "policy-file/policy.yaml", "--tools", "policy-file/tools.yaml", "--durability", "cached")
	endpoint := filepath.Join(data, "endpoint")
	await(t, "the server", func() bool { _, err := os.Stat(endpoint); return err == nil })
	raw, err := os.ReadFile(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	url := strings.TrimSpace(string(raw))
	start(t, filepath.Join(bin, "remote-worker"), "--nats", url, "--key", filepath.Join(data, "engine.pub"))

	// A runtime that is killed while the approval request is open finds it again.
	first := start(t, filepath.Join(bin, "remote-runtime"), "--nats", url)
	await(t, "the approval request", func() bool { return strings.Contains(first.String(), "refund-1 is asking") })
	first.kill()

	second := start(t, filepath.Join(bin, "remote-runtime"), "--nats", url)
	await(t, "the runtime", func() bool { return strings.Contains(second.String(), "refund-1 is asking") })
	approve := exec.Command(filepath.Join(bin, "askance"), "approve", "refund-1", "--yes", "--as", "ann", "--data", data)
	if out, err := approve.CombinedOutput(); err != nil {
		t.Fatalf("approve: %v\n%s", err, out)
	}
	await(t, "the result", func() bool {
		return strings.Contains(second.String(), "refund-1 is finished: success: refunded 19900 cents of order A-1042")
	})
	replay := exec.Command(filepath.Join(bin, "askance"), "events", "replay", "shop-1", "--data", data)
	if out, err := replay.CombinedOutput(); err != nil || strings.Count(string(out), `finished  refund {"order":"A-1042","cents":19900}`) != 1 {
		t.Fatalf("replay: %v\n%s", err, out)
	}
}

// playAgentScopeV1 has a Python program for the runtime.
func playAgentScopeV1(t *testing.T, bin string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is not installed: run make deps")
	}
	out, err := exec.Command(python, "agentscope-v1/agent.py", "http://127.0.0.1:1").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "cannot reach http://127.0.0.1:1/") || strings.Contains(string(out), "Traceback") {
		t.Errorf("without a server it ends with %v and prints:\n%s", err, out)
	}
	data := filepath.Join(t.TempDir(), "data")
	server := start(t, filepath.Join(bin, "askance"), "serve", "--json", "--data", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--policy", "policy-file/policy.yaml", "--tools", "policy-file/tools.yaml", "--durability", "cached")
	var at struct{ URL, HTTP string }
	await(t, "the server", func() bool {
		line, _, whole := strings.Cut(server.String(), "\n")
		return whole && json.Unmarshal([]byte(line), &at) == nil && at.HTTP != ""
	})
	start(t, filepath.Join(bin, "remote-worker"), "--nats", at.URL, "--key", filepath.Join(data, "engine.pub"))
	agent := start(t, python, "agentscope-v1/agent.py", at.HTTP)
	await(t, "the approval request", func() bool { return strings.Contains(agent.String(), "refund-1x is asking") })
	approve := exec.Command(filepath.Join(bin, "askance"), "approve", "refund-1x", "--yes", "--as", "ann", "--data", data)
	if out, err := approve.CombinedOutput(); err != nil {
		t.Fatalf("approve: %v\n%s", err, out)
	}
	await(t, "the result", func() bool {
		return strings.Contains(agent.String(), "refund-1x gave") && strings.Contains(agent.String(), "refunded 19900 cents of order A-1042")
	})
}

// process is a running program and what it printed.
type process struct {
	cmd *exec.Cmd
	out *lockedBuffer
}

func (p process) String() string { return p.out.String() }
func (p process) kill()          { _ = p.cmd.Process.Kill() }

func start(t *testing.T, name string, args ...string) process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name, args...)
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s printed:\n%s", filepath.Base(name), out)
		}
	})
	return process{cmd, out}
}

// await polls for a condition that other processes bring about.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s did not come within two minutes", what)
		}
	}
}

// lockedBuffer is written by a process and read by the test.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
