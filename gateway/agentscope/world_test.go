package agentscope_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/agentscope"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// stage is a world that serves the surface, with an agent that follows a script.
type stage struct {
	*gatewaytest.World
	t *testing.T
}

func newStage(t *testing.T) *stage {
	t.Helper()
	var runner *agent.Runner
	w := gatewaytest.New(t, gatewaytest.Surfaces(func(w *gatewaytest.World) []gateway.Surface {
		cfg := agent.Config{As: w.A.As, Agents: []agent.Agent{script.New("bot")}}
		for _, tool := range w.A.Gateway().Tools {
			cfg.Tools = append(cfg.Tools, tool.Name)
		}
		var err error
		if runner, err = agent.New(cfg); err != nil {
			t.Fatal(err)
		}
		return []gateway.Surface{agentscope.New(agentscope.Config{Runners: agent.Runners{w.A.ID: runner}})}
	}))
	if err := runner.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Close() })
	return &stage{World: w, t: t}
}

// me is a peer with every role, in space A.
func (s *stage) me() *http.Client { return s.A.HTTP(gatewaytest.Everything) }

// send sends a request and returns the status and the body.
func (s *stage) send(c *http.Client, method, path string, body any) (int, []byte) {
	s.t.Helper()
	var b []byte
	switch body := body.(type) {
	case nil:
	case string:
		b = []byte(body)
	default:
		var err error
		if b, err = json.Marshal(body); err != nil {
			s.t.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+"/agentscope"+path, strings.NewReader(string(b)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, out
}

// ok is like send; the request must succeed.
func (s *stage) ok(c *http.Client, method, path string, body, into any) {
	s.t.Helper()
	status, b := s.send(c, method, path, body)
	if status/100 != 2 {
		s.t.Fatalf("%s %s: %d %s", method, path, status, b)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			s.t.Fatal(err)
		}
	}
}

// refused is like send; the request must be refused with the code.
func (s *stage) refused(c *http.Client, method, path string, body any, code message.Code) gateway.Problem {
	s.t.Helper()
	status, b := s.send(c, method, path, body)
	var p gateway.Problem
	if err := json.Unmarshal(b, &p); err != nil {
		s.t.Fatalf("%s %s: %d %s", method, path, status, b)
	}
	if p.Code != code || p.Status != status || status < 400 {
		s.t.Errorf("%s %s: %d %s; want %s", method, path, status, b, code)
	}
	return p
}

// say begins a turn and returns its reply.
func (s *stage) say(session, id string, lines ...string) message.ReplyID {
	s.t.Helper()
	m, err := message.UserMsg("me", message.Content{Text: strings.Join(lines, "\n")}, message.WithID(id))
	if err != nil {
		s.t.Fatal(err)
	}
	var out agentscope.ChatReply
	s.ok(s.me(), "POST", "/chat/", map[string]any{"agent_id": "bot", "session_id": session, "input": m}, &out)
	if out.Status != "started" || string(out.Session) != session || out.Reply == "" {
		s.t.Errorf("the chat began as %+v", out)
	}
	return out.Reply
}

// frame is one event of a stream.
type frame struct {
	id  string
	ev  message.Event
	raw string
}

// stream opens a stream; next waits for its next event.
func (s *stage) stream(c *http.Client, session, query, lastID string) (next func() frame, end func()) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.URL+"/agentscope/sessions/"+session+"/stream"+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	res, err := c.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(res.Body)
		s.t.Fatalf("the stream of %s: %d %s", session, res.StatusCode, b)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	watchdog := time.AfterFunc(gatewaytest.Patience, func() { res.Body.Close() })
	end = func() { watchdog.Stop(); res.Body.Close() }
	s.t.Cleanup(end)
	return func() frame {
		s.t.Helper()
		var f frame
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				f.id = value
			case "data":
				ev, err := message.DecodeEvent([]byte(value))
				if err != nil {
					s.t.Fatal(err)
				}
				f.ev, f.raw = ev, value
			case "":
				if f.ev != nil {
					return f
				}
			}
		}
		s.t.Fatalf("the stream of %s ended: %v", session, lines.Err())
		return f
	}, end
}

// until reads frames up to and including the first of the type.
func until(next func() frame, want message.EventType) []frame {
	var out []frame
	for {
		f := next()
		if out = append(out, f); f.ev.Type() == want {
			return out
		}
	}
}

// confirm answers a REQUIRE_USER_CONFIRM.
func confirm(ask *message.RequireUserConfirm, yes bool, change ...func(*message.ConfirmResult)) *message.UserConfirmResult {
	r := message.ConfirmResult{Confirmed: yes, ToolCall: ask.ToolCalls[0]}
	for _, f := range change {
		f(&r)
	}
	return &message.UserConfirmResult{EventHeader: message.NewHeader(ask.Reply), ConfirmResults: []message.ConfirmResult{r}}
}

func asks(t *testing.T, frames []frame) *message.RequireUserConfirm {
	t.Helper()
	ask, ok := frames[len(frames)-1].ev.(*message.RequireUserConfirm)
	if !ok {
		t.Fatalf("the last event is %s", frames[len(frames)-1].raw)
	}
	return ask
}
