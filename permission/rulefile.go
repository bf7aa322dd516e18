package permission

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/askance-dev/askance/message"
)

// The keys of a rule file. A key in a second list is one that later versions
// give a meaning; ignoring it would make a rule looser than it reads.
var (
	fileKeys      = []string{"version", "name", "description", "defaults", "rules"}
	fileLater     = []string{"vocabulary", "tests"}
	defaultKeys   = []string{"mode", "on_error", "expiry"}
	defaultLater  = []string{"on_expiry", "shell", "enforcement", "audit"}
	ruleKeys      = []string{"name", "description", "tool_name", "rule_content", "behavior", "source", "when", "message", "on_error", "locked", "approvers", "expiry"}
	ruleLater     = []string{"quorum", "escalation", "redact", "executor", "remember", "enforcement", "audit", "on_expiry", "match", "trust_options", "i_know"}
	approverKeys  = []string{"users"}
	approverLater = []string{"groups", "exclude_requester"}
)

// defaults hold for the rules of one file.
type defaults struct {
	source  string // of rules that name none: the file's name
	onError OnError
	expiry  time.Duration
}

// policy reads the top level of a rule file.
func (d *fileReader) policy(body ast.Node) Policy {
	top, ok := d.mapping(body, "", fileKeys, fileLater)
	if !ok {
		return Policy{}
	}
	d.version(body, top["version"])
	def := defaults{}
	if n := top["name"]; n == nil {
		d.fault(body, "name", "is missing", "it becomes the source of the file's rules")
	} else {
		def.source, _ = d.text(n, "name")
	}
	if n := top["description"]; n != nil {
		d.text(n, "description")
	}
	var policy Policy
	if n := top["defaults"]; n != nil {
		d.defaults(n, &policy, &def)
	}
	rules := top["rules"]
	if rules == nil {
		d.fault(body, "rules", "is missing", "write rules: [] for none")
		return policy
	}
	items, _ := d.list(rules, "rules")
	for _, item := range items {
		if r, ok := d.rule(item, def); ok {
			policy.Rules = append(policy.Rules, r)
		}
	}
	return policy
}

func (d *fileReader) version(body, n ast.Node) {
	if n == nil {
		d.fault(body, "version", "is missing", "write version: 1")
		return
	}
	if i, ok := n.(*ast.IntegerNode); !ok || fmt.Sprint(i.Value) != "1" {
		d.fault(n, "version", "is not 1", "this program reads version 1")
	}
}

func (d *fileReader) defaults(n ast.Node, policy *Policy, def *defaults) {
	m, ok := d.mapping(n, "defaults", defaultKeys, defaultLater)
	if !ok {
		return
	}
	if n := m["mode"]; n != nil {
		if s, ok := d.text(n, "defaults.mode"); ok {
			mode, err := ParseMode(s)
			if err != nil {
				d.fault(n, "defaults.mode", err.Error(), "")
			}
			policy.Mode = mode
		}
	}
	if n := m["on_error"]; n != nil {
		def.onError = d.onError(n, "defaults.on_error")
	}
	if n := m["expiry"]; n != nil {
		def.expiry = d.duration(n, "defaults.expiry")
		policy.Expiry = def.expiry
	}
}

// rule reads one rule. It returns false when what it read must not be used;
// the faults have been reported then.
func (d *fileReader) rule(n ast.Node, def defaults) (Rule, bool) {
	before := len(*d.found)
	d.ruleName = ""
	defer func() { d.ruleName = "" }()
	m, ok := d.mapping(n, "rules", nil, nil) // first without checking keys: the name belongs into the faults
	if !ok {
		return Rule{}, false
	}
	r := Rule{at: d.originOf(n, m)}
	if n := m["name"]; n != nil {
		r.Name, _ = d.text(n, "name")
		d.ruleName = r.Name
	}
	d.mapping(n, "", ruleKeys, ruleLater)
	d.ruleTexts(m, &r)
	if n := m["tool_name"]; n != nil {
		r.Tools = d.texts(n, "tool_name")
	}
	if n := m["locked"]; n != nil {
		r.Locked = d.boolean(n, "locked")
	}
	if n := m["on_error"]; n != nil {
		r.OnError = d.onError(n, "on_error")
	} else if !r.Locked && r.Behavior != message.BehaviorAllow {
		r.OnError = def.onError
	}
	if n := m["approvers"]; n != nil {
		d.approvers(n, &r)
	}
	if n := m["expiry"]; n != nil {
		r.Expiry = d.duration(n, "expiry")
	} else if r.Behavior == message.BehaviorAsk {
		r.Expiry = def.expiry
	}
	if r.Source == "" {
		r.Source = def.source
	}
	return r, len(*d.found) == before
}

// ruleTexts reads the fields of a rule that are plain text.
func (d *fileReader) ruleTexts(m map[string]ast.Node, r *Rule) {
	for _, f := range []struct {
		key  string
		into *string
	}{
		{"description", &r.Description}, {"source", &r.Source}, {"when", &r.When}, {"message", &r.Message},
	} {
		n := m[f.key]
		if n == nil {
			continue
		}
		s, ok := d.text(n, f.key)
		if ok && strings.TrimSpace(s) == "" {
			d.fault(n, f.key, "is empty", "leave the key out")
		}
		*f.into = s
	}
	if n := m["behavior"]; n != nil {
		s, _ := d.text(n, "behavior")
		r.Behavior = message.Behavior(s)
	}
	if n := m["rule_content"]; n != nil && n.Type() != ast.NullType {
		if s, ok := d.text(n, "rule_content"); ok {
			r.RuleContent = &s
		}
	}
}

func (d *fileReader) approvers(n ast.Node, r *Rule) {
	m, ok := d.mapping(n, "approvers", approverKeys, approverLater)
	if !ok {
		return
	}
	if n := m["users"]; n != nil {
		r.Approvers.Users = d.texts(n, "approvers.users")
	}
}

func (d *fileReader) onError(n ast.Node, field string) OnError {
	s, ok := d.text(n, field)
	if ok && !slices.Contains([]string{string(OnErrorAsk), string(OnErrorDeny)}, s) {
		d.fault(n, field, "is "+quoted(s)+", want ask or deny", "an error never allows")
	}
	return OnError(s)
}

func (d *fileReader) duration(n ast.Node, field string) time.Duration {
	s, ok := d.text(n, field)
	if !ok {
		return 0
	}
	t, err := time.ParseDuration(s)
	if err != nil || t <= 0 || t > maxExpiry {
		d.fault(n, field, quoted(s)+" is no time between 0 and one year", "write for example 90s, 15m or 24h")
		return 0
	}
	return t
}
