package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
)

// Worker connects a worker of one tool to the engines; it implements
// executor.Transport. It needs only the permissions of [PermissionsFor], and no
// JetStream. All methods are safe for concurrent use.
type Worker struct {
	api.WorkerMethods
	nc      *nats.Conn
	space   toolcall.SpaceID
	queue   toolcall.Queue
	name    string
	log     *slog.Logger
	quiet   sync.Once // reports a missing queue only once
	missing sync.Once // and a missing tool
	fetch   fetcher
}

// NewWorker creates the transport of a worker. nc must come from [Connect], or from
// Connect of an embedded server, with the same name. A nil logger logs nothing.
func NewWorker(nc *nats.Conn, space toolcall.SpaceID, tool, name string, log *slog.Logger) (*Worker, error) {
	return NewQueueWorker(nc, space, toolcall.Queue{Tool: tool}, name, log)
}

// NewQueueWorker is NewWorker for one queue: the calls of a tool that rules send to a route.
func NewQueueWorker(nc *nats.Conn, space toolcall.SpaceID, queue toolcall.Queue, name string, log *slog.Logger) (*Worker, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	if err := CheckQueue(queue); err != nil {
		return nil, err
	}
	if err := checkConn(nc, name); err != nil {
		return nil, err
	}
	w := &Worker{nc: nc, space: space, queue: queue, name: name, log: cmp.Or(log, noLog).With("queue", queue.String())}
	w.Caller, w.fetch.w = w, w
	return w, nil
}

func (w *Worker) subjectOf(k Kind) string {
	return Subject{Space: w.space, Kind: k, Tool: EncodeQueue(w.queue), Who: Encode(w.name)}.String()
}

// Call executes an operation of workers over NATS. It does not wait for a reply to
// Progress.
func (w *Worker) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op == api.Progress.Operation {
		return toolcall.ProgressReply{}, w.sendOnly(op, request)
	}
	kind, err := kindFor(op, toolcall.RoleWorker)
	if err != nil {
		return nil, err
	}
	reply, _, err := askEngine(ctx, w.nc, toolcall.RoleWorker, w.subjectOf(kind), op, request, 0)
	if errors.Is(err, message.ErrUnknownOutcome) { // the caller sends the request again
		return nil, &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "no engine replied; the request may have arrived", Hint: "send it again: the same request does no harm", Err: err}
	}
	return reply, err
}

// sendOnly sends a request and does not wait for its reply.
func (w *Worker) sendOnly(op *api.Operation, request any) error {
	kind, err := kindFor(op, toolcall.RoleWorker)
	if err != nil {
		return err
	}
	data, err := encodeRequest(op.Name, request)
	if err != nil {
		return err
	}
	// The engine drops a request without a reply subject in our own inbox.
	if err := w.nc.PublishRequest(w.subjectOf(kind), InboxPrefix(w.name)+".none", data); err != nil {
		return jsapi.Error(op.Name, "a message to the engine", err)
	}
	return nil
}

// Keys asks the engines for their signing keys, which are not trusted yet: see
// keyfile.Follower.
func (w *Worker) Keys(ctx context.Context) (toolcall.KeyRing, error) {
	rep, err := opKeys.Call(ctx, w, KeysRequest{})
	return rep.Keys, err
}

// Cancels implements executor.Transport.
func (w *Worker) Cancels(f func(r toolcall.HeartbeatRequest, reason string)) (stop func()) {
	sub, err := w.nc.Subscribe(w.subjectOf(KindCancel), func(m *nats.Msg) {
		var n cancelNote
		if strictjson.UnmarshalOpen(m.Data, &n) == nil {
			f(n.HeartbeatRequest, n.Reason)
		}
	})
	if err != nil { // heartbeats say the same, only later
		w.log.Warn("cannot subscribe to cancellations, heartbeats will deliver them", "err", err)
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() } // fails only on a dead connection
}

// Reasons why a request for a task returned without one.
var (
	errNoTask  = errors.New("no task yet")
	errNoQueue = errors.New("the tool has no queue")
)

// errNewerTask: a newer engine wrote the task, and newer workers can read it.
var errNewerTask = errors.New("it has a newer version")

// newerDelay is how long such a task waits before another worker gets it.
const newerDelay = 10 * time.Second

// Next implements executor.Transport. It waits for one task until ctx ends, across
// reconnects and restarts, also before the tool's queue exists. It drops and logs
// messages that are not tasks of this tool, and releases a task that arrives when
// ctx has ended. ErrForbidden means that NATS does not let this user ask for tasks.
func (w *Worker) Next(ctx context.Context) (toolcall.Task, error) {
	for pause := jsapi.FirstPause; ; {
		got, err := w.fetch.next(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return toolcall.Task{}, &message.Error{Code: message.CodeUnavailable, Op: "next task", What: "no task came for " + w.queue.String(), Err: context.Cause(ctx)}
		case err == nil:
			task, err := w.decodeTask(got)
			if err == nil {
				return task, nil
			}
			w.refuseTask(got, err)
			pause = jsapi.FirstPause
			continue
		case errors.Is(err, errNoTask):
			pause = jsapi.FirstPause
			continue
		case errors.Is(err, message.ErrForbidden):
			return toolcall.Task{}, err
		case w.nc.IsClosed():
			return toolcall.Task{}, jsapi.Error("next task", w.queue.String(), err)
		case errors.Is(err, message.ErrNotFound):
			w.missing.Do(func() {
				w.log.Warn(fmt.Sprintf("the engine has no tool %s; this worker waits for it", errtext.Quote(w.queue.Tool)))
			})
		case errors.Is(err, errNoQueue):
			w.quiet.Do(func() { w.log.Info("waiting for the first call of this tool") })
		}
		if sleep.For(ctx, jsapi.RandomPause(pause)) == nil {
			pause = min(2*pause, jsapi.MaxPause)
		}
	}
}

