package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Why a request for a task came back without one.
var (
	errNoTask  = errors.New("no task yet")
	errNoQueue = errors.New("the tool has no queue")
)

// errNewerTask: a newer engine wrote it, and newer workers can read it.
var errNewerTask = errors.New("it is of a later version")

// newerDelay is how long such a task rests before somebody gets it again.
const newerDelay = 10 * time.Second

// Next implements executor.Transport. It asks for one task and waits until
// there is one or ctx ends, across reconnects and restarts of engines and of
// NATS, and also before an engine has made the tool's queue. Tasks that are
// none (damaged, or of another tool) are taken off the queue and reported in
// the log. A task that arrives as ctx ends goes back to the queue. If NATS
// does not let this user ask, the error is ErrForbidden.
func (w *Worker) Next(ctx context.Context) (toolcall.Task, error) {
	for pause := firstPause; ; {
		got, err := w.pull(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return toolcall.Task{}, &message.Error{Code: message.CodeUnavailable, Op: "next task", What: "nothing came for " + w.queue.String(), Err: context.Cause(ctx)}
		case err == nil:
			task, err := w.task(got)
			if err == nil {
				return task, nil
			}
			w.refuse(got, err)
			pause = firstPause
			continue
		case errors.Is(err, errNoTask):
			pause = firstPause
			continue
		case errors.Is(err, message.ErrForbidden):
			return toolcall.Task{}, err
		case w.nc.IsClosed():
			return toolcall.Task{}, apiError("next task", w.queue.String(), err)
		case errors.Is(err, errNoQueue):
			w.quiet.Do(func() { w.log.Warn("no engine has offered this tool yet, waiting") })
		}
		if sleep(ctx, jitter(pause)) {
			pause = min(2*pause, maxPause)
		}
	}
}

// refuse puts away what is not for this worker.
func (w *Worker) refuse(got NextReply, why error) {
	r := AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckDrop}
	if errors.Is(why, errNewerTask) {
		r.Verb, r.DelayMS = AckRelease, newerDelay.Milliseconds()
		w.log.Warn("left a task to newer workers", "subject", errtext.Quote(got.Subject), "err", why)
	} else {
		w.log.Error("took something off the queue that is no task", "subject", errtext.Quote(got.Subject), "err", why)
	}
	if err := w.tell(opAck.Operation, r); err != nil {
		w.log.Warn("a task was not put away and comes again", "err", err)
	}
}

// pull makes one request for a task. Its inbox is its own: when it is given
// up, the engine finds nobody there and gives the task back.
func (w *Worker) pull(ctx context.Context) (NextReply, error) {
	data, err := encodeRequest(opNext.Name, NextRequest{V: ProtocolVersion, WaitMS: holdFor.Milliseconds()})
	if err != nil {
		return NextReply{}, err
	}
	answers := make(chan *nats.Msg, 64)
	inbox := w.nc.NewInbox()
	sub, err := w.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return NextReply{}, err
	}
	defer w.giveUp(sub, answers)
	before := w.nc.LastError()
	lost := w.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer w.nc.RemoveStatusListener(lost)
	subject := w.subject(KindNext)
	if err := w.nc.PublishRequest(subject, inbox, data); err != nil {
		return NextReply{}, err
	}
	silence := time.NewTimer(hearGone) // a refusal by NATS is here by then
	heard := time.Now()
	defer silence.Stop()
	for {
		select {
		case m := <-answers:
			got, err := nextReply(m)
			if err != nil || got.State == TaskHere {
				return got, err
			}
			silence.Reset(maxSilence)
			heard = time.Now()
		case <-silence.C:
			if err := violation(w.nc, before, subject, inbox); err != nil {
				return NextReply{}, notAllowed(opNext.Name, err)
			}
			if rest := maxSilence - time.Since(heard); rest > 0 {
				silence.Reset(rest)
				continue
			}
			return NextReply{}, errors.New("the engine is silent")
		case <-lost:
			return NextReply{}, nats.ErrDisconnected
		case <-ctx.Done():
			return NextReply{}, context.Cause(ctx)
		}
	}
}

// nextReply reads one answer; waiting is no error.
func nextReply(m *nats.Msg) (NextReply, error) {
	if len(m.Data) == 0 && first(m.Header, "Status") == "503" {
		return NextReply{}, errNoQueue // nor is there an engine
	}
	reply, err := decodeReply(opNext.Operation, m.Data)
	r, _ := reply.(NextReply)
	if err != nil {
		return r, err
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

// giveUp ends the request and sends a task that came too late back.
func (w *Worker) giveUp(sub *nats.Subscription, answers <-chan *nats.Msg) {
	_ = sub.Unsubscribe() // fails only on a dead connection
	for {
		select {
		case m := <-answers:
			if got, err := nextReply(m); err == nil && got.State == TaskHere {
				// If this is lost it comes back by itself, later.
				_ = w.tell(opAck.Operation, AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckRelease})
			}
		default:
			return
		}
	}
}

// task decodes and checks a task. Whether it may run is for the grant to
// say; here it only has to be one of this tool.
func (w *Worker) task(got NextReply) (toolcall.Task, error) {
	s, err := ParseSubject(got.Subject)
	if err != nil {
		return toolcall.Task{}, err
	}
	if s.Kind != KindWork || s.Space != w.space || s.Tool != EncodeQueue(w.queue) {
		return toolcall.Task{}, errors.New("it is not a task of this tool")
	}
	var f toolcall.EventRecord
	if err := strictjson.Unmarshal(got.Record, &f, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		return toolcall.Task{}, errtext.Because(newerTask(got.Record), err)
	}
	if f.V > toolcall.RecordVersion {
		return toolcall.Task{}, newerTask(got.Record)
	}
	if f.V != toolcall.RecordVersion || !s.names(f.Key(), f.WorkQueue()) {
		return toolcall.Task{}, errors.New("its body is not the submitted event record that its subject names")
	}
	ack := AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckDone}
	return toolcall.Task{
		Record:    &f,
		Delivered: got.Delivered,
		Ack: func(ctx context.Context) error {
			_, err := opAck.Call(ctx, w, ack)
			return err
		},
		Release: func(d time.Duration) error {
			return w.tell(opAck.Operation, AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckRelease, DelayMS: max(0, d.Milliseconds())})
		},
	}, nil
}

// newerTask is errNewerTask if the body says that it is of a later version than
// this one, and else nil.
func newerTask(body []byte) error {
	var f struct {
		V int `json:"v"`
	}
	if strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(maxStoredBytes)) == nil && f.V > toolcall.RecordVersion {
		return fmt.Errorf("%w: event record version %d, this worker reads %d", errNewerTask, f.V, toolcall.RecordVersion)
	}
	return nil
}
