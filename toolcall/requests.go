package toolcall

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// The requests and replies of askance's own protocol, the same in Go and as JSON on NATS.
// Unknown members are refused. V is 1; 0 counts as 1.

// Limits on input from outside. Larger input is refused before anything is written.
const (
	MaxInputBytes     = 256 << 10 // a call's arguments
	MaxOutputBytes    = 512 << 10 // a result; larger outputs belong in an object store
	MaxTextBytes      = 16 << 10  // feedback, notes, reasons, progress lines
	MaxCwdBytes       = 4 << 10   // a working folder
	MaxNoteBytes      = 1 << 10   // a note of skip or delegate
	MaxVotesBytes     = 64 << 10  // all votes of a call, as JSON
	MaxCallsPerTurn   = 256       // calls in one proposal
	MaxRecordsPerCall = 1000
	MaxRequestBytes   = 768 << 10
	// NATS refuses payloads over 1 MiB by default; the largest event record (twice the
	// input, and a result) must be smaller.
)

// ProposeRequest submits the tool calls of one model turn, in the model's order. Proposing
// the same calls again is harmless and returns their state.
type ProposeRequest struct {
	V       int                     `json:"v,omitzero"`
	Session message.SessionID       `json:"session_id"`
	Reply   message.ReplyID         `json:"reply_id"`
	Agent   string                  `json:"agent,omitzero"`
	Calls   []message.ToolCallBlock `json:"tool_calls"`
	// Cwd is the folder in which the runtime runs these calls itself: an absolute path. Policies
	// read relative paths from it, and people see it. Without it the engine's folder counts.
	Cwd string `json:"cwd,omitzero"`
	// External names tools of these calls that the engine need not know, because the runtime
	// or its frontend runs them: the policy decides about such a call like any other, and
	// once it is allowed it waits for a Report. A tool that the engine runs elsewhere is
	// refused.
	External []string `json:"external_tools,omitzero"`
	// Tools defines tools that the runtime or its frontend runs, and makes them external like
	// External does. A definition holds for the session: later proposals need not repeat it.
	// A tool that the engine is configured with keeps the engine's definition.
	Tools []ToolDefinition `json:"tools,omitzero"`
	// Parent is the call within which these calls are made, such as the one that started a
	// sub-agent. It must belong to another reply.
	Parent *ParentKey `json:"parent,omitzero"`
}

// ProposeReply contains the current state of each proposed call, in order.
type ProposeReply struct {
	Calls []*Call `json:"calls"`
}

// Response responds to an open approval request. Digest identifies exactly what the approver saw.
type Response struct {
	V int `json:"v,omitzero"`
	Key
	// ID, if set, is the same when the same response is sent again: a response that is
	// already recorded is then answered with the current call. It is random, with at most
	// 128 bytes.
	ID     string       `json:"response_id,omitzero"`
	Digest string       `json:"digest"`
	Kind   ResponseKind `json:"kind"`
	// Input, with kind approve, replaces the arguments; the policy decides again.
	Input *string `json:"input,omitzero"`
	// Feedback, with kind reject, is shown to the model in the result text.
	Feedback string `json:"feedback,omitzero"`
	// Output, with kind respond, becomes the tool's result.
	Output string `json:"output,omitzero"`
	// Note, with kind skip or delegate, is for the people who respond next.
	Note string `json:"note,omitzero"`
	// To, with kind delegate, is the name of the person who should respond.
	To string `json:"to,omitzero"`
	// Signature, with kind approve and without input, is made with the approver's own key.
	Signature *ApproverSignature `json:"signature,omitzero"`
	// Rules are rules to remember for the session; only suggested ones are accepted and,
	// with input, only those that cover the edited call.
	Rules []message.PermissionRule `json:"rules,omitzero"`
	// Remember, with kind approve, remembers rules with terms: they are counted and limited,
	// and can be revoked. With input they are checked against the edited call.
	Remember *StandingTerms `json:"remember,omitzero"`
}

