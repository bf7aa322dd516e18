package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

const (
	// askAgain is how long a request waits for its answer before it is sent again,
	// perhaps to another engine. The pause doubles up to maxAskAgain.
	askAgain    = time.Second
	maxAskAgain = 5 * time.Second
	// holdFor is how long a client lets an engine hold a request: as long as that,
	// a hung engine looks like one that waits.
	holdFor = 5 * time.Second
	// patience bounds a call whose context has no deadline.
	patience = 15 * time.Second
)

// Client is an engine over NATS for one principal; it implements
// engine.Client. It may be used before an engine is there and outlives the
// engines that it talks to.
//
// # Requests that are sent again
//
// A request without an answer is sent again after one second, then after two,
// four, five, five …, until ctx ends, or for fifteen seconds if ctx has no
// deadline; the first answer to any of them counts. Then the error is
// ErrUnavailable if no engine ever took it, and ErrUnknownOutcome if one may have.
// Sending again does no harm:
//
//   - Propose, Report and Interrupt are answered with the present state.
//   - Emit stores nothing twice within two minutes: events without an id are
//     given one before the first try.
//   - Answer is given an id before the first try, unless it has one: sent again
//     after it was taken, it is answered with the call as it stands, also if it
//     was an edit that asks anew.
//   - Resolve and Revoke, sent again after they have worked, can be answered
//     ErrState, ErrSuperseded or ErrFinished: the error has the call as it
//     stands. Only an ErrUnknownOutcome before leaves anything open.
//   - RevokeStandingApproval is answered with what is revoked.
//   - Wait, Events, List, Show, Info, Load, Leases, ShowStandingApproval and Explain change nothing.
//
// After its own restart a runtime finds its calls with List by session, and
// goes on with Wait.
type Client struct {
	api.Methods
	nc    *nats.Conn
	space toolcall.SpaceID
	by    toolcall.Principal
}

// NewClient makes a client of a principal. nc must have been opened by
// [Connect] or [embed.Server.Connect] under the same name. The role decides which
// subjects the client uses: a runtime proposes and reads its own sessions, an
// approver answers, an operator resolves; those two and auditors read the whole
// space. What a role may not do is refused by the engine or, with
// [PermissionsFor], by NATS (seconds later: it does not answer such requests).
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
	return nil, &message.Error{Code: message.CodeInvalid, Op: "make client", What: "a " + errtext.Quote(string(by.Role)) + " has no client", Hint: "use runtime, approver, operator or auditor; for a worker NewWorker"}
}

// checkConn makes sure that answers can arrive.
func checkConn(nc *nats.Conn, name string) error {
	if err := CheckName("principal", name); err != nil {
		return err
	}
	if nc.Opts.InboxPrefix != InboxPrefix(name) {
		return &message.Error{Code: message.CodeInvalid, Op: "use connection", What: "it does not have the inbox of " + errtext.Quote(name) + ", engines would not answer it", Hint: "open it with bus.Connect and that principal"}
	}
	return nil
}

// send sends a request on the subject that this role has for it. unsure: it was
// sent more than once, and an engine may have carried out an earlier sending.
func (c *Client) send(ctx context.Context, op *api.Operation, request any, hold time.Duration) (reply any, unsure bool, err error) {
	kind, err := kindFor(op, c.by.Role)
	if err != nil {
		return nil, false, err
	}
	return ask(ctx, c.nc, Subject{Space: c.space, Kind: kind, Who: Encode(c.by.Name)}.String(), op, request, hold)
}

// sendTyped is send with the operation's types.
func sendTyped[Req, Rep any](ctx context.Context, c *Client, op api.Op[Req, Rep], r Req, hold time.Duration) (Rep, bool, error) {
	reply, unsure, err := c.send(ctx, op.Operation, r, hold)
	rep, _ := reply.(Rep)
	return rep, unsure, err
}

// ask sends a request until it is answered.
func ask(ctx context.Context, nc *nats.Conn, subject string, op *api.Operation, request any, hold time.Duration) (reply any, unsure bool, err error) {
	data, err := encodeRequest(op.Name, request)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := withDefault(ctx, patience+hold)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		reply, sent, err := askOnce(ctx, nc, subject, op, data, hold)
		unsure = unsure || sent > 1
		switch {
		case errors.Is(err, errUnanswered):
			unsure = true
		case !errors.Is(err, errNotSent) && !errors.Is(err, message.ErrUnavailable):
			return reply, unsure, err
		}
		if nc.IsClosed() || !sleep(ctx, jitter(pause)) {
			return nil, unsure, unanswered(ctx, nc, op, unsure, err)
		}
	}
}

// errUnanswered: the request was sent, and may have been carried out.
var errUnanswered = errors.New("no answer")

// askOnce sends a request, and the same again while there is no answer: an engine
// that hangs is given requests like any other. The first answer to any of the
// sendings counts. hold is how long an engine may hold the request.
func askOnce(ctx context.Context, nc *nats.Conn, subject string, op *api.Operation, data []byte, hold time.Duration) (reply any, sent int, err error) {
	if ctx.Err() != nil {
		return nil, 0, errNotSent
	}
	before := nc.LastError()
	// An answer that was under way when the connection broke never comes: the
	// request is sent again as soon as there is a connection.
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
			m, err := nc.RequestWithContext(ctx, subject, data)
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
		if refused := violation(nc, before, subject); refused != nil {
			return nil, sent, notAllowed(op.Name, refused)
		}
		if err != nil {
			return nil, sent, err
		}
		pause = min(2*pause, maxAskAgain)
		again.Reset(hold + pause)
	}
}

// askError is what it means that the last of so many sendings failed.
func askError(op string, sent int, err error) error {
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return &message.Error{Code: message.CodeTooLarge, Op: op, What: "the request is larger than the server's max_payload", Hint: "send less at once, or raise it", Err: err}
	case sent == 1 && (errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded)):
		return errtext.Because(errNotSent, err)
	}
	return errtext.Because(errUnanswered, err)
}

func unanswered(ctx context.Context, nc *nats.Conn, op *api.Operation, unsure bool, err error) error {
	err = errtext.Because(err, violation(nc, nil, nc.Opts.InboxPrefix+".")) // then no answer can ever come
	var e *message.Error
	switch {
	case unsure && op.Changes:
		return &message.Error{Code: message.CodeUnknownOutcome, Op: op.Name, What: "no engine answered; the request may have been carried out", Hint: "ask again: the same request does no harm", Err: errtext.Because(err, context.Cause(ctx))}
	case errors.As(err, &e): // an engine's own "not now"
		return e
	}
	return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "no engine answered", Hint: "check that an engine of this space runs and that this user may publish the request", Err: errtext.Because(err, context.Cause(ctx))}
}
