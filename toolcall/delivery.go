package toolcall

import (
	"context"
	"time"
)

// Delivery is one event record on its way to one destination outside askance. It is
// declared here for the same reason as [Sink]: the package that hands it out and the one
// that takes it to its destination do not import each other.
type Delivery struct {
	Record JournalEntry
	// Attempt is how often the event record has been handed out, including this time.
	Attempt int
	// Done completes the delivery. On an error the event record is delivered again.
	Done func(context.Context) error
	// Again asks for the event record again after a pause. On an error it is delivered
	// again anyway.
	Again func(pause time.Duration) error
}

// DeadLetter is a delivery that was abandoned after its last attempt.
type DeadLetter struct {
	Destination string    `json:"destination"`
	Seq         uint64    `json:"seq"` // of the event record
	Attempts    int       `json:"attempts"`
	Error       string    `json:"error"` // of the last attempt
	At          time.Time `json:"at"`    // when it was abandoned
}

// Sink receives the records of a watched journal. It is declared here, and not where it
// is used, because the journal's interface and its implementation in another package must
// use the same type.
type Sink interface {
	// Record is called for every record, including invalid ones.
	Record(r JournalEntry)
	// CaughtUp is called once, when everything that was in the journal when Watch began has
	// been delivered.
	CaughtUp()
}

// ChoosySink is a Sink that can do without some records. A wrapper of a Sink need not
// implement it.
type ChoosySink interface {
	Sink
	// Wants is called before a record is read. id is the EventRecord.ID from its header ("" for
	// streamed events), stored is when the server stored it. False means that the sink is
	// writing, or has written, the event record itself: the record is neither decoded nor
	// delivered, and counts as seen.
	Wants(seq uint64, id string, stored time.Time) bool
}
