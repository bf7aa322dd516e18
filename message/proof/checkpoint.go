package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/message"
)

// MaxRecords is the most records that one checkpoint covers.
const MaxRecords = 4096

// Checkpoint is an engine's signed word for a range of its journal.
type Checkpoint struct {
	V       int             `json:"v"`      // 1
	KeyID   string          `json:"key_id"` // which engine key signed
	Space   message.SpaceID `json:"space"`
	Number  uint64          `json:"number"`        // 1, 2, … without a gap
	From    uint64          `json:"from_seq"`      // the first sequence of the range
	To      uint64          `json:"to_seq"`        // the last one
	Records uint64          `json:"records"`       // how many of them were there
	Root    Hash            `json:"root"`          // over the leaves From … To
	Prev    Hash            `json:"prev,omitzero"` // Hash of the checkpoint before; none for the first
	At      time.Time       `json:"at"`            // the engine's clock, UTC
	Engine  string          `json:"engine"`        // which replica
	// Losses is how many losses operators had accepted by then; Loss is the one
	// that this checkpoint records.
	Losses uint64 `json:"losses,omitzero"`
	Loss   *Loss  `json:"loss,omitzero"`
	Sig    string `json:"sig,omitzero"` // base64url Ed25519 over the rest
}

// checkpointDomain keeps a checkpoint's signature from being any other.
const checkpointDomain = "askance-checkpoint-v1\n"

// signedText is what the signature is over.
func (c Checkpoint) signedText() ([]byte, error) {
	c.Sig = ""
	b, err := jcs.Marshal(c)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read checkpoint", What: "it has no canonical form", Err: err}
	}
	return append([]byte(checkpointDomain), b...), nil
}

// Sign sets KeyID and Sig.
func (c *Checkpoint) Sign(key ed25519.PrivateKey) error {
	c.KeyID = message.KeyID(key.Public().(ed25519.PublicKey))
	b, err := c.signedText()
	if err != nil {
		return err
	}
	c.Sig = base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, b))
	return nil
}

// Hash names the checkpoint: the next one carries it, and an auditor keeps it.
// It is over what was signed.
func (c Checkpoint) Hash() (Hash, error) {
	b, err := c.signedText()
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// Size is the number of sequences in the range.
func (c Checkpoint) Size() uint64 { return c.To - c.From + 1 }

// Covers reports whether a sequence is in the range.
func (c Checkpoint) Covers(seq uint64) bool { return c.From <= seq && seq <= c.To }

// String is for people.
func (c Checkpoint) String() string {
	return fmt.Sprintf("checkpoint %d over %d to %d", c.Number, c.From, c.To)
}

// Verify checks the form and the signature: it is the word of one of these
// keys. Any doubt is an error with CodeForbidden, or CodeInvalid for a form
// that no engine writes.
func (c Checkpoint) Verify(keys message.KeySet) error {
	const op = "verify checkpoint"
	if err := c.form(); err != nil {
		return err
	}
	pub, ok := keys[c.KeyID]
	if !ok || len(pub) != ed25519.PublicKeySize {
		return &message.Error{Code: message.CodeForbidden, Op: op, What: fmt.Sprintf("%s is signed by the unknown engine key %q", c, c.KeyID), Hint: "give the public keys of the space's engines, former ones too"}
	}
	sig, err := base64.RawURLEncoding.Strict().DecodeString(c.Sig)
	if err != nil {
		return &message.Error{Code: message.CodeForbidden, Op: op, What: "the signature of " + c.String() + " is not base64url"}
	}
	b, err := c.signedText()
	if err != nil {
		return err
	}
	if !ed25519.Verify(pub, b, sig) {
		return &message.Error{Code: message.CodeForbidden, Op: op, What: "the signature of " + c.String() + " does not fit", Hint: "it was changed, or forged"}
	}
	return nil
}

// form checks everything that can be checked without a key.
func (c Checkpoint) form() error {
	var bad string
	switch {
	case c.V != 1:
		bad = "its version is unknown"
	case c.Number == 0 || c.From == 0 || c.To < c.From:
		bad = "it has no number or no range"
	case c.To-c.From >= MaxRecords:
		bad = "its range is too large"
	case c.Records > c.To-c.From+1:
		bad = "it counts more records than its range has"
	case (c.Number == 1) != c.Prev.IsZero():
		bad = "only the first follows none"
	default:
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: "read checkpoint", What: bad}
}

// Follows checks that c is the checkpoint right after prev: its number, its
// range, and the hash that it carries. Nil prev: c is the first one.
func (c Checkpoint) Follows(prev *Checkpoint) error {
	bad := func(format string, args ...any) error {
		return &message.Error{Code: message.CodeConflict, Op: "follow checkpoints", What: fmt.Sprintf(format, args...)}
	}
	if prev == nil {
		if c.Number != 1 {
			return bad("the first checkpoint is %d, not 1", c.Number)
		}
		return nil
	}
	hash, err := prev.Hash()
	switch {
	case err != nil:
		return err
	case c.Space != prev.Space:
		return bad("checkpoint %d is of the space %q, the one before of %q", c.Number, c.Space, prev.Space)
	case c.Number != prev.Number+1:
		return bad("checkpoint %d stands after checkpoint %d", c.Number, prev.Number)
	case c.From != prev.To+1:
		return bad("%s does not begin where %s ends", c, prev)
	case c.Prev != hash:
		return bad("%s follows another checkpoint %d than the one that is there", c, prev.Number)
	}
	return nil
}
