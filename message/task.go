package message

import (
	"context"
	"time"
)

// Task is a submitted event record in the hands of a worker. It is delivered at
// least once: a task that is neither acknowledged nor released in time goes
// to another worker, or to the same again. Acknowledging proves nothing; only
// the engine's answer to a start says whose attempt it is.
type Task struct {
	Record    *EventRecord
	Delivered int // how often it was handed out, this time included; 1, 2, …
	// Ack takes the task off the queue for good. It returns when the queue has
	// confirmed that.
	Ack func(context.Context) error
	// Release gives it back, to be delivered again after delay at the earliest.
	Release func(delay time.Duration) error
}
