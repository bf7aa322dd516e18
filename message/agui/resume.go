package agui

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// Thread is what the server knows about a thread's interrupts. It comes from the server's
// own records: what a client says about them is never trusted.
type Thread struct {
	// Open are the interrupts of the latest interrupted run that wait for an answer.
	Open []Interrupt
	// Settled are the answered ones, by id, with the first decision: by an earlier run, or
	// by another surface, in the form of an entry. An interrupt that is in both is settled.
	Settled map[string]ResumeEntry
}

// Resumption is the result of checking a run's resume entries.
type Resumption struct {
	Answers   []Response    // one for each open interrupt, in the order of Thread.Open
	Replayed  []ResumeEntry // repeat the decision: answer from the record
	Overtaken []ResumeEntry // contradict the decision: the first one is final, so tell the client
	Strays    []ResumeEntry // for interrupts that the thread never had: no effect, but worth auditing
}

// Resume checks a run's entries against the thread. Its error is a *[RefusalError]:
//
//   - a thread with open interrupts accepts no run without entries;
//   - every open interrupt has an entry, and two entries for one agree;
//   - after its expiry, by the server's clock now, an interrupt can be cancelled but not
//     resolved;
//   - an answer is one that its approval request allows, see [Response].
//
// An entry for a settled or an unknown interrupt has no effect.
func (t Thread) Resume(entries []ResumeEntry, now time.Time) (*Resumption, error) {
	var out Resumption
	byID := map[string]ResumeEntry{}
	open := map[string]bool{}
	for _, i := range t.Open {
		open[i.ID] = true
	}
	for _, e := range entries {
		first, twice := byID[e.InterruptID]
		if twice && !sameResponse(first, e) {
			return nil, &RefusalError{CodeResumeConflict, e.InterruptID, "two entries disagree"}
		}
		if twice {
			continue
		}
		byID[e.InterruptID] = e
		decided, settled := t.Settled[e.InterruptID]
		switch {
		case settled && sameResponse(decided, e):
			out.Replayed = append(out.Replayed, e)
		case settled:
			out.Overtaken = append(out.Overtaken, e)
		case !open[e.InterruptID]:
			out.Strays = append(out.Strays, e)
		}
	}
	for _, i := range t.Open {
		if _, settled := t.Settled[i.ID]; settled {
			continue
		}
		a, err := answerTo(i, byID, now)
		if err != nil {
			return nil, err
		}
		out.Answers = append(out.Answers, a)
	}
	return &out, nil
}

// answerTo finds and checks the entry of an open interrupt.
func answerTo(i Interrupt, byID map[string]ResumeEntry, now time.Time) (Response, error) {
	e, ok := byID[i.ID]
	switch {
	case len(byID) == 0:
		return Response{}, &RefusalError{CodeInterruptPending, i.ID, "the thread waits for an answer, but the run has none"}
	case !ok:
		return Response{}, &RefusalError{CodeResumeIncomplete, i.ID, "it is open and has no entry"}
	case e.Status == ResumeResolved && isExpired(i, now):
		return Response{}, &RefusalError{CodeInterruptExpired, i.ID, fmt.Sprintf("it expired at %.40q; it can only be cancelled", *i.ExpiresAt)}
	}
	a, err := readAnswer(i, e)
	if err != nil {
		return Response{}, &RefusalError{CodePayloadInvalid, i.ID, err.Error()}
	}
	return a, nil
}

// isExpired reports whether an interrupt has expired. An invalid time counts as expired: the
// server wrote it, so something is wrong.
func isExpired(i Interrupt, now time.Time) bool {
	if i.ExpiresAt == nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, *i.ExpiresAt)
	return err != nil || !now.Before(at)
}

// sameResponse compares status and payload as values.
func sameResponse(a, b ResumeEntry) bool {
	return a.Status == b.Status && jcs.Equal(a.Payload, b.Payload)
}

// The codes that this package sets on RUN_ERROR. AG-UI does not define the code.
const (
	CodeCancelled        = "cancelled"         // to peers before 1.0: the run was stopped intentionally
	CodeExceedMaxIters   = "exceed_max_iters"  // to peers before 1.0: the agent's limit of rounds
	CodeNotParked        = "not_parked"        // the run was ended while its reply continued
	CodeInterruptPending = "interrupt_pending" // the thread waits for answers, but the run has none
	CodeResumeIncomplete = "resume_incomplete" // an open interrupt has no entry
	CodeResumeConflict   = "resume_conflict"   // two entries for one interrupt disagree
	CodePayloadInvalid   = "payload_invalid"   // an answer that the approval request does not allow
	CodeInterruptExpired = "interrupt_expired" // an answer after the deadline
)

// RefusalError is why a run that should resume does not start. Nothing of the run may be
// executed, and every interrupt stays open.
type RefusalError struct {
	Code      string // one of the codes above, from CodeInterruptPending on
	Interrupt string // the id of the interrupt
	What      string
}

// Error names the interrupt and the fault.
func (r *RefusalError) Error() string {
	return "resume AG-UI run: interrupt " + r.Interrupt + ": " + r.What
}

// Is makes a refusal match [message.ErrInvalid].
func (r *RefusalError) Is(target error) bool { return target == error(message.ErrInvalid) }

// Event returns the refusal as the only event of a run that never starts. A client that gets
// it keeps its interrupts and can try again.
func (r *RefusalError) Event() *RunError {
	return &RunError{Message: r.Error(), Code: new(r.Code)}
}
