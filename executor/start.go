package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// notOursDelay is how long an item rests that this worker may not start, or not
// yet, so that another one gets to it first.
const notOursDelay = 10 * time.Second

// check says why the item must not be run, or nil. errUnknownKey, errExpired and
// errEarly are no reasons to refuse the call for good. The grant's signature
// covers the digest of the question, so after it the question's key, tool and
// input are what was decided; the call is held to the same, because it is what
// people see.
func check(f *message.Fact, lane message.Lane, keys message.KeySet, now time.Time) error {
	c := f.Call
	refuse := func(what string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "check work item of " + c.Key.String(), What: what}
	}
	if f.WorkLane() != lane {
		return refuse(fmt.Sprintf("it is not an unstarted remote attempt of the tool %s", lane))
	}
	if g := c.Attempt.Grant; g != nil && keys[g.KeyID] == nil {
		if !now.Before(g.Expires) { // else it would come again for ever; nothing is lost if that is a lie
			return fmt.Errorf("check work item of %s: the grant has expired, %w", c.Key, errExpired)
		}
		return fmt.Errorf("check work item of %s: the grant is signed by %w %.64q; give this worker that engine's public key if it is to trust it", c.Key, errUnknownKey, g.KeyID)
	}
	switch q := c.Question; {
	case q == nil:
		return refuse("it has no question that a grant could stand for")
	case c.Key != q.Key:
		return refuse("the question is about the call " + q.Key.String())
	case c.Tool != q.Tool:
		return refuse("the question is about the tool " + q.Tool)
	case c.Input != q.Input:
		return refuse("the arguments are not the ones of the question")
	}
	g := c.Attempt.Grant
	if err := g.VerifyLane(keys, *c.Question, lane, c.Attempt.Number, now); err != nil {
		return untimely(g, f, keys, lane, now, err)
	}
	if g.IdempotencyKey != c.Key.IdempotencyKey() {
		return refuse("the grant's idempotency key is not the call's")
	}
	return nil
}

// errUnknownKey says something about this worker's keys and nothing about the
// item: another worker may have the key, or this one once it is mended.
var errUnknownKey = errors.New("an engine key that this worker does not know,")

// A genuine grant outside its time is nobody's fault: to refuse the call would
// end it because the queue was long or a clock is off.
var (
	errExpired = errors.New("the engine offers the call again")
	errEarly   = errors.New("it may run later")
)

// untimely marks err, with which g was found wanting at now, if time is all
// that is wrong with g.
func untimely(g *message.Grant, f *message.Fact, keys message.KeySet, lane message.Lane, now time.Time, err error) error {
	if g == nil || !g.NotBefore.Before(g.Expires) || g.VerifyLane(keys, *f.Call.Question, lane, f.Call.Attempt.Number, g.NotBefore) != nil {
		return err
	}
	if now.Before(g.NotBefore) {
		return fmt.Errorf("%w: %w", err, errEarly)
	}
	return fmt.Errorf("%w: %w", err, errExpired)
}

// start claims the attempt, or refuses it if refusal is set, and sees to the
// item. It reports whether the attempt is ours to run: only after the engine
// said so. An unanswered request is sent again with the same claim, as the
// engine may have stored the first one.
func (a *attempt) start(ctx context.Context, refusal error) (message.StartReply, bool) {
	switch {
	case errors.Is(refusal, errExpired): // its next offer is an item of its own
		a.w.ack(ctx, a.item)
		return message.StartReply{}, false
	case errors.Is(refusal, errEarly), errors.Is(refusal, errUnknownKey), errors.Is(refusal, errUnknownApprovers):
		a.w.release(a.item, notOursDelay)
		return message.StartReply{}, false
	}
	req := message.StartRequest{V: 1, Key: a.id.Key, Attempt: a.id.Attempt, Claim: a.id.Claim}
	if refusal != nil {
		req.Refuse = line(refusal.Error())
	}
	var b backoff
	for {
		a.tries++
		reply, err := request(ctx, a.w.requestTimeout, a.w.transport.Start, req)
		switch judgeStart(err) {
		case granted:
			a.w.ack(ctx, a.item)
			return reply, refusal == nil
		case gone:
			a.log.Debug("nothing to start any more", "err", err)
			a.w.ack(ctx, a.item)
			return reply, false
		case notOurs:
			a.log.Error("this worker may not start the call", "err", err)
			a.w.release(a.item, notOursDelay)
			return reply, false
		}
		a.log.Warn("the start is not answered yet, asking again", "err", err)
		if !b.wait(ctx) {
			a.w.release(a.item, 0)
			return reply, false
		}
	}
}

// verdict is what an answer to a request means.
type verdict int

const (
	unanswered verdict = iota // nobody answered, or not for good: ask again
	granted                   // the start is durable and ours, or our refusal noted
	gone                      // the attempt needs nobody any more
	notOurs                   // the engine will not let this worker start it
	taken                     // the result is stored, or noted as too late
	unfit                     // the engine will never store this result
)

func judgeStart(err error) verdict {
	if err == nil {
		return granted
	}
	switch code(err) {
	case message.CodeFinished, message.CodeSuperseded, message.CodeInterrupted, message.CodeNotFound, message.CodeState:
		return gone
	case message.CodeForbidden, message.CodeForeign, message.CodeInvalid, message.CodeTooLarge:
		return notOurs
	}
	return unanswered
}

func judgeResult(err error) verdict {
	if err == nil {
		return taken
	}
	switch code(err) {
	case message.CodeFinished, message.CodeSuperseded, message.CodeInterrupted, message.CodeNotFound, message.CodeState, message.CodeForbidden:
		return taken
	case message.CodeInvalid, message.CodeTooLarge:
		return unfit
	}
	return unanswered
}

// code is the engine's code, or "" when no engine answered.
func code(err error) message.Code {
	if e, ok := errors.AsType[*message.Error](err); ok {
		return e.Code
	}
	return ""
}

// ack takes the item off the queue. If that fails it is delivered again, and
// the engine tells whoever gets it that the attempt is taken.
func (w *Worker) ack(ctx context.Context, item message.WorkItem) {
	if item.Ack == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), w.requestTimeout)
	defer stop()
	if err := item.Ack(ctx); err != nil {
		w.log.Warn("a work item could not be acknowledged and will come again", "err", err)
	}
}

// release gives the item back. If that fails it comes back by itself, later.
func (w *Worker) release(item message.WorkItem, delay time.Duration) {
	if item.Release == nil {
		return
	}
	if err := item.Release(delay); err != nil {
		w.log.Warn("a work item could not be given back and will come again later", "err", err)
	}
}
