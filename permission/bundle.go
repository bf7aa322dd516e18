package permission

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/celrule"
	"github.com/askance-dev/askance/permission/internal/display"
	"github.com/askance-dev/askance/permission/internal/hint"
)

// Bundle is a compiled policy. It is immutable and safe for concurrent use. The hash of its content
// names it: two bundles with the same hash make the same decisions, apart from the Go functions of
// tools and matchers.
//
// A nil or zero Bundle denies everything.
type Bundle struct {
	hash    string
	mode    Mode
	expiry  time.Duration
	limits  Limits
	bounds  celrule.Bounds // of expressions while deciding
	shell   string
	terms   map[string]*celrule.Program
	ready   bool // false for the zero Bundle
	noRules bool // made by noPolicy: stands in until a policy loads
	rules   int
	// readsGroups: an expression may read the caller's groups.
	readsGroups bool
	// readsCount: an expression may read how many calls the run has made.
	readsCount bool
	known      map[string]knownRule  // the rules, by name
	tools      []Tool                // as Options.Tools
	byTool     map[string]*toolRules // tools that are declared or named by a rule
	others     *toolRules            // the rules for every other tool
	notices    []Notice
}

// Hash is "sha256:" and the hex SHA-256 of everything that affects decisions: rules, defaults,
// limits, tools with their schemas, and the version of the language. The order of rules and files
// does not matter.
func (b *Bundle) Hash() string {
	if b == nil {
		return ""
	}
	return b.hash
}

// Mode is the mode for requests that do not set one.
func (b *Bundle) Mode() Mode {
	if b == nil || b.mode == "" {
		return ModeDefault
	}
	return b.mode
}

// Rules is the number of rules.
func (b *Bundle) Rules() int {
	if b == nil {
		return 0
	}
	return b.rules
}

// toolRules holds everything about one tool, so that decisions do not pay for the rules of other
// tools.
type toolRules struct {
	name    string
	tool    *Tool // nil: not declared
	matcher Matcher
	vars    map[string]any // the variable tool; nil for toolRules of other tools, where it differs by call
	// Sorted by name, so that the order of the files never matters.
	deny, ask, allow []*compiledRule
	watched          []*compiledRule // rules that do not decide
	handlers         []*compiledRule // those of the above that say how calls are handled
}

func (t *toolRules) schema() *Schema {
	if t.tool == nil {
		return nil
	}
	return t.tool.Schema
}

func (t *toolRules) addRules(rules ...*compiledRule) {
	for _, r := range rules {
		if !r.rule.IsEnforced() {
			t.watched = append(t.watched, r)
			continue
		}
		if r.rule.hasHandling() && !r.protects {
			t.handlers = append(t.handlers, r)
		}
		switch b := r.rule.Behavior; {
		case b == message.BehaviorDeny:
			t.deny = append(t.deny, r)
		case b == message.BehaviorAsk:
			t.ask = append(t.ask, r)
		case b == message.BehaviorAllow:
			t.allow = append(t.allow, r)
		}
	}
}

func (t *toolRules) sortRules() {
	for _, list := range [][]*compiledRule{t.deny, t.ask, t.allow, t.watched, t.handlers} {
		slices.SortFunc(list, func(a, b *compiledRule) int { return cmp.Compare(a.rule.Name, b.rule.Name) })
	}
}

type compiledRule struct {
	rule     *Rule
	when     *celrule.Program // nil: always true
	message  *celrule.Program // nil: a standard text
	pattern  Pattern          // nil: matches every call of the tool
	server   string           // for undeclared tools: the server that their names must contain; "": any
	broken   error            // the rule cannot be evaluated at all
	field    string           // what is broken; "": rule_content
	reason   string           // why it applies, if it does
	protects bool             // the rule is about another tool and protects files from this one
}

func toolVars(name string, t *Tool, d *Definition) map[string]any {
	if t == nil {
		t = &Tool{}
	}
	if d == nil {
		d = &Definition{}
	} else { // claims can only make rules stricter here
		t = &Tool{Schema: d.Schema, Destructive: d.Claims.Destructive, OpenWorld: d.Claims.OpenWorld}
	}
	hash := ""
	if t.Schema != nil {
		hash = t.Schema.Hash()
	}
	return map[string]any{
		"name":        name,
		"server":      t.Server,
		"schema_hash": hash,
		"hash":        d.Hash,
		"changed":     d.Changed,
		"claims":      d.Claims.vars(),
		"annotations": Claims{t.ReadOnly, t.Destructive, t.Idempotent, t.OpenWorld}.vars(),
	}
}

func (c Claims) vars() map[string]any {
	return map[string]any{"read_only": c.ReadOnly, "destructive": c.Destructive, "idempotent": c.Idempotent, "open_world": c.OpenWorld}
}

// Rules for the tools of a server, written "server/*".

func serverOf(pattern string) (string, bool) {
	server, ok := strings.CutSuffix(pattern, "/*")
	return server, ok && server != "" && !strings.Contains(server, "*")
}

