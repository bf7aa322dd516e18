package toolcall

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// The requests and replies of askance's own protocol, the same in Go and as
// JSON on NATS. Unknown members are refused. V is 1; 0 counts as 1.

// Limits on what comes from outside. Larger input is refused before anything
// is written.
const (
	MaxInputBytes     = 256 << 10 // a call's arguments
	MaxOutputBytes    = 512 << 10 // a result; larger outputs belong in an object store
	MaxTextBytes      = 16 << 10  // feedback, notes, reasons, progress lines
	MaxNoteBytes      = 1 << 10   // a note with which an approval request is left to others
	MaxVotesBytes     = 64 << 10  // all answers of a call that leave its approval request open, as JSON
	MaxCallsPerTurn   = 256       // calls in one proposal
	MaxRecordsPerCall = 1000
	MaxRequestBytes   = 768 << 10
	// NATS refuses payloads over 1 MiB by default; the largest event record (input twice
	// and a result) must stay under that.
)

// ProposeRequest hands over the tool calls of one model turn, in the model's
// order. Proposing the same calls again is harmless and returns their state.
type ProposeRequest struct {
	V       int                     `json:"v,omitzero"`
	Session message.SessionID       `json:"session_id"`
	Reply   message.ReplyID         `json:"reply_id"`
	Agent   string                  `json:"agent,omitzero"`
	Calls   []message.ToolCallBlock `json:"tool_calls"`
	// External names tools of these calls that the engine need not know, because
	// the runtime or its frontend runs them: the policy decides about such a call
	// as about any other, and once it is allowed it waits for a Report. A tool
	// that the engine knows to run elsewhere is refused.
	External []string `json:"external_tools,omitzero"`
	// Tools defines tools that the runtime or its frontend runs, and names them as External
	// does. A definition holds for the session: later proposals need not repeat it.
	// A tool that the engine knows keeps the engine's definition.
	Tools []ToolDefinition `json:"tools,omitzero"`
	// Parent is the call within which these calls are made, such as the one that started
	// a sub-agent. Their reply is another one.
	Parent *ParentKey `json:"parent,omitzero"`
}

// ProposeReply has the present state of each proposed call, in order.
type ProposeReply struct {
	Calls []*Call `json:"calls"`
}

