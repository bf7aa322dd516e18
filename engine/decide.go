package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine/internal/store"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// request is what the policy is asked about a call with the given input.
func (e *Engine) request(c *message.Call, input string, rules []message.PermissionRule) permission.Request {
	return permission.Request{
		Tool: c.Tool, Input: []byte(input),
		Caller:  permission.Caller{Agent: c.Agent, User: c.Runtime, Space: e.space, Session: c.Session, Reply: c.Reply, RunID: string(c.Reply)},
		Attempt: max(c.Attempt.Number, 1), CallsThisRun: e.view.CountUpTo(c),
		Mode: e.cfg.mode, Now: time.Now().UTC(), Cwd: e.cfg.cwd, WorkingDirs: e.cfg.dirs, SessionRules: rules,
	}
}

// unfit says why a call cannot be decided at all, in words for the model: an
// unknown tool that nobody offered to run, or input that is no JSON object or
// breaks the tool's schema. "" is fit.
func (e *Engine) unfit(c *message.Call) string {
	tool, input := c.Tool, c.Input
	t, ok := e.tools[tool]
	if !ok && c.Placement != message.PlaceExternal {
		return fmt.Sprintf("ToolNotFoundError: The tool named '%s' doesn't exist.", tool)
	}
	if err := objectOnly(input); err != nil {
		return fmt.Sprintf("InvalidArgumentError: The input of tool '%s' is not a JSON object: %v", tool, err)
	}
	if t.Schema != nil {
		if err := t.Schema.Validate([]byte(input)); err != nil {
			return fmt.Sprintf("InvalidArgumentError: The input of tool '%s' does not fit its schema: %v", tool, err)
		}
	}
	return ""
}

// placement is where a call is to run. What its proposal said of a tool that
// the engine did not know holds for good.
func (e *Engine) placement(c *message.Call) message.Placement {
	if c.Placement == message.PlaceExternal {
		return c.Placement
	}
	return e.tool(c.Tool).Placement
}

// objectOnly checks that text is one well-formed JSON object.
func objectOnly(text string) error {
	_, err := strictjson.Object([]byte(text))
	return err
}

// asEvent makes the machine's event of a decision about a call, with the
// approval request that the answer is bound to.
func (e *Engine) asEvent(c *message.Call, input string, d permission.Decision) (toolcall.Decided, error) {
	base := stamp()
	return e.approval(c, input, d, base, issue(c, d, base.At))
}

// approval request makes the event of a decision, and the approval request that goes with it.
func (e *Engine) approval(c *message.Call, input string, d permission.Decision, base toolcall.Base, r message.Requirement) (toolcall.Decided, error) {
	q := message.ApprovalRequest{
		V: 1, Key: c.Key, Tool: c.Tool, Input: input, Text: d.Message,
		Rule: d.Rule, Source: source(d), Reason: d.Reason, Bundle: d.Bundle,
		Requirement: r, Hidden: d.Redact,
	}
	if len(q.Hidden) > 0 {
		q.Salt = store.RandomHex(16)
	}
	digest, err := q.Digest()
	if err != nil {
		return toolcall.Decided{}, err
	}
	return toolcall.Decided{
		Base: base, Decision: handled(d), Request: q, Digest: digest,
		Suggested: d.Suggested, Placement: e.placed(c, d),
	}, nil
}

// issue makes the requirement of an approval request about c: the whole plan is fixed
// now, and who is excluded by name.
func issue(c *message.Call, d permission.Decision, now time.Time) message.Requirement {
	r := d.Requirement.Issue(now)
	if r.Users == nil {
		r.Users = []string{}
	}
	r.Remember = issued(d.Requirement.Remember)
	if r.ExcludeRequester {
		r.Requester = c.Runtime
	}
	if r.ExcludeEditor {
		r.Editors = editors(c)
	}
	return r
}

// editors are those who changed the call's arguments since it was proposed.
func editors(c *message.Call) []string {
	var out []string
	for _, v := range c.Votes {
		if v.Edited && !slices.Contains(out, v.By.Name) {
			out = append(out, v.By.Name)
		}
	}
	slices.Sort(out)
	return out
}

// source names where a decision comes from: the rule's source, or the step of
// the procedure where no rule decided.
func source(d permission.Decision) string {
	if d.Source != "" {
		return d.Source
	}
	return string(d.Step)
}

// kept is the decision as event records keep it.
func kept(d permission.Decision) message.Decision {
	out := message.Decision{Behavior: d.Behavior, Rule: d.Rule, Source: source(d), Reason: d.Reason, Message: d.Message, Bundle: d.Bundle}
	for _, re := range d.Errors {
		out.Errors = append(out.Errors, re.Error())
	}
	return out
}

// decisionHolds is how long a decision is not asked for again under one bundle.
const decisionHolds = time.Second

