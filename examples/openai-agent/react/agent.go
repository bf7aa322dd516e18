package react

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/chatstream"
	"github.com/askance-dev/askance/message"
)

// Config configures an agent and its model.
type Config struct {
	Name        string // of the agent
	Description string
	// BaseURL is where the API is: "https://api.openai.com/v1". A URL without a
	// path gets /v1.
	BaseURL string
	APIKey  string // not sent if empty
	Model   string
	System  string       // the system prompt, if any
	Tools   []agent.Tool // the tools that the engine runs
	// MaxTurns is the maximum number of model requests for one reply. The default is 20.
	MaxTurns int
	// MaxTries is the maximum number of times that a request is sent. The default is 4.
	MaxTries int
	HTTP     *http.Client // default: one without an overall limit
}

// Agent is an agent.Agent that asks a model. It is safe for concurrent use.
type Agent struct {
	cfg Config
	url string
}

var _ agent.Agent = (*Agent)(nil)

// New returns an agent, or an error if the configuration is invalid.
func New(cfg Config) (*Agent, error) {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("base URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, fmt.Errorf("base URL %q is not an http or https URL", cfg.BaseURL)
	case cfg.Model == "" || cfg.Name == "":
		return nil, errors.New("the agent needs a name and a model")
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1"
	}
	cfg.MaxTurns, cfg.MaxTries = cmp.Or(cfg.MaxTurns, 20), cmp.Or(cfg.MaxTries, 4)
	cfg.HTTP = cmp.Or(cfg.HTTP, &http.Client{Transport: transport()})
	return &Agent{cfg: cfg, url: u.JoinPath("chat/completions").String()}, nil
}

// Info implements agent.Agent.
func (a *Agent) Info() agent.Info {
	return agent.Info{Name: a.cfg.Name, Description: a.cfg.Description, Tools: a.cfg.Tools}
}

// Run implements agent.Agent: it asks the model and runs its calls, again and again.
func (a *Agent) Run(ctx context.Context, t agent.Turn) error {
	names := newNames(slices.Concat(a.cfg.Tools, t.Tools()))
	for {
		msgs, err := t.Conversation(ctx)
		if err != nil {
			return err
		}
		said := reply(msgs, t.Reply())
		calls := openCalls(said)
		if len(calls) == 0 {
			if countAsked(said) >= a.cfg.MaxTurns {
				return agent.ErrMaxIters
			}
			if calls, err = a.ask(ctx, t, msgs, names, said); err != nil || len(calls) == 0 {
				return err
			}
		}
		if _, err := t.Call(ctx, calls...); err != nil {
			return err
		}
	}
}

// reply returns the unfinished reply among the messages, or an empty one if there is
// none yet.
func reply(msgs []*message.Msg, id message.ReplyID) *message.Msg {
	if n := len(msgs); n > 0 && msgs[n-1].ID == string(id) {
		return msgs[n-1]
	}
	return &message.Msg{}
}

// openCalls returns the calls of a reply that have no result, because the process
// stopped while they were open.
func openCalls(m *message.Msg) []message.ToolCallBlock {
	var out []message.ToolCallBlock
	for _, c := range message.BlocksOf[*message.ToolCallBlock](m) {
		if r := m.ToolResult(c.ID); r == nil || r.State == message.ToolResultRunning {
			out = append(out, message.ToolCallBlock{ID: c.ID, Name: c.Name, Input: c.Input})
		}
	}
	return out
}

// countAsked returns how often the model was asked for a reply: its rounds of calls.
func countAsked(m *message.Msg) int {
	n := 0
	for _, r := range rounds(m) {
		if len(r.calls) > 0 {
			n++
		}
	}
	return n
}

// ask asks the model, streams its answer into the reply, and returns the calls that it
// wants.
func (a *Agent) ask(ctx context.Context, t agent.Turn, msgs []*message.Msg, names names, said *message.Msg) ([]message.ToolCallBlock, error) {
	body, err := a.open(ctx, a.request(msgs, names))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var taken []message.CallID
	for _, c := range message.BlocksOf[*message.ToolCallBlock](said) {
		taken = append(taken, c.ID)
	}
	turn := chatstream.NewTurn(message.Codec{}, t.Reply(), taken...)
	if err := stream(ctx, t, chatstream.NewReader(body), turn, names); err != nil {
		return nil, err
	}
	if err := stopError(turn); err != nil {
		return nil, err
	}
	calls := turn.Calls()
	for i := range calls {
		calls[i].Name = names.tool(calls[i].Name)
	}
	return calls, nil
}

// stream emits the model's answer as it arrives.
func stream(ctx context.Context, t agent.Turn, r *chatstream.Reader, turn *chatstream.Turn, names names) error {
	for {
		chunk, err := r.Next()
		var events []message.Event
		last := errors.Is(err, chatstream.ErrDone) ||
			errors.Is(err, io.ErrUnexpectedEOF) && turn.FinishReason() != "" // some servers do not send [DONE]
		switch {
		case last:
			events, err = turn.End()
		case errors.Is(err, io.EOF):
			err = errors.New("the stream is empty")
		case err == nil:
			events, err = turn.Add(chunk)
		}
		if err != nil {
			return breakError(ctx, err)
		}
		for _, e := range events {
			if s, ok := e.(*message.ToolCallStart); ok {
				s.ToolCallName = names.tool(s.ToolCallName)
			}
		}
		if len(events) > 0 {
			if err := t.Emit(ctx, events...); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
	}
}

// breakError returns the error for an answer that cannot be read to its end.
func breakError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if said, ok := errors.AsType[*chatstream.ServerError](err); ok {
		return &agent.ReplyError{Type: message.ErrorUpstream, What: clip(said.Error()), Err: err}
	}
	if _, ok := errors.AsType[*chatstream.Error](err); ok && !errors.Is(err, io.ErrUnexpectedEOF) {
		return &agent.ReplyError{Type: message.ErrorUpstream, What: "the model's answer cannot be read", Err: err}
	}
	return &agent.ReplyError{Type: message.ErrorConnection, What: "the model's answer broke off", Err: err}
}

// stopError returns an error if the model did not finish its answer.
func stopError(turn *chatstream.Turn) error {
	switch reason := turn.FinishReason(); {
	case turn.Complete():
		return nil
	case reason == "length":
		return &agent.ReplyError{Type: message.ErrorUpstream, What: "the model's answer reached its length limit and is not complete"}
	case reason == "content_filter":
		return &agent.ReplyError{Type: message.ErrorUpstream, What: "the provider's content filter stopped the model's answer"}
	case len(turn.Calls()) > 0:
		return &agent.ReplyError{Type: message.ErrorUpstream, What: "the model stopped with tool calls because of " + clip(reason) + "; they are not complete"}
	}
	return nil
}

// clip shortens a server's text.
func clip(text string) string {
	const limit = 300
	if r := []rune(text); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return text
}
