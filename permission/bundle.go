package permission

import (
	"cmp"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission/internal/celrule"
)

// Bundle is a compiled policy. It is immutable, may be used by any number of
// goroutines, and is named by the hash of its content: two bundles with the
// same hash decide alike, apart from the Go functions of tools and matchers.
//
// A nil or zero Bundle denies everything.
type Bundle struct {
	hash   string
	mode   Mode
	expiry time.Duration
	limits Limits
	// unhurried: expressions may take any time that their costs allow.
	unhurried bool
	shell     string
	terms     map[string]*celrule.Program
	ready     bool // false for the zero Bundle
	noRules   bool // made by noPolicy: stands in until a policy loads
	rules     int
	names     []string              // of the rules, sorted
	tools     []Tool                // as Options.Tools
	byTool    map[string]*toolRules // tools that are declared or named by a rule
	others    *toolRules            // every other tool: the rules for any tool
	notices   []Notice
}

// Hash is "sha256:" and the hex SHA-256 of everything that decides: rules,
// defaults, limits, tools with their schemas, and the version of the language.
// The order of rules and files plays no part.
func (b *Bundle) Hash() string {
	if b == nil {
		return ""
	}
	return b.hash
}

// Mode is what requests without a mode are decided in.
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

// toolRules is all that concerns one tool: the index that keeps a decision's
// cost away from the number of rules.
type toolRules struct {
	name    string
	tool    *Tool // nil: not declared
	matcher Matcher
	vars    map[string]any // the variable tool; nil for others, where it differs by call
	// Sorted by name, so that the order of the files never shows.
	deny, ask, allow                []*compiledRule
	denyIndex, askIndex, allowIndex *ruleIndex      // nil where none pays
	watched                         []*compiledRule // rules that do not decide
	handlers                        []*compiledRule // rules that say how calls are treated, among the above
}

func (t *toolRules) schema() *Schema {
	if t.tool == nil {
		return nil
	}
	return t.tool.Schema
}

func (t *toolRules) addRules(rules ...*compiledRule) {
	for _, r := range rules {
		if !r.rule.isEnforced() {
			t.watched = append(t.watched, r)
			continue
		}
		if r.rule.hasHandling() {
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
	t.denyIndex, t.askIndex, t.allowIndex = newIndex(t.deny), newIndex(t.ask), newIndex(t.allow)
}

// compiledRule is a rule made ready for one tool, or for any tool.
type compiledRule struct {
	rule    *Rule
	when    *celrule.Program // nil: always true
	message *celrule.Program // nil: a standard text
	pattern Pattern          // nil: matches every call of the tool
	server  string           // of a rule for undeclared tools: what their names must say; "": any
	broken  error            // the rule cannot be evaluated at all; only of session rules
	reason  string           // why it applies when it does
}

// toolVars is the variable tool.
func toolVars(name string, t *Tool) map[string]any {
	if t == nil {
		t = &Tool{}
	}
	hash := ""
	if t.Schema != nil {
		hash = t.Schema.Hash()
	}
	return map[string]any{
		"name":        name,
		"server":      t.Server,
		"schema_hash": hash,
		"annotations": map[string]any{
			"read_only":   t.ReadOnly,
			"destructive": t.Destructive,
			"idempotent":  t.Idempotent,
			"open_world":  t.OpenWorld,
		},
	}
}
