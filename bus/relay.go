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

// Workers get their tasks from an engine, which pulls them from the tool's
// consumer. A worker with the right to pull for itself could choose where NATS
// sends what it says, and so have NATS purge or delete the journal in its own
// name: permissions do not cover reply subjects.

const (
	// pullHeartbeat is how often the server, and then the engine, says that a
	// request for a task is still there. The request counts as lost after a silence
	// of maxSilence.
	pullHeartbeat = 2 * time.Second
	maxSilence    = pullHeartbeat * 3 / 2
	// hearGone is how long the engine listens whether anybody is there for an
	// task.
	hearGone = 500 * time.Millisecond
)

// pullRequest is the body of MSG.NEXT.
type pullRequest struct {
	Expires   int64 `json:"expires"` // nanoseconds, as the others
	Batch     int   `json:"batch"`
	Heartbeat int64 `json:"idle_heartbeat,omitzero"`
}

// next waits for a task on behalf of a worker and hands it over.
func (s *Service) next(ctx context.Context, who caller, r NextRequest, m *nats.Msg) error {
	wait := time.Duration(r.WaitMS) * time.Millisecond
	if wait <= 0 || wait > maxHeld {
		wait = maxHeld
	}
	ask := pullRequest{Expires: wait.Nanoseconds(), Batch: 1}
	if wait > 2*pullHeartbeat { // the server takes no other
		ask.Heartbeat = pullHeartbeat.Nanoseconds()
	}
	body, err := strictjson.Marshal(ask)
	if err != nil {
		return err
	}
	answers := make(chan *nats.Msg, 64)
	inbox := s.nc.NewInbox()
	sub, err := s.nc.ChanSubscribe(inbox, answers)
	if err != nil {
		return notNow(err)
	}
	defer s.giveUp(sub, answers)
	lost := s.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	defer s.nc.RemoveStatusListener(lost)
	if err := s.nc.PublishRequest(nextSubject(s.space, who.queue), inbox, body); err != nil {
		return notNow(err)
	}
	quiet := maxSilence
	if ask.Heartbeat == 0 {
		quiet += wait
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		select {
		case got := <-answers:
			state := pullState(got)
			switch state {
			case TaskHere:
				return s.hand(ctx, who, inbox, answers, got, m)
			case taskRefused:
				return notNow(fmt.Errorf("status %s %s", first(got.Header, "Status"), first(got.Header, "Description")))
			}
			// With a reply subject NATS tells if the worker has gone: "no responders",
			// which ends the request like the answer that there is no queue.
			s.say(m, inbox, NextReply{State: state})
			if state != TaskWaiting {
				return nil
			}
			silence.Reset(maxSilence)
		case <-silence.C:
			return notNow(errors.New("the server is silent"))
		case <-lost:
			return notNow(nats.ErrDisconnected)
		case <-ctx.Done():
			return notNow(context.Cause(ctx))
		}
	}
}

// keys tells a worker the engines' signing keys.
func (s *Service) keys(_ context.Context, _ caller, _ KeysRequest, m *nats.Msg) error {
	var r KeysReply
	if s.o.Keys != nil {
		r.Keys = s.o.Keys()
	}
	b, err := encodeReply("keys", r, s.most())
	if err == nil {
		s.respond(m, b)
	}
	return err
}

func notNow(err error) error {
	return &message.Error{Code: message.CodeUnavailable, Op: "next", What: "no task can be fetched now", Hint: "ask again", Err: err}
}

// pullState reads what the server answered to a request for a task. A task
// has an acknowledgement subject, whatever its headers say.
func pullState(m *nats.Msg) TaskState {
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

// taskRefused is what the server says when it does not take the request.
const taskRefused TaskState = ""

// say sends one answer of several. If nobody is there the server says so to
// inbox.
func (s *Service) say(m *nats.Msg, inbox string, r NextReply) {
	b, err := encodeReply("next", r, s.most())
	if err == nil {
		err = s.nc.PublishRequest(m.Reply, inbox, b)
	}
	if err != nil { // the worker will ask again
		s.log.Warn("could not answer a request", "subject", m.Subject, "err", err)
	}
}

// hand gives a task to the worker that asked with m. If nobody is there any
// more it goes back to the queue.
func (s *Service) hand(ctx context.Context, who caller, inbox string, answers <-chan *nats.Msg, task, m *nats.Msg) error {
	if err := s.sane(who.queue, task); err != nil {
		s.log.Error("took something off the queue that is no task", "subject", errtext.Quote(task.Subject), "err", err)
		s.resolve(task.Reply, AckDrop, 0)
		s.say(m, inbox, NextReply{State: TaskNone})
		return nil
	}
	b, err := encodeReply("next", NextReply{State: TaskHere, Subject: task.Subject, Task: task.Reply, Delivered: delivered(task.Reply), Record: forWorker(task.Data)}, s.most())
	if err == nil {
		err = s.nc.PublishRequest(m.Reply, inbox, b)
	}
	if err != nil {
		s.resolve(task.Reply, AckRelease, maxPause)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hearGone)
	defer cancel()
	for {
		select {
		case got := <-answers:
			if pullState(got) == TaskNoQueue { // "no responders": the worker has gone
				s.resolve(task.Reply, AckRelease, 0)
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// sane makes sure that a task can be handed over at all. Whether it may run is
// for the worker to find out.
func (s *Service) sane(queue toolcall.Queue, task *nats.Msg) error {
	subject, err := ParseSubject(task.Subject)
	if err != nil {
		return err
	}
	if subject.Kind != KindWork || subject.Space != s.space || subject.Tool != EncodeQueue(queue) {
		return errors.New("it is not a task of this tool")
	}
	return strictjson.Check(task.Data, strictjson.MaxBytes(maxStoredBytes))
}

// forWorker is a task's body without what is no worker's business: how the
// policy came to its decision. It is well-formed JSON.
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

// giveUp ends a request for a task. One that came too late goes back.
func (s *Service) giveUp(sub *nats.Subscription, answers <-chan *nats.Msg) {
	_ = sub.Unsubscribe() // fails only on a dead connection
	for {
		select {
		case m := <-answers:
			if pullState(m) == TaskHere {
				s.resolve(m.Reply, AckRelease, 0)
			}
		default:
			return
		}
	}
}

// resolve tells the queue what becomes of a task, without waiting. If that is
// lost the task comes back by itself, later.
func (s *Service) resolve(task string, verb AckVerb, delay time.Duration) {
	if err := s.nc.Publish(task, ackBody(verb, delay)); err != nil {
		s.log.Warn("a task could not be "+string(verb)+"ed", "err", err)
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

// ack tells the queue for a worker what becomes of a task of its tool.
func (s *Service) ack(ctx context.Context, who caller, r AckRequest, m *nats.Msg) error {
	const op = "ack"
	if !isTask(r.Task, StreamName(s.space), ConsumerName(who.queue)) {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: errtext.Quote(r.Task) + " names no task of this tool", Hint: "send what came with the task"}
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
	b, err := encodeReply(op, struct{}{}, s.most())
	if err == nil {
		s.respond(m, b)
	}
	return err
}

// maxDelay is the longest that a task may rest.
const maxDelay = time.Hour
