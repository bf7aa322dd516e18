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

// Queue names where tasks wait: all remote calls of a tool that no rule
// routes, or those that rules route to one subject. A worker serves queues; of
// other queues it sees nothing. The zero Queue is none.
type Queue struct {
	Tool  string
	Route string // the executor.subject of the rules that matched; "": none
}

// String is for people and logs.
func (l Queue) String() string {
	if l.Route == "" {
		return strconv.Quote(l.Tool)
	}
	return strconv.Quote(l.Tool) + " on " + strconv.Quote(l.Route)
}

// Queues are those of every tool with every route, or the tools' own where there
// are no routes.
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

// CheckRoute says whether calls can be routed to a subject of that name: 1 to
// 256 bytes of UTF-8. The error has CodeInvalid.
func CheckRoute(route string) error {
	if route == "" || len(route) > MaxRouteBytes || !utf8.ValidString(route) {
		return &message.Error{Code: message.CodeInvalid, Op: "check route", What: fmt.Sprintf("%.80q is not a subject that calls can be routed to", route), Hint: "name one of at most 256 bytes, for example exec.payments"}
	}
	return nil
}

// Queue is where workers take the call if it runs remotely.
func (c *Call) Queue() Queue {
	l := Queue{Tool: c.Tool}
	if c.Decision != nil {
		l.Route = c.Decision.Route
	}
	return l
}

// Task is a submitted event record in the hands of a worker. It is delivered at
// least once: a task that is neither acknowledged nor released in time goes
// to another worker, or to the same again. Acknowledging proves nothing; only
// the engine's answer to a start says whose attempt it is.
type Task struct {
	Record    *EventRecord
	ID        string // for StartRequest.Task; "": only Ack takes it off
	Delivered int    // how often it was handed out, this time included; 1, 2, …
	// Ack takes the task off the queue for good. It returns when the queue has
	// confirmed that.
	Ack func(context.Context) error
	// Release gives it back, to be delivered again after delay at the earliest.
	Release func(delay time.Duration) error
}

// Invocation is one attempt of an allowed call as it reaches what runs it: a
// Go function in the engine's process, or the same function inside a worker.
type Invocation struct {
	// Call is the call's full state; read only. Its Attempt.Number says which
	// attempt this is, Attempt.Claim who owns it.
	Call *Call
	// Input is the raw JSON to run with, byte for byte what was decided.
	Input json.RawMessage
	// IdempotencyKey is the same for every attempt of the call, see
	// [Key.IdempotencyKey].
	IdempotencyKey string
}
