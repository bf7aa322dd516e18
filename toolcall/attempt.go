package toolcall

import (
	"time"

	"github.com/askance-dev/askance/message"
)

// attempt takes the events that concern running the call. The attempt's number
// is the fence: an event that names another one is refused as superseded.
func (m *Machine) attempt(ev Event) error {
	c := m.call
	switch ev := ev.(type) {
	case Submitted:
		c.Attempt = ev.Attempt
		return m.move(CauseSubmit)
	case Started:
		return m.started(ev)
	case Offered:
		return m.offered(ev)
	case Lost:
		if err := m.fence(CauseLose, ev.Attempt); err != nil {
			return err
		}
		c.RetryAt = ev.RetryAt
		return m.move(CauseLose)
	case Returned:
		return m.returned(ev)
	case Suspended:
		if err := m.fence(CauseSuspend, ev.Attempt); err != nil {
			return err
		}
		c.Blocked, c.RetryAt = ev.Blocked, time.Time{}
		return m.move(CauseSuspend)
	case Resulted:
		return m.resulted(ev)
	case Resolved:
		return m.settled(ev)
	default:
		return &message.Error{Code: message.CodeInternal, Op: "step", What: "unknown event"}
	}
}

func (m *Machine) fence(cause Cause, number int) error {
	if m.call.State == finished {
		return wrongState(m.call.Clone(), cause)
	}
	if number != m.call.Attempt.Number {
		return superseded(m.call.Clone(), cause, "another attempt is the present one")
	}
	return nil
}

// started binds the attempt. The first local start makes attempt 1 itself:
// nothing was offered to anybody.
func (m *Machine) started(ev Started) error {
	c := m.call
	if c.State == allowed && c.Attempt.Number == 0 && ev.Attempt == 1 {
		c.Attempt = Attempt{Number: 1, OfferedAt: ev.At}
	}
	if err := m.fence(CauseStart, ev.Attempt); err != nil {
		return err
	}
	switch {
	case c.Started():
		return superseded(c.Clone(), CauseStart, "the attempt has an owner")
	case c.Blocked != NotBlocked:
		return superseded(c.Clone(), CauseStart, "the call waits for a person to resolve it")
	case !c.RetryAt.IsZero():
		return superseded(c.Clone(), CauseStart, "the attempt was given up")
	case ev.Claim == "" || ev.Worker == "":
		return &message.Error{Code: message.CodeInvalid, Op: "start", What: "worker or claim is empty"}
	}
	c.Attempt.Worker, c.Attempt.Claim, c.Attempt.StartedAt = ev.Worker, ev.Claim, ev.At
	c.Attempt.LeaseMS, c.Attempt.Deadline = ev.LeaseMS, ev.Deadline
	c.Begun++
	return m.move(CauseStart)
}

func (m *Machine) offered(ev Offered) error {
	c := m.call
	switch {
	case ev.Attempt.Number == c.Attempt.Number && c.Started():
		return superseded(c.Clone(), CauseOffer, "the attempt has an owner")
	case ev.Attempt.Number == c.Attempt.Number && !c.RetryAt.IsZero():
		return superseded(c.Clone(), CauseOffer, "the attempt was given up")
	case ev.Attempt.Number != c.Attempt.Number && ev.Attempt.Number != c.Attempt.Number+1:
		return superseded(c.Clone(), CauseOffer, "attempts are counted one by one")
	case ev.Attempt.Number == c.Attempt.Number+1 && c.RetryAt.IsZero() && c.Blocked == NotBlocked:
		return superseded(c.Clone(), CauseOffer, "the present attempt has not been given up")
	}
	c.Attempt, c.RetryAt, c.Blocked = ev.Attempt, time.Time{}, NotBlocked
	return m.move(CauseOffer)
}

// returned takes the owner from an attempt that never began, also while the
// call is blocked: only its owner knows that nothing happened.
func (m *Machine) returned(ev Returned) error {
	c := m.call
	if err := m.fence(CauseReturn, ev.Attempt); err != nil {
		return err
	}
	if !c.Started() || ev.Claim != c.Attempt.Claim {
		return superseded(c.Clone(), CauseReturn, "the attempt is not the owner's to give back")
	}
	c.Blocked, c.RetryAt = NotBlocked, ev.RetryAt
	c.Begun--
	c.Attempt.Worker, c.Attempt.Claim, c.Attempt.StartedAt = "", "", time.Time{}
	c.Attempt.LeaseMS, c.Attempt.Deadline = 0, time.Time{}
	return m.move(CauseReturn)
}

// resulted accepts the result of the present attempt from its owner, also
// while the call is blocked: the owner knows better than any guess.
func (m *Machine) resulted(ev Resulted) error {
	c := m.call
	if err := m.fence(CauseResult, ev.Attempt); err != nil {
		return err
	}
	if c.Placement != PlaceExternal && (!c.Started() || ev.Claim != c.Attempt.Claim) {
		return superseded(c.Clone(), CauseResult, "the result is not the owner's")
	}
	if err := m.move(CauseResult); err != nil {
		return err
	}
	r := ev.Result
	c.ResultDigest = ev.Digest
	m.done(&r)
	return nil
}

func (m *Machine) settled(ev Resolved) error {
	c := m.call
	if err := m.fence(CauseResolve, ev.Attempt); err != nil {
		return err
	}
	if c.Blocked == NotBlocked {
		return &message.Error{Code: message.CodeState, Op: "resolve", Call: ErrorCall(c),
			What: "the call does not wait to be resolved", Hint: "only blocked calls are resolved: list them with --blocked"}
	}
	if err := m.move(CauseResolve); err != nil {
		return err
	}
	r := ev.Result
	m.done(&r)
	return nil
}
