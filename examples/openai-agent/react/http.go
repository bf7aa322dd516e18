package react

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/agent/chatstream"
	"github.com/askance-dev/askance/message"
)

// Limits of a request.
const (
	headerTimeout = 2 * time.Minute // until the answer begins
	idleTimeout   = 2 * time.Minute // between two parts of it
	firstPause    = 500 * time.Millisecond
	maxPause      = time.Minute
	maxErrorBody  = 64 << 10
)

func transport() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.ResponseHeaderTimeout = headerTimeout
	return t
}

// open sends a request until an answer begins, and returns its body.
func (a *Agent) open(ctx context.Context, req request) (io.ReadCloser, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	for try := 1; ; try++ {
		answer, wait, err := a.send(ctx, body)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case wait < 0 || try >= a.cfg.MaxTries:
			return nil, err
		}
		if wait == 0 {
			wait = firstPause << (try - 1)
		}
		t := time.NewTimer(min(wait, maxPause))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// send sends a request once. On an error wait says when to try again: 0 if the
// server did not say, negative for never.
func (a *Agent) send(ctx context.Context, body []byte) (answer io.ReadCloser, wait time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		if err != nil {
			cancel()
		}
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return nil, -1, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if a.cfg.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+a.cfg.APIKey)
	}
	res, err := a.cfg.HTTP.Do(r)
	if err != nil {
		return nil, 0, &agent.ReplyError{Type: message.ErrorConnection, What: "the model cannot be reached", Err: err}
	}
	if res.StatusCode == http.StatusOK && streams(res.Header.Get("Content-Type")) {
		return newPatient(res.Body, cancel), 0, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // as much as can be read
	return nil, retryAfter(res), refusalError(res, text)
}

// streams reports whether an answer of that type may be a stream. Some servers send a
// stream with a wrong type, but other content has its own type.
func streams(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err != nil || media == "text/event-stream" || media == "text/plain" || media == "application/octet-stream"
}

// refusalError returns the error for a response that is not a stream.
func refusalError(res *http.Response, body []byte) error {
	if res.StatusCode == http.StatusOK {
		if said := chatstream.ParseServerError(body); said != nil {
			return &agent.ReplyError{Type: message.ErrorUpstream, What: clip(said.Error())}
		}
		return &agent.ReplyError{Type: message.ErrorUpstream, What: "the model's server does not stream", Err: fmt.Errorf("content type %q", res.Header.Get("Content-Type"))}
	}
	what := "the model's server answers " + res.Status
	if said := chatstream.ParseServerError(body); said != nil {
		what += ": " + clip(said.Message)
	}
	return &agent.ReplyError{Type: typeOf(res.StatusCode), What: what}
}

// typeOf returns AgentScope's error type for a status.
func typeOf(status int) message.ErrorType {
	switch status {
	case http.StatusUnauthorized:
		return message.ErrorAuthentication
	case http.StatusForbidden:
		return message.ErrorPermission
	case http.StatusTooManyRequests:
		return message.ErrorRateLimit
	}
	if status >= http.StatusInternalServerError || status < http.StatusBadRequest {
		return message.ErrorUpstream
	}
	return message.ErrorInvalidRequest
}

// retryAfter returns how long to wait before sending a refused request again: negative
// for never, 0 if the server does not say.
func retryAfter(res *http.Response) time.Duration {
	switch s := res.StatusCode; {
	case s == http.StatusRequestTimeout, s == http.StatusConflict, s == http.StatusTooManyRequests, s >= http.StatusInternalServerError:
	default:
		return -1
	}
	if ms, err := strconv.ParseFloat(res.Header.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, float64(maxPause.Milliseconds()))) * time.Millisecond
	}
	after := res.Header.Get("Retry-After")
	if s, err := strconv.ParseFloat(after, 64); err == nil && s > 0 {
		return time.Duration(min(s, maxPause.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(time.Until(at), time.Millisecond)
	}
	return 0
}

// errIdle is the error of an answer that sends nothing for too long.
var errIdle = errors.New("nothing came for " + idleTimeout.String())

// patient is a body that is cancelled if nothing arrives for idleTimeout.
type patient struct {
	body   io.ReadCloser
	cancel context.CancelFunc
	idle   *time.Timer
	fired  chan struct{}
}

func newPatient(body io.ReadCloser, cancel context.CancelFunc) *patient {
	p := &patient{body: body, cancel: cancel, fired: make(chan struct{})}
	p.idle = time.AfterFunc(idleTimeout, func() {
		close(p.fired)
		cancel()
	})
	return p
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	n, err := p.body.Read(b)
	select {
	case <-p.fired:
		return n, errIdle
	default:
	}
	if n > 0 && p.idle.Stop() {
		p.idle.Reset(idleTimeout)
	}
	return n, err
}

// Close implements io.Closer.
func (p *patient) Close() error {
	p.idle.Stop()
	p.cancel()
	return p.body.Close()
}
