package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// node is a Node process that runs a published AG-UI client.
type node struct {
	t       *testing.T
	alias   string
	in      io.WriteCloser
	out     *bufio.Scanner
	started int
}

// folder contains the pinned packages; see its README.
const folder = "../testdata/node"

func startNode(t *testing.T, alias string) *node {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "node", "agui.mjs", alias) // ends when its input is closed
	cmd.Dir = folder
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
	n := &node{t: t, alias: alias, in: in, out: bufio.NewScanner(out)}
	n.out.Buffer(nil, 64<<20)
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("node %s: %v\n%s\nIf a package is missing, run make node.", alias, err, stderr.String())
		}
	})
	return n
}

// do sends a command and reads the answer.
func (n *node) do(command map[string]any, into any) {
	n.t.Helper()
	n.write(command)
	n.read(into)
}

func (n *node) write(command map[string]any) {
	n.t.Helper()
	raw, err := json.Marshal(command)
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := n.in.Write(append(raw, '\n')); err != nil {
		n.t.Fatalf("node %s: %v", n.alias, err)
	}
}

func (n *node) read(into any) {
	n.t.Helper()
	if !n.out.Scan() {
		n.t.Fatalf("node %s has ended: %v; is it installed? run make node", n.alias, n.out.Err())
	}
	var broken struct{ Broken string }
	if err := json.Unmarshal(n.out.Bytes(), &broken); err != nil || broken.Broken != "" {
		n.t.Fatalf("node %s: %s %v", n.alias, broken.Broken, err)
	}
	n.decode(into)
}

// decode decodes the current line.
func (n *node) decode(into any) {
	n.t.Helper()
	if err := json.Unmarshal(n.out.Bytes(), into); err != nil {
		n.t.Fatal(err)
	}
}

// ended is the state of the client after a run.
type ended struct {
	Types     []string
	RunErrors []struct{ Code, Message string }
	Custom    []struct {
		Name  string
		Value map[string]any
	}
	Calls []struct {
		Name string
		Args map[string]any
	}
	Outcome    map[string]any
	Rejected   *struct{ Message string }
	Failed     []string
	Warnings   []string
	Messages   []said
	Interrupts []interrupt
	State      any
	Running    bool

	raw []json.RawMessage // the messages, unchanged
}

type said struct {
	ID         string
	Role       string
	Content    any
	ToolCallID string
	ToolCalls  []struct {
		ID       string
		Function struct{ Name, Arguments string }
	}
}

type interrupt struct {
	ID, Reason, Message, ToolCallID, ExpiresAt string
	ResponseSchema                             map[string]any
	Metadata                                   struct {
		Askance struct {
			Arguments, ToolName, ToolCallID, Digest string
			MayRespond                              bool
		}
	}
}

// nodeAgent is an HttpAgent of the client.
type nodeAgent struct {
	n    *node
	name string
}

// agent makes an HttpAgent with the token of one of the world's names.
func (n *node) agent(s *stage, who, thread string, messages ...json.RawMessage) nodeAgent {
	n.t.Helper()
	n.started++
	a := nodeAgent{n, thread + string(rune('a'+n.started))}
	n.do(map[string]any{
		"do": "new", "agent": a.name, "url": s.URL + "/agui", "thread": thread, "messages": messages,
		"headers": map[string]string{"Authorization": "Bearer " + s.A.Token(who)},
	}, &struct{}{})
	return a
}

func (a nodeAgent) run(more map[string]any) ended {
	a.n.t.Helper()
	a.n.write(a.command(more))
	return a.result()
}

// result returns how the current run ended.
func (a nodeAgent) result() ended {
	a.n.t.Helper()
	var out ended
	a.n.read(&out)
	var raw struct{ Messages []json.RawMessage }
	a.n.decode(&raw)
	out.raw = raw.Messages
	return out
}

func (a nodeAgent) command(more map[string]any) map[string]any {
	command := map[string]any{"do": "run", "agent": a.name}
	maps.Copy(command, more)
	return command
}

func (a nodeAgent) say(lines ...string) ended {
	a.n.t.Helper()
	return a.run(map[string]any{"say": strings.Join(lines, "\n")})
}

