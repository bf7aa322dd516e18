package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Engines pull tasks for workers. A worker that pulled for itself could choose where
// NATS replies, and so make NATS purge or delete the journal: permissions do not
// cover reply subjects.

// hearGone is how long the engine waits to be told that the worker has gone.
const hearGone = 500 * time.Millisecond

// pullFor returns the request to the server for a worker's request.
func pullFor(r NextRequest) jsapi.Pull {
	wait := time.Duration(r.WaitMS) * time.Millisecond
	if wait <= 0 || wait > maxHeld {
		wait = maxHeld
	}
	ask := jsapi.Pull{Expires: wait.Nanoseconds(), Batch: min(max(r.Batch, 1), maxBatch)}
	if wait > 2*jsapi.Heartbeat { // the server refuses a heartbeat on shorter waits
		ask.Heartbeat = jsapi.Heartbeat.Nanoseconds()
	}
	return ask
}

// taskStates are the states that the engine passes on.
var taskStates = map[jsapi.State]TaskState{jsapi.StateWaiting: TaskWaiting, jsapi.StateNoTask: TaskNone, jsapi.StateNoQueue: TaskNoQueue}

// next waits for tasks and hands them to a worker.
func (s *Service) next(ctx context.Context, who caller, r NextRequest, m *nats.Msg) error {
	noteGone := func() {}
	if s.o.Observer != nil {
		noteGone = s.o.Observer.ObserveWorker(who.principal.Name, who.queue)
	}
	ask := pullFor(r)
	p, err := ask.Start(s.nc, NextSubject(s.space, who.queue))
	if err != nil {
		return jsapi.CannotFetch(err)
	}
	defer p.End(func(late *nats.Msg) {
		if jsapi.StateOf(late) == jsapi.StateTask {
			s.sendFate(late.Reply, AckRelease, 0)
		}
	})
	quiet := jsapi.MaxSilence
	if ask.Heartbeat == 0 {
		quiet += time.Duration(ask.Expires)
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	h := &handing{s: s, who: who, p: p, m: m, owed: ask.Batch}
	for h.owed > 0 {
		select {
		case got := <-p.Replies:
			workerGone, err := h.passOn(ctx, got)
			if workerGone && h.hasQueue {
				noteGone()
			}
			if workerGone || err != nil {
				return err
			}
			silence.Reset(quiet)
		case <-silence.C:
			return jsapi.CannotFetch(errors.New("the server is silent"))
		case <-p.Lost:
			return jsapi.CannotFetch(nats.ErrDisconnected)
		case <-ctx.Done():
			return jsapi.CannotFetch(context.Cause(ctx))
		}
	}
	h.waitUntilGone(ctx)
	return nil
}

func (s *Service) sendKeys(_ context.Context, _ caller, _ KeysRequest, m *nats.Msg) error {
	var r KeysReply
	if s.o.Keys != nil {
		r.Keys = s.o.Keys()
	}
	return s.sendReply(m, opKeys.Name, r)
}

// sendState sends one of several replies. If no one listens, the server reports that to
// inbox.
func (s *Service) sendState(m *nats.Msg, inbox string, r NextReply) {
	b, err := encodeReply("next", r, s.maxReply())
	if err == nil {
		err = s.nc.PublishRequest(m.Reply, inbox, b)
	}
	if err != nil { // the worker asks again
		s.log.Warn("cannot answer a request", "subject", m.Subject, "err", err)
	}
}

// handing hands the tasks of one request to the worker that sent it with m.
type handing struct {
	s        *Service
	who      caller
	p        *jsapi.Pulling
	m        *nats.Msg
	owed     int  // how many tasks the server still has to send
	hasQueue bool // the server has confirmed the request
	sent     []sentTask
}

// sentTask is a task that is on its way to a worker.
type sentTask struct {
	task string
	at   time.Time
}

// passOn passes a message of the server on to the worker, and reports whether the worker has gone.
func (h *handing) passOn(ctx context.Context, got *nats.Msg) (workerGone bool, err error) {
	state := jsapi.StateOf(got)
	switch state {
	case jsapi.StateTask:
		return false, h.handOver(ctx, got)
	case jsapi.StateRefused:
		return false, jsapi.CannotFetch(fmt.Errorf("status %s %s", jsapi.OnlyHeader(got.Header, "Status"), jsapi.OnlyHeader(got.Header, "Description")))
	case jsapi.StateWaiting:
		h.hasQueue = true
	case jsapi.StateNoQueue:
		if h.takeBack() || h.hasQueue {
			return true, nil
		}
		if h.s.surface != nil { // an acknowledgement of no task reports a tool that the engine lacks
			_, err := h.s.surface(h.who.principal, h.who.queue).Call(ctx, api.Ack.Operation, toolcall.AckTaskRequest{Tool: h.who.queue.Tool, Route: h.who.queue.Route})
			if errors.Is(err, message.ErrNotFound) {
				return false, err
			}
		}
	}
	// With a reply subject NATS reports "no responders" if the worker has gone, which ends
	// the request.
	h.s.sendState(h.m, h.p.Inbox, NextReply{State: taskStates[state]})
	if state != jsapi.StateWaiting {
		h.owed = 0
	}
	return false, nil
}

func (h *handing) handOver(ctx context.Context, task *nats.Msg) error {
	h.owed--
	record, err := h.s.tasks.TaskForWorker(ctx, h.who.queue, task)
	if errors.Is(err, ErrNotTask) {
		h.s.log.Error("dropped a message of the queue that is not a task", "subject", errtext.Quote(task.Subject), "err", err)
		h.s.sendFate(task.Reply, AckDrop, 0)
		h.s.sendState(h.m, h.p.Inbox, NextReply{State: TaskNone})
		h.owed = 0
		return nil
	}
	if err != nil {
		h.s.sendFate(task.Reply, AckRelease, jsapi.MaxPause)
		return err
	}
	b, err := encodeTask(NextReply{State: TaskHere, Subject: task.Subject, Task: task.Reply, Delivered: jsapi.Deliveries(task.Reply)}, record, h.s.maxReply())
	if err == nil {
		err = h.s.nc.PublishRequest(h.m.Reply, h.p.Inbox, b)
	}
	if err != nil {
		h.s.sendFate(task.Reply, AckRelease, jsapi.MaxPause)
		return err
	}
	h.sent = append(h.sent, sentTask{task.Reply, time.Now()})
	return nil
}

// encodeTask encodes a reply with a record, which is JSON.
func encodeTask(r NextReply, record []byte, most int) ([]byte, error) {
	b, err := strictjson.MarshalBetween(replyPrefix, r, "}")
	if err != nil {
		return nil, err
	}
	b = slices.Concat(b[:len(b)-2], []byte(`,"record":`), record, []byte("}}"))
	return b, checkReplySize(b, most)
}

// takeBack returns to the queue the tasks that were sent so recently that the worker, which
// has gone, cannot have received them. It reports whether there were any.
func (h *handing) takeBack() bool {
	took := false
	for _, t := range h.sent {
		if time.Since(t.at) < hearGone {
			h.s.sendFate(t.task, AckRelease, 0)
			took = true
		}
	}
	return took
}

// waitUntilGone waits until the last sent task is old, or the worker has gone.
func (h *handing) waitUntilGone(ctx context.Context) {
	if len(h.sent) == 0 {
		return
	}
	over := time.After(hearGone - time.Since(h.sent[len(h.sent)-1].at))
	for {
		select {
		case got := <-h.p.Replies:
			if jsapi.StateOf(got) == jsapi.StateNoQueue {
				h.takeBack()
				return
			}
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// sendFate acknowledges, releases or drops a task without waiting. If the message is
// lost, the task returns to the queue after ackWait.
func (s *Service) sendFate(task string, verb AckVerb, delay time.Duration) {
	if err := s.nc.Publish(task, ackBody(verb, delay)); err != nil {
		s.log.Warn("cannot "+string(verb)+" a task", "err", err)
	}
}

func ackBody(verb AckVerb, delay time.Duration) []byte {
	switch verb {
	case AckDone:
		return []byte(jsapi.AckBody)
	case AckDrop:
		return []byte(jsapi.TermBody)
	}
	return jsapi.NakBody(delay)
}

// ackTask acknowledges, releases or drops a task for a worker of its queue.
func (s *Service) ackTask(ctx context.Context, who caller, r AckRequest, m *nats.Msg) error {
	const op = "ack"
	if !jsapi.IsTask(r.Task, StreamName(s.space), ConsumerName(who.queue)) {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: errtext.Quote(r.Task) + " is not a task of this tool", Hint: "send the member task of the reply to next"}
	}
	switch r.Verb {
	case AckDone, AckRelease, AckDrop:
	default:
		return &message.Error{Code: message.CodeInvalid, Op: op, What: "verb is " + errtext.Quote(string(r.Verb)), Hint: "use ack, nak or term"}
	}
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	delay := time.Duration(min(max(0, r.DelayMS), jsapi.MaxDelay.Milliseconds())) * time.Millisecond
	if _, err := s.nc.RequestWithContext(ctx, r.Task, ackBody(r.Verb, delay)); err != nil {
		return jsapi.Error(op, "a task of "+who.queue.String(), err)
	}
	return s.sendReply(m, op, struct{}{})
}
