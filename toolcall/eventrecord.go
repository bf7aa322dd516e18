package toolcall

import (
	"errors"
	"time"

	"github.com/askance-dev/askance/message"
)

// RecordVersion is the version of whole event records, as workers get them. Journals
// keep those of calls in the form of [StoredVersion]; no program reads version 1.
const RecordVersion = 2

// Step is one arrow of the state machine that an event record took. From is empty for
// the first.
type Step struct {
	Cause string                `json:"cause"`
	From  message.ToolCallState `json:"from"`
	To    message.ToolCallState `json:"to"`
}

// ErrUnsynced is in the error of a journal that has an event record, perhaps not on the
// disk: nothing may happen because of it.
var ErrUnsynced = errors.New("the event record is stored, and perhaps not on the disk")

// EventRecord is one durable record of the journal: one transition of one entity, with
// everything that is needed to carry on from it. Exactly one of Call, Reply,
// Session, Standing and Budget is set; a Note goes with a Call that it leaves as it was.
type EventRecord struct {
	V  int    `json:"v"`
	ID string `json:"id"` // unique; a retry after a lost acknowledgement carries the same
	// Path is what the call's machine did: usually one step, several where they
	// became durable together (proposed, allowed and submitted at once).
	Path     []Step            `json:"path,omitzero"`
	By       Principal         `json:"by"`
	At       time.Time         `json:"at"`     // the engine's clock, UTC
	Engine   string            `json:"engine"` // which replica wrote it
	Call     *Call             `json:"call,omitzero"`
	Reply    *ReplyState       `json:"reply,omitzero"`
	Session  *SessionState     `json:"session,omitzero"`
	Standing *StandingApproval `json:"standing_approval,omitzero"`
	Budget   *BudgetState      `json:"budget,omitzero"`
	Note     *Note             `json:"note,omitzero"`
	// End is the REPLY_END with which a runtime completes the reply.
	End message.RawJSON `json:"end,omitzero"`
	// Explanation is how the policy came to the decision that this event record records,
	// where rules want that kept: what askance policy explain --json gives, less
	// what rules redact, with truncated: true where it was too large. Workers do
	// not get it.
	Explanation message.RawJSON `json:"explanation,omitzero"`
	// Prev says which event record of the entity this one follows. The journal sets it as
	// it stores the event record; event records of the first releases have none.
	Prev *Link `json:"prev,omitzero"`
}

// Link is how an event record holds on to the one before it in its entity: see package
// message/proof for the hash.
type Link struct {
	Seq  uint64 `json:"seq"`           // of the event record before; 0: this is the entity's first
	Hash string `json:"hash,omitzero"` // of the event record before as it was stored, "sha256:…"
}

// Kind is the event record's short name: the cause of its last step, "note", or
// the phase of a reply or session, or what became of a lease. It travels as a
// header.
func (f *EventRecord) Kind() string {
	switch {
	case f.Note != nil:
		return "note"
	case f.End != nil:
		return "reply_completed"
	case f.Reply != nil:
		return "reply_" + string(f.Reply.Phase)
	case f.Session != nil:
		return "session"
	case f.Standing != nil && f.Standing.Revoked != nil:
		return "standing_revoke"
	case f.Standing != nil:
		return "standing_use"
	case f.Budget != nil && f.Budget.Use != nil:
		return "budget_use"
	case f.Budget != nil:
		return "budget"
	case len(f.Path) > 0:
		return f.Path[len(f.Path)-1].Cause
	}
	return ""
}

// Key is the entity that the event record belongs to.
func (f *EventRecord) Key() Key {
	switch {
	case f.Call != nil:
		return f.Call.Key
	case f.Reply != nil:
		return f.Reply.Key
	case f.Session != nil:
		return f.Session.Key
	case f.Standing != nil:
		return f.Standing.Key()
	case f.Budget != nil:
		return f.Budget.Key()
	}
	return Key{}
}

// WorkQueue is the queue whose workers the event record is offered to, or none for an event record
// that is no task: the submitted event record of a remote attempt is the task.
func (f *EventRecord) WorkQueue() Queue {
	c := f.Call
	if c == nil || f.Note != nil || c.Placement != PlaceRemote || c.Phase() != PhaseQueued {
		return Queue{}
	}
	return c.Queue()
}

// Note records something that changed nothing: a late result, a stale attempt.
type Note struct {
	What    string                   `json:"what"` // e.g. "late_result"
	Attempt int                      `json:"attempt,omitzero"`
	Result  *message.ToolResultBlock `json:"result,omitzero"`
	Text    string                   `json:"text,omitzero"`
}

// ReplyPhase is where a reply's own entity stands.
type ReplyPhase string

// Over reports whether the reply has its REPLY_END, or gets it from an interrupt.
func (s *ReplyState) Over() bool { return s.Completed || s.Phase != ReplyOpen }

// The phases of a reply. A reply without event records of its own is open.
const (
	ReplyOpen        ReplyPhase = "open"
	ReplyInterrupted ReplyPhase = "interrupted" // no call of it may begin any more
	ReplyEnded       ReplyPhase = "ended"       // every call that was open at the interrupt is closed
)

// ReplyState is the full state of a reply's own entity.
type ReplyState struct {
	Key
	Phase   ReplyPhase      `json:"phase"`
	Batches message.RawJSON `json:"batches,omitzero"` // in older records, for nothing
	Reason  string          `json:"reason,omitzero"`  // of the interrupt
	// Completed: the runtime ended the reply before an interrupt did, which can
	// close only calls from now on.
	Completed bool `json:"completed,omitzero"`
}

// SessionState binds a session to the runtime that used it first.
type SessionState struct {
	Key
	Runtime string `json:"runtime"`
	// Tools are the definitions that the runtime declared, in the order in which they came.
	Tools []*DeclaredTool `json:"tools,omitzero"`
}

// JournalEntry is one entry of the journal as a reader gets it: an event record, or an event
// that a runtime streamed. The two share one sequence, so the order in which
// records come is the order in which things happened.
type JournalEntry struct {
	Seq  uint64
	Time time.Time // when the journal stored it
	Key  Key       // the entity of an event record; session and reply of an event
	// Event record is set for event records.
	Record *EventRecord
	// Event is the raw JSON of a streamed AgentScope event, Runtime its sender.
	Event   []byte
	Runtime string
	// Invalid says why the entry must not be believed (no valid MAC, malformed,
	// a foreign subject): readers report it and go on.
	Invalid error
}
