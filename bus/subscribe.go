package bus

import (
	"context"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// OnHint calls f for every approval request of the space that opens or closes, until
// stop is called. Hints are best effort: read the list once after subscribing,
// and now and then. f is called from one goroutine.
func (c *Client) OnHint(ctx context.Context, f func(Hint)) (stop func(), err error) {
	return subscribe(ctx, c.nc, Subject{Space: c.space, Kind: KindAsk}, func(s Subject, data []byte) {
		var h Hint
		if strictjson.UnmarshalOpen(data, &h) == nil && ofCall(s, h.Key) {
			f(h)
		}
	})
}

// OnProgress calls f for every progress line of running calls, until stop is
// called. Parts of key that are empty match all. f is called from one
// goroutine; lines come in order, but some may be missing.
func (c *Client) OnProgress(ctx context.Context, key toolcall.Key, f func(toolcall.ProgressRequest)) (stop func(), err error) {
	filter := Subject{Space: c.space, Kind: KindProgress, Session: Encode(string(key.Session)), Reply: Encode(string(key.Reply)), Call: Encode(string(key.Call))}
	return subscribe(ctx, c.nc, filter, func(s Subject, data []byte) {
		var p toolcall.ProgressRequest
		if strictjson.UnmarshalOpen(data, &p) == nil && ofCall(s, p.Key) {
			f(p)
		}
	})
}

// ofCall reports whether a message's body belongs to its subject.
func ofCall(s Subject, k toolcall.Key) bool {
	return s.Space == k.Space && s.Session.Is(string(k.Session)) && s.Reply.Is(string(k.Reply)) && s.Call.Is(string(k.Call))
}

// subscribe is in force when it returns.
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
