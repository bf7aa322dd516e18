package toolcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/looplab/fsm"

	"github.com/askance-dev/askance/message"
)

// machines are reused, because building one walks the whole table.
var machines = sync.Pool{New: func() any {
	rows := Table()
	desc := make(fsm.Events, 0, len(rows))
	for _, t := range rows {
		src := make([]string, len(t.From))
		for i, s := range t.From {
			src[i] = string(s)
		}
		desc = append(desc, fsm.EventDesc{Name: string(t.Cause), Src: src, Dst: string(t.To)})
	}
	return fsm.NewFSM(string(none), desc, nil)
}}

// nextState asks the looplab machine where cause leads from state. A transition may lead to
// the same state.
func nextState(state message.ToolCallState, cause Cause) (message.ToolCallState, bool) {
	f := machines.Get().(*fsm.FSM)
	defer machines.Put(f)
	f.SetState(string(state))
	err := f.Event(context.Background(), string(cause))
	if err != nil {
		if _, same := errors.AsType[fsm.NoTransitionError](err); !same {
			return state, false
		}
	}
	return message.ToolCallState(f.Current()), true
}

// Machine drives one call. It is pure: events go in, the new state and effects come out. It
// is not safe for concurrent use; it is cheap, so make one for each record.
type Machine struct {
	before *Call // as loaded; nil for a new call
	call   *Call
	path   []Step
	why    message.RawJSON // the explanation of the last decision
}

// Load returns a machine that continues from c, which it never changes. A nil c begins a new
// call.
func Load(c *Call) *Machine {
	m := &Machine{before: c}
	if c == nil {
		m.call = &Call{State: none}
	} else {
		m.call = c.Clone()
	}
	return m
}

// Call returns the state after the steps taken. It belongs to the caller once the machine
// is done.
func (m *Machine) Call() *Call { return m.call }

// Path returns the steps taken since Load, for the event record.
func (m *Machine) Path() []Step { return m.path }

// Explanation returns the explanation that the last decision since Load adds to the event
// record, if any.
func (m *Machine) Explanation() message.RawJSON { return m.why }

// Effects returns what the engine has to do once the event record is durable.
func (m *Machine) Effects() []Effect { return effectsOf(m.before, m.call) }

// Step applies one event. On an error, a *message.Error, the machine is unchanged, and a call in the
// error is the unchanged one. Several steps may be taken before the event record is written.
func (m *Machine) Step(ev Event) error {
	saved, steps, why := *m.call, len(m.path), m.why
	err := m.apply(ev)
	if err == nil && !slices.Contains(phaseAfter[saved.Phase()], m.call.Phase()) {
		err = stateError(saved.Clone(), Cause(m.call.Cause))
	}
	if err != nil {
		*m.call, m.path, m.why = saved, m.path[:steps], why
		if e, ok := errors.AsType[*message.Error](err); ok && e.Call != nil {
			e.Call = ErrorCall(m.call)
		}
		return err
	}
	m.call.UpdatedAt = ev.at()
	if steps == 0 {
		m.call.Records++ // one event record, however many steps
	}
	return nil
}

// move takes the transition for cause, or returns an error if there is none.
func (m *Machine) move(cause Cause) error {
	to, ok := nextState(m.call.State, cause)
	if !ok {
		return stateError(m.call, cause)
	}
	if m.path == nil {
		m.path = make([]Step, 0, 4) // more than most records have
	}
	m.path = append(m.path, Step{Cause: string(cause), From: m.call.State, To: to})
	if to == asking || to == finished && m.call.State != allowed && m.call.State != submitted {
		m.call.Remember, m.call.StandingApprovals = nil, nil // nothing was allowed, so nothing is remembered
	}
	m.call.State, m.call.Cause = to, string(cause)
	return nil
}

