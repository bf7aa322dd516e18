package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// notOursDelay is how long to delay a task that this worker may not start, or not yet, so
// that another worker gets it first.
const notOursDelay = 10 * time.Second

// check returns why the task must not be run, or nil. After errExpired and errEarly the
// task is not rejected. The grant's signature covers the digest of the approval request, so
// the request's key, tool and input are what was decided. The call must have the same
// values, because people see the call.
func check(rec *toolcall.EventRecord, queue toolcall.Queue, keys toolcall.KeySet, now time.Time) error {
	c := rec.Call
	refuse := func(what string) error {
		return &message.Error{Code: message.CodeForbidden, Op: "check task of " + c.Key.String(), What: what}
	}
	if rec.WorkQueue() != queue {
		return refuse(fmt.Sprintf("it is not an unstarted remote attempt of the tool %s", queue))
	}
	if g := c.Attempt.Grant; g != nil && keys[g.KeyID] == nil {
		if !now.Before(g.Expires) { // else it would return again and again; if the time is forged, nothing is lost
			return fmt.Errorf("check task of %s: the grant has expired, %w", c.Key, errExpired)
		}
		return refuse(fmt.Sprintf("the grant is signed by an engine key that this worker does not know, %.64q; if the worker should trust it, give the worker that engine's public key", g.KeyID))
	}
	switch req := c.Request; {
	case req == nil:
		return refuse("it has no approval request for its grant to cover")
	case c.Key != req.Key:
		return refuse("the approval request is about the call " + req.Key.String())
	case c.Tool != req.Tool:
		return refuse("the approval request is about the tool " + req.Tool)
	case c.Input != req.Input:
		return refuse("the arguments are not the ones of the approval request")
	}
	g := c.Attempt.Grant
	if err := g.VerifyQueue(keys, *c.Request, queue, c.Attempt.Number, now); err != nil {
		return markUntimely(g, rec, keys, queue, now, err)
	}
	if g.IdempotencyKey != c.Key.IdempotencyKey() {
		return refuse("the grant's idempotency key is not the call's")
	}
	return nil
}

// A genuine grant outside its time must not end the call: the queue was long, or
// a clock is wrong.
var (
	errExpired = errors.New("the engine offers the call again")
	errEarly   = errors.New("it may run later")
)

// markUntimely marks err, the reason why g is invalid at now, if g would be valid at
// another time.
func markUntimely(g *toolcall.Grant, rec *toolcall.EventRecord, keys toolcall.KeySet, queue toolcall.Queue, now time.Time, err error) error {
	if g == nil || !g.NotBefore.Before(g.Expires) || g.VerifyQueue(keys, *rec.Call.Request, queue, rec.Call.Attempt.Number, g.NotBefore) != nil {
		return err
	}
	if now.Before(g.NotBefore) {
		return fmt.Errorf("%w: %w", err, errEarly)
	}
	return fmt.Errorf("%w: %w", err, errExpired)
}

// unprovenLimit is how long a worker asks again while the replies to its start are not
// signed by an engine. After that it returns the attempt.
const unprovenLimit = 10 * time.Second

