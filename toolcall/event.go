package toolcall

import (
	"context"
	"time"

	"github.com/askance-dev/askance/message"
)

// Event is something that can happen to a call. It includes the time, because the machine
// reads no clock.
//
//sumtype:decl
type Event interface {
	at() time.Time
}

// Base is the time of every event.
type Base struct{ At time.Time }

func (b Base) at() time.Time { return b.At }

type (
	// Proposed begins a call. Call needs Key, Runtime, Tool, Input, Proposal and, if it has
	// one, Order.
	Proposed struct {
		Base
		Call *Call
	}
	// Refused ends a pending call that cannot be decided at all.
	Refused struct {
		Base
		Text string // reaches the model
	}
	// Decided is the policy's decision on a pending call. Any behavior except allow and deny
	// asks, which is safe for unknown values.
	Decided struct {
		Base
		Decision  Decision
		Request   ApprovalRequest // always set, because the grant is bound to it
		Digest    string
		Suggested []message.PermissionRule
		Placement Placement
		// EditCounts is set if the edit in the same event record also counts as its editor's
		// approval of this approval request.
		EditCounts bool
		// Terms are what the editor wants remembered with it, and StandingApprovals are the
		// result if it allows the call.
		Terms             *StandingTerms
		StandingApprovals []StandingApproval
		// Step is how far the plan of the approval request has already come: if the same rules
		// ask again after an edit, the plan of the earlier request continues.
		Step int
		// Explanation is what the event record stores besides the call, if any.
		Explanation message.RawJSON
	}
	// Hidden leaves a call pending behind another's open approval request.
	Hidden struct {
		Base
		Behind message.CallID
	}
	// Denied ends an open approval request because the policy now denies it.
	Denied struct {
		Base
		Decision Decision
		Vote     *Vote // the approval that came too late, if any
		// Explanation is what the event record stores besides the call, if any.
		Explanation message.RawJSON
	}
	// Responded is a response that ends an open approval request, with Kind approve
	// (unedited), reject or respond. An approval must complete the requirement of the
	// approval request.
	Responded struct {
		Base
		Vote              Vote
		Output            string                   // kind respond: the result
		Remember          []message.PermissionRule // kind approve
		StandingApprovals []StandingApproval       // kind approve
	}
	// Edited is an approval with other arguments. A Decided follows in the same record.
	Edited struct {
		Base
		Vote     Vote
		Input    string
		Remember []message.PermissionRule
	}
	// Voted is a response that leaves the approval request open: an approval that needs
	// others, or Kind skip or delegate.
	Voted struct {
		Base
		Vote Vote
	}
	// Escalated records that the plan of an open approval request has reached step number
	// Step.
	Escalated struct {
		Base
		Step int
	}
	// Expired ends an open approval request whose deadline has passed.
	Expired struct{ Base }
	// Submitted hands an allowed call to a worker or an external party.
	Submitted struct {
		Base
		Attempt Attempt
	}
	// Started gives the current attempt its owner.
	Started struct {
		Base
		Attempt  int
		Worker   string
		Claim    string
		LeaseMS  int64
		Deadline time.Time
	}
	// Offered makes a new attempt (with the next Number), or offers the current, unstarted
	// one again (with the same Number).
	Offered struct {
		Base
		Attempt Attempt
	}
	// Lost records that the owner fell silent and another attempt follows at RetryAt.
	Lost struct {
		Base
		Attempt int
		RetryAt time.Time
	}
	// Returned records that a worker never began the attempt and never will: its owner, or
	// a worker that rejects the task (Rejected) and so never owns the attempt. Another
	// attempt follows at RetryAt.
	Returned struct {
		Base
		Attempt  int
		Claim    string
		Rejected bool
		Worker   string
		Reason   string
		RetryAt  time.Time
	}
	// Suspended blocks a call until an operator resolves it.
	Suspended struct {
		Base
		Attempt int
		Blocked Blocked
	}
	// Resulted is the result of an attempt. Attempt and Claim are fences; an external call
	// has neither.
	Resulted struct {
		Base
		Attempt int
		Claim   string
		Result  message.ToolResultBlock
		Digest  string
	}
	// Bypassed is the result of an external call that ran before it was decided here: the
	// agent's own prompt was faster, or its hook failed.
	Bypassed struct {
		Base
		Result message.ToolResultBlock
		Digest string
	}
	// Resolved ends a call with the outcome that an operator states; Result is what
	// the model sees.
	Resolved struct {
		Base
		Attempt int
		Result  message.ToolResultBlock
	}
	// Revoked ends an allowed call that has not started.
	Revoked struct {
		Base
		Reason string
		Denied *Decision // the policy's decision, if that revokes it
	}
	// Interrupted ends an open call with its reply. Text is the text of the result, if it
	// is not the usual one.
	Interrupted struct {
		Base
		Text string
	}
)

// ReadLag is how far reads of a journal may be behind its queues and deliveries: on a cluster the
// server that hands out a record can have it before the one that answers reads. A decision that
// rests on an older read must wait. That is bounded, because the record can also be void, which
// no read shows.
const ReadLag = time.Minute

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