// Response decides an open approval request. Digest names exactly what the approver saw.
type Response struct {
	V int `json:"v,omitzero"`
	Key
	// ID, if the sender gives one, is the same when the same answer is sent again:
	// what has been taken already is then answered with the present call. At most
	// 128 bytes, random.
	ID     string       `json:"response_id,omitzero"`
	Digest string       `json:"digest"`
	Kind   ResponseKind `json:"kind"`
	// Input, with kind approve, replaces the arguments; the policy decides again.
	Input *string `json:"input,omitzero"`
	// Feedback, with kind reject, reaches the model in the result text.
	Feedback string `json:"feedback,omitzero"`
	// Output, with kind answer, becomes the tool's result.
	Output string `json:"output,omitzero"`
	// Note, with kind skip or delegate, is for the people who look next.
	Note string `json:"note,omitzero"`
	// To, with kind delegate, is who should answer: a name.
	To string `json:"to,omitzero"`
	// Signature, with kind approve and without input, is by the approver's own key.
	Signature *ApproverSignature `json:"signature,omitzero"`
	// Rules to remember for the session; only suggested ones are accepted, and
	// with input only such as cover the edited call.
	Rules []message.PermissionRule `json:"rules,omitzero"`
	// Remember, with kind approve, lets rules be remembered on terms: they are
	// counted, bounded and can be revoked. With input they are held against the
	// edited call.
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

// Outcome is what an operator found out about a blocked call.
type Outcome string

// The outcomes of resolving.
const (
	OutcomeHappened Outcome = "happened"       // the effect took place; Output is its result
	OutcomeDidNot   Outcome = "did_not_happen" // it did not; the call ends with an error
	OutcomeRunAgain Outcome = "run_again"      // offer it once more, as a new attempt
)

// ResolveRequest ends the wait of a blocked call.
type ResolveRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int     `json:"attempt"` // the attempt that is being resolved: a fence
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

// ReportRequest brings the result of an external call.
type ReportRequest struct {
	V int `json:"v,omitzero"`
	Key
	Result message.ToolResultBlock `json:"result"`
	// Unasked reports a call that ran although it is not decided yet: the agent's own
	// prompt was faster, or its hook failed. The call ends, and its record says so.
	Unasked bool `json:"unasked,omitzero"`
}

// ListRequest selects calls. Without All only open calls are listed. A call is listed
// if it meets every condition; a list of values is met by any of them.
type ListRequest struct {
	V       int                     `json:"v,omitzero"`
	Session message.SessionID       `json:"session_id,omitzero"`
	Reply   message.ReplyID         `json:"reply_id,omitzero"`
	Call    message.CallID          `json:"tool_call_id,omitzero"`
	Tool    string                  `json:"tool_name,omitzero"`
	Agent   string                  `json:"agent,omitzero"`
	States  []message.ToolCallState `json:"states,omitzero"`
	Phases  []Phase                 `json:"phases,omitzero"`
	All     bool                    `json:"all,omitzero"`   // finished ones too
	After   uint64                  `json:"after,omitzero"` // cursor: Next of the reply before (a journal sequence)
	Limit   int                     `json:"limit,omitzero"` // default and maximum 500; a page of large calls ends earlier

	Tools    []string            `json:"tool_names,omitzero"`
	Agents   []string            `json:"agents,omitzero"`
	Sessions []message.SessionID `json:"session_ids,omitzero"`
	Rules    []string            `json:"rules,omitzero"` // the rule that decided
	// Words are all somewhere in the ids, tool, summary, input, agent, runtime or rule of
	// the call, as the reader may see them; upper and lower case are the same.
	Words string `json:"words,omitzero"`
	// Mine are open approval requests to which the reader can respond and has not.
	Mine  bool      `json:"mine,omitzero"`
	Since time.Time `json:"since,omitzero"` // proposed at this instant or later
	Until time.Time `json:"until,omitzero"` // proposed before this instant
	// Sort is an order of Sorts, with "-" before it the other way round; "": proposed.
	Sort string `json:"sort,omitzero"`
	// Cursor is that of the reply before, to continue a list with Sort.
	Cursor string `json:"cursor,omitzero"`
	// Newest gives the calls that finished last first; only for finished calls.
	Newest bool `json:"newest,omitzero"`
	// By is a person who responded to the approval request.
	By string `json:"by,omitzero"`
	// Outcomes are causes of the end of finished calls, such as result, reject or expire.
	Outcomes []Cause `json:"outcomes,omitzero"`
	// Results are states of results, such as success or error.
	Results []message.ToolResultState `json:"result_states,omitzero"`
}

// The orders of a list. What has no such value comes last.
const (
	SortDeadline = "deadline" // the request that ends first
	SortAge      = "age"      // the call that was proposed last
	SortProposed = "proposed" // the call that was proposed first
	SortTool     = "tool"
	SortAgent    = "agent"
	// SortChanged is the call that changed first. Continue with After: the sequence of the
	// last call that is known, so that a list costs what changed since.
	SortChanged = "changed"
)

// Sorts are the orders of a list.
func Sorts() []string {
	return []string{SortDeadline, SortAge, SortProposed, SortTool, SortAgent, SortChanged}
}

// ListReply has the calls that were listed, in the order of the request.
type ListReply struct {
	Calls []*Call `json:"calls"`
	Next  uint64  `json:"next,omitzero"` // 0: that was all
	// Cursor continues a list with Sort; "": that was all.
	Cursor string `json:"cursor,omitzero"`
	// Counts are the calls of each phase that meet all conditions but that of the phase. Only
	// the first page has them, and no list that has to read the journal.
	Counts map[Phase]int `json:"counts,omitzero"`
	// Waiting says of each open approval request what it waits for. It follows from
	// Calls: engines leave it out, askance list --json adds it.
	Waiting []Waiting `json:"waiting,omitzero"`
}

// ShowRequest names one call.
type ShowRequest struct {
	V int `json:"v,omitzero"`
	Key
}

// ShowReply has the call and its event records, oldest first.
type ShowReply struct {
	Call    *Call          `json:"call"`
	History []HistoryEntry `json:"history"`
	// Waiting says what the open approval request waits for, as in ListReply.
	Waiting *Waiting `json:"waiting,omitzero"`
	// Definition is what the runtime declared of the tool.
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
	// Attempt and Worker as they stood after the record.
	Attempt int    `json:"attempt,omitzero"`
	Worker  string `json:"worker,omitzero"`
}

// WaitUntil says what a wait is for.
type WaitUntil string

// What can be waited for.
const (
	UntilFinished WaitUntil = "finished" // every call is finished
	UntilParked   WaitUntil = "parked"   // every call is finished, or waits for a person or a result from outside
	UntilRunnable WaitUntil = "runnable" // every call is finished, or allowed and its runtime has to run it
)

// WaitRequest waits for calls of a reply. Without Calls it means all calls of
// the reply that were proposed so far.
type WaitRequest struct {
	V         int               `json:"v,omitzero"`
	Session   message.SessionID `json:"session_id"`
	Reply     message.ReplyID   `json:"reply_id"`
	Calls     []message.CallID  `json:"tool_call_ids,omitzero"`
	Until     WaitUntil         `json:"until,omitzero"`      // default finished
	TimeoutMS int64             `json:"timeout_ms,omitzero"` // how long the engine holds the request; a client asks again
}

// WaitReply has the present state; Done says whether the wait is over.
type WaitReply struct {
	Calls []*Call `json:"calls"`
	Done  bool    `json:"done"`
}

// EmitRequest appends streaming events of a reply (text, thinking, model
// calls) to the journal. CUSTOM events with names that begin with "askance." are
// refused from runtimes: see [EmitRequest.Foreign].
type EmitRequest struct {
	V       int               `json:"v,omitzero"`
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Events  []message.RawJSON `json:"events"`
}

// Foreign refuses a request that would write records of askance's own
// ([message.IsOwnEvent]). What is no event is left for the engine to refuse.
func (r EmitRequest) Foreign() error {
	for i, raw := range r.Events {
		if message.IsOwnEvent(raw) {
			return &message.Error{Code: message.CodeForbidden, Op: "emit", What: fmt.Sprintf("events[%d]: only askance writes CUSTOM events whose names begin with askance.", i), Hint: "choose another name"}
		}
	}
	return nil
}

// EmitReply has the sequence of the last stored event.
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

// SequencedEvent is an event with the sequence of the record it came from.
// Several events can share one.
type SequencedEvent struct {
	Seq   uint64          `json:"seq"`
	Event message.RawJSON `json:"event"`
}

// EventsReply has events and the cursor to go on from.
type EventsReply struct {
	Events []SequencedEvent `json:"events"`
	Next   uint64           `json:"next"`
}

// InfoReply says which engine answers and what may be expected of it.
type InfoReply struct {
	Space      SpaceID `json:"space"`
	Engine     string  `json:"engine"`
	Version    string  `json:"version"`
	Durability string  `json:"durability"` // cached, fsynced, quorum or memory
	Bundle     string  `json:"bundle"`     // the policy in force
	PolicyErr  string  `json:"policy_error,omitzero"`
	// NotReady is why the engine takes no new calls now; "" if it takes them.
	NotReady string `json:"not_ready,omitzero"`
	// Clocks are those of workers and of the journal that differ from the engine's.
	Clocks  []ClockReading `json:"clocks,omitzero"`
	Open    int            `json:"open"` // open calls
	Blocked int            `json:"blocked"`
	// Returned counts the open calls that do not run because workers returned their
	// tasks.
	Returned int      `json:"returned,omitzero"`
	Tools    []string `json:"tools"`
}

// ClockReading is how a clock differs from that of the engine that answers.
type ClockReading struct {
	Who      string    `json:"who"`       // "worker NAME", or "journal" for the NATS server
	AheadMS  int64     `json:"ahead_ms"`  // negative: behind
	WithinMS int64     `json:"within_ms"` // how exact the measurement is
	At       time.Time `json:"at"`        // when it was taken, by the engine's clock
}

// StartRequest claims the present attempt of a submitted call. The same claim
// asked again gets the same answer, so a lost reply does not strand the call.
type StartRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	// Request names this sending: the signed reply repeats it, so that no reply
	// answers another sending. At most 128 bytes, random.
	Request string `json:"request,omitzero"`
	// Nonce is that of the grant that the worker checked: a start that arrives
	// after the attempt was offered again with another grant is superseded.
	Nonce string `json:"grant_nonce,omitzero"`
	// Refuse, if set, says why the worker cannot run it, such as an engine key that it
	// does not know. The call stays open: its task is returned and offered again.
	Refuse string `json:"refuse,omitzero"`
	// Task is the task that brought the attempt: the engine takes it off the queue with
	// the reply. If that is lost, the task comes again and its start is superseded.
	Task string `json:"task,omitzero"`
}