func (m *Machine) apply(ev Event) error {
	c := m.call
	switch ev := ev.(type) {
	case Proposed:
		if err := m.move(CausePropose); err != nil {
			return err
		}
		*c = *ev.Call
		c.State, c.Cause, c.ProposedAt, c.Records = pending, string(CausePropose), ev.At, 0
		return nil
	case Refused:
		return m.deny(CauseRefuse, message.ToolResultError, ev.Text, &Denial{Reason: ev.Text}, ev.At)
	case Decided:
		return m.applyDecision(ev)
	case Hidden:
		c.Behind = ev.Behind
		return m.move(CauseHide)
	case Denied:
		if ev.Vote != nil {
			c.Votes = appendVote(c.Votes, *ev.Vote)
		}
		d := ev.Decision
		c.Decision, m.why = &d, ev.Explanation
		return m.denyByPolicy(d, ev.At)
	case Responded:
		return m.applyResponse(ev)
	case Edited:
		return m.applyEdit(ev)
	case Voted:
		return m.applyVote(ev)
	case Escalated:
		return m.applyEscalation(ev)
	case Expired:
		return m.deny(CauseExpire, message.ToolResultDenied, expiredText(c), newDenial(c, expiredReason), ev.At)
	case Interrupted:
		return m.finish(CauseInterrupt, message.ToolResultInterrupted, cmp.Or(ev.Text, interruptedText(c)), ev.At)
	case Revoked:
		return m.applyRevocation(ev)
	default:
		return m.applyToAttempt(ev)
	}
}

func (m *Machine) applyDecision(ev Decided) error {
	c := m.call
	d, req := ev.Decision, ev.Request
	c.Decision, c.Request, c.Digest, c.Suggested = &d, &req, ev.Digest, ev.Suggested
	c.Behind, c.Placement, c.Step, c.Redact = "", ev.Placement, ev.Step, nil
	m.why = ev.Explanation
	if n := len(c.Votes); ev.EditCounts && n > 0 && c.Cause == string(CauseEdit) {
		c.Votes, c.StandingApprovals = appendVote(c.Votes[:n-1], ev.Counted(c.Votes[n-1])), ev.StandingApprovals
	}
	switch d.Behavior {
	case message.BehaviorDeny:
		return m.denyByPolicy(d, ev.At)
	case message.BehaviorAllow:
		return m.move(CauseAllow)
	default:
		return m.move(CauseAsk)
	}
}

// Counted returns the vote of an edit as an approval of the event's approval request.
func (d Decided) Counted(v Vote) Vote {
	v.Made, v.Step, v.Remember = d.Digest, d.Step, d.Terms
	return v
}

func (m *Machine) applyRevocation(ev Revoked) error {
	if m.call.Started() {
		return &message.Error{Code: message.CodeState, Op: "revoke", Call: ErrorCall(m.call),
			What: "the call has been started", Hint: "interrupt the reply to cancel it"}
	}
	if m.call.Begun > 0 || m.call.Blocked == BlockedUnknown { // it may have had its effect, so it is not denied
		return m.finish(CauseRevoke, message.ToolResultInterrupted, revokedAgainText(m.call.Tool, ev.Reason), ev.At)
	}
	d := newDenial(m.call, cmp.Or(ev.Reason, "the approval was revoked"))
	if ev.Denied != nil {
		d = newDenial(&Call{Decision: ev.Denied}, ev.Denied.told())
	}
	return m.deny(CauseRevoke, message.ToolResultDenied, revokedText(m.call, ev), d, ev.At)
}

// finish moves to finished with a result that askance writes.
func (m *Machine) finish(cause Cause, state message.ToolResultState, text string, at time.Time) error {
	return m.end(cause, TextResult(m.call, state, text, at), "")
}

// deny finishes a call that has not run, and records why.
func (m *Machine) deny(cause Cause, state message.ToolResultState, text string, d *Denial, at time.Time) error {
	if err := m.finish(cause, state, text, at); err != nil {
		return err
	}
	d.Cause = string(cause)
	m.call.Denial = d
	return nil
}

func (m *Machine) denyByPolicy(d Decision, at time.Time) error {
	return m.deny(CauseDeny, message.ToolResultDenied, deniedText(m.call.Tool, d), newDenial(m.call, d.told()), at)
}

// Effect is something that the engine has to do after the event record that it wrote is
// durable. What is still due after a crash follows from the call's phase.
type Effect string

// The effects.
const (
	// EffectAsk: an approval request is open; show it and watch its deadline.
	EffectAsk Effect = "ask"
	// EffectClosed: an approval request that was open has closed.
	EffectClosed Effect = "closed"
	// EffectRun: this attempt was just started locally, and its owner runs it now. After a
	// crash the attempt counts as lost and is not run again.
	EffectRun Effect = "run"
	// EffectCancel: an owner must be told to stop.
	EffectCancel Effect = "cancel"
	// EffectFinished: the call is finished; calls that waited for it may continue.
	EffectFinished Effect = "finished"
)

