package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func (e *Engine) propose(ctx context.Context, by message.Principal, r message.ProposeRequest) ([]*message.Call, error) {
	calls, err := e.newCalls(by, r)
	if err != nil {
		return nil, err
	}
	reply := calls[0].ReplyKey()
	if len(calls) > 1 || !e.safe(calls[0].Tool) { // else nothing is written before the call itself
		if err := e.noConflict(ctx, by, calls); err != nil {
			return nil, opError("propose", err)
		}
	}
	if err := e.bindSession(ctx, by, reply.SessionKey()); err != nil {
		return nil, err
	}
	if err := e.planBatch(ctx, by, calls); err != nil {
		return nil, err
	}
	out := make([]*message.Call, len(calls))
	for i, c := range calls {
		if out[i], err = e.proposeOne(ctx, by, c, out[:i]); err != nil {
			return out[:i], err // what is stored stays stored; the same proposal again goes on
		}
	}
	return out, nil
}

// noConflict refuses a proposal of which a call is known with other content,
// before anything of it is written. What others propose at the same moment is
// met only when the call itself is written.
func (e *Engine) noConflict(ctx context.Context, by message.Principal, calls []*message.Call) error {
	for _, c := range calls {
		known, err := e.store.Call(ctx, c.Key)
		if errors.Is(err, message.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if known.Runtime != by.Name { // whose content is not to be shown either
			return foreignSession(c.Session)
		}
		if _, err := sameProposal(c, known); err != nil {
			return err
		}
	}
	return nil
}

func foreignSession(s message.SessionID) error {
	return &message.Error{Code: message.CodeForeign, Op: "propose", What: "the session " + string(s) + " belongs to another runtime", Hint: "use a session of your own"}
}

// newCalls checks all calls of a proposal by themselves, before anything is
// looked up or written.
func (e *Engine) newCalls(by message.Principal, r message.ProposeRequest) ([]*message.Call, error) {
	bad := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, Op: "propose", What: what, Hint: hint}
	}
	switch {
	case len(r.Calls) == 0:
		return nil, bad(message.CodeInvalid, "tool_calls is empty", "propose at least one call")
	case len(r.Calls) > message.MaxCallsPerTurn:
		return nil, bad(message.CodeTooLarge, fmt.Sprintf("%d calls in one proposal, the limit is %d", len(r.Calls), message.MaxCallsPerTurn), "propose them in several requests")
	}
	if err := e.mayBeExternal(r.External); err != nil {
		return nil, err
	}
	seen := map[message.CallID]bool{}
	out := make([]*message.Call, 0, len(r.Calls))
	for i, b := range r.Calls {
		key := message.Key{Space: e.space, Session: r.Session, Reply: r.Reply, Call: b.ID}
		at := fmt.Sprintf("tool_calls[%d]", i)
		if err := key.Validate(); err != nil {
			return nil, opError("propose", fmt.Errorf("%s: %w", at, err))
		}
		switch {
		case seen[b.ID]:
			return nil, bad(message.CodeInvalid, at+": the id "+string(b.ID)+" occurs twice", "give each call of a reply its own id")
		case b.Name == "":
			return nil, bad(message.CodeInvalid, at+": name is empty", "name the tool")
		case len(b.Name) > message.MaxIDBytes:
			return nil, bad(message.CodeTooLarge, fmt.Sprintf("%s: the tool's name has %d bytes, the limit is %d", at, len(b.Name), message.MaxIDBytes), "name a tool that is known")
		case len(b.Input) > message.MaxInputBytes:
			return nil, bad(message.CodeTooLarge, fmt.Sprintf("%s: input has %d bytes, the limit is %d", at, len(b.Input), message.MaxInputBytes), "pass large content by reference")
		case b.State != "" && b.State != message.ToolCallPending:
			return nil, bad(message.CodeInvalid, fmt.Sprintf("%s: state is %q", at, b.State), "a proposed call is pending; only askance moves it on")
		case len(r.Agent) > message.MaxIDBytes:
			return nil, bad(message.CodeTooLarge, fmt.Sprintf("agent has %d bytes, the limit is %d", len(r.Agent), message.MaxIDBytes), "shorten it")
		}
		seen[b.ID] = true
		c := &message.Call{Key: key, Runtime: by.Name, Agent: r.Agent, Tool: b.Name, Input: b.Input, Proposal: proposal(b.Name, b.Input)}
		if slices.Contains(r.External, b.Name) {
			c.Placement = message.PlaceExternal
		}
		out = append(out, c)
	}
	return out, nil
}

