package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Worker takes the tasks of one tool, verifies that each was decided exactly as it is,
// and runs it with a Handler. The package comment describes the protocol.
//
// A Worker can be run only once. Its methods may be called from any goroutine.
type Worker struct {
	config
	transport Transport
	tool      string
	handler   Handler
	keys      *trust

	closing chan struct{} // closed by Close: take no more tasks
	done    chan struct{} // closed when Run returns

	begun begunGrants
	acks  sync.WaitGroup // acknowledgements that run at the same time as handlers; only slots add to it

	mu       sync.Mutex                             // guards what follows
	running  bool                                   // Run was called
	closed   bool                                   // closing is closed
	err      error                                  // what Run returned
	attempts map[toolcall.HeartbeatRequest]*attempt // in progress, for cancels
	clock    clock
	owed     []toolcall.HeartbeatRequest // attempts whose outcome could not be delivered
	fail     func(error)                 // ends Run with an error
}

// NewWorker creates a worker for tool. keys are the public keys of the engines whose
// grants it accepts; it needs at least one.
func NewWorker(t Transport, tool string, h Handler, keys toolcall.KeySet, opts ...WorkerOption) (*Worker, error) {
	c, err := newConfig(opts)
	switch {
	case err != nil:
	case t == nil:
		err = errors.New("it has no transport")
	case tool == "":
		err = errors.New("the tool has no name")
	case c.route != "" && toolcall.CheckRoute(c.route) != nil:
		err = toolcall.CheckRoute(c.route)
	case h == nil:
		err = errors.New("it has no handler")
	case len(keys) == 0:
		err = errors.New("it has no engine key with which to check grants; give it the public key of the engine")
	}
	if err != nil {
		return nil, fmt.Errorf("new worker for tool %q: %w", tool, err)
	}
	c.log = c.log.With("worker", c.name, "tool", tool)
	return &Worker{
		config: c, transport: t, tool: tool, handler: h, keys: &trust{source: c.source, limit: c.requestTimeout, keys: keys},
		closing: make(chan struct{}), done: make(chan struct{}),
		attempts: make(map[toolcall.HeartbeatRequest]*attempt),
	}, nil
}

// Run works until ctx ends or Close is called, then drains: it takes no more tasks,
// waits until running handlers have returned and their results are answered, at most
// for the drain timeout, and returns when all its goroutines have ended.
//
// The error is nil after a clean drain, an *UndeliveredError if outcomes could not be
// delivered, and a *message.Error with CodeForbidden if the worker may not take this
// tool's tasks, or CodeInvalid if it gets one of another space. An engine that cannot be reached is not an
// error: Run waits for it.
func (w *Worker) Run(ctx context.Context) error {
	fetch, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if !w.begin(stop) {
		return ErrClosed
	}
	defer close(w.done)
	handlers, release := withDelayedEnd(fetch, w.drainTimeout, ErrStopping)
	defer release()
	stopCancels := w.transport.Cancels(w.cancel)

	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-w.closing:
			stop(ErrStopping)
		case <-fetch.Done():
		}
	})
	for range w.slots {
		wg.Go(func() { w.slot(fetch, handlers) })
	}
	wg.Wait()
	w.acks.Wait()
	stopCancels()
	return w.end(context.Cause(fetch))
}

// Close makes Run drain, waits until Run returns, and returns its error. A worker that was
// closed before Run never runs.
func (w *Worker) Close() error {
	w.mu.Lock()
	running := w.running
	if !w.closed {
		w.closed = true
		close(w.closing)
	}
	w.mu.Unlock()
	if !running {
		return nil
	}
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Worker) begin(fail func(error)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running || w.closed {
		return false
	}
	w.running, w.fail = true, fail
	return true
}

// end sets and returns the error of Run, given why it ended.
func (w *Worker) end(cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.owed) > 0 {
		w.err = &UndeliveredError{Attempts: w.owed}
	}
	if code(cause) != "" {
		w.err = errors.Join(fmt.Errorf("cannot take tasks of tool %s: %w", w.tool, cause), w.err)
	}
	return w.err
}

