package bus

import (
	"bytes"
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

// Workers get their items from an engine, which pulls them from the tool's
// consumer. A worker with the right to pull for itself could choose where NATS
// sends what it says, and so have NATS purge or delete the journal in its own
// name: permissions do not cover reply subjects.

const (
	// pullHeartbeat is how often the server, and then the engine, says that a
	// request for an item is still there. The request counts as lost after a silence
	// of maxSilence.
	pullHeartbeat = 2 * time.Second
	maxSilence    = pullHeartbeat * 3 / 2
	// hearGone is how long the engine listens whether anybody is there for an
	// item.
	hearGone = 500 * time.Millisecond
)

// pullRequest is the body of MSG.NEXT.
type pullRequest struct {
	Expires   int64 `json:"expires"` // nanoseconds, as the others
	Batch     int   `json:"batch"`
	Heartbeat int64 `json:"idle_heartbeat,omitzero"`
}

// next waits for an item on behalf of a worker and hands it over.
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
			case ItemHere:
				return s.hand(ctx, who, inbox, answers, got, m)
			case itemRefused:
				return notNow(fmt.Errorf("status %s %s", first(got.Header, "Status"), first(got.Header, "Description")))
			}
			// With a reply subject NATS tells if the worker has gone: "no responders",
			// which ends the request like the answer that there is no queue.
			s.say(m, inbox, NextReply{State: state})
			if state != ItemWaiting {
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
	return &message.Error{Code: message.CodeUnavailable, Op: "next", What: "no item can be fetched now", Hint: "ask again", Err: err}
}

// pullState reads what the server answered to a request for an item. An item
// has an acknowledgement subject, whatever its headers say.
func pullState(m *nats.Msg) ItemState {
	if strings.HasPrefix(m.Reply, ackPrefix) {
		return ItemHere
	}
	switch first(m.Header, "Status") {
	case "100":
		return ItemWaiting
	case "404", "408":
		return ItemNone
	case "503":
		return ItemNoQueue
	}
	return itemRefused
}

// itemRefused is what the server says when it does not take the request.
const itemRefused ItemState = ""

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

// hand gives an item to the worker that asked with m. If nobody is there any
// more it goes back to the queue.
func (s *Service) hand(ctx context.Context, who caller, inbox string, answers <-chan *nats.Msg, item, m *nats.Msg) error {
	if err := s.sane(who.queue, item); err != nil {
		s.log.Error("took something off the queue that is no work item", "subject", quote(item.Subject), "err", err)
		s.resolve(item.Reply, AckDrop, 0)
		s.say(m, inbox, NextReply{State: ItemNone})
		return nil
	}
	b, err := encodeReply("next", NextReply{State: ItemHere, Subject: item.Subject, Item: item.Reply, Delivered: delivered(item.Reply), Fact: forWorker(item.Data)}, s.most())
	if err == nil {
		err = s.nc.PublishRequest(m.Reply, inbox, b)
	}
	if err != nil {
		s.resolve(item.Reply, AckRelease, maxPause)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, hearGone)
	defer cancel()
	for {
		select {
		case got := <-answers:
			if pullState(got) == ItemNoQueue { // "no responders": the worker has gone
				s.resolve(item.Reply, AckRelease, 0)
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// sane makes sure that an item can be handed over at all. Whether it may run is
// for the worker to find out.
func (s *Service) sane(queue message.Queue, item *nats.Msg) error {
	subject, err := ParseSubject(item.Subject)
	if err != nil {
		return err
	}
	if subject.Kind != KindWork || subject.Space != s.space || subject.Tool != EncodeQueue(queue) {
		return errors.New("it is not a work item of this tool")
	}
	return strictjson.Check(item.Data, strictjson.MaxBytes(maxStoredBytes))
}

// forWorker is a work item's body without what is no worker's business: how the
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

// giveUp ends a request for an item. One that came too late goes back.
func (s *Service) giveUp(sub *nats.Subscription, answers <-chan *nats.Msg) {
	_ = sub.Unsubscribe() // fails only on a dead connection
	for {
		select {
		case m := <-answers:
			if pullState(m) == ItemHere {
				s.resolve(m.Reply, AckRelease, 0)
			}
		default:
			return
		}
	}
}

// resolve tells the queue what becomes of an item, without waiting. If that is
// lost the item comes back by itself, later.
func (s *Service) resolve(item string, verb AckVerb, delay time.Duration) {
	if err := s.nc.Publish(item, ackBody(verb, delay)); err != nil {
		s.log.Warn("an item could not be "+string(verb)+"ed", "err", err)
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

// ack tells the queue for a worker what becomes of an item of its tool.
func (s *Service) ack(ctx context.Context, who caller, r AckRequest, m *nats.Msg) error {
	const op = "ack"
	if !isItem(r.Item, StreamName(s.space), ConsumerName(who.queue)) {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: quote(r.Item) + " names no item of this tool", Hint: "send what came with the item"}
	}
	switch r.Verb {
	case AckDone, AckRelease, AckDrop:
	default:
		return &message.Error{Code: message.CodeInvalid, Op: op, What: "verb is " + quote(string(r.Verb)), Hint: "use ack, nak or term"}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	delay := time.Duration(min(r.DelayMS, maxDelay.Milliseconds())) * time.Millisecond
	if _, err := s.nc.RequestWithContext(ctx, r.Item, ackBody(r.Verb, delay)); err != nil {
		return apiError(op, "an item of "+who.queue.String(), err)
	}
	b, err := encodeReply(op, struct{}{}, s.most())
	if err == nil {
		s.respond(m, b)
	}
	return err
}

// maxDelay is the longest that an item may rest.
const maxDelay = time.Hour
