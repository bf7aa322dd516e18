package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func (e *Engine) answer(ctx context.Context, by message.Principal, a message.Response) (*message.Call, error) {
	a.Space = e.space
	if err := checkResponse(a); err != nil {
		return nil, opError("submit_response", err)
	}
	late := false
	voter := e.voter(by)
	leave := &leave{ledger: &e.view.Reviewers}
	c, err := e.update(ctx, "submit_response", a.Key, by, func(ctx context.Context, m *toolcall.Machine) error {
		late = false
		c, now := m.Call(), stamp()
		if again, err := taken(c, by, a); again || err != nil {
			return cmp.Or(err, errNoChange)
		}
		a, err := seenBy(c, a)
		if err != nil {
			return err
		}
		vote := voter.vote(ctx, c, a, now.At)
		if err := voter.may(c, vote, a); err != nil {
			return err
		}
		if err := plainRules(c, a.Rules); err != nil {
			return err
		}
		if vote.Remember, err = e.terms(ctx, c, a, now.At); err != nil {
			return err
		}
		if over, err := e.over(m, now); over || err != nil {
			late = over
			return err
		}
		if again, err := lastWord(c, vote, a); again || err != nil {
			return cmp.Or(err, errNoChange)
		}
		if err := escalateTo(m, vote.Step, now); err != nil {
			return err
		}
		if err := leave.ask(c, vote); err != nil {
			return err
		}
		return e.takeResponse(ctx, m, vote, a)
	})
	leave.done(err)
	if err == nil && late {
		return nil, &message.Error{Code: message.CodeFinished, Op: "submit_response", Call: c, What: "the answer came too late: the approval request is over (" + c.Cause + ")", Hint: "nothing to do: see the call's result"}
	}
	return c, err
}

// over ends an approval request whose time has passed or whose reply was interrupted,
// and reports whether it did.
func (e *Engine) over(m *toolcall.Machine, now toolcall.Base) (bool, error) {
	c := m.Call()
	if c.State != message.ToolCallAsking {
		return false, nil // the machine has the better error
	}
	if expired(c, now.At) {
		return true, m.Step(toolcall.Expired{Base: now})
	}
	if state, _ := e.view.ReplyState(c.Key); state != nil && state.Phase != message.ReplyOpen {
		return true, m.Step(toolcall.Interrupted{Base: now})
	}
	return false, nil
}

// takeResponse moves the call by an answer of somebody who may give it.
func (e *Engine) takeResponse(ctx context.Context, m *toolcall.Machine, vote message.Vote, a message.Response) error {
	c := m.Call()
	switch {
	case a.Kind == message.ResponseSkip || a.Kind == message.ResponseDelegate:
		if err := roomFor(c, vote); err != nil {
			return err
		}
		return m.Step(toolcall.Voted{Base: stamp(), Vote: vote})
	case a.Kind != message.ResponseApprove:
		return m.Step(toolcall.Responded{Base: stamp(), Vote: vote, Output: a.Output})
	case edits(c, a):
		return e.approveEdited(ctx, m, vote, a)
	}
	return e.approve(ctx, m, vote)
}

var responseKinds = []message.ResponseKind{message.ResponseApprove, message.ResponseReject, message.ResponseRespond, message.ResponseSkip, message.ResponseDelegate}

// maxResponseID bounds the id that a sender gives to an answer.
const maxResponseID = 128

func checkResponse(a message.Response) error {
	bad := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, What: what, Hint: hint}
	}
	switch {
	case !slices.Contains(responseKinds, a.Kind):
		return bad(message.CodeInvalid, fmt.Sprintf("kind is %q", a.Kind), "use approve, reject, respond, skip or delegate")
	case len(a.ID) > maxResponseID:
		return bad(message.CodeTooLarge, fmt.Sprintf("response_id has %d bytes, the limit is %d", len(a.ID), maxResponseID), "use a short random one")
	case a.Digest == "":
		return bad(message.CodeInvalid, "digest is empty", "name the digest of the approval request that was shown")
	case a.Input != nil && a.Kind != message.ResponseApprove:
		return bad(message.CodeInvalid, "input goes only with approve", "leave it out")
	case a.Input != nil && len(*a.Input) > message.MaxInputBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("input has %d bytes, the limit is %d", len(*a.Input), message.MaxInputBytes), "pass large content by reference")
	case len(a.Feedback) > message.MaxTextBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("feedback has %d bytes, the limit is %d", len(a.Feedback), message.MaxTextBytes), "shorten it")
	case len(a.Output) > message.MaxOutputBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("output has %d bytes, the limit is %d", len(a.Output), message.MaxOutputBytes), "keep large output elsewhere and give a reference")
	case len(a.Rules) > 0 && a.Kind != message.ResponseApprove:
		return bad(message.CodeInvalid, "rules go only with approve", "leave them out")
	case a.Remember != nil && a.Kind != message.ResponseApprove:
		return bad(message.CodeInvalid, "remember goes only with approve", "leave it out")
	case a.Signature != nil && (a.Kind != message.ResponseApprove || a.Input != nil || len(a.Rules) > 0 || a.Remember != nil):
		return bad(message.CodeInvalid, "a signature goes only with approve, without input and rules, which it would not cover", "leave it out")
	case a.Note != "" && a.Kind != message.ResponseSkip && a.Kind != message.ResponseDelegate:
		return bad(message.CodeInvalid, "note goes only with skip and delegate", "leave it out; to tell the model something, reject with feedback")
	case len(a.Note) > message.MaxNoteBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("note has %d bytes, the limit is %d", len(a.Note), message.MaxNoteBytes), "shorten it")
	case (a.To != "") != (a.Kind == message.ResponseDelegate):
		return bad(message.CodeInvalid, "to goes with delegate, and only with it", "name who should answer, or skip")
	case len(a.To) > message.MaxIDBytes:
		return bad(message.CodeTooLarge, fmt.Sprintf("to has %d bytes, the limit is %d", len(a.To), message.MaxIDBytes), "name one person")
	}
	return a.Key.Validate()
}

// expired reports whether the time of an open approval request is over.
func expired(c *message.Call, now time.Time) bool {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return false
	}
	d := c.Request.Requirement.Ends()
	return !d.IsZero() && !now.Before(d)
}

// approve counts an approval of what was asked. The one that completes the
// requirement allows the call, unless a deny rule came into force since.
func (e *Engine) approve(ctx context.Context, m *toolcall.Machine, vote message.Vote) error {
	c := m.Call()
	if c.State == message.ToolCallAsking && vote.Digest == c.Digest {
		if d, denied := e.deniedNow(ctx, c); denied {
			return m.Step(toolcall.Denied{Base: toolcall.Base{At: vote.At}, Decision: kept(d), Vote: &vote, Explanation: e.whyDenied(ctx, c, d)})
		}
	}
	after := c.Clone()
	after.Votes = append(slices.Clone(c.Votes), vote)
	if t := after.Tally(); c.State == message.ToolCallAsking && !t.Agreed {
		if err := roomFor(c, vote); err != nil {
			return err
		}
		return m.Step(toolcall.Voted{Base: stamp(), Vote: vote})
	}
	standings, err := e.standingApprovalsFrom(ctx, after, vote.At)
	if err != nil {
		return err
	}
	if err := m.Step(toolcall.Responded{Base: stamp(), Vote: vote, Remember: agreedRules(after), Leases: standings}); err != nil {
		return err
	}
	return e.begin(m)
}
