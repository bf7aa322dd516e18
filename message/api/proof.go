package api

import (
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

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
