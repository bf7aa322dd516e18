package toolcall

import (
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
)

// derivation says what a reader derives of the members of a call: only what differs is
// stored. Its result depends on the record, its base, and members decoded before.
//
// Invariant: for the same input it never changes, because journals depend on it.
type derivation struct {
	f    *EventRecord
	call *Call // what is expected of the members without a method below
	base *Call // nil: none
}

func derive(f *EventRecord, base *RecordBase) derivation {
	d := derivation{f: f, call: &Call{Records: 1, UpdatedAt: f.At, ProposedAt: f.At}}
	if base != nil {
		d.base, d.call = base.Record.Call, base.Record.Call.Clone()
		if d.call.Records == 1 {
			d.call.First = base.Seq
		}
		d.call.Seq = 0
		if d.took(CauseStart) {
			d.call.Begun++
		}
		if f.Note == nil {
			d.call.Records, d.call.UpdatedAt = d.call.Records+1, f.At
		}
	}
	if n := len(f.Path); n > 0 {
		d.call.Cause, d.call.State = f.Path[n-1].Cause, f.Path[n-1].To
	}
	return d
}

// request is what is expected of the approval request: its text repeats the call and the
// decision.
func (d derivation) request(c *Call) *ApprovalRequest {
	if d.base != nil && d.base.Request != nil {
		return d.base.Request
	}
	q := &ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Definition: c.Definition, Requirement: Requirement{Users: []string{}}}
	if p := c.Decision; p != nil {
		q.Text, q.Rule, q.Source, q.Reason, q.Bundle = p.Message, p.Rule, p.Source, p.Reason, p.Bundle
	}
	return q
}

// votes are those of the base, to which the record adds.
func (d derivation) votes() []Vote {
	if d.base == nil {
		return nil
	}
	return d.base.Votes
}

// vote is what is expected of a vote that the record adds.
func (d derivation) vote(c *Call) Vote {
	v := Vote{By: d.f.By, At: d.f.At, Digest: c.Digest}
	if d.took(CauseApprove) {
		v.Kind = ResponseApprove
	}
	return v
}

// derivedSize limits the texts that are hashed to derive a digest: of larger ones the
// digest costs less to store.
const derivedSize = 4 << 10

func (d derivation) proposal(c *Call) string {
	switch {
	case d.base != nil:
		return d.base.Proposal
	case len(c.Input) > derivedSize:
		return ""
	}
	return ProposalDigest(c.Tool, c.Input)
}

// suggested is what is expected of the suggested rules: the one that allows the tool.
func (d derivation) suggested(c *Call) []message.PermissionRule {
	switch {
	case d.base != nil:
		return d.base.Suggested
	case c.Decision == nil || c.Decision.Behavior != message.BehaviorAsk:
		return nil
	}
	return []message.PermissionRule{{ToolName: c.Tool, Behavior: message.BehaviorAllow, Source: "suggested"}}
}

// result is what is expected of the result, the time of its end left out; nil: none.
func (d derivation) result(c *Call) *message.ToolResultBlock {
	if d.took(CauseResult) {
		return &message.ToolResultBlock{ID: c.Call, Name: c.Tool, State: message.ToolResultSuccess, Metadata: map[string]any{}}
	}
	return nil
}

func (d derivation) resultDigest(c *Call) string {
	switch {
	case !d.took(CauseResult) && d.base != nil:
		return d.base.ResultDigest
	case !d.took(CauseResult) || c.Result == nil || len(c.Result.Output.Text) > derivedSize || c.Result.Output.Blocks != nil || len(c.Result.Metadata) > 0:
		return ""
	}
	digest, _, err := DigestResult(c.Result)
	if err != nil {
		return ""
	}
	return c.SealResult(digest)
}

func (d derivation) took(causes ...Cause) bool {
	return slices.ContainsFunc(d.f.Path, func(s Step) bool { return slices.Contains(causes, Cause(s.Cause)) })
}

// attempt is what is expected of the attempt, its grant left out.
func (d derivation) attempt() Attempt {
	var a Attempt
	if d.base != nil {
		a = d.base.Attempt
	}
	switch {
	case d.took(CauseSubmit, CauseOffer):
		return Attempt{Number: a.Number + 1, OfferedAt: d.f.At, OfferUntil: d.f.At.Add(derivedOffer), Offers: 1}
	case d.took(CauseStart):
		a.StartedAt, a.LeaseMS, a.Worker = d.f.At, derivedLease.Milliseconds(), d.f.Engine
		if d.f.By.Role == RoleWorker {
			a.Worker = d.f.By.Name
		}
		if a.Number == 0 {
			a.Number, a.OfferedAt = 1, d.f.At
		}
	}
	a.Grant = nil
	return a
}

// What is expected of an engine's settings. They are part of the format: settings that
// differ are stored.
const (
	derivedSkew  = 5 * time.Second // of a grant before its offer
	derivedOffer = 10 * time.Minute
	derivedLease = 10 * time.Second
)

// grant is what is expected of the grant of an attempt; nil: none.
func (d derivation) grant(c *Call, a *Attempt) *Grant {
	if !d.took(CauseSubmit, CauseOffer) {
		if d.base == nil {
			return nil
		}
		return d.base.Attempt.Grant
	}
	if c.Placement != PlaceRemote || c.Request == nil {
		return nil
	}
	g := &Grant{
		V: 1, Key: c.Key, IdempotencyKey: c.IdempotencyKey(), Tool: c.Tool, Digest: c.Digest, Attempt: a.Number, Bundle: c.Request.Bundle,
		Approvals: []Approval{}, NotBefore: d.f.At.Add(-derivedSkew), Expires: a.OfferUntil,
	}
	if c.Decision != nil {
		g.Route = c.Decision.Route
	}
	for _, v := range c.Votes {
		if v.Kind == ResponseApprove && v.On(c.Digest) {
			g.Approvals = append(g.Approvals, Approval{By: v.By, At: v.At, Signature: v.Signature})
		}
	}
	if len(g.Approvals) == 0 {
		g.Approvals = append(g.Approvals, Approval{By: Principal{Role: RoleEngine, Name: d.f.Engine, Auth: "in-process"}, At: d.f.At})
	}
	return g
}
