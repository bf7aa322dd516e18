package toolcall

import "github.com/askance-dev/askance/message"

// This file takes what people say about an open approval request.

// applyResponse checks the fence of every answer, the digest, before anything else.
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
		return unknownKind(ev.Vote.Kind, "use approve, reject or answer")
	}
}

func unknownKind(k ResponseKind, hint string) error {
	return &message.Error{Code: message.CodeInvalid, Op: "submit_response", What: "unknown kind of response " + string(k), Hint: hint}
}

// applyVote takes a word that leaves the approval request open.
func (m *Machine) applyVote(ev Voted) error {
	c := m.call
	if err := m.CheckRequest(ev.Vote.Digest); err != nil {
		return err
	}
	c.Votes = appendVote(c.Votes, ev.Vote)
	switch ev.Vote.Kind {
	case ResponseApprove:
		if c.Tally().Agreed {
			return &message.Error{Code: message.CodeInternal, Op: "submit_response", What: "all required approvers approved, and the approval request stays open", Hint: "approve it"}
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

// applyEscalation notes how far the plan of the approval request has come; it never goes
// back.
func (m *Machine) applyEscalation(ev Escalated) error {
	c := m.call
	if c.State != asking {
		return stateError(c.Clone(), CauseEscalate)
	}
	if c.Request == nil || ev.Step <= c.Step || ev.Step > len(c.Request.Requirement.Plan()) {
		return &message.Error{Code: message.CodeInternal, Op: "escalate", What: "the approval request's plan has no such next step", Hint: "read the call again"}
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

// CheckRequest refuses an answer that is not to the open approval request of the call:
// the fence of every answer.
func (m *Machine) CheckRequest(digest string) error {
	c := m.call
	if c.State != asking {
		return stateError(c.Clone(), CauseApprove)
	}
	if digest != c.Digest {
		return &message.Error{Code: message.CodeDigest, Op: "submit_response", Call: ErrorCall(c),
			What: "the answer is to another approval request than the one that is open",
			Hint: "look at the present approval request and answer that one"}
	}
	return nil
}

// appendVote never writes into a slice that another copy of the call shares.
func appendVote(votes []Vote, v Vote) []Vote {
	return append(append([]Vote(nil), votes...), v)
}
