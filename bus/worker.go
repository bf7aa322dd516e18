package bus

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
)

// Worker is how a worker of one tool reaches the engines; it implements
// executor.Transport. It gets along with the permissions of [PermissionsFor]:
// it uses nothing of JetStream, engines hand it its items. All methods may be called from
// several goroutines.
type Worker struct {
	nc    *nats.Conn
	space message.SpaceID
	lane  message.Lane
	name  string
	log   *slog.Logger
	quiet sync.Once // the missing queue is reported once
}

// NewWorker makes the transport of a worker called name. nc must have been
// opened by [Connect] or [Server.Connect] under that name. A nil logger logs
// nothing.
func NewWorker(nc *nats.Conn, space message.SpaceID, tool, name string, log *slog.Logger) (*Worker, error) {
	return NewLaneWorker(nc, space, message.Lane{Tool: tool}, name, log)
}

// NewLaneWorker is NewWorker for the calls of a tool that rules route to a
// subject.
func NewLaneWorker(nc *nats.Conn, space message.SpaceID, lane message.Lane, name string, log *slog.Logger) (*Worker, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	if err := checkLane(lane); err != nil {
		return nil, err
	}
	if err := checkConn(nc, name); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Worker{nc: nc, space: space, lane: lane, name: name, log: log.With("lane", lane.String())}, nil
}

func (w *Worker) subject(k Kind) string {
	return Subject{Space: w.space, Kind: k, Tool: EncodeLane(w.lane), Who: Encode(w.name)}.String()
}

// request asks the engines. Whenever nobody answered, the error is
// ErrUnavailable: the caller keeps what it has and sends it again.
func (w *Worker) request(ctx context.Context, k Kind, op Op, body, rep any) error {
	_, err := ask(ctx, w.nc, w.subject(k), op, body, rep, 0)
	if errors.Is(err, message.ErrUnknownOutcome) {
		return &message.Error{Code: message.CodeUnavailable, Op: string(op), What: "no engine answered; the request may have arrived", Hint: "send it again: the same request does no harm", Err: err}
	}
	return err
}

// Start implements executor.Transport.
func (w *Worker) Start(ctx context.Context, r message.StartRequest) (message.StartReply, error) {
	var rep message.StartReply
	err := w.request(ctx, KindStart, OpStart, r, &rep)
	return rep, err
}

// Heartbeat implements executor.Transport.
func (w *Worker) Heartbeat(ctx context.Context, r message.HeartbeatRequest) (message.HeartbeatReply, error) {
	var rep message.HeartbeatReply
	err := w.request(ctx, KindHeartbeat, OpHeartbeat, r, &rep)
	return rep, err
}

// tell sends a request whose answer nobody waits for.
func (w *Worker) tell(k Kind, op Op, body any) error {
	data, err := encodeRequest(op, body)
	if err != nil {
		return err
	}
	// Nobody listens there; but without a reply subject of our own inbox the
	// request would be dropped.
	if err := w.nc.PublishRequest(w.subject(k), InboxPrefix(w.name)+".none", data); err != nil {
		return apiError(string(op), "a message to the engine", err)
	}
	return nil
}

// Keys asks the engines for their signing keys. Whoever answers is not trusted:
// see [KeyFollower].
func (w *Worker) Keys(ctx context.Context) (message.KeyRing, error) {
	var rep KeysReply
	err := w.request(ctx, KindNext, OpKeys, KeysRequest{}, &rep)
	return rep.Keys, err
}

// Progress implements executor.Transport. It does not wait.
func (w *Worker) Progress(_ context.Context, r message.ProgressRequest) error {
	return w.tell(KindWorkProgress, OpProgress, r)
}

// Result implements executor.Transport.
func (w *Worker) Result(ctx context.Context, r message.ResultRequest) (message.ResultReply, error) {
	var rep message.ResultReply
	err := w.request(ctx, KindResult, OpResult, r, &rep)
	return rep, err
}

// Cancels implements executor.Transport.
func (w *Worker) Cancels(f func(r message.HeartbeatRequest, reason string)) (stop func()) {
	sub, err := w.nc.Subscribe(w.subject(KindCancel), func(m *nats.Msg) {
		var n cancelNote
		if strictjson.UnmarshalOpen(m.Data, &n) == nil {
			f(n.HeartbeatRequest, n.Reason)
		}
	})
	if err != nil { // only a shortcut is lost: heartbeats say the same
		w.log.Warn("no cancel shortcuts", "err", err)
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() } // fails only on a dead connection
}
