package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

const (
	// pullExpiry is how long the server keeps one request for an item.
	pullExpiry = 30 * time.Second
	// pullHeartbeat is how often it then says that it still does; a server that
	// is silent for two and a half of them has lost the request.
	pullHeartbeat = 2 * time.Second
)

// Why a request for an item came back without one.
var (
	errNoItem  = errors.New("no item yet")
	errNoQueue = errors.New("the tool has no queue")
)

// errNewerItem: a newer engine wrote it, and newer workers can read it.
var errNewerItem = errors.New("it is of a later version")

// newerDelay is how long such an item rests before somebody gets it again.
const newerDelay = 10 * time.Second

// pullRequest is the body of MSG.NEXT.
type pullRequest struct {
	Expires   int64 `json:"expires"` // nanoseconds, as the others
	Batch     int   `json:"batch"`
	Heartbeat int64 `json:"idle_heartbeat"`
}

// Next implements executor.Transport. It asks for one item and waits until
// there is one or ctx ends, across reconnects and restarts of NATS, and also
// before an engine has made the tool's queue. Items that are none (damaged,
// or of another tool) are taken off the queue and reported in the log. An item
// that arrives as ctx ends goes back to the queue.
func (w *Worker) Next(ctx context.Context) (message.WorkItem, error) {
	for pause := firstPause; ; {
		m, err := w.pull(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return message.WorkItem{}, &message.Error{Code: message.CodeUnavailable, Op: "next item", What: "nothing came for " + quote(w.tool), Err: context.Cause(ctx)}
		case err == nil:
			item, err := w.item(m)
			if err == nil {
				return item, nil
			}
			if errors.Is(err, errNewerItem) {
				w.log.Warn("left a work item to newer workers", "subject", quote(m.Subject), "err", err)
				if err := m.Respond(nak(newerDelay)); err != nil {
					w.log.Warn("could not give it back", "err", err)
				}
				continue
			}
			w.log.Error("took something off the queue that is no work item", "subject", quote(m.Subject), "err", err)
			if err := m.Respond([]byte("+TERM")); err != nil {
				w.log.Warn("could not take it off", "err", err)
			}
			pause = firstPause
			continue
		case errors.Is(err, errNoItem):
			pause = firstPause
			continue
		case w.nc.IsClosed():
			return message.WorkItem{}, apiError("next item", quote(w.tool), err)
		case errors.Is(err, errNoQueue):
			w.quiet.Do(func() { w.log.Info("no engine has offered this tool yet, waiting", "tool", w.tool) })
		}
		if sleep(ctx, jitter(pause)) {
			pause = min(2*pause, maxPause)
		}
	}
}

// pull makes one request for an item. Its inbox is its own: when it is given
// up, the server sees nobody there and keeps the item.
func (w *Worker) pull(ctx context.Context) (*nats.Msg, error) {
	body, err := strictjson.Marshal(pullRequest{Expires: pullExpiry.Nanoseconds(), Batch: 1, Heartbeat: pullHeartbeat.Nanoseconds()})
	if err != nil {
		return nil, err
	}
	answers := make(chan *nats.Msg, 64)
	inbox := w.nc.NewInbox()
	sub, err := w.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	defer w.giveUp(sub, answers)
	if err := w.nc.PublishRequest(nextSubject(w.space, w.tool), inbox, body); err != nil {
		return nil, err
	}
	lost := w.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer w.nc.RemoveStatusListener(lost)
	silence := time.NewTimer(pullHeartbeat * 5 / 2)
	defer silence.Stop()
	for {
		select {
		case m := <-answers:
			if err := pullStatus(m); !errors.Is(err, errAlive) {
				return m, err
			}
			silence.Reset(pullHeartbeat * 5 / 2)
		case <-silence.C:
			return nil, errors.New("the server is silent")
		case <-lost:
			return nil, nats.ErrDisconnected
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// errAlive: the request is still with the server.
var errAlive = errors.New("idle heartbeat")

// pullStatus tells an item (nil) from the server's own words. An item has an
// acknowledgement subject, whatever its headers say.
func pullStatus(m *nats.Msg) error {
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		return nil
	}
	switch first(m.Header, "Status") {
	case "100":
		return errAlive
	case "404", "408":
		return errNoItem
	case "503":
		return errNoQueue
	}
	return fmt.Errorf("no item: %s %s", first(m.Header, "Status"), first(m.Header, "Description"))
}

// giveUp ends the request and sends an item that came too late back.
func (w *Worker) giveUp(sub *nats.Subscription, answers <-chan *nats.Msg) {
	_ = sub.Unsubscribe() // fails only on a dead connection
	for {
		select {
		case m := <-answers:
			if pullStatus(m) == nil {
				_ = m.Respond([]byte("-NAK")) // else it comes back by itself, later
			}
		default:
			return
		}
	}
}

// item decodes and checks a work item. Whether it may run is for the grant to
// say; here it only has to be one of this tool.
func (w *Worker) item(m *nats.Msg) (message.WorkItem, error) {
	s, err := ParseSubject(m.Subject)
	if err != nil {
		return message.WorkItem{}, err
	}
	if s.Kind != KindWork || s.Space != w.space || !s.Tool.Is(w.tool) {
		return message.WorkItem{}, fmt.Errorf("it is not a work item of this tool")
	}
	var f message.Fact
	if err := strictjson.Unmarshal(m.Data, &f, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		return message.WorkItem{}, because(newerItem(m.Data), err)
	}
	if f.V > message.FactVersion {
		return message.WorkItem{}, newerItem(m.Data)
	}
	if f.V != message.FactVersion || !s.names(f.Key(), f.WorkTool()) {
		return message.WorkItem{}, fmt.Errorf("its body is not the submitted fact that its subject names")
	}
	return message.WorkItem{
		Fact:      &f,
		Delivered: delivered(m.Reply),
		Ack:       func(ctx context.Context) error { return w.ack(ctx, m) },
		Release: func(d time.Duration) error {
			return m.Respond(nak(d))
		},
	}, nil
}

// nak gives an item back, to be delivered again after d.
func nak(d time.Duration) []byte {
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, max(0, d.Nanoseconds()))
}

// newerItem is errNewerItem if the body says that it is of a later version than
// this one, and else nil.
func newerItem(body []byte) error {
	var f struct {
		V int `json:"v"`
	}
	if strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(maxStoredBytes)) == nil && f.V > message.FactVersion {
		return fmt.Errorf("%w: fact version %d, this worker reads %d", errNewerItem, f.V, message.FactVersion)
	}
	return nil
}

// ack returns when the server has confirmed it.
func (w *Worker) ack(ctx context.Context, m *nats.Msg) error {
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	if _, err := w.nc.RequestWithContext(ctx, m.Reply, []byte("+ACK")); err != nil {
		return apiError("acknowledge item", quote(m.Subject), err)
	}
	return nil
}

// delivered reads how often an item was handed out from its acknowledgement
// subject: $JS.ACK.<stream>.<consumer>.<n>.…, or with domain and account
// before the stream and a random token at the end.
func delivered(reply string) int {
	parts := strings.Split(reply, ".")
	at := 4
	if len(parts) >= 11 {
		at = 6
	}
	if len(parts) <= at {
		return 1
	}
	n, err := strconv.Atoi(parts[at])
	if err != nil || n < 1 {
		return 1
	}
	return n
}
