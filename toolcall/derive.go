package toolcall

import (
	"container/list"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
)

// derivation is what a reader derives about the members of a call: only what differs is
// stored. It depends only on the record, its base, and the members decoded before.
//
// Invariant: for the same input it never changes, because journals depend on it. A reader
// of a compact record computes this:
//
//  1. `v` becomes 2. `id`, `at`, `note`, `explanation` and `prev` are as stored, and `by` is role, name and auth.
//  2. A record with `call` has no base. One with `change` builds on the record that `base` names, else on that of `prev`: another sequence or hash there is an error. The base is computed first; no record needs more than 3 others.
//  3. A missing `engine` is the base's.
//  4. A step of `path` is a Step, or cause and `to`. `from` is the `to` of the step before, at first the state of the base's call (without a base: ""). A missing `to` is `from`.
//  5. The call is expected to be empty, with `records` 1 and `proposed_at` and `updated_at` the record's `at`; with a base, it is the base's call with `first_seq` the base's sequence if its `records` is 1, `begun` one more if a cause is start, and, without a `note`, `records` one more and `updated_at` the record's `at`. `cause` and `state` are those of the last step. If causes are edit and allow, `decision` is the base's with `behavior` allow and `reason` "approved as edited by ", the name in `by`, "; " and the base's reason.
//  6. Members of `call` or `change` replace expected ones; null removes one. The members below follow in their order. Unknown members are errors.
//  7. `request` is the base's, with the call's input if a cause is edit. An object replaces members of that; if the base has none, of one with `v` 1, the call's key, tool, input, `cwd` and definition, a requirement with no users, and the decision's message (as `text`), rule, source, reason and bundle.
//  8. `votes` are the base's. A list replaces them. `{"add":[…]}` adds votes, each an object that replaces members of a vote with the record's `by` and `at`, the call's digest and, if a cause is approve, the kind approve; with a base and the cause edit, of one with `kind` approve, the base's digest, `edited`, and the call's digest as `made`.
//  9. `attempt` is the base's. If a cause is submit or offer, it is a new one: `number` one more, `offered_at` the record's `at`, `offer_until` 10 minutes later, `offers` 1. Else, if a cause is start, `started_at` is the record's `at`, `lease_ms` 10000, `worker` the name in `by` of a worker, else the engine; and `number` 0 becomes 1 with `offered_at` the record's `at`. The object replaces members.
//  10. `grant` within it is the base's. If a cause is submit or offer, a remote call with a request has one with `v` 1, the call's key, idempotency key, tool and digest, the attempt's number, the request's bundle, the decision's route, `not_before` 5 seconds before the record's `at`, `expires` the attempt's `offer_until`, and as `approvals` by, at and signature of each vote approve whose `made`, or unedited `digest`, is the call's digest; if there is none, the engine, with auth in-process, at the record's `at`. The object replaces members, null removes it.
//  11. `proposal` is the base's. Without a base it is the SHA-256 of the RFC 8785 form of `[tool, input]`, as "sha256:" and hexadecimal, or nothing if the input has more than 4096 bytes.
//  12. `suggested_rules` are the base's. Without a base and with a decision ask they are one: the tool's name, allow, source suggested.
//  13. `result` is the base's. An object, if a cause is result, replaces members of one with the call's id and tool, state success, empty metadata, and `finished_at` equal to `created_at`; an object that begins with `type` is the whole result.
//  14. `result_digest` is the base's. If a cause is result, it is the SHA-256 of the JSON of the result's output, state and metadata, in this order; if the request hides arguments, "hmac-sha256:" and the HMAC-SHA256 of "askance-result-v1", a zero byte and that digest under the request's salt; nothing if the output is not a text, has more than 4096 bytes, or there is metadata.
//  15. `hides` must be the paths that the request's `hidden` and the call's `redact` name, sorted, each once.
type derivation struct {
	f    *EventRecord
	call *Call // expected values of the members without a method below
	base *Call // nil if there is none
}

// derive sets call to the expected values of its members.
func derive(rec *EventRecord, base *RecordBase, call *Call) derivation {
	d := derivation{f: rec, call: call}
	if base == nil {
		*call = Call{Records: 1, UpdatedAt: rec.At, ProposedAt: rec.At}
	} else {
		d.base, *call = base.Record.Call, *base.Record.Call
		if d.call.Records == 1 {
			d.call.First = base.Seq
		}
		d.call.Seq = 0
		if d.took(CauseStart) {
			d.call.Begun++
		}
		if rec.Note == nil {
			d.call.Records, d.call.UpdatedAt = d.call.Records+1, rec.At
		}
		if p := d.base.Decision; d.took(CauseEdit) && d.took(CauseAllow) && p != nil {
			allowed := *p
			allowed.Behavior, allowed.Reason = message.BehaviorAllow, EditedReason(rec.By.Name, p.Reason)
			d.call.Decision = &allowed
		}
	}
	if n := len(rec.Path); n > 0 {
		d.call.Cause, d.call.State = rec.Path[n-1].Cause, rec.Path[n-1].To
	}
	return d
}