// NextTasksRequest asks for tasks of one queue, over HTTP.
type NextTasksRequest struct {
	V      int    `json:"v,omitzero"`
	Tool   string `json:"tool_name"`
	Route  string `json:"subject,omitzero"` // to which rules route calls; the token has to name it
	Limit  int    `json:"limit,omitzero"`   // default 1, maximum 64: ask only for what can start at once
	WaitMS int64  `json:"wait_ms,omitzero"` // how long the request is held at most; default and maximum 30000
}

// NextTasksReply has the tasks; none came if it is empty.
type NextTasksReply struct {
	Tasks []OfferedTask `json:"tasks"`
}

// OfferedTask is a task for a worker that has 10 seconds to start it. After that the
// queue offers it again.
type OfferedTask struct {
	Task      string          `json:"task"`               // names it in an AckTaskRequest
	Delivered int             `json:"delivered,omitzero"` // how often it was handed out, this time included
	Record    message.RawJSON `json:"record"`             // the submitted event record, with the call and its grant
}

// AckTaskRequest takes a task off its queue after the start was answered, or returns
// it.
type AckTaskRequest struct {
	V       int    `json:"v,omitzero"`
	Tool    string `json:"tool_name"`
	Route   string `json:"subject,omitzero"`
	Task    string `json:"task"`
	Return  bool   `json:"return,omitzero"`   // offer it again
	DelayMS int64  `json:"delay_ms,omitzero"` // with return: not before
}

