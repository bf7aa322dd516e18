package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// AppendEvent implements engine.Journal. The events are sent without waiting and
// are stored in order. After an error some of them may be stored: append all of them
// again; an event with an id is not stored twice within two minutes.
func (j *Journal) AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error) {
	op := "append events of " + errtext.Quote(reply.String())
	subject, err := j.codec.eventSubject(runtime, reply)
	if err != nil {
		return 0, err
	}
	if len(events) == 0 {
		return 0, &message.Error{Code: message.CodeInvalid, Op: op, What: "the list of events is empty"}
	}
	msgs := make([]*nats.Msg, len(events))
	for i, ev := range events {
		if msgs[i], err = eventMsg(subject, reply, ev, j.store.nc.MaxPayload()); err != nil {
			return 0, &message.Error{Code: message.AsError("", err).Code, Op: op, What: fmt.Sprintf("event %d of %d", i+1, len(events)), Err: err}
		}
	}
	if err := j.guard.checkWritable(); err != nil {
		return 0, err
	}
	if err := j.room.check(ctx); err != nil {
		return 0, &message.Error{Code: message.CodeFull, Op: op, What: "nothing was written", Hint: growHint, Err: err}
	}
	seq, err := j.sendEvents(ctx, msgs)
	if err == nil || errors.Is(err, message.ErrDamaged) {
		return seq, err
	}
	if broken := j.guard.whyBroken(); broken != nil {
		return 0, &message.Error{Code: message.CodeFull, Op: op, What: "the store no longer writes", Hint: restartHint, Err: broken}
	}
	e := jsapi.Error(op, "some events may be stored", err)
	e.Hint = cmp.Or(e.Hint, "append all of them again")
	return 0, e
}

func (c codec) eventSubject(runtime string, reply toolcall.Key) (bus.Subject, error) {
	if err := bus.CheckName("runtime", runtime); err != nil {
		return bus.Subject{}, err
	}
	if reply.Reply == "" || reply.Call != "" || reply.Space != c.space {
		return bus.Subject{}, &message.Error{Code: message.CodeInvalid, Op: "append events", What: errtext.Quote(reply.String()) + " names no reply of this space"}
	}
	if _, err := bus.EntityOf(reply); err != nil {
		return bus.Subject{}, err
	}
	return bus.Subject{Space: c.space, Kind: bus.KindEvent, Who: bus.Encode(runtime), Session: bus.Encode(string(reply.Session)), Reply: bus.Encode(string(reply.Reply))}, nil
}

func eventMsg(s bus.Subject, reply toolcall.Key, ev message.RawJSON, maxPayload int64) (*nats.Msg, error) {
	if int64(len(ev)+headerRoom) > maxPayload {
		return nil, &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("it has %d bytes, the server accepts %d with headers", len(ev), maxPayload), Hint: "split it"}
	}
	var e struct {
		ID string `json:"id"`
	}
	if err := strictjson.UnmarshalOpen(ev, &e, strictjson.MaxBytes(jsapi.MaxMessageBytes)); err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, What: "it is not a JSON object", Err: err}
	}
	m := nats.NewMsg(s.String())
	m.Data = ev
	m.Header[HeaderShown] = []string{proof.MarkOf(proof.Shown(ev, false, nil))}
	if e.ID != "" {
		sum := sha256.Sum256(append(append([]byte(m.Subject), 0), ev...))
		m.Header[headerID] = []string{"ev_" + base64.RawURLEncoding.EncodeToString(sum[:18])}
	}
	if _, ok := s.Session.ID(); !ok {
		m.Header[headerSession] = []string{base64.RawURLEncoding.EncodeToString([]byte(reply.Session))}
	}
	if _, ok := s.Reply.ID(); !ok {
		m.Header[headerReply] = []string{base64.RawURLEncoding.EncodeToString([]byte(reply.Reply))}
	}
	return m, nil
}

// sendEvents publishes all events, then waits for all replies. A later event is stored
// without an earlier one only if the stream filled up in between.
func (j *Journal) sendEvents(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	inbox := j.store.nc.NewInbox()
	sub, err := j.store.nc.SubscribeSync(inbox)
	if err != nil {
		return 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a dead connection
	before := j.guard.high.Load()
	for _, m := range msgs {
		m.Reply = inbox
		if err := j.store.nc.PublishMsg(m); err != nil {
			return 0, err
		}
		j.room.noteWritten(len(m.Data) + len(m.Subject) + headerRoom/8)
	}
	var seq uint64
	for _, sent := range msgs { // one stream answers in the order in which it stored
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		if len(m.Data) == 0 && jsapi.OnlyHeader(m.Header, "Status") == "503" {
			return 0, nats.ErrNoResponders
		}
		ack, err := parseAck(m.Data)
		if err != nil {
			return 0, err
		}
		if ack.Stream != j.store.stream {
			return 0, errOtherStream
		}
		if !ack.Duplicate {
			if err := j.guard.noteStored(ack.Seq, before, proof.Leaf(sent.Subject, proof.Content(provedHeader(sent.Header), sent.Data))); err != nil {
				return 0, err
			}
		}
		seq = max(seq, ack.Seq)
	}
	return seq, nil
}
