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
)

const (
	// attemptTimeout is how long one publish waits for its acknowledgement
	// before it is sent again under the same id.
	attemptTimeout = 2 * time.Second
	// giveUpAfter bounds an operation whose context has no deadline.
	giveUpAfter = 10 * time.Second
	// firstPause is the pause after "not now"; it doubles up to maxPause.
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
	// headerRoom is more than the headers of an event record ever take.
	headerRoom = 4 << 10
)

// Append implements engine.Journal: one request and one answer in the usual
// case. A publish whose acknowledgement does not come is repeated under the
// same id until ctx ends (ten seconds if it has no deadline). A sequence and
// ErrConflict are certain; ErrFull, ErrTooLarge and ErrUnavailable mean that
// nothing was written; ErrUnknownOutcome is returned whenever the event record may yet
// be stored. Cancelling ctx while the publish is under way gives that one, too.
func (j *Journal) Append(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error) {
	if err := j.writable(); err != nil {
		return 0, err
	}
	if err := j.link(ctx, f, prev); err != nil {
		return 0, err
	}
	a, err := j.newAppend(f, prev)
	if err != nil {
		return 0, err
	}
	defer a.msg.free()
	if isForNewCalls(f, prev) {
		if err := j.room.check(ctx, j); err != nil {
			return 0, a.fail(message.CodeFull, "no new call is taken", "let open calls finish, then make room: "+growHint, err)
		}
	}
	seq, err := a.run(ctx)
	if err == nil {
		j.room.wrote(len(a.msg.Data) + len(a.msg.Subject) + headerRoom/8)
	}
	return seq, err
}

// isForNewCalls reports whether an event record is a new call, or is written only for calls
// that follow: the session's runtime, or a plan of a reply that is open.
func isForNewCalls(f *toolcall.EventRecord, prev uint64) bool {
	return f.Call != nil && prev == 0 || f.Session != nil || f.Reply != nil && f.Reply.Phase == toolcall.ReplyOpen
}

const (
	growHint    = "free disk space, or raise the stream's max_bytes or the server's store limit"
	restartHint = "free disk space: an embedded server then restarts, any other has to be restarted"
)

// appending is one event record on its way.
type appending struct {
	j      *Journal
	record *toolcall.EventRecord
	key    toolcall.Key
	prev   uint64 // what the caller takes for the entity's last event record
	entity Entity
	msg    *recordMsg
	// unsure: a publish was sent whose fate is not known.
	unsure bool
}

func (j *Journal) newAppend(f *toolcall.EventRecord, prev uint64) (*appending, error) {
	a := &appending{j: j, record: f, key: f.Key(), prev: prev}
	subject, err := recordSubject(a.key, f.WorkQueue())
	if err == nil && a.key.Space != j.space {
		err = &message.Error{Code: message.CodeInvalid, What: "it belongs to the space " + errtext.Quote(string(a.key.Space)) + ", this is the journal of " + string(j.space)}
	}
	if err == nil && !plain(f.ID) {
		err = &message.Error{Code: message.CodeInvalid, What: "its id " + errtext.Quote(f.ID) + " is not 1 to 64 of A-Z a-z 0-9 _ -"}
	}
	if err != nil {
		return nil, a.fail(message.CodeInvalid, "the event record cannot be stored", "", err)
	}
	body, err := strictjson.Marshal(f)
	if err == nil { // what could not be read again would end the entity's life; Marshal writes nothing else that a reader refuses
		err = strictjson.Bounds(body, strictjson.MaxBytes(maxStoredBytes))
	}
	if err != nil {
		return nil, a.fail(message.CodeInvalid, "the event record has no JSON form that can be read back", "use valid UTF-8, finite numbers and at most 64 levels", err)
	}
	if most := j.nc.MaxPayload(); int64(len(body)+headerRoom) > most {
		return nil, a.fail(message.CodeTooLarge, fmt.Sprintf("the event record has %d bytes, the server takes %d less headers", len(body), most), "use a smaller input or result, or raise the server's max_payload", nil)
	}
	a.entity = subject.entity()
	a.msg = recordMsgs.Get().(*recordMsg)
	a.msg.fill(f, subject.String(), a.entity, body)
	a.msg.follow(j.keys, prev)
	return a, nil
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
			return 0, a.gaveUp(ctx, err)
		}
		if seq, err = a.attempt(ctx); err == nil {
			return seq, nil
		}
	}
}

// attempt publishes once.
func (a *appending) attempt(ctx context.Context) (uint64, error) {
	if a.j.nc.IsClosed() || ctx.Err() != nil {
		return 0, errNotSent
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	before := a.j.high.Load()
	ack, err := a.j.pub.Publish(ctx, Write{Entity: a.entity, Msg: &a.msg.Msg})
	switch {
	case err != nil:
		return 0, err
	case ack.Stream != a.j.stream:
		return 0, errOtherStream
	case ack.Duplicate:
		return ack.Seq, a.verifyDuplicate(ctx, ack.Seq)
	}
	leaf := leafOf(stored{subject: a.msg.Subject, header: a.msg.Header, data: a.msg.Data})
	if err := a.j.keepStored(ack.Seq, before, leaf); err != nil {
		return 0, err
	}
	a.j.chain.put(ack.Seq, leaf, a.prev)
	return ack.Seq, nil
}

var (
	errNotSent     = errors.New("nothing was sent")
	errOtherStream = errors.New("another stream took the event record")
	errIDTaken     = errors.New("another message has the event record's id")
)

// verifyDuplicate makes sure that the message which the server takes for this
// one is this one.
func (a *appending) verifyDuplicate(ctx context.Context, seq uint64) error {
	m, err := a.j.getSeq(ctx, seq)
	if err != nil {
		return err
	}
	if r := a.j.record(m); r.Invalid != nil || r.Record == nil || r.Record.ID != a.record.ID || r.Key != a.key {
		return errIDTaken
	}
	return nil
}

func (a *appending) gaveUp(ctx context.Context, err error) error {
	if a.unsure {
		return a.fail(message.CodeUnknownOutcome, "no acknowledgement came, the event record may be stored", "read the entity's last event record and compare its id", err)
	}
	return a.fail(message.CodeUnavailable, "NATS did not take the event record, nothing was written", "check that NATS runs with JetStream", errtext.Because(err, context.Cause(ctx)))
}

func (a *appending) fail(code message.Code, what, hint string, err error) error {
	return &message.Error{Code: code, Op: "append to " + errtext.Quote(a.key.String()), What: what, Hint: hint, Err: err}
}

// withDefault bounds ctx if it has no deadline.
func withDefault(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, d)
}

// sleep waits for d and reports whether ctx is still alive.
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
