package toolcall

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// Placement says where an allowed call runs.
type Placement string

// The placements.
const (
	PlaceLocal    Placement = "local"    // a Go function in the engine's process
	PlaceRemote   Placement = "remote"   // a worker over NATS
	PlaceExternal Placement = "external" // outside askance: the runtime reports the result (AgentScope's external tools)
)

// Blocked says why a call that is submitted or started makes no progress by
// itself and waits for a person to resolve it.
type Blocked string

// The holds. A blocked call is listed until an operator resolves it.
const (
	NotBlocked        Blocked = ""
	BlockedUnknown    Blocked = "unknown"     // its owner died after the start and the tool is not idempotent
	BlockedDeadLetter Blocked = "dead_letter" // every permitted attempt was lost
	BlockedNoWorker   Blocked = "no_worker"   // no worker started it within the queue deadline
	BlockedReturned   Blocked = "returned"    // workers returned its task MaxReturns times in a row
	// BlockedClock is shown and never stored: a worker's clock is off so far that the
	// grant is not valid there. It ends when the clock is corrected.
	BlockedClock Blocked = "clock"
)

// Call is the full state of one tool call. Every event record of a call has it; the
// journal stores what changed. It is a value: copy it (Clone) before a change.
type Call struct {
	Key
	Runtime string `json:"runtime"`        // the runtime that proposed it
	Agent   string `json:"agent,omitzero"` // the agent's name, as the runtime gave it
	// Trace is that of the proposal, for tools that watch: no decision and no digest reads it.
	Trace Trace `json:"traceparent,omitzero"`
	// Requester is what is known of the runtime's user; nil: nothing, or no rule reads it.
	Requester *Requester            `json:"requester,omitzero"`
	Tool      string                `json:"tool_name"`      // never changes
	Input     string                `json:"input"`          // raw JSON as it will run, after an approver's edit
	State     message.ToolCallState `json:"state"`          // AgentScope's word
	InPhase   Phase                 `json:"phase,omitzero"` // set in replies and never stored; Phase computes it
	// Summary says in one line what would run, as people may see it, and Risk what the tool's
	// annotations warn of. Like InPhase, both are set in replies and never stored.
	Summary string   `json:"summary,omitzero"`
	Risk    []string `json:"risk,omitzero"`
	Cause   string   `json:"cause"`          // the last transition that was taken
	Order   Order    `json:"order,omitzero"` // which calls of its reply it waits for
	// Batch is in records that were written before Order was: such a call is exclusive.
	Batch  message.RawJSON `json:"batch,omitzero"`
	Behind message.CallID  `json:"behind,omitzero"` // pending behind the open approval request of this call
	// Definition is what the runtime declared of the tool; nil: nothing, or the engine
	// knows the tool.
	Definition *DefinitionRef `json:"definition,omitzero"`
	// Parent is the call within which this one was made; nil: none.
	Parent *Parent `json:"parent,omitzero"`
	// Proposal is the digest of what was proposed (tool and raw input): the same
	// ids with another digest is a conflict.
	Proposal string `json:"proposal"`

	// Redact are the paths that rules hide of a call about which no approval request has
	// been made (yet).
	Redact []string `json:"redact,omitzero"`

	Decision *Decision        `json:"decision,omitzero"` // the policy's last word
	Request  *ApprovalRequest `json:"request,omitzero"`  // what was asked, or would have been
	Digest   string           `json:"digest,omitzero"`   // of Approval request
	Votes    []Vote           `json:"votes,omitzero"`
	// Step is how many instants of the approval request's plan are on record as reached.
	Step              int                      `json:"step,omitzero"`
	Suggested         []message.PermissionRule `json:"suggested_rules,omitzero"`
	Remember          []message.PermissionRule `json:"remember,omitzero"`           // rules that an approver accepted with the answer
	StandingApprovals []StandingApproval       `json:"standing_approvals,omitzero"` // what the approval let remember on terms, as it was then

	Placement Placement `json:"placement,omitzero"`
	Attempt   Attempt   `json:"attempt,omitzero"`
	Begun     int       `json:"begun,omitzero"` // attempts that started and were not given back: each may have had its effect
	Blocked   Blocked   `json:"blocked,omitzero"`
	// BlockedReason says more about a hold that is shown and not stored.
	BlockedReason string    `json:"blocked_reason,omitzero"`
	RetryAt       time.Time `json:"retry_at,omitzero"` // when the next attempt is offered
	// Returned says which worker returned the last task, and why.
	Returned *TaskReturn `json:"returned,omitzero"`

	Result *message.ToolResultBlock `json:"result,omitzero"`
	// Denial says to the agent why the call did not run; nil: it may have run.
	Denial *Denial `json:"denial,omitzero"`
	// ResultDigest is the SHA-256 of the result as its sender gave it: the same
	// result sent again gets the same answer, another one is refused. Of a call
	// that hides arguments it is an HMAC of that (see SealResult): a result may
	// repeat a short secret, which could be guessed from a bare hash.
	ResultDigest string `json:"result_digest,omitzero"`

	ProposedAt time.Time `json:"proposed_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	Records    int       `json:"records"` // how many event records this call has, this one included

	// First is the journal sequence of the call's first event record: the order in which
	// calls were proposed. The first event record itself cannot carry it (see At).
	First uint64 `json:"first_seq,omitzero"`
	// Seq is the journal sequence of the call's last record. It is not part of the
	// event record: the reader sets it (see At).
	Seq uint64 `json:"seq,omitzero"`
}

// MaxReturns is how often workers can return the tasks of a call before an operator
// has to look.
const MaxReturns = 8

// TaskReturn says that a worker did not begin an attempt, for a reason of its own
// such as a missing engine key.
type TaskReturn struct {
	Worker string    `json:"worker"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
	Times  int       `json:"times"` // in a row, this one included
}

