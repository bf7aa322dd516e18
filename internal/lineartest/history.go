// Package lineartest checks that the replies to requests about calls have one order that
// explains each of them, also when faults occur between clients, engines and the journal.
//
//	began := h.Begin()
//	c, err := ann.SubmitResponse(ctx, approve)
//	h.End(client, lineartest.Approve, key, lineartest.Outcome(c, err), began)
//	…
//	err := h.Check()
//
// The model covers how a call was decided, not how it ran. An error of Check contains the
// whole history, and what Tell recorded.
package lineartest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Request is what a client does with a call.
type Request string

// The requests of the model.
const (
	Propose Request = "propose"
	Approve Request = "approve"
	Reject  Request = "reject"
	Read    Request = "read" // reads the journal itself, at the end
)

// Seen is how far a call has come: the state of the model, and what clients see.
type Seen string

// What clients see.
const (
	Absent   Seen = "absent"
	Pending  Seen = "pending" // for exclusive tools: recorded, and decided later by any engine
	Asking   Seen = "asking"
	Approved Seen = "approved"
	Rejected Seen = "rejected"
	// The other outcomes of a request.
	Refused Seen = "refused"     // the call has changed, or does not exist
	Unsent  Seen = "unavailable" // nothing was written
	Unsure  Seen = "unknown"     // it may have taken effect, at any later time
)

// Of returns how far a call has come; c is nil if it is unknown.
func Of(c *toolcall.Call) Seen {
	switch {
	case c == nil:
		return Absent
	case c.State == message.ToolCallPending:
		return Pending
	case c.State == message.ToolCallAsking:
		return Asking
	case c.Cause == string(toolcall.CauseReject):
		return Rejected
	}
	return Approved
}

// Outcome returns what a client learned from the reply to a request.
func Outcome(c *toolcall.Call, err error) Seen {
	switch {
	case err == nil:
		return Of(c)
	case errors.Is(err, message.ErrUnavailable):
		return Unsent
	case errors.Is(err, message.ErrFinished), errors.Is(err, message.ErrState), errors.Is(err, message.ErrDigest), errors.Is(err, message.ErrSuperseded), errors.Is(err, message.ErrNotFound):
		return Refused
	}
	return Unsure
}

// model is one call as its clients may see it.
var model = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[any][]porcupine.Operation{}
		for _, o := range history {
			by[o.Metadata] = append(by[o.Metadata], o)
		}
		var out [][]porcupine.Operation
		for _, ops := range by {
			out = append(out, ops)
		}
		return out
	},
	Init: func() []any { return []any{Absent} },
	Step: func(state, input, output any) []any {
		return step(state.(Seen), input.(request), output.(Seen))
	},
	Equal: func(a, b any) bool { return a == b },
}).ToModel()

// request is what a client did with a call of its tool.
type request struct {
	did       Request
	exclusive bool
}

// step returns the states that may follow; none if the outcome is impossible here.
func step(now Seen, r request, saw Seen) []any {
	var out []any
	for _, from := range meanwhile(now) {
		for _, next := range follow(from, r) {
			switch saw {
			case Unsent:
				next = from
			case Unsure:
				out = append(out, from)
			case Refused: // a response to a call that waits for one is accepted
				if r.did == Propose || from == Asking {
					continue
				}
				next = from
			default:
				if saw != next {
					continue
				}
			}
			out = append(out, next)
		}
	}
	return out
}

// meanwhile returns the states that a call may have reached without a request, because
// engines decide what is recorded.
func meanwhile(now Seen) []Seen {
	if now == Pending {
		return []Seen{Pending, Asking}
	}
	return []Seen{now}
}

// follow returns the states to which a request leads.
func follow(now Seen, r request) []Seen {
	switch {
	case r.did == Propose && now == Absent && r.exclusive: // an engine records the call before it decides
		return []Seen{Pending, Asking}
	case r.did == Propose && now == Absent:
		return []Seen{Asking}
	case r.did == Approve && now == Asking:
		return []Seen{Approved}
	case r.did == Reject && now == Asking:
		return []Seen{Rejected}
	}
	return []Seen{now}
}

// forever is the return time of a request with an unknown outcome.
const forever = int64(1) << 40

// checkTime bounds one check, whose cost grows fast with the number of unknown outcomes.
const checkTime = time.Minute

// History records what clients saw. Its methods may be called from many goroutines.
type History struct {
	// Exclusive reports whether the tool of a call must run alone; nil means that none must.
	// Set it before the first request.
	Exclusive func(toolcall.Key) bool

	mu    sync.Mutex // guards the fields below
	clock int64
	ops   []porcupine.Operation
	story []string
}

func (h *History) tick() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// Begin returns the time before a request is sent.
func (h *History) Begin() int64 { return h.tick() }

// End records what a client saw of a call, with the time from Begin.
func (h *History) End(client int, did Request, call toolcall.Key, saw Seen, began int64) {
	ended := h.tick()
	if saw == Unsure {
		ended = forever
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: request{did, h.Exclusive != nil && h.Exclusive(call)}, Output: saw, Call: began, Return: ended, Metadata: call})
}

// Tell records anything else that happened.
func (h *History) Tell(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.story = append(h.story, fmt.Sprintf("%3d  ", h.clock)+fmt.Sprintf(format, args...))
}

// Count adds the outcomes to total.
func (h *History) Count(total map[Seen]int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.ops {
		total[o.Output.(Seen)]++
	}
}

// Check returns an error with the whole history if no order explains the outcomes.
func (h *History) Check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch porcupine.CheckOperationsTimeout(model, h.ops, checkTime) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no order of the replies was found within %s\n%s", checkTime, h.transcript())
	default:
		return fmt.Errorf("the replies have no order that explains them\n%s", h.transcript())
	}
}

// Transcript returns what happened, for a failure.
func (h *History) Transcript() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.transcript()
}

func (h *History) transcript() string {
	ops := slices.SortedFunc(slices.Values(h.ops), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	b := new(strings.Builder)
	for _, line := range h.story {
		fmt.Fprintln(b, line)
	}
	for _, o := range ops {
		fmt.Fprintf(b, "%3d to %3d  client %d  %s %v: %s\n", o.Call, min(o.Return, 9999), o.ClientId, o.Input.(request).did, o.Metadata.(toolcall.Key).Call, o.Output)
	}
	return b.String()
}
