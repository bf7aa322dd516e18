// Package httpwork connects a worker to askance over HTTP, without NATS: it is the
// executor.Transport of /v1/work (gateway/api/WORK.md).
//
//	t, err := httpwork.New(httpwork.Config{URL: "https://askance.example", Queue: toolcall.Queue{Tool: "refund"}, Token: token})
//	…
//	w, err := executor.NewWorker(t, "refund", refund, keys)
//
// # Guarantees
//
//   - Only a reply that can come from an engine is final. A proxy's status page, a
//     redirect, a broken body or a refused token says nothing about an attempt: the
//     Worker sends the request again.
//   - The token is read again for each request, and goes only to the configured server. After a
//     token was replaced, an attempt keeps the one that started it until the server refuses that.
//   - A Next whose context ends closes its connection, so that the server returns the
//     task to the queue.
//
// # What it does not do
//
// It verifies nothing: the Worker checks the signatures of grants and start replies.
// It has no cancel messages: a cancel arrives with the next heartbeat's reply.
package httpwork

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Config names a server and a queue. URL, Queue and Token are required.
type Config struct {
	// URL of the server, with the path under which a proxy serves it, if any.
	URL   string
	Queue toolcall.Queue
	// Token returns the bearer token. It is called for each request, from several
	// goroutines.
	Token func() (string, error)
	// Client sends the requests; nil means a new client. It must not follow redirects.
	Client *http.Client
	Log    *slog.Logger
}

// Transport implements executor.Transport. All methods are safe for concurrent use.
type Transport struct {
	api.WorkerMethods
	cfg    Config
	base   *url.URL
	tokens sync.Map // of the attempts until their end, by claim: another token can have another name
}

// New checks the configuration and returns a Transport. It sends nothing.
func New(cfg Config) (*Transport, error) {
	base, err := url.Parse(cfg.URL)
	switch {
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, &message.Error{Code: message.CodeInvalid, Op: "connect to the server", What: "the URL of the server is not of the form https://HOST[/PATH]", Hint: "pass the URL that askance serve prints, without a password or a query"}
	case cfg.Queue.Tool == "":
		return nil, &message.Error{Code: message.CodeInvalid, Op: "connect to the server", What: "no tool is named", Hint: "name the tool whose calls to take"}
	case cfg.Token == nil:
		return nil, &message.Error{Code: message.CodeInvalid, Op: "connect to the server", What: "there is no token", Hint: "make one with askance token create NAME --role worker --tool " + spelling.ShellWord(cfg.Queue.Tool)}
	}
	if cfg.Client == nil {
		cfg.Client = newClient()
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)).With("queue", cfg.Queue.String())
	t := &Transport{cfg: cfg, base: base}
	t.Caller = t
	return t, nil
}

// Keys asks the server for the engines' signing keys, which are not trusted yet.
func (t *Transport) Keys(ctx context.Context) (toolcall.KeyRing, error) {
	rep, err := api.Keys.Call(ctx, t, struct{}{})
	return rep.Keys, err
}

// Cancels implements executor.Transport. It does nothing: HTTP has no cancel messages.
func (t *Transport) Cancels(func(toolcall.HeartbeatRequest, string)) (stop func()) { return func() {} }

const (
	holdFor    = 30 * time.Second // how long the server can hold a request for a task
	holdMargin = 15 * time.Second // how much later the server counts as silent
	shortest   = time.Second      // minimum time between two requests without a task
	newerDelay = 10 * time.Second // how long a task with a newer version is delayed
	ackTimeout = 5 * time.Second
)

// Next implements executor.Transport.
func (t *Transport) Next(ctx context.Context) (toolcall.Task, error) {
	for {
		sent := time.Now()
		offered, err := t.ask(ctx)
		if err != nil {
			_ = sleep.For(ctx, retryAfter(err))
			return toolcall.Task{}, err
		}
		for _, o := range offered { // at most one, as requested
			task, err := t.decodeTask(o)
			if err == nil {
				return task, nil
			}
			t.reject(ctx, o, err)
		}
		_ = sleep.For(ctx, shortest-time.Since(sent))
		if ctx.Err() != nil {
			return toolcall.Task{}, &message.Error{Code: message.CodeUnavailable, Op: "next task", What: "no task came for " + t.cfg.Queue.String(), Err: context.Cause(ctx)}
		}
	}
}

// ask sends one request for a task.
func (t *Transport) ask(ctx context.Context) ([]toolcall.OfferedTask, error) {
	ctx, stop := context.WithTimeout(ctx, holdFor+holdMargin)
	defer stop()
	rep, err := api.Next.Call(ctx, t, toolcall.NextTasksRequest{Tool: t.cfg.Queue.Tool, Route: t.cfg.Queue.Route, Limit: 1, WaitMS: holdFor.Milliseconds()})
	return rep.Tasks, err
}

// errNewerTask: a newer engine wrote the task, and newer workers can read it.
var errNewerTask = errors.New("it has a newer version")

