package engine

import (
	"context"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Journal is the one durable store: an ordered log of event records and streamed events.
// NewMemory in this package and journal.Journal on JetStream implement it, and
// engine/journaltest tests both against the same contract. All methods may be called from
// many goroutines at once.
type Journal interface {
	// Append stores rec as the next event record of its entity (rec.Key()) if the entity's last
	// event record has sequence prev (0 if the entity is empty), and returns its sequence.
	// It returns only once the event record is as durable as Durability states.
	// It sets rec.Prev, the link to the event record before.
	//
	// Errors: ErrConflict (message) if the entity has changed, and nothing was written;
	// ErrFull, ErrTooLarge, ErrUnavailable: nothing was written; ErrUnknownOutcome: the
	// record may have been written (the caller reads the entity's last event record and
	// compares its ID; with toolcall.ErrUnsynced even that proves nothing).
	Append(ctx context.Context, rec *toolcall.EventRecord, prev uint64) (uint64, error)
	// Last reads an entity's last event record from the journal itself, never from a
	// lagging copy. It returns ErrNotFound if the entity is empty.
	Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error)
	// History reads all event records of one entity, oldest first.
	History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error)
	// AppendEvent stores streamed events of a runtime, in order, without compare-and-swap,
	// and returns the sequence of the last one. On an error some of them may be stored. If
	// the identical event is sent again, it may be stored only once.
	AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error)
	// Read returns up to limit records of a session (event records of all its entities,
	// and streamed events) with sequences above after, in order. last is the sequence up
	// to which the journal was searched, the cursor to continue from.
	Read(ctx context.Context, session toolcall.Key, after uint64, limit int) (records []toolcall.JournalEntry, last uint64, err error)
	// CountCalls counts the calls of a reply: all whose first event record has a sequence up
	// to through, and possibly later ones.
	CountCalls(ctx context.Context, reply toolcall.Key) (calls int, through uint64, err error)
	// Watch delivers every record with a sequence above after to sink, in order and from
	// one goroutine: first past records, then new ones. It returns when ctx ends (with its
	// cause) or the journal fails. It reconnects on its own and never leaves a gap.
	Watch(ctx context.Context, after uint64, sink Sink) error
	// EnsureQueue prepares what workers of a queue need to receive tasks, before the first
	// is submitted. It is idempotent, and cheap after the first time.
	EnsureQueue(ctx context.Context, queue toolcall.Queue) error
	// Durability describes what has happened when Append returns: memory, cached,
	// fsynced or quorum.
	Durability() string
}

// AssumingJournal is a Journal that may not know its durability, or what it had before.
type AssumingJournal interface {
	// WhyAssumed returns why Durability is only assumed, or "" if it is not.
	WhyAssumed() string
	// HasNewAnchor reports whether the journal had records but no anchor when it was opened.
	HasNewAnchor() bool
}

// Snapshots stores what an engine knew of its journal at one sequence, so that the next
// engine reads only what was written later. A snapshot names records but does not repeat
// them: decisions are based on the journal.
type Snapshots interface {
	// Load reads the newest snapshot that certainly belongs to this journal, or nil if there
	// is none. An error says why a snapshot cannot be used.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the snapshot with one that was taken at seq.
	Save(ctx context.Context, seq uint64, snapshot []byte) error
	// ReadRecords reads the records at these sequences, which are in order. An archived
	// record has Invalid with CodeArchived.
	ReadRecords(ctx context.Context, seqs []uint64) ([]toolcall.JournalEntry, error)
	// Check slowly reads the journal up to a sequence. If the journal has lost records,
	// Check ends it and returns CodeDamaged.
	Check(ctx context.Context, through uint64) error
}

// Sink receives records from Watch.
type Sink = toolcall.Sink

// Signals are best-effort messages outside the journal. Losing one costs time, never
// correctness: a reader who needs certainty reads the journal.
type Signals interface {
	// Hint announces that an approval request opened, changed or closed, or that its call finished.
	Hint(c *toolcall.Call)
	// Cancel asks a worker to stop an attempt before its next heartbeat would tell it.
	Cancel(queue toolcall.Queue, worker string, r toolcall.HeartbeatRequest, reason string)
	// Beat tells other replicas that this engine's local attempt is alive.
	Beat(queue toolcall.Queue, engine string, r toolcall.HeartbeatRequest)
	// Progress forwards a worker's progress line to watchers.
	Progress(c *toolcall.Call, p toolcall.ProgressRequest)
}

// Executor runs local calls: Go functions in the process of the engine.
type Executor interface {
	// Has reports whether the tool can run here.
	Has(tool string) bool
	// Run runs one attempt and returns its result. It must return soon after ctx
	// ends. progress may be called from any goroutine until Run returns. The engine sets the id
	// and name of the result.
	Run(ctx context.Context, inv toolcall.Invocation, progress func(text string)) message.ToolResultBlock
}

// Client is what a runtime, an approver's surface or an operator works with. Engine.As
// returns one in process, bus.Client one for another process; both behave alike.
type Client = api.Client
