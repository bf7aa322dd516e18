package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// attemptTimeout limits one request to the server; the same request follows
	// it.
	attemptTimeout = 2 * time.Second
	// giveUpAfter limits an operation whose context has no deadline.
	giveUpAfter = 10 * time.Second
	// firstPause doubles up to maxPause between attempts.
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
	// headerRoom is more than the headers of an event record need.
	headerRoom = 4 << 10
)

// Append implements engine.Journal. Without an acknowledgement it repeats the
// publish under the same id until ctx ends, ten seconds without a deadline.
//
// A sequence and ErrConflict are certain. After ErrFull, ErrTooLarge and
// ErrUnavailable nothing was written. ErrUnknownOutcome, also after a cancelled
// ctx, means that the event record may be stored.
func (j *Journal) Append(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error) {
	if err := j.guard.writable(); err != nil {
		return 0, err
	}
	if err := j.chain.link(ctx, f, prev); err != nil {
		return 0, err
	}
	a, err := j.newAppend(ctx, f, prev)
	if err != nil {
		return 0, err
	}
	defer a.msg.free()
	if isForNewCalls(f, prev) {
		if err := j.room.check(ctx); err != nil {
			return 0, a.fail(message.CodeFull, "new calls are refused", "let open calls finish, then make room: "+growHint, err)
		}
	}
	seq, err := a.run(ctx)
	if err == nil {
		j.room.noteWritten(len(a.msg.Data) + len(a.msg.Subject) + headerRoom/8)
	}
	return seq, err
}

// isForNewCalls reports whether an event record begins a call or prepares one: a
// session's runtime, or the plan of an open reply.
func isForNewCalls(f *toolcall.EventRecord, prev uint64) bool {
	return f.Call != nil && prev == 0 || f.Session != nil || f.Budget != nil || f.Reply != nil && f.Reply.Phase == toolcall.ReplyOpen && f.End == nil
}

const (
	growHint    = "free disk space, or raise the stream's max_bytes or the server's store limit"
	restartHint = "free disk space; an embedded server then restarts, restart any other yourself"
)

// appending is one event record on its way to the stream.
type appending struct {
	j      *Journal
	record *toolcall.EventRecord
	key    toolcall.Key
	prev   uint64 // what the caller takes for the entity's last event record
	entity Entity
	base   *toolcall.RecordBase // on which it builds; nil: it has the whole call
	msg    *recordMsg
	// unsure: no answer came to a publish. staged: nor to the batch that had it.
	unsure, staged bool
}

func (j *Journal) newAppend(ctx context.Context, f *toolcall.EventRecord, prev uint64) (*appending, error) {
	a := &appending{j: j, record: f, key: f.Key(), prev: prev}
	subject, err := recordSubject(a.key, f.WorkQueue())
	if err == nil && a.key.Space != j.space {
		err = &message.Error{Code: message.CodeInvalid, What: "it belongs to the space " + errtext.Quote(string(a.key.Space)) + ", this is the journal of " + string(j.space)}
	}
	if err == nil && !isPlain(f.ID) {
		err = &message.Error{Code: message.CodeInvalid, What: "its id " + errtext.Quote(f.ID) + " is not 1 to 64 of A-Z a-z 0-9 _ -"}
	}
	if err != nil {
		return nil, a.fail(message.CodeInvalid, "the event record cannot be stored", "", err)
	}
	if f.Call != nil && prev > 0 {
		a.base = toolcall.BaseFor(f, j.baseBefore(ctx, subject.entity(), prev))
	}
	body, err := toolcall.EncodeStored(f, a.base)
	if err == nil { // an unreadable record would end the entity; Marshal writes nothing else that readers refuse
		err = strictjson.Bounds(body, strictjson.MaxBytes(maxStoredBytes))
	}
	if err != nil {
		return nil, a.fail(message.CodeInvalid, "the event record has no JSON form that can be read back", "use valid UTF-8, finite numbers and at most 64 levels", err)
	}
	if most := j.store.nc.MaxPayload(); int64(len(body)+headerRoom) > most {
		return nil, a.fail(message.CodeTooLarge, fmt.Sprintf("the event record has %d bytes, the server takes %d less headers", len(body), most), "use a smaller input or result, or raise the server's max_payload", nil)
	}
	a.entity = subject.entity()
	a.msg = recordMsgs.Get().(*recordMsg)
	a.msg.fill(f, subject.String(), a.entity, body, a.base)
	a.msg.follow(j.codec.keys, prev)
	return a, nil
}

// baseBefore is the record before as a base; nil if it cannot be read: the new one then
// has the whole call.
func (j *Journal) baseBefore(ctx context.Context, entity Entity, prev uint64) *toolcall.RecordBase {
	base, err := j.codec.baseAt(ctx, entity, prev, prev, -1)
	if err != nil {
		return nil
	}
	return base
}

