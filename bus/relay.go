package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Engines pull tasks for workers. A worker that pulled for itself could choose where
// NATS replies, and so make NATS purge or delete the journal: permissions do not
// cover reply subjects.

const (
	// pullHeartbeat is how often the server, and then the engine, confirms a
	// waiting request; it counts as lost after maxSilence.
	pullHeartbeat = 2 * time.Second
	maxSilence    = pullHeartbeat * 3 / 2
	// hearGone is how long the engine waits to be told that the worker has gone.
	hearGone = 500 * time.Millisecond
)

type pullRequest struct {
	Expires   int64 `json:"expires"` // nanoseconds, like the heartbeat
	Batch     int   `json:"batch"`
	NoWait    bool  `json:"no_wait,omitzero"`
	Heartbeat int64 `json:"idle_heartbeat,omitzero"`
}

// pullFor returns the request to the server for a worker's request.
func pullFor(r NextRequest) pullRequest {
	wait := time.Duration(r.WaitMS) * time.Millisecond
	if wait <= 0 || wait > maxHeld {
		wait = maxHeld
	}
	ask := pullRequest{Expires: wait.Nanoseconds(), Batch: min(max(r.Batch, 1), maxBatch)}
	if wait > 2*pullHeartbeat { // the server refuses a heartbeat on shorter waits
		ask.Heartbeat = pullHeartbeat.Nanoseconds()
	}
	return ask
}

func (r pullRequest) start(nc *nats.Conn, subject string) (*pulling, error) {
	body, err := strictjson.Marshal(r)
	if err != nil {
		return nil, err
	}
	return startPull(nc, subject, body, r.Batch)
}

