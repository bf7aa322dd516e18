package bus

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

const (
	// askAgain is how long a request waits for its reply before it is sent again,
	// perhaps to another engine. The pause doubles up to maxAskAgain.
	askAgain    = time.Second
	maxAskAgain = 5 * time.Second
	// holdFor is how long an engine may hold a request: until then, a hung engine looks
	// like a waiting one.
	holdFor = 5 * time.Second
	// patience limits a call whose context has no deadline.
	patience = 15 * time.Second
)

// Client calls engines over NATS for one principal; it implements engine.Client. It can
// be used before an engine runs, and with any number of engines.
//
// # Repeated requests
//
// A request without a reply is sent again after one second, then after two, four,
// five, five …, until ctx ends, or for fifteen seconds if ctx has no deadline. The
// first reply counts. Without any reply, the error is ErrUnavailable if no engine
// received the request, ErrUnknownOutcome if one may have.
//
// A repeated request does no harm:
//
//   - Propose, Report and Interrupt return the current state.
//   - Emit stores nothing twice within two minutes: it gives each event an id.
//   - SubmitResponse gives the response an id. Sent again, it returns the current call, even after an edit that opened a new approval request.
//   - Resolve and Revoke, sent again after success, can return ErrState, ErrSuperseded or ErrFinished with the current call. Only an earlier ErrUnknownOutcome leaves the outcome open.
//   - RevokeStandingApproval returns the revoked standing approval.
//   - All other operations change nothing.
//
// After a restart a runtime finds its calls with List by session, and continues
// with Wait.
type Client struct {
	api.Methods
	nc    *nats.Conn
	space toolcall.SpaceID
	by    toolcall.Principal
}

// NewClient creates a client for a principal. nc must come from [Connect], or from
// Connect of an embedded server, with the same principal. The role decides which
// subjects the client uses. The engine refuses what a role may not do; with
// [PermissionsFor], NATS refuses it, a few seconds later.
func NewClient(nc *nats.Conn, space toolcall.SpaceID, by toolcall.Principal) (*Client, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	if err := checkConn(nc, by.Name); err != nil {
		return nil, err
	}
	switch by.Role {
	case toolcall.RoleRuntime, toolcall.RoleApprover, toolcall.RoleOperator, toolcall.RoleAuditor:
		c := &Client{nc: nc, space: space, by: by}
		c.Methods.Caller = c
		return c, nil
	}
	return nil, &message.Error{Code: message.CodeInvalid, Op: "make client", What: "the role " + errtext.Quote(string(by.Role)) + " has no client", Hint: "use runtime, approver, operator or auditor; for a worker, use NewWorker"}
}

// checkConn makes sure that replies can arrive.
func checkConn(nc *nats.Conn, name string) error {
	if err := CheckName("principal", name); err != nil {
		return err
	}
	if nc.Opts.InboxPrefix != InboxPrefix(name) {
		return &message.Error{Code: message.CodeInvalid, Op: "use connection", What: "it does not have the inbox of " + errtext.Quote(name) + ", so engines would drop its requests", Hint: "open it with bus.Connect and that principal"}
	}
	return nil
}

// send sends a request on the subject of this role. unsure means that the request was sent
// several times, and an engine may have executed an earlier one.
func (c *Client) send(ctx context.Context, op *api.Operation, request any, hold time.Duration) (reply any, unsure bool, err error) {
	kind, err := kindFor(op, c.by.Role)
	if err != nil {
		return nil, false, err
	}
	return askEngine(ctx, c.nc, c.by.Role, Subject{Space: c.space, Kind: kind, Who: Encode(c.by.Name)}.String(), op, request, hold)
}

func sendTyped[Req, Rep any](ctx context.Context, c *Client, op api.Op[Req, Rep], r Req, hold time.Duration) (Rep, bool, error) {
	reply, unsure, err := c.send(ctx, op.Operation, r, hold)
	rep, _ := reply.(Rep)
	return rep, unsure, err
}

// askEngine sends a request until a reply arrives.
func askEngine(ctx context.Context, nc *nats.Conn, role toolcall.Role, subject string, op *api.Operation, request any, hold time.Duration) (reply any, unsure bool, err error) {
	data, err := encodeRequest(op.Name, request)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, patience+hold)
	defer cancel()
	for pause := jsapi.FirstPause; ; pause = min(2*pause, jsapi.MaxPause) {
		reply, sent, err := askOnce(ctx, nc, role, subject, op, data, hold)
		unsure = unsure || sent > 1
		switch {
		case errors.Is(err, errUnanswered):
			unsure = true
		case !errors.Is(err, jsapi.ErrNotSent) && !errors.Is(err, message.ErrUnavailable):
			return reply, unsure, err
		}
		if nc.IsClosed() || sleep.For(ctx, jsapi.RandomPause(pause)) != nil {
			return nil, unsure, noReplyError(ctx, nc, subject, op, unsure, err)
		}
	}
}

