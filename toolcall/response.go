package toolcall

import (
	"fmt"

	"github.com/askance-dev/askance/message"
)

// This file applies people's responses to an open approval request.

// applyResponse checks the digest, the fence of every response, before anything else.
func (m *Machine) applyResponse(ev Responded) error {
	c := m.call
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	c.Votes = appendVote(c.Votes, ev.Vote)
	switch ev.Vote.Kind {
	case ResponseApprove:
		if !c.Tally().Agreed {
			return &message.Error{Code: message.CodeInternal, Op: "submit_response", What: "not all required approvers approved", Hint: "the approval request stays open"}
		}
		c.Remember, c.StandingApprovals = ev.Remember, ev.StandingApprovals
		return m.move(CauseApprove)
	case ResponseReject:
		return m.deny(CauseReject, message.ToolResultDenied, rejectedText(c, ev.Vote), newRejection(c, ev.Vote), ev.At)
	case ResponseRespond:
		return m.finish(CauseRespond, message.ToolResultSuccess, ev.Output, ev.At)
	default:
		return unknownKind(ev.Vote.Kind, "use approve, reject or respond")
	}
}

func unknownKind(k ResponseKind, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "submit_response", What: "unknown kind of response " + string(k), Hint: hint}
}

// applyVote applies a response that leaves the approval request open.
func (m *Machine) applyVote(ev Voted) error {
	c := m.call
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	c.Votes = appendVote(c.Votes, ev.Vote)
	switch ev.Vote.Kind {
	case ResponseApprove:
		if c.Tally().Agreed {
			return &message.Error{Code: message.CodeInternal, Op: "submit_response", What: "all required approvers approved, but the approval request would stay open", Hint: "approve it"}
		}
		return m.move(CauseVote)
	case ResponseSkip:
		return m.move(CauseSkip)
	case ResponseDelegate:
		return m.move(CauseDelegate)
	default:
		return unknownKind(ev.Vote.Kind, "use approve, skip or delegate")
	}
}

// applyEscalation records how far the approval request's plan has come. It never goes
// back.
func (m *Machine) applyEscalation(ev Escalated) error {
	c := m.call
	if c.State != asking {
		return stateError(c.Clone(), CauseEscalate)
	}
	if c.Request == nil || ev.Step <= c.Step || ev.Step > len(c.Request.Requirement.Plan()) {
		return &message.Error{Code: message.CodeInternal, Op: "escalate", What: "the plan of the approval request has no such next step", Hint: "read the call again"}
	}
	c.Step = ev.Step
	return m.move(CauseEscalate)
}

func (m *Machine) applyEdit(ev Edited) error {
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	vote := ev.Vote
	vote.Edited = true
	m.call.Votes = appendVote(m.call.Votes, vote)
	m.call.Input, m.call.Remember = ev.Input, ev.Remember
	return m.move(CauseEdit)
}

// CheckRequest refuses a response that is not to the call's open approval request: the
// fence of every response.
func (m *Machine) CheckRequest(digest string) error {
	c := m.call
	if c.State != asking {
		err := stateError(c.Clone(), CauseApprove)
		if n := len(c.Votes); n > 0 {
			err.What += fmt.Sprintf("; %s responded first: %s", c.Votes[n-1].By.Name, c.Votes[n-1].Kind)
		}
		return err
	}
	if digest != c.Digest {
		return &message.Error{Code: message.CodeDigest, Op: "submit_response", Call: ErrorCall(c),
			What: "this approval request changed after you opened it",
			Hint: "look at the current approval request and respond to that one"}
	}
	return nil
}

// appendVote never writes into a slice that it shares with another copy of the call.
func appendVote(votes []Vote, v Vote) []Vote {
	return append(append([]Vote(nil), votes...), v)
}