// run publishes until the outcome is known or ctx ends.
func (a *appending) run(ctx context.Context) (uint64, error) {
	seq, err := a.attempt(ctx)
	if err == nil {
		return seq, nil
	}
	ctx, cancel := withDefault(ctx, giveUpAfter)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		v := a.judge(ctx, err)
		switch {
		case v.final:
			return v.seq, v.err
		case v.wait && !sleep(ctx, jitter(pause)), ctx.Err() != nil:
			return 0, a.giveUp(ctx, err)
		}
		if seq, err = a.attempt(ctx); err == nil {
			return seq, nil
		}
	}
}

func (a *appending) attempt(ctx context.Context) (uint64, error) {
	if a.j.store.nc.IsClosed() || ctx.Err() != nil {
		return 0, errNotSent
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	before := a.j.guard.high.Load()
	ack, err := a.j.pub.Publish(ctx, Write{Entity: a.entity, Msg: &a.msg.Msg, Again: a.unsure})
	switch {
	case err != nil:
		return 0, err
	case ack.Stream != a.j.store.stream:
		return 0, errOtherStream
	case ack.Duplicate:
		return ack.Seq, a.verifyDuplicate(ctx, ack.Seq)
	}
	content := proof.Content(provedHeader(a.msg.Header), a.msg.Data)
	leaf := proof.Leaf(a.msg.Subject, content)
	if err := a.j.guard.noteStored(ack.Seq, before, leaf); err != nil {
		return 0, err
	}
	a.j.chain.put(ack.Seq, leaf, a.prev)
	a.j.unsealed.put(ack.Seq, proof.Entry{Subject: a.msg.Subject, Content: content})
	if a.record.Call != nil {
		a.j.codec.bases.put(toolcall.NewRecordBase(ack.Seq, leaf.String(), a.record, a.base))
	}
	return ack.Seq, nil
}

var (
	errNotSent     = errors.New("nothing was sent")
	errOtherStream = errors.New("another stream stored the event record")
	errIDTaken     = errors.New("another message has the event record's id")
)

// verifyDuplicate ensures that the server's duplicate is this event record.
func (a *appending) verifyDuplicate(ctx context.Context, seq uint64) error {
	m, err := a.j.store.getSeq(ctx, seq)
	if err != nil {
		return err
	}
	if r := a.j.codec.decode(ctx, m); r.Invalid != nil || r.Record == nil || r.Record.ID != a.record.ID || r.Key != a.key {
		return errIDTaken
	}
	return nil
}

func (a *appending) giveUp(ctx context.Context, err error) error {
	if a.unsure {
		return a.fail(message.CodeUnknownOutcome, "NATS did not acknowledge the event record, which may be stored", "read the entity's last event record and compare its id", err)
	}
	return a.fail(message.CodeUnavailable, "nothing was written: NATS did not accept the event record", "check that NATS runs with JetStream", errtext.Because(err, context.Cause(ctx)))
}

func (a *appending) fail(code message.Code, what, hint string, err error) error {
	return &message.Error{Code: code, Op: "append to " + errtext.Quote(a.key.String()), What: what, Hint: hint, Err: err}
}

// withDefault limits ctx if it has no deadline.
func withDefault(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// sleep reports whether ctx is still alive after d.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// verdict says what follows a failed attempt.
type verdict struct {
	final bool
	seq   uint64
	err   error
	wait  bool // before the next attempt
}

func (a *appending) judge(ctx context.Context, err error) verdict {
	var api *jetstream.APIError
	final := func(code message.Code, what, hint string) verdict {
		if a.unsure { // an earlier attempt may have written
			code, what = message.CodeUnknownOutcome, "an earlier attempt may have been stored; this one was refused: "+what
		}
		return verdict{final: true, err: a.fail(code, what, hint, err)}
	}
	switch {
	case errors.As(err, &api):
		code, text := int(api.ErrorCode), api.Description
		switch {
		case isConflict(code):
			return a.resolve(ctx, err)
		case isFull(code, text):
			return final(message.CodeFull, "nothing was written: the store is full", growHint)
		case isTooLarge(code, text):
			return final(message.CodeTooLarge, "nothing was written: the stream refuses messages of this size", "raise the stream's max_msg_size")
		case isTransient(code):
			return verdict{wait: true}
		}
		return final(message.CodeUnavailable, "nothing was written: the stream refused the event record", "check the stream and the server's log")
	case errors.Is(err, nats.ErrMaxPayload):
		return final(message.CodeTooLarge, "the event record is larger than the server's max_payload", "use a smaller input or result, or raise it")
	case errors.Is(err, errOtherStream):
		return verdict{final: true, err: a.fail(message.CodeForeignStream, "another stream receives this space's subjects", "remove those subjects from it", err)}
	case errors.Is(err, errIDTaken):
		return verdict{final: true, err: a.fail(message.CodeInternal, "nothing was written", "give the event record a fresh id", err)}
	case errors.Is(err, message.ErrDamaged):
		return verdict{final: true, err: err}
	case errors.Is(err, errNotSent):
		return final(message.CodeUnavailable, "nothing was written: the connection is closed or the deadline passed", "try again")
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, errWaited):
		return verdict{wait: true} // no server received it
	}
	a.unsure, a.staged = true, a.staged || errors.Is(err, errBatchLost)
	return a.judgeSilence(ctx)
}

// judgeSilence judges a publish without an answer. A store that stopped writing
// never answers, and what is not in it now is never written, except for a batch,
// which it may complete when it restarts.
func (a *appending) judgeSilence(ctx context.Context) verdict {
	broken := a.j.guard.broken()
	if broken == nil {
		return verdict{wait: true}
	}
	if a.staged {
		return verdict{final: true, err: a.fail(message.CodeUnknownOutcome, "the store cannot write any more", restartHint, broken)}
	}
	switch t, err := a.j.readTail(ctx, a.entity, a.prev, a.record.ID); {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		return verdict{final: true, seq: t.own}
	}
	return verdict{final: true, err: a.fail(message.CodeFull, "nothing was written: the store cannot write any more", restartHint, broken)}
}

// resolve reads, after a lost compare-and-swap, what follows the predecessor: this
// event record (its acknowledgement was lost), another one (a conflict), or
// messages that no engine wrote. It writes behind those, so that they cannot block
// a call.
func (a *appending) resolve(ctx context.Context, cause error) verdict {
	t, err := a.j.readTail(ctx, a.entity, a.prev, a.record.ID)
	switch {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		return verdict{final: true, seq: t.own}
	case t.other == 0 && a.unsure && isInPipeline(cause):
		return verdict{wait: true} // perhaps our own earlier attempt, on its way
	case t.other == 0 && t.foreign != 0:
		a.msg.follow(a.j.codec.keys, t.foreign)
		return verdict{}
	}
	what := fmt.Sprintf("the entity is not at sequence %d", a.prev)
	if t.other != 0 {
		what += fmt.Sprintf(", %d was stored after it", t.other)
	}
	return verdict{final: true, err: a.fail(message.CodeConflict, what, "read the last event record and decide again", cause)}
}

// Write is one event record on its way to the stream.
type Write struct {
	// Entity is the entity of the event record. A batch must not have two writes
	// of one entity: the server's compare-and-swap ignores the rest of the batch.
	Entity Entity
	// Msg carries the compare-and-swap and the message id in its headers. The
	// caller owns it again when Publish returns.
	Msg *nats.Msg
	// Again: an earlier attempt may have stored it, so a batch would be refused.
	Again bool
}

// Ack is the server's confirmation that a write is stored.
type Ack struct {
	Stream    string
	Seq       uint64
	Duplicate bool // a message with this id was stored before, at Seq
}

// Publisher stores writes, one by one or in batches. Publish may be called from
// many goroutines and returns when the write is stored. After a
// *jetstream.APIError nothing was stored; any other error leaves that open.
type Publisher interface {
	Publish(ctx context.Context, w Write) (Ack, error)
}

// Direct is the Publisher that sends each write in its own request.
type Direct struct{ nc *nats.Conn }

// NewDirect publishes on nc.
func NewDirect(nc *nats.Conn) Direct { return Direct{nc} }

// Publish implements Publisher.
func (d Direct) Publish(ctx context.Context, w Write) (Ack, error) {
	reply, err := d.nc.RequestMsgWithContext(ctx, w.Msg)
	if err != nil {
		return Ack{}, err
	}
	return parseAck(reply.Data)
}

type ackReply struct {
	Error     *jetstream.APIError `json:"error"`
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"` // of a batch
}

func parseAck(data []byte) (Ack, error) {
	var r ackReply
	if err := strictjson.UnmarshalOpen(data, &r); err != nil {
		return Ack{}, fmt.Errorf("the server's acknowledgement: %w", err)
	}
	if r.Error != nil {
		return Ack{}, r.Error
	}
	if r.Stream == "" || r.Seq == 0 {
		return Ack{}, fmt.Errorf("the reply to the publish is not from a stream: %s", errtext.Quote(string(data)))
	}
	return Ack{Stream: r.Stream, Seq: r.Seq, Duplicate: r.Duplicate}, nil
}
