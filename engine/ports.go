package engine

import (
	"context"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Journal is the one durable store: an ordered log of event records and streamed
// events. NewMemory in this package and bus.Journal on JetStream implement
// it; engine/journaltest holds both to the same contract. All methods may be
// called from many goroutines at once.
type Journal interface {
	// Append stores f as the next event record of its entity (f.Key()) if the entity's last
	// event record has sequence prev (0: the entity is empty), and returns its sequence.
	// It returns only when the event record is durable as the journal's Durability says.
	// It sets f.Prev, the link to the event record before.
	//
	// Errors: ErrConflict (message) when the entity has moved on, nothing was
	// written; ErrFull, ErrTooLarge, ErrUnavailable: nothing was written;
	// ErrUnknownOutcome: it cannot be told whether it was (the caller reads the
	// entity's last event record and compares its ID; with toolcall.ErrUnsynced that
	// proves nothing).
	Append(ctx context.Context, f *toolcall.EventRecord, prev uint64) (uint64, error)
	// Last reads an entity's last event record from the journal itself, never from a
	// lagging copy. ErrNotFound when the entity is empty.
	Last(ctx context.Context, key toolcall.Key) (toolcall.JournalEntry, error)
	// History reads all event records of one entity, oldest first.
	History(ctx context.Context, key toolcall.Key) ([]toolcall.JournalEntry, error)
	// AppendEvent stores streamed events of a runtime, in order, without
	// compare-and-swap, and returns the last one's sequence. On an error some of
	// them may be stored; the very same event sent again may be stored once.
	AppendEvent(ctx context.Context, runtime string, reply toolcall.Key, events []message.RawJSON) (uint64, error)
	// Read returns up to limit records of a session (event records of all its entities and
	// events) with sequences above after, in order. last is the sequence up to
	// which the journal was looked through: the cursor to go on from.
	Read(ctx context.Context, session toolcall.Key, after uint64, limit int) (records []toolcall.JournalEntry, last uint64, err error)
	// CountCalls counts the calls of a reply: every one whose first event record has a
	// sequence up to through, and maybe later ones.
	CountCalls(ctx context.Context, reply toolcall.Key) (calls int, through uint64, err error)
	// Watch delivers every record with a sequence above after to sink, in order
	// and from one goroutine, first the past, then what comes. It returns when
	// ctx ends (with its cause) or the journal cannot go on; it survives
	// reconnects on its own and never leaves a gap.
	Watch(ctx context.Context, after uint64, sink Sink) error
	// EnsureQueue prepares what workers of a queue need to receive tasks,
	// before the first is submitted. Idempotent and cheap after the first time.
	EnsureQueue(ctx context.Context, queue toolcall.Queue) error
	// Durability names what Append's return means: memory, cached, fsynced or
	// quorum.
	Durability() string
}

// Snapshots keep what an engine knew of its journal at one sequence, so that the next
// one reads only what was written later. A snapshot names records and repeats none: what
// an engine decides by comes from the journal.
type Snapshots interface {
	// Load reads the newest snapshot that is certainly of this journal; nil: there is
	// none. An error says why one cannot be used.
	Load(ctx context.Context) ([]byte, error)
	// Save replaces the snapshot by one that was taken at seq.
	Save(ctx context.Context, seq uint64, snapshot []byte) error
	// ReadRecords reads what the journal has at these sequences, which are in order. An
	// archived record has Invalid with CodeArchived.
	ReadRecords(ctx context.Context, seqs []uint64) ([]toolcall.JournalEntry, error)
	// Check reads the journal through a sequence, slowly. It ends a journal that has lost
	// records, and returns CodeDamaged.
	Check(ctx context.Context, through uint64) error
}

// Sink receives records from Watch.
type Sink = toolcall.Sink

// Signals are best-effort messages outside the journal. Losing one costs time,
// never correctness: a reader who needs the truth reads the journal.
type Signals interface {
	// Hint says that an approval request opened, changed or closed.
	Hint(c *toolcall.Call)
	// Cancel asks a worker to stop an attempt before its next heartbeat says so.
	Cancel(queue toolcall.Queue, worker string, r toolcall.HeartbeatRequest, reason string)
	// Beat tells other replicas that this engine's local attempt is alive.
	Beat(tool, engine string, r toolcall.HeartbeatRequest)
	// Progress passes a worker's progress line on to those who watch.
	Progress(c *toolcall.Call, p toolcall.ProgressRequest)
}

// Executor runs local calls: Go functions in the process of the engine.
type Executor interface {
	// Has reports whether the tool can run here.
	Has(tool string) bool
	// Run runs one attempt and returns its result. It must return soon after ctx
	// ends. progress may be called from any goroutine until Run returns.
	Run(ctx context.Context, inv toolcall.Invocation, progress func(text string)) message.ToolResultBlock
}

// Client is what a runtime, an approver's surface or an operator works with.
// Engine.As gives it in process, bus.Client from another process; both behave
// alike.
type Client = api.Client

// WorkerClient is the engine's side of the worker protocol. Engine.As gives
// it in process; over NATS the requests of executor's Transport arrive here.
type WorkerClient interface {
	Start(ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error)
	Heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error)
	Progress(ctx context.Context, r toolcall.ProgressRequest) error
	Result(ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error)
}
