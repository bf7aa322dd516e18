package bus

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Worker connects a worker of one tool to the engines; it implements
// executor.Transport. It needs only the permissions of [PermissionsFor] and
// nothing of JetStream. All methods may be called from several goroutines.
type Worker struct {
	api.WorkerMethods
	nc    *nats.Conn
	space toolcall.SpaceID
	queue toolcall.Queue
	name  string
	log   *slog.Logger
	quiet sync.Once // the missing queue is reported once
}

// NewWorker creates the transport of a worker. nc must come from [Connect] or
// Connect of an embedded server with the same name. A nil logger logs nothing.
func NewWorker(nc *nats.Conn, space toolcall.SpaceID, tool, name string, log *slog.Logger) (*Worker, error) {
	return NewQueueWorker(nc, space, toolcall.Queue{Tool: tool}, name, log)
}

// NewQueueWorker is NewWorker for the calls of a tool that rules route to a
// subject.
func NewQueueWorker(nc *nats.Conn, space toolcall.SpaceID, queue toolcall.Queue, name string, log *slog.Logger) (*Worker, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	if err := checkQueue(queue); err != nil {
		return nil, err
	}
	if err := checkConn(nc, name); err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &Worker{nc: nc, space: space, queue: queue, name: name, log: log.With("queue", queue.String())}
	w.Caller = w
	return w, nil
}

func (w *Worker) subject(k Kind) string {
	return Subject{Space: w.space, Kind: k, Tool: EncodeQueue(w.queue), Who: Encode(w.name)}.String()
}

// Call executes an operation of workers over NATS. It does not wait for a reply to
// Progress.
func (w *Worker) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op == api.Progress.Operation {
		return struct{}{}, w.tell(op, request)
	}
	kind, err := kindFor(op, toolcall.RoleWorker)
	if err != nil {
		return nil, err
	}
	reply, _, err := ask(ctx, w.nc, w.subject(kind), op, request, 0)
	if errors.Is(err, message.ErrUnknownOutcome) { // the caller sends it again
		return nil, &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "no engine replied; the request may have arrived", Hint: "send it again: the same request does no harm", Err: err}
	}
	return reply, err
}

// tell sends a request and does not wait for its reply.
func (w *Worker) tell(op *api.Operation, request any) error {
	kind, err := kindFor(op, toolcall.RoleWorker)
	if err != nil {
		return err
	}
	data, err := encodeRequest(op.Name, request)
	if err != nil {
		return err
	}
	// Without a reply subject in our own inbox the engine drops the request.
	if err := w.nc.PublishRequest(w.subject(kind), InboxPrefix(w.name)+".none", data); err != nil {
		return apiError(op.Name, "a message to the engine", err)
	}
	return nil
}

// Keys asks the engines for their signing keys, which are not trusted yet: see
// [keyfile.Follower].
func (w *Worker) Keys(ctx context.Context) (toolcall.KeyRing, error) {
	rep, err := opKeys.Call(ctx, w, KeysRequest{})
	return rep.Keys, err
}

// Cancels implements executor.Transport.
func (w *Worker) Cancels(f func(r toolcall.HeartbeatRequest, reason string)) (stop func()) {
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
