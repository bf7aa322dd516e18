package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/transparency-dev/merkle/compact"
	merkleproof "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Hash is a SHA-256. Its text is "sha256:" and 64 lower-case hex digits.
type Hash [sha256.Size]byte

const hashPrefix = "sha256:"

// String is the hash as text.
func (h Hash) String() string { return message.HashText(h) }

// MarshalText writes the hash as text.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses exactly what MarshalText writes.
func (h *Hash) UnmarshalText(text []byte) error {
	p, err := ParseHash(string(text))
	if err == nil {
		*h = p
	}
	return err
}

// ParseHash parses a hash in the only form that String writes.
func ParseHash(text string) (Hash, error) {
	var h Hash
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if n, err := hex.Decode(h[:min(len(h), len(digits)/2)], []byte(digits[:min(len(digits), 2*len(h))])); !ok || err != nil || n != len(h) || h.String() != text {
		return Hash{}, &message.Error{Code: message.CodeInvalid, Op: "read hash", What: "it is not sha256: and 64 lower-case hex digits"}
	}
	return h, nil
}

// IsZero reports whether there is no hash.
func (h Hash) IsZero() bool { return h == Hash{} }

// Record is one stored message of a journal, as an auditor gets it. The body is text
// and not JSON, so that no formatting tool changes it.
type Record struct {
	Seq uint64 `json:"seq,omitzero"` // its place in the journal
	// Time is when the server stored it. It is not proved.
	Time    time.Time `json:"time,omitzero"`
	Subject string    `json:"subject"`
	// Header contains the headers that are hashed.
	Header map[string][]string `json:"header,omitzero"`
	Text   string              `json:"body,omitzero"`        // the exact body, if it is UTF-8
	Binary []byte              `json:"body_base64,omitzero"` // the exact body, if it is not
	// BodyHash is the SHA-256 of the original body of a redacted record. It replaces the
	// body in the proof.
	BodyHash Hash `json:"body_hash,omitzero"`
	// Redacted names what was removed: paths into the arguments, as rules write them;
	// "delta" for a part of streamed arguments, "*" for all.
	Redacted []string `json:"redacted,omitzero"`
	// Invalid is why the engines of the space reject the record, according to a reader with
	// their key. Altered is set if it has a MAC of theirs that does not match.
	Invalid string `json:"invalid,omitzero"`
	Altered bool   `json:"altered,omitzero"`
	// Entity is the entity of an event record, "" for none. The reader of records
	// derives it from the subject.
	Entity string `json:"-"`
	// Base is the event record on which this one builds, as its reader knows it; nil means
	// none, or unknown. Without it, no part of a record that must be redacted is shown.
	Base *toolcall.RecordBase `json:"-"`
	// Final means that an engine has redacted the record for its reader. What has no Base
	// cannot be redacted again.
	Final bool `json:"-"`
	// Prev is the link in the body of an event record, if its reader has decoded it.
	Prev *toolcall.Link `json:"-"`
}

const (
	// redactedDelta is what remains of an event with a part of streamed arguments.
	redactedDelta = `{"type":"TOOL_CALL_DELTA"}`
	// RedactedWhole is what remains of an event record that must not be shown.
	RedactedWhole = `{}`
)

// SetBody sets the exact body.
func (r *Record) SetBody(b []byte) {
	r.Text, r.Binary, r.BodyHash = "", nil, Hash{}
	if utf8.Valid(b) {
		r.Text = string(b)
	} else {
		r.Binary = b
	}
}

// Body returns the current body: the exact one unless BodyHash is set.
func (r *Record) Body() []byte {
	if r.Binary != nil {
		return r.Binary
	}
	return []byte(r.Text)
}

// Content is the hash of the record's headers and original body.
func (r *Record) Content() Hash {
	body := r.BodyHash
	switch {
	case !body.IsZero():
	case r.Binary != nil:
		body = sha256.Sum256(r.Binary)
	default:
		body = sha256.Sum256([]byte(r.Text))
	}
	return content(r.Header, body)
}

// Leaf is the record's hash in chains and checkpoints.
func (r *Record) Leaf() Hash { return Leaf(r.Subject, r.Content()) }

