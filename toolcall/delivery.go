package toolcall

import (
	"context"
	"time"
)

// Delivery is one event record on its way to one destination outside of askance. It is
// declared here for the same reason as [Sink]: who hands it out and who brings
// it to its destination are packages that do not know each other.
type Delivery struct {
	Record JournalEntry
	// Attempt is how often the event record has been handed out, this time included.
	Attempt int
	// Done resolves it for good. On an error the event record comes again.
	Done func(context.Context) error
	// Again asks for the event record once more, after a pause. On an error it comes
	// again in any case.
	Again func(pause time.Duration) error
}

// DeadLetter is a delivery that was given up: a dead letter.
type DeadLetter struct {
	Destination string    `json:"destination"`
	Seq         uint64    `json:"seq"` // of the event record
	Attempts    int       `json:"attempts"`
	Error       string    `json:"error"` // of the last attempt
	At          time.Time `json:"at"`    // when it was given up
}

// Sink receives the records of a journal that is being watched. It is declared
// here, and not where it is used, because the journal's interface and its
// implementation in another package must name the same type.
type Sink interface {
	// Record is called for every record, the invalid ones too.
	Record(r JournalEntry)
	// CaughtUp is called once, when everything that was in the journal as Watch
	// began has been delivered.
	CaughtUp()
}

// ChoosySink is a Sink that can do without some records. A wrapper of a Sink
// need not pass it on.
type ChoosySink interface {
	Sink
	// Wants is asked before a record is read. id is the Event record.ID that its header
	// claims ("" for events), stored is when the server stored it. False means that
	// the sink is writing, or has written, the event record itself: it is neither decoded
	// nor delivered, and counts as seen.
	Wants(seq uint64, id string, stored time.Time) bool
}
