package executor

import (
	"fmt"
	"log/slog"
	"time"
)

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
type WorkerOption interface{ apply(*config) }

type config struct {
	name           string
	slots          int
	drainTimeout   time.Duration
	requestTimeout time.Duration // of one try; can be longer than a lease
	log            *slog.Logger
	source         KeySource // nil: the keys never change
	approvers      ApproverSource
	route          string
	command        bool // the handler comes directly from a Command
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

// WithName sets the worker's name in its log. The Transport has the name by which the
// engine knows the worker.
func WithName(name string) WorkerOption { return option(func(c *config) { c.name = name }) }

// WithSlots lets the worker run up to n attempts at once. It takes only as many tasks
// from the queue as it has free slots.
func WithSlots(n int) WorkerOption { return option(func(c *config) { c.slots = n }) }

// WithDrainTimeout limits how long a stopping worker waits for running handlers, and for
// starts and results that no engine has answered yet. Then the contexts of handlers end
// with ErrStopping, and results get five more seconds to be delivered. 0 cancels at once.
func WithDrainTimeout(d time.Duration) WorkerOption {
	return option(func(c *config) { c.drainTimeout = d })
}

// WithKeySource makes the worker follow the engines' keys as they are rotated and
// retired, starting with the keys that NewWorker got.
func WithKeySource(s KeySource) WorkerOption { return option(func(c *config) { c.source = s }) }

// WithApprovers makes the worker run only calls that the people whom the approval request
// requires, and at least one person, have signed with their own keys: then not even an
// engine can forge an approval. The worker refuses calls that a rule allowed without asking.
func WithApprovers(s ApproverSource) WorkerOption {
	return option(func(c *config) { c.approvers = s })
}

// WithRoute makes the worker take only the calls of the tool that rules send to this
// route; the Transport must be for the same route. Without WithRoute the worker takes only
// calls without a route.
func WithRoute(subject string) WorkerOption { return option(func(c *config) { c.route = subject }) }

// WithCommand says that the worker's Handler comes directly from a Command. If the Command
// cannot start its program, or the lease has expired before, nothing ran, and the attempt
// is returned. Without this option the call then ends with an error, because a Handler that
// wraps the Command may have acted.
func WithCommand() WorkerOption { return option(func(c *config) { c.command = true }) }

// WithLogger sets the logger. Refusals, outages and lost outcomes are logged as warnings
// and errors, the rest as debug. The default is slog.Default().
func WithLogger(l *slog.Logger) WorkerOption { return option(func(c *config) { c.log = l }) }

func newConfig(opts []WorkerOption) (config, error) {
	c := config{
		slots: DefaultSlots, drainTimeout: DefaultDrainTimeout, requestTimeout: DefaultRequestTimeout,
		log: slog.Default(),
	}
	for _, o := range opts {
		o.apply(&c)
	}
	switch {
	case c.slots < 1:
		return c, fmt.Errorf("%d slots, a worker needs at least 1", c.slots)
	case c.drainTimeout < 0:
		return c, fmt.Errorf("the drain timeout %s is negative", c.drainTimeout)
	case c.log == nil:
		return c, fmt.Errorf("the logger is nil, leave the option out for the default")
	}
	return c, nil
}
