package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// workers is the engine's side of the worker protocol.
type workers struct {
	*core
	attempts *attempts
	keeper   *keeper
}

// startAttempt binds the current attempt of a remote call to a worker. Repeating a request
// with the same claim gets the same answer.
func (w *workers) startAttempt(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.StartRequest) (toolcall.StartReply, error) {
	if err := w.checkOwner(&r.Key, r.Claim); err != nil {
		return toolcall.StartReply{}, err
	}
	if len(r.Request) > maxClaim {
		return toolcall.StartReply{}, &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("request is over %d bytes", maxClaim), Hint: "send a random id of your own"}
	}
	fresh := false // whether the attempt starts now, by the last decision, which is the one written
	c, err := w.update(ctx, "start", r.Key, by, func(ctx context.Context, m *toolcall.Machine) (err error) {
		fresh, err = w.decideStart(ctx, m, by, queues, r)
		return err
	})
	switch {
	case err != nil && w.isBehind(c, err, r.Task):
		return toolcall.StartReply{}, &message.Error{Code: message.CodeUnavailable, What: "the record of the task cannot be read yet", Hint: "send it again", Err: err}
	case err != nil:
		return toolcall.StartReply{}, err
	case !c.Open():
		return toolcall.StartReply{}, finishedError(c)
	case r.Refuse != "" && !c.Started():
		w.logReturn(c)
		return toolcall.StartReply{}, &message.Error{Code: message.CodeSuperseded, Call: toolcall.ErrorCall(c), What: "the task was returned because this worker rejected it", Hint: "drop the task; another attempt will be offered later"}
	case !c.Started(): // it was blocked instead
		return toolcall.StartReply{}, &message.Error{Code: message.CodeSuperseded, Call: toolcall.ErrorCall(c), What: "the policy no longer allows the call", Hint: "drop the task; an operator has to resolve the call"}
	}
	w.liveness.Hear(c.Key, c.Attempt.Number, time.Now())
	if tasks, ok := w.journal.(TaskQueue); ok && r.Task != "" {
		tasks.DropTask(c.Queue(), r.Task)
	}
	reply := toolcall.StartReply{
		Key: c.Key, Attempt: c.Attempt.Number, Claim: c.Attempt.Claim, Request: r.Request, Nonce: c.Attempt.Grant.Nonce, Fresh: fresh,
		LeaseMS: c.Attempt.LeaseMS, HeartbeatMS: heartbeatInterval(claimTime(c)).Milliseconds(),
		Deadline: c.Attempt.Deadline, IdempotencyKey: c.IdempotencyKey(), At: baseNow().At,
	}
	return reply, reply.Sign(w.cfg.signer.SigningKey())
}

