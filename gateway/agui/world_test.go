package agui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/agui"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/internal/aguitest"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// stage is a world with an agent that speaks AG-UI.
type stage struct {
	*gatewaytest.World
	t       *testing.T
	runner  *agent.Runner
	runners agent.Runners
}

// brisk keeps the grace period long enough for tests on a slow machine.
func brisk(c *agui.Config) { c.Grace = time.Minute }

func newStage(t *testing.T, opts ...func(*agui.Config)) *stage {
	t.Helper()
	return newStageIn(t, nil, opts...)
}

// newStageIn is like newStage, in a world with options.
func newStageIn(t *testing.T, world []gatewaytest.Option, opts ...func(*agui.Config)) *stage {
	t.Helper()
	s := &stage{t: t}
	s.World = gatewaytest.New(t, append(world, gatewaytest.Surfaces(func(w *gatewaytest.World) []gateway.Surface {
		s.World = w
		s.runner = s.run()
		s.runners = agent.Runners{w.A.ID: s.runner}
		cfg := agui.Config{Runners: s.runners}
		brisk(&cfg)
		for _, f := range opts {
			f(&cfg)
		}
		surface, err := agui.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return []gateway.Surface{surface}
	}))...)
	t.Cleanup(func() { _ = s.runner.Close() })
	return s
}

// again replaces the runner, as a restart of the gateway's process does. The runners map belongs
// to the surface.
func (s *stage) again() {
	s.t.Helper()
	_ = s.runner.Close()
	s.runner = s.run()
	s.runners[s.A.ID] = s.runner
}