// The domains of the kinds of hashes.
const (
	contentDomain = "askance-content-v1\n"
	recordDomain  = "askance-record-v1\n"
	absentDomain  = "askance-absent-v1\n"
	foreignDomain = "askance-foreign-v1\n"
)

// Content hashes the headers that count and the body of a message. Each part is prefixed with
// its length, so that no two messages have the same encoding.
func Content(header map[string][]string, body []byte) Hash {
	return content(header, sha256.Sum256(body))
}

func content(header map[string][]string, body [sha256.Size]byte) Hash {
	b := make([]byte, 0, 512)
	b = append(b, contentDomain...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(header)))
	names := make([]string, 0, 8)
	for name := range header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b = appendText(b, name)
		b = binary.BigEndian.AppendUint32(b, uint32(len(header[name])))
		for _, v := range header[name] {
			b = appendText(b, v)
		}
	}
	return sha256.Sum256(append(b, body[:]...))
}

// Leaf is the RFC 6962 leaf hash of a message.
func Leaf(subject string, content Hash) Hash {
	b := append(make([]byte, 0, 256), rfc6962.RFC6962LeafHashPrefix)
	b = appendText(append(b, recordDomain...), subject)
	return sha256.Sum256(append(b, content[:]...))
}

// Absent is the leaf of a sequence without a record when the checkpoint was made.
func Absent() Hash { return Hash(rfc6962.DefaultHasher.HashLeaf([]byte(absentDomain))) }

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// LinkTo returns the link to the record at seq with this leaf.
func LinkTo(seq uint64, leaf Hash) *toolcall.Link {
	return &toolcall.Link{Seq: seq, Hash: leaf.String()}
}

// BodyHash is the hash of a body that is not shown.
func BodyHash(body []byte) Hash { return sha256.Sum256(body) }

var ranges = compact.RangeFactory{Hash: hashChildren}

// hashChildren is rfc6962's, with one allocation instead of three.
func hashChildren(left, right []byte) []byte {
	sum := sha256.Sum256(append(append(append(make([]byte, 0, 1+2*sha256.Size), rfc6962.RFC6962NodeHashPrefix), left...), right...))
	return sum[:]
}

// Root is the RFC 6962 Merkle root over leaves in their order.
func Root(leaves []Hash) Hash {
	root, _ := buildTree(leaves, nil)
	return root
}

// buildTree computes the root and calls visit with every node.
func buildTree(leaves []Hash, visit compact.VisitFn) (Hash, error) {
	if len(leaves) == 0 {
		return Hash(rfc6962.DefaultHasher.EmptyRoot()), nil
	}
	r := ranges.NewEmptyRange(0)
	for i := range leaves {
		if err := r.Append(leaves[i][:], visit); err != nil {
			return Hash{}, err
		}
	}
	root, err := r.GetRootHash(visit)
	if err != nil {
		return Hash{}, err
	}
	return Hash(root), nil
}

// Path is the RFC 6962 inclusion proof of the leaf at index.
func Path(leaves []Hash, index uint64) ([]Hash, error) {
	fail := func(err error) ([]Hash, error) {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "prove inclusion", What: "there is no such leaf", Err: err}
	}
	need, err := merkleproof.Inclusion(index, uint64(len(leaves)))
	if err != nil {
		return fail(err)
	}
	found := map[compact.NodeID][]byte{}
	for _, id := range need.IDs {
		found[id] = nil
	}
	if _, err := buildTree(leaves, func(id compact.NodeID, hash []byte) {
		if _, want := found[id]; want {
			found[id] = hash
		}
	}); err != nil {
		return fail(err)
	}
	hashes := make([][]byte, len(need.IDs))
	for i, id := range need.IDs {
		hashes[i] = found[id]
	}
	path, err := need.Rehash(hashes, rfc6962.DefaultHasher.HashChildren)
	if err != nil {
		return fail(err)
	}
	out := make([]Hash, len(path))
	for i, h := range path {
		out[i] = Hash(h)
	}
	return out, nil
}

// Included reports whether path proves the leaf at index in a tree of size leaves.
func Included(leaf Hash, index, size uint64, path []Hash, root Hash) bool {
	hashes := make([][]byte, len(path))
	for i := range path {
		hashes[i] = path[i][:]
	}
	return merkleproof.VerifyInclusion(rfc6962.DefaultHasher, index, size, leaf[:], hashes, root[:]) == nil
}
