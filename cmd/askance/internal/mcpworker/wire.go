package mcpworker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/child"
	"github.com/askance-dev/askance/internal/strictjson"
)

// transport returns the transport to the server. said adds the end of the server's standard
// error to an error.
func (s *Server) transport(ctx context.Context) (t mcp.Transport, said func(error) error) {
	if len(s.cfg.Argv) == 0 {
		to, err := url.Parse(s.cfg.URL)
		if err != nil { // the SDK reports the error
			to = &url.URL{Path: s.cfg.URL}
		}
		host := url.URL{Scheme: to.Scheme, User: to.User, Host: to.Host} // errors are recorded with calls, and the rest of the URL may be a secret
		client := &http.Client{
			Transport:     splicing{s, to},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // credentials are for one place
		}
		return tapped{&mcp.StreamableClientTransport{Endpoint: host.String(), HTTPClient: client, MaxEventSize: maxAnswer}, s}, func(err error) error { return err }
	}
	p := &program{s: s}
	p.start = func() (*child.Program, error) {
		return child.Start(ctx, s.cfg.Argv, executor.PassEnvironment(s.cfg.PassEnv), &p.stderr)
	}
	return tapped{p, s}, p.said
}

// program is a server on the standard input and output of a process.
type program struct {
	s      *Server
	start  func() (*child.Program, error) // for the time of the session
	stderr toolimport.Tail
}

// Connect implements mcp.Transport.
func (p *program) Connect(ctx context.Context) (mcp.Connection, error) {
	program, err := p.start()
	if err != nil {
		return nil, err
	}
	c, err := (&mcp.IOTransport{Reader: program, Writer: &lines{program, p.s}, MaxLineLength: maxAnswer}).Connect(ctx)
	return bounded{c}, err
}

// bounded ends the session if the server does not read a request within the time of the
// request: every later one would wait behind it.
type bounded struct{ mcp.Connection }

// Write implements mcp.Connection.
func (b bounded) Write(ctx context.Context, m jsonrpc.Message) error {
	if ctx.Err() == nil { // otherwise nothing is written
		defer context.AfterFunc(ctx, func() { _ = b.Close() })()
	}
	return b.Connection.Write(ctx, m)
}

func (p *program) said(err error) error {
	if text := p.stderr.String(); text != "" {
		return fmt.Errorf("%w; the server said: %s", err, term.SafeLine(text))
	}
	return err
}

// lines writes messages with the approved bytes of the arguments.
type lines struct {
	*child.Program
	s *Server
}

// Write implements io.Writer. The SDK writes one message at a time.
func (l *lines) Write(b []byte) (int, error) {
	out, c, err := l.s.splice(b)
	if err != nil {
		return 0, err
	}
	if c != nil { // a line break ends a message; outside of strings it has no meaning
		out = append(bytes.ReplaceAll(bytes.ReplaceAll(bytes.TrimRight(out, "\n"), []byte("\n"), []byte(" ")), []byte("\r"), []byte(" ")), '\n')
	}
	n, err := l.Program.Write(out)
	if c != nil && n >= len(out)-1 { // no server can run a part of a message
		c.markSent()
	}
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// arguments is the body of the request of a call. net/http reads it when the connection is
// ready. A server cannot run a call without it.
type arguments struct {
	io.Reader
	call *call
	sent bool
}

// Read implements io.Reader. The first one fails if the lease of the call has passed meanwhile.
func (a *arguments) Read(p []byte) (int, error) {
	if !a.sent {
		if err := a.call.task.CheckLease(); err != nil {
			return 0, err
		}
		a.sent = true
		a.call.markSent()
	}
	return a.Reader.Read(p)
}

// splicing sends requests with the approved bytes of the arguments.
type splicing struct {
	s  *Server
	to *url.URL
}

// RoundTrip implements http.RoundTripper.
func (r splicing) RoundTrip(req *http.Request) (*http.Response, error) {
	var c *call
	req = req.Clone(req.Context())
	req.URL = r.to
	maps.Copy(req.Header, r.s.cfg.Header)
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		_ = req.Body.Close() // it was only read
		if err == nil {
			body, c, err = r.s.splice(body)
		}
		if err != nil {
			return nil, err
		}
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		if c != nil {
			req.Body = io.NopCloser(&arguments{Reader: bytes.NewReader(body), call: c})
		}
		req.GetBody = nil // net/http must not send a call twice
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if c != nil {
		c.mu.Lock()
		c.status = res.StatusCode
		c.mu.Unlock()
	}
	toolimport.BoundReply(res, maxAnswer)
	return res, nil
}

// splice puts the approved bytes into the request of a call. It refuses an unknown call.
func (s *Server) splice(body []byte) ([]byte, *call, error) {
	members, err := strictjson.Members(body)
	if err != nil || strictjson.TextMember(members, "method") != "tools/call" {
		return body, nil, nil //nolint:nilerr // it is not a call; the SDK wrote it
	}
	for i, m := range members {
		if m.Name != "params" {
			continue
		}
		params, err := strictjson.Members(m.Value)
		if err != nil {
			return nil, nil, err
		}
		c := s.calls.of(params)
		if c == nil {
			return nil, nil, errors.New("a call that no task asked for")
		}
		for j := range params {
			if params[j].Name == "arguments" {
				params[j].Value = c.input
			}
		}
		members[i].Value = strictjson.Join(params)
		return strictjson.Join(members), c, nil
	}
	return nil, nil, errors.New("a call without parameters")
}

// of finds the call of a request by its _meta.
func (c *calls) of(params []strictjson.Member) *call {
	for _, m := range params {
		var meta struct {
			ID string `json:"progressToken"`
		}
		if m.Name == "_meta" && strictjson.UnmarshalOpen(m.Value, &meta) == nil {
			return c.get(meta.ID)
		}
	}
	return nil
}

// tapped stores the answers to calls as the server wrote them.
type tapped struct {
	mcp.Transport
	s *Server
}

// Connect implements mcp.Transport.
func (t tapped) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tap{Connection: c, s: t.s, open: map[jsonrpc.ID]*call{}}, nil
}

type tap struct {
	mcp.Connection
	s    *Server
	mu   sync.Mutex // guards open
	open map[jsonrpc.ID]*call
}

// Write implements mcp.Connection.
func (t *tap) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == "tools/call" {
		params, err := strictjson.Members(r.Params)
		c := t.s.calls.of(params)
		if err != nil || c == nil {
			return errors.New("a call that no task asked for")
		}
		t.mu.Lock()
		t.open[r.ID] = c
		t.mu.Unlock()
	}
	return t.Connection.Write(ctx, m)
}

// Read implements mcp.Connection. The SDK gets an empty result: it cannot read all that
// servers write.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := t.Connection.Read(ctx)
	r, ok := m.(*jsonrpc.Response)
	if !ok || err != nil {
		return m, err
	}
	t.mu.Lock()
	c := t.open[r.ID]
	delete(t.open, r.ID)
	t.mu.Unlock()
	if _, sent := errors.AsType[*jsonrpc.Error](r.Error); c == nil || r.Error != nil && !sent { // the SDK reports the end of a stream as an error of its own
		return m, nil
	}
	kept := *r
	kept.Result = bytes.Clone(r.Result)
	c.mu.Lock()
	c.answer = &kept
	c.mu.Unlock()
	if r.Error == nil {
		empty := *r
		empty.Result = []byte(`{"content":[],"resultType":"complete"}`)
		return &empty, nil
	}
	return m, nil
}
