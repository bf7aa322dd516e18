package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Engines pull tasks for workers. A worker that pulls for itself could choose
// where NATS replies, and let NATS purge or delete the journal: permissions do not
// cover reply subjects.

const (
	// pullHeartbeat is how often the server, and then the engine, confirms a
	// waiting request; it counts as lost after maxSilence.
	pullHeartbeat = 2 * time.Second
	maxSilence    = pullHeartbeat * 3 / 2
	// hearGone is how long the engine waits for the news that the worker has gone.
	hearGone = 500 * time.Millisecond
)

type pullRequest struct {
	Expires   int64 `json:"expires"` // nanoseconds, as the others
	Batch     int   `json:"batch"`
	NoWait    bool  `json:"no_wait,omitzero"`
	Heartbeat int64 `json:"idle_heartbeat,omitzero"`
}

// next waits for a task and hands it to a worker.
func (s *Service) next(ctx context.Context, who caller, r NextRequest, m *nats.Msg) error {
	if s.o.Observer != nil {
		s.o.Observer.ObserveWorker(who.principal.Name, who.queue)
	}
	wait := time.Duration(r.WaitMS) * time.Millisecond
	if wait <= 0 || wait > maxHeld {
		wait = maxHeld
	}
	ask := pullRequest{Expires: wait.Nanoseconds(), Batch: 1}
	if wait > 2*pullHeartbeat { // the server refuses shorter ones
		ask.Heartbeat = pullHeartbeat.Nanoseconds()
	}
	body, err := strictjson.Marshal(ask)
	if err != nil {
		return err
	}
	p, err := startPull(s.nc, nextSubject(s.space, who.queue), body)
	if err != nil {
		return notNow(err)
	}
	defer p.end(func(late *nats.Msg) {
		if stateOf(late) == TaskHere {
			s.acknowledge(late.Reply, AckRelease, 0)
		}
	})
	quiet := maxSilence
	if ask.Heartbeat == 0 {
		quiet += wait
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		select {
		case got := <-p.replies:
			state := stateOf(got)
			switch state {
			case TaskHere:
				return s.handOver(ctx, who, p, got, m)
			case taskRefused:
				return notNow(fmt.Errorf("status %s %s", first(got.Header, "Status"), first(got.Header, "Description")))
			}
			// With a reply subject NATS reports "no responders" if the worker has
			// gone, which ends the request.
			s.sendState(m, p.inbox, NextReply{State: state})
			if state != TaskWaiting {
				return nil
			}
			silence.Reset(maxSilence)
		case <-silence.C:
			return notNow(errors.New("the server is silent"))
		case <-p.lost:
			return notNow(nats.ErrDisconnected)
		case <-ctx.Done():
			return notNow(context.Cause(ctx))
		}
	}
}

func (s *Service) keys(_ context.Context, _ caller, _ KeysRequest, m *nats.Msg) error {
	var r KeysReply
	if s.o.Keys != nil {
		r.Keys = s.o.Keys()
	}
	return s.reply(m, opKeys.Name, r)
}

func notNow(err error) error {
	return &message.Error{Code: message.CodeUnavailable, Op: "next", What: "cannot fetch a task now", Hint: "try again", Err: err}
}

// stateOf classifies a reply of the server. A task has an acknowledgement
// subject, with any headers.
func stateOf(m *nats.Msg) TaskState {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		return TaskHere
	}
	switch first(m.Header, "Status") {
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

// sendState sends one of several replies. Without a listener the server reports that to
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

// handOver gives a task to the worker that asked with m, or back to the queue if the
// worker has gone.
func (s *Service) handOver(ctx context.Context, who caller, p *pulling, task, m *nats.Msg) error {
	if err := s.checkTask(who.queue, task); err != nil {
		s.log.Error("dropped a message of the queue that is not a task", "subject", errtext.Quote(task.Subject), "err", err)
		s.acknowledge(task.Reply, AckDrop, 0)
		s.sendState(m, p.inbox, NextReply{State: TaskNone})
		return nil
	}
	b, err := encodeReply("next", NextReply{State: TaskHere, Subject: task.Subject, Task: task.Reply, Delivered: countDeliveries(task.Reply), Record: forWorker(task.Data)}, s.maxReply())
	if err == nil {
		err = s.nc.PublishRequest(m.Reply, p.inbox, b)
	}
	if err != nil {
		s.acknowledge(task.Reply, AckRelease, maxPause)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hearGone)
	defer cancel()
	for {
		select {
		case got := <-p.replies:
			if stateOf(got) == TaskNoQueue { // "no responders": the worker has gone
				s.acknowledge(task.Reply, AckRelease, 0)
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// checkTask ensures that a task can be handed over. The worker checks whether it
// may run.
func (s *Service) checkTask(queue toolcall.Queue, task *nats.Msg) error {
	return checkTask(s.space, queue, task)
}

func checkTask(space toolcall.SpaceID, queue toolcall.Queue, task *nats.Msg) error {
	subject, err := ParseSubject(task.Subject)
	if err != nil {
		return err
	}
	if subject.Kind != KindWork || subject.Space != space || subject.Tool != EncodeQueue(queue) {
		return errors.New("it is not a task of this tool")
	}
	return strictjson.Check(task.Data, strictjson.MaxBytes(maxStoredBytes))
}

// forWorker removes from a task's body how the policy decided.
func forWorker(body []byte) []byte {
	const name = "explanation"
	if !bytes.Contains(body, []byte(`"`+name+`"`)) {
		return body
	}
	members, err := strictjson.Members(body)
	if err != nil {
		return body
	}
	out := []byte("{")
	for _, m := range members {
		if m.Name == name {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(strconv.AppendQuote(out, m.Name), ':'), m.Value...)
	}
	return append(out, '}')
}

// acknowledge sends the queue the fate of a task without waiting; if that is lost,
// the task returns after ackWait.
func (s *Service) acknowledge(task string, verb AckVerb, delay time.Duration) {
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

// ack sends the queue, for a worker, the fate of a task of its tool.
func (s *Service) ack(ctx context.Context, who caller, r AckRequest, m *nats.Msg) error {
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
	delay := time.Duration(min(r.DelayMS, maxDelay.Milliseconds())) * time.Millisecond
	if _, err := s.nc.RequestWithContext(ctx, r.Task, ackBody(r.Verb, delay)); err != nil {
		return apiError(op, "a task of "+who.queue.String(), err)
	}
	return s.reply(m, op, struct{}{})
}

// maxDelay is the longest pause of a task.
const maxDelay = time.Hour