// TimesReturned is how often in a row workers have returned the tasks of the call.
func (c *Call) TimesReturned() int {
	if c.Returned == nil {
		return 0
	}
	return c.Returned.Times
}

// ReturnText says who returned the last task and why, while that keeps the call
// from running; else "".
func (c *Call) ReturnText() string {
	switch c.Phase() {
	case PhaseQueued, PhaseRetrying, PhaseBlocked:
	default:
		return ""
	}
	if c.Returned == nil {
		return ""
	}
	return fmt.Sprintf("worker %s returned the task (%d of %d times): %s", c.Returned.Worker, c.Returned.Times, MaxReturns, c.Returned.Reason)
}

// Requester is what the credentials of a proposal, or the directory, say of the user
// on whose behalf it is made.
type Requester struct {
	Groups []string `json:"groups"`
	From   string   `json:"groups_from"` // where they come from, as in a Vote
}

// At notes the sequence at which the fact that carries c stands.
func (c *Call) At(seq uint64) {
	if c.Seq == seq {
		return // others may be reading it
	}
	c.Seq = seq
	if c.Records == 1 {
		c.First = seq
	}
}

// Clone copies the call so that the copy can be changed. Pointed-to values and
// slices are shared and must be replaced, not written to.
func (c *Call) Clone() *Call { d := *c; return &d }

// Groups are those of the requester; nil: not known.
func (c *Call) Groups() []string {
	if c.Requester == nil {
		return nil
	}
	return c.Requester.Groups
}