// decodeTask decodes a task. The grant decides whether it may run.
func (t *Transport) decodeTask(o toolcall.OfferedTask) (toolcall.Task, error) {
	var version struct {
		V int `json:"v"`
	}
	if err := strictjson.UnmarshalOpen(o.Record, &version, strictjson.MaxBytes(maxReply)); err == nil && version.V > toolcall.RecordVersion {
		return toolcall.Task{}, fmt.Errorf("%w: event record version %d, this worker reads %d", errNewerTask, version.V, toolcall.RecordVersion)
	}
	var rec toolcall.EventRecord
	if err := strictjson.Unmarshal(o.Record, &rec, strictjson.MaxBytes(maxReply)); err != nil {
		return toolcall.Task{}, err
	}
	if rec.V != toolcall.RecordVersion || rec.Call == nil {
		return toolcall.Task{}, errors.New("it is not the event record of a call")
	}
	return toolcall.Task{
		Record: &rec, ID: o.Task, Delivered: o.Delivered,
		Ack: func(ctx context.Context) error { return t.ack(ctx, o, false, 0) },
		Release: func(d time.Duration) error {
			ctx, stop := context.WithTimeout(context.Background(), ackTimeout)
			defer stop()
			return t.ack(ctx, o, true, d)
		},
		End: func(claim string) { t.tokens.Delete(claim) },
	}, nil
}

func (t *Transport) ack(ctx context.Context, o toolcall.OfferedTask, back bool, delay time.Duration) error {
	r := toolcall.AckTaskRequest{Tool: t.cfg.Queue.Tool, Route: t.cfg.Queue.Route, Task: o.Task, Return: back}
	if back {
		r.DelayMS = max(0, delay.Milliseconds())
	}
	_, err := api.Ack.Call(ctx, t, r)
	return err
}

// reject returns or drops a task that this worker cannot read.
func (t *Transport) reject(ctx context.Context, o toolcall.OfferedTask, why error) {
	newer := errors.Is(why, errNewerTask)
	if newer {
		t.cfg.Log.Warn("left a task to newer workers", "err", why)
	} else {
		t.cfg.Log.Error("dropped a message of the queue that is not a task", "err", why)
	}
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	if err := t.ack(ctx, o, newer, newerDelay); err != nil {
		t.cfg.Log.Warn("cannot return a task, it will be delivered again", "err", err)
	}
}

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
	token, claim, err := t.tokenFor(request)
	if err != nil {
		return nil, fmt.Errorf("%s: the token cannot be read: %w", op.Name, err)
	}
	r, err := t.newRequest(ctx, op, request, token)
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
		if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden && op == api.Next.Operation { // 403: it ended while the server held the request
			t.tokens.Delete(claim)
			if now, _, err := t.tokenFor(request); err == nil && now != token {
				return nil, fmt.Errorf("%s: the token was replaced meanwhile", op.Name)
			}
		}
		return nil, refusal(op, res, body)
	}
	reply, err := op.DecodeReply(maxReply, body)
	if err == nil {
		err = checkReply(reply)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: the reply is not from askance: %w", op.Name, err)
	}
	if op == api.Start.Operation {
		t.tokens.Store(claim, token)
	}
	return reply, nil
}

// tokenFor returns the token for a request, and the claim that it names.
func (t *Transport) tokenFor(request any) (token, claim string, err error) {
	switch r := request.(type) {
	case toolcall.StartRequest:
		claim = r.Claim
	case toolcall.HeartbeatRequest:
		claim = r.Claim
	case toolcall.ProgressRequest:
		claim = r.Claim
	case toolcall.ResultRequest:
		claim = r.Claim
	}
	if first, ok := t.tokens.Load(claim); ok {
		token, _ = first.(string)
		return token, claim, nil
	}
	token, err = t.cfg.Token()
	return token, claim, err
}

func (t *Transport) newRequest(ctx context.Context, op *api.Operation, request any, token string) (*http.Request, error) {
	path, _, body, err := op.HTTP.Encode(request)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: "the request has no JSON form", Hint: "report an error as the result", Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, op.HTTP.Method, t.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Name, err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// checkReply refuses a reply that an engine never sends, such as the {} of a proxy.
func checkReply(reply any) error {
	switch r := reply.(type) {
	case toolcall.ResultReply:
		if r.State == "" {
			return errors.New("it has no state")
		}
	case toolcall.HeartbeatReply: // an answer renews the lease
		if r.At.IsZero() {
			return errors.New("it has no time")
		}
	case toolcall.NextTasksReply:
		if r.Tasks == nil {
			return errors.New("it has no tasks")
		}
	}
	return nil
}

// refusal returns the error for a reply with a status other than 200.
//
// Invariant: only problem details with a code count as an engine's answer, and a refused
// token does not, except for a request that belongs to no attempt.
func refusal(op *api.Operation, res *http.Response, body []byte) error {
	after, _ := strconv.Atoi(res.Header.Get("Retry-After")) // 0: the server does not say
	wait := min(time.Duration(max(0, after))*time.Second, maxWait)
	e := api.ReadProblem(res.Header.Get("Content-Type"), body)
	if e == nil {
		return &unansweredError{fmt.Errorf("%s: the server replied with status %d, but not in askance's format: check the URL, and any proxy in front of the server", op.Name, res.StatusCode), wait}
	}
	e.Op = op.Name
	switch {
	case res.StatusCode == http.StatusUnauthorized && op != api.Next.Operation:
		return &unansweredError{fmt.Errorf("%s: the server refuses the token: %s", op.Name, e.What), wait}
	case wait > 0:
		return &unansweredError{e, wait}
	}
	return e
}
