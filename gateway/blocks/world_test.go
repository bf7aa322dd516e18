package blocks_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coder/websocket"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/script"
	"github.com/askance-dev/askance/gateway/blocks"
	"github.com/askance-dev/askance/gateway/gatewaytest"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/blockstream"
	"github.com/askance-dev/askance/message/blockstream/blocktest"
	"github.com/askance-dev/askance/toolcall"
)

func TestMain(m *testing.M) { gatewaytest.Main(m) }

// stage is a world that serves the surface, with an agent that follows a script.
type stage struct {
	*gatewaytest.World
	t      testing.TB
	runner *agent.Runner
	http   *http.Client // without a token
}

func newStage(t testing.TB, cfg blocks.Config, opts ...gatewaytest.Option) *stage {
	t.Helper()
	s := &stage{t: t}
	s.World = gatewaytest.New(t, append(opts, gatewaytest.Surfaces(func(w *gatewaytest.World) []gateway.Surface {
		c := agent.Config{As: w.A.As, Agents: []agent.Agent{script.New("bot")}}
		for _, tool := range w.A.Gateway().Tools {
			c.Tools = append(c.Tools, tool.Name)
		}
		var err error
		if s.runner, err = agent.New(c); err != nil {
			t.Fatal(err)
		}
		cfg.Runners = agent.Runners{w.A.ID: s.runner}
		return []gateway.Surface{blocks.New(cfg)}
	}))...)
	s.http = s.Anonymous()
	if err := s.runner.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.runner.Close() })
	return s
}

// client is a frontend.
type client struct {
	t     testing.TB
	ws    *websocket.Conn
	order blocktest.Checker
	last  string // event_id
	// resumed is set if the client continues a turn whose beginning this connection did not see.
	resumed bool
}

// dial connects with a token in the header, or without one if token is "".
func (s *stage) dial(token, query string, o ...func(*websocket.DialOptions)) *client {
	s.t.Helper()
	c, res, err := s.try(token, query, o...)
	if err != nil {
		s.t.Fatalf("dial: %v %v", err, res)
	}
	return c
}

func (s *stage) try(token, query string, opts ...func(*websocket.DialOptions)) (*client, *http.Response, error) {
	o := &websocket.DialOptions{HTTPClient: s.http, HTTPHeader: http.Header{}}
	for _, f := range opts {
		f(o)
	}
	if token != "" {
		o.HTTPHeader.Set("Authorization", "Bearer "+token)
	}
	ws, res, err := websocket.Dial(s.t.Context(), "ws"+strings.TrimPrefix(s.URL, "http")+blocks.Path+query, o)
	if err != nil {
		return nil, res, err
	}
	ws.SetReadLimit(blocktest.MaxFrameBytes)
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{t: s.t, ws: ws}, res, nil
}

// inBubble runs f with a stage on fake time, so a slow machine makes no difference.
func inBubble(t *testing.T, cfg blocks.Config, f func(*testing.T, *stage), opts ...gatewaytest.Option) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f(t, newStage(t, cfg, append(opts, gatewaytest.In(dir), gatewaytest.Piped())...))
	})
}

func (s *stage) me(query string) *client {
	s.t.Helper()
	c := s.dial(s.A.Token(gatewaytest.Everything), query)
	wait[*blockstream.Connected](c)
	return c
}

// next returns the next frame and checks the order that clients rely on.
func (c *client) next() blockstream.Frame {
	c.t.Helper()
	f, err := c.read()
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

func (c *client) read() (blockstream.Frame, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), gatewaytest.Patience)
	defer cancel()
	kind, b, err := c.ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	f, err := blocktest.DecodeFrame(b)
	if err != nil || kind != websocket.MessageText {
		c.t.Fatalf("an invalid frame: %s: %v", b, err)
	}
	if err := c.order.Frame(f); err != nil && !c.resumed {
		c.t.Errorf("%v: %s", err, b)
	}
	if id := f.Head().EventID; id != "" {
		c.last = id
	}
	return f, nil
}

func (c *client) send(cmd blockstream.Command) {
	c.t.Helper()
	b, err := blocktest.EncodeCommand(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.raw(websocket.MessageText, b)
}

func (c *client) raw(kind websocket.MessageType, b []byte) {
	c.t.Helper()
	if err := c.ws.Write(c.t.Context(), kind, b); err != nil {
		c.t.Fatal(err)
	}
}

// wait reads up to and including the first frame of a type.
func wait[F blockstream.Frame](c *client) F {
	c.t.Helper()
	for {
		if f, ok := c.next().(F); ok {
			return f
		}
	}
}

// block reads up to the first block of a type and returns its key members.
func block[B blockstream.ContentBlock](c *client) B {
	c.t.Helper()
	for {
		start, ok := c.next().(*blockstream.BlockStart)
		if !ok {
			continue
		}
		if b, ok := start.Block.(B); ok {
			return b
		}
	}
}

// closed reads to the end and returns the close code.
func (c *client) closed() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, err := c.read(); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func (c *client) refused(code blockstream.ErrorCode) {
	c.t.Helper()
	if e := wait[*blockstream.Error](c); e.Code != code || e.Message == "" {
		c.t.Errorf("refused with %+v, want %s", e, code)
	}
}

func decide(key string, d ...blockstream.Decision) *blockstream.Approval {
	return &blockstream.Approval{Key: key, Decisions: d}
}

var yes = blockstream.Decision{Type: blockstream.DecisionApprove}

const payLine = `call pay {"to":"acme","amount":1}`

func finished(s *stage, session message.SessionID) *toolcall.Call {
	s.t.Helper()
	ann := s.A.Client(gatewaytest.Ann)
	out, err := ann.List(s.t.Context(), toolcall.ListRequest{Session: session, All: true})
	if err != nil || len(out.Calls) == 0 {
		s.t.Fatalf("the calls of %s: %v, %v", session, out.Calls, err)
	}
	k := out.Calls[0].Key
	ctx, cancel := context.WithTimeout(s.t.Context(), gatewaytest.Patience)
	defer cancel()
	for {
		done, err := ann.Wait(ctx, toolcall.WaitRequest{Session: k.Session, Reply: k.Reply, Calls: []message.CallID{k.Call}})
		if err != nil {
			s.t.Fatalf("the calls of %s are not finished: %v", session, err)
		}
		if done.Done {
			return done.Calls[0]
		}
	}
}
