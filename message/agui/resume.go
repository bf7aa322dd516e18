package agui

import (
	"bytes"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// Thread is what the server knows of a thread's interrupts. It is the server's
// own record: what a client says of them is never believed.
type Thread struct {
	// Open are the interrupts of the latest interrupted run that wait for an
	// answer.
	Open []Interrupt
	// Resolved are those that have one, by id, with the first decision: by an
	// earlier run, or by another surface in the words of an entry. An interrupt
	// that is in both is resolved.
	Settled map[string]ResumeEntry
}

// Resumption is what a run's resume entries come to.
type Resumption struct {
	Answers   []Response    // one for each open interrupt, in the order of Thread.Open
	Replayed  []ResumeEntry // said again what was decided: answer from the record
	Overtaken []ResumeEntry // said otherwise than was decided: the first decision stands, tell the client so
	Strays    []ResumeEntry // for interrupts that the thread never had: no effect, worth an audit
}

// Resume checks a run's entries against the thread. The error is a *[RefusalError]:
//
//   - without entries a thread with open interrupts takes no run;
//   - every open interrupt has an entry, and two for one agree;
//   - past its expiry an interrupt can be cancelled, not resolved; now, the
//     server's clock, decides;
//   - an answer is one that its approval request allows, see [Answer].
//
// An entry for a resolved or an unknown interrupt has no effect.
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
		return Response{}, &RefusalError{CodeInterruptPending, i.ID, "the thread waits for an answer, and the run brings none"}
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

// isExpired: a time that cannot be read has passed. The server wrote it, so
// something is wrong.
func isExpired(i Interrupt, now time.Time) bool {
	if i.ExpiresAt == nil {
		return false
	}
	at, err := time.Parse(time.RFC3339, *i.ExpiresAt)
	return err != nil || !now.Before(at)
}

// sameResponse compares status and payload as values.
func sameResponse(a, b ResumeEntry) bool {
	return a.Status == b.Status && sameValue(a.Payload, b.Payload)
}

func sameValue(a, b message.RawJSON) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	x, errX := jcs.Canonicalize(a)
	y, errY := jcs.Canonicalize(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// The codes that this package puts on RUN_ERROR. AG-UI leaves the code open.
const (
	CodeCancelled        = "cancelled"         // to peers before 1.0: the run was stopped on purpose
	CodeExceedMaxIters   = "exceed_max_iters"  // to peers before 1.0: the agent's limit of rounds
	CodeNotParked        = "not_parked"        // the run was ended while its reply went on
	CodeInterruptPending = "interrupt_pending" // the thread waits for answers and the run brings none
	CodeResumeIncomplete = "resume_incomplete" // an open interrupt has no entry
	CodeResumeConflict   = "resume_conflict"   // two entries for one interrupt disagree
	CodePayloadInvalid   = "payload_invalid"   // an answer that the approval request does not allow
	CodeInterruptExpired = "interrupt_expired" // an answer after the deadline
)

// RefusalError is why a run that should resume does not begin. Nothing of it may be
// executed, and every interrupt stays open.
type RefusalError struct {
	Code      string // one of the codes above, from CodeInterruptPending on
	Interrupt string // the id that it is about
	What      string
}

// Error gives the fault and the interrupt.
func (r *RefusalError) Error() string {
	return "resume AG-UI run: interrupt " + r.Interrupt + ": " + r.What
}

// Is makes a refusal match [message.ErrInvalid].
func (r *RefusalError) Is(target error) bool { return target == error(message.ErrInvalid) }

// Event is the refusal as the one event of a run that never starts. A client
// that gets it keeps its interrupts and can try again.
func (r *RefusalError) Event() *RunError {
	return &RunError{Message: r.Error(), Code: new(r.Code)}
}