// effectsOf derives the effects from the call before and after one record.
func effectsOf(before, after *Call) []Effect {
	var out []Effect
	if before != nil && before.State == asking && (after.State != asking || after.Digest != before.Digest) {
		out = append(out, EffectClosed)
	}
	if after.State == finished {
		if before != nil && before.Open() && before.Started() && before.Placement != PlaceExternal && after.Cause != string(CauseResult) {
			out = append(out, EffectCancel)
		}
		return append(out, EffectFinished)
	}
	if after.Cause == string(CauseStart) && after.Placement == PlaceLocal {
		out = append(out, EffectRun)
	}
	if after.State == asking {
		out = append(out, EffectAsk)
	}
	return out
}

// applyResponse checks the digest, the fence of every response, before anything else.
func (m *Machine) applyResponse(ev Responded) error {
	c := m.call
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	c.Votes = appendVote(c.Votes, ev.Vote)
	switch ev.Vote.Kind {
	case ResponseApprove:
		if !c.Tally().Agreed {
			return &message.Error{Code: message.CodeInternal, Op: "submit_response", What: "not all required approvers approved", Hint: "the approval request stays open"}
		}
		c.Remember, c.StandingApprovals = ev.Remember, ev.StandingApprovals
		return m.move(CauseApprove)
	case ResponseReject:
		return m.deny(CauseReject, message.ToolResultDenied, rejectedText(c, ev.Vote), newRejection(c, ev.Vote), ev.At)
	case ResponseRespond:
		return m.finish(CauseRespond, message.ToolResultSuccess, ev.Output, ev.At)
	default:
		return unknownKind(ev.Vote.Kind, "use approve, reject or respond")
	}
}

func unknownKind(k ResponseKind, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "submit_response", What: "unknown kind of response " + string(k), Hint: hint}
}

// applyVote applies a response that leaves the approval request open.
func (m *Machine) applyVote(ev Voted) error {
	c := m.call
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	c.Votes = appendVote(c.Votes, ev.Vote)
	switch ev.Vote.Kind {
	case ResponseApprove: // c.Tally may agree: the engine knows which signatures no longer count
		return m.move(CauseVote)
	case ResponseSkip:
		return m.move(CauseSkip)
	case ResponseDelegate:
		return m.move(CauseDelegate)
	default:
		return unknownKind(ev.Vote.Kind, "use approve, skip or delegate")
	}
}

// applyEscalation records how far the approval request's plan has come. It never goes
// back.
func (m *Machine) applyEscalation(ev Escalated) error {
	c := m.call
	if c.State != asking {
		return stateError(c, CauseEscalate)
	}
	if c.Request == nil || ev.Step <= c.Step || ev.Step > len(c.Request.Requirement.Plan()) {
		return &message.Error{Code: message.CodeInternal, Op: "escalate", What: "the plan of the approval request has no such next step", Hint: "read the call again"}
	}
	c.Step = ev.Step
	return m.move(CauseEscalate)
}

func (m *Machine) applyEdit(ev Edited) error {
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	vote := ev.Vote
	vote.Edited = true
	m.call.Votes = appendVote(m.call.Votes, vote)
	m.call.Input, m.call.Remember = ev.Input, ev.Remember
	return m.move(CauseEdit)
}

// CheckRequest refuses a response that is not to the call's open approval request: the
// fence of every response.
func (m *Machine) CheckRequest(digest string) error {
	c := m.call
	if c.State != asking {
		err := stateError(c, CauseApprove)
		if v, ok := EndingVote(c); ok {
			err.What += fmt.Sprintf("; %s responded first: %s", v.By.Name, v.Kind)
		}
		return err
	}
	if digest != c.Digest {
		return &message.Error{Code: message.CodeDigest, Op: "submit_response", Call: ErrorCall(c),
			What: "this approval request changed after you opened it",
			Hint: "look at the current approval request and respond to that one"}
	}
	return nil
}

// appendVote never writes into a slice that it shares with another copy of the call.
func appendVote(votes []Vote, v Vote) []Vote {
	return append(append([]Vote(nil), votes...), v)
}
