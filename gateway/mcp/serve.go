package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"
)

// inflight are the requests of one connection or session that have no response yet.
type inflight struct {
	mu sync.Mutex // guards m
	m  map[string]context.CancelCauseFunc
}

// maxInflight bounds the requests of one connection.
const maxInflight = 1000

// add records a request. It returns false if its id is in use, or there are too many.
func (i *inflight) add(id json.RawMessage, cancel context.CancelCauseFunc) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.m == nil {
		i.m = map[string]context.CancelCauseFunc{}
	}
	if i.m[string(id)] != nil || len(i.m) >= maxInflight {
		return false
	}
	i.m[string(id)] = cancel
	return true
}

func (i *inflight) remove(id json.RawMessage) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.m, string(id))
}

// cancel ends the request that a notifications/cancelled names.
func (i *inflight) cancel(f *frame) {
	i.mu.Lock()
	cancel := i.m[string(objectOf(f.params).get("requestId"))]
	i.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// leave ends all requests of a client that is gone.
func (i *inflight) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, cancel := range i.m {
		cancel(errGone)
	}
}

// accept makes one request of a connection known, so that the client can cancel it, and returns the
// function that carries it out and returns its response.
func (p *peer) accept(ctx context.Context, x *exchange, of *inflight) func() *frame {
	ctx, cancel := context.WithCancelCause(ctx)
	if !of.add(x.id, cancel) {
		cancel(nil)
		return func() *frame {
			return responseTo(x.id, nil, &rpcError{code: codeInvalidRequest, text: "this request id is in use, or too many requests wait"})
		}
	}
	p.g.hold(p) // a session that ends meanwhile leaves no server behind
	return func() *frame {
		defer cancel(nil)
		defer p.g.release(p)
		defer of.remove(x.id)
		result, err := x.handle(ctx)
		if err != nil {
			return responseTo(x.id, nil, err)
		}
		return responseTo(x.id, p.forClient(x.method, result), nil)
	}
}

func newExchange(p *peer, f *frame, send func(*frame)) *exchange {
	params := objectOf(f.params)
	return &exchange{peer: p, id: f.id, method: f.method, params: params, meta: objectOf(params.get("_meta")), send: send}
}

// newSession makes the peer of a legacy client from its initialize.
func (g *Gateway) newSession(principal string, f *frame) *peer {
	params := objectOf(f.params)
	version := params.text("protocolVersion")
	if !isLegacy(version) {
		version = legacyNewest
	}
	caps := params.get("capabilities")
	if caps == nil {
		caps = json.RawMessage("{}")
	}
	return g.newPeer(principal, false, version, caps, params.get("clientInfo"))
}

// stdio is the connection to a client on standard input and output.
type stdio struct {
	g         *Gateway
	principal string
	mu        sync.Mutex // guards writes
	out       *bufio.Writer
	live      inflight
	legacy    *peer // after initialize
	wg        sync.WaitGroup
}

// ServeStdio serves one client on in and out until in ends. principal is the client's name
// according to the operator.
func (g *Gateway) ServeStdio(ctx context.Context, principal string, in io.Reader, out io.Writer) error {
	s := &stdio{g: g, principal: principal, out: bufio.NewWriter(out)}
	ended := make(chan error, 1)
	go func() { ended <- readLines(in, s.receive) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	s.live.leave()
	if ctx.Err() == nil {
		s.wg.Wait()
	}
	return err
}

func (s *stdio) send(f *frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(append(f.bytes(), '\n')) // a client that is gone also ends its input
	_ = s.out.Flush()
}

func (s *stdio) receive(line []byte) {
	f, err := readClient(line)
	if err != nil {
		s.send(parseError(line, err))
		return
	}
	switch {
	case f.isResponse():
		if s.legacy != nil {
			s.legacy.answered(f)
		}
		return
	case !f.isRequest():
		if f.method == "notifications/cancelled" {
			s.live.cancel(f)
		} else if s.legacy != nil {
			go s.legacy.notified(s.g.life, f) // it waits while a server starts
		}
		return
	}
	p, release, rerr := s.peerOf(f)
	if rerr != nil {
		s.send(responseTo(f.id, nil, rerr))
		return
	}
	serve := p.accept(s.g.life, newExchange(p, f, s.send), &s.live) // now: the next line can cancel it
	s.wg.Go(func() {
		defer release()
		if response := serve(); !isCancelled(response) {
			s.send(response)
		}
	})
}

// peerOf decides the era of a request by how the client opened.
func (s *stdio) peerOf(f *frame) (*peer, func(), *rpcError) {
	keep := func() {}
	if f.method == "initialize" {
		if s.legacy != nil {
			return nil, nil, &rpcError{code: codeInvalidRequest, text: "the session is initialized already"}
		}
		s.legacy = s.g.newSession(s.principal, f)
		s.legacy.out = s.send
		s.g.adopt(s.legacy)
		return s.legacy, keep, nil
	}
	meta, modern := eraOf(objectOf(f.params))
	switch {
	case modern:
		if err := checkModern(meta); err != nil {
			return nil, nil, err
		}
		p, release, ok := s.g.modernPeer(s.principal, meta)
		if !ok {
			return nil, nil, &rpcError{code: codeInternal, text: tooMany}
		}
		return p, release, nil
	case s.legacy != nil:
		return s.legacy, keep, nil
	case f.method == "ping":
		return s.g.newPeer(s.principal, false, legacyNewest, []byte("{}"), nil), keep, nil
	}
	return nil, nil, checkModern(meta)
}

// isCancelled reports whether a response belongs to a request whose client expects none.
func isCancelled(f *frame) bool {
	if f.fault == nil {
		return false
	}
	text := objectOf(f.fault).text("message")
	return text == errCancelled.Error() || text == errGone.Error()
}