// AckTaskReply says that the queue has confirmed it.
type AckTaskReply struct{}

// EngineKeysReply has the engines' signing keys, oldest first.
type EngineKeysReply struct {
	Keys KeyRing `json:"keys"`
}

// HeartbeatRequest says that an attempt is alive. A worker that may not start an
// attempt because of its clock sends one, too, and expects no lease.
type HeartbeatRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	// ClockMS is how far the worker's clock is ahead of the engines' (negative:
	// behind), as it measured by their replies; 0: not known to differ.
	ClockMS       int64 `json:"clock_ms,omitzero"`
	ClockWithinMS int64 `json:"clock_within_ms,omitzero"` // how exact that is
}

// HeartbeatReply tells the worker whether to go on. Stale: the attempt is no
// longer the present one; stop, and do not expect the result to count.
type HeartbeatReply struct {
	Cancel bool   `json:"cancel,omitzero"`
	Reason string `json:"reason,omitzero"`
	Stale  bool   `json:"stale,omitzero"`
	// At is the engine's clock, by which the worker measures its own.
	At time.Time `json:"at,omitzero"`
}

// ProgressRequest carries a line of progress. Best effort, not kept.
type ProgressRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int    `json:"attempt"`
	Claim   string `json:"claim"`
	N       int    `json:"n"` // 1, 2, … within the attempt
	Text    string `json:"text"`
}

// ProgressReply says that the line was passed on.
type ProgressReply struct{}

// ResultRequest brings the result of an attempt; it is sent again until
// answered.
type ResultRequest struct {
	V int `json:"v,omitzero"`
	Key
	Attempt int                     `json:"attempt"`
	Claim   string                  `json:"claim"`
	Result  message.ToolResultBlock `json:"result,omitzero"`
	// NotBegun, if set, says why the owner never began to run the attempt and
	// never will. There is no Result then: the call is offered as a new attempt.
	NotBegun string `json:"not_begun,omitzero"`
}

// ResultReply says that the result is durable (Stored), or that it came too
// late and was only noted.
type ResultReply struct {
	Stored bool                  `json:"stored"`
	State  message.ToolCallState `json:"state"`
}
