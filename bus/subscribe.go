package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// OnHint calls f from one goroutine for every approval request of the space that
// opens or closes, until stop is called. Hints are best effort: also read the list
// after subscribing, and now and then.
func (c *Client) OnHint(ctx context.Context, f func(Hint)) (stop func(), err error) {
	return subscribe(ctx, c.nc, Subject{Space: c.space, Kind: KindAsk}, func(s Subject, data []byte) {
		var h Hint
		if strictjson.UnmarshalOpen(data, &h) == nil && isOfCall(s, h.Key) {
			f(h)
		}
	})
}

// OnProgress calls f from one goroutine for every progress line of running calls,
// until stop is called. Empty parts of key match all. Lines come in order; some
// may be missing.
func (c *Client) OnProgress(ctx context.Context, key toolcall.Key, f func(toolcall.ProgressRequest)) (stop func(), err error) {
	filter := Subject{Space: c.space, Kind: KindProgress, Session: Encode(string(key.Session)), Reply: Encode(string(key.Reply)), Call: Encode(string(key.Call))}
	return subscribe(ctx, c.nc, filter, func(s Subject, data []byte) {
		var p toolcall.ProgressRequest
		if strictjson.UnmarshalOpen(data, &p) == nil && isOfCall(s, p.Key) {
			f(p)
		}
	})
}

// isOfCall reports whether a message's body belongs to its subject.
func isOfCall(s Subject, k toolcall.Key) bool {
	return s.Space == k.Space && s.Session.Is(string(k.Session)) && s.Reply.Is(string(k.Reply)) && s.Call.Is(string(k.Call))
}

// subscribe returns when the server has the subscription.
func subscribe(ctx context.Context, nc *nats.Conn, filter Subject, f func(s Subject, data []byte)) (func(), error) {
	before := nc.LastError()
	sub, err := nc.Subscribe(filter.String(), func(m *nats.Msg) {
		if s, err := ParseSubject(m.Subject); err == nil {
			f(s, m.Data)
		}
	})
	if err != nil {
		return nil, apiError("subscribe", filter.String(), err)
	}
	stop := func() { _ = sub.Unsubscribe() } // fails only on a dead connection
	ctx, cancel := withDefault(ctx, flushTimeout)
	defer cancel()
	if err := nc.FlushWithContext(ctx); err != nil {
		stop()
		return nil, apiError("subscribe", filter.String(), err)
	}
	if err := violation(nc, before, filter.String()); err != nil {
		stop()
		return nil, notAllowed("subscribe", err)
	}
	return stop, nil
}

// NATS refuses a publish or a subscription later: the call succeeds, and the
// refusal arrives as the connection's last error.

// violation is a new refusal of one of the subjects. A subject that ends with a
// dot is a prefix.
func violation(nc *nats.Conn, before error, subjects ...string) error {
	err := nc.LastError()
	if !errors.Is(err, nats.ErrPermissionViolation) || err == before { //nolint:errorlint // the very same value: it was there before
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

// notAllowed is the error for a refusal by NATS.
func notAllowed(op string, err error) *message.Error {
	return &message.Error{Code: message.CodeForbidden, Op: op, What: "NATS does not permit this user to", Hint: "grant what bus/PROTOCOL.md lists for the role, or use another login", Err: err}
}