// decideStart starts the attempt if nothing stands against it, and reports whether it starts now.
func (w *workers) decideStart(ctx context.Context, m *toolcall.Machine, by toolcall.Principal, queues []toolcall.Queue, r toolcall.StartRequest) (fresh bool, err error) {
	c := m.Call()
	if err := checkQueue(c, queues); err != nil {
		return false, err
	}
	switch {
	case c.Open() && c.Placement != toolcall.PlaceRemote:
		return false, &message.Error{Code: message.CodeState, What: "the call does not run on a worker", Hint: "start only tasks from the queue"}
	case isOwner(c, by, r.Attempt, r.Claim) && (c.Phase() == toolcall.PhaseBlocked || c.Phase() == toolcall.PhaseRetrying):
		// An operator may now find that nothing has happened, and run the call again.
		return false, &message.Error{Code: message.CodeSuperseded, What: "the attempt was given up because its worker was silent or did not stop in time", Hint: "do not run it; drop the task"}
	case c.Started() && isOwner(c, by, r.Attempt, r.Claim):
		return false, errNoChange
	case c.Open() && r.Nonce != "" && c.Attempt.Grant != nil && c.Attempt.Number == r.Attempt && c.Attempt.Grant.Nonce != r.Nonce:
		return false, &message.Error{Code: message.CodeSuperseded, What: "the attempt was offered again with another grant", Hint: "drop the task"}
	case c.Open() && c.Attempt.Number == r.Attempt && !c.Started() && r.Refuse != "":
		return false, w.returnTask(m, toolcall.Returned{Attempt: r.Attempt, Rejected: true, Worker: by.Name, Reason: r.Refuse})
	case w.attempts.hasStaleGrant(c):
		return false, &message.Error{Code: message.CodeSuperseded, What: "the key that signed the grant was retired", Hint: "drop the task; it will be offered again"}
	}
	if c.Phase() == toolcall.PhaseQueued {
		if stop, err := w.attempts.mustNotBegin(ctx, m); stop || err != nil {
			return false, w.forbidBlocked(c, err)
		}
	}
	base := baseNow() // the reads above may have taken long
	if c = m.Call(); c.Open() && c.Attempt.Grant != nil && !base.At.Before(c.Attempt.Grant.Expires) {
		return false, &message.Error{Code: message.CodeSuperseded, What: "the grant has expired", Hint: "drop the task; it will be offered again"}
	}
	ev := toolcall.Started{Base: base, Attempt: r.Attempt, Worker: by.Name, Claim: r.Claim, LeaseMS: w.toolNamed(c.Tool).Lease.Milliseconds()}
	ev.Deadline = w.judge.Deadline(c, ev.At)
	return true, m.Step(ev)
}

// forbidBlocked makes an error final while only people can end what prevents the start, so that the
// worker takes other calls meanwhile. Its task comes back.
func (w *workers) forbidBlocked(c *toolcall.Call, err error) error {
	if !errors.Is(err, message.ErrUnavailable) || w.clocks.Mark(c).Blocked != toolcall.BlockedKey {
		return err
	}
	bad := *message.AsError("", err)
	bad.Code = message.CodeForbidden
	return &bad
}

// isBehind reports whether a call was read as it was before a task. The worker would drop the task
// if its start were refused then.
func (w *workers) isBehind(c *toolcall.Call, err error, task string) bool {
	tasks, ok := w.journal.(TaskQueue)
	if !ok || task == "" {
		return false
	}
	seq, stored := tasks.RecordOf(task)
	isOlder := c == nil && errors.Is(err, message.ErrNotFound) || c != nil && c.Seq < seq
	return isOlder && time.Since(stored) < toolcall.ReadLag
}

// checkSeen returns an error if the start cannot be read here yet: its owner must not drop the result.
func (w *workers) checkSeen(c *toolcall.Call, attempt int) error {
	if w.cfg.lag() == 0 || c == nil || !c.Open() || c.Attempt.Number > attempt || c.Attempt.Number == attempt && c.Started() {
		return nil
	}
	return &message.Error{Code: message.CodeUnavailable, What: "the start of the attempt cannot be read yet", Hint: "send it again"}
}

// finishedError is the error for a worker that asks about a finished call.
func finishedError(c *toolcall.Call) error {
	return &message.Error{Code: message.CodeFinished, Call: toolcall.ErrorCall(c), What: "the call is finished (" + c.Cause + ")", Hint: "do not run it; drop the task"}
}

// maxClaim bounds the ids of claims and requests that workers send.
const maxClaim = 128

func (c *core) checkOwner(key *toolcall.Key, claim string) error {
	key.Space = c.space
	if claim == "" || len(claim) > maxClaim {
		return &message.Error{Code: message.CodeInvalid, What: "claim is empty or over 128 bytes", Hint: "send a random id of your own"}
	}
	return key.Validate()
}

// checkQueue restricts a worker to the queues for which it is authenticated. An in-process
// worker has no queues and is not restricted.
func checkQueue(c *toolcall.Call, queues []toolcall.Queue) error {
	own := c.Queue()
	switch {
	case len(queues) == 0 || slices.Contains(queues, own):
		return nil
	case !slices.ContainsFunc(queues, func(q toolcall.Queue) bool { return q.Tool == own.Tool }):
		return &message.Error{Code: message.CodeForbidden, What: "the call belongs to another tool", Hint: "a worker may act only for its own tool"}
	}
	return &message.Error{Code: message.CodeForbidden, What: "the rules route the call to other workers of the tool", Hint: "a worker may act only for its own route"}
}

