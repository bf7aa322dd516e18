package agui

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	words "github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// parkEvent is the name of the CUSTOM event which records that a run ended to let people or the
// client respond. Interrupts outlive the process because this event records which ones the client
// holds.
const parkEvent = "askance.agui.park"

// park is the value of this event. It has no arguments, not even a hash of them, and no
// responses: every reader of the session can read it, and rules do not redact it.
type park struct {
	V     int             `json:"v"` // 1
	Run   string          `json:"run_id"`
	Reply message.ReplyID `json:"reply_id"`
	// Through is the cursor after the last event that the run has shown.
	Through uint64  `json:"through"`
	Asked   []asked `json:"asked,omitzero"`
	// Tools are the calls that the client has to run, by the client's ids.
	Tools []string          `json:"tools,omitzero"`
	texts map[string]string // of interrupts about blocked calls, by their ids
}

// asked is one interrupt.
type asked struct {
	ID   string         `json:"id"` // of the interrupt
	Call message.CallID `json:"tool_call_id"`
	// Digest is the digest of the approval request that was put, or "" if the interrupt is not an
	// approval request about a call.
	Digest string `json:"digest,omitzero"`
	// Expires is the expiry in the interrupt, in RFC 3339.
	Expires string `json:"expires,omitzero"`
}

// parkOf returns the record in an event, or nil if the event has none.
func parkOf(e *message.Custom) *park {
	if e.Name != parkEvent {
		return nil
	}
	text, err := json.Marshal(e.Value)
	if err != nil {
		return nil
	}
	p := new(park)
	if err := strictjson.Unmarshal(text, p); err != nil || p.V != 1 || p.Reply == "" {
		return nil
	}
	if slices.ContainsFunc(p.Asked, func(a asked) bool { return !a.isGenuine() }) {
		return nil
	}
	return p
}

// isGenuine reports whether the id of the interrupt agrees with the record: a
// forged record cannot turn a response to one request into one to another.
func (a asked) isGenuine() bool {
	event, call, ok := strings.Cut(a.ID, "/")
	if a.Digest == "" {
		return true // no approval request
	}
	of := message.RequireUserConfirm{EventHeader: message.EventHeader{ID: event}}
	return ok && of.RequestDigest() == a.Digest && (call == string(a.Call) || strings.HasPrefix(call, string(a.Call)+"/"))
}

// event returns the record as the event that is stored.
func (p *park) event() (message.RawJSON, error) {
	text, err := strictjson.Marshal(p)
	if err != nil {
		return nil, err
	}
	value, err := strictjson.Object(text, strictjson.KeepBigIntegers())
	if err != nil {
		return nil, err
	}
	return json.Marshal(&message.Custom{EventHeader: message.NewHeader(""), Name: parkEvent, Value: value})
}

func (p *park) find(id string) (asked, bool) {
	for _, a := range p.Asked {
		if a.ID == id {
			return a, true
		}
	}
	return asked{}, false
}

// equals reports whether two records wait for the same things.
func (p *park) equals(o *park) bool {
	return o != nil && p.Reply == o.Reply && slices.Equal(p.Asked, o.Asked) && slices.Equal(p.Tools, o.Tools)
}

// park ends the run to let people or the client respond, if everything that happened was shown.
// calls are the calls without a result, in their current state.
func (f *follower) park(ctx context.Context, calls []*toolcall.Call) error {
	if err := f.deliverApproved(ctx); err != nil {
		return err
	}
	rec := &park{V: 1, Run: f.in.RunID, Reply: f.reply, Through: f.seq, texts: map[string]string{}}
	hasPerson := slices.ContainsFunc(calls, f.needsPerson)
	for _, c := range calls {
		if !f.addCall(rec, c, hasPerson) {
			return nil
		}
	}
	rec.Tools = slices.Sorted(maps.Keys(f.mapper.Pending()))
	if len(rec.Asked) == 0 && len(rec.Tools) == 0 || !f.mapper.Waits() {
		return nil // or the event that says so is on the way
	}
	if begun, err := f.beginClientCalls(ctx, calls); !begun || err != nil {
		return err
	}
	return f.recordAndEnd(ctx, rec)
}

// addCall adds to the record what a call waits for, and reports false if an event about the call
// is on the way. Calls that workers run wait only if no call waits for a person.
func (f *follower) addCall(rec *park, c *toolcall.Call, hasPerson bool) bool {
	blocked := c.Phase() == toolcall.PhaseBlocked
	if (blocked || c.State == message.ToolCallSubmitted) && !f.isClientCall(c) {
		f.mapper.Withhold(c.Call)
	}
	switch {
	case !c.Open():
		return false // its result
	case c.State == message.ToolCallAsking:
		q := f.asked[c.Call]
		if q == nil {
			return false // the approval request
		}
		a, same := q.fill(c, f.interruptID(q, c), f.mayRespond(c))
		rec.Asked = append(rec.Asked, a)
		return same
	case f.isClientCall(c): // the client has been told, and has not responded
		return f.isHandedOver(c.Call) && !f.brings(c.Call)
	case blocked, c.State == message.ToolCallSubmitted && !hasPerson:
		a := asked{ID: f.in.RunID + "/" + string(c.Call) + "/running", Call: c.Call} // as the mapper names it
		rec.Asked = append(rec.Asked, a)
		if blocked {
			end := ". Look again?"
			if c.Blocked.NeedsOperator() {
				end = ", and an operator has to resolve it" + end
			}
			rec.texts[a.ID] = "The call of " + c.Tool + " is blocked (" + words.WhyBlocked(c) + ")" + end
		}
	}
	return true
}

