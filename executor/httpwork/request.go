package httpwork

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// maxReply limits a reply: the record of a call has its arguments twice, as JSON text.
const maxReply = 16 << 20

// maxWait limits how long a server can ask a client to wait before the next request.
const maxWait = time.Minute

// newClient returns a client that can keep a connection for each waiting request.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// unansweredError means that no engine answered, and has the time until the next request.
type unansweredError struct {
	error
	after time.Duration
}

func (e *unansweredError) Unwrap() error { return e.error }

func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*unansweredError](err); ok {
		return e.after
	}
	return 0
}

// Call implements api.Caller for the operations of workers.
func (t *Transport) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op.HTTP == nil || !strings.HasPrefix(op.HTTP.Path, "/v1/work/") {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: "it is not an operation of workers", Hint: "use another client"}
	}
	r, err := t.newRequest(ctx, op, request)
	if err != nil {
		return nil, err
	}
	res, err := t.cfg.Client.Do(r)
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return nil, fmt.Errorf("%s: cannot verify the certificate of the server (on Linux, SSL_CERT_FILE can name the file of its authority): %w", op.Name, bad.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the server does not answer: %w", op.Name, err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: the reply was cut off: %w", op.Name, err)
	case len(body) > maxReply:
		return nil, fmt.Errorf("%s: the reply is larger than %d bytes", op.Name, maxReply)
	case res.StatusCode != http.StatusOK:
		return nil, refusal(op, res, body)
	}
	reply, err := op.DecodeReply(maxReply, body)
	if err == nil {
		err = checkReply(reply)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the reply is not from askance: %w", op.Name, err)
	}
	return reply, nil
}

func (t *Transport) newRequest(ctx context.Context, op *api.Operation, request any) (*http.Request, error) {
	token, err := t.cfg.Token()
	if err != nil {
		return nil, fmt.Errorf("%s: the token cannot be read: %w", op.Name, err)
	}
	var body []byte
	if op.HTTP.Method != http.MethodGet {
		if body, err = encodeBody(request); err != nil {
			return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: "the request has no JSON form", Hint: "report an error as the result", Err: err}
		}
	}
	r, err := http.NewRequestWithContext(ctx, op.HTTP.Method, t.base.JoinPath(op.HTTP.Path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// encodeBody leaves out the members that the path and the token determine.
func encodeBody(request any) ([]byte, error) {
	body, err := strictjson.Marshal(request)
	if err != nil {
		return nil, err
	}
	return strictjson.Without(body, "v", "space")
}

// checkReply refuses a reply that an engine never sends, such as the {} of a proxy.
func checkReply(reply any) error {
	switch r := reply.(type) {
	case toolcall.ResultReply:
		if r.State == "" {
			return errors.New("it has no state")
		}
	case toolcall.NextTasksReply:
		if r.Tasks == nil {
			return errors.New("it has no tasks")
		}
	}
	return nil
}

// problem is an error as the gateway writes it.
type problem struct {
	Detail string          `json:"detail"`
	Code   message.Code    `json:"code"`
	Hint   string          `json:"hint"`
	Call   message.RawJSON `json:"call"`
}

// refusal returns the error for a reply with a status other than 200.
//
// Invariant: only problem details with a code count as an engine's answer, and a refused
// token does not, except for a request that belongs to no attempt.
func refusal(op *api.Operation, res *http.Response, body []byte) error {
	after, _ := strconv.Atoi(res.Header.Get("Retry-After")) // 0: the server does not say
	wait := min(time.Duration(max(0, after))*time.Second, maxWait)
	var p problem
	media, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	if media != "application/problem+json" || strictjson.UnmarshalOpen(body, &p, strictjson.MaxBytes(maxReply)) != nil || p.Code == "" {
		return &unansweredError{fmt.Errorf("%s: the server replied with status %d, but not in askance's format: check the URL, and any proxy in front of the server", op.Name, res.StatusCode), wait}
	}
	e := &message.Error{Code: p.Code, Op: op.Name, What: p.Detail, Hint: p.Hint, Call: p.Call}
	switch {
	case res.StatusCode == http.StatusUnauthorized && op != api.Next.Operation:
		return &unansweredError{fmt.Errorf("%s: the server refuses the token: %s", op.Name, p.Detail), wait}
	case wait > 0:
		return &unansweredError{e, wait}
	}
	return e
}