// refuseTask returns or drops a message that is not for this worker.
func (w *Worker) refuseTask(got NextReply, why error) {
	r := AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckDrop}
	if errors.Is(why, errNewerTask) {
		r.Verb, r.DelayMS = AckRelease, newerDelay.Milliseconds()
		w.log.Warn("left a task to newer workers", "subject", errtext.Quote(got.Subject), "err", why)
	} else {
		w.log.Error("dropped a message of the queue that is not a task", "subject", errtext.Quote(got.Subject), "err", why)
	}
	if err := w.sendOnly(opAck.Operation, r); err != nil {
		w.log.Warn("cannot return a task, it will be delivered again", "err", err)
	}
}

// decodeNextReply decodes one reply; the state waiting is not an error.
func decodeNextReply(m *nats.Msg) (NextReply, error) {
	if len(m.Data) == 0 && jsapi.OnlyHeader(m.Header, "Status") == "503" {
		return NextReply{}, errNoQueue // or no engine
	}
	var reply struct {
		V    int `json:"v"`
		Body struct {
			State     TaskState          `json:"state"`
			Subject   string             `json:"subject"`
			Task      string             `json:"task"`
			Delivered int                `json:"delivered"`
			Record    strictjson.Encoded `json:"record"` // only its decoder checks it
		} `json:"body"`
		Error *message.Error `json:"error"`
	}
	err := strictjson.UnmarshalOpen(m.Data, &reply, strictjson.MaxBytes(jsapi.MaxMessageBytes))
	b := &reply.Body
	r := NextReply{b.State, b.Subject, b.Task, b.Delivered, message.RawJSON(b.Record)}
	switch {
	case err != nil:
		return r, err
	case reply.Error != nil:
		return r, reply.Error
	case reply.V != ProtocolVersion:
		return r, fmt.Errorf("reply version %d is unknown", reply.V)
	}
	switch r.State {
	case TaskNone:
		return r, errNoTask
	case TaskNoQueue:
		return r, errNoQueue
	case TaskWaiting, TaskHere:
		return r, nil
	}
	return r, fmt.Errorf("the engine answered %s", errtext.Quote(string(r.State)))
}

// releaseTask returns a task that arrived too late to the queue. If the release is lost,
// the task returns after ackWait.
func (w *Worker) releaseTask(m *nats.Msg) {
	if got, err := decodeNextReply(m); err == nil && got.State == TaskHere {
		_ = w.sendOnly(opAck.Operation, AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckRelease})
	}
}

// decodeTask decodes a task and checks that it belongs to this queue. The grant decides
// whether it may run.
func (w *Worker) decodeTask(got NextReply) (toolcall.Task, error) {
	s, err := ParseSubject(got.Subject)
	if err != nil {
		return toolcall.Task{}, err
	}
	if s.Kind != KindWork || s.Space != w.space || s.Tool != EncodeQueue(w.queue) {
		return toolcall.Task{}, errors.New("it is not a task of this tool")
	}
	var rec toolcall.EventRecord
	if err := strictjson.Unmarshal(got.Record, &rec, strictjson.MaxBytes(jsapi.MaxMessageBytes)); err != nil {
		return toolcall.Task{}, errtext.Because(checkNewer(got.Record), err)
	}
	if rec.V > toolcall.RecordVersion {
		return toolcall.Task{}, checkNewer(got.Record)
	}
	if rec.V != toolcall.RecordVersion || !s.BelongsTo(rec.Key(), rec.WorkQueue()) {
		return toolcall.Task{}, errors.New("its body is not the submitted event record that its subject names")
	}
	ack := AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckDone}
	return toolcall.Task{
		Record:    &rec,
		ID:        got.Task,
		Delivered: got.Delivered,
		Ack: func(ctx context.Context) error {
			_, err := opAck.Call(ctx, w, ack)
			return err
		},
		Release: func(d time.Duration) error {
			return w.sendOnly(opAck.Operation, AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckRelease, DelayMS: max(0, d.Milliseconds())})
		},
	}, nil
}

func checkNewer(body []byte) error {
	if v, _ := versionOf(body); v > toolcall.RecordVersion {
		return fmt.Errorf("%w: event record version %d, this worker reads %d", errNewerTask, v, toolcall.RecordVersion)
	}
	return nil
}

func versionOf(body []byte) (version int, ok bool) {
	var f struct {
		V int `json:"v"`
	}
	err := strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(jsapi.MaxMessageBytes))
	return f.V, err == nil
}