// slot takes and handles one task at a time, so that no task waits in a worker without a
// free slot.
func (w *Worker) slot(fetch, handlers context.Context) {
	var b backoff
	for fetch.Err() == nil {
		task, err := w.transport.Next(fetch)
		switch {
		case err == nil:
			if w.handle(fetch, handlers, task) {
				b = backoff{}
			} else {
				b.wait(fetch) // other workers may be able to run it
			}
		case fetch.Err() != nil:
		case errors.Is(err, message.ErrForbidden): // asking again is pointless
			w.fail(err)
		default:
			w.log.Warn("cannot take tasks, trying again", "err", err)
			b.wait(fetch)
		}
	}
}

// handle checks, claims and runs one task, and delivers its result. It returns false for a
// task that this worker rejects.
func (w *Worker) handle(fetch, handlers context.Context, task toolcall.Task) bool {
	if fetch.Err() != nil {
		w.release(task, 0)
		return true
	}
	if task.Record == nil || task.Record.Call == nil {
		// If it was a real task, the engine offers the call again.
		w.log.Error("dropped a task that names no call")
		w.ack(handlers, task)
		return true
	}
	a, ctx := newAttempt(handlers, w, task)
	defer a.cancel(nil)
	w.track(a)
	defer w.untrack(a)
	if task.End != nil {
		defer task.End(a.id.Claim)
	}

	keys, err := w.keys.forGrant(handlers, task.Record.Call.Attempt.Grant)
	if err != nil {
		a.log.Error("cannot look up the engines' keys, using the previous ones", "err", err)
	}
	now := time.Now()
	refusal := check(task.Record, toolcall.Queue{Tool: w.tool, Route: w.route}, keys, now)
	if space := task.Record.Call.Space; w.space != "" && space != w.space {
		refusal = &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("it is a call of the space %q, and this worker runs those of %q", space, w.space), Hint: "check the worker's token"}
		defer w.fail(refusal) // each further task that it returned would bring a call closer to being blocked
	}
	if refusal == nil {
		refusal = w.approvers.checkSignatures(task.Record, now)
	}
	switch {
	case refusal == nil:
	case errors.Is(refusal, errExpired), errors.Is(refusal, errEarly):
		a.log.Info("this worker does not run a task now", "err", refusal)
	default:
		a.log.Error("this worker cannot run a task", "err", refusal)
	}
	reply, ok := a.start(handlers, refusal)
	switch {
	case !ok:
	case !w.begun.add(task.Record.Call.Attempt.Grant, time.Now()):
		a.log.Error("an engine granted another start of an attempt that has already begun here; it does not run twice")
	default:
		a.run(ctx, handlers, reply)
	}
	return refusal == nil || errors.Is(refusal, errEarly) || errors.Is(refusal, errExpired)
}

func (w *Worker) track(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts[a.id] = a
}

func (w *Worker) untrack(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.attempts, a.id)
}

// cancel handles a cancel message of the engine. It ignores one for another claim.
func (w *Worker) cancel(r toolcall.HeartbeatRequest, reason string) {
	r.V = 1
	w.mu.Lock()
	a := w.attempts[r]
	w.mu.Unlock()
	if a != nil {
		a.cancelFor(reason)
	}
}

// noteUndelivered notes an attempt whose outcome the engine will not learn.
func (w *Worker) noteUndelivered(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owed = append(w.owed, a.id)
}

