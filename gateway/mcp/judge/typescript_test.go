package judge_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// typescript is a Node process that runs a published TypeScript client.
type typescript struct {
	t  testing.TB
	in io.WriteCloser

	mu     sync.Mutex // guards lastID and waits
	lastID int
	waits  map[int]chan reply
}

// reply is what the client reports about one command.
type reply struct {
	ID       int
	Result   json.RawMessage
	Progress int
	Error    *struct {
		Code    any
		Message string
	}
}

// newTypescript connects a client; client.mjs explains how.
func newTypescript(t testing.TB, how map[string]any) *typescript {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), "node", "client.mjs") // ends when its input is closed
	cmd.Dir = nodeFolder
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Node 20 or later is needed (apt-get install nodejs npm): %v", err)
	}
	c := &typescript{t: t, in: in, waits: map[int]chan reply{}}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 64<<20)
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = in.Close()
		stop := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer stop.Stop()
		<-read
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("client.mjs:\n%s", stderr.String())
		}
	})
	c.write(how)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), `{"connected"`) {
		close(read)
		t.Fatalf("client.mjs does not connect: %s %v\n%s\nIf a package is missing, run make node.", lines.Text(), lines.Err(), stderr.String())
	}
	go func() {
		defer close(read)
		for lines.Scan() {
			var r reply
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil || r.ID == 0 {
				t.Errorf("client.mjs reports %s: %v", lines.Text(), err)
				return
			}
			c.mu.Lock()
			c.waits[r.ID] <- r
			c.mu.Unlock()
		}
	}()
	return c
}

func (c *typescript) write(what map[string]any) {
	c.t.Helper()
	raw, err := json.Marshal(what)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.in.Write(append(raw, '\n')); err != nil {
		c.t.Fatalf("client.mjs: %v", err)
	}
}

// begin sends a command to the client and returns a channel for its reply.
func (c *typescript) begin(what map[string]any) chan reply {
	c.t.Helper()
	c.mu.Lock()
	c.lastID++
	what["id"] = c.lastID
	done := make(chan reply, 1)
	c.waits[c.lastID] = done
	c.mu.Unlock()
	c.write(what)
	return done
}

// call starts a call of a tool.
func (c *typescript) call(tool string, arguments map[string]any) chan reply {
	c.t.Helper()
	return c.begin(map[string]any{"do": "call", "name": tool, "arguments": arguments})
}

// wait waits for a reply, which must be a result.
func (c *typescript) wait(done chan reply) *result {
	c.t.Helper()
	select {
	case r := <-done:
		if r.Error != nil {
			c.t.Fatalf("the TypeScript client failed: %v %s", r.Error.Code, r.Error.Message)
		}
		m := message{Result: r.Result}
		return m.result(c.t)
	case <-time.After(patience):
		c.t.Fatal("the TypeScript client does not answer")
		return nil
	}
}

// TestTypescriptServers runs published servers of both eras behind the gateway, with a client of
// the other era.
func TestTypescriptServers(t *testing.T) {
	t.Parallel()
	h := newHouse(t, policy())
	number := 0
	for _, server := range []string{"modern", "legacy"} {
		for _, legacy := range []bool{false, true} {
			number++
			mine := number
			t.Run(fmt.Sprintf("%s server, legacy client %t", server, legacy), func(t *testing.T) {
				t.Parallel()
				p, _ := h.stdioOf(t, bot, legacy, noCapabilities, []string{"--hold", "90s"}, "node", nodeFolder+"/server.mjs", server)
				n := fmt.Sprintf(`{"n":%d}`, mine)
				x := p.call("ask", n)
				h.respond(h.wait("asks "+t.Name(), func(c *call) bool { return c.State == "asking" && c.Input == n }), "approve", nil)
				if r := x.result(); r.IsError || r.text() != server+" ran "+n {
					t.Errorf("the approved call: %s", r.raw)
				}
			})
		}
	}
}