// InterruptRequest ends every open call of a reply.
type InterruptRequest struct {
	V       int               `json:"v,omitzero"`
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Reason  string            `json:"reason,omitzero"`
}

// InterruptReply lists the calls that the interrupt closed.
type InterruptReply struct {
	Calls []*Call `json:"calls"`
}

// Outcome is what an operator found out about a call.
type Outcome string

// The outcomes of resolving.
const (
	OutcomeHappened Outcome = "happened"       // the effect happened; Output is its result
	OutcomeDidNot   Outcome = "did_not_happen" // the effect did not happen; the call ends with an error
	OutcomeRunAgain Outcome = "run_again"      // offer the call again, as a new attempt
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{OutcomeHappened, OutcomeDidNot, OutcomeRunAgain} }

// ResolveRequest resolves a blocked call, or one that its runtime runs.
type ResolveRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int     `json:"attempt"` // the attempt to resolve, as a fence
	Outcome Outcome `json:"outcome"`
	Output  string  `json:"output,omitzero"`
	Note    string  `json:"note,omitzero"`
}

// RevokeRequest revokes an allowed call that has not been started.
type RevokeRequest struct {
	V int `json:"v,omitzero"`
	Key
	Reason string `json:"reason,omitzero"`
}

// BeginRequest takes an external call for the process that is about to run it.
type BeginRequest struct {
	V int `json:"v,omitzero"`
	Key
	// Claim is a random id of the process: only the first one may run the call. The same
	// request may be sent again.
	Claim string `json:"claim"`
}

// ReportRequest reports the result of an external call, or that its outcome is unknown.
type ReportRequest struct {
	V int `json:"v,omitzero"`
	Key
	Result message.ToolResultBlock `json:"result,omitzero"`
	// Unknown reports, instead of a result, that the runtime does not know whether the call
	// ran: an operator must resolve it, or the runtime reports a result after all.
	Unknown bool `json:"unknown,omitzero"`
	// Unasked reports a call that ran before it was decided: the agent's own prompt was
	// faster, or its hook failed. The call ends, and its record says so.
	Unasked bool `json:"unasked,omitzero"`
}

// ListRequest selects calls. Without All only open calls are listed. A call is listed if it
// meets every condition; for a list of values it has to match one of them.
type ListRequest struct {
	V       int                     `json:"v,omitzero"`
	Session message.SessionID       `json:"session_id,omitzero"`
	Reply   message.ReplyID         `json:"reply_id,omitzero"`
	Call    message.CallID          `json:"tool_call_id,omitzero"`
	Tool    string                  `json:"tool_name,omitzero"`
	Agent   string                  `json:"agent,omitzero"`
	States  []message.ToolCallState `json:"states,omitzero"`
	Phases  []Phase                 `json:"phases,omitzero"`
	All     bool                    `json:"all,omitzero"`   // include finished calls
	After   uint64                  `json:"after,omitzero"` // cursor: Next of the previous reply (a journal sequence)
	Limit   int                     `json:"limit,omitzero"` // default and maximum 500; a page of large calls ends earlier

	Tools    []string            `json:"tool_names,omitzero"`
	Agents   []string            `json:"agents,omitzero"`
	Sessions []message.SessionID `json:"session_ids,omitzero"`
	Rules    []string            `json:"rules,omitzero"` // the rule that decided
	// Words must all occur in the ids, tool, summary, input, agent, runtime or rule of the
	// call, or in the ids of its parent, as the reader may see them, ignoring case.
	Words string `json:"words,omitzero"`
	// Mine selects open approval requests to which the reader can respond and has not.
	Mine  bool      `json:"mine,omitzero"`
	Since time.Time `json:"since,omitzero"` // proposed at this time or later
	Until time.Time `json:"until,omitzero"` // proposed before this time
	// Sort is one of Sorts, reversed with "-" before it; "" means proposed.
	Sort string `json:"sort,omitzero"`
	// Cursor is the Cursor of the previous reply, to continue a list with Sort.
	Cursor string `json:"cursor,omitzero"`
	// Newest lists the calls that finished last first; only for finished calls.
	Newest bool `json:"newest,omitzero"`
	// By is a person who responded to the approval request.
	By string `json:"by,omitzero"`
	// Outcomes are the causes that ended finished calls, such as result, reject or expire.
	Outcomes []Cause `json:"outcomes,omitzero"`
	// Results are states of results, such as success or error.
	Results []message.ToolResultState `json:"result_states,omitzero"`
}