// takeHeartbeat writes nothing: it renews the lease in memory and tells the worker whether
// to continue.
func (w *workers) takeHeartbeat(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	rep, err := w.renewClaim(ctx, by, queues, r)
	if err == nil {
		rep.At = time.Now().UTC()
		c := w.view.Call(r.Key)
		w.clocks.Hear(by.Name, r, c)
		if c != nil {
			w.activity.Workers.Hear(by.Name, c.Queue(), rep.At)
		}
	}
	return rep, err
}

func (w *workers) renewClaim(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	if err := w.checkOwner(&r.Key, r.Claim); err != nil {
		return toolcall.HeartbeatReply{}, err
	}
	c := w.view.Call(r.Key)
	if c == nil || !isOwner(c, by, r.Attempt, r.Claim) {
		var err error
		if c, err = w.store.LastCall(ctx, r.Key); err != nil {
			return toolcall.HeartbeatReply{}, err
		}
	}
	if err := checkQueue(c, queues); err != nil {
		return toolcall.HeartbeatReply{}, err
	}
	switch {
	case !c.Open():
		return toolcall.HeartbeatReply{Cancel: true, Stale: true, Reason: "the call is finished: " + c.Cause}, nil
	case !isOwner(c, by, r.Attempt, r.Claim):
		return toolcall.HeartbeatReply{Cancel: true, Stale: true, Reason: "another attempt or worker has replaced this one"}, w.checkSeen(c, r.Attempt)
	}
	now := time.Now()
	w.liveness.Hear(c.Key, c.Attempt.Number, now)
	if d := c.Attempt.Deadline; !d.IsZero() && !now.Before(d) {
		return toolcall.HeartbeatReply{Cancel: true, Reason: "the attempt exceeded its deadline"}, nil
	}
	if state, _ := w.view.ReplyState(c.Key); state != nil && state.Phase != toolcall.ReplyOpen {
		return toolcall.HeartbeatReply{Cancel: true, Reason: "the reply was interrupted"}, nil
	}
	return toolcall.HeartbeatReply{}, nil
}

func isOwner(c *toolcall.Call, by toolcall.Principal, attempt int, claim string) bool {
	return c.Attempt.Number == attempt && c.Attempt.Claim == claim && c.Attempt.Worker == by.Name
}

// passProgress forwards a progress line; it is not stored.
func (w *workers) passProgress(_ context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.ProgressRequest) error {
	if err := w.checkOwner(&r.Key, r.Claim); err != nil {
		return err
	}
	c := w.view.Call(r.Key)
	if c != nil {
		if err := checkQueue(c, queues); err != nil {
			return err
		}
	}
	if c == nil || !c.Open() || !isOwner(c, by, r.Attempt, r.Claim) {
		return &message.Error{Code: message.CodeSuperseded, What: "this worker does not own the attempt", Hint: "stop"}
	}
	w.liveness.Hear(c.Key, c.Attempt.Number, time.Now())
	r.Text = clipText(shownText(c, r.Text))
	w.cfg.signals.Progress(c, r)
	return nil
}

// storeResult stores the result of the current attempt. A late result of an earlier owner
// is recorded as a note and changes nothing else.
func (w *workers) storeResult(ctx context.Context, by toolcall.Principal, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
	return w.storeResultOf(ctx, by, nil, r)
}

