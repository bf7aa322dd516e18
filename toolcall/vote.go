package toolcall

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
)

// ResponseKind is the kind of an approver's response.
type ResponseKind string

// The kinds of response.
const (
	ResponseApprove ResponseKind = "approve" // counts towards the requirement, and completing it allows the call; with input it is a new proposal, which schema and policy decide again
	ResponseReject  ResponseKind = "reject"  // one is enough; the model sees the feedback in the result
	ResponseRespond ResponseKind = "respond" // the approver supplies the result, and nothing runs; only if this person alone could approve
	// ResponseSkip and ResponseDelegate leave the approval request to others. Neither lets
	// a person respond who otherwise could not.
	ResponseSkip     ResponseKind = "skip"     // leaves the request to others, with a note
	ResponseDelegate ResponseKind = "delegate" // the same, and names a person, who gets no new rights
)

// Vote is a response as event records store it. By.Auth says how the person was
// authenticated.
type Vote struct {
	ID       string       `json:"response_id,omitzero"` // of the response, if its sender gave one
	Kind     ResponseKind `json:"kind"`
	By       Principal    `json:"by"`
	At       time.Time    `json:"at"`
	Digest   string       `json:"digest"` // of the approval request that was answered
	Edited   bool         `json:"edited,omitzero"`
	Feedback string       `json:"feedback,omitzero"`

	// Groups are the person's groups, at the time of the response, that the requirement
	// names, and GroupsFrom is the directory that provided them.
	Groups     []string `json:"groups,omitzero"`
	GroupsFrom string   `json:"groups_from,omitzero"`
	// Step is how many steps of the requirement's plan had been reached.
	Step int `json:"step,omitzero"`
	// Made, for an edit, is the digest of the approval request with the new arguments, if
	// the edit counts as an approval of it.
	Made string `json:"made,omitzero"`
	Note string `json:"note,omitzero"` // for skip and delegate, for people
	To   string `json:"to,omitzero"`   // for delegate: who should respond
	// Signature is the person's own signature of an approval, which the engine has checked.
	Signature *ApproverSignature `json:"signature,omitzero"`
	// Rules are rules that this approval wants remembered.
	Rules []message.PermissionRule `json:"rules,omitzero"`
	// Remember is what this approval wants remembered with terms.
	Remember *StandingTerms `json:"remember,omitzero"`
	// Void says why the approval does not count with the current keys. It is set in replies
	// and never stored.
	Void string `json:"void,omitzero"`
}

// On reports whether the vote applies to the approval request with this digest.
func (v Vote) On(digest string) bool {
	return v.Made == digest && digest != "" || !v.Edited && v.Digest == digest
}

// VoteOf returns a person's last vote on the open approval request.
func (c *Call) VoteOf(name string) (Vote, bool) {
	for _, v := range slices.Backward(c.Votes) {
		if IsSamePerson(v.By.Name, name) && v.On(c.Digest) {
			return v, true
		}
		if v.Edited {
			break // an edit voids earlier votes
		}
	}
	return Vote{}, false
}

// CanRevise reports whether a person whose last vote is v can respond again. A person can
// become more careful, never less, so an old response sent again changes nothing.
// They can sign again when their signature has ended.
func (v Vote) CanRevise(kind ResponseKind, edits bool, now time.Time) bool {
	return kind == ResponseReject || v.Kind == ResponseApprove && (edits || kind != ResponseApprove || v.Void != "" || v.HasEnded(now))
}

// HasEnded reports whether the signature of the vote has ended: then the vote approves nothing.
func (v Vote) HasEnded(now time.Time) bool {
	return v.Signature != nil && !now.Before(v.Signature.Until)
}

// ApprovesAlone reports whether an approval by the person of v would suffice alone.
func (r Requirement) ApprovesAlone(v Vote) bool {
	v.Kind = ResponseApprove
	return r.Tally([]Vote{v}, v.Digest, v.Step).Agreed
}

// Tally is the result of counting the votes on an approval request against its requirement.
type Tally struct {
	Parts  []Part `json:"parts"`
	Agreed bool   `json:"agreed"` // every part has enough approvals
	// Approvals are the votes that count, one for each person, in order.
	Approvals []Vote `json:"-"`
}