// mayBeExternal refuses that a proposal takes a tool away from those who run it.
func (e *Engine) mayBeExternal(tools []string) error {
	for i, name := range tools {
		if t, known := e.tools[name]; known && t.Placement != message.PlaceExternal {
			return &message.Error{Code: message.CodeInvalid, Op: "propose", What: fmt.Sprintf("external_tools[%d]: the tool %s is not run by the runtime: its placement is %s", i, name, t.Placement), Hint: "give the runtime's own tool another name"}
		}
	}
	return nil
}

// proposal is the digest that tells the same call proposed again from another
// one under the same ids.
func proposal(tool, input string) string {
	b, err := jcs.Marshal([]string{tool, input})
	if err != nil { // invalid UTF-8: hash the parts as they are
		b = fmt.Appendf(nil, "%d:%s%s", len(tool), tool, input)
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// bindSession makes the session this runtime's at its first use, and refuses
// every other runtime from then on.
func (e *Engine) bindSession(ctx context.Context, by message.Principal, session message.Key) error {
	owner := e.view.Runtime(session)
	if owner == "" {
		binding := store.Entity[string]{
			Key:   session,
			Known: func() (string, uint64, bool) { return "", 0, true }, // the write tells whether it was bound
			Read:  func(ctx context.Context) (string, uint64, error) { return e.store.LastRuntime(ctx, session) },
		}
		bound, _, err := store.Update(ctx, e.store, "propose", binding, func(_ context.Context, bound string) (*message.EventRecord, error) {
			if bound != "" {
				return nil, errNoChange
			}
			f := e.store.NewRecord(by, stamp().At)
			f.Session = &message.SessionState{Key: session, Runtime: by.Name}
			return f, nil
		})
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errNoChange):
			return opError("propose", err)
		}
		owner = bound
	}
	if owner != by.Name {
		return foreignSession(session.Session)
	}
	return nil
}

// planBatch orders the calls of a proposal that contains a tool which is not
// concurrency-safe: the plan goes into the reply's own entity before any of the
// calls. Independent calls need none.
func (e *Engine) planBatch(ctx context.Context, by message.Principal, calls []*message.Call) error {
	plan := message.BatchPlan{}
	serial, group := false, 0
	for i, c := range calls {
		t, known := e.tools[c.Tool]
		safe := t.ConcurrencySafe || !known
		if i > 0 && (!safe || !e.safe(calls[i-1].Tool)) {
			group++
		}
		serial = serial || !safe
		plan.Calls, plan.Groups = append(plan.Calls, c.Call), append(plan.Groups, group)
	}
	if !serial {
		return nil
	}
	plan, err := e.storePlan(ctx, by, calls[0].ReplyKey(), plan)
	if err != nil {
		return opError("propose", err)
	}
	for i, c := range calls {
		c.Batch = message.Batch{Number: plan.Number, Group: plan.Groups[i], Index: i}
	}
	return nil
}

func (e *Engine) safe(tool string) bool {
	t, known := e.tools[tool]
	return t.ConcurrencySafe || !known
}

