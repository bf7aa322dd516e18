// Package hook is the part of askance that runs at a coding agent: the command that its
// hooks start, and the settings that make the agent start it.
//
// All agents run the tool if a hook fails in any way except exit code 2. Therefore the
// command accepts an answer only from a server that proves to be askance, and reports
// everything else as an error.
package hook

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agenthook"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Client relays events of one agent to a gateway.
type Client struct {
	Dialect dialect.Dialect
	URL     string // of the gateway
	Token   string // "": the gateway is open to this machine
	// Timeout is how long the agent lets the hook run. An answer comes dialect.Margin before it.
	Timeout time.Duration
	Pass    bool // leave allowed calls to the agent's own rules
	DryRun  bool // decide and record nothing
}

// Bounds of a relay.
const (
	maxAnswer = 2 << 20
	grace     = 2 * time.Second // for which a gateway may be unreachable, such as during a restart
	pause     = 200 * time.Millisecond
)

// Answer relays one event and returns what the agent must read, or nothing. The timeout counts from began.
func (c Client) Answer(ctx context.Context, event []byte, began time.Time) ([]byte, error) {
	if c.Timeout <= dialect.Margin {
		return nil, blocked(message.CodeInvalid, "--timeout is "+c.Timeout.String(), "pass the agent's own timeout of the hook, over "+dialect.Margin.String())
	}
	if _, err := dialect.Decode(c.Dialect, event); err != nil {
		e := message.AsError("", err)
		return nil, blocked(e.Code, e.What, e.Hint)
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(c.Timeout-dialect.Margin/2))
	defer cancel()
	invocation := rand.Text()
	var away time.Time // since when the gateway is unreachable
	for {
		sent := time.Now()
		answer, again, err := c.send(ctx, event, invocation, max(time.Until(began.Add(c.Timeout-dialect.Margin)), time.Millisecond))
		if err == nil || !again {
			return answer, err
		}
		if away.IsZero() || time.Since(sent) > grace {
			away = time.Now()
		}
		if time.Since(away) > grace {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// blocked returns an error that blocks the call: the agent shows it to its model.
func blocked(code message.Code, what, hint string) error {
	return &message.Error{Code: code, Op: "askance hook", What: "this tool call is blocked: " + what, Hint: hint}
}

// send sends the event once. again reports whether the gateway may answer later.
func (c Client) send(ctx context.Context, event []byte, invocation string, hold time.Duration) (answer []byte, again bool, err error) {
	o := agenthook.Options{Hold: hold, Pass: c.Pass, DryRun: c.DryRun, Status: true}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.URL, "/")+agenthook.Path(c.Dialect)+"?"+o.Query().Encode(), bytes.NewReader(event))
	if err != nil {
		return nil, false, blocked(message.CodeInvalid, "the URL of the gateway cannot be used", "correct --url or ASKANCE_URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(agenthook.InvocationHeader, invocation)
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return nil, true, c.unreachable(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil || len(b) > maxAnswer {
		return nil, true, c.unreachable(ctx, err)
	}
	return c.read(res, b, invocation)
}

// TokenHint says how to pass a token. role is the value of --role, and flags may follow it.
func TokenHint(role string) string {
	return "pass --token-file or set ASKANCE_TOKEN; to create a token: askance token create NAME --role " + role
}

func (c Client) unreachable(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) { // the agent or a person stopped the hook
		return blocked(message.CodeUnavailable, "the hook was stopped before a decision", "make the call again")
	}
	what := "askance does not respond at " + c.URL
	if errors.Is(err, context.DeadlineExceeded) {
		what += " in time"
	}
	return blocked(message.CodeUnavailable, what, "start askance serve, or pass its URL with --url; then make the call again")
}

// read accepts only an answer that is complete and from askance.
func (c Client) read(res *http.Response, body []byte, invocation string) (answer []byte, again bool, err error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	ours := res.Header.Get(agenthook.InvocationHeader) == invocation
	switch {
	case ours && res.StatusCode == http.StatusNoContent:
		return nil, false, nil
	case ours && res.StatusCode == http.StatusOK && kind == "application/json":
		var whole map[string]message.RawJSON
		if err := strictjson.Unmarshal(body, &whole, strictjson.MaxBytes(maxAnswer)); err == nil && len(whole) > 0 {
			return body, false, nil
		}
	}
	var p gateway.Problem
	if kind == "application/problem+json" && strictjson.UnmarshalOpen(body, &p) == nil && p.Code != "" {
		if p.Code == message.CodeForbidden && c.Token == "" {
			p.Hint = TokenHint("runtime")
		}
		return nil, res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable, blocked(p.Code, p.Detail, p.Hint)
	}
	again = res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusServiceUnavailable || res.StatusCode == http.StatusGatewayTimeout
	return nil, again, blocked(message.CodeUnavailable, "the server at "+c.URL+" did not answer as askance does (status "+strconv.Itoa(res.StatusCode)+")", "pass the URL of askance serve with --url")
}