// Transport is how a Worker reaches the engine. It belongs to one tool and one worker
// name. bus has a transport over NATS, executor/httpwork one over HTTP, executortest one in
// memory. All methods are safe for concurrent use.
//
// The requests return a *message.Error if the engine answered with one. Any
// other error, and CodeUnavailable, means that no engine answered and that the
// request may or may not have arrived: the Worker sends it again.
type Transport interface {
	// Next waits for one task of the tool until ctx ends. The caller has to acknowledge
	// or release the task. Until then, the queue may deliver it again.
	Next(ctx context.Context) (toolcall.Task, error)
	// Start claims an attempt, or refuses it. The same claim sent again gets the
	// same permission. The Worker checks the engine's signature on the reply.
	Start(ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error)
	// Heartbeat reports that the attempt is running. The reply has cancel and stale.
	Heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error)
	// Progress sends a line of progress, best effort.
	Progress(ctx context.Context, r toolcall.ProgressRequest) error
	// Result returns once the engine has stored the result, or the report that nothing
	// ran, or has noted that it arrived too late. Sending it again gets the same answer.
	Result(ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error)
	// Cancels passes the engine's cancel messages to f, which must not block, until
	// stop is called. If one is lost, the next heartbeat brings the cancel.
	Cancels(f func(r toolcall.HeartbeatRequest, reason string)) (stop func())
}

// Defaults of a Worker. With the drain timeout and the time for results after
// it, a worker ends within the 30 s that service managers usually grant.
const (
	DefaultSlots          = 1
	DefaultDrainTimeout   = 20 * time.Second
	DefaultRequestTimeout = 5 * time.Second
)

// resultGrace is how long a stopping worker keeps sending a result after the drain
// timeout, or after the handler returned if that is later.
const resultGrace = 5 * time.Second

// WorkerOption changes a Worker's defaults.
type WorkerOption func(*config)

type config struct {
	name           string
	slots          int
	drainTimeout   time.Duration
	requestTimeout time.Duration // of one try; can be longer than a lease
	log            *slog.Logger
	source         KeySource // nil: the keys never change
	approvers      ApproverSource
	route          string
	space          toolcall.SpaceID // "": that of the transport
	command        bool             // the handler comes directly from a Command
}

// WithName sets the worker's name in its log. The Transport has the name by which the
// engine knows the worker.
func WithName(name string) WorkerOption { return func(c *config) { c.name = name } }

// WithSlots lets the worker run up to n attempts at once. It takes only as many tasks
// from the queue as it has free slots.
func WithSlots(n int) WorkerOption { return func(c *config) { c.slots = n } }

// WithDrainTimeout limits how long a stopping worker waits for running handlers, and for
// starts and results that no engine has answered yet. Then the contexts of handlers end
// with ErrStopping, and results get five more seconds to be delivered. 0 cancels at once.
func WithDrainTimeout(d time.Duration) WorkerOption {
	return func(c *config) { c.drainTimeout = d }
}

// WithKeySource makes the worker follow the engines' keys as they are rotated and
// retired, starting with the keys that NewWorker got.
func WithKeySource(s KeySource) WorkerOption { return func(c *config) { c.source = s } }

// WithApprovers makes the worker run only calls that the people whom the approval request
// requires, and at least one person, have signed with their own keys: then not even an
// engine can forge an approval. The worker refuses calls that a rule allowed without asking.
func WithApprovers(s ApproverSource) WorkerOption {
	return func(c *config) { c.approvers = s }
}

// WithRoute makes the worker take only the calls of the tool that rules send to this
// route; the Transport must be for the same route. Without WithRoute the worker takes only
// calls without a route.
func WithRoute(subject string) WorkerOption { return func(c *config) { c.route = subject } }

// WithSpace makes the worker return the call of any other space, such as one that a replaced token
// brings, and end with an error.
func WithSpace(space toolcall.SpaceID) WorkerOption {
	return func(c *config) { c.space = space }
}

// WithCommand says that the worker's Handler comes directly from a Command. If the Command
// cannot start its program, or the lease has expired before, nothing ran, and the attempt
// is returned. Without this option the call then ends with an error, because a Handler that
// wraps the Command may have acted.
func WithCommand() WorkerOption { return func(c *config) { c.command = true } }

// WithLogger sets the logger. Refusals, outages and lost outcomes are logged as warnings
// and errors, the rest as debug. The default is slog.Default().
func WithLogger(l *slog.Logger) WorkerOption { return func(c *config) { c.log = l } }