// storePlan appends a plan to the reply's entity, or finds it there: the same
// calls proposed again are the same batch.
func (e *Engine) storePlan(ctx context.Context, by message.Principal, reply message.Key, plan message.BatchPlan) (message.BatchPlan, error) {
	_, _, err := store.Update(ctx, e.store, "propose", e.store.Reply(reply), func(_ context.Context, state message.ReplyState) (*message.EventRecord, error) {
		for _, p := range state.Batches {
			if slices.Equal(p.Calls, plan.Calls) {
				plan = p
				return nil, errNoChange
			}
		}
		if state.Phase != message.ReplyOpen {
			return nil, interruptedError(reply)
		}
		plan.Number = len(state.Batches) + 1
		state.Batches = append(slices.Clone(state.Batches), plan)
		f := e.store.NewRecord(by, stamp().At)
		f.Reply = &state
		return f, nil
	})
	if errors.Is(err, errNoChange) {
		err = nil
	}
	return plan, err
}

// lagLimit is how long a look at a reply waits for the watch before it reads
// the journal itself.
const lagLimit = 50 * time.Millisecond

// phaseAt is the phase of a reply when the event record seq was written, or later. A
// view that has seen that event record has seen every interrupt before it; no reading
// is needed.
func (e *Engine) phaseAt(ctx context.Context, reply message.Key, seq uint64) (message.ReplyPhase, error) {
	wait, cancel := context.WithTimeout(ctx, lagLimit)
	defer cancel()
	if e.store.WaitForSequence(wait, seq) == nil {
		if phase := e.view.ReplyPhase(reply); phase != "" {
			return phase, nil
		}
	}
	state, _, err := e.store.LastReply(ctx, reply)
	return state.Phase, err
}

func interruptedError(reply message.Key) error {
	return &message.Error{Code: message.CodeInterrupted, Op: "propose", What: "the reply " + string(reply.Reply) + " was interrupted", Hint: "begin a new reply"}
}

// proposeOne writes the first event record of a call: proposed and, unless it has to
// wait for others, decided and begun at once. earlier are the calls of the
// same proposal before it.
func (e *Engine) proposeOne(ctx context.Context, by message.Principal, c *message.Call, earlier []*message.Call) (*message.Call, error) {
	defer e.enter()()
	if known, err := e.knownCall(ctx, c.Key); err != nil {
		return nil, opError("propose", err)
	} else if known != nil {
		return sameProposal(c, known)
	}
	m := toolcall.Load(nil)
	if err := m.Step(toolcall.Proposed{Base: stamp(), Call: c}); err != nil {
		return nil, opError("propose", err)
	}
	err := errUndecided
	if !e.gated(c) {
		err = e.decideStep(ctx, m, earlier)
	}
	if errors.Is(err, errUndecided) {
		e.redact(ctx, m.Call())
	} else if err != nil {
		return nil, opError("propose", err)
	}
	given, err := e.assign(m.Call())
	if err != nil {
		return nil, opError("propose", err)
	}
	defer given()
	next, err := e.writeFirst(ctx, m, by)
	if errors.Is(err, message.ErrConflict) {
		known, lerr := e.store.LastCall(ctx, c.Key)
		if lerr != nil {
			return nil, opError("propose", lerr)
		}
		return sameProposal(c, known)
	}
	if err != nil {
		return nil, opError("propose", err)
	}
	return next, nil
}

// knownCall gives the present state of a call that was proposed before, nil if
// it seems new: the write will tell. What is new in an interrupted reply is
// refused.
func (e *Engine) knownCall(ctx context.Context, key message.Key) (*message.Call, error) {
	known := e.view.Call(key)
	if known != nil && !known.Open() {
		return known, nil
	}
	state, _ := e.view.ReplyState(key)
	over := state != nil && state.Phase != message.ReplyOpen
	if known == nil && !over {
		return nil, nil
	}
	known, err := e.store.LastCall(ctx, key) // the view may not have heard what became of it
	if over && errors.Is(err, message.ErrNotFound) {
		return nil, interruptedError(key)
	}
	return known, err
}

// sameProposal tells a repeated proposal from other content under the same
// ids.
func sameProposal(c, known *message.Call) (*message.Call, error) {
	if c.Proposal != known.Proposal {
		return nil, &message.Error{Code: message.CodeConflict, Op: "propose", Call: known.Clone(),
			What: "the call " + string(c.Call) + " of this reply was proposed before with other content", Hint: "give the new call an id of its own"}
	}
	return known, nil
}

