package mcpworker

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
)

// The members of _meta that the server can read.
const (
	keyMember     = "dev.askance/idempotency-key"
	attemptMember = "dev.askance/attempt"
)

// call is one call in flight.
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

// calls are the calls in flight, by their id in _meta.
type calls struct {
	mu   sync.Mutex // guards byID
	byID map[string]*call
}

func (c *calls) add(id string, of *call) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[id] = of
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byID, id)
	}
}

func (c *calls) get(id string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// progress forwards a notification.
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

// try runs a call in the present session, and ends the session if it is broken.
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
	defer s.calls.add(id, c)()
	params := &mcp.CallToolParams{Name: tool, Arguments: t.Input, Meta: mcp.Meta{keyMember: t.IdempotencyKey, attemptMember: t.Attempt}}
	params.SetProgressToken(id)
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

// answer is a result of tools/call, as the server wrote it.
type answer struct {
	Content    []message.RawJSON `json:"content"`
	Structured message.RawJSON   `json:"structuredContent"`
	IsError    bool              `json:"isError"`
	Type       string            `json:"resultType"`
}

// readAnswer converts the server's answer.
func readAnswer(r *jsonrpc.Response) (executor.Output, error) {
	if r.Error != nil {
		return executor.Output{}, fmt.Errorf("the MCP server refuses the call: %w", r.Error)
	}
	a, err := decodeAnswer(r.Result)
	if err != nil { // it answered, so the tool may have run
		return executor.Output{}, fmt.Errorf("%w: the answer of the MCP server cannot be read: %w", executor.ErrUnknownOutcome, err)
	}
	if a.Type != "" && a.Type != "complete" {
		return executor.Output{}, fmt.Errorf("the MCP server wants more than arguments (%.40s), which a worker cannot give: use a tool that needs no questions", a.Type)
	}
	out := executor.Output{Content: message.List(a.blocks()...)}
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
