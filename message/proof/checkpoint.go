package proof

import (
	"bytes"
	"compress/flate"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// MaxRecords is the most records that one checkpoint covers.
const MaxRecords = 4096

// Checkpoint is an engine's signed statement about a range of its journal.
type Checkpoint struct {
	V       int              `json:"v"`      // 1
	KeyID   string           `json:"key_id"` // which engine key signed
	Space   toolcall.SpaceID `json:"space"`
	Number  uint64           `json:"number"`        // 1, 2, … without a gap
	From    uint64           `json:"from_seq"`      // the first sequence of the range
	To      uint64           `json:"to_seq"`        // the last one
	Records uint64           `json:"records"`       // how many records were present
	Root    Hash             `json:"root"`          // over the leaves From … To
	Prev    Hash             `json:"prev,omitzero"` // Hash of the checkpoint before; absent for the first
	At      time.Time        `json:"at"`            // the engine's clock, UTC
	Engine  string           `json:"engine"`        // which replica
	// Losses is how many losses operators had accepted by then; Loss is the one that this
	// checkpoint records.
	Losses uint64 `json:"losses,omitzero"`
	Loss   *Loss  `json:"loss,omitzero"`
	// Archives is how many archives had been announced by then, and ArchiveAt the place in the
	// ledger of the last one that an earlier checkpoint announced. Archive is announced by this
	// checkpoint, which may cover nothing; To is then one less than From.
	Archives  uint64   `json:"archives,omitzero"`
	ArchiveAt uint64   `json:"archive_at_seq,omitzero"`
	Archive   *Archive `json:"archive,omitzero"`
	Sig       string   `json:"sig,omitzero"` // base64url Ed25519 over the rest
}

// checkpointDomain separates signatures of checkpoints from any other.
const checkpointDomain = "askance-checkpoint-v1\n"

func (c Checkpoint) signedText() ([]byte, error) {
	c.Sig = ""
	b, err := jcs.Marshal(c)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "read checkpoint", What: "it has no canonical form", Err: err}
	}
	return append([]byte(checkpointDomain), b...), nil
}

// Sign sets KeyID and Sig.
func (c *Checkpoint) Sign(key ed25519.PrivateKey) (err error) {
	c.KeyID = toolcall.KeyID(key.Public().(ed25519.PublicKey))
	c.Sig, err = toolcall.Sign(key, c.signedText)
	return err
}

// Hash is the hash of the signed text. The next checkpoint contains it, and an auditor keeps
// it.
func (c Checkpoint) Hash() (Hash, error) {
	b, err := c.signedText()
	if err != nil {
		return Hash{}, err
	}
	return sha256.Sum256(b), nil
}

// Size is the number of sequences of the range.
func (c Checkpoint) Size() uint64 { return c.To - c.From + 1 }

// Covers reports whether a sequence is in the range.
func (c Checkpoint) Covers(seq uint64) bool { return c.From <= seq && seq <= c.To }

// String is for people.
func (c Checkpoint) String() string {
	return fmt.Sprintf("checkpoint %d over %d to %d", c.Number, c.From, c.To)
}

// Verify checks the form and the signature by one of the keys. Any doubt is an error
// with CodeForbidden, or CodeInvalid for a form that no engine writes.
func (c Checkpoint) Verify(keys toolcall.KeySet) error {
	const op = "verify checkpoint"
	if err := c.checkForm(); err != nil {
		return err
	}
	pub, ok := keys[c.KeyID]
	if !ok {
		return &message.Error{Code: message.CodeForbidden, Op: op, What: fmt.Sprintf("%s is signed by the unknown engine key %q", c, c.KeyID), Hint: "pass the public keys of all engines of the space, former ones too"}
	}
	b, err := c.signedText()
	if err != nil {
		return err
	}
	if !toolcall.IsSignedBy(pub, b, c.Sig) {
		return &message.Error{Code: message.CodeForbidden, Op: op, What: "the signature of " + c.String() + " does not match", Hint: "do not trust it: it was changed or forged"}
	}
	return nil
}