var errUnanswered = errors.New("no answer")

// askOnce sends a request, repeatedly until a reply arrives, because a hung engine also
// receives requests. hold is how long an engine may hold the request.
func askOnce(ctx context.Context, nc *nats.Conn, role toolcall.Role, subject string, op *api.Operation, data []byte, hold time.Duration) (reply any, sent int, err error) {
	if ctx.Err() != nil {
		return nil, 0, jsapi.ErrNotSent
	}
	before := nc.LastError()
	// A reply that is in flight when the connection breaks never arrives.
	broken := nc.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer nc.RemoveStatusListener(broken)
	type answer struct {
		m   *nats.Msg
		err error
	}
	answers := make(chan answer, 1)
	ctx, cancel := context.WithCancel(ctx)
	var sendings sync.WaitGroup
	defer sendings.Wait()
	defer cancel()
	pause := askAgain
	again := time.NewTimer(hold + pause)
	defer again.Stop()
	for {
		sent++
		sendings.Go(func() {
			m, err := nc.RequestMsgWithContext(ctx, tracedMessage(ctx, subject, data))
			select {
			case answers <- answer{m, err}:
			case <-ctx.Done():
			}
		})
		select {
		case a := <-answers:
			if a.err == nil {
				reply, err := decodeReply(op, a.m.Data)
				return reply, sent, err
			}
			err = askError(op.Name, sent, a.err)
		case <-broken:
			err = errtext.Because(errUnanswered, nats.ErrDisconnected)
		case <-ctx.Done():
			err = errtext.Because(errUnanswered, context.Cause(ctx))
		case <-again.C:
		}
		if refused := newViolation(nc, before, subject); refused != nil {
			return nil, sent, forbiddenError(op.Name, role, refused)
		}
		if err != nil {
			return nil, sent, err
		}
		pause = min(2*pause, maxAskAgain)
		again.Reset(hold + pause)
	}
}

func tracedMessage(ctx context.Context, subject string, data []byte) *nats.Msg {
	m := &nats.Msg{Subject: subject, Data: data}
	if t := toolcall.TraceOf(ctx); t != "" {
		m.Header = nats.Header{toolcall.TraceHeader: []string{string(t)}}
	}
	return m
}

// askError classifies the failure of a request that was sent this many times.
func askError(op string, sent int, err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &message.Error{Code: message.CodeTooLarge, Op: op, What: "the request is larger than the server's max_payload", Hint: "send less at once, or raise max_payload", Err: err}
	case sent == 1 && (errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded)):
		return errtext.Because(jsapi.ErrNotSent, err)
	}
	return errtext.Because(errUnanswered, err)
}

func noReplyError(ctx context.Context, nc *nats.Conn, subject string, op *api.Operation, unsure bool, err error) error {
	refused := newViolation(nc, nil, nc.Opts.InboxPrefix+".") // if refused, no answer can ever arrive
	err = errtext.Because(err, refused)
	if cause := context.Cause(ctx); !errors.Is(err, cause) {
		err = errtext.Because(err, cause)
	}
	var e *message.Error
	switch {
	case unsure && op.Changes:
		return &message.Error{Code: message.CodeUnknownOutcome, Op: op.Name, What: "no engine replied; the request may have been executed", Hint: "send it again: the same request does no harm", Err: err}
	case errors.As(err, &e): // an engine said "not now"
		return e
	case errors.Is(err, nats.ErrReconnectBufExceeded): // it was not connected
		return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "nothing was sent: the connection to the server was lost", Hint: "check that the server runs, then try again"}
	case refused == nil && errors.Is(err, nats.ErrNoResponders):
		s, _ := ParseSubject(subject)
		return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "no engine of the space " + errtext.Quote(string(s.Space)) + " runs at " + nc.ConnectedUrlRedacted(), Hint: "start askance serve, or check --space and --nats"}
	}
	return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "no engine replied", Hint: "check that an engine of this space runs and that this user can publish the request", Err: err}
}

