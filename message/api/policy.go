package api

import (
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
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

// ProofStatusRequest asks how far the journal is signed.
type ProofStatusRequest struct {
	V int `json:"v,omitzero"`
	// Verify makes the engine compare the whole journal with its signed checkpoints. One
	// verification runs at a time; later replies contain its state.
	Verify bool `json:"verify,omitzero"`
}

// ProofStatusReply reports how far the journal is signed, and what is damaged.
type ProofStatusReply struct {
	First uint64 `json:"first_seq"` // of the journal
	Last  uint64 `json:"last_seq"`
	// Signed is the last sequence that a signed checkpoint covers, or 0 if nothing is signed.
	// The next fields are that checkpoint's number, time, engine, key and hash.
	Signed     uint64    `json:"signed_seq"`
	Checkpoint uint64    `json:"checkpoint,omitzero"`
	SignedAt   time.Time `json:"signed_at,omitzero"`
	Engine     string    `json:"engine,omitzero"`
	KeyID      string    `json:"key_id,omitzero"`
	// Anchor identifies the checkpoint: store it elsewhere, and check it with askance audit
	// verify --anchor.
	Anchor string `json:"anchor,omitzero"`
	// Damage lists what the journal lacks according to its checkpoints and the engine's anchor.
	Damage []string `json:"damage"`
	// Losses describe losses of records that operators accepted.
	Losses       []string      `json:"losses"`
	Verification *Verification `json:"verification,omitzero"` // the last one of this engine
}

// Verification is a comparison of the whole journal with its checkpoints.
type Verification struct {
	Running     bool              `json:"running"`
	BeganAt     time.Time         `json:"began_at"`
	EndedAt     time.Time         `json:"ended_at,omitzero"`
	Read        uint64            `json:"read_seq"` // the sequence reached so far
	Through     uint64            `json:"through_seq"`
	OK          bool              `json:"ok"`
	Error       string            `json:"error,omitzero"` // why it could not be completed
	Records     uint64            `json:"records,omitzero"`
	Checkpoints uint64            `json:"checkpoints,omitzero"`
	Covered     uint64            `json:"covered_to_seq,omitzero"`
	Uncovered   uint64            `json:"uncovered,omitzero"`
	Found       int               `json:"found"` // findings; the first ones follow
	Findings    []VerifiedFinding `json:"findings"`
}

// VerifiedFinding is a difference between the journal and what was signed.
type VerifiedFinding struct {
	Kind    string `json:"kind"` // changed, removed, …: see PROOF.md
	Seq     uint64 `json:"seq,omitzero"`
	Through uint64 `json:"through_seq,omitzero"`
	Call    string `json:"call,omitzero"`
	What    string `json:"what"`
}

// ReceiptRequest asks for the receipt of a call.
type ReceiptRequest struct {
	V int `json:"v,omitzero"`
	toolcall.Key
}

// ReceiptReply contains a receipt, which proves the history of a call without a server.
type ReceiptReply struct {
	Receipt message.RawJSON `json:"receipt"`
}

// MaxCheckedReceipt is the largest receipt that an engine checks, in bytes; askance audit
// check has a higher limit.
const MaxCheckedReceipt = 1 << 20

// CheckReceiptRequest contains a receipt to check with the keys of the engine.
type CheckReceiptRequest struct {
	V       int             `json:"v,omitzero"`
	Receipt message.RawJSON `json:"receipt"`
}

// CheckReceiptReply is the verdict about a receipt.
type CheckReceiptReply struct {
	Valid  bool   `json:"valid"`
	Reason string `json:"reason,omitzero"` // why it is not valid
	// The rest is what a valid receipt proves.
	Call        *toolcall.Key           `json:"call,omitzero"`
	Tool        string                  `json:"tool_name,omitzero"`
	State       message.ToolCallState   `json:"state,omitzero"`
	Cause       string                  `json:"cause,omitzero"` // of the last step
	Votes       []toolcall.Vote         `json:"votes,omitzero"`
	Attempts    int                     `json:"attempts,omitzero"`
	ResultState message.ToolResultState `json:"result_state,omitzero"`
	Records     int                     `json:"records,omitzero"`
	First       uint64                  `json:"first_seq,omitzero"`
	Last        uint64                  `json:"last_seq,omitzero"`
	KeyIDs      []string                `json:"key_ids,omitzero"`  // of the engines that signed
	Redacted    int                     `json:"redacted,omitzero"` // records that show less than was stored
	Whole       bool                    `json:"from_the_beginning,omitzero"`
	Ended       bool                    `json:"ended,omitzero"`
}