func isServerPattern(pattern string) bool { _, ok := serverOf(pattern); return ok }

// IsAbout reports whether the rule names the tool, its server or all tools.
func (r *Rule) IsAbout(tool, server string) bool {
	return slices.ContainsFunc(r.Tools, func(name string) bool {
		if s, ok := serverOf(name); ok {
			return s == server
		}
		return name == tool || name == AnyTool
	})
}

func (r *Rule) severalTools() bool {
	return len(r.Tools) > 1 || slices.ContainsFunc(r.Tools, isServerPattern)
}

// toolsOf returns the names of the tools that a rule is about, each once, with servers expanded.
func (c *compiler) toolsOf(r *Rule) []string {
	var out []string
	for _, name := range r.Tools {
		server, ok := serverOf(name)
		if !ok {
			out = append(out, name)
			continue
		}
		out = append(out, c.toolsOfServer(r, server)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// toolsOfServer lists the declared tools of a server. A deny or ask rule also covers undeclared
// tools, which are recognized by name.
func (c *compiler) toolsOfServer(r *Rule, server string) []string {
	var out, servers []string
	for i := range c.opts.Tools {
		t := &c.opts.Tools[i]
		if t.Server == server {
			out = append(out, t.Name)
		}
		servers = append(servers, t.Server)
	}
	strict := len(c.opts.Tools) > 0 && !c.opts.AllowUnknownTools
	if strict && len(out) == 0 {
		slices.Sort(servers)
		c.addFaultOf(ProblemTool, r, "tool_name", "no tool belongs to server "+display.Quoted(server), hint.DidYouMean(server, slices.Compact(servers)))
	}
	if r.Behavior == message.BehaviorAllow {
		return out
	}
	before := len(c.problems)
	cr := c.compileRule(r, nil)
	if cr == nil && strict && len(out) > 0 { // it may need a schema or a kind, which only declared tools have
		cr = &compiledRule{rule: r, reason: ruleReason(r), broken: errNoDefinition, field: c.problems[before].Field}
		c.problems = c.problems[:before]
	}
	if cr != nil {
		cr.server = server
		c.servers = append(c.servers, cr)
	}
	return out
}

var errNoDefinition = errors.New("the rule needs the definition of the tool, which the tools file does not declare")

// isNamedAfter reports whether an undeclared tool's name says that it belongs to the server. Deny
// and ask rules rely on it, so it accepts every form in use.
func isNamedAfter(tool, server string) bool {
	forms := []string{"mcp__" + server + "__", server + ".", server + "/", server + "__"}
	return slices.ContainsFunc(forms, func(form string) bool { return strings.HasPrefix(tool, form) })
}

func (t *toolRules) addServers(rules []*compiledRule) {
	for _, r := range rules {
		if t.tool == nil && isNamedAfter(t.name, r.server) {
			t.addRules(r)
		}
	}
}

// The canonical content of a bundle. Field names are part of the hash.
type (
	hashedBundle struct {
		Language string       `json:"language"`
		NoRules  bool         `json:"no_rules"`
		Mode     Mode         `json:"mode"`
		ExpiryMS int64        `json:"expiry_ms"`
		Limits   hashedLimits `json:"limits"`
		Shell    string       `json:"shell"`
		Terms    []hashedTerm `json:"vocabulary"`
		Rules    []hashedRule `json:"rules"`
		Tools    []hashedTool `json:"tools"`
	}
	hashedTerm struct {
		Name string `json:"name"`
		Expr string `json:"expr"`
	}
	hashedLimits struct {
		RuleCost     string `json:"rule_cost"` // decimal: canonical JSON has no large integers
		DecisionCost string `json:"decision_cost"`
		DeadlineUS   int64  `json:"deadline_us"`
		InputBytes   int    `json:"input_bytes"`
		InputDepth   int    `json:"input_depth"`
	}
	hashedRule struct {
		Name        string   `json:"name"`
		Description string   `json:"description"`
		Tools       []string `json:"tools"`
		Content     *string  `json:"rule_content"`
		Behavior    string   `json:"behavior"`
		Source      string   `json:"source"`
		When        string   `json:"when"`
		Message     string   `json:"message"`
		OnError     OnError  `json:"on_error"`
		Locked      bool     `json:"locked"`
		Users       []string `json:"users"`
		ExpiryMS    int64    `json:"expiry_ms"`

		Layer        Layer        `json:"layer"`
		Enforcement  Enforcement  `json:"enforcement"`
		Groups       []string     `json:"groups"`
		NoRequester  bool         `json:"exclude_requester"`
		NoEditor     bool         `json:"exclude_editor,omitzero"`
		Quorum       int          `json:"quorum"`
		Signed       bool         `json:"signed,omitzero"`
		OnExpiry     OnExpiry     `json:"on_expiry"`
		Escalation   []Escalation `json:"escalation"`
		Remember     *Remember    `json:"remember"`
		Redact       []string     `json:"redact"`
		Executor     Executor     `json:"executor"`
		Audit        AuditLevel   `json:"audit"`
		Options      string       `json:"options,omitzero"`
		TrustOptions bool         `json:"trust_options"`
		Budget       *Budget      `json:"budget,omitzero"`
		Recheck      bool         `json:"recheck,omitzero"`
		Denial       Denial       `json:"denial,omitzero"`
	}
	hashedTool struct {
		Name        string `json:"name"`
		Server      string `json:"server"`
		Schema      string `json:"schema"`
		ReadOnly    bool   `json:"read_only"`
		Destructive bool   `json:"destructive"`
		Idempotent  bool   `json:"idempotent"`
		OpenWorld   bool   `json:"open_world"`
		Checked     bool   `json:"checked"`
		Kind        string `json:"kind"`
	}
)

func hashedRuleOf(r *Rule) hashedRule {
	return hashedRule{
		Name: r.Name, Description: r.Description, Tools: sortedNames(r.Tools),
		Content: r.RuleContent, Behavior: string(r.Behavior), Source: r.Source, When: r.When,
		Message: r.Message, OnError: r.onError(), Locked: r.Locked,
		Users: sortedNames(r.Approvers.Users), ExpiryMS: r.Expiry.Milliseconds(),
		Layer: cmp.Or(r.Layer, LayerProject), Enforcement: cmp.Or(r.Enforcement, EnforcementEnforce),
		Groups: sortedNames(r.Approvers.Groups), NoRequester: r.Approvers.ExcludeRequester, NoEditor: r.Approvers.ExcludeEditor,
		Quorum: max(r.Quorum, 1), Signed: r.Signed, OnExpiry: r.onExpiry(), Escalation: r.Escalation, Remember: r.Remember,
		Redact: sortedNames(r.Redact), Executor: r.Executor, Audit: cmp.Or(r.Audit, AuditStandard),
		Options: r.Options, TrustOptions: r.TrustOptions, Budget: r.Budget, Recheck: r.Recheck, Denial: r.Denial,
	}
}

func sortedNames(names []string) []string { return slices.Sorted(slices.Values(names)) }

// knownRule distinguishes a rule from another one of the same name.
type knownRule struct {
	behavior message.Behavior
	place    Place
	sum      [sha256.Size]byte
}

// describeRules returns what distinguishes the rules from each other, including their vocabulary.
func describeRules(terms []Term, rules []*Rule) (map[string]knownRule, error) {
	out := make(map[string]knownRule, len(rules))
	sorted := slices.SortedFunc(slices.Values(terms), func(x, y Term) int { return cmp.Compare(x.Name, y.Name) })
	for _, r := range rules {
		form, err := jcs.Marshal(hashedRuleOf(r))
		if err != nil {
			return nil, err
		}
		for _, t := range sorted {
			form = fmt.Appendf(form, "%q=%q", t.Name, t.Expr)
		}
		out[r.Name] = knownRule{r.Behavior, r.Place(), sha256.Sum256(form)}
	}
	return out, nil
}

func (b *Bundle) isUnchanged(before *Bundle, rule string) bool {
	now, ok := b.known[rule]
	was, had := before.known[rule]
	return ok && had && now.sum == was.sum && now.behavior == was.behavior
}

// contentHash hashes everything a bundle is compiled from. Rules and tools must be sorted by name.
func contentHash(b *Bundle, terms []Term, rules []*Rule, tools []*Tool) (string, error) {
	h := hashedBundle{
		Language: celrule.LanguageVersion, NoRules: b.noRules,
		Mode: b.Mode(), Shell: cmp.Or(b.shell, defaultShell), ExpiryMS: b.expiry.Milliseconds(),
		Limits: hashedLimits{strconv.FormatUint(b.limits.RuleCost, 10), strconv.FormatUint(b.limits.DecisionCost, 10), b.limits.Deadline.Microseconds(),
			b.limits.InputBytes, b.limits.InputDepth},
	}
	for _, t := range terms {
		h.Terms = append(h.Terms, hashedTerm{t.Name, t.Expr})
	}
	slices.SortFunc(h.Terms, func(x, y hashedTerm) int { return cmp.Compare(x.Name, y.Name) })
	for _, r := range rules {
		h.Rules = append(h.Rules, hashedRuleOf(r))
	}
	for _, t := range tools {
		ht := hashedTool{Name: t.Name, Server: t.Server, ReadOnly: t.ReadOnly, Destructive: t.Destructive,
			Idempotent: t.Idempotent, OpenWorld: t.OpenWorld, Checked: t.Check != nil}
		if t.Kind != nil {
			ht.Kind = t.Kind.Name()
		}
		if t.Schema != nil {
			ht.Schema = t.Schema.Hash()
		}
		h.Tools = append(h.Tools, ht)
	}
	form, err := jcs.Marshal(h)
	if err != nil {
		return "", err
	}
	return message.Digest(form), nil
}