// The orders of a list. Calls without a value come last.
const (
	SortDeadline = "deadline" // the request that ends first comes first
	SortAge      = "age"      // the call that was proposed last comes first
	SortProposed = "proposed" // the call that was proposed first comes first
	SortTool     = "tool"
	SortAgent    = "agent"
	// SortChanged puts the call that changed first at the beginning. Continue with After set
	// to the sequence of the last known call, so that a list costs only what changed since.
	SortChanged = "changed"
)

// Sorts returns the orders of a list.
func Sorts() []string {
	return []string{SortDeadline, SortAge, SortProposed, SortTool, SortAgent, SortChanged}
}

// SortWords returns the orders of a list, and then each reversed.
func SortWords() []string {
	out := Sorts()
	for _, s := range Sorts() {
		out = append(out, "-"+s)
	}
	return out
}

// ListReply contains the listed calls, in the requested order.
type ListReply struct {
	Calls []*Call `json:"calls"`
	Next  uint64  `json:"next,omitzero"` // 0 at the end
	// Cursor continues a list with Sort; "" at the end.
	Cursor string `json:"cursor,omitzero"`
	// Counts are the numbers of calls in each phase that meet all conditions except the phase.
	// Only the first page has them, and only if the journal need not be read.
	Counts map[Phase]int `json:"counts,omitzero"`
	// Waiting says for each open approval request what it waits for. It is computed from
	// Calls: engines leave it out, and askance list --json adds it.
	Waiting []Waiting `json:"waiting,omitzero"`
}

// ShowRequest names one call.
type ShowRequest struct {
	V int `json:"v,omitzero"`
	Key
}

// ShowReply contains the call and its event records, oldest first.
type ShowReply struct {
	Call    *Call          `json:"call"`
	History []HistoryEntry `json:"history"`
	// Waiting says what the open approval request waits for, as in ListReply.
	Waiting *Waiting `json:"waiting,omitzero"`
	// Definition is what the runtime declared about the tool.
	Definition *DeclaredTool `json:"definition,omitzero"`
}

// HistoryEntry is one line of a call's history.
type HistoryEntry struct {
	Seq  uint64    `json:"seq"`
	Kind string    `json:"kind"`
	Path []Step    `json:"path,omitzero"`
	By   Principal `json:"by"`
	At   time.Time `json:"at"`
	Note *Note     `json:"note,omitzero"`
	// Attempt and Worker are those after the record.
	Attempt int    `json:"attempt,omitzero"`
	Worker  string `json:"worker,omitzero"`
}

// WaitUntil is the condition that a wait is for.
type WaitUntil string

// The conditions of a wait.
const (
	UntilFinished WaitUntil = "finished" // every call is finished
	UntilParked   WaitUntil = "parked"   // every call is finished, or waits for a person or an outside result
	UntilRunnable WaitUntil = "runnable" // every call is finished, or allowed for its runtime to run
)

// WaitRequest waits for calls of a reply. Without Calls it waits for all calls of the reply
// that have been proposed so far.
type WaitRequest struct {
	V         int               `json:"v,omitzero"`
	Session   message.SessionID `json:"session_id"`
	Reply     message.ReplyID   `json:"reply_id"`
	Calls     []message.CallID  `json:"tool_call_ids,omitzero"`
	Until     WaitUntil         `json:"until,omitzero"`      // default finished
	TimeoutMS int64             `json:"timeout_ms,omitzero"` // how long the engine holds the request; then the client asks again
}