// checkForm checks everything that needs no key.
func (c Checkpoint) checkForm() error {
	var bad string
	switch {
	case c.V != 1:
		bad = "its version is unknown"
	case c.Number == 0 || c.From == 0 || c.To+1 < c.From || c.To < c.From && c.Archive == nil:
		bad = "it has no number or no range"
	case c.Size() > MaxRecords:
		bad = "its range is too large"
	case c.Records > c.Size():
		bad = "it counts more records than its range has"
	case (c.Number == 1) != c.Prev.IsZero():
		bad = "it names no checkpoint before it, or the first one names one"
	case c.Archive != nil:
		bad = c.Archive.check(c.From)
	}
	if bad == "" {
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: "read checkpoint", What: bad}
}

// Follows checks that c is the checkpoint right after prev by its number, range and
// hash. Nil prev: c is the first one.
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
		return bad("checkpoint %d belongs to the space %q, the one before to %q", c.Number, c.Space, prev.Space)
	case c.Number != prev.Number+1:
		return bad("checkpoint %d comes after checkpoint %d", c.Number, prev.Number)
	case c.From != prev.To+1:
		return bad("%s does not begin where %s ends", c, prev)
	case c.Prev != hash:
		return bad("%s follows a checkpoint %d other than this one", c, prev.Number)
	}
	return c.followsArchive(prev)
}

// Entry is what a checkpoint stores about a record, so that the leaf outlives the record. An
// absent record has no subject.
type Entry struct {
	Subject string
	Content Hash
}

// Foreign returns the entry of a record that no engine wrote. It has another leaf than the record,
// so that a checkpoint says that the record was stored, and proves nothing that the record says.
func (e Entry) Foreign() Entry {
	e.Content = sha256.Sum256(append([]byte(foreignDomain), e.Content[:]...))
	return e
}

// Signs reports whether a checkpoint with this entry covers a record, by its subject and content.
func (e Entry) Signs(subject string, content Hash) bool {
	record := Entry{Subject: subject, Content: content}
	return e == record || e == record.Foreign()
}

// Leaf is the leaf of the record.
func (e Entry) Leaf() Hash {
	if e.Subject == "" {
		return Absent()
	}
	return Leaf(e.Subject, e.Content)
}

// Sealed is a stored checkpoint, with the parts of its leaves.
type Sealed struct {
	Checkpoint Checkpoint `json:"checkpoint"`
	// Subjects are the records' subjects, each with a line feed after it,
	// compressed (RFC 1951); an absent record has an empty line.
	Subjects []byte `json:"subjects"`
	// Contents are the records' content hashes of 32 bytes, zero for an absent record.
	Contents []byte `json:"contents"`
}

const (
	// maxSealedBytes bounds a stored checkpoint.
	maxSealedBytes = 16 << 20
	// maxSubject is the longest subject; NATS permits at most 4 KiB.
	maxSubject = 4096
)

// Seal completes c, whose number, range, space and time are set, with its entries and
// signs it.
func Seal(c Checkpoint, entries []Entry, key ed25519.PrivateKey) (Sealed, error) {
	fail := func(what string, err error) (Sealed, error) {
		return Sealed{}, &message.Error{Code: message.CodeInvalid, Op: "seal checkpoint", What: what, Err: err}
	}
	c.V, c.Records = 1, 0
	var names strings.Builder
	leaves := make([]Hash, len(entries))
	contents := make([]byte, 0, len(entries)*len(Hash{}))
	for i, e := range entries {
		if len(e.Subject) > maxSubject || strings.ContainsAny(e.Subject, "\n") {
			return fail("a subject is not valid", nil)
		}
		if e.Subject == "" {
			e.Content = Hash{}
		} else {
			c.Records++
		}
		names.WriteString(e.Subject + "\n")
		contents = append(contents, e.Content[:]...)
		leaves[i] = e.Leaf()
	}
	c.Root = Root(leaves)
	if uint64(len(entries)) != c.Size() || c.checkForm() != nil {
		return fail("the entries do not match the range", c.checkForm())
	}
	packed, err := deflate(names.String())
	if err != nil {
		return fail("the subjects cannot be compressed", err)
	}
	if err := c.Sign(key); err != nil {
		return Sealed{}, err
	}
	return Sealed{Checkpoint: c, Subjects: packed, Contents: contents}, nil
}

