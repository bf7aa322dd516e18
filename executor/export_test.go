package executor

import "time"

// WithRequestTimeout bounds one try of a request to the engine.
func WithRequestTimeout(d time.Duration) WorkerOption {
	return func(c *config) { c.requestTimeout = d }
}