// handOverClaim is the claim of calls that were handed to a client. Every page of the thread's owner
// may run them, because AG-UI does not tell pages apart.
const handOverClaim = "ag-ui"

// beginClientCalls begins the calls that the client is about to be told to run: a policy that
// denies them by now stops them, and from then on they cannot be revoked. It returns false if one
// of them must not run: its result is on the way, or the parkWatcher tries again.
func (f *follower) beginClientCalls(ctx context.Context, calls []*toolcall.Call) (bool, error) {
	for _, c := range calls {
		if !f.isClientCall(c) || c.Phase() == toolcall.PhaseRunning {
			continue
		}
		_, err := f.owner.Begin(ctx, toolcall.BeginRequest{Key: c.Key, Claim: handOverClaim})
		switch {
		case err == nil:
		case isOvertaken(err), isUncertain(err), errors.Is(err, message.ErrSuperseded):
			return false, nil
		default:
			return false, err
		}
	}
	return true, nil
}

// isUncertain reports whether a request may have taken effect, or will once the store has room.
func isUncertain(err error) bool {
	return errors.Is(err, message.ErrUnavailable) || errors.Is(err, message.ErrUnknownOutcome) || errors.Is(err, message.ErrFull)
}

// isHandedOver reports whether a call of the client's tools was handed to it.
func (f *follower) isHandedOver(id message.CallID) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(f.mapper.Pending())), func(b message.ToolCallBlock) bool { return b.ID == id })
}

// recordAndEnd records what is asked, then ends the run: a response to an interrupt without a
// record would be refused. While no engine answers, the parkWatcher tries again.
func (f *follower) recordAndEnd(ctx context.Context, rec *park) error {
	if !rec.equals(f.parked) {
		raw, err := rec.event()
		if err != nil {
			return message.Errorf(message.CodeInternal, "run", "record the interrupts: %w", err)
		}
		_, err = f.owner.Emit(ctx, toolcall.EmitRequest{Session: f.session, Reply: f.reply, Events: []message.RawJSON{raw}})
		if isUncertain(err) {
			return nil // the parkWatcher tries again
		}
		if err != nil {
			return err
		}
		f.parked = rec
	}
	for _, q := range f.asked {
		f.out.history.ShowAsked(*q.interrupt.ToolCallID, q.block.Name, q.block.Input)
	}
	showPending(f.out.history, f.mapper)
	events := f.mapper.Park(f.restate()...)
	if end, ok := events[len(events)-1].(*wire.RunFinished); ok && end.Outcome != nil && end.Outcome.Type == wire.OutcomeInterrupt {
		if end.Outcome.Interrupts = rec.keepRecorded(end.Outcome.Interrupts); len(end.Outcome.Interrupts) == 0 {
			end.Outcome = &wire.Outcome{Type: wire.OutcomeSuccess} // the client has tools to run
			if f.of.Peer == wire.Peer10 {
				end.Outcome.PendingToolCallIDs = rec.Tools
			}
		}
	}
	return f.out.send(events...)
}

// keepRecorded returns the interrupts that are on record, with their texts.
func (p *park) keepRecorded(all []wire.Interrupt) []wire.Interrupt {
	all = slices.DeleteFunc(all, func(i wire.Interrupt) bool {
		_, ok := p.find(i.ID)
		return !ok
	})
	for i := range all {
		if text, ok := p.texts[all[i].ID]; ok {
			all[i].Message = &text
		}
	}
	return all
}

// restate returns the snapshots that clients before 1.0 expect before an interrupt. The state is
// the client's own, because agents here have none.
func (f *follower) restate() []wire.Event {
	state := f.in.State
	if state == nil {
		state = message.RawJSON("{}")
	}
	return []wire.Event{&wire.StateSnapshot{Snapshot: state}, f.out.history.Snapshot()}
}

// interruptID names an approval request within the thread. A request keeps its id
// until a response to it was accepted; one that still needs others gets a new id.
func (r *run) interruptID(q *request, c *toolcall.Call) string {
	if r.parked == nil {
		return q.id
	}
	for _, a := range r.parked.Asked {
		switch {
		case a.Call != c.Call || a.Digest != c.Digest:
		case r.answered[a.ID]:
			return q.id + "/" + r.in.RunID
		default:
			return a.ID
		}
	}
	return q.id
}

// mayRespond reports whether the peer could answer the approval request: it has the role, and has
// not voted on it yet.
func (r *run) mayRespond(c *toolcall.Call) bool {
	voted := slices.ContainsFunc(c.Votes, func(v toolcall.Vote) bool { return toolcall.IsSamePerson(v.By.Name, r.peer.Name) && v.On(c.Digest) })
	return r.peer.Has(toolcall.RoleApprover) && !voted
}