// deniedNow reports whether a deny rule that came into force since the call was
// decided is about it. While the bundle is the same only time can have brought
// one into force: then the call is asked about again once it has waited, and a
// deny rule that cannot be evaluated was among the reasons of the first decision.
func (e *Engine) deniedNow(ctx context.Context, c *message.Call) (permission.Decision, bool) {
	same := c.Decision != nil && c.Decision.Bundle == e.policy.Hash()
	if same && stamp().At.Sub(c.UpdatedAt) < decisionHolds {
		return permission.Decision{}, false
	}
	d, denied := e.policy.Denied(ctx, e.request(c, c.Input, e.view.Rules(c.SessionKey())))
	denied = denied && (!same || d.Behavior == message.BehaviorDeny)
	if !hidesAll(d.Redact, hiddenOf(c)) { // its texts may repeat what was hidden until now
		d.Reason, d.Message, d.Errors = laterDenial, "Permission denied for "+c.Tool+" ("+laterDenial+").", nil
	}
	d.Behavior = message.BehaviorDeny // a deny rule that cannot be evaluated denies here: nobody would be asked
	return d, denied
}

// laterDenial is said of a denial whose own words are not to be shown.
const laterDenial = "the policy denies it by now; why is hidden with the arguments"

// begin takes an allowed call as far as it goes within the same event record: a local
// call is started by this engine, any other is submitted. A call that relies on
// standing approvals begins only once it is on record that it is allowed: whoever
// revokes such a rule finds it there, and of the two who write next one wins.
func (e *Engine) begin(m *toolcall.Machine) error {
	c := m.Call()
	if len(c.Decision.StandingApprovals()) > 0 && c.Placement != message.PlaceRemote { // a worker asks to start
		return nil
	}
	return e.beginNow(m)
}

func (e *Engine) beginNow(m *toolcall.Machine) error {
	c := m.Call()
	t := e.tool(c.Tool)
	base := stamp()
	switch c.Placement {
	case message.PlaceLocal:
		if !e.canRun(c.Tool) {
			return nil // stays allowed until a replica that has the tool starts it
		}
		return m.Step(e.localStart(c, t, base, 1))
	case message.PlaceExternal:
		return m.Step(toolcall.Submitted{Base: base, Attempt: message.Attempt{Number: 1, OfferedAt: base.At}})
	default:
		a, err := e.offer(c, t, 1, 0, base.At)
		if err != nil {
			return err
		}
		return m.Step(toolcall.Submitted{Base: base, Attempt: a})
	}
}

func (e *Engine) localStart(c *message.Call, t Tool, base toolcall.Base, number int) toolcall.Started {
	return toolcall.Started{
		Base: base, Attempt: number, Worker: e.cfg.id, Claim: store.RandomHex(8), LeaseMS: t.Lease.Milliseconds(), Deadline: deadline(c, t, base.At),
	}
}

// offer makes attempt number of a remote call with a fresh signed grant.
// offers counts how often this attempt was offered before.
func (e *Engine) offer(c *message.Call, t Tool, number, offers int, now time.Time) (message.Attempt, error) {
	until := now.Add(t.offerFor(offers))
	g := &message.Grant{
		V: 1, Key: c.Key, IdempotencyKey: c.IdempotencyKey(), Tool: c.Tool, Route: c.Queue().Route, Digest: c.Digest, Attempt: number,
		Bundle: c.Request.Bundle, Approvals: approvals(c, e.self(), now),
		NotBefore: now.Add(-clockSkew), Expires: until, Nonce: store.RandomHex(16),
	}
	if err := g.Sign(e.cfg.signer.SigningKey()); err != nil {
		return message.Attempt{}, err
	}
	a := message.Attempt{Number: number, Grant: g, OfferedAt: now, OfferUntil: until, Offers: offers + 1}
	if offers > 0 {
		a.OfferedAt = c.Attempt.OfferedAt
	}
	return a, nil
}

// clockSkew is how far a worker's clock may lag behind the engine's before it
// takes a fresh grant for one from the future.
const clockSkew = 5 * time.Second

// approvals lists who agreed to the very approval request that the grant names, as its
// requirement counts them; else the policy through this engine. Who edited into
// an approval request that asked for other reasons did not agree to it.
func approvals(c *message.Call, engine message.Principal, now time.Time) []message.Approval {
	out := []message.Approval{}
	for _, v := range c.Tally().Approvals {
		out = append(out, message.Approval{By: v.By, At: v.At, Signature: v.Signature})
	}
	if n := len(c.Votes); len(out) == 0 && n > 0 && c.Votes[n-1].Edited && c.Votes[n-1].Made == "" {
		out = append(out, message.Approval{By: c.Votes[n-1].By, At: c.Votes[n-1].At}) // an event record of an earlier release: nobody was asked again
	}
	if len(out) == 0 {
		out = append(out, message.Approval{By: engine, At: now})
	}
	return out
}