// entry returns a resume entry. A nil payload cancels.
func entry(i interrupt, payload map[string]any) map[string]any {
	if payload == nil {
		return map[string]any{"interruptId": i.ID, "status": "cancelled"}
	}
	return map[string]any{"interruptId": i.ID, "status": "resolved", "payload": payload}
}

func (a nodeAgent) resume(entries ...map[string]any) ended {
	a.n.t.Helper()
	return a.run(map[string]any{"resume": entries})
}

// words returns the conversation that the client has.
func (e ended) words() string {
	var b strings.Builder
	for _, m := range e.Messages {
		b.WriteString(m.Role + ":")
		for _, c := range m.ToolCalls {
			b.WriteString(" " + c.Function.Name + c.Function.Arguments)
		}
		if text, ok := m.Content.(string); ok && strings.TrimSpace(text) != "" {
			b.WriteString(" " + strings.ReplaceAll(strings.TrimSpace(text), "\n", " | "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// fine checks that the client reported no problem.
func (e ended) fine(t *testing.T) ended {
	t.Helper()
	if e.Rejected != nil || len(e.Failed) > 0 || len(e.Warnings) > 0 || len(e.RunErrors) > 0 || e.Running {
		t.Fatalf("the client reported: rejected %+v, failed %q, errors %+v, warnings %q, running %v\n%s", e.Rejected, e.Failed, e.RunErrors, e.Warnings, e.Running, strings.Join(e.Types, " "))
	}
	return e
}

// says checks the conversation that the client has.
func (e ended) says(t *testing.T, want string) ended {
	t.Helper()
	if got := e.words(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Fatalf("the client has\n%s\nwant\n%s", got, want)
	}
	return e
}

// refused checks that the run failed in the stream with the code, and that the client keeps its
// interrupt.
func (e ended) refused(t *testing.T, code string) {
	t.Helper()
	if e.Rejected != nil || len(e.RunErrors) != 1 || e.RunErrors[0].Code != code || len(e.Interrupts) != 1 {
		t.Fatalf("not refused as %s: rejected %+v, errors %+v, open %d", code, e.Rejected, e.RunErrors, len(e.Interrupts))
	}
}

// scenario is a test with the published client. Each uses its own threads.
type scenario struct {
	*testing.T
	s *stage
	n *node
}

// thread returns the name of the scenario's thread.
func (s *scenario) thread() string { return strings.ReplaceAll(s.Name(), "/", ".") }

// everybody returns a client that may chat and answer.
func (s *scenario) everybody() nodeAgent { return s.n.agent(s.s, gatewaytest.Everything, s.thread()) }

// with runs the scenarios with both versions of the client.
func with(t *testing.T, stories map[string]func(*scenario)) {
	t.Helper()
	for _, alias := range []string{"agui-1", "agui-0"} {
		t.Run(alias, func(t *testing.T) {
			s, n := newStage(t), startNode(t, alias)
			for _, name := range slices.Sorted(maps.Keys(stories)) {
				t.Run(name, func(t *testing.T) {
					n.t, s.t = t, t
					stories[name](&scenario{t, s, n})
				})
			}
			n.t, s.t = t, t
		})
	}
}

// elsewhere answers an approval request on another surface.
func (s *stage) elsewhere(who string, key toolcall.Key, kind toolcall.ResponseKind, feedback string) {
	s.t.Helper()
	as := s.A.Client(who)
	out, err := as.Show(s.t.Context(), toolcall.ShowRequest{Key: key})
	if err == nil {
		_, err = as.SubmitResponse(s.t.Context(), toolcall.Response{Key: key, Kind: kind, Digest: out.Call.Digest, Feedback: feedback})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// asking returns the open approval requests of a thread.
func (s *stage) asking(thread string) []toolcall.Key {
	s.t.Helper()
	out, err := s.A.Client(gatewaytest.Ann).List(s.t.Context(), toolcall.ListRequest{Session: message.SessionID(thread), States: []message.ToolCallState{message.ToolCallAsking}})
	if err != nil {
		s.t.Fatal(err)
	}
	var keys []toolcall.Key
	for _, c := range out.Calls {
		keys = append(keys, c.Key)
	}
	return keys
}