// pending are the calls of a reply that were begun and have no result, in the
// order in which they were begun.
type pending []message.CallID

// note records an event of the reply.
func (p *pending) note(e message.Event) {
	drop := func(id message.CallID) {
		*p = slices.DeleteFunc(*p, func(o message.CallID) bool { return o == id })
	}
	switch e := e.(type) {
	case *message.ToolCallStart:
		drop(e.ToolCallID)
		*p = append(*p, e.ToolCallID)
	case *message.ToolResultEnd:
		drop(e.ToolCallID)
	case *message.ExternalExecutionResult:
		for _, r := range e.ExecutionResults {
			drop(r.ID)
		}
	default:
	}
}

// parkWatcher finds out when a reply cannot continue without people or the client.
type parkWatcher struct {
	f      *follower
	parked chan []*toolcall.Call // the calls without a result, as they were then
	cancel context.CancelFunc
	done   chan struct{}
	pause  time.Duration // before the next wait, after waits that changed nothing
}

// stop ends the current wait.
func (w *parkWatcher) stop() {
	w.cancel()
	if w.done != nil {
		<-w.done
		w.done = nil
	}
}

// restart starts a new wait after an event.
func (w *parkWatcher) restart(ctx context.Context) {
	w.pause = 0
	w.begin(ctx)
}

// retry waits again after a result that did not end the run.
func (w *parkWatcher) retry(ctx context.Context) {
	w.pause = min(max(2*w.pause, 10*time.Millisecond), 2*time.Second)
	w.begin(ctx)
}

func (w *parkWatcher) begin(ctx context.Context) {
	w.stop()
	if len(w.f.calls) == 0 || w.f.out.ended {
		return
	}
	ctx, w.cancel = context.WithCancel(ctx)
	done := make(chan struct{})
	w.done = done
	req := toolcall.WaitRequest{Session: w.f.session, Reply: w.f.reply, Calls: slices.Clone(w.f.calls), Until: toolcall.UntilParked}
	wait := w.pause
	go func() {
		defer close(done)
		_ = sleep.For(ctx, wait) // the wait below ends with ctx
		calls := w.f.s.waitUntilParked(ctx, w.f.run, req)
		if calls == nil {
			return
		}
		select {
		case w.parked <- calls:
		case <-ctx.Done():
		}
	}()
}

// waitUntilParked waits until the run should end, or returns nil if ctx ends first. Each event
// restarts the wait.
func (s *Surface) waitUntilParked(ctx context.Context, r *run, req toolcall.WaitRequest) []*toolcall.Call {
	began := time.Now()
	for ctx.Err() == nil {
		early := s.cfg.Grace - time.Since(began)
		hold := maxHold
		if early > 0 {
			hold = max(10*time.Millisecond, min(early, maxHold))
		}
		req.TimeoutMS = hold.Milliseconds()
		out, err := r.owner.Wait(ctx, req)
		if err != nil || len(out.Calls) == 0 {
			if errors.Is(err, message.ErrNotFound) && early <= 0 {
				req.Calls = dropUnknown(ctx, r, req) // a call was begun and never proposed
			}
			_ = sleep.For(ctx, 50*time.Millisecond) // the loop ends with ctx
			continue
		}
		if slices.ContainsFunc(out.Calls, r.needsPerson) {
			if out.Done || time.Since(began) >= s.cfg.Grace {
				return out.Calls
			}
			continue
		}
		if out.Done {
			_ = sleep.For(ctx, s.cfg.Patience-time.Since(began))
			if !slices.ContainsFunc(out.Calls, func(c *toolcall.Call) bool { return c.State != message.ToolCallSubmitted }) {
				return out.Calls
			}
			_ = sleep.For(ctx, maxHold) // their results are on the way
		}
	}
	return nil
}

// maxHold is how long one request waits at the engine.
const maxHold = 20 * time.Second

// dropUnknown returns the calls that the engine has.
func dropUnknown(ctx context.Context, r *run, req toolcall.WaitRequest) []message.CallID {
	return slices.DeleteFunc(slices.Clone(req.Calls), func(id message.CallID) bool {
		_, err := r.owner.Show(ctx, toolcall.ShowRequest{Key: toolcall.Key{Session: req.Session, Reply: req.Reply, Call: id}})
		return errors.Is(err, message.ErrNotFound)
	})
}

// needsPerson reports whether a call waits for a person or for the client.
func (r *run) needsPerson(c *toolcall.Call) bool {
	return c.Phase() == toolcall.PhaseAsking || c.Phase() == toolcall.PhaseBlocked || r.isClientCall(c)
}

// isClientCall reports whether the client has to run a call. Another program of the thread's owner can
// have begun it.
func (r *run) isClientCall(c *toolcall.Call) bool {
	free := c.Phase() == toolcall.PhaseQueued || c.Phase() == toolcall.PhaseRunning && c.Attempt.Claim == handOverClaim
	return free && c.Placement == toolcall.PlaceExternal && r.of.ClientTools[c.Tool]
}
