package permission

import (
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/rulefile"
	"github.com/askance-dev/askance/toolcall"
)

// This file turns the keys of a rule file into a Policy.

// policyOf makes a policy of the keys of one file.
func policyOf(doc *rulefile.File, layer Layer) filePolicy {
	out := filePolicy{layer: layer, at: doc.At}
	if !doc.Sound {
		return out
	}
	out.disable = doc.Disable
	out.Mode, out.Expiry, out.Shell = doc.Defaults.Mode, doc.Defaults.Expiry, doc.Defaults.Shell
	for _, t := range doc.Vocabulary {
		out.Vocabulary = append(out.Vocabulary, Term{Name: t.Name, Expr: t.Expr, at: t.At})
	}
	for i := range doc.Rules {
		if r := &doc.Rules[i]; r.Sound {
			out.Rules = append(out.Rules, ruleOf(r, doc, layer))
		}
	}
	for i := range doc.Tests {
		if t := &doc.Tests[i]; t.Sound {
			out.Tests = append(out.Tests, testOf(t))
		}
	}
	return out
}

// filePolicy is what one file says.
type filePolicy struct {
	Policy
	layer   Layer
	disable []string // names of rules to take out
	at      *rulefile.Origin
}

// ruleOf makes a rule of its keys and of the defaults of its file.
func ruleOf(r *rulefile.Rule, file *rulefile.File, layer Layer) Rule {
	out := Rule{
		Name: r.Name, Description: r.Description, Tools: slices.Concat(r.Tool, r.ToolName),
		RuleContent: r.RuleContent, Behavior: r.Behavior, Source: r.Source, When: r.When, Message: r.Message,
		OnError: OnError(r.OnError), Locked: r.Locked, Layer: layer, Enforcement: Enforcement(r.Enforcement),
		Approvers: Approvers(r.Approvers), Quorum: r.Quorum, Signed: r.Signed, Expiry: r.Expiry, OnExpiry: OnExpiry(r.OnExpiry),
		Redact: r.Redact, Executor: Executor(r.Executor), Audit: AuditLevel(r.Audit.Level),
		TrustOptions: r.TrustOptions, IKnow: r.IKnow, at: r.At,
	}
	if r.Match.AgentScope != nil {
		out.RuleContent = r.Match.AgentScope
	}
	for _, e := range r.Escalation {
		out.Escalation = append(out.Escalation, Escalation{After: e.After, To: Approvers{Users: e.To.Users, Groups: e.To.Groups}})
	}
	if r.Remember != nil {
		out.Remember = &Remember{Scope: r.Remember.Scope, TTL: r.Remember.TTL, Uses: r.Remember.MaxUses}
	}
	out.fillDefaults(file)
	return out
}

// fillDefaults takes what the rule leaves out from the defaults of its file.
func (r *Rule) fillDefaults(file *rulefile.File) {
	def := &file.Defaults
	if r.Source == "" {
		r.Source = file.Name
	}
	if r.OnError == "" && !r.Locked && r.Behavior != message.BehaviorAllow {
		r.OnError = OnError(def.OnError)
	}
	if r.Enforcement == "" && !r.Locked {
		r.Enforcement = Enforcement(def.Enforcement)
	}
	if r.Audit == "" {
		r.Audit = AuditLevel(def.Audit.Level)
	}
	if r.Behavior != message.BehaviorAsk {
		return
	}
	if r.Expiry == 0 {
		r.Expiry = def.Expiry
	}
	// A rule without escalation cannot escalate.
	if r.OnExpiry == "" && (OnExpiry(def.OnExpiry) != OnExpiryEscalate || len(r.Escalation) > 0) {
		r.OnExpiry = OnExpiry(def.OnExpiry)
	}
}

func testOf(t *rulefile.Test) Test {
	c, e := &t.Call, &t.Expect
	args := []byte(c.Input)
	if c.Args != nil {
		args = *c.Args
	} else if c.Input == "" {
		args = []byte("{}")
	}
	out := Test{
		Name: t.Name, Description: t.Description, at: t.At,
		Expect: Expect{
			Behavior: e.Behavior, Rule: e.Rule, Step: Step(e.Step), Message: e.Message, Quorum: e.Quorum, Expiry: e.Expiry, OnExpiry: OnExpiry(e.OnExpiry),
			Users: e.Users, Groups: e.Groups, Redact: e.Redact, Errors: e.Errors,
		},
		Call: TestCall{
			Tool: c.Tool, Args: args, Mode: c.Mode, Now: c.Now.Time, Cwd: c.Cwd, WorkingDirs: c.WorkingDirs,
			Attempt: c.Attempt, CallsThisRun: c.CallsThisRun, Caller: callerOf(c.Caller),
		},
	}
	for _, r := range c.SessionRules {
		out.Call.SessionRules = append(out.Call.SessionRules, message.PermissionRule(r))
	}
	return out
}

func callerOf(c rulefile.Caller) Caller {
	return Caller{
		Agent: c.Agent, User: c.User, Space: toolcall.SpaceID(c.Space), Session: message.SessionID(c.Session),
		Reply: message.ReplyID(c.Reply), Roles: c.Roles, Tenant: c.Tenant, RunID: c.RunID, ParentAgent: c.ParentAgent,
	}
}
