// Package mcpworker runs the tools of an MCP server as the tools of a worker.
//
//	s := mcpworker.New(mcpworker.Config{Argv: argv, Pins: pins, Log: log})
//	go s.Run(ctx)
//	executor.NewWorker(s.Transport(transport), tool, s.Handler(tool), keys)
//
// Invariant: the server gets the bytes of the arguments that were approved, in a request
// of a tool whose definition has the hash that was imported. A call that the server may
// have received, and did not answer, has no result.
//
// The official SDK speaks the protocol. It re-encodes JSON values and reads numbers as
// floats, so arguments are sent and results are read below it (wire.go).
package mcpworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/toolcall"
)

// Config says which server. One of Argv and URL is set.
type Config struct {
	Argv    []string // the program that is a server on its standard input and output
	PassEnv []string // variables that it gets in addition to executor.Inherited
	URL     string   // of a server over HTTP
	Header  http.Header
	// Pins are the hashes of the imported definitions, by tool.
	Pins map[string]string
	Log  *slog.Logger
}

// Server is an MCP server that is restarted when it ends. Its methods may be called from
// several goroutines.
type Server struct {
	cfg   Config
	calls calls

	mu      sync.Mutex // guards the fields below
	session *session   // nil: none
	changed chan struct{}
}

// session is one connection with what the server said about its tools.
type session struct {
	*mcp.ClientSession
	recorder *toolimport.Recorder
	end      context.CancelCauseFunc

	mu     sync.Mutex // held while the tools are listed; guards the fields below
	listed time.Time
	hashes map[string]string
}

// New makes a server. Run starts it.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, changed: make(chan struct{})}
}

const (
	connectTimeout = 30 * time.Second
	listFor        = 30 * time.Second // how long a list of tools is valid
	firstPause     = 500 * time.Millisecond
	maxPause       = time.Minute
	goodRun        = time.Minute // after which the next pause is firstPause again
)

// Run keeps a session with the server until ctx ends.
func (s *Server) Run(ctx context.Context) {
	pause := firstPause
	for ctx.Err() == nil {
		began := time.Now()
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > goodRun {
			pause = firstPause
		}
		s.cfg.Log.Error("the MCP server is not available: restarting it", "in", pause.String(), "err", err)
		_ = sleep.For(ctx, pause) // the loop ends with ctx
		pause = min(2*pause, maxPause)
	}
}

func (s *Server) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	transport, said := s.transport(ctx)
	n := &session{recorder: &toolimport.Recorder{Transport: transport}, end: cancel}
	client := mcp.NewClient(&mcp.Implementation{Name: "askance", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { n.forget() },
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { s.calls.progress(r.Params) },
	})
	ready, stop := context.WithTimeout(ctx, connectTimeout)
	defer stop()
	var err error
	if n.ClientSession, err = client.Connect(ready, n.recorder, nil); err != nil {
		return said(err)
	}
	defer func() { _ = n.Close() }() // it has ended, or must end
	hashes, err := n.definitions(ready)
	if err != nil {
		return said(err)
	}
	for tool, pin := range s.cfg.Pins {
		if err := checkPin(tool, pin, hashes[tool]); err != nil {
			s.cfg.Log.Error("the worker runs no call of a tool", "err", err)
		}
	}
	s.set(n)
	defer s.drop(n, nil)
	ended := make(chan error, 1)
	go func() { ended <- n.Wait() }()
	select {
	case err = <-ended:
		return said(cmp.Or(err, errors.New("the server ended")))
	case <-ctx.Done():
		return said(context.Cause(ctx))
	}
}

func (s *Server) drop(n *session, why error) {
	n.end(why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == n {
		s.session = nil
	}
}

func (s *Server) set(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = n
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) await(ctx context.Context) (*session, error) {
	for {
		s.mu.Lock()
		n, changed := s.session, s.changed
		s.mu.Unlock()
		if n != nil {
			return n, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *session) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hashes = nil
}

// definitions returns the hashes of the server's tools, at most listFor old.
func (s *session) definitions(ctx context.Context) (map[string]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hashes != nil && time.Since(s.listed) < listFor {
		return s.hashes, nil
	}
	found, err := s.recorder.List(ctx, s.ClientSession)
	if err != nil {
		return nil, fmt.Errorf("list the tools of the MCP server: %w", err)
	}
	s.hashes, s.listed = map[string]string{}, time.Now()
	for _, d := range found.Tools {
		if _, twice := s.hashes[d.Name]; twice {
			return nil, fmt.Errorf("the MCP server has two tools with the name %q: correct the server", d.Name)
		}
		s.hashes[d.Name] = d.Hash
	}
	return s.hashes, nil
}

// checkPin compares the definition of a tool with the imported one.
func checkPin(tool, pin, now string) error {
	switch {
	case now == "":
		return fmt.Errorf("the MCP server has no tool %q: start the server that it was imported from", tool)
	case pin == "" || pin != now:
		return fmt.Errorf("the definition of %q at the MCP server is not the imported one: review it, import it again with askance tools import, and restart askance serve and this worker", tool)
	}
	return nil
}

// Transport takes tasks only while the server is available.
func (s *Server) Transport(t executor.Transport) executor.Transport { return gated{t, s} }

type gated struct {
	executor.Transport
	s *Server
}

// Next implements executor.Transport.
func (g gated) Next(ctx context.Context) (toolcall.Task, error) {
	if _, err := g.s.await(ctx); err != nil {
		return toolcall.Task{}, err
	}
	return g.Transport.Next(ctx)
}
