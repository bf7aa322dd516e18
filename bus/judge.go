package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
			return a.resolve(ctx, err)
		case fullCode(code, text):
			return final(message.CodeFull, "the store is full, nothing was written", growHint)
		case tooLargeCode(code, text):
			return final(message.CodeTooLarge, "the stream does not take messages of this size", "raise the stream's max_msg_size")
		case transientCode(code):
			return verdict{wait: true}
		}
		return final(message.CodeUnavailable, "the stream refused the event record", "check the stream and the server's log")
	case errors.Is(err, nats.ErrMaxPayload):
		return final(message.CodeTooLarge, "the event record is larger than the server's max_payload", "use a smaller input or result, or raise it")
	case errors.Is(err, errOtherStream):
		return verdict{final: true, err: a.fail(message.CodeForeignStream, "another stream takes this space's subjects", "remove them from it", err)}
	case errors.Is(err, errIDTaken):
		return verdict{final: true, err: a.fail(message.CodeInternal, "nothing was written", "give the event record a fresh id", err)}
	case errors.Is(err, message.ErrDamaged):
		return verdict{final: true, err: err}
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
	switch t, err := a.j.tail(ctx, a.entity, a.prev, a.record.ID); {
	case err != nil:
		return verdict{wait: true}
	case t.own != 0:
		return verdict{final: true, seq: t.own}
	}
	return verdict{final: true, err: a.fail(message.CodeFull, "nothing was written, the store does not write any more", restartHint, broken)}
}

// resolve finds out, after a lost compare-and-swap, what follows the event record's
// predecessor: this very event record (an acknowledgement was lost), another one (a
// conflict), or only messages that no engine wrote. The last do not count: the
// event record is made to follow them, so that nobody can block a call by writing
// rubbish behind it.
func (a *appending) resolve(ctx context.Context, cause error) verdict {
	t, err := a.j.tail(ctx, a.entity, a.prev, a.record.ID)
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
	what := fmt.Sprintf("the entity is not at sequence %d", a.prev)
	if t.other != 0 {
		what += fmt.Sprintf(", %d was stored after it", t.other)
	}
	return verdict{final: true, err: a.fail(message.CodeConflict, what, "read the last event record and decide again", cause)}
}
