package agui

// The codes that this package puts on RUN_ERROR. AG-UI leaves the code open.
const (
	CodeCancelled        = "cancelled"         // to peers before 1.0: the run was stopped on purpose
	CodeExceedMaxIters   = "exceed_max_iters"  // to peers before 1.0: the agent's limit of rounds
	CodeInterruptPending = "interrupt_pending" // the thread waits for answers and the run brings none
	CodeResumeIncomplete = "resume_incomplete" // an open interrupt has no entry
	CodeResumeConflict   = "resume_conflict"   // two entries for one interrupt disagree
	CodePayloadInvalid   = "payload_invalid"   // an answer that the question does not allow
	CodeInterruptExpired = "interrupt_expired" // an answer after the deadline
	CodeNotParked        = "not_parked"        // the run was ended while its reply went on
)
