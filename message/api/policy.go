package api

import (
	"time"

	"github.com/askance-dev/askance/message"
)

// PolicyStatusReply describes the policy of one engine: what is in force, and what it has
// decided. Each engine counts its own decisions, from its start on.
type PolicyStatusReply struct {
	Engine string `json:"engine"`
	Bundle string `json:"bundle"` // the hash of the policy in force
	Rules  int    `json:"rules"`
	// Loaded is when the policy came into force; zero before the first valid one.
	Loaded time.Time `json:"loaded"`
	// Files are the files of the policy in force, Ignored other files in their folders.
	Files   []PolicyFile `json:"files"`
	Ignored []string     `json:"ignored"`
	// Versions are the latest policies whose text PolicyText has, newest first. An engine with
	// a data folder also has those from before its start.
	Versions []PolicyVersion `json:"versions"`
	// Alarm says why the newest policy was refused, or "" if it is in force; AlarmSince is
	// when reloads began to fail.
	Alarm      string    `json:"alarm"`
	AlarmSince time.Time `json:"alarm_since,omitzero"`
	Loads      uint64    `json:"loads"`   // policies that came into force
	Refused    uint64    `json:"refused"` // reloads that failed
	Calls      uint64    `json:"calls"`   // decisions
	// Failures counts evaluation failures that belong to no rule, such as bad input.
	Failures uint64            `json:"failures"`
	ByRule   []PolicyRuleCount `json:"by_rule"`
	// Shadow is absent if there is no shadow policy.
	Shadow *ShadowPolicyStatus `json:"shadow,omitzero"`
}

// PolicyVersion is a policy that is or was in force.
type PolicyVersion struct {
	Bundle string    `json:"bundle"`
	Rules  int       `json:"rules"`
	Loaded time.Time `json:"loaded"` // when it came into force
}

// PolicyTextRequest asks for the text of a policy.
type PolicyTextRequest struct {
	V      int    `json:"v,omitzero"`
	Bundle string `json:"bundle,omitzero"` // one of PolicyStatusReply.Versions; absent for the policy in force
	Rule   string `json:"rule,omitzero"`   // only this rule, without the files
}

// PolicyTextReply is the text of a policy that is or was in force in one engine.
type PolicyTextReply struct {
	Engine string           `json:"engine"`
	Bundle string           `json:"bundle"`
	Loaded time.Time        `json:"loaded"` // when it came into force
	Files  []PolicyFileText `json:"files"`
	Rules  []PolicyRuleText `json:"rules"` // in the order of the files
}

// PolicyFileText is a rule file as it was loaded.
type PolicyFileText struct {
	PolicyFile
	// Text is absent if the texts of all files together exceed MaxPolicyText; ask for single
	// rules then.
	Text string `json:"text,omitzero"`
}

// MaxPolicyText limits the total text of rule files in a reply, in bytes.
const MaxPolicyText = 512 << 10

// PolicyRuleText is a rule with its location. Lines count from 1.
type PolicyRuleText struct {
	Rule     string           `json:"rule"`
	Behavior message.Behavior `json:"behavior"`
	Tools    []string         `json:"tools"`
	File     string           `json:"file"`
	Line     int              `json:"line"`
	End      int              `json:"end"` // the last line
	// Text is the rule as written in its file; absent unless the request names a rule.
	Text string `json:"text,omitzero"`
}

// PolicyFile is a rule file of the policy in force.
type PolicyFile struct {
	Name   string `json:"name"`
	Layer  string `json:"layer"`
	Digest string `json:"digest"`
}

// PolicyRuleCount is what one rule has done since it came into force in this form.
type PolicyRuleCount struct {
	Rule     string           `json:"rule"`
	Behavior message.Behavior `json:"behavior,omitzero"` // absent for session rules
	File     string           `json:"file,omitzero"`     // the file that contains the rule
	Line     int              `json:"line,omitzero"`     // from 1
	Since    time.Time        `json:"since,omitzero"`
	Decided  uint64           `json:"decided"` // calls that it decided
	Watched  uint64           `json:"watched"` // matches in modes that only warn or audit
	Failed   uint64           `json:"failed"`  // evaluations that failed
}

// ShadowPolicyStatus is what a shadow policy would have done.
type ShadowPolicyStatus struct {
	Bundle      string             `json:"bundle"`
	Rules       int                `json:"rules"`
	Alarm       string             `json:"alarm"`
	Compared    uint64             `json:"compared"`
	Differing   uint64             `json:"differing"`
	Differences []PolicyDifference `json:"differences"` // most frequent first
	Unlisted    uint64             `json:"unlisted"`    // calls of kinds beyond the first 200
}

// PolicyDifference is a kind of call on which the policy in force and its shadow differ.
type PolicyDifference struct {
	Tool    string                 `json:"tool"`
	Mode    message.PermissionMode `json:"mode"`
	Live    PolicyVerdict          `json:"live"`
	Shadow  PolicyVerdict          `json:"shadow"`
	Count   uint64                 `json:"count"`
	Last    time.Time              `json:"last"`
	Session message.SessionID      `json:"session"` // of the last call
	Reply   message.ReplyID        `json:"reply"`
}

// PolicyVerdict is the short form of a decision.
type PolicyVerdict struct {
	Behavior message.Behavior `json:"behavior"`
	Step     string           `json:"step"`
	Rule     string           `json:"rule"`
}
