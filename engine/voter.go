package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// voter is a person who answers. Their groups are looked up once, and only if
// they can matter.
type voter struct {
	e      *Engine
	by     message.Principal
	asked  bool
	groups Membership
	err    error // of the directory
}

func (e *Engine) voter(by message.Principal) *voter { return &voter{e: e, by: by} }

// vote is the answer as event records keep it, with the groups that the person has now
// and how far the approval request's plan has come.
func (v *voter) vote(ctx context.Context, c *message.Call, a message.Response, at time.Time) message.Vote {
	out := message.Vote{
		ID: a.ID, Kind: a.Kind, By: v.by, At: at, Digest: a.Digest, Signature: a.Signature,
		Note: a.Note, To: a.To, Rules: fromSession(c, a.Rules), Step: stepAt(c, at),
	}
	if c.Request != nil && c.Request.Requirement.NeedsGroups() {
		v.look(ctx)
		out.Groups, out.GroupsFrom = c.Request.Requirement.Relevant(v.groups.Groups), v.groups.Source
	}
	if a.Kind == message.ResponseReject {
		out.Feedback = a.Feedback // of other answers it goes nowhere
	}
	return out
}

func (v *voter) look(ctx context.Context) {
	if !v.asked {
		v.asked = true
		v.groups, v.err = v.e.membership(ctx, v.by)
	}
}

// may checks the vote against the requirement as it was first issued.
func (v *voter) may(c *message.Call, vote message.Vote, a message.Response) error {
	if c.Request == nil || c.State != message.ToolCallAsking {
		return nil // the machine has the better error
	}
	r, name := c.Request.Requirement, v.by.Name
	switch accepted := r.Accepts(vote); {
	case !accepted && r.ExcludeRequester && name == r.Requester:
		return refused(name+" is the requester of this call and may not answer for it", "ask somebody else")
	case !accepted && v.err != nil:
		return refused("the groups of "+name+" cannot be looked up now, and without them "+name+" is not among those who may answer this approval request", "try again when the directory answers")
	case !accepted:
		return refused(name+" is not among those who may answer this approval request", "ask one of them")
	}
	alone := vote
	alone.Kind, alone.Digest = message.ResponseApprove, c.Digest
	switch {
	case a.Kind == message.ResponseDelegate:
		return mayTake(r, name, a.To)
	case a.Kind == message.ResponseApprove && !edits(c, a) && r.ExcludeEditor && slices.Contains(r.Editors, name):
		return refused(name+" has edited these arguments and may not approve them", "ask somebody else, or reject")
	case a.Kind == message.ResponseApprove && !edits(c, a) && (r.Signed || a.Signature != nil):
		return v.signed(c, vote)
	case a.Kind == message.ResponseRespond && !r.Tally([]message.Vote{alone}, c.Digest, alone.Step).Agreed:
		return refused("one person alone cannot answer for the tool where others must agree", "approve it, or reject it with feedback")
	}
	return nil
}

// mayRevoke keeps approvers to the calls for which they may answer.
func (v *voter) mayRevoke(ctx context.Context, c *message.Call) error {
	if v.by.Role != message.RoleApprover || c.Request == nil {
		return nil
	}
	vote := v.vote(ctx, c, message.Response{}, stamp().At)
	if !c.Request.Requirement.Accepts(vote) {
		return refused(v.by.Name+" is not among those who may answer for this call", "ask one of them, or an operator")
	}
	return nil
}

// mayTake refuses to hand an approval request to somebody who certainly cannot answer
// it. What groups they are in is looked at when they answer.
func mayTake(r message.Requirement, from, to string) error {
	if to == from {
		return &message.Error{Code: message.CodeInvalid, What: "an approval request is handed over to somebody else", Hint: "skip, or name another person"}
	}
	if r.NeedsGroups() {
		return nil
	}
	for step := range len(r.Plan()) + 1 {
		if r.Accepts(message.Vote{By: message.Principal{Name: to}, Step: step}) {
			return nil
		}
	}
	return refused(to+" is not among those who may answer this approval request", "name one of them")
}

// roomFor refuses answers that leave an approval request open and make its call too
// large: there must be room for what ends it.
func roomFor(c *message.Call, vote message.Vote) error {
	b, err := strictjson.Marshal(append(slices.Clone(c.Votes), vote))
	if err != nil {
		return &message.Error{Code: message.CodeInvalid, What: "the answer has no JSON form", Hint: "use valid UTF-8", Err: err}
	}
	if len(b) > message.MaxVotesBytes {
		return &message.Error{Code: message.CodeTooLarge, Call: c.Clone(), What: fmt.Sprintf("the answers to this call would have %d bytes, the limit is %d", len(b), message.MaxVotesBytes), Hint: "reject it, or let it expire"}
	}
	return nil
}

// edits reports whether an answer changes the arguments.
func edits(c *message.Call, a message.Response) bool { return a.Input != nil && *a.Input != c.Input }

func refused(what, hint string) error {
	return &message.Error{Code: message.CodeForbidden, What: what, Hint: hint}
}

// lastWord compares a vote with what the person has said about this approval request
// before. The same again changes nothing; a person may still become more
// careful, never less: an approval can be taken back, what was left to others
// only refused. So an old answer that is sent again takes nobody's word back.
func lastWord(c *message.Call, vote message.Vote, a message.Response) (again bool, err error) {
	if c.State != message.ToolCallAsking || vote.Digest != c.Digest {
		return false, nil // the machine has the better error
	}
	var last *message.Vote
	for _, v := range c.Votes {
		if v.Edited {
			last = nil // an edit voids what was said before it
		}
		if v.On(c.Digest) && v.By.Name == vote.By.Name {
			last = &v
		}
	}
	switch {
	case last == nil, vote.Kind == message.ResponseReject, edits(c, a) && last.Kind == message.ResponseApprove:
		return false, nil
	case edits(c, a):
	case last.Kind == vote.Kind && last.Note == vote.Note && last.To == vote.To && slices.EqualFunc(last.Rules, vote.Rules, sameRule) && sameTerms(last.Remember, vote.Remember):
		return true, nil
	case last.Kind == message.ResponseApprove && vote.Kind != message.ResponseApprove:
		return false, nil
	}
	return false, &message.Error{Code: message.CodeConflict, Call: c.Clone(), What: vote.By.Name + " has answered this approval request before: " + string(last.Kind), Hint: "it can still be rejected; else leave it to the others"}
}

// taken reports whether this very answer was taken before and is only sent
// again, because its reply was lost. The same id for another answer is a
// conflict.
func taken(c *message.Call, by message.Principal, a message.Response) (bool, error) {
	if a.ID == "" {
		return false, nil
	}
	i := slices.IndexFunc(c.Votes, func(v message.Vote) bool { return v.ID == a.ID && v.By.Name == by.Name })
	switch {
	case i < 0:
		return false, nil
	case c.Votes[i].Kind == a.Kind && c.Votes[i].Digest == a.Digest:
		return true, nil
	}
	return false, &message.Error{Code: message.CodeConflict, Call: c.Clone(), What: "another answer of " + by.Name + " to this call has the same response_id", Hint: "give each answer an id of its own"}
}