// WaitReply contains the current state; Done says whether the wait is over.
type WaitReply struct {
	Calls []*Call `json:"calls"`
	Done  bool    `json:"done"`
}

// EmitRequest appends streamed events of a reply (text, thinking, model calls) to the
// journal. Runtimes cannot send CUSTOM events whose names begin with "askance.": see
// [EmitRequest.Foreign].
type EmitRequest struct {
	V       int               `json:"v,omitzero"`
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Events  []message.RawJSON `json:"events"`
}

// Foreign refuses a request that would write askance's own events ([message.IsOwnEvent]).
// Invalid events are left for the engine to refuse.
func (r EmitRequest) Foreign() error {
	for i, raw := range r.Events {
		if message.IsOwnEvent(raw) {
			return &message.Error{Code: message.CodeForbidden, Op: "emit", What: fmt.Sprintf("events[%d]: only askance writes CUSTOM events whose names begin with askance.", i), Hint: "choose another name"}
		}
	}
	return nil
}

// EmitReply contains the sequence of the last stored event.
type EmitReply struct {
	Seq uint64 `json:"seq"`
}

// EventsRequest reads a session's AgentScope events in journal order.
type EventsRequest struct {
	V       int               `json:"v,omitzero"`
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id,omitzero"`
	After   uint64            `json:"after,omitzero"`   // only events of records after this sequence
	Limit   int               `json:"limit,omitzero"`   // records, default and maximum 1000
	WaitMS  int64             `json:"wait_ms,omitzero"` // hold the request until there is something new
}

// SequencedEvent is an event with the sequence of the record from which it comes. Several
// events can have the same sequence.
type SequencedEvent struct {
	Seq   uint64          `json:"seq"`
	Event message.RawJSON `json:"event"`
}

// EventsReply contains events and the cursor to continue from.
type EventsReply struct {
	Events []SequencedEvent `json:"events"`
	Next   uint64           `json:"next"`
}

// InfoReply describes the engine that answers.
type InfoReply struct {
	Space      SpaceID `json:"space"`
	Engine     string  `json:"engine"`
	Version    string  `json:"version"`
	Durability string  `json:"durability"` // cached, fsynced, quorum or memory
	// DurabilityWhy is why the engine assumes the weakest durability, if the server and its
	// operator state none.
	DurabilityWhy string `json:"durability_why,omitzero"`
	// AnchorNew means that the journal had records but no anchor file when this engine started:
	// only checkpoints show an earlier loss.
	AnchorNew bool   `json:"anchor_new,omitzero"`
	Bundle    string `json:"bundle"` // the policy in force
	PolicyErr string `json:"policy_error,omitzero"`
	// NotReady is why the engine takes no new calls now, or "".
	NotReady string `json:"not_ready,omitzero"`
	// Clocks are the clocks of workers and the journal that differ from the engine's.
	Clocks  []ClockReading `json:"clocks,omitzero"`
	Open    int            `json:"open"` // open calls
	Blocked int            `json:"blocked"`
	// Returned counts the open calls that are not running because workers returned their
	// tasks.
	Returned int      `json:"returned,omitzero"`
	Tools    []string `json:"tools"`
}

// ClockReading says how a clock differs from that of the engine that answers.
type ClockReading struct {
	Who      string    `json:"who"`       // "worker NAME", or "journal" for the NATS server
	AheadMS  int64     `json:"ahead_ms"`  // negative: behind
	WithinMS int64     `json:"within_ms"` // accuracy of the measurement
	At       time.Time `json:"at"`        // when it was measured, by the engine's clock
}

