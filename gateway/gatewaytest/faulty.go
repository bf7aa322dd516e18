package gatewaytest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Fault is a way in which a journal fails.
type Fault int32

// The faults of a journal.
const (
	Works   Fault = iota
	Hangs         // it never replies
	Refuses       // it replies with an error
	Full          // it can be read, but accepts no record
)

// Break sets the fault of the space's journal; Works removes it.
func (s *Space) Break(f Fault) { s.fault.kind.Store(int32(f)) }

// faulty is a journal that can be broken.
type faulty struct {
	*journal.Journal
	kind atomic.Int32
}

// check returns the error of an operation, and hangs if the journal does.
func (f *faulty) check(ctx context.Context, writes bool) error {
	switch Fault(f.kind.Load()) {
	case Hangs:
		<-ctx.Done()
		return &message.Error{Code: message.CodeUnavailable, Op: "journal", What: "no answer", Hint: "wait", Err: context.Cause(ctx)}
	case Refuses:
		return &message.Error{Code: message.CodeUnavailable, Op: "journal", What: "refused", Hint: "wait"}
	case Full:
		if writes {
			return &message.Error{Code: message.CodeFull, Op: "journal", What: "no room", Hint: "make room"}
		}
	case Works:
	}
	return nil
}

func (f *faulty) ready(ctx context.Context) error { return f.check(ctx, true) }

// Append implements engine.Journal.
func (f *faulty) Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error) {
	if err := f.check(ctx, true); err != nil {
		return 0, err
	}
	return f.Journal.Append(ctx, rec, prev)
}

// AppendEvent implements engine.Journal.
func (f *faulty) AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error) {
	if err := f.check(ctx, true); err != nil {
		return 0, err
	}
	return f.Journal.AppendEvent(ctx, runtime, reply, events)
}

// Last implements engine.Journal.
func (f *faulty) Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error) {
	if err := f.check(ctx, false); err != nil {
		return toolcall.JournalEntry{}, err
	}
	return f.Journal.Last(ctx, key)
}

// History implements engine.Journal.
func (f *faulty) History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error) {
	if err := f.check(ctx, false); err != nil {
		return nil, err
	}
	return f.Journal.History(ctx, key)
}

// Read implements engine.Journal.
func (f *faulty) Read(ctx context.Context, session toolcall.Key, after uint64, limit int) ([]toolcall.JournalEntry, uint64, error) {
	if err := f.check(ctx, false); err != nil {
		return nil, after, err
	}
	return f.Journal.Read(ctx, session, after, limit)
}

// Cut sends POST requests whose bodies are incomplete, in every way that HTTP/1.1 allows. It
// fails the test if one is accepted. header is a line with credentials.
func (w *World) Cut(header, path, kind, body string) {
	w.t.Helper()
	half, n := body[:len(body)/2], len(body)
	for what, rest := range map[string]string{
		"no byte of the length":         fmt.Sprintf("Content-Length: %d\r\n\r\n", n),
		"half of the length":            fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n, half),
		"all but one byte":              fmt.Sprintf("Content-Length: %d\r\n\r\n%s", n+1, body),
		"no chunk":                      "Transfer-Encoding: chunked\r\n\r\n",
		"half a chunk":                  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", n, half),
		"all chunks but not their end":  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", n, body),
		"half the line after the chunk": fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0", n, body),
	} {
		c := w.Dial()
		_ = c.SetDeadline(time.Now().Add(Patience)) // a connection that has none fails below
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Type: %s\r\n%s", path, strings.TrimPrefix(w.URL, "http://"), header, kind, rest); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		if half, ok := c.(*net.TCPConn); !ok || half.CloseWrite() != nil {
			w.t.Fatalf("%s: the connection cannot be closed in one direction", what)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			continue // the server closed the connection without a response
		}
		_ = res.Body.Close() // only the status matters
		if res.StatusCode < 400 {
			w.t.Errorf("POST %s with %s of its body: %s, want a refusal", path, what, res.Status)
		}
	}
}

// pipe is a listener in memory, for bubbles.
type pipe struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipe() *pipe { return &pipe{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Accept implements net.Listener.
func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener. It returns the loopback address that the pipe stands in for.
func (p *pipe) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (p *pipe) dial(ctx context.Context) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
