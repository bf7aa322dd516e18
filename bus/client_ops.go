package bus

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nuid"
)

// Propose implements engine.Client.
func (c *Client) Propose(ctx context.Context, r message.ProposeRequest) (message.ProposeReply, error) {
	rep, _, err := do[message.ProposeReply](ctx, c, OpPropose, r, 0)
	if tooLargeReply(err) {
		rep.Calls, err = c.oneByOne(ctx, r.Session, r.Reply, callIDs(r.Calls))
	}
	return rep, err
}

// tooLargeReply reports whether the request was carried out and only its reply
// did not fit.
func tooLargeReply(err error) bool {
	var e *message.Error
	return errors.As(err, &e) && e.Code == message.CodeTooLarge && e.Op == opReply
}

func callIDs(calls []message.ToolCallBlock) []message.CallID {
	out := make([]message.CallID, len(calls))
	for i, c := range calls {
		out[i] = c.ID
	}
	return out
}

// oneByOne reads calls that do not fit one reply together.
func (c *Client) oneByOne(ctx context.Context, session message.SessionID, reply message.ReplyID, ids []message.CallID) ([]*message.Call, error) {
	out := make([]*message.Call, 0, len(ids))
	for _, id := range ids {
		rep, err := c.List(ctx, message.ListRequest{Session: session, Reply: reply, Call: id, All: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(rep.Calls) != 1 {
			return nil, &message.Error{Code: message.CodeInternal, Op: "list", What: "the call " + quote(string(id)) + " was just there and is not listed"}
		}
		out = append(out, rep.Calls[0])
	}
	return out, nil
}

// Wait implements engine.Client. It asks again every five seconds until the wait
// is over; without TimeoutMS for 25 seconds, as long as an engine waits.
func (c *Client) Wait(ctx context.Context, r message.WaitRequest) (message.WaitReply, error) {
	if r.TimeoutMS <= 0 {
		r.TimeoutMS = maxHeld.Milliseconds()
	}
	end := time.Now().Add(time.Duration(r.TimeoutMS) * time.Millisecond)
	for {
		hold := untilHold(end)
		r.TimeoutMS = max(1, hold.Milliseconds())
		rep, _, err := do[message.WaitReply](ctx, c, OpWait, r, hold)
		if tooLargeReply(err) && len(r.Calls) > 0 {
			rep.Calls, err = c.oneByOne(ctx, r.Session, r.Reply, r.Calls)
			rep.Done = err == nil && allFinished(rep.Calls)
		}
		if err != nil || rep.Done || !time.Now().Before(end) {
			return rep, err
		}
	}
}

// untilHold is how long an engine may hold a request that ends at end.
func untilHold(end time.Time) time.Duration {
	return min(holdFor, max(0, time.Until(end)))
}

func allFinished(calls []*message.Call) bool {
	for _, c := range calls {
		if c.Open() {
			return false
		}
	}
	return true
}

// Emit implements engine.Client.
func (c *Client) Emit(ctx context.Context, r message.EmitRequest) (message.EmitReply, error) {
	r.Events = withIDs(r.Events)
	rep, _, err := do[message.EmitReply](ctx, c, OpEmit, r, 0)
	return rep, err
}

// withIDs completes events that have no id, so that sending them again can be
// recognised. What cannot be read is left for the engine to refuse.
func withIDs(events []message.RawJSON) []message.RawJSON {
	out := make([]message.RawJSON, len(events))
	for i, raw := range events {
		out[i] = raw
		ev, err := message.DecodeEvent(raw)
		if err != nil {
			continue
		}
		if full, err := strictjson.Marshal(ev); err == nil {
			out[i] = full
		}
	}
	return out
}

// Events implements engine.Client. With WaitMS it asks again every five seconds
// until there is something or the time is over.
func (c *Client) Events(ctx context.Context, r message.EventsRequest) (message.EventsReply, error) {
	end := time.Now().Add(time.Duration(r.WaitMS) * time.Millisecond)
	waits := r.WaitMS > 0
	for {
		hold := untilHold(end)
		if waits {
			r.WaitMS = max(1, hold.Milliseconds())
		}
		rep, _, err := do[message.EventsReply](ctx, c, OpEvents, r, hold)
		if err != nil || len(rep.Events) > 0 || !waits || !time.Now().Before(end) {
			return rep, err
		}
		r.After = rep.Next
	}
}

// Report implements engine.Client.
func (c *Client) Report(ctx context.Context, r message.ReportRequest) (*message.Call, error) {
	call, _, err := do[*message.Call](ctx, c, OpReport, r, 0)
	return call, err
}

// Answer implements engine.Client.
func (c *Client) Answer(ctx context.Context, a message.Answer) (*message.Call, error) {
	if a.ID == "" {
		a.ID = nuid.Next() // what is sent again is known by it
	}
	call, unsure, err := do[*message.Call](ctx, c, OpAnswer, a, 0)
	var e *message.Error
	if unsure && errors.As(err, &e) && voted(e.Call, c.by.Name, a) {
		return e.Call, nil // the first sending won; only its answer was lost
	}
	return call, err
}

// voted reports whether this very answer is among the call's votes.
func voted(call *message.Call, name string, a message.Answer) bool {
	if call == nil {
		return false
	}
	for _, v := range call.Votes {
		if a.ID != "" && v.ID == a.ID && v.By.Name == name {
			return true
		}
		if v.By.Role == message.RoleApprover && v.By.Name == name && v.Digest == a.Digest && v.Kind == a.Kind && (v.Kind != message.AnswerReject || v.Feedback == a.Feedback) && v.Note == a.Note && v.To == a.To && sameInput(call, v, a) {
			return true
		}
	}
	return false
}

// sameInput reports whether a vote was for the arguments that an answer gives.
// Another screen of the same person may have edited them in another way.
func sameInput(call *message.Call, v message.Vote, a message.Answer) bool {
	if a.Input == nil {
		return !v.Edited
	}
	return call.Input == *a.Input
}

// Interrupt implements engine.Client.
func (c *Client) Interrupt(ctx context.Context, r message.InterruptRequest) (message.InterruptReply, error) {
	rep, _, err := do[message.InterruptReply](ctx, c, OpInterrupt, r, 0)
	return rep, err
}

// Settle implements engine.Client.
func (c *Client) Settle(ctx context.Context, r message.SettleRequest) (*message.Call, error) {
	call, _, err := do[*message.Call](ctx, c, OpSettle, r, 0)
	return call, err
}

// Revoke implements engine.Client.
func (c *Client) Revoke(ctx context.Context, r message.RevokeRequest) (*message.Call, error) {
	call, _, err := do[*message.Call](ctx, c, OpRevoke, r, 0)
	return call, err
}

// List implements engine.Client. A page can be shorter than asked for if its
// calls are large; Next goes on from there.
func (c *Client) List(ctx context.Context, r message.ListRequest) (message.ListReply, error) {
	rep, _, err := do[message.ListReply](ctx, c, OpList, r, 0)
	return rep, err
}

// Show implements engine.Client.
func (c *Client) Show(ctx context.Context, r message.ShowRequest) (message.ShowReply, error) {
	rep, _, err := do[message.ShowReply](ctx, c, OpShow, r, 0)
	return rep, err
}

// Info implements engine.Client.
func (c *Client) Info(ctx context.Context) (message.InfoReply, error) {
	rep, _, err := do[message.InfoReply](ctx, c, OpInfo, struct{}{}, 0)
	return rep, err
}

// Load implements engine.Client.
func (c *Client) Load(ctx context.Context, r message.LoadRequest) (message.LoadReply, error) {
	rep, _, err := do[message.LoadReply](ctx, c, OpLoad, r, 0)
	return rep, err
}