// start claims the attempt, or refuses it if refusal is set, and acknowledges or
// releases the task. It reports whether the attempt is ours to run, which needs a reply
// that an engine signed. An unanswered request is sent again with the same claim, because
// the engine may have stored the first one.
func (a *attempt) start(ctx context.Context, refusal error) (toolcall.StartReply, bool) {
	if errors.Is(refusal, errEarly) || errors.Is(refusal, errExpired) {
		a.skipUntimely(ctx, refusal)
		return toolcall.StartReply{}, false
	}
	req := a.startRequest(refusal)
	var first, doubted time.Time // when it was sent first, and when its reply was first not proven
	var b backoff
	for {
		req.Request = newID()
		sent := time.Now()
		first = cmp.Or(first, sent)
		reply, answer, err := a.sendStart(ctx, req)
		switch answer {
		case granted:
			if a.task.ID == "" || refusal != nil {
				a.w.ack(ctx, a.task)
			}
			a.takeLease(&reply, first, sent)
			return reply, refusal == nil
		case gone:
			a.log.Debug("the attempt is already over", "err", err)
			a.w.ack(ctx, a.task)
			if refusal == nil && code(err) == message.CodeSuperseded && elapsed(first) >= toolcall.MinLease { // the engine may have given up our own start
				a.giveBack(ctx, "an earlier start was never answered")
			}
			return reply, false
		case notOurs:
			a.log.Error("this worker may not start the call", "err", err)
			a.w.release(a.task, notOursDelay)
			return reply, false
		case unproven:
			a.log.Error("ignored a start reply that no trusted engine signed; asking again", "err", err)
			if doubted = cmp.Or(doubted, sent); elapsed(doubted) > unprovenLimit {
				a.giveBack(ctx, line(err.Error()))
				a.w.release(a.task, notOursDelay)
				return reply, false
			}
		default:
			a.log.Warn("no engine has answered the start yet, asking again", "err", err)
		}
		if !b.wait(ctx) {
			a.w.release(a.task, 0)
			return reply, false
		}
	}
}

// startRequest returns the request that claims the attempt, or refuses it.
func (a *attempt) startRequest(refusal error) toolcall.StartRequest {
	req := toolcall.StartRequest{V: 1, Key: a.id.Key, Attempt: a.id.Attempt, Claim: a.id.Claim, Task: a.task.ID}
	if g := a.call.Attempt.Grant; g != nil {
		req.Nonce = g.Nonce
	}
	if refusal != nil {
		req.Refuse = line(refusal.Error())
	}
	return req
}

// sendStart sends a start once. Only a claim needs a signed reply.
func (a *attempt) sendStart(ctx context.Context, req toolcall.StartRequest) (toolcall.StartReply, verdict, error) {
	reply, err := request(ctx, a.w.requestTimeout, a.w.transport.Start, req)
	answer := judgeStart(err)
	if answer == granted && req.Refuse == "" {
		if err = a.prove(ctx, reply, req); err != nil {
			answer = unproven
		}
	}
	return reply, answer, err
}

// skipUntimely leaves a task whose grant is not valid by this machine's clock.
func (a *attempt) skipUntimely(ctx context.Context, why error) {
	a.reportClock(ctx)
	if errors.Is(why, errExpired) && !a.w.clock.engineTime().Before(a.call.Attempt.Grant.Expires) { // the next offer is another task
		a.w.ack(ctx, a.task)
		return
	}
	a.w.release(a.task, notOursDelay) // a worker with the right clock may start it
}

// takeLease counts the lease from the request that began it: the one that was sent last, or, if an
// earlier one may have begun it, the first. The deadline is moved to this machine's clock.
func (a *attempt) takeLease(reply *toolcall.StartReply, first, sent time.Time) {
	l := lease{since: first, length: time.Duration(reply.LeaseMS) * time.Millisecond}
	if reply.Fresh {
		l.since = sent
	}
	a.lease.Store(&l)
	if !reply.Deadline.IsZero() && !reply.At.IsZero() { // not after the engine's, even if this machine's clock is wrong
		reply.Deadline = sent.Add(reply.Deadline.Sub(reply.At))
	}
}

// prove checks that an engine whose key is trusted now signed this reply, to this very
// request.
func (a *attempt) prove(ctx context.Context, reply toolcall.StartReply, req toolcall.StartRequest) error {
	keys, err := a.w.keys.forKey(ctx, reply.KeyID)
	if err != nil {
		a.log.Error("cannot look up the engines' keys, using the previous ones", "err", err)
	}
	return reply.Verify(keys, req, a.call.Attempt.Grant)
}

// verdict is what a reply to a request means.
type verdict int

const (
	unanswered verdict = iota // no final answer: ask again
	unproven                  // no trusted engine signed the reply: ask again
	granted                   // the start is durable and ours
	gone                      // the attempt is over
	notOurs                   // the engine will not let this worker start it
	taken                     // the result is stored, or noted as too late
	unfit                     // the engine will never store this result
)