func (w *workers) storeResultOf(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
	if err := w.checkOwner(&r.Key, r.Claim); err != nil {
		return toolcall.ResultReply{}, err
	}
	if r.NotBegun != "" {
		return w.giveBack(ctx, by, queues, r)
	}
	digest, err := checkResult(&r.Result)
	if err != nil {
		return toolcall.ResultReply{}, err
	}
	c, err := w.update(ctx, "result", r.Key, by, func(_ context.Context, m *toolcall.Machine) error {
		c := m.Call()
		if err := cmp.Or(checkQueue(c, queues), checkNamed(c, r.Result)); err != nil {
			return err
		}
		if isOwner(c, by, r.Attempt, r.Claim) && c.IsResult(digest) && !c.Open() {
			return errNoChange
		}
		if c.Open() && c.Attempt.Number == r.Attempt && c.Attempt.Worker != by.Name {
			return &message.Error{Code: message.CodeSuperseded, What: "another worker owns this attempt", Hint: "drop the result"}
		}
		res := r.Result
		res.ID, res.Name = c.Call, c.Tool
		return m.Step(toolcall.Resulted{Base: baseNow(), Attempt: r.Attempt, Claim: r.Claim, Result: res, Digest: c.SealResult(digest)})
	})
	switch {
	case err == nil:
		return toolcall.ResultReply{Stored: true, State: c.State}, nil
	case errors.Is(err, message.ErrFinished), errors.Is(err, message.ErrSuperseded):
		if err := w.checkSeen(c, r.Attempt); err != nil {
			return toolcall.ResultReply{}, err
		}
		owner, nerr := w.noteLateResult(ctx, by, r, digest)
		switch {
		case nerr != nil:
			return toolcall.ResultReply{}, nerr
		case owner:
			return toolcall.ResultReply{State: c.State}, nil
		}
	}
	return toolcall.ResultReply{}, err
}

// returnTask schedules another offer of a call that a worker did not begin, even if the tool
// is not idempotent. After too many returns in a row the call is blocked for an operator.
func (w *workers) returnTask(m *toolcall.Machine, ev toolcall.Returned) error {
	c := m.Call()
	ev.Base, ev.Reason = baseNow(), clipText(ev.Reason)
	times := c.TimesReturned() + 1
	ev.RetryAt = ev.At.Add(w.toolNamed(c.Tool).backoffAfter(times))
	if err := m.Step(ev); err != nil || times < toolcall.MaxReturns {
		return err
	}
	return m.Step(toolcall.Suspended{Base: ev.Base, Attempt: ev.Attempt, Blocked: toolcall.BlockedReturned})
}

func (w *workers) logReturn(c *toolcall.Call) {
	if c.Returned == nil {
		return
	}
	w.log.Warn("a worker returned a task that it did not begin", "call", c.Key.String(), "tool", c.Tool, "attempt", c.Attempt.Number,
		"worker", c.Returned.Worker, "times", c.Returned.Times, "phase", c.Phase(), "reason", shownText(c, c.Returned.Reason))
}

// giveBack accepts the owner's statement that it never began the attempt.
func (w *workers) giveBack(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
	if !reflect.ValueOf(r.Result).IsZero() {
		return toolcall.ResultReply{}, &message.Error{Code: message.CodeInvalid, What: "not_begun and result are both set", Hint: "send the result if the tool ran, otherwise only not_begun"}
	}
	var stored bool
	c, err := w.update(ctx, "result", r.Key, by, func(_ context.Context, m *toolcall.Machine) error {
		c := m.Call()
		stored = false
		switch err := checkQueue(c, queues); {
		case err != nil:
			return err
		case c.Open() && !isOwner(c, by, r.Attempt, r.Claim):
			return &message.Error{Code: message.CodeSuperseded, What: "another worker or attempt owns the call now", Hint: "drop the attempt"}
		case c.Phase() == toolcall.PhaseRetrying:
			return errNoChange // the attempt was declared lost, or this return is already recorded
		}
		stored = true
		return w.returnTask(m, toolcall.Returned{Attempt: r.Attempt, Claim: r.Claim, Worker: by.Name, Reason: r.NotBegun})
	})
	if err != nil {
		return toolcall.ResultReply{}, err
	}
	w.liveness.Forget(c.Key)
	if stored {
		w.logReturn(c)
	}
	return toolcall.ResultReply{Stored: true, State: c.State}, nil
}

