package toolimport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/strictjson"
)

// maxPages bounds the list of a server that always has another page.
const maxPages = 1000

// FromCommand starts an MCP server and lists its tools.
func FromCommand(ctx context.Context, argv []string) (*Found, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	stderr := &Tail{}
	cmd.Stderr = stderr
	found, err := list(ctx, &mcp.CommandTransport{Command: cmd})
	if err != nil {
		if said := stderr.String(); said != "" {
			err = fmt.Errorf("%w; the server said: %s", err, term.SafeLine(said))
		}
		return nil, fmt.Errorf("list the tools of %s: %w", argv[0], err)
	}
	return found, nil
}

// FromURL lists the tools of an MCP server over HTTP. token is a bearer token, "" for none.
func FromURL(ctx context.Context, url, token string) (*Found, error) {
	client := &http.Client{
		Transport:     bearer{token},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token is for one host
	}
	return list(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: client, DisableStandaloneSSE: true, MaxRetries: -1, MaxEventSize: MaxBytes})
}

// list reads all pages. The SDK speaks the protocol; the definitions are taken from the
// messages, because the SDK reads the numbers of a schema as floats.
func list(ctx context.Context, t mcp.Transport) (*Found, error) {
	rec := &Recorder{Transport: t}
	client := mcp.NewClient(&mcp.Implementation{Name: "askance", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, rec, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = session.Close() }() // the list is complete
	return rec.List(ctx, session)
}

// List reads all pages of a session that was connected through rec. One list is read at a time.
func (rec *Recorder) List(ctx context.Context, session *mcp.ClientSession) (*Found, error) {
	found, cursor, size := &Found{}, "", 0
	for range maxPages {
		r, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		page, n, err := rec.page()
		if size += n; err == nil && size > MaxBytes {
			err = fmt.Errorf("the list has more than %d bytes", MaxBytes)
		}
		if err != nil {
			return nil, err
		}
		page.keepValid(r.Tools)
		found.Tools, found.Notes = append(found.Tools, page.Tools...), append(found.Notes, page.Notes...)
		if cursor = r.NextCursor; cursor == "" {
			return found, nil
		}
	}
	return nil, fmt.Errorf("the list has more than %d pages", maxPages)
}

// keepValid removes the tools that the SDK dropped, because the protocol says that a
// client must not use them.
func (f *Found) keepValid(valid []*mcp.Tool) {
	names := make(map[string]bool, len(valid))
	for _, t := range valid {
		names[t.Name] = true
	}
	f.Tools = slices.DeleteFunc(f.Tools, func(d Definition) bool {
		is := names[d.Name]
		if !is {
			f.Notes = append(f.Notes, "left out: "+d.Name+" is invalid in the protocol, so clients must not use it")
		}
		return !is
	})
}

// Recorder keeps the last list of tools that a server sent.
type Recorder struct {
	mcp.Transport
	mu   sync.Mutex // guards last
	last []byte
}

// Connect implements mcp.Transport.
func (rec *Recorder) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := rec.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return recorded{c, rec}, nil
}

// page reads the last list, and returns its size.
func (rec *Recorder) page() (*Found, int, error) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if err := strictjson.Check(rec.last, strictjson.MaxBytes(MaxBytes)); err != nil {
		return nil, 0, err
	}
	members, err := strictjson.Members(rec.last)
	if err != nil {
		return nil, 0, err
	}
	for i := range members {
		if members[i].Name == "nextCursor" {
			members[i].Name = "_meta" // the caller reads the next page
		}
	}
	found, err := readToolsMember(members)
	return found, len(rec.last), err
}

type recorded struct {
	mcp.Connection
	rec *Recorder
}

func (c recorded) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Response); ok && err == nil {
		members, merr := strictjson.Members(r.Result)
		for _, member := range members {
			if merr == nil && member.Name == "tools" {
				c.rec.mu.Lock()
				c.rec.last = bytes.Clone(r.Result)
				c.rec.mu.Unlock()
			}
		}
	}
	return m, err
}

// bearer sends a token with each request.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		BoundReply(res, MaxBytes)
	}
	return res, err
}

// BoundReply cuts a reply after most bytes, if it is not a stream: the SDK bounds only events.
func BoundReply(res *http.Response, most int64) {
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, most), res.Body}
	}
}

// Tail keeps the end of what a server writes to its standard error.
type Tail struct {
	mu  sync.Mutex // guards end
	end []byte
}

const maxTail = 500

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	t.end = t.end[max(0, len(t.end)-maxTail):]
	return len(p), nil
}

func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.end))
}
