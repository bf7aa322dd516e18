package message

// Sink receives the records of a journal that is being watched. It is declared
// here, and not where it is used, because the journal's interface and its
// implementation in another package must name the same type.
type Sink interface {
	// Record is called for every record, the invalid ones too.
	Record(r Record)
	// CaughtUp is called once, when everything that was in the journal as Watch
	// began has been delivered.
	CaughtUp()
}