// request returns the expected approval request: its text repeats the call and the
// decision.
func (d derivation) request(c *Call) *ApprovalRequest {
	if d.base != nil && d.base.Request != nil {
		if !d.took(CauseEdit) {
			return d.base.Request
		}
		edited := *d.base.Request
		edited.Input = c.Input
		return &edited
	}
	req := &ApprovalRequest{V: 1, Key: c.Key, Tool: c.Tool, Input: c.Input, Cwd: c.Cwd, Definition: c.Definition, Requirement: Requirement{Users: []string{}}}
	if p := c.Decision; p != nil {
		req.Text, req.Rule, req.Source, req.Reason, req.Bundle = p.Message, p.Rule, p.Source, p.Reason, p.Bundle
	}
	return req
}

// votes returns the votes of the base, to which the record adds.
func (d derivation) votes() []Vote {
	if d.base == nil {
		return nil
	}
	return d.base.Votes
}

// vote returns the expected values of a vote that the record adds.
func (d derivation) vote(c *Call) Vote {
	v := Vote{By: d.f.By, At: d.f.At, Digest: c.Digest}
	switch {
	case d.took(CauseApprove):
		v.Kind = ResponseApprove
	case d.base != nil && d.took(CauseEdit):
		v.Kind, v.Digest, v.Edited, v.Made = ResponseApprove, d.base.Digest, true, c.Digest
	}
	return v
}

// derivedSize limits the texts that are hashed to derive a digest: for larger ones it costs
// less to store the digest.
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

// suggested returns the expected suggested rules: the one that allows the tool.
func (d derivation) suggested(c *Call) []message.PermissionRule {
	switch {
	case d.base != nil:
		return d.base.Suggested
	case c.Decision == nil || c.Decision.Behavior != message.BehaviorAsk:
		return nil
	}
	return []message.PermissionRule{{ToolName: c.Tool, Behavior: message.BehaviorAllow, Source: "suggested"}}
}

// result returns the expected result, without the time of its end, or nil.
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

func (d derivation) took(causes ...Cause) bool { return d.f.took(causes...) }

func (r *EventRecord) took(causes ...Cause) bool {
	return slices.ContainsFunc(r.Path, func(s Step) bool { return slices.Contains(causes, Cause(s.Cause)) })
}

// EditedReason is the reason of a decision to allow what an approver edited.
func EditedReason(editor, asked string) string {
	return "approved as edited by " + editor + "; " + asked
}

// attempt returns the expected attempt, without its grant.
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

// Expected settings of an engine. They are part of the format: settings that differ are
// stored.
const (
	derivedSkew  = 5 * time.Second // how long before its offer a grant is valid
	derivedOffer = 10 * time.Minute
	derivedLease = 10 * time.Second
)

// grant returns the expected grant of an attempt, or nil.
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

// BaseCache caches the last record of each call, on which the next one builds, up to a
// number of bytes. It drops the oldest first. It must be used by one goroutine at a time.
type BaseCache struct {
	// MaxBytes limits the stored bytes of cached records, plus baseRoom for each.
	MaxBytes int

	entries map[uint64]*list.Element
	order   list.List // of *cachedBase, oldest first
	bytes   int
}

type cachedBase struct {
	base  *RecordBase
	bytes int
}

// baseRoom is roughly what a base needs in memory besides its stored bytes.
const baseRoom = 2 << 10

// At returns the record at seq, or nil.
func (c *BaseCache) At(seq uint64) *RecordBase {
	if e := c.entries[seq]; e != nil {
		return e.Value.(*cachedBase).base
	}
	return nil
}

// Find returns the base at seq of a record that follows the one at prev, or nil.
func (c *BaseCache) Find(seq, prev uint64) *RecordBase {
	if found := c.At(seq); found != nil {
		return found
	}
	if last := c.At(prev); last != nil && last.Whole != nil && last.Whole.Seq == seq {
		return last.Whole
	}
	return nil
}

// Put adds a record that has the given stored size. It replaces the record before it, which
// only this record still needed.
func (c *BaseCache) Put(b *RecordBase, bytes int) {
	if c.entries == nil {
		c.entries = map[uint64]*list.Element{}
	}
	bytes += baseRoom
	if p := b.Record.Prev; p != nil {
		bytes += c.drop(p.Seq) // the two share what has not changed
	}
	c.drop(b.Seq)
	c.entries[b.Seq], c.bytes = c.order.PushBack(&cachedBase{b, bytes}), c.bytes+bytes
	for c.bytes > c.MaxBytes && c.order.Len() > 1 {
		c.drop(c.order.Front().Value.(*cachedBase).base.Seq)
	}
}

// Drop removes a record and the one before it.
func (c *BaseCache) Drop(b *RecordBase) {
	c.drop(b.Seq)
	if p := b.Record.Prev; p != nil {
		c.drop(p.Seq)
	}
}

// drop removes a record and returns its bytes.
func (c *BaseCache) drop(seq uint64) int {
	e := c.entries[seq]
	if e == nil {
		return 0
	}
	delete(c.entries, seq)
	n := c.order.Remove(e).(*cachedBase).bytes
	c.bytes -= n
	return n
}