// noteLateResult records a late result once for each attempt, and reports whether its
// sender ever owned the attempt. Other senders could otherwise fill the journal.
func (w *workers) noteLateResult(ctx context.Context, by toolcall.Principal, r toolcall.ResultRequest, digest string) (owner bool, err error) {
	late := store.Entity[[]toolcall.JournalEntry]{Key: r.Key, Read: func(ctx context.Context) ([]toolcall.JournalEntry, uint64, error) {
		history, err := w.journal.History(ctx, r.Key)
		return history, store.LastOf(history).Seq, err
	}}
	var next *toolcall.Call
	_, _, err = store.Update(ctx, w.store, late, func(_ context.Context, history []toolcall.JournalEntry) (*toolcall.EventRecord, error) {
		var noted bool
		if owner, noted = lateOwner(history, by, r); !owner || noted {
			return nil, errNoChange
		}
		if next, err = store.LastCallOf(r.Key, history); err != nil {
			return nil, err
		}
		res := r.Result
		rec := w.store.NewRecord(by, baseNow().At)
		rec.Call, rec.Note = next, &toolcall.Note{What: "late_result", Attempt: r.Attempt, Result: &res, Text: next.SealResult(digest)}
		rec.Call.Seq = 0
		return rec, nil
	})
	switch {
	case errors.Is(err, errNoChange):
		return owner, nil
	case err != nil:
		return owner, err
	}
	w.keeper.setTimers(next, 0) // timers set for the record before no longer count
	return true, nil
}

// lateOwner reports whether the sender of a result owned the attempt that it names, and
// whether a late result of that attempt is already recorded.
func lateOwner(history []toolcall.JournalEntry, by toolcall.Principal, r toolcall.ResultRequest) (owned, noted bool) {
	for _, rec := range history {
		record := rec.Record
		if record == nil || record.Call == nil {
			continue
		}
		owned = owned || isOwner(record.Call, by, r.Attempt, r.Claim)
		noted = noted || record.Note != nil && record.Note.Attempt == r.Attempt
	}
	return owned, noted
}

// checkNamed checks that a result names no other call or tool than c.
func checkNamed(c *toolcall.Call, b message.ToolResultBlock) error {
	if b.ID != "" && b.ID != c.Call || b.Name != "" && b.Name != c.Tool {
		return &message.Error{Code: message.CodeInvalid, What: "the result names another call or tool", Hint: "set the result's id and name to those of the call, or leave them out"}
	}
	return nil
}

// resultDepth is how deep a result may be nested. It is less than strictjson's limit,
// because results are contained in other objects.
const resultDepth = 48

// checkResult checks the limits of a result, completes it and returns its digest.
func checkResult(b *message.ToolResultBlock) (string, error) {
	switch b.State {
	case message.ToolResultSuccess, message.ToolResultError, message.ToolResultInterrupted, message.ToolResultDenied:
	default:
		return "", &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("result state is %q", b.State), Hint: "use success, error, interrupted or denied"}
	}
	if b.Metadata == nil {
		b.Metadata = map[string]any{}
	}
	digest, body, err := toolcall.DigestResult(b)
	if err == nil {
		err = strictjson.Bounds(body, strictjson.MaxBytes(2*toolcall.MaxOutputBytes), strictjson.MaxDepth(resultDepth))
	}
	if err != nil {
		return "", &message.Error{Code: message.CodeInvalid, What: "the result has no JSON form that can be stored", Hint: fmt.Sprintf("use text, numbers, lists and maps, nested at most %d deep", resultDepth), Err: err}
	}
	if len(body) > toolcall.MaxOutputBytes {
		return "", &message.Error{Code: message.CodeTooLarge, What: fmt.Sprintf("the result has %d bytes, the limit is %d", len(body), toolcall.MaxOutputBytes), Hint: "store large output elsewhere and return a reference"}
	}
	now := toolcall.Timestamp(time.Now())
	b.CreatedAt = cmp.Or(b.CreatedAt, now)
	b.FinishedAt = cmp.Or(b.FinishedAt, &now)
	return digest, nil
}
