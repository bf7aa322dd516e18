package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/capacity"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// maxHold is how long the engine holds a waiting request before the client has to ask
// again.
const maxHold = 30 * time.Second

// waitForCalls holds the request until the wait for all calls is over or the time is up.
func (q *reader) waitForCalls(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	reply := toolcall.Key{Space: q.space, Session: r.Session, Reply: r.Reply}
	if err := checkWait(reply, r.Calls); err != nil {
		return toolcall.WaitReply{}, err
	}
	switch r.Until {
	case "":
		r.Until = toolcall.UntilFinished
	case toolcall.UntilFinished, toolcall.UntilParked, toolcall.UntilRunnable:
	default:
		return toolcall.WaitReply{}, &message.Error{Code: message.CodeInvalid, What: "until is " + string(r.Until), Hint: "use finished, parked or runnable"}
	}
	hold := maxHold
	if r.TimeoutMS > 0 {
		hold = min(hold, time.Duration(r.TimeoutMS)*time.Millisecond)
	}
	if len(r.Calls) == 0 {
		if err := q.store.Freshen(ctx, reply.SessionKey()); err != nil {
			return toolcall.WaitReply{}, err
		}
	}
	var out toolcall.WaitReply
	err := q.holdRequest(ctx, reply, hold, func() (bool, error) {
		calls, err := q.callsToWaitFor(ctx, reply, r.Calls)
		if err == nil && len(calls) == 0 { // done, if the reply exists
			err = q.store.CheckReply(ctx, reply)
		}
		out = toolcall.WaitReply{Calls: calls, Done: err == nil && !slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return !q.isWaitOver(c, r.Until) })}
		return out.Done, err
	})
	return out, err
}

// holdRequest holds a request until look reports that it is done or fails, or the time is
// up. It calls look at once and after each change of the reply or session key.
func (c *core) holdRequest(ctx context.Context, key toolcall.Key, most time.Duration, look func() (done bool, err error)) error {
	timer := time.After(most)
	var moved <-chan struct{} // set only if the first look does not end the wait
	leave := func() {}
	defer func() { leave() }()
	for {
		if done, err := look(); err != nil {
			return err
		} else if done {
			return nil
		}
		if moved == nil {
			moved, leave = c.view.Watch(key)
			continue
		}
		resume, over := capacity.Rest(ctx), false
		select {
		case <-moved:
			moved = nil
		case <-timer:
			over = true
		case <-ctx.Done():
			return givenUpError(context.Cause(ctx))
		case <-c.store.Following().Done():
			return c.blindError()
		}
		if err := resume(); err != nil {
			return givenUpError(err)
		} else if over {
			return nil
		}
	}
}

func (q *reader) callsToWaitFor(ctx context.Context, reply toolcall.Key, ids []message.CallID) ([]*toolcall.Call, error) {
	if len(ids) == 0 {
		if calls := q.view.CallsOf(reply); len(calls) > 0 && q.view.HasAllOf(reply) { // read first: the view may forget some meanwhile
			return calls, nil
		}
		all, err := q.store.SessionCalls(ctx, reply.SessionKey())
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(c *toolcall.Call) bool { return c.Reply != reply.Reply })
		slices.SortFunc(all, inOrderOfProposal)
		return all, nil
	}
	out := make([]*toolcall.Call, 0, len(ids))
	for _, id := range ids {
		key := reply
		key.Call = id
		c, err := q.store.Call(ctx, key)
		if errors.Is(err, message.ErrArchived) {
			if found, rerr := q.store.CallOrNil(ctx, key); found != nil || rerr != nil {
				c, err = found, rerr
			}
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func (q *reader) isWaitOver(c *toolcall.Call, until toolcall.WaitUntil) bool {
	phase := c.Phase()
	switch {
	case phase == toolcall.PhaseFinished:
		return true
	case until == toolcall.UntilRunnable:
		return (phase == toolcall.PhaseQueued || phase == toolcall.PhaseRunning) && c.Placement == toolcall.PlaceExternal
	case until == toolcall.UntilFinished:
		return false
	}
	switch phase {
	case toolcall.PhaseWaiting:
		return q.batches.isStuck(c)
	case toolcall.PhaseReady, toolcall.PhaseRunning, toolcall.PhaseRetrying:
		return c.State == message.ToolCallSubmitted // a worker has or had the call
	default:
		return true
	}
}

// checkWait checks the ids of a wait before they are used for lookups.
func checkWait(reply toolcall.Key, calls []message.CallID) error {
	if err := checkReplyKey(reply); err != nil {
		return err
	}
	if len(calls) > toolcall.MaxCallsPerTurn {
		return &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("%d calls in one wait, the limit is %d", len(calls), toolcall.MaxCallsPerTurn), Hint: "name none to wait for the whole reply"}
	}
	for _, id := range calls {
		key := reply
		key.Call = id
		if err := key.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// givenUpError is the error for a request that its sender or its server canceled.
func givenUpError(cause error) error {
	return &message.Error{Code: message.CodeUnavailable, What: "the request was canceled", Hint: "try again", Err: cause}
}