// Part is one group of people that has to agree. Without users and groups it is any
// approver of the space.
type Part struct {
	Rule     string   `json:"rule,omitzero"`
	Users    []string `json:"users,omitzero"`
	Groups   []string `json:"groups,omitzero"`
	Quorum   int      `json:"quorum"`            // how many people must approve
	Approved []string `json:"approved,omitzero"` // names of those who approved
	Missing  int      `json:"missing"`           // how many more must approve
}

// Tally counts the votes on the call's approval request, as Requirement.Tally does.
func (c *Call) Tally(counts ...func(Vote) bool) Tally {
	if c.Request == nil {
		return Tally{}
	}
	return c.Request.Requirement.Tally(c.Votes, c.Digest, c.Step, counts...)
}

// EndingVote returns the last vote on a call that is no longer asking, if it ended the approval
// request. Otherwise that expired or was interrupted.
func EndingVote(c *Call) (Vote, bool) {
	if len(c.Votes) == 0 {
		return Vote{}, false
	}
	v := c.Votes[len(c.Votes)-1]
	return v, v.Kind == ResponseReject || v.Kind == ResponseRespond || c.Cause != string(CauseExpire) && c.Tally().Agreed
}

// Tally is Call.Tally without the approvals whose signatures Vote.CheckSignature refuses. why is the
// error of one of them: if any may count on another engine, of that one.
func (k ApproverKeys) Tally(c *Call, now time.Time) (t Tally, why error) {
	t = c.Tally(func(v Vote) bool {
		err := v.CheckSignature(k, now)
		if why == nil || errors.Is(err, message.ErrUnavailable) {
			why = cmp.Or(err, why)
		}
		return err == nil
	})
	return t, why
}

// MarkVotes sets Void of the votes on an open approval request. The call is the caller's own copy.
func (k ApproverKeys) MarkVotes(c *Call, now time.Time) {
	if c.State != message.ToolCallAsking {
		return
	}
	c.Votes = slices.Clone(c.Votes)
	for i, v := range c.Votes {
		if err := v.CheckSignature(k, now); err != nil && v.On(c.Digest) {
			c.Votes[i].Void = message.AsError("", err).What
		}
	}
}

// KeyLag is how much later than another engine an engine may learn of a new key of an approver.
const KeyLag = time.Minute

// CheckSignature returns why the signature of an approval does not count now, or nil if it counts or
// there is none. keys are the approvers' current keys, or nil if they are not known here. The error is
// CodeUnavailable if the key is unknown here: another engine, with a newer directory, may know it.
func (v Vote) CheckSignature(keys ApproverKeys, now time.Time) error {
	if v.Signature == nil {
		return nil
	}
	if keys[v.By.Name][v.Signature.KeyID] == nil && !v.HasEnded(now) {
		return &message.Error{Code: message.CodeUnavailable, Op: "verify", What: "this engine does not know the key " + v.Signature.KeyID + " of " + v.By.Name + ", which was removed or is new", Hint: "try again once the directory of every engine has the key, or have the call approved by others"}
	}
	return v.Signature.Verify(keys, v.Digest, v.By.Name, now)
}

// Tally counts the votes on the approval request with this digest. Each person counts once
// in each part, with their last vote, unless its signature had ended by the time of the latest
// vote, or one of the functions counts returns false. The parts name who is asked after the given
// number of steps of the plan.
func (r Requirement) Tally(votes []Vote, digest string, step int, counts ...func(Vote) bool) Tally {
	t := Tally{Parts: r.partsAt(step), Agreed: true}
	last := lastWords(votes, digest)
	var now time.Time
	for _, v := range last {
		now = slices.MaxFunc([]time.Time{now, v.At}, time.Time.Compare)
	}
	t.Approvals = last[:0]
	for _, v := range last {
		if v.Kind != ResponseApprove || v.Void != "" || v.HasEnded(now) || !r.isCounted(v) || !isCountedBy(counts, v) {
			continue
		}
		accepted := false
		for i := range t.Parts {
			if r.isInPart(i, v) {
				t.Parts[i].Approved, accepted = append(t.Parts[i].Approved, v.By.Name), true
			}
		}
		if accepted {
			t.Approvals = append(t.Approvals, v)
		}
	}
	for i := range t.Parts {
		t.Parts[i].Missing = max(0, t.Parts[i].Quorum-len(t.Parts[i].Approved))
		t.Agreed = t.Agreed && t.Parts[i].Missing == 0
	}
	return t
}

