package toolcall

import (
	"errors"
	"time"

	"github.com/askance-dev/askance/message"
)

// RecordVersion is the version of whole event records, as workers get them. Journals store
// those of calls in the form of [StoredVersion]; no program reads version 1.
const RecordVersion = 2

// Step is one transition of the state machine in an event record. From is empty for the
// first.
type Step struct {
	Cause string                `json:"cause"`
	From  message.ToolCallState `json:"from"`
	To    message.ToolCallState `json:"to"`
}

// ErrUnsynced is wrapped in the error of a journal that has stored an event record, but
// perhaps not on disk yet: nothing may happen because of it.
var ErrUnsynced = errors.New("the event record is stored, but perhaps not on disk yet")

// EventRecord is one durable record of the journal: one transition of one entity, with
// everything needed to continue from it. Exactly one of Call, Reply, Session, Standing and
// Budget is set. A Note comes with a Call that it leaves unchanged.
type EventRecord struct {
	V  int    `json:"v"`
	ID string `json:"id"` // unique; a retry after a lost acknowledgement has the same
	// Path lists the call's transitions: usually one, or several that became durable
	// together (proposed, allowed and submitted at once).
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
	// End is the REPLY_END with which a runtime completed the reply.
	End message.RawJSON `json:"end,omitzero"`
	// Explanation is how the policy came to the decision in this event record, if rules
	// want it recorded: the output of askance policy explain --json without what rules
	// redact, and with truncated: true if it was too large. Workers do not get it.
	Explanation message.RawJSON `json:"explanation,omitzero"`
	// Prev links to the entity's event record before this one. The journal sets it when it
	// stores the event record; event records of the first releases have none.
	Prev *Link `json:"prev,omitzero"`
}

// Link identifies the event record before in the same entity: see package message/proof for
// the hash.
type Link struct {
	Seq  uint64 `json:"seq"`           // of the record before; 0 if this is the entity's first
	Hash string `json:"hash,omitzero"` // of the record before as it was stored, "sha256:…"
}

// Kind is the event record's short name: the cause of its last step, "note", the phase of a
// reply, or what happened to a session, standing approval or budget. It is sent as a header.
func (r *EventRecord) Kind() string {
	switch {
	case r.Note != nil:
		return "note"
	case r.End != nil:
		return "reply_completed"
	case r.Reply != nil:
		return "reply_" + string(r.Reply.Phase)
	case r.Session != nil:
		return "session"
	case r.Standing != nil && r.Standing.Revoked != nil:
		return "standing_revoke"
	case r.Standing != nil:
		return "standing_use"
	case r.Budget != nil && r.Budget.Use != nil:
		return "budget_use"
	case r.Budget != nil:
		return "budget"
	case len(r.Path) > 0:
		return r.Path[len(r.Path)-1].Cause
	}
	return ""
}

// Key is the entity that the event record belongs to.
func (r *EventRecord) Key() Key {
	switch {
	case r.Call != nil:
		return r.Call.Key
	case r.Reply != nil:
		return r.Reply.Key
	case r.Session != nil:
		return r.Session.Key
	case r.Standing != nil:
		return r.Standing.Key()
	case r.Budget != nil:
		return r.Budget.Key()
	}
	return Key{}
}

// WorkQueue is the queue to whose workers the event record is offered, or the zero Queue if
// it is not a task: the submitted event record of a remote attempt is the task.
func (r *EventRecord) WorkQueue() Queue {
	c := r.Call
	if c == nil || r.Note != nil || c.Placement != PlaceRemote || c.Phase() != PhaseQueued {
		return Queue{}
	}
	return c.Queue()
}

// Note records something that changed nothing, such as a late result.
type Note struct {
	What    string                   `json:"what"` // e.g. "late_result"
	Attempt int                      `json:"attempt,omitzero"`
	Result  *message.ToolResultBlock `json:"result,omitzero"`
	Text    string                   `json:"text,omitzero"`
}

// ReplyPhase is the phase of a reply's own entity.
type ReplyPhase string

// Over reports whether the reply has its REPLY_END, or will get it from an interrupt.
func (s *ReplyState) Over() bool { return s.Completed || s.Phase != ReplyOpen }

// The phases of a reply. A reply without event records of its own is open.
const (
	ReplyOpen        ReplyPhase = "open"
	ReplyInterrupted ReplyPhase = "interrupted" // none of its calls may begin
	ReplyEnded       ReplyPhase = "ended"       // all calls that were open at the interrupt are closed
)

// ReplyState is the full state of a reply's own entity.
type ReplyState struct {
	Key
	Phase   ReplyPhase      `json:"phase"`
	Batches message.RawJSON `json:"batches,omitzero"` // in older records; unused
	Reason  string          `json:"reason,omitzero"`  // of the interrupt
	// Completed is set if the runtime ended the reply before any interrupt. A later interrupt
	// can only close calls.
	Completed bool `json:"completed,omitzero"`
}

// SessionState binds a session to the runtime that first used it.
type SessionState struct {
	Key
	Runtime string `json:"runtime"`
	// Tools are the definitions that the runtime declared, in order of declaration.
	Tools []*DeclaredTool `json:"tools,omitzero"`
}

// JournalEntry is one entry of the journal as a reader gets it: an event record, or an
// event that a runtime streamed. The two share one sequence, so entries come in the order
// in which things happened.
type JournalEntry struct {
	Seq  uint64
	Time time.Time // when the journal stored it
	Key  Key       // the entity of an event record; session and reply of a streamed event
	// Record is set for event records.
	Record *EventRecord
	// Event is the raw JSON of a streamed AgentScope event, and Runtime its sender.
	Event   []byte
	Runtime string
	// Invalid says why the entry must not be trusted (no valid MAC, malformed, a foreign
	// subject): readers report it and continue.
	Invalid error
}
