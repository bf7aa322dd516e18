package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
)

// Bundle is a compiled policy. It is immutable, may be used by any number of
// goroutines, and is named by the hash of its content: two bundles with the
// same hash decide alike, apart from the Go functions of tools and matchers.
//
// A nil or zero Bundle denies everything.
type Bundle struct {
	hash    string
	mode    Mode
	expiry  time.Duration
	limits  Limits
	strict  bool // as Options.StrictAgentScope
	ready   bool // false for the zero Bundle
	noRules bool // made by noPolicy: stands in until a policy loads
	rules   int
	byTool  map[string]*toolRules // tools that are declared or named by a rule
	others  *toolRules            // every other tool: the rules for any tool
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
	deny, ask, allow []*compiledRule
}

func (t *toolRules) schema() *Schema {
	if t.tool == nil {
		return nil
	}
	return t.tool.Schema
}

// compiledRule is a rule made ready for one tool, or for any tool.
type compiledRule struct {
	rule    *Rule
	when    *program // nil: always true
	message *program // nil: a standard text
	pattern Pattern  // nil: matches every call of the tool
	broken  error    // the rule cannot be evaluated at all; only of session rules
	reason  string   // why it applies when it does
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

// The canonical content of a bundle. Field names are part of the hash.
type (
	hashedBundle struct {
		Language string       `json:"language"`
		Strict   bool         `json:"strict"`
		NoRules  bool         `json:"no_rules"`
		Mode     Mode         `json:"mode"`
		ExpiryMS int64        `json:"expiry_ms"`
		Limits   hashedLimits `json:"limits"`
		Rules    []hashedRule `json:"rules"`
		Tools    []hashedTool `json:"tools"`
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
	}
)

// contentHash hashes what a bundle is compiled from. Rules and tools must be
// sorted by name.
func contentHash(b *Bundle, rules []*Rule, tools []*Tool) (string, error) {
	h := hashedBundle{
		Language: languageVersion, Strict: b.strict, NoRules: b.noRules,
		Mode: b.Mode(), ExpiryMS: b.expiry.Milliseconds(),
		Limits: hashedLimits{strconv.FormatUint(b.limits.RuleCost, 10), strconv.FormatUint(b.limits.DecisionCost, 10), b.limits.Deadline.Microseconds(),
			b.limits.InputBytes, b.limits.InputDepth},
	}
	for _, r := range rules {
		h.Rules = append(h.Rules, hashedRule{
			Name: r.Name, Description: r.Description, Tools: slices.Sorted(slices.Values(r.Tools)),
			Content: r.RuleContent, Behavior: string(r.Behavior), Source: r.Source, When: r.When,
			Message: r.Message, OnError: r.onError(), Locked: r.Locked,
			Users: slices.Sorted(slices.Values(r.Approvers.Users)), ExpiryMS: r.Expiry.Milliseconds(),
		})
	}
	for _, t := range tools {
		ht := hashedTool{Name: t.Name, Server: t.Server, ReadOnly: t.ReadOnly, Destructive: t.Destructive,
			Idempotent: t.Idempotent, OpenWorld: t.OpenWorld, Checked: t.Check != nil}
		if t.Schema != nil {
			ht.Schema = t.Schema.Hash()
		}
		h.Tools = append(h.Tools, ht)
	}
	form, err := jcs.Marshal(h)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(form)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