// Call executes an operation over NATS.
func (c *Client) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if add, ok := added[op.Name]; ok {
		return add(ctx, c, request)
	}
	reply, _, err := c.send(ctx, op, request, 0)
	return reply, err
}

// added has the operations that need more than one plain request.
var added = map[string]func(ctx context.Context, c *Client, request any) (any, error){
	api.Propose.Name:        withTypes(api.Propose, (*Client).propose),
	api.Wait.Name:           withTypes(api.Wait, (*Client).wait),
	api.Emit.Name:           withTypes(api.Emit, (*Client).emit),
	api.Events.Name:         withTypes(api.Events, (*Client).events),
	api.SubmitResponse.Name: withTypes(api.SubmitResponse, (*Client).submitResponse),
	opCheckpoint.Name:       withTypes(opCheckpoint, (*Client).checkpoint),
}

func withTypes[Req, Rep any](op api.Op[Req, Rep], do func(*Client, context.Context, Req) (Rep, error)) func(context.Context, *Client, any) (any, error) {
	return func(ctx context.Context, c *Client, request any) (any, error) {
		r, ok := request.(Req)
		if !ok {
			return nil, wrongType(op.Operation, request)
		}
		return do(c, ctx, r)
	}
}

// propose reads the calls one by one if they do not fit into one reply.
func (c *Client) propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error) {
	rep, _, err := sendTyped(ctx, c, api.Propose, r, 0)
	if isTooLargeReply(err) {
		rep.Calls, err = c.listOneByOne(ctx, r.Session, r.Reply, callIDs(r.Calls))
	}
	return rep, err
}

// isTooLargeReply reports whether the engine executed the request, but its reply did not
// fit.
func isTooLargeReply(err error) bool {
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

// listOneByOne reads calls that do not fit into one reply.
func (c *Client) listOneByOne(ctx context.Context, session message.SessionID, reply message.ReplyID, ids []message.CallID) ([]*toolcall.Call, error) {
	out := make([]*toolcall.Call, 0, len(ids))
	for _, id := range ids {
		rep, err := c.List(ctx, toolcall.ListRequest{Session: session, Reply: reply, Call: id, All: true, Limit: 1})
		if err != nil {
			return nil, err
		}
		if len(rep.Calls) != 1 {
			return nil, &message.Error{Code: message.CodeInternal, Op: "list", What: "the call " + errtext.Quote(string(id)) + " exists but is not listed"}
		}
		out = append(out, rep.Calls[0])
	}
	return out, nil
}

// wait repeats the request every five seconds until the wait is over, after 25 seconds
// if TimeoutMS is not set.
func (c *Client) wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error) {
	if r.TimeoutMS <= 0 {
		r.TimeoutMS = maxHeld.Milliseconds()
	}
	end := time.Now().Add(time.Duration(r.TimeoutMS) * time.Millisecond)
	for {
		hold := untilHold(end)
		r.TimeoutMS = max(1, hold.Milliseconds())
		rep, _, err := sendTyped(ctx, c, api.Wait, r, hold)
		if isTooLargeReply(err) && len(r.Calls) > 0 {
			rep.Calls, err = c.listOneByOne(ctx, r.Session, r.Reply, r.Calls)
			rep.Done = err == nil && !slices.ContainsFunc(rep.Calls, (*toolcall.Call).Open)
		}
		if err != nil || rep.Done || !time.Now().Before(end) {
			return rep, err
		}
	}
}

func untilHold(end time.Time) time.Duration {
	return min(holdFor, max(0, time.Until(end)))
}

// emit gives each event an id before it is sent.
func (c *Client) emit(ctx context.Context, r toolcall.EmitRequest) (toolcall.EmitReply, error) {
	r.Events = addIDs(r.Events)
	rep, _, err := sendTyped(ctx, c, api.Emit, r, 0)
	return rep, err
}

// addIDs adds missing ids, so that the server recognises repeated events. It leaves
// unreadable events for the engine to refuse.
func addIDs(events []message.RawJSON) []message.RawJSON {
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

// events repeats a request with WaitMS every five seconds, until there are events or the
// time is over.
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
func (c *Client) submitResponse(ctx context.Context, resp toolcall.Response) (*toolcall.Call, error) {
	if resp.ID == "" {
		resp.ID = nuid.Next() // identifies the response when it is sent again
	}
	call, _, err := sendTyped(ctx, c, api.SubmitResponse, resp, 0)
	return call, err
}
