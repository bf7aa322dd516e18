package proof

import (
	"bytes"
	"compress/flate"
	"crypto/ed25519"
	"io"
	"strings"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// Entry is what a checkpoint keeps of a record, so that its leaf outlives it.
// An absent record has no subject.
type Entry struct {
	Subject string
	Content Hash
}

// Leaf is the record's leaf.
func (e Entry) Leaf() Hash {
	if e.Subject == "" {
		return Absent()
	}
	return Leaf(e.Subject, e.Content)
}

// Sealed is a checkpoint as it is stored: with what its leaves are made of.
type Sealed struct {
	Checkpoint Checkpoint `json:"checkpoint"`
	// Subjects are the records' subjects, each with a line feed after it,
	// compressed (RFC 1951); an absent record has an empty line.
	Subjects []byte `json:"subjects"`
	// Contents are the records' content hashes, 32 bytes each; zero for an absent
	// record.
	Contents []byte `json:"contents"`
}

const (
	// MaxSealedBytes bounds a stored checkpoint.
	MaxSealedBytes = 16 << 20
	// maxSubject is the longest subject that a checkpoint takes in. NATS allows
	// none over 4 KiB.
	maxSubject = 4096
)

// Seal completes c (number, range, space and time are set) over its entries and
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
			return fail("a subject is none", nil)
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
	if uint64(len(entries)) != c.Size() || c.form() != nil {
		return fail("the entries are not those of the range", c.form())
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

// Encode is the stored form.
func (s Sealed) Encode() ([]byte, error) {
	b, err := strictjson.Marshal(s)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: "store checkpoint", What: "it has no JSON form", Err: err}
	}
	return b, nil
}

// DecodeSealed reads a stored checkpoint. What comes back has the form of one;
// whether it is genuine Checkpoint.Verify says, and Entries whether the leaves
// are those that were signed.
func DecodeSealed(b []byte) (Sealed, error) {
	var s Sealed
	if err := strictjson.Unmarshal(b, &s, strictjson.MaxBytes(MaxSealedBytes)); err != nil {
		return Sealed{}, &message.Error{Code: message.CodeInvalid, Op: "read checkpoint", What: "it is not a stored checkpoint", Err: err}
	}
	if err := s.Checkpoint.form(); err != nil {
		return Sealed{}, err
	}
	if uint64(len(s.Contents)) != s.Checkpoint.Size()*uint64(len(Hash{})) {
		return Sealed{}, badEntries("it has not one content hash for each sequence")
	}
	return s, nil
}

// Entries takes the leaves' parts out again and makes sure that they have the
// root that was signed.
func (s Sealed) Entries() ([]Entry, error) {
	n := int(s.Checkpoint.Size()) // at most MaxRecords
	if s.Checkpoint.form() != nil || len(s.Contents) != n*len(Hash{}) {
		return nil, badEntries("it has not one content hash for each sequence")
	}
	limit := int64(n) * (maxSubject + 1)
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(s.Subjects)), limit+1))
	if err != nil || int64(len(text)) > limit {
		return nil, badEntries("its subjects cannot be unpacked")
	}
	names := strings.SplitAfter(string(text), "\n")
	if len(names) != n+1 || names[n] != "" {
		return nil, badEntries("it has not one subject for each sequence")
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
		return nil, badEntries("its records do not have the root that was signed")
	}
	return out, nil
}

func badEntries(what string) error {
	return &message.Error{Code: message.CodeForbidden, Op: "read checkpoint", What: what, Hint: "it was changed, or forged"}
}

// Leaves are the leaves of entries, in order.
func Leaves(entries []Entry) []Hash {
	out := make([]Hash, len(entries))
	for i, e := range entries {
		out[i] = e.Leaf()
	}
	return out
}
