// Package urlworker runs the calls of a worker with requests to an HTTP endpoint.
//
//	h, err := urlworker.New(urlworker.Config{URL: "https://shop.example/refund", Secrets: secrets})
//	executor.NewWorker(transport, "refund", h, keys)
//
// The body is the approved arguments, byte for byte. What a reply means:
//
//	2xx                   the result
//	408, 409 of a later   unknown outcome
//	attempt, 3xx, 5xx
//	other 4xx, 501        the endpoint refused: an error, and nothing ran
//	no connection         nothing ran: the call is offered again
//	connection lost later unknown outcome
//
// A call with an unknown outcome has no result: the engine starts an idempotent tool
// again with the same key, and other calls wait for an operator.
package urlworker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway/webhook"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Config says which endpoint. URL is required.
type Config struct {
	// URL of the endpoint. {tool} in its path stands for the tool's name.
	URL    string
	Method string // one of Methods; "": POST
	Header http.Header
	// Secrets sign each request as webhooks are signed, so that the endpoint can check
	// who calls; none: requests are not signed.
	Secrets []webhook.Secret
	// Timeout of one attempt; 0: DefaultTimeout. The tool's own timeout also applies.
	Timeout time.Duration
}

// DefaultTimeout is how long an endpoint has for a reply.
const DefaultTimeout = time.Minute

// Methods are the methods with a body.
var Methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

const (
	maxRedirects = 3
	maxReply     = 2 * toolcall.MaxOutputBytes // a result holds less, and says if it is truncated
	place        = "{tool}"
)

type endpoint struct{ cfg Config }

// New checks the configuration and returns the handler that calls the endpoint.
func New(cfg Config) (executor.Handler, error) {
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, errors.New("the URL of the endpoint is not of the form https://HOST/PATH: pass one without a password")
	case strings.Contains(u.Host, place):
		return nil, errors.New("{tool} is in the host of the URL: put it into the path")
	case cfg.Method != "" && !slices.Contains(Methods, cfg.Method):
		return nil, fmt.Errorf("the method %q has no body for the arguments: use %s", cfg.Method, strings.Join(Methods, ", "))
	case cfg.Timeout < 0:
		return nil, errors.New("the timeout is negative: use a time such as 30s")
	}
	cfg.Method, cfg.Timeout = cmp.Or(cfg.Method, http.MethodPost), cmp.Or(cfg.Timeout, DefaultTimeout)
	return endpoint{cfg}.run, nil
}

// request is the state of one request of a task.
type request struct {
	task    executor.Task
	written atomic.Bool // its headers are in the buffer of the connection
	sent    atomic.Bool // a part of it can have left
}

// client returns a client for this request alone. In a shared one, a connection that one request
// opened could carry another, which must have neither its lease nor its outcome. A connection that
// the endpoint closes while it is idle would make an outcome unknown.
func (r *request) client() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: r.dial, DisableKeepAlives: true, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (r *request) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return leased{conn, r}, nil
}

// leased sends no part of the request if the lease has passed meanwhile, for example while a
// proxy was asked or during the TLS handshake.
type leased struct {
	net.Conn
	request *request
}

// Write implements net.Conn.
func (l leased) Write(p []byte) (int, error) {
	if r := l.request; r.written.Load() && !r.sent.Load() {
		if err := r.task.CheckLease(); err != nil {
			return 0, err
		}
		r.sent.Store(true)
	}
	return l.Conn.Write(p)
}

// run sends one attempt.
func (e endpoint) run(ctx context.Context, t executor.Task) (executor.Output, error) {
	parent := ctx
	ctx, stop := context.WithTimeoutCause(ctx, e.cfg.Timeout, fmt.Errorf("the endpoint did not reply within %s", e.cfg.Timeout))
	defer stop()
	target := strings.ReplaceAll(e.cfg.URL, place, url.PathEscape(t.Tool))
	for range maxRedirects + 1 {
		res, err := e.send(ctx, t, target)
		if err != nil {
			return executor.Output{}, lost(parent, ctx, t, err)
		}
		next, again := sameHost(res)
		out, err := executor.Output{}, error(nil)
		if !again {
			out, err = read(t, res)
		}
		_ = res.Body.Close() // it was only read
		switch {
		case again:
			target = next
		case errors.Is(err, executor.ErrUnknownOutcome):
			return executor.Output{}, lost(parent, ctx, t, err)
		default:
			return out, err
		}
	}
	return executor.Output{}, fmt.Errorf("the endpoint redirects more than %d times: pass the final URL", maxRedirects)
}

