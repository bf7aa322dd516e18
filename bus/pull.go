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

// Why a request for a task returned without one.
var (
	errNoTask  = errors.New("no task yet")
	errNoQueue = errors.New("the tool has no queue")
)

// errNewerTask: a newer engine wrote it, and newer workers can read it.
var errNewerTask = errors.New("it is of a later version")

// newerDelay is how long such a task rests before another worker gets it.
const newerDelay = 10 * time.Second

// Next implements executor.Transport. It waits for one task until ctx ends, across
// reconnects and restarts, also before the tool's queue exists. It drops and logs
// messages that are not tasks of this tool, and releases a task that arrives as
// ctx ends. ErrForbidden: NATS does not let this user ask.
func (w *Worker) Next(ctx context.Context) (toolcall.Task, error) {
	for pause := firstPause; ; {
		got, err := w.pull(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return toolcall.Task{}, &message.Error{Code: message.CodeUnavailable, Op: "next task", What: "no task came for " + w.queue.String(), Err: context.Cause(ctx)}
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

// refuse returns or drops a message that is not for this worker.
func (w *Worker) refuse(got NextReply, why error) {
	r := AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckDrop}
	if errors.Is(why, errNewerTask) {
		r.Verb, r.DelayMS = AckRelease, newerDelay.Milliseconds()
		w.log.Warn("left a task to newer workers", "subject", errtext.Quote(got.Subject), "err", why)
	} else {
		w.log.Error("dropped a message of the queue that is not a task", "subject", errtext.Quote(got.Subject), "err", why)
	}
	if err := w.tell(opAck.Operation, r); err != nil {
		w.log.Warn("cannot return a task, it is delivered again", "err", err)
	}
}

// pull makes one request for a task. When it gives up its inbox, the engine gets
// no responders and releases the task.
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
	silence := time.NewTimer(hearGone) // a refusal by NATS arrives within it
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

// nextReply decodes one reply; waiting is not an error.
func nextReply(m *nats.Msg) (NextReply, error) {
	if len(m.Data) == 0 && first(m.Header, "Status") == "503" {
		return NextReply{}, errNoQueue // or no engine
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

// giveUp ends the request and releases a task that came too late.
func (w *Worker) giveUp(sub *nats.Subscription, answers <-chan *nats.Msg) {
	_ = sub.Unsubscribe() // fails only on a dead connection
	for {
		select {
		case m := <-answers:
			if got, err := nextReply(m); err == nil && got.State == TaskHere {
				// without it the task returns after ackWait
				_ = w.tell(opAck.Operation, AckRequest{V: ProtocolVersion, Task: got.Task, Verb: AckRelease})
			}
		default:
			return
		}
	}
}

// task decodes a task and checks that it belongs to this queue. The grant decides
// whether it may run.
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

// newerTask is errNewerTask if the body has a later version, else nil.
func newerTask(body []byte) error {
	var f struct {
		V int `json:"v"`
	}
	if strictjson.UnmarshalOpen(body, &f, strictjson.MaxBytes(maxStoredBytes)) == nil && f.V > toolcall.RecordVersion {
		return fmt.Errorf("%w: event record version %d, this worker reads %d", errNewerTask, f.V, toolcall.RecordVersion)
	}
	return nil
}
