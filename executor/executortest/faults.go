package executortest

import (
	"context"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Op names a request of the worker protocol.
type Op string

// The requests.
const (
	OpNext      Op = "next"
	OpAck       Op = "ack"
	OpStart     Op = "start"
	OpHeartbeat Op = "heartbeat"
	OpProgress  Op = "progress"
	OpResult    Op = "result"
)

// Request is one request as the engine's network sees it, even if it is lost.
type Request struct {
	Op      Op
	N       int // 1, 2, … within the Op
	At      time.Time
	Key     toolcall.Key // none for OpNext
	Attempt int
	Claim   string
	Refuse  string // OpStart
	Line    int    // OpProgress
	Text    string // OpProgress
	ClockMS int64  // OpHeartbeat
	Fault   Fault  // what went wrong with it; not yet set in the function passed to Faults
}

// Fault is what goes wrong with one request.
type Fault int

// The faults. None: the request is answered. Down: no engine is running, and the worker
// learns that at once. Silent: the request is lost, and the worker waits in vain.
// ReplyLost: the engine executes the request, but the worker waits in vain.
const (
	None Fault = iota
	Down
	Silent
	ReplyLost
)

// Faults makes f decide what goes wrong with each request from now on; nil ends that. f is
// called with the engine locked and must not call it.
func (e *Engine) Faults(f func(Request) Fault) { e.update(func() { e.faults = f }) }

// Errors makes the engine answer a request with f's error, if it returns one, from now on;
// nil ends that. Unlike with Faults, the worker gets an engine's answer. f is called with
// the engine locked and must not call it.
func (e *Engine) Errors(f func(Request) *message.Error) { e.update(func() { e.errors = f }) }

// Requests returns the requests of one Op that the worker has sent so far.
func (e *Engine) Requests(op Op) []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.requests), func(r Request) bool { return r.Op != op })
}

// Lines returns the lines of progress that arrived for a call, in the order of arrival.
func (e *Engine) Lines(k toolcall.Key) []string {
	lines := []string{}
	for _, r := range e.Requests(OpProgress) {
		if r.Key == k && (r.Fault == None || r.Fault == ReplyLost) {
			lines = append(lines, r.Text)
		}
	}
	return lines
}

func answer[R any](e *Engine, r Request, do func() (R, error)) (R, error) {
	if e.errors != nil {
		if err := e.errors(r); err != nil {
			var none R
			return none, err
		}
	}
	return do()
}

// network records a request and lets do answer it, unless a fault says
// otherwise.
func network[R any](ctx context.Context, e *Engine, r Request, do func() (R, error)) (reply R, err error) {
	var fault Fault
	e.update(func() {
		r.At, r.N = time.Now(), 1
		for _, old := range e.requests {
			if old.Op == r.Op {
				r.N++
			}
		}
		if e.faults != nil {
			fault = e.faults(r)
		}
		r.Fault = fault
		e.requests = append(e.requests, r)
		if fault == None || fault == ReplyLost {
			reply, err = answer(e, r, do)
		}
	})
	var none R
	switch fault {
	case None:
		return reply, err
	case Down:
		return none, &message.Error{Code: message.CodeUnavailable, Op: string(r.Op), What: "no engine answers", Hint: "try again later"}
	default:
		<-ctx.Done()
		return none, context.Cause(ctx)
	}
}
