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

// resultGrace is how long a stopping worker goes on sending a result after the
// drain timeout, or after the handler returned if that is later.
const resultGrace = 5 * time.Second

// WorkerOption changes a Worker's defaults.
type WorkerOption interface{ apply(*config) }

type config struct {
	name           string
	slots          int
	drainTimeout   time.Duration
	requestTimeout time.Duration // of one try; it may be longer than a lease
	log            *slog.Logger
	source         KeySource // nil: the keys never change
	approvers      ApproverSource
	route          string
	command        bool // the handler is a Command's own
}

type option func(*config)

func (o option) apply(c *config) { o(c) }

// WithName names the worker in its log. The name that the engine knows it by
// belongs to the Transport.
func WithName(name string) WorkerOption { return option(func(c *config) { c.name = name }) }

// WithSlots runs up to n attempts at once. It takes only as many tasks from
// the queue as it has free slots.
func WithSlots(n int) WorkerOption { return option(func(c *config) { c.slots = n }) }

// WithDrainTimeout bounds how long a stopping worker waits for what it runs
// and for starts and results that no engine has answered yet. After it the
// contexts of handlers end with ErrStopping; results that are there by then
// get five more seconds. 0 cancels at once.
func WithDrainTimeout(d time.Duration) WorkerOption {
	return option(func(c *config) { c.drainTimeout = d })
}

// WithKeySource has the worker follow the engines' keys as they are rotated and
// retired, beginning with those that it was made with.
func WithKeySource(s KeySource) WorkerOption { return option(func(c *config) { c.source = s }) }

// WithApprovers has the worker run nothing but what the people whom the approval request
// requires, and at least one, have signed with their own keys: then not even an
// engine can make up an approval. What a rule allowed without asking it refuses.
func WithApprovers(s ApproverSource) WorkerOption {
	return option(func(c *config) { c.approvers = s })
}

// WithRoute has the worker take the calls that rules route to a subject, and
// no others of the tool; the Transport must be one of that route. Without it the
// worker takes none that is routed.
func WithRoute(subject string) WorkerOption { return option(func(c *config) { c.route = subject }) }

// WithCommand says that the worker's Handler is a Command's own, with nothing
// around it. When the Command cannot start its program, or the lease has passed
// before, nothing ran, and the attempt is given back. Without this option the
// call then ends with an error, as a Handler around the Command may have acted.
func WithCommand() WorkerOption { return option(func(c *config) { c.command = true }) }

// WithLogger takes the log: refusals, outages and lost outcomes as warnings
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
