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
//   - The token is read again for each request, and goes only to the configured server.
//   - A Next whose context ends closes its connection, so that the server returns the
//     task to the queue.
//
// # What it does not do
//
// It verifies nothing: the Worker checks the signatures of grants and start replies.
// It has no cancel messages: a cancel arrives with the next heartbeat's reply.
package httpwork

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

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
	cfg  Config
	base *url.URL
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
		return nil, &message.Error{Code: message.CodeInvalid, Op: "connect to the server", What: "there is no token", Hint: "make one with askance token create NAME --role worker --tool " + cfg.Queue.Tool}
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
			pause(ctx, retryAfter(err))
			return toolcall.Task{}, err
		}
		for _, o := range offered { // at most one, as requested
			task, err := t.decodeTask(o)
			if err == nil {
				return task, nil
			}
			t.reject(ctx, o, err)
		}
		pause(ctx, shortest-time.Since(sent))
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

// pause waits for d, at most until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
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
	var f toolcall.EventRecord
	if err := strictjson.Unmarshal(o.Record, &f, strictjson.MaxBytes(maxReply)); err != nil {
		return toolcall.Task{}, err
	}
	if f.V != toolcall.RecordVersion || f.Call == nil {
		return toolcall.Task{}, errors.New("it is not the event record of a call")
	}
	return toolcall.Task{
		Record: &f, ID: o.Task, Delivered: o.Delivered,
		Ack: func(ctx context.Context) error { return t.ack(ctx, o, false, 0) },
		Release: func(d time.Duration) error {
			ctx, stop := context.WithTimeout(context.Background(), ackTimeout)
			defer stop()
			return t.ack(ctx, o, true, d)
		},
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
