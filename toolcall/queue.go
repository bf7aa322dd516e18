package toolcall

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/askance-dev/askance/message"
)

// MaxRouteBytes bounds a route.
const MaxRouteBytes = 256

// Queue identifies where tasks wait: all remote calls of a tool that no rule routes, or
// those that rules route to one subject. A worker serves queues and sees nothing of other
// queues. The zero Queue means none.
type Queue struct {
	Tool  string
	Route string // the executor.subject of the matching rules, if any
}

// String is for people and logs.
func (l Queue) String() string {
	if l.Route == "" {
		return strconv.Quote(l.Tool)
	}
	return strconv.Quote(l.Tool) + " on " + strconv.Quote(l.Route)
}

// Queues returns the queue of every tool with every route, or without a route if there are
// none.
func Queues(tools, routes []string) []Queue {
	if len(routes) == 0 {
		routes = []string{""}
	}
	var out []Queue
	for _, t := range tools {
		for _, r := range routes {
			out = append(out, Queue{Tool: t, Route: r})
		}
	}
	return out
}

// CheckRoute checks that calls can be routed to a subject of that name: 1 to 256 bytes of
// UTF-8. The error has CodeInvalid.
func CheckRoute(route string) error {
	if route == "" || len(route) > MaxRouteBytes || !utf8.ValidString(route) {
		return &message.Error{Code: message.CodeInvalid, Op: "check route", What: fmt.Sprintf("calls cannot be routed to the subject %.80q", route), Hint: "use a subject of at most 256 bytes, for example exec.payments"}
	}
	return nil
}

// Queue is the queue from which workers take the call if it runs remotely.
func (c *Call) Queue() Queue {
	l := Queue{Tool: c.Tool}
	if c.Decision != nil {
		l.Route = c.Decision.Route
	}
	return l
}

// Task is a submitted event record that was handed to a worker. It is delivered at least
// once: a task that is neither acknowledged nor released in time goes to another worker,
// or to the same one again. Acknowledging proves nothing; only the engine's answer to a
// start says whose attempt it is.
type Task struct {
	Record    *EventRecord
	ID        string // for StartRequest.Task; "" if only Ack removes the task
	Delivered int    // how often it was delivered, including this time; 1, 2, …
	// Ack removes the task from the queue. It returns once the queue has confirmed that.
	Ack func(context.Context) error
	// Release returns the task to the queue, to be delivered again after delay at the earliest.
	Release func(delay time.Duration) error
}

// Invocation is one attempt of an allowed call as passed to what runs it: a Go function in
// the engine's process, or the same function in a worker.
type Invocation struct {
	// Call is the call's full state; read only. Its Attempt.Number says which attempt this
	// is, and Attempt.Claim who owns it.
	Call *Call
	// Input is the raw JSON to run with, byte for byte as decided.
	Input json.RawMessage
	// IdempotencyKey is the same for every attempt of the call, see
	// [Key.IdempotencyKey].
	IdempotencyKey string
}