// writeFirst stores a call's first record. The reply's own entity is looked at
// after it and before anything begins here: an interrupt that was written
// meanwhile did not see this call, so this call has to see the interrupt.
func (e *Engine) writeFirst(ctx context.Context, m *toolcall.Machine, by message.Principal) (*message.Call, error) {
	c := m.Call()
	seq, sent, err := e.store.AppendFirst(ctx, m, by)
	if err != nil {
		return nil, err
	}
	if !c.Open() {
		e.perform(c, m.Effects(), sent)
		return c, nil
	}
	phase, err := e.phaseAt(ctx, c.ReplyKey(), seq)
	if err == nil && phase == message.ReplyOpen {
		e.perform(c, m.Effects(), sent)
		return c, nil
	}
	if err == nil {
		return e.update(ctx, "interrupt", c.Key, e.self(), interruptStep)
	}
	e.log.Warn("a call is on record and does not begin yet: its reply cannot be read", "call", c.Key.String(), "error", err)
	e.background(func(ctx context.Context) { e.beginLater(ctx, m, sent) })
	return c, nil
}

// beginLater performs the effects of a first event record once it is known that the
// reply was not interrupted meanwhile: the journal could not be read at once.
func (e *Engine) beginLater(ctx context.Context, m *toolcall.Machine, sent time.Time) {
	c := m.Call()
	for pauses := (schedule.Pauses{Next: 20 * time.Millisecond, Most: time.Second}); ; {
		state, _, err := e.store.LastReply(ctx, c.ReplyKey())
		switch {
		case err == nil && state.Phase == message.ReplyOpen:
			e.perform(c, m.Effects(), sent)
			return
		case err == nil:
			_, err = e.update(ctx, "interrupt", c.Key, e.self(), interruptStep)
			if err == nil || errors.Is(err, message.ErrFinished) {
				return
			}
		}
		if !pauses.Wait(ctx) {
			return
		}
	}
}

// errUndecided: a call cannot be decided yet, and stays pending.
var errUndecided = errors.New("not to be decided yet")

// decideStep decides a pending call within the machine and takes it as far as
// it goes. What it would ask waits, with errUndecided, for earlier calls behind
// whose approval request it may come to hide.
func (e *Engine) decideStep(ctx context.Context, m *toolcall.Machine, earlier []*message.Call) error {
	c := m.Call()
	if text := e.unfit(c); text != "" {
		e.redact(ctx, c)
		return m.Step(toolcall.Refused{Base: stamp(), Text: text})
	}
	v := e.consult(ctx, c)
	d, standings, known := v.decision, v.standingApprovals, v.known
	if by, standing := e.byStandingApproval(ctx, c, d, e.spend); standing != "" {
		d, standings = by, []message.StandingID{standing}
	}
	ev, err := e.asEvent(c, c.Input, d)
	if err != nil {
		return err
	}
	allowedBy(&ev.Decision, standings)
	ev.Explanation = onRecord(v.why)
	if d.Behavior != message.BehaviorAllow && d.Behavior != message.BehaviorDeny && !d.BypassImmune {
		if behind := e.hiddenBehind(ctx, c, earlier); behind != "" {
			if c.Behind == behind {
				return errNoChange
			}
			c.Redact = d.Redact
			return m.Step(toolcall.Hidden{Base: ev.Base, Behind: behind})
		}
		// The approval request that it hid behind may have been answered since the rules
		// were read, and left one that allows the call.
		if len(e.view.Rules(c.SessionKey())) != known {
			return e.decideStep(ctx, m, earlier)
		}
		if e.overtakes(c, earlier) {
			return errUndecided
		}
	}
	if err := m.Step(ev); err != nil {
		return err
	}
	if m.Call().State != message.ToolCallAllowed {
		return nil
	}
	return e.begin(m)
}