func deflate(text string) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.DefaultCompression)
	if err != nil {
		return nil, err
	}
	if _, err = io.WriteString(w, text); err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// Encode returns the stored form.
func (s Sealed) Encode() ([]byte, error) {
	b, err := strictjson.Marshal(s)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: "store checkpoint", What: "it has no JSON form", Err: err}
	}
	return b, nil
}

// DecodeSealed reads a stored checkpoint and checks its form. Checkpoint.Verify checks
// the signature, and Entries the leaves.
func DecodeSealed(b []byte) (Sealed, error) {
	var s Sealed
	if err := strictjson.Unmarshal(b, &s, strictjson.MaxBytes(maxSealedBytes)); err != nil {
		return Sealed{}, &message.Error{Code: message.CodeInvalid, Op: "read checkpoint", What: "it is not a stored checkpoint", Err: err}
	}
	if err := s.Checkpoint.checkForm(); err != nil {
		return Sealed{}, err
	}
	if uint64(len(s.Contents)) != s.Checkpoint.Size()*uint64(len(Hash{})) {
		return Sealed{}, badEntries("it does not have one content hash for each sequence")
	}
	return s, nil
}

// Entries returns the entries and checks that they have the signed root.
func (s Sealed) Entries() ([]Entry, error) {
	entries, _, err := s.open()
	return entries, err
}

// open returns the entries and their leaves.
func (s Sealed) open() ([]Entry, []Hash, error) {
	n := int(s.Checkpoint.Size()) // at most MaxRecords
	if s.Checkpoint.checkForm() != nil || len(s.Contents) != n*len(Hash{}) {
		return nil, nil, badEntries("it does not have one content hash for each sequence")
	}
	limit := int64(n) * (maxSubject + 1)
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(s.Subjects)), limit+1))
	if err != nil || int64(len(text)) > limit {
		return nil, nil, badEntries("its subjects cannot be unpacked")
	}
	names := strings.SplitAfter(string(text), "\n")
	if len(names) != n+1 || names[n] != "" {
		return nil, nil, badEntries("it does not have one subject for each sequence")
	}
	out := make([]Entry, n)
	leaves := make([]Hash, n)
	present := uint64(0)
	for i := range out {
		out[i].Subject = strings.TrimSuffix(names[i], "\n")
		copy(out[i].Content[:], s.Contents[i*len(Hash{}):])
		leaves[i] = out[i].Leaf()
		if out[i].Subject != "" {
			present++
		}
	}
	if Root(leaves) != s.Checkpoint.Root || present != s.Checkpoint.Records {
		return nil, nil, badEntries("its records do not have the signed root")
	}
	return out, leaves, nil
}

func badEntries(what string) error {
	return &message.Error{Code: message.CodeForbidden, Op: "read checkpoint", What: what, Hint: "do not trust it: it was changed or forged"}
}

// Leaves returns the leaves of entries, in order.
func Leaves(entries []Entry) []Hash {
	out := make([]Hash, len(entries))
	for i, e := range entries {
		out[i] = e.Leaf()
	}
	return out
}

// Retired maps key ids to when engine keys were retired. Earlier signatures stay valid.
type Retired map[string]time.Time

// noticeTime is how long after a retirement an engine may not have learned of it.
const noticeTime = time.Minute

// isRetired reports whether a key was retired at a time when every engine had learned of it.
func (r Retired) isRetired(keyID string, at time.Time) bool {
	end, is := r[keyID]
	return is && at.After(end.Add(noticeTime))
}

// Check refuses a checkpoint that was signed after its key was retired: by its own time, or
// by the time of the genuine checkpoint before it, if known. The holder of a retired key can
// forge the former, but not the latter.
func (r Retired) Check(c Checkpoint, before *Checkpoint) error {
	at := c.At
	if before != nil && before.At.After(at) {
		at = before.At
	}
	if !r.isRetired(c.KeyID, at) {
		return nil
	}
	return &message.Error{Code: message.CodeForbidden, Op: "verify checkpoint", What: fmt.Sprintf("%s is signed by the engine key %s, which was already retired at %s", c, c.KeyID, r[c.KeyID].UTC().Format(time.RFC3339)), Hint: "find out who has the retired key"}
}