// lost returns the error of an attempt without a conclusive reply.
func lost(parent, ctx context.Context, t executor.Task, err error) error {
	switch {
	case errors.Is(err, executor.ErrNotBegun):
		return err
	case errors.Is(context.Cause(parent), executor.ErrCancelled):
		return errors.New("the request was cancelled, and the endpoint may have executed it")
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	if !errors.Is(err, executor.ErrUnknownOutcome) {
		err = fmt.Errorf("%w: %w", executor.ErrUnknownOutcome, err)
	}
	t.Progress(err.Error())
	return err
}

func (e endpoint) send(ctx context.Context, t executor.Task, target string) (*http.Response, error) {
	r := &request{task: t}
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: func(string, []string) { r.written.Store(true) }})
	req, err := http.NewRequestWithContext(traced, e.cfg.Method, target, io.NopCloser(bytes.NewReader(t.Input)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", executor.ErrNotBegun, err)
	}
	req.ContentLength = int64(len(t.Input)) // and no GetBody: net/http must not send it twice
	maps.Copy(req.Header, e.cfg.Header)
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("Idempotency-Key", t.IdempotencyKey)
	if t.Trace != "" {
		h.Set(toolcall.TraceHeader, string(t.Trace))
	}
	h.Set("Askance-Tool", url.PathEscape(t.Tool))
	h.Set("Askance-Attempt", strconv.Itoa(t.Attempt))
	h.Set("Askance-Call", strings.Join([]string{url.PathEscape(string(t.Call.Space)), url.PathEscape(string(t.Call.Session)), url.PathEscape(string(t.Call.Reply)), url.PathEscape(string(t.Call.Call))}, "/"))
	if len(e.cfg.Secrets) > 0 {
		now := time.Now()
		h.Set("Webhook-Id", t.IdempotencyKey)
		h.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set("Webhook-Signature", webhook.Sign(e.cfg.Secrets, t.IdempotencyKey, now, t.Input))
	}
	res, err := r.client().Do(req)
	switch {
	case err == nil:
		return res, nil
	case errors.Is(err, executor.ErrNotBegun):
		return nil, plain(err)
	case !r.sent.Load():
		return nil, fmt.Errorf("%w: the endpoint cannot be reached: %w", executor.ErrNotBegun, plain(err))
	}
	return nil, fmt.Errorf("the connection to the endpoint was lost: %w", plain(err))
}

// plain removes the URL, whose query can contain a secret.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// sameHost returns where a reply redirects the same request, if that is the same host.
// Other hosts must get neither the arguments nor the credentials.
func sameHost(res *http.Response) (target string, ok bool) {
	if res.StatusCode != http.StatusTemporaryRedirect && res.StatusCode != http.StatusPermanentRedirect {
		return "", false
	}
	to, err := res.Location()
	if err != nil || to.Scheme != res.Request.URL.Scheme || to.Host != res.Request.URL.Host {
		return "", false
	}
	return to.String(), true
}

func read(t executor.Task, res *http.Response) (executor.Output, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	for n := 0; len(body) == maxReply-n && n < utf8.UTFMax-1; n++ { // a cut text ends with a whole character
		if r, size := utf8.DecodeLastRune(body); r == utf8.RuneError && size == 1 {
			body = body[:len(body)-1]
		}
	}
	code := res.StatusCode
	switch {
	case code >= 200 && code < 300 && err != nil:
		return executor.Output{}, fmt.Errorf("%w: the reply of the endpoint is incomplete: %w", executor.ErrUnknownOutcome, err)
	case code >= 200 && code < 300:
		return executor.Output{Content: contentOf(res.Header.Get("Content-Type"), body)}, nil
	case code == http.StatusTemporaryRedirect || code == http.StatusPermanentRedirect:
		return executor.Output{}, fmt.Errorf("the endpoint redirects to another host (status %d), to which no call is sent: pass the final URL", code)
	case isSafe(code, t.Attempt):
		return executor.Output{Content: contentOf(res.Header.Get("Content-Type"), body), State: message.ToolResultError}, fmt.Errorf("the endpoint replied with status %d", code)
	}
	return executor.Output{}, fmt.Errorf("%w: the endpoint replied with status %d", executor.ErrUnknownOutcome, code)
}

// isSafe reports whether a status means that nothing ran. A conflict of a later attempt
// can mean that the previous attempt still runs.
func isSafe(code, attempt int) bool {
	switch code {
	case http.StatusRequestTimeout:
		return false
	case http.StatusConflict:
		return attempt <= 1
	case http.StatusNotImplemented:
		return true
	}
	return code >= 400 && code < 500
}

// contentOf returns the body as text, or as data of its type with the charset.
func contentOf(kind string, body []byte) message.Content {
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		media = "application/octet-stream"
	}
	isText := strings.HasPrefix(media, "text/") || media == "application/json" || strings.HasSuffix(media, "+json") || media == "application/xml" || media == "application/octet-stream"
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "us-ascii":
	default: // bytes of other charsets can look like UTF-8, but most have ASCII
		isText = isText && !bytes.ContainsFunc(body, func(r rune) bool { return r == 0 || r == 0x1b || r > '~' })
	}
	if len(body) == 0 || isText && utf8.Valid(body) {
		return message.Content{Text: string(body)}
	}
	if charset := params["charset"]; charset != "" {
		media = cmp.Or(mime.FormatMediaType(media, map[string]string{"charset": charset}), media)
	}
	return message.List(&message.DataBlock{Source: &message.Base64Source{MediaType: media, Data: base64.StdEncoding.EncodeToString(body)}})
}
