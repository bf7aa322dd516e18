package mcpworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/cmd/askance/internal/toolimport"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/internal/mcpresult"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The members of _meta that the server can read.
const (
	keyMember     = "dev.askance/idempotency-key"
	attemptMember = "dev.askance/attempt"
)

type call struct {
	input []byte // the bytes to send
	task  executor.Task

	mu     sync.Mutex // guards the fields below
	sent   bool       // some of it may have arrived
	status int        // of the HTTP reply; 0: none
	answer *jsonrpc.Response
}

func (c *call) markSent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = true
}

// calls are the calls in flight, each a *call by its id in _meta.
type calls struct{ byID sync.Map }

func (c *calls) get(id string) *call {
	found, _ := c.byID.Load(id)
	of, _ := found.(*call)
	return of
}

func (c *calls) progress(p *mcp.ProgressNotificationParams) {
	id, _ := p.ProgressToken.(string)
	of := c.get(id)
	switch {
	case of == nil:
	case p.Message != "":
		of.task.Progress(p.Message)
	case p.Total > 0:
		of.task.Progressf("%g of %g", p.Progress, p.Total)
	default:
		of.task.Progressf("%g", p.Progress)
	}
}

// Handler runs the calls of a tool.
func (s *Server) Handler(tool string) executor.Handler {
	return func(ctx context.Context, t executor.Task) (executor.Output, error) {
		var out executor.Output
		var err error
		for range maxTries {
			if out, err = s.try(ctx, tool, t); !errors.Is(err, executor.ErrNotBegun) || !errors.Is(err, mcp.ErrConnectionClosed) {
				break
			}
		}
		return out, err
	}
}

// try runs a call in the current session, and ends the session if it is broken.
func (s *Server) try(ctx context.Context, tool string, t executor.Task) (executor.Output, error) {
	n, err := s.await(ctx)
	if err != nil {
		return executor.Output{}, fmt.Errorf("%w: the MCP server is not available: %w", executor.ErrNotBegun, err)
	}
	hashes, err := n.definitions(ctx)
	if err != nil {
		s.drop(n, err)
		return executor.Output{}, fmt.Errorf("%w: %w", executor.ErrNotBegun, err)
	}
	if err := checkPin(tool, s.cfg.Pins[tool], hashes[tool]); err != nil {
		return executor.Output{}, fmt.Errorf("%w: %w", executor.ErrNotBegun, err)
	}
	out, err := s.run(ctx, n, tool, t)
	if errors.Is(err, mcp.ErrConnectionClosed) {
		s.drop(n, err)
	}
	return out, err
}

// maxTries bounds how often a call is sent if it did not reach the server because the
// session had ended.
const maxTries = 3

func (s *Server) run(ctx context.Context, n *session, tool string, t executor.Task) (executor.Output, error) {
	c := &call{input: t.Input, task: t}
	id := fmt.Sprintf("%s#%d", t.IdempotencyKey, t.Attempt)
	s.calls.byID.Store(id, c)
	defer s.calls.byID.Delete(id)
	params := &mcp.CallToolParams{Name: tool, Arguments: t.Input, Meta: mcp.Meta{keyMember: t.IdempotencyKey, attemptMember: t.Attempt}}
	params.SetProgressToken(id)
	if err := t.CheckLease(); err != nil { // the wait for the server may have been long
		return executor.Output{}, err
	}
	_, err := n.CallTool(ctx, params)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.answer != nil:
		return readAnswer(c.answer)
	case !c.sent:
		return executor.Output{}, fmt.Errorf("%w: the MCP server could not be reached: %w", executor.ErrNotBegun, err)
	case c.status == 400 || c.status == 422:
		return executor.Output{}, fmt.Errorf("the MCP server refuses the request: %w", err)
	case c.status > 400 && c.status < 500 && c.status != 408 && c.status != 409:
		return executor.Output{}, fmt.Errorf("%w: the MCP server refuses the request with status %d: %w", executor.ErrNotBegun, c.status, err)
	case errors.Is(context.Cause(ctx), executor.ErrCancelled):
		return executor.Output{}, errors.New("the MCP server was told to stop, and the tool may have run")
	}
	err = fmt.Errorf("%w: the MCP server did not answer: %w", executor.ErrUnknownOutcome, err)
	t.Progress(err.Error())
	return executor.Output{}, err
}

