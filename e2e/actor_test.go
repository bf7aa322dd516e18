package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/e2e/internal/effect"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The principals of these tests.
const (
	botName      = "bot"
	approverName = "alice"
	operatorName = "omar"
)

// requestLimit bounds the first try of a request, because engines die while they handle it.
// Later tries get longer, up to maxLimit: on an overloaded machine even a running engine may
// need that long.
const (
	requestLimit = 500 * ms
	maxLimit     = 10 * time.Second
)

// client is one connection of one principal. Its methods retry until there is a final answer, as
// programs that use askance do.
type client struct {
	engine.Client
	w    *world
	dice *dice
}

// ack is an acknowledged change, which the journal must have.
type ack struct {
	op   string
	call *toolcall.Call // as it was returned
}

func (w *world) acknowledged(op string, calls ...*toolcall.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range calls {
		w.acked = append(w.acked, ack{op, c})
	}
}

// lastAck is the highest sequence that was acknowledged.
func (w *world) lastAck() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := uint64(0)
	for _, a := range w.acked {
		last = max(last, a.call.Seq)
	}
	return last
}

// temporary reports whether the same request may succeed later.
func temporary(err error) bool {
	return mayStillRun(err) || errors.Is(err, message.ErrUnavailable) || errors.Is(err, message.ErrUnknownOutcome) || errors.Is(err, context.DeadlineExceeded)
}

// mayStillRun reports whether an engine refuses to run a call again because it has not yet listened
// for a whole lease without heartbeats.
func mayStillRun(err error) bool {
	return errors.Is(err, message.ErrState) && strings.Contains(err.Error(), "may still run it")
}

// persist sends a request until it has a final answer. limit is for the first try, and tries
// counts from 1.
func persist[T any](limit time.Duration, what string, f func(ctx context.Context) (T, error)) (out T, tries int, err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	pause := time.NewTicker(25 * time.Millisecond)
	defer pause.Stop()
	for tries = 1; ; tries++ {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		out, err = f(ctx)
		cancel()
		if err == nil || !temporary(err) {
			return out, tries, err
		}
		select {
		case <-deadline.C: // even if a tick is also due
			return out, tries, fmt.Errorf("%s: no engine answers: %w", what, err)
		default:
		}
		<-pause.C
		if tries%2 == 0 {
			limit = max(limit, min(2*limit, maxLimit))
		}
	}
}

// propose proposes calls and notes the acknowledgement.
func (c client) propose(r toolcall.ProposeRequest) ([]*toolcall.Call, error) {
	reply, _, err := persist(requestLimit, "propose "+string(r.Reply), func(ctx context.Context) (toolcall.ProposeReply, error) { return c.Propose(ctx, r) })
	if err == nil && len(reply.Calls) != len(r.Calls) {
		err = fmt.Errorf("propose %s: %d calls were proposed, %d came back", r.Reply, len(r.Calls), len(reply.Calls))
	}
	if err == nil {
		c.w.acknowledged("propose", reply.Calls...)
	}
	return reply.Calls, err
}

// answer answers the call's approval request. It is no error if the request is already over: an
// earlier try may have been accepted, or the list from which the request came lagged behind.
func (c client) answer(call *toolcall.Call, resp toolcall.Response) error {
	resp.Key, resp.Digest = call.Key, call.Digest
	got, _, err := persist(requestLimit, "answer "+call.Key.String(), func(ctx context.Context) (*toolcall.Call, error) { return c.SubmitResponse(ctx, resp) })
	if err == nil {
		c.w.acknowledged("answer", got)
		return nil
	}
	if over(err) && c.w.answered(call) {
		return nil
	}
	return fmt.Errorf("answer %s: %w", call.Key, err)
}

// answered waits until the journal shows that the call's approval request is no longer open.
func (w *world) answered(asked *toolcall.Call) bool {
	return w.obs.until(func() bool {
		now := w.obs.call(asked.Key)
		return now != nil && (now.State != message.ToolCallAsking || now.Digest != asked.Digest)
	})
}

// resolve states the outcome of a blocked call. It is no error if the call is no longer blocked:
// a late result from its owner also resolves a call.
func (c client) resolve(call *toolcall.Call, outcome toolcall.Outcome) error {
	r := toolcall.ResolveRequest{Key: call.Key, Attempt: call.Attempt.Number, Outcome: outcome, Output: "resolved", Note: "by looking at the effect file"}
	got, _, err := persist(requestLimit, "resolve "+call.Key.String(), func(ctx context.Context) (*toolcall.Call, error) { return c.Resolve(ctx, r) })
	if err == nil {
		c.w.acknowledged("resolve", got)
		return nil
	}
	if over(err) && c.w.movedOn(call) {
		return nil
	}
	return fmt.Errorf("resolve %s as %s: %w", call.Key, outcome, err)
}

// movedOn waits until the journal shows that a blocked call is no longer blocked, or is blocked
// in a later attempt.
func (w *world) movedOn(held *toolcall.Call) bool {
	return w.obs.until(func() bool {
		now := w.obs.call(held.Key)
		return now.Records > held.Records && (now.Blocked == toolcall.NotBlocked || now.Attempt.Number > held.Attempt.Number)
	})
}

// over reports whether an error says that the call has moved on.
func over(err error) bool {
	return errors.Is(err, message.ErrFinished) || errors.Is(err, message.ErrState) || errors.Is(err, message.ErrDigest) || errors.Is(err, message.ErrSuperseded)
}

// list reads all pages.
func (c client) list(r toolcall.ListRequest) ([]*toolcall.Call, error) {
	var out []*toolcall.Call
	for {
		page, _, err := persist(requestLimit, "list", func(ctx context.Context) (toolcall.ListReply, error) { return c.List(ctx, r) })
		if err != nil {
			return nil, err
		}
		out = append(out, page.Calls...)
		if page.Next == 0 {
			return out, nil
		}
		r.After = page.Next
	}
}

// ready waits until an engine answers.
func (c client) ready() error {
	_, _, err := persist(requestLimit, "info", func(ctx context.Context) (toolcall.InfoReply, error) {
		c.w.mind()
		return c.Info(ctx)
	})
	return err
}

// block makes a proposed call.
func (w *world) block(id, tool string, in effect.Input) message.ToolCallBlock {
	w.t.Helper()
	raw, err := strictjson.Marshal(in)
	if err != nil {
		w.t.Fatal(err)
	}
	return message.ToolCallBlock{ID: message.CallID(id), Name: tool, Input: string(raw)}
}

func proposal(session, reply string, calls ...message.ToolCallBlock) toolcall.ProposeRequest {
	return toolcall.ProposeRequest{Session: message.SessionID(session), Reply: message.ReplyID(reply), Agent: "e2e", Calls: calls}
}

func key(session, reply, call string) toolcall.Key {
	return toolcall.Key{Space: space, Session: message.SessionID(session), Reply: message.ReplyID(reply), Call: message.CallID(call)}
}

// describe describes a call in one line, for failures.
func describe(c *toolcall.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s (%s), %d event records, attempt %d", c.Key, c.Tool, c.State, c.Cause, c.Records, c.Attempt.Number)
	if c.Started() {
		fmt.Fprintf(&b, " of %s", c.Attempt.Worker)
	}
	if c.Blocked != toolcall.NotBlocked {
		fmt.Fprintf(&b, ", held: %s", c.Blocked)
	}
	if !c.RetryAt.IsZero() {
		fmt.Fprintf(&b, ", again at %s", c.RetryAt.Format(time.StampMilli))
	}
	if c.Behind != "" {
		fmt.Fprintf(&b, ", behind %s", c.Behind)
	}
	return b.String()
}
