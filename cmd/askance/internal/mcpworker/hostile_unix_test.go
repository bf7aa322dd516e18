//go:build unix

package mcpworker_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/mcpworker"
	"github.com/askance-dev/askance/executor"
)

func init() { hostile["stop"], hostile["orphan"] = stop, orphan }

// stop makes the server hang.
func stop(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	err := os.WriteFile(os.Getenv("TEST_MCP_MARK"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	return nil, errors.Join(err, syscall.Kill(os.Getpid(), syscall.SIGSTOP))
}

// orphan ends the server and leaves a process that holds its outputs.
func orphan(_ context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	c := exec.Command("sleep", "1000")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := c.Start(); err != nil {
		return nil, err
	}
	if err := os.WriteFile(os.Getenv("TEST_MCP_MARK"), []byte(strconv.Itoa(c.Process.Pid)), 0o600); err != nil {
		return nil, err
	}
	os.Exit(3)
	return nil, nil
}

// A server that does not read a request keeps neither the call nor the worker: the session ends
// with the call, and the next call has another.
func TestServerThatDoesNotRead(t *testing.T) {
	mark := t.TempDir() + "/mark"
	t.Setenv("TEST_MCP_MARK", mark)
	s := program(t, "good")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() {
		_, err := s.Handler("stop")(ctx, executor.Task{Tool: "stop", Input: []byte("{}"), IdempotencyKey: "stop", Attempt: 1})
		stopped <- err
	}()
	until(t, "the stop of the server", func() bool {
		pid, _ := os.ReadFile(mark)
		state, err := os.ReadFile("/proc/" + string(pid) + "/stat")
		return len(pid) > 0 && (runtime.GOOS != "linux" || err == nil && strings.Contains(string(state), ") T "))
	})
	large := executor.Task{Tool: "echo", Input: []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`), IdempotencyKey: "large", Attempt: 1}
	over, end := context.WithTimeout(t.Context(), time.Second)
	defer end()
	if out, err := s.Handler("echo")(over, large); !errors.Is(err, executor.ErrNotBegun) {
		t.Errorf("the call that the server did not read: %+v, %v", out, err)
	}
	if err := <-stopped; !errors.Is(err, executor.ErrUnknownOutcome) {
		t.Errorf("the call in the server that hangs: %v", err)
	}
	cancel()
	if out, err := call(t, s, "echo", "{}"); err != nil {
		t.Errorf("echo after the restart: %+v, %v", out, err)
	}
}

// A server that ended is restarted, even if processes that it started hold its outputs.
func TestServerLeavesProcesses(t *testing.T) {
	mark := t.TempDir() + "/mark"
	t.Setenv("TEST_MCP_MARK", mark)
	s := program(t, "good")
	if out, err := call(t, s, "orphan", "{}"); !errors.Is(err, executor.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("orphan: %+v, %v", out, err)
	}
	if out, err := call(t, s, "echo", "{}"); err != nil {
		t.Errorf("echo after the restart: %+v, %v", out, err)
	}
	text, err := os.ReadFile(mark)
	pid, perr := strconv.Atoi(string(text))
	if err := errors.Join(err, perr); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the process", func() bool {
		state, err := os.ReadFile("/proc/" + string(text) + "/stat") // as a zombie, it has no parent that reads its status
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(state), ") Z ")
	})
}

// A reply without an end is not kept in memory.
func TestEndlessReply(t *testing.T) {
	const most = 256 << 20
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server("good") }, nil)
	sent := make(chan int, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if !strings.Contains(string(body), `"tools/call"`) {
			handler.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		part, n := []byte(strings.Repeat("x", 1<<20)), 0
		for _, err := io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":"`); err == nil && n < most; n += len(part) {
			_, err = w.Write(part)
		}
		sent <- n
	}))
	t.Cleanup(srv.Close)
	s := start(t, mcpworker.Config{URL: srv.URL})
	if out, err := call(t, s, "echo", "{}"); !errors.Is(err, executor.ErrUnknownOutcome) {
		t.Errorf("%+v, %v", out, err)
	}
	if n := <-sent; n >= most {
		t.Errorf("the worker read %d bytes", n)
	}
}