// next waits for tasks and hands them to a worker.
func (s *Service) next(ctx context.Context, who caller, r NextRequest, m *nats.Msg) error {
	noteGone := func() {}
	if s.o.Observer != nil {
		noteGone = s.o.Observer.ObserveWorker(who.principal.Name, who.queue)
	}
	ask := pullFor(r)
	p, err := ask.start(s.nc, nextSubject(s.space, who.queue))
	if err != nil {
		return notNow(err)
	}
	defer p.endRequest(func(late *nats.Msg) {
		if stateOf(late) == TaskHere {
			s.sendFate(late.Reply, AckRelease, 0)
		}
	})
	quiet := maxSilence
	if ask.Heartbeat == 0 {
		quiet += time.Duration(ask.Expires)
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	h := &handing{s: s, who: who, p: p, m: m, owed: ask.Batch}
	for h.owed > 0 {
		select {
		case got := <-p.replies:
			workerGone, err := h.passOn(ctx, got)
			if workerGone && h.hasQueue {
				noteGone()
			}
			if workerGone || err != nil {
				return err
			}
			silence.Reset(quiet)
		case <-silence.C:
			return notNow(errors.New("the server is silent"))
		case <-p.lost:
			return notNow(nats.ErrDisconnected)
		case <-ctx.Done():
			return notNow(context.Cause(ctx))
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

func notNow(err error) error {
	return &message.Error{Code: message.CodeUnavailable, Op: "next", What: "cannot fetch a task now", Hint: "try again", Err: err}
}

// stateOf classifies a reply of the server. Any reply with an acknowledgement subject
// is a task, with any headers.
func stateOf(m *nats.Msg) TaskState {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		return TaskHere
	}
	switch onlyHeader(m.Header, "Status") {
	case "100":
		return TaskWaiting
	case "404", "408":
		return TaskNone
	case "503":
		return TaskNoQueue
	}
	return taskRefused
}

const taskRefused TaskState = ""

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
	p        *pulling
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
	state := stateOf(got)
	switch state {
	case TaskHere:
		return false, h.handOver(ctx, got)
	case taskRefused:
		return false, notNow(fmt.Errorf("status %s %s", onlyHeader(got.Header, "Status"), onlyHeader(got.Header, "Description")))
	case TaskWaiting:
		h.hasQueue = true
	case TaskNoQueue:
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
	h.s.sendState(h.m, h.p.inbox, NextReply{State: state})
	if state != TaskWaiting {
		h.owed = 0
	}
	return false, nil
}

func (h *handing) handOver(ctx context.Context, task *nats.Msg) error {
	h.owed--
	record, err := h.s.tasks.forWorker(ctx, h.who.queue, task)
	if errors.Is(err, errNotTask) {
		h.s.log.Error("dropped a message of the queue that is not a task", "subject", errtext.Quote(task.Subject), "err", err)
		h.s.sendFate(task.Reply, AckDrop, 0)
		h.s.sendState(h.m, h.p.inbox, NextReply{State: TaskNone})
		h.owed = 0
		return nil
	}
	if err != nil {
		h.s.sendFate(task.Reply, AckRelease, maxPause)
		return err
	}
	b, err := encodeTask(NextReply{State: TaskHere, Subject: task.Subject, Task: task.Reply, Delivered: countDeliveries(task.Reply)}, record, h.s.maxReply())
	if err == nil {
		err = h.s.nc.PublishRequest(h.m.Reply, h.p.inbox, b)
	}
	if err != nil {
		h.s.sendFate(task.Reply, AckRelease, maxPause)
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
		case got := <-h.p.replies:
			if stateOf(got) == TaskNoQueue {
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

// errNotTask: a message of a queue is not one of its tasks.
var errNotTask = errors.New("it is not a task of this tool")

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
		return []byte("+ACK")
	case AckDrop:
		return []byte("+TERM")
	}
	return fmt.Appendf(nil, `-NAK {"delay": %d}`, max(0, delay.Nanoseconds()))
}

// ackTask acknowledges, releases or drops a task for a worker of its queue.
func (s *Service) ackTask(ctx context.Context, who caller, r AckRequest, m *nats.Msg) error {
	const op = "ack"
	if !isTask(r.Task, StreamName(s.space), ConsumerName(who.queue)) {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: errtext.Quote(r.Task) + " is not a task of this tool", Hint: "send the task field of the reply to next"}
	}
	switch r.Verb {
	case AckDone, AckRelease, AckDrop:
	default:
		return &message.Error{Code: message.CodeInvalid, Op: op, What: "verb is " + errtext.Quote(string(r.Verb)), Hint: "use ack, nak or term"}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	delay := time.Duration(min(max(0, r.DelayMS), maxDelay.Milliseconds())) * time.Millisecond
	if _, err := s.nc.RequestWithContext(ctx, r.Task, ackBody(r.Verb, delay)); err != nil {
		return apiError(op, "a task of "+who.queue.String(), err)
	}
	return s.sendReply(m, op, struct{}{})
}

// maxDelay is the longest delay before a task is offered again.
const maxDelay = time.Hour

// forWorker returns the task as workers get it: the whole event record, without the
// explanation of the decision. It does not verify the task: the worker verifies its grant.
// A record that this engine cannot read goes to the worker unchanged, if it is JSON.
func (c codec) forWorker(ctx context.Context, queue toolcall.Queue, task *nats.Msg) (message.RawJSON, error) {
	if s, err := ParseSubject(task.Subject); err != nil || s.Kind != KindWork || s.Space != c.space || s.Tool != EncodeQueue(queue) {
		return nil, errtext.Because(errNotTask, err)
	}
	seq := sequenceOfTask(task.Reply)
	c.bases.store.noteSeen(seq)
	if known := c.bases.get(seq); known != nil {
		return strictjson.Marshal(known.Record)
	}
	if err := strictjson.Check(task.Data, strictjson.MaxBytes(maxStoredBytes)); err != nil {
		return nil, errtext.Because(errNotTask, err)
	}
	if s, err := toolcall.DecodeStored(task.Data); err != nil || !s.IsCompact() {
		return withoutExplanation(task.Data), nil //nolint:nilerr // the worker says what is wrong with it
	}
	c.keys = nil
	rec, _, err := c.expand(ctx, Entity(EntityIn(task.Subject)), stored{subject: task.Subject, seq: seq, header: task.Header, data: task.Data}, 0)
	if errors.Is(err, errUnreadable) {
		return task.Data, nil
	}
	if err != nil {
		return nil, err
	}
	rec.Explanation = nil
	return strictjson.Marshal(rec)
}

func withoutExplanation(body []byte) []byte {
	const name = "explanation"
	if !bytes.Contains(body, []byte(`"`+name+`"`)) {
		return body
	}
	out, err := strictjson.Without(body, name)
	if err != nil {
		return body
	}
	return out
}
