package toolcall

import (
	"time"

	"github.com/askance-dev/askance/message"
)

// Event is what can happen to a call. Time comes in with it: the machine reads
// no clock.
//
//sumtype:decl
type Event interface {
	at() time.Time
}

// Base is the time that every event carries.
type Base struct{ At time.Time }

func (b Base) at() time.Time { return b.At }

type (
	// Proposed begins a call. Call needs Key, Runtime, Tool, Input, Proposal and,
	// where it has one, Order.
	Proposed struct {
		Base
		Call *Call
	}
	// Refused ends a pending call that cannot be decided at all.
	Refused struct {
		Base
		Text string // reaches the model
	}
	// Decided carries the policy's word on a pending call. Any behavior but allow
	// and deny asks: the safe side of an unknown word.
	Decided struct {
		Base
		Decision  Decision
		Request   ApprovalRequest // always: it is what the grant is bound to
		Digest    string
		Suggested []message.PermissionRule
		Placement Placement
		// EditCounts: the edit in the same event record is also an approval of this
		// approval request by its editor.
		EditCounts bool
		// Terms are what that person wants remembered with it, and StandingApprovals what this
		// lets remember if it allows the call.
		Terms             *StandingTerms
		StandingApprovals []StandingApproval
		// Step is how far the plan of the approval request has come already: an edit that is
		// asked by the same rules goes on in the plan of the approval request before.
		Step int
		// Explanation is what the event record keeps besides the call; empty: nothing.
		Explanation message.RawJSON
	}
	// Hidden leaves a call pending behind another's open approval request.
	Hidden struct {
		Base
		Behind message.CallID
	}
	// Denied ends an open approval request because the policy denies it by now.
	Denied struct {
		Base
		Decision Decision
		Vote     *Vote // the approval that came too late, if any
		// Explanation is what the event record keeps besides the call; empty: nothing.
		Explanation message.RawJSON
	}
	// Responded is the word on an open approval request that ends it, with Kind approve
	// (unedited), reject or answer. An approval has to complete what the
	// approval request's requirement wants.
	Responded struct {
		Base
		Vote              Vote
		Output            string                   // kind answer: the result
		Remember          []message.PermissionRule // kind approve
		StandingApprovals []StandingApproval       // kind approve
	}
	// Edited is an approval with other arguments. A Decided follows in the same
	// record.
	Edited struct {
		Base
		Vote     Vote
		Input    string
		Remember []message.PermissionRule
	}
	// Voted is a person's word that leaves the approval request open: an approval that
	// needs further ones, or Kind skip or delegate.
	Voted struct {
		Base
		Vote Vote
	}
	// Escalated says that the plan of an open approval request has come to its instant
	// number Step.
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
	// Started binds the present attempt to an owner.
	Started struct {
		Base
		Attempt  int
		Worker   string
		Claim    string
		LeaseMS  int64
		Deadline time.Time
	}
	// Offered makes a new attempt (Number one higher) or offers the present,
	// unstarted one again (same Number).
	Offered struct {
		Base
		Attempt Attempt
	}
	// Lost says that the owner fell silent and a further attempt follows at
	// RetryAt.
	Lost struct {
		Base
		Attempt int
		RetryAt time.Time
	}
	// Returned says that a worker never began the attempt and never will: its owner,
	// or one that rejects the task (Rejected) and so never owns the attempt. A further
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
	// Suspended holds a call for a person.
	Suspended struct {
		Base
		Attempt int
		Blocked Blocked
	}
	// Resulted brings the result of an attempt. Attempt and Claim are fences; an
	// external call has neither.
	Resulted struct {
		Base
		Attempt int
		Claim   string
		Result  message.ToolResultBlock
		Digest  string
	}
	// Bypassed brings the result of an external call that ran before it was decided
	// here: the agent's own prompt was faster, or its hook failed.
	Bypassed struct {
		Base
		Result message.ToolResultBlock
		Digest string
	}
	// Resolved ends a blocked call by an operator's word; Result is what the model
	// sees.
	Resolved struct {
		Base
		Attempt int
		Result  message.ToolResultBlock
	}
	// Revoked ends an allowed call that has not started.
	Revoked struct {
		Base
		Reason string
		Denied *Decision // the policy's, if that revokes it
	}
	// Interrupted ends an open call with its reply. Text is the result's, if it is
	// not the usual one.
	Interrupted struct {
		Base
		Text string
	}
)
