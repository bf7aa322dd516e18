package agui

import "github.com/askance-dev/askance/message"

// The codes that this package puts on RUN_ERROR. AG-UI leaves the code open.
const (
	CodeCancelled        = "cancelled"         // to peers before 1.0: the run was stopped on purpose
	CodeExceedMaxIters   = "exceed_max_iters"  // to peers before 1.0: the agent's limit of rounds
	CodeNotParked        = "not_parked"        // the run was ended while its reply went on
	CodeInterruptPending = "interrupt_pending" // the thread waits for answers and the run brings none
	CodeResumeIncomplete = "resume_incomplete" // an open interrupt has no entry
	CodeResumeConflict   = "resume_conflict"   // two entries for one interrupt disagree
	CodePayloadInvalid   = "payload_invalid"   // an answer that the question does not allow
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
