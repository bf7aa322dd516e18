package permission

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/permission/internal/celrule"
)

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
		TrustOptions bool         `json:"trust_options"`
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
		TrustOptions: r.TrustOptions,
	}
}

func sortedNames(names []string) []string { return slices.Sorted(slices.Values(names)) }

// contentHash hashes what a bundle is compiled from. Rules and tools must be
// sorted by name.
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
	sum := sha256.Sum256(form)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