func judgeStart(err error) verdict {
	if err == nil {
		return granted
	}
	switch code(err) {
	case message.CodeFinished, message.CodeArchived, message.CodeSuperseded, message.CodeInterrupted, message.CodeNotFound, message.CodeState:
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
	case message.CodeFinished, message.CodeArchived, message.CodeSuperseded, message.CodeInterrupted, message.CodeNotFound, message.CodeState, message.CodeForbidden:
		return taken
	case message.CodeInvalid, message.CodeTooLarge:
		return unfit
	}
	return unanswered
}

// code returns the engine's code, or "" if no engine answered.
func code(err error) message.Code {
	if e, ok := errors.AsType[*message.Error](err); ok {
		return e.Code
	}
	return ""
}

// ack removes the task from the queue, in a goroutine that Run waits for at its end.
// If that fails, the task is delivered again and its start is superseded.
func (w *Worker) ack(ctx context.Context, task toolcall.Task) {
	if task.Ack == nil {
		return
	}
	w.acks.Go(func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), w.requestTimeout)
		defer stop()
		if err := task.Ack(ctx); err != nil {
			w.log.Warn("a task could not be acknowledged and will be delivered again", "err", err)
		}
	})
}

// release returns the task to the queue. If that fails, the queue delivers it again later.
func (w *Worker) release(task toolcall.Task, delay time.Duration) {
	if task.Release == nil {
		return
	}
	if err := task.Release(delay); err != nil {
		w.log.Warn("a task could not be returned and will be delivered again later", "err", err)
	}
}

// KeySource returns the engine keys to trust now. keyfile.Follower implements it. Keys is
// called from one goroutine at a time and must return soon after ctx ends; after an error
// the worker keeps using the keys that it has.
type KeySource interface {
	Keys(ctx context.Context) (toolcall.KeySet, error)
}

const (
	// keysEvery is the maximum age of the worker's keys when it checks a task: a retired
	// key is trusted no longer than that.
	keysEvery = 10 * time.Second
	// keysSoon is the minimum age at which keys are fetched again for an unknown key, so
	// that forged tasks cause no storm of requests.
	keysSoon = time.Second
)

// trust is the set of engine keys that a worker trusts.
type trust struct {
	source KeySource
	limit  time.Duration // of one request

	mu    sync.Mutex // guards what follows; only its holder fetches
	keys  toolcall.KeySet
	asked time.Time
}

// forGrant is forKey for the key of a grant, which may be nil.
func (t *trust) forGrant(ctx context.Context, g *toolcall.Grant) (toolcall.KeySet, error) {
	if g == nil {
		return t.forKey(ctx, "")
	}
	return t.forKey(ctx, g.KeyID)
}

// forKey returns the keys to check a signature with. It fetches them again if they are old
// or lack the key id. If that fails, it returns the old keys and the error.
func (t *trust) forKey(ctx context.Context, id string) (keys toolcall.KeySet, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.source == nil {
		return t.keys, nil
	}
	age := time.Since(t.asked)
	unknown := id != "" && t.keys[id] == nil
	if age < keysSoon || age < keysEvery && !unknown {
		return t.keys, nil
	}
	ctx, stop := context.WithTimeout(ctx, t.limit)
	defer stop()
	fresh, err := t.source.Keys(ctx)
	t.asked = time.Now()
	if err == nil {
		t.keys = fresh
	}
	return t.keys, err
}

// ApproverSource returns the approvers whose signatures the worker trusts. It is called
// for every task, from several goroutines. After an error the worker rejects the task.
type ApproverSource func() (toolcall.ApproverList, error)

// checkSignatures checks the approvers' own signatures, if the worker requires them. The
// grant was already verified.
func (s ApproverSource) checkSignatures(rec *toolcall.EventRecord, now time.Time) error {
	if s == nil {
		return nil
	}
	list, err := s()
	if err != nil {
		return fmt.Errorf("this worker cannot read its list of trusted approvers: %w", err)
	}
	return list.Verify(rec.Call.Attempt.Grant, *rec.Call.Request, now)
}