func isCountedBy(counts []func(Vote) bool, v Vote) bool {
	return !slices.ContainsFunc(counts, func(f func(Vote) bool) bool { return !f(v) })
}

// lastWords returns each person's last vote on an approval request. An edit voids earlier
// votes, even if it restores old arguments.
func lastWords(votes []Vote, digest string) []Vote {
	var out []Vote
	for _, v := range votes {
		if v.Edited {
			out = nil
		}
		if !v.On(digest) {
			continue
		}
		out = slices.DeleteFunc(out, func(o Vote) bool { return IsSamePerson(o.By.Name, v.By.Name) })
		out = append(out, v)
	}
	return out
}

// partsAt returns the parts, each with the people who are asked after the given number of
// steps of the plan.
func (r Requirement) partsAt(step int) []Part {
	var out []Part
	if len(r.Users) > 0 {
		out = append(out, Part{Users: r.Users, Quorum: max(r.Quorum, 1)})
	}
	at := r.at(step)
	for _, s := range r.Approvers {
		p := Part{Rule: s.Rule, Quorum: max(cmp.Or(s.Quorum, r.Quorum), 1)}
		for _, e := range s.stepsAt(at, r.isLastStep(at)) {
			p.Users, p.Groups = appendNew(p.Users, e.Users), appendNew(p.Groups, e.Groups)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		out = append(out, Part{Quorum: max(r.Quorum, 1)})
	}
	return out
}

// appendNew adds the names that a list does not have: an escalation can name people who are asked already.
func appendNew(list, names []string) []string {
	for _, name := range names {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// isLastStep reports whether only the people of the last escalation are asked.
func (r Requirement) isLastStep(at time.Time) bool {
	return r.hasEscalation() && !at.Before(r.Deadline)
}

// isInPart reports whether part i, as returned by partsAt, accepts the voter.
func (r Requirement) isInPart(i int, v Vote) bool {
	if len(r.Users) > 0 {
		if i == 0 {
			return slices.Contains(r.Users, v.By.Name)
		}
		i--
	}
	if len(r.Approvers) == 0 {
		return true
	}
	at := r.at(v.Step)
	return slices.ContainsFunc(r.Approvers[i].stepsAt(at, r.isLastStep(at)), func(e EscalationStep) bool {
		return slices.Contains(e.Users, v.By.Name) || slices.ContainsFunc(v.Groups, func(g string) bool { return slices.Contains(e.Groups, g) })
	})
}

// at is the time that the plan has reached after n steps.
func (r Requirement) at(n int) time.Time {
	plan := r.Plan()
	if n <= 0 || len(plan) == 0 {
		return time.Time{}
	}
	return plan[min(n, len(plan))-1]
}

// isCounted reports whether the person's approval can count at all.
func (r Requirement) isCounted(v Vote) bool {
	return r.Accepts(v) && !(r.Signed && v.Signature == nil) && !(r.ExcludeEditor && r.IsEditor(v.By.Name))
}

// IsEditor reports whether the person changed the arguments.
func (r Requirement) IsEditor(name string) bool {
	return slices.ContainsFunc(r.Editors, func(e string) bool { return IsSamePerson(e, name) })
}

// Excludes reports whether the person may not respond because the call, or one around it, is made
// on their behalf.
func (r Requirement) Excludes(name string) bool {
	return r.ExcludeRequester && (r.Requester == "" || slices.ContainsFunc(r.Requesters(), func(q string) bool { return IsSamePerson(q, name) }))
}

// Requesters returns everyone on whose behalf the call and those around it are made.
func (r Requirement) Requesters() []string {
	return append([]string{r.Requester}, r.RequestersAround...)
}

// Accepts reports whether the person may respond at all: reject, skip or, unless they wrote
// the arguments themselves, approve.
func (r Requirement) Accepts(v Vote) bool {
	if v.By.Name == "" || r.Excludes(v.By.Name) {
		return false
	}
	for i := range max(1, min(1, len(r.Users))+len(r.Approvers)) { // as many as partsAt returns
		if r.isInPart(i, v) {
			return true
		}
	}
	return false
}