// StartRequest claims the current attempt of a submitted call. The same claim sent again
// gets the same answer, so a lost reply does not strand the call.
type StartRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	// Request identifies this request: the signed reply repeats it, so no reply can answer
	// another request. It is random, with at most 128 bytes.
	Request string `json:"request,omitzero"`
	// Nonce is the nonce of the grant that the worker checked: a start that arrives after
	// the attempt was offered again with another grant is superseded.
	Nonce string `json:"grant_nonce,omitzero"`
	// Refuse, if set, says why the worker cannot run the call, such as an unknown engine
	// key. The call stays open: its task is returned and offered again.
	Refuse string `json:"refuse,omitzero"`
	// Task is the task that delivered the attempt: the engine removes it from the queue with
	// the reply. If that fails, the task is delivered again and its start is superseded.
	Task string `json:"task,omitzero"`
}

// NextTasksRequest asks for tasks of one queue, over HTTP.
type NextTasksRequest struct {
	V      int    `json:"v,omitzero"`
	Tool   string `json:"tool_name"`
	Route  string `json:"subject,omitzero"` // the subject to which rules route calls; the token must name it
	Limit  int    `json:"limit,omitzero"`   // default 1, maximum 64: ask only for tasks that can start at once
	WaitMS int64  `json:"wait_ms,omitzero"` // longest time to hold the request; default and maximum 30000
}

// NextTasksReply contains the tasks, or none if none came.
type NextTasksReply struct {
	Tasks []OfferedTask `json:"tasks"`
}

// OfferedTask is a task for a worker, which has 10 seconds to start it before the queue
// offers it again.
type OfferedTask struct {
	Task      string          `json:"task"`               // identifies it in an AckTaskRequest
	Delivered int             `json:"delivered,omitzero"` // how often it was delivered, including this time
	Record    message.RawJSON `json:"record"`             // the submitted event record, with the call and its grant
}

// AckTaskRequest removes a task from its queue after the start was answered, or returns it.
type AckTaskRequest struct {
	V       int    `json:"v,omitzero"`
	Tool    string `json:"tool_name"`
	Route   string `json:"subject,omitzero"`
	Task    string `json:"task"`
	Return  bool   `json:"return,omitzero"`   // offer it again
	DelayMS int64  `json:"delay_ms,omitzero"` // with return: offer it no earlier
}

// AckTaskReply confirms that the queue did it.
type AckTaskReply struct{}

// EngineKeysReply contains the engines' signing keys, oldest first.
type EngineKeysReply struct {
	Keys KeyRing `json:"keys"`
}

// HeartbeatRequest says that an attempt is alive. A worker that may not start an attempt
// because of its clock also sends one, but gets no lease.
type HeartbeatRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	// ClockMS is how far the worker's clock is ahead of the engines' (negative if behind),
	// measured from their replies; 0 if it is not known to differ.
	ClockMS       int64 `json:"clock_ms,omitzero"`
	ClockWithinMS int64 `json:"clock_within_ms,omitzero"` // accuracy of ClockMS
}

// HeartbeatReply tells the worker whether to continue. Stale means that another attempt or
// worker has replaced this one: stop, and do not expect the result to count.
type HeartbeatReply struct {
	Cancel bool   `json:"cancel,omitzero"`
	Reason string `json:"reason,omitzero"`
	Stale  bool   `json:"stale,omitzero"`
	// At is the engine's clock, against which the worker measures its own.
	At time.Time `json:"at,omitzero"`
}

// ProgressRequest sends a line of progress. Delivery is best effort; it is not stored.
type ProgressRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	N       int    `json:"n"` // 1, 2, … within the attempt
	Text    string `json:"text"`
}

// ProgressReply confirms that the line was forwarded.
type ProgressReply struct{}

// ResultRequest reports the result of an attempt; workers send it again until it is
// answered.
type ResultRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int                     `json:"attempt"`
	Claim   string                  `json:"claim"`
	Result  message.ToolResultBlock `json:"result,omitzero"`
	// NotBegun, if set, says why the owner never began to run the attempt and never will.
	// Result must then be empty: the call is offered as a new attempt.
	NotBegun string `json:"not_begun,omitzero"`
}

// ResultReply says that the result is durable (Stored), or that it came too late and was
// only recorded as a note.
type ResultReply struct {
	Stored bool                  `json:"stored"`
	State  message.ToolCallState `json:"state"`
}
