package message

import "time"

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

// ChoosySink is a Sink that can do without some records. Whoever wraps a Sink
// need not pass it on.
type ChoosySink interface {
	Sink
	// Wants is asked before a record is read. id is the Event record.ID that its header
	// claims ("" for events), stored is when the server stored it. False means that
	// the sink is writing, or has written, the event record itself: it is neither decoded
	// nor delivered, and counts as seen.
	Wants(seq uint64, id string, stored time.Time) bool
}
