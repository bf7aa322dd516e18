package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	// headerRoom is more than the headers of a fact ever take.
	headerRoom = 4 << 10
)

// Append implements engine.Journal: one request and one answer in the usual
// case. A publish whose acknowledgement does not come is repeated under the
// same id until ctx ends (ten seconds if it has no deadline). A sequence and
// ErrConflict are certain; ErrFull, ErrTooLarge and ErrUnavailable mean that
// nothing was written; ErrUnknownOutcome is returned whenever the fact may yet
// be stored. Cancelling ctx while the publish is under way gives that one, too.
func (j *Journal) Append(ctx context.Context, f *message.Fact, prev uint64) (uint64, error) {
	a, err := j.newAppend(f, prev)
	if err != nil {
		return 0, err
	}
	defer a.msg.free()
	if prev == 0 && f.Call != nil {
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

const (
	growHint    = "raise the stream's max_bytes or the server's store limit"
	restartHint = "free disk space and start the server again"
)

// appending is one fact on its way.
type appending struct {
	j    *Journal
	fact *message.Fact
	key  message.Key
	prev uint64 // what the caller takes for the tree's last fact
	tree Tree
	msg  *factMsg
	// unsure: a publish was sent whose fate is not known.
	unsure bool
}

func (j *Journal) newAppend(f *message.Fact, prev uint64) (*appending, error) {
	a := &appending{j: j, fact: f, key: f.Key(), prev: prev}
	subject, err := factSubject(a.key, f.WorkTool())
	if err == nil && a.key.Space != j.space {
		err = &message.Error{Code: message.CodeInvalid, What: "it belongs to the space " + quote(string(a.key.Space)) + ", this is the journal of " + string(j.space)}
	}
	if err == nil && !plain(f.ID) {
		err = &message.Error{Code: message.CodeInvalid, What: "its id " + quote(f.ID) + " is not 1 to 64 of A-Z a-z 0-9 _ -"}
	}
	if err != nil {
		return nil, a.fail(message.CodeInvalid, "the fact cannot be stored", "", err)
	}
	body, err := strictjson.Marshal(f)
	if err != nil {
		return nil, a.fail(message.CodeInvalid, "the fact has no JSON form", "", err)
	}
	if most := j.nc.MaxPayload(); int64(len(body)+headerRoom) > most {
		return nil, a.fail(message.CodeTooLarge, fmt.Sprintf("the fact has %d bytes, the server takes %d less headers", len(body), most), "use a smaller input or result, or raise the server's max_payload", nil)
	}
	a.tree = subject.tree()
	a.msg = factMsgs.Get().(*factMsg)
	a.msg.fill(f, subject.String(), a.tree, body)
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
	ack, err := a.j.pub.Publish(ctx, Write{Tree: a.tree, Msg: &a.msg.Msg})
	switch {
	case err != nil:
		return 0, err
	case ack.Stream != a.j.stream:
		return 0, errOtherStream
	case ack.Duplicate:
		return ack.Seq, a.verifyDuplicate(ctx, ack.Seq)
	}
	return ack.Seq, nil
}

var (
	errNotSent     = errors.New("nothing was sent")
	errOtherStream = errors.New("another stream took the fact")
	errIDTaken     = errors.New("another message has the fact's id")
)

// verifyDuplicate makes sure that the message which the server takes for this
// one is this one.
func (a *appending) verifyDuplicate(ctx context.Context, seq uint64) error {
	m, err := a.j.getSeq(ctx, seq)
	if err != nil {
		return err
	}
	if r := a.j.record(m); r.Invalid != nil || r.Fact == nil || r.Fact.ID != a.fact.ID || r.Key != a.key {
		return errIDTaken
	}
	return nil
}

// verdict is what a failed attempt means.
type verdict struct {
	final bool
	seq   uint64
	err   error
	wait  bool // before the next attempt
}

// judge decides what a failed attempt means.
func (a *appending) judge(ctx context.Context, err error) verdict {
	var api *jetstream.APIError
	final := func(code message.Code, what, hint string) verdict {
		if a.unsure { // this attempt did not write, an earlier one may have
			code, what = message.CodeUnknownOutcome, "an earlier attempt may have been stored; this one was refused: "+what
		}
		return verdict{final: true, err: a.fail(code, what, hint, err)}
	}
	switch {
	case errors.As(err, &api):
		code, text := int(api.ErrorCode), api.Description
		switch {
		case conflictCode(code):
			return a.settle(ctx, err)
		case fullCode(code, text):
			return final(message.CodeFull, "the store is full, nothing was written", growHint)
		case tooLargeCode(code, text):
			return final(message.CodeTooLarge, "the stream does not take messages of this size", "raise the stream's max_msg_size")
		case transientCode(code):
			return verdict{wait: true}
		}
		return final(message.CodeUnavailable, "the stream refused the fact", "check the stream and the server's log")
	case errors.Is(err, nats.ErrMaxPayload):
		return final(message.CodeTooLarge, "the fact is larger than the server's max_payload", "use a smaller input or result, or raise it")
	case errors.Is(err, errOtherStream):
		return verdict{final: true, err: a.fail(message.CodeForeignStream, "another stream takes this space's subjects", "remove them from it", err)}
	case errors.Is(err, errIDTaken):
		return verdict{final: true, err: a.fail(message.CodeInternal, "nothing was written", "give the fact a fresh id", err)}
	case errors.Is(err, errNotSent):
		return final(message.CodeUnavailable, "nothing was written: the connection is closed or the time was over", "")
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded):
		return verdict{wait: true} // not stored, for nobody took it
	}
	a.unsure = true
	return a.silent(ctx)
}

// silent judges a publish without an answer. A store that has stopped writing
// never answers again, and can be asked why; what is not in it then never will
// be.
func (a *appending) silent(ctx context.Context) verdict {
	broken := a.j.broken()
	if broken == nil {
		return verdict{wait: true}
	}
	switch t, err := a.j.tail(ctx, a.tree, a.prev, a.fact.ID); {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		return verdict{final: true, seq: t.own}
	}
	return verdict{final: true, err: a.fail(message.CodeFull, "nothing was written, the store does not write any more", restartHint, broken)}
}

// settle finds out, after a lost compare-and-swap, what follows the fact's
// predecessor: this very fact (an acknowledgement was lost), another one (a
// conflict), or only messages that no engine wrote. The last do not count: the
// fact is made to follow them, so that nobody can block a call by writing
// rubbish behind it.
func (a *appending) settle(ctx context.Context, cause error) verdict {
	t, err := a.j.tail(ctx, a.tree, a.prev, a.fact.ID)
	switch {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		return verdict{final: true, seq: t.own}
	case t.other == 0 && a.unsure && inPipeline(cause):
		return verdict{wait: true} // behind what may be our own earlier attempt, still on its way
	case t.other == 0 && t.foreign != 0:
		a.msg.follow(a.j.keys, t.foreign)
		return verdict{}
	}
	what := fmt.Sprintf("the tree is not at sequence %d", a.prev)
	if t.other != 0 {
		what += fmt.Sprintf(", %d was stored after it", t.other)
	}
	return verdict{final: true, err: a.fail(message.CodeConflict, what, "read the last fact and decide again", cause)}
}

func (a *appending) gaveUp(ctx context.Context, err error) error {
	if a.unsure {
		return a.fail(message.CodeUnknownOutcome, "no acknowledgement came, the fact may be stored", "read the tree's last fact and compare its id", err)
	}
	return a.fail(message.CodeUnavailable, "NATS did not take the fact, nothing was written", "check that NATS runs with JetStream", because(err, context.Cause(ctx)))
}

func (a *appending) fail(code message.Code, what, hint string, err error) error {
	return &message.Error{Code: code, Op: "append to " + quote(a.key.String()), What: what, Hint: hint, Err: err}
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