// ProposalDigest is the digest that tells the same call proposed again from another
// one under the same ids. more is what else tells them apart.
func ProposalDigest(tool, input string, more ...string) string {
	b, err := jcs.Marshal(append([]string{tool, input}, more...))
	if err != nil { // invalid UTF-8: hash the parts as they are
		b = fmt.Appendf(nil, "%d:%s%s", len(tool), tool, input)
		for _, part := range more {
			b = fmt.Appendf(b, "\x00%d:%s", len(part), part)
		}
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Open reports whether the call can still move.
func (c *Call) Open() bool { return c.State != message.ToolCallFinished }

// Started reports whether the present attempt has an owner.
func (c *Call) Started() bool { return c.Attempt.Claim != "" }

// Decision is what the policy said about the call, as event records keep it.
type Decision struct {
	Behavior message.Behavior `json:"behavior"`
	Rule     string           `json:"rule,omitzero"`
	Source   string           `json:"source,omitzero"`
	Reason   string           `json:"reason"`
	Message  string           `json:"message,omitzero"`
	// Headline says that the first line of Message is the rule's message about this call.
	Headline bool   `json:"headline,omitzero"`
	Bundle   string `json:"bundle"`
	// Denial is what agents are told if the call is denied.
	Denial *DenialHint `json:"denial,omitzero"`
	Errors []string    `json:"errors,omitzero"` // rule errors; each failed closed
	// TimeoutMS is the longest run of an attempt that the rules let it have, in
	// milliseconds; 0: they say nothing.
	TimeoutMS int64 `json:"timeout_ms,omitzero"`
	// Route is the subject on which workers take the call, if rules say so: only
	// a worker of that route may run it.
	Route string `json:"route,omitzero"`
	// Recheck names rules whose conditions must hold again when the call begins.
	Recheck []string `json:"recheck,omitzero"`
	// Budget is what the call has taken from the budget of the rule that allowed it.
	Budget *BudgetUse `json:"budget,omitzero"`
	// Lease is the standing approval that allowed what the policy asks about.
	Standing StandingID `json:"standing_approval_id,omitzero"`
	// Besides are further standing approvals without which it would not have been
	// allowed: each covers a part of the call.
	Besides []StandingID `json:"further_standing_approval_ids,omitzero"`
}

// StandingApprovals are the standing approvals that the decision relies on. d may be nil.
func (d *Decision) StandingApprovals() []StandingID {
	if d == nil || d.Standing == "" {
		return nil
	}
	return append([]StandingID{d.Standing}, d.Besides...)
}

// Order says how a call waits for others of its reply, as a lock for readers and writers
// does. A call that has an order waits for every earlier one that has one, if either is
// exclusive. Earlier means: the first event record stands earlier in the journal.
type Order string

// The orders of a call.
const (
	OrderNone      Order = ""          // waits for no call, and none waits for it
	OrderShared    Order = "shared"    // waits for exclusive calls
	OrderExclusive Order = "exclusive" // runs alone
)

// Turn is the order of a call, also where older records have it as a batch.
func (c *Call) Turn() Order {
	if len(c.Batch) > 0 {
		return OrderExclusive
	}
	return c.Order
}

// WaitsFor reports whether the call has to wait for another one of its reply that is open.
func (c *Call) WaitsFor(other *Call) bool {
	mine, its := c.Turn(), other.Turn()
	return mine != OrderNone && its != OrderNone && other.First < c.First && (mine == OrderExclusive || its == OrderExclusive)
}

// Attempt is one try at running the call. Number is the fence: a message with an
// older number is recorded and changes nothing.
type Attempt struct {
	Number     int       `json:"number,omitzero"` // 1, 2, …; 0: none yet
	Grant      *Grant    `json:"grant,omitzero"`  // remote attempts only
	Worker     string    `json:"worker,omitzero"` // the authenticated owner, once started
	Claim      string    `json:"claim,omitzero"`  // the owner's own id for this start; "" until started
	OfferedAt  time.Time `json:"offered_at,omitzero"`
	OfferUntil time.Time `json:"offer_until,omitzero"` // offered again if no worker started by then
	StartedAt  time.Time `json:"started_at,omitzero"`
	LeaseMS    int64     `json:"lease_ms,omitzero"` // silence after which the owner counts as dead
	Deadline   time.Time `json:"deadline,omitzero"` // the run is cancelled then; zero: none
	Offers     int       `json:"offers,omitzero"`   // how often an unstarted item was offered, this one included
}

// HasResponse reports whether name gave the response already: by its id, or by
// its contents where it was sent without one. A nil call has no response.
func (c *Call) HasResponse(name string, r Response) bool {
	return c != nil && slices.ContainsFunc(c.Votes, func(v Vote) bool {
		if v.By.Name != name {
			return false
		}
		if r.ID != "" && v.ID == r.ID {
			return true
		}
		// Another screen of the same person may have edited the input differently.
		sameInput := r.Input == nil && !v.Edited || r.Input != nil && c.Input == *r.Input
		sameFeedback := v.Kind != ResponseReject || v.Feedback == r.Feedback
		return v.By.Role == RoleApprover && v.Digest == r.Digest && v.Kind == r.Kind &&
			sameFeedback && v.Note == r.Note && v.To == r.To && sameInput
	})
}