func (s *stage) run() *agent.Runner {
	s.t.Helper()
	cfg := agent.Config{As: s.A.As, Agents: []agent.Agent{script.New("bot"), told{}, sly{s.A.As}}}
	for _, tool := range s.A.Gateway().Tools {
		if tool.Placement != toolcall.PlaceExternal { // tools that a frontend may declare
			cfg.Tools = append(cfg.Tools, tool.Name)
		}
	}
	r, err := agent.New(cfg)
	if err == nil {
		err = r.Resume(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// client speaks to one thread and keeps what it receives, as a frontend does.
type client struct {
	s        *stage
	name     string // whose token it uses
	version  string // "" is a peer before 1.0
	thread   string
	tools    []wire.Tool
	history  *wire.History
	open     []wire.Interrupt
	runs     int
	settings func(*wire.RunInput)
	// lenient allows a message to begin again, as it does when a client returns in the middle of
	// the message.
	lenient bool
}

func (s *stage) client(name, thread string) *client {
	return &client{s: s, name: name, version: wire.Version, thread: thread, history: wire.NewHistory(nil)}
}

// said adds a message from the person.
func (c *client) said(lines ...string) *client {
	m := wire.Message{ID: fmt.Sprintf("%s-u%d", c.thread, c.runs+1), Role: wire.RoleUser, Content: wire.Text(strings.Join(lines, "\n"))}
	c.history.Apply(&wire.RunStarted{Input: &wire.RunInput{Messages: []wire.Message{m}}})
	return c
}

func (c *client) input(resume ...wire.ResumeEntry) *wire.RunInput {
	c.runs++
	in := &wire.RunInput{ThreadID: c.thread, RunID: fmt.Sprintf("%s-run-%d", c.thread, c.runs), Tools: c.tools, Resume: resume}
	for _, m := range c.history.Messages() {
		if m.Role != wire.RoleActivity {
			in.Messages = append(in.Messages, m)
		}
	}
	if c.version != "" {
		in.ProtocolVersion = &c.version
	}
	if c.settings != nil {
		c.settings(in)
	}
	return in
}

// response is the reply to a request.
type response struct {
	status  int
	problem gateway.Problem
	events  []wire.Event
}

// post sends a request, reads the response to its end and checks the order of its events.
func (c *client) post(path string, in *wire.RunInput) *response {
	c.s.t.Helper()
	ctx, cancel := context.WithTimeout(c.s.t.Context(), gatewaytest.Patience)
	defer cancel()
	a, err := c.send(ctx, path, in, nil)
	if err != nil {
		c.s.t.Fatalf("%s: %v\n%s", path, err, show(a))
	}
	return a
}

// send is like post for requests that may be abandoned. It calls each with every event.
func (c *client) send(ctx context.Context, path string, in *wire.RunInput, each func(wire.Event)) (*response, error) {
	c.s.t.Helper()
	body, err := wire.AppendJSON(nil, in)
	if err != nil {
		c.s.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.s.URL+path, bytes.NewReader(body))
	if err != nil {
		c.s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	res, err := c.s.A.HTTP(c.name).Do(req)
	if err != nil {
		return &response{}, err
	}
	defer res.Body.Close()
	a := &response{status: res.StatusCode}
	if res.StatusCode != http.StatusOK {
		return a, json.NewDecoder(res.Body).Decode(&a.problem)
	}
	return a, c.read(a, in, res.Body, each)
}

func (c *client) read(a *response, in *wire.RunInput, body io.Reader, each func(wire.Event)) error {
	v := aguitest.Verifier{Strict: !c.lenient}
	v.Seed(in.Messages)
	r := aguitest.NewReader(body, &aguitest.Decoder{Strict: true})
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return v.Close()
		}
		if err == nil {
			err = v.Check(e)
		}
		if err != nil {
			return err
		}
		a.events = append(a.events, e)
		c.apply(e)
		if each != nil {
			each(e)
		}
	}
}

func (c *client) apply(e wire.Event) {
	c.history.Apply(e)
	f, ok := e.(*wire.RunFinished)
	if !ok {
		return
	}
	c.open = nil
	if f.Outcome != nil {
		c.open = f.Outcome.Interrupts
	}
}

// talk runs the agent.
func (c *client) talk(resume ...wire.ResumeEntry) *response {
	c.s.t.Helper()
	return c.post("/agui", c.input(resume...))
}

// all answers every open interrupt in the same way.
func (c *client) all(payload string) (out []wire.ResumeEntry) {
	for _, i := range c.open {
		e := wire.ResumeEntry{InterruptID: i.ID, Status: wire.ResumeResolved, Payload: message.RawJSON(payload)}
		if payload == "" {
			e.Status, e.Payload = wire.ResumeCancelled, nil
		}
		out = append(out, e)
	}
	return out
}

// outcome returns how a run ended: the outcome's type, or "error" and the code.
func (r *response) outcome() string {
	if r.status != http.StatusOK {
		return fmt.Sprintf("%d %s", r.status, r.problem.Code)
	}
	switch e := r.events[len(r.events)-1].(type) {
	case *wire.RunFinished:
		if e.Outcome == nil {
			return "success"
		}
		return string(e.Outcome.Type)
	case *wire.RunError:
		return "error " + *e.Code
	default:
		return "truncated"
	}
}

// is checks how the run ended.
func (r *response) is(t *testing.T, want string) *response {
	t.Helper()
	if got := r.outcome(); got != want {
		t.Fatalf("the run ended as %s, want %s\n%s", got, want, show(r))
	}
	return r
}

// show returns an answer as readable text.
func show(a *response) string {
	var b strings.Builder
	if a.problem.Detail != "" {
		fmt.Fprintf(&b, "%d %s (%s)\n", a.status, a.problem.Detail, a.problem.Hint)
	}
	for _, e := range a.events {
		raw, _ := wire.AppendJSON(nil, e)
		b.Write(append(raw, '\n'))
	}
	return b.String()
}

// words returns the conversation that the client has, one line for each message.
func (c *client) words() string {
	var b strings.Builder
	for _, m := range c.history.Messages() {
		text := ""
		if m.Content != nil {
			text = strings.TrimSpace(m.Content.String())
		}
		fmt.Fprintf(&b, "%s:", m.Role)
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&b, " %s%s", call.Name, call.Arguments)
		}
		if text != "" {
			fmt.Fprintf(&b, " %s", strings.ReplaceAll(text, "\n", " | "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
