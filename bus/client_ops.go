package bus

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nuid"
)

// Call carries out an operation: over NATS, with what the transport adds.
func (c *Client) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if add, ok := added[op.Name]; ok {
		return add(ctx, c, request)
	}
	reply, _, err := c.send(ctx, op, request, 0)
	return reply, err
}

// added has the operations to which the client adds something.
var added = map[string]func(ctx context.Context, c *Client, request any) (any, error){
	api.Propose.Name:        adding(api.Propose, (*Client).propose),
	api.Wait.Name:           adding(api.Wait, (*Client).wait),
	api.Emit.Name:           adding(api.Emit, (*Client).emit),
	api.Events.Name:         adding(api.Events, (*Client).events),
	api.SubmitResponse.Name: adding(api.SubmitResponse, (*Client).submitResponse),
	opCheckpoint.Name:       adding(opCheckpoint, (*Client).checkpoint),
}

func adding[Req, Rep any](op api.Op[Req, Rep], do func(*Client, context.Context, Req) (Rep, error)) func(context.Context, *Client, any) (any, error) {
	return func(ctx context.Context, c *Client, request any) (any, error) {
		r, ok := request.(Req)
		if !ok {
			return nil, wrongType(op.Operation, request)
		}
		return do(c, ctx, r)
	}
}

// propose reads the calls one by one if they do not fit one reply.
func (c *Client) propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	rep, _, err := sendTyped(ctx, c, api.Propose, r, 0)
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
func (c *Client) oneByOne(ctx context.Context, session message.SessionID, reply message.ReplyID, ids []message.CallID) ([]*toolcall.Call, error) {
	out := make([]*toolcall.Call, 0, len(ids))
	for _, id := range ids {
		rep, err := c.List(ctx, toolcall.ListRequest{Session: session, Reply: reply, Call: id, All: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(rep.Calls) != 1 {
			return nil, &message.Error{Code: message.CodeInternal, Op: "list", What: "the call " + errtext.Quote(string(id)) + " was just there and is not listed"}
		}
		out = append(out, rep.Calls[0])
	}
	return out, nil
}

// wait asks again every five seconds until the wait is over; without TimeoutMS for 25 seconds, as long as an engine waits.
func (c *Client) wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	if r.TimeoutMS <= 0 {
		r.TimeoutMS = maxHeld.Milliseconds()
	}
	end := time.Now().Add(time.Duration(r.TimeoutMS) * time.Millisecond)
	for {
		hold := untilHold(end)
		r.TimeoutMS = max(1, hold.Milliseconds())
		rep, _, err := sendTyped(ctx, c, api.Wait, r, hold)
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

func allFinished(calls []*toolcall.Call) bool {
	for _, c := range calls {
		if c.Open() {
			return false
		}
	}
	return true
}

// emit gives each event an id before it is sent.
func (c *Client) emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
	r.Events = withIDs(r.Events)
	rep, _, err := sendTyped(ctx, c, api.Emit, r, 0)
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

// events asks again every five seconds, with WaitMS, until there is something or the time is over.
func (c *Client) events(ctx context.Context, r toolcall.EventsRequest) (toolcall.EventsReply, error) {
	end := time.Now().Add(time.Duration(r.WaitMS) * time.Millisecond)
	waits := r.WaitMS > 0
	for {
		hold := untilHold(end)
		if waits {
			r.WaitMS = max(1, hold.Milliseconds())
		}
		rep, _, err := sendTyped(ctx, c, api.Events, r, hold)
		if err != nil || len(rep.Events) > 0 || !waits || !time.Now().Before(end) {
			return rep, err
		}
		r.After = rep.Next
	}
}

// submitResponse gives the response an id before it is sent.
func (c *Client) submitResponse(ctx context.Context, a toolcall.Response) (*toolcall.Call, error) {
	if a.ID == "" {
		a.ID = nuid.Next() // what is sent again is known by it
	}
	call, unsure, err := sendTyped(ctx, c, api.SubmitResponse, a, 0)
	if known := toolcall.CallOf(err); unsure && known.HasResponse(c.by.Name, a) {
		return known, nil // the first sending won; only its reply was lost
	}
	return call, err
}