func newConfig(opts []WorkerOption) (config, error) {
	c := config{
		slots: DefaultSlots, drainTimeout: DefaultDrainTimeout, requestTimeout: DefaultRequestTimeout,
		log: slog.Default(),
	}
	for _, o := range opts {
		o(&c)
	}
	switch {
	case c.slots < 1:
		return c, fmt.Errorf("%d slots, a worker needs at least 1", c.slots)
	case c.drainTimeout < 0:
		return c, fmt.Errorf("the drain timeout %s is negative", c.drainTimeout)
	case c.log == nil:
		return c, errors.New("the logger is nil, leave the option out for the default")
	}
	return c, nil
}

// Reasons why a Handler's context ended; see context.Cause.
var (
	// ErrCancelled: the engine cancelled the attempt, for example because the reply was
	// interrupted. The cause's text includes the reason, if one was given.
	ErrCancelled = errors.New("cancelled by the engine")
	// ErrStale: this attempt is no longer the current one; another may be
	// running. Stop at once, the result will not count.
	ErrStale = errors.New("the attempt is no longer the current one")
	// ErrDeadline: the attempt ran longer than the tool is permitted to run.
	ErrDeadline = errors.New("the deadline of the attempt passed")
	// ErrStopping: the worker is shutting down and its drain timeout is over.
	ErrStopping = errors.New("the worker is stopping")
)

// Errors that a Handler that acts outside of the worker's process returns, wrapped, when it
// has no result. Only a Worker treats them specially; in a Registry they are results with
// state error.
var (
	// ErrNotBegun: no part of the attempt ran, and none will. The Worker
	// returns the attempt, and the engine offers the call again.
	ErrNotBegun = errors.New("no part of the attempt ran")
	// ErrUnknownOutcome: the effect may or may not have happened. The Worker reports no
	// result. The lease ends, and the engine starts an idempotent tool again under the
	// same key; any other call waits for an operator.
	ErrUnknownOutcome = errors.New("it is not known whether the tool ran")
)

// ErrClosed is returned by Worker.Run if the worker was closed, or was already run once.
var ErrClosed = errors.New("executor: the worker was closed or has run before")

// UndeliveredError says that a worker had to stop before it could deliver the outcome of
// attempts: each of them started, and its lease will expire. The engine then offers
// idempotent calls again and leaves the others to an operator.
type UndeliveredError struct {
	Attempts []toolcall.HeartbeatRequest // in the order in which they were given up
}

// Error names the attempts.
func (e *UndeliveredError) Error() string {
	names := make([]string, len(e.Attempts))
	for i, a := range e.Attempts {
		names[i] = fmt.Sprintf("%s attempt %d", a.Key, a.Attempt)
	}
	return fmt.Sprintf("executor: stopped before an engine accepted the outcome of %s; the lease of each will expire, and then the engine decides", strings.Join(names, ", "))
}

// OutputError says that a tool's output was larger than a result may be. The
// result has state error, keeps as much of the text as fits and ends with this
// error's text.
type OutputError struct {
	Bytes int // size of the whole output; for text, as a JSON string
	Limit int
}

// Error returns a text that says that the tool itself ran.
func (e *OutputError) Error() string {
	return fmt.Sprintf("the tool ran to its end, but its output of %d bytes is over the limit of %d and was cut; "+
		"let the tool store large outputs elsewhere and return a reference", e.Bytes, e.Limit)
}

// PanicError is the error of a Handler that panicked.
type PanicError struct {
	Value any
	Stack []byte // for the log; never part of a result
}

// Error returns the panic's value without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("the tool panicked: %v", e.Value) }

// ExitError says that a command ended with a status other than zero.
type ExitError struct {
	Status string // as the operating system reports it, e.g. "exit status 2" or "signal: killed"
	Code   int    // the exit code, -1 if a signal ended the command
	Stderr string // the last lines of standard error
}

// Error returns the status and the last lines of standard error.
func (e *ExitError) Error() string {
	if e.Stderr == "" {
		return "the command ended with " + e.Status
	}
	return "the command ended with " + e.Status + ": " + e.Stderr
}