func readAnswer(r *jsonrpc.Response) (executor.Output, error) {
	if r.Error != nil {
		return executor.Output{}, fmt.Errorf("the MCP server answered with an error: %w", r.Error)
	}
	a, err := mcpresult.Read(r.Result, maxAnswer)
	if err != nil { // it answered, so the tool may have run
		return executor.Output{}, fmt.Errorf("%w: the answer of the MCP server cannot be read: %w", executor.ErrUnknownOutcome, err)
	}
	if a.NeedsInput() {
		return executor.Output{}, errors.New("the MCP server asks for more than arguments, and a worker cannot answer: use a tool that asks nothing")
	}
	out := executor.Output{Content: message.List(blocks(a)...)}
	if a.IsError {
		out.State = message.ToolResultError
	}
	if len(out.Content.Blocks) == 1 {
		if t, ok := out.Content.Blocks[0].(*message.TextBlock); ok {
			out.Content = message.Content{Text: t.Text}
		}
	}
	if len(out.Content.Blocks) == 0 && out.Content.Text == "" {
		out.Content = message.Content{}
	}
	return out, nil
}

var _ executor.Transport = gated{}

// maxAnswer bounds the size of an answer; a result can hold much less.
const maxAnswer = 16 * toolcall.MaxOutputBytes

// content is a content block of any type.
type content struct {
	Type     string   `json:"type"`
	Text     *string  `json:"text"`
	Data     string   `json:"data"`
	MIME     string   `json:"mimeType"`
	Resource resource `json:"resource"`
}

// resource is what a server embeds.
type resource struct {
	URI  string  `json:"uri"`
	MIME string  `json:"mimeType"`
	Text *string `json:"text"`
	Blob string  `json:"blob"`
}

// blocks returns the blocks of an answer. Content without a matching block type becomes
// text, as the server wrote it.
func blocks(a mcpresult.Result) []message.Block {
	var out []message.Block
	structured := len(a.Structured) > 0 && strictjson.KindOf(a.Structured) != "null"
	for _, raw := range a.Content {
		b := blockOf(raw)
		if t, ok := b.(*message.TextBlock); ok && structured && toolimport.SameJSON([]byte(t.Text), a.Structured) {
			structured = false // the server repeats it as text, for clients that do not know it
		}
		out = append(out, b)
	}
	if structured {
		out = append(out, text(string(a.Structured)))
	}
	return out
}

func blockOf(raw message.RawJSON) message.Block {
	var c content
	if err := strictjson.UnmarshalOpen(raw, &c, strictjson.MaxBytes(maxAnswer)); err != nil {
		return text(string(raw))
	}
	switch {
	case c.Type == "text" && c.Text != nil:
		return text(*c.Text)
	case (c.Type == "image" || c.Type == "audio") && c.MIME != "":
		return data(c.MIME, c.Data, "")
	case c.Type == "resource" && c.Resource.Text != nil:
		return text(*c.Resource.Text)
	case c.Type == "resource" && c.Resource.Blob != "":
		kind := cmp.Or(c.Resource.MIME, "application/octet-stream")
		return data(kind, c.Resource.Blob, c.Resource.URI)
	}
	return text(string(raw)) // a link, or a type of later servers
}

func text(s string) message.Block { return &message.TextBlock{Text: s} }

func data(kind, base64, name string) message.Block {
	out := &message.DataBlock{Source: &message.Base64Source{MediaType: kind, Data: base64}}
	if name != "" {
		out.Name = &name
	}
	return out
}
