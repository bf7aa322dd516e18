package bus

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Hint says that the approval request of a call was opened, changed or closed, or that a call
// to which people responded finished. Read the call with list or show before acting on it.
type Hint struct {
	V int `json:"v"` // 1
	toolcall.Key
	Tool   string                `json:"tool_name"`
	State  message.ToolCallState `json:"state"`
	Digest string                `json:"digest,omitzero"` // of the approval request, while it is open
	Seq    uint64                `json:"seq,omitzero"`
}

// Presence is what an engine reports to the other engines of its space.
type Presence struct {
	V          int    `json:"v,omitzero"`
	Engine     string `json:"engine"`              // a random id of this service
	Generation uint64 `json:"generation,omitzero"` // of the queue group in which it takes requests
	Leaving    bool   `json:"leaving,omitzero"`    // it no longer takes requests
}

type cancelNote struct {
	toolcall.HeartbeatRequest
	Reason string `json:"reason,omitzero"`
}

// Signals sends best-effort messages outside the journal; it implements
// engine.Signals. All methods are safe for concurrent use and do not wait.
type Signals struct {
	nc    *nats.Conn
	space toolcall.SpaceID
	log   *slog.Logger
}

// NewSignals returns Signals that send on nc. A nil logger logs nothing.
func NewSignals(nc *nats.Conn, space toolcall.SpaceID, log *slog.Logger) *Signals {
	return &Signals{nc: nc, space: space, log: cmp.Or(log, noLog)}
}

// Hint implements engine.Signals.
func (s *Signals) Hint(c *toolcall.Call) {
	h := Hint{V: ProtocolVersion, Key: c.Key, Tool: c.Tool, State: c.State, Seq: c.Seq}
	if c.State == message.ToolCallAsking {
		h.Digest = c.Digest
	}
	s.send(s.ofCall(KindAsk, c.Key), h)
}

// Cancel implements engine.Signals.
func (s *Signals) Cancel(queue toolcall.Queue, worker string, r toolcall.HeartbeatRequest, reason string) {
	s.send(Subject{Space: s.space, Kind: KindCancel, Tool: EncodeQueue(queue), Who: Encode(worker)}, cancelNote{r, reason})
}

// Beat implements engine.Signals. It sends a heartbeat that gets no reply.
func (s *Signals) Beat(queue toolcall.Queue, engine string, r toolcall.HeartbeatRequest) {
	body, err := strictjson.Marshal(r)
	if err != nil {
		s.log.Error("a heartbeat has no JSON form", "err", err)
		return
	}
	s.send(Subject{Space: s.space, Kind: KindHeartbeat, Tool: EncodeQueue(queue), Who: Encode(engine)}, requestEnvelope{V: ProtocolVersion, Op: api.Heartbeat.Name, Body: body})
}

// Progress implements engine.Signals. It omits the claim, with which a reader could
// impersonate the attempt.
func (s *Signals) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	p.Claim = ""
	s.send(s.ofCall(KindProgress, c.Key), p)
}

func (s *Signals) ofCall(kind Kind, k toolcall.Key) Subject {
	return Subject{Space: s.space, Kind: kind, Session: Encode(string(k.Session)), Reply: Encode(string(k.Reply)), Call: Encode(string(k.Call))}
}

func (s *Signals) send(to Subject, v any) {
	b, err := strictjson.Marshal(v)
	if err == nil && !to.isComplete() {
		err = badSubject(to.String(), "a token is missing")
	}
	if err == nil {
		err = s.nc.Publish(to.String(), b)
	}
	if err != nil {
		s.log.Debug("a signal was lost", "subject", to.String(), "err", err)
	}
}

// OnHint calls f from one goroutine for every approval request of the space that is
// opened or closed, until stop is called. Hints are best effort: also read the list
// after subscribing, and from time to time.
func (c *Client) OnHint(ctx context.Context, f func(Hint)) (stop func(), err error) {
	return subscribe(ctx, c, Subject{Space: c.space, Kind: KindAsk}, func(s Subject, data []byte) {
		var h Hint
		if strictjson.UnmarshalOpen(data, &h) == nil && isOfCall(s, h.Key) {
			f(h)
		}
	})
}

// OnProgress calls f from one goroutine for every progress line of running calls,
// until stop is called. Empty parts of key match all. Lines arrive in order; some
// may be missing.
func (c *Client) OnProgress(ctx context.Context, key toolcall.Key, f func(toolcall.ProgressRequest)) (stop func(), err error) {
	filter := Subject{Space: c.space, Kind: KindProgress, Session: Encode(string(key.Session)), Reply: Encode(string(key.Reply)), Call: Encode(string(key.Call))}
	return subscribe(ctx, c, filter, func(s Subject, data []byte) {
		var p toolcall.ProgressRequest
		if strictjson.UnmarshalOpen(data, &p) == nil && isOfCall(s, p.Key) {
			f(p)
		}
	})
}

// isOfCall reports whether a message's subject and key name the same call.
func isOfCall(s Subject, k toolcall.Key) bool {
	return s.Space == k.Space && s.Session.Is(string(k.Session)) && s.Reply.Is(string(k.Reply)) && s.Call.Is(string(k.Call))
}

// subscribe returns when the server has the subscription.
func subscribe(ctx context.Context, c *Client, filter Subject, f func(s Subject, data []byte)) (func(), error) {
	nc, before := c.nc, c.nc.LastError()
	sub, err := nc.Subscribe(filter.String(), func(m *nats.Msg) {
		if s, err := ParseSubject(m.Subject); err == nil {
			f(s, m.Data)
		}
	})
	if err != nil {
		return nil, jsapi.Error("subscribe", filter.String(), err)
	}
	stop := func() { _ = sub.Unsubscribe() } // fails only on a dead connection
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.FlushTimeout)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		stop()
		return nil, jsapi.Error("subscribe", filter.String(), err)
	}
	if err := newViolation(nc, before, filter.String()); err != nil {
		stop()
		return nil, forbiddenError("subscribe", c.by.Role, err)
	}
	return stop, nil
}

// NATS refuses a publish or a subscription later: the call succeeds, and the
// refusal arrives as the connection's last error.

// newViolation returns the last error if it is a new refusal of one of the subjects. A
// subject that ends with a dot is a prefix.
func newViolation(nc *nats.Conn, before error, subjects ...string) error {
	err := nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) || err == before { //nolint:errorlint // the same value as before is not a new refusal
		return nil
	}
	for _, s := range subjects {
		quoted := strconv.Quote(s)
		if strings.HasSuffix(s, ".") {
			quoted = strings.TrimSuffix(quoted, `"`)
		}
		if strings.Contains(err.Error(), quoted) {
			return err
		}
	}
	return nil
}

// forbiddenError returns the error for a refusal by NATS of what a role needs.
func forbiddenError(op string, role toolcall.Role, err error) *message.Error {
	return &message.Error{Code: message.CodeForbidden, Op: op, What: "this login lacks the NATS permissions of the role " + string(role), Hint: "use a login with this role, for a worker also with this tool (askance creds add), or grant what bus/PROTOCOL.md lists for the role", Err: err}
}
