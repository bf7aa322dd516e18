package permission

import (
	"slices"

	"github.com/goccy/go-yaml/ast"

	"github.com/askance-dev/askance/message"
)

// This file turns the keys of a rule file into a Policy.

// policy reads the top level of a rule file.
func (d *fileReader) policy(body ast.Node) filePolicy {
	var doc fileDoc
	d.places = map[string]fieldOrigin{}
	out := filePolicy{layer: d.layer, at: d.originOf(body)}
	if !d.decode(body, "", &doc) {
		return out
	}
	out.disable = doc.Disable
	out.Mode, out.Expiry = doc.Defaults.Mode, doc.Defaults.Expiry
	out.Shell, out.Vocabulary = doc.Defaults.Shell, doc.Vocabulary
	for i := range doc.Rules {
		if r := &doc.Rules[i]; r.sound {
			out.Rules = append(out.Rules, r.rule(&doc, d.layer))
		}
	}
	for i := range doc.Tests {
		if t := &doc.Tests[i]; t.sound {
			out.Tests = append(out.Tests, t.test())
		}
	}
	return out
}

// filePolicy is what one file says.
type filePolicy struct {
	Policy
	layer   Layer
	disable []string // names of rules to take out
	at      *origin
}

// readNode implements nodeReader: it notes the places of the rule's keys, and
// whether the rule may be used.
func (r *ruleDoc) readNode(d *fileReader, n ast.Node, field string) {
	before := len(*d.found)
	outer := d.places
	d.ruleName, d.inRule, d.places = nameIn(n), true, map[string]fieldOrigin{}
	defer func() { d.ruleName, d.inRule, d.places = "", false, outer }()
	r.at = d.originOf(n)
	if _, ok := pairsOrNil(n); !ok {
		d.ruleName = ""
		d.fault(n, field, "is "+nodeName(n)+", want keys and values", "")
		return
	}
	d.decode(n, "", r)
	r.alias(d, n, "tool", "tool_name", r.Tool != nil && r.ToolName != nil)
	r.alias(d, n, "match.agentscope", "rule_content", r.Match.AgentScope != nil && r.RuleContent != nil)
	r.sound = len(*d.found) == before
}

// alias lets a key stand for another one, in the places of faults too.
func (r *ruleDoc) alias(d *fileReader, n ast.Node, key, means string, both bool) {
	if both {
		d.fault(n, key, "stands beside "+means+", which means the same", "keep one of them")
	}
	if f, ok := d.places[key]; ok {
		d.places[means] = f
		r.at.aliases[means] = key
	}
}

// nameIn is the name of a rule, for the faults of its other keys.
func nameIn(n ast.Node) string {
	pairs, _ := pairsOrNil(n)
	for _, kv := range pairs {
		key, isText := kv.Key.(*ast.StringNode)
		name, ok := kv.Value.(*ast.StringNode)
		if isText && ok && key.Value == "name" {
			return name.Value
		}
	}
	return ""
}

func (r *ruleDoc) rule(file *fileDoc, layer Layer) Rule {
	out := Rule{
		Name: r.Name, Description: r.Description, Tools: slices.Concat(r.Tool, r.ToolName),
		RuleContent: r.RuleContent, Behavior: r.Behavior, Source: r.Source, When: r.When, Message: r.Message,
		OnError: r.OnError, Locked: r.Locked, Layer: layer, Enforcement: r.Enforcement,
		Approvers: Approvers(r.Approvers), Quorum: r.Quorum, Signed: r.Signed, Expiry: r.Expiry, OnExpiry: r.OnExpiry,
		Redact: r.Redact, Executor: Executor(r.Executor), Audit: r.Audit.Level,
		TrustOptions: r.TrustOptions, IKnow: r.IKnow, at: r.at,
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
	out.fill(file)
	return out
}

// fill takes what the rule leaves out from the defaults of its file.
func (r *Rule) fill(file *fileDoc) {
	def := &file.Defaults
	if r.Source == "" {
		r.Source = file.Name
	}
	if r.OnError == "" && !r.Locked && r.Behavior != message.BehaviorAllow {
		r.OnError = def.OnError
	}
	if r.Enforcement == "" && !r.Locked {
		r.Enforcement = def.Enforcement
	}
	if r.Audit == "" {
		r.Audit = def.Audit.Level
	}
	if r.Behavior != message.BehaviorAsk {
		return
	}
	if r.Expiry == 0 {
		r.Expiry = def.Expiry
	}
	// A rule that nobody takes over cannot escalate.
	if r.OnExpiry == "" && (def.OnExpiry != OnExpiryEscalate || len(r.Escalation) > 0) {
		r.OnExpiry = def.OnExpiry
	}
}

// readNode implements nodeReader.
func (t *testDoc) readNode(d *fileReader, n ast.Node, field string) {
	before := len(*d.found)
	if _, ok := pairsOrNil(n); !ok {
		d.fault(n, field, "is "+nodeName(n)+", want keys and values", "")
		return
	}
	outer := d.places
	d.places = map[string]fieldOrigin{}
	defer func() { d.places = outer }()
	t.at = d.originOf(n)
	d.decode(n, field, t)
	if t.Call.Args != nil && t.Call.Input != "" {
		d.fault(n, field+".call", "has both args and input", "keep one of them")
	}
	t.sound = len(*d.found) == before
}

func (t *testDoc) test() Test {
	c, e := &t.Call, &t.Expect
	args := []byte(c.Input)
	if c.Args != nil {
		args = *c.Args
	} else if c.Input == "" {
		args = []byte("{}")
	}
	out := Test{
		Name: t.Name, Description: t.Description, at: t.at, Expect: Expect(*e),
		Call: TestCall{
			Tool: c.Tool, Args: args, Mode: c.Mode, Now: c.Now.Time, Cwd: c.Cwd, WorkingDirs: c.WorkingDirs,
			Attempt: c.Attempt, CallsThisRun: c.CallsThisRun, Caller: c.Caller.caller(),
		},
	}
	for _, r := range c.SessionRules {
		out.Call.SessionRules = append(out.Call.SessionRules, message.PermissionRule(r))
	}
	return out
}

func (c callerDoc) caller() Caller {
	return Caller{
		Agent: c.Agent, User: c.User, Space: message.SpaceID(c.Space), Session: message.SessionID(c.Session),
		Reply: message.ReplyID(c.Reply), Roles: c.Roles, Tenant: c.Tenant, RunID: c.RunID, ParentAgent: c.ParentAgent,
	}
}
