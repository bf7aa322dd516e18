package journal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// Anchor is a small file outside the store with the last checkpoint and the
// highest record that this engine knows. It reveals the loss of journal and
// checkpoints together, and the loss of unsigned records.
//
// The file has two blocks, each authenticated with the engine keys. A single system
// call writes a block, so a killed process leaves a valid file.
type Anchor struct {
	path string
	key  [sha256.Size]byte

	mu    sync.Mutex // guards all below
	file  *os.File   // nil until the anchor is created
	state anchorState
	head  anchorHead
	high  highMark
	block [anchorBlock]byte
	err   error // of the first write that failed
}

type anchorState int

const (
	anchorAbsent anchorState = iota // no file
	anchorBlank                     // a new folder: no journal was created yet
	anchorMade                      // an anchor
)

// anchorHead is the block that is written for each checkpoint.
type anchorHead struct {
	V      int              `json:"v"` // 1
	Space  toolcall.SpaceID `json:"space"`
	KeyID  string           `json:"key_id"` // of the engine keys; see Keys.ID
	Number uint64           `json:"checkpoint,omitzero"`
	Hash   proof.Hash       `json:"checkpoint_hash,omitzero"`
	To     uint64           `json:"to_seq,omitzero"`
	At     time.Time        `json:"checkpoint_at,omitzero"`
	MAC    string           `json:"mac,omitzero"`
}

// highMark is the highest record that was acknowledged or delivered to this engine.
type highMark struct {
	seq  uint64
	leaf proof.Hash // zero: unknown
	at   int64      // Unix nanoseconds
}

func (m highMark) storedAt() time.Time { return time.Unix(0, m.at).UTC() }

const (
	// anchorBlock is one disk sector, which the disk writes completely or not at all.
	anchorBlock = 512
	anchorText  = "askance anchor of a journal that was not made yet\n"
	markFormat  = "mark %020d %x %020d "
	markBody    = 5 + 20 + 1 + 64 + 1 + 20 + 1
)

// CreateAnchor writes a file at path that says that no journal exists yet, unless path
// exists. See [LoadOrCreateSpaceKeys].
func CreateAnchor(path string) error {
	if err := secretfile.WriteOnce(path, []byte(anchorText), 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return secretfile.Error("create anchor", path, err)
	}
	return nil
}

// IsBlankAnchor reports whether [CreateAnchor] wrote the file at path, and no journal was made since.
func IsBlankAnchor(path string) bool {
	b, _, err := plainfile.Read(path, 2*anchorBlock)
	return err == nil && string(b) == anchorText
}

// OpenAnchor opens the anchor of a space. If there is no file, [Open] decides
// whether to create one. Close the anchor after the journal.
func OpenAnchor(path string, space toolcall.SpaceID, keys *keyfile.Keys) (*Anchor, error) {
	a := NewAnchor(path, space, keys)
	b, _, err := plainfile.Read(path, 2*anchorBlock)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return a, nil
	case err != nil:
		return nil, secretfile.Error("open anchor", path, err)
	case string(b) == anchorText:
		a.state = anchorBlank
		return a, nil
	}
	why, foreign := a.read(b, keys)
	switch {
	case foreign:
		return nil, &message.Error{Code: message.CodeForeignStream, Op: "open anchor", What: "the anchor file " + path + " " + why, Hint: "use the data folder (--data), the key file (--keys) and the space of one journal"}
	case why != "":
		return nil, &message.Error{Code: message.CodeDamaged, Op: "open anchor", What: "the anchor file " + path + " " + why, Hint: "restore it and the journal from one backup, or inspect the journal with askance journal check and then use askance journal accept-loss"}
	}
	if a.file, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, secretfile.Error("open anchor", path, err)
	}
	a.state = anchorMade
	return a, nil
}

// NewAnchor returns an empty anchor that replaces the file at path, for a [Recovery]
// of a journal whose anchor is damaged.
func NewAnchor(path string, space toolcall.SpaceID, keys *keyfile.Keys) *Anchor {
	return &Anchor{path: path, key: keys.Derive("anchor of " + string(space)), head: anchorHead{V: 1, Space: space, KeyID: keys.ID()}}
}

func isFile(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// read decodes the two blocks, or returns why it cannot. foreign means that the anchor
// belongs to another journal.
func (a *Anchor) read(b []byte, keys *keyfile.Keys) (why string, foreign bool) {
	if len(b) != 2*anchorBlock {
		return fmt.Sprintf("has %d bytes instead of %d", len(b), 2*anchorBlock), false
	}
	var h anchorHead
	if strictjson.Unmarshal(bytes.TrimRight(b[:anchorBlock], " \n"), &h) != nil || h.V != 1 {
		return "is damaged", false
	}
	switch {
	case h.KeyID != a.head.KeyID:
		return "belongs to the engine keys " + errtext.Quote(h.KeyID) + ", these are " + a.head.KeyID, true
	case h.Space != a.head.Space && hmac.Equal([]byte(h.MAC), []byte(NewAnchor("", h.Space, keys).headMAC(h))):
		return "belongs to the space " + errtext.Quote(string(h.Space)), true
	case !hmac.Equal([]byte(h.MAC), []byte(a.headMAC(h))):
		return "is damaged", false
	}
	high, ok := a.parseMark(b[anchorBlock:])
	if !ok {
		return "is damaged", false
	}
	a.head, a.high = h, high
	return "", false
}

func (a *Anchor) headMAC(h anchorHead) string {
	h.MAC = ""
	b, err := strictjson.Marshal(h)
	if err != nil {
		return "" // equals no MAC in a file
	}
	m := hmac.New(sha256.New, a.key[:])
	m.Write(b)
	return hex.EncodeToString(m.Sum(nil))
}

// markMAC hashes key and body; this is a safe MAC because the length of body is fixed.
func (a *Anchor) markMAC(body []byte) [sha256.Size]byte {
	var b [sha256.Size + markBody]byte
	copy(b[:], a.key[:])
	copy(b[sha256.Size:], body)
	return sha256.Sum256(b[:])
}

func (a *Anchor) putMark(block []byte, m highMark) {
	b := appendPadded(append(block[:0], "mark "...), m.seq)
	b = hex.AppendEncode(append(b, ' '), m.leaf[:])
	b = append(appendPadded(append(b, ' '), uint64(m.at)), ' ')
	mac := a.markMAC(b)
	b = append(hex.AppendEncode(b, mac[:]), '\n')
	for len(b) < len(block)-1 {
		b = append(b, ' ')
	}
	_ = append(b, '\n')
}

// appendPadded appends a number as %020d does.
func appendPadded(b []byte, n uint64) []byte {
	digits := strconv.AppendUint(make([]byte, 0, 20), n, 10)
	return append(append(b, "00000000000000000000"[len(digits):]...), digits...)
}

// parseMark reads exactly what putMark writes.
func (a *Anchor) parseMark(block []byte) (highMark, bool) {
	var m highMark
	var leaf []byte
	if n, err := fmt.Sscanf(string(block), markFormat, &m.seq, &leaf, &m.at); err != nil || n != 3 || len(leaf) != len(m.leaf) {
		return m, false
	}
	m.leaf = proof.Hash(leaf)
	var want [anchorBlock]byte
	a.putMark(want[:], m)
	return m, hmac.Equal(want[:], block)
}

// currentMarks returns zero values for a journal that does not exist yet.
func (a *Anchor) currentMarks() (anchorHead, highMark) {
	if a == nil {
		return anchorHead{}, highMark{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.head, a.high
}

// SignedAt is when the last known checkpoint was signed, by the clock of its engine.
func (a *Anchor) SignedAt() time.Time {
	head, _ := a.currentMarks()
	return head.At
}

// foundState is what was at the path when the anchor was opened.
func (a *Anchor) foundState() anchorState {
	if a == nil {
		return anchorAbsent
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// create replaces the file with a new anchor.
func (a *Anchor) create(c *proof.Checkpoint, high highMark) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.high = high
	a.head = anchorHead{V: 1, Space: a.head.Space, KeyID: a.head.KeyID}
	if err := a.setHead(c); err != nil {
		return err
	}
	b, err := a.headBlock()
	if err != nil {
		return err
	}
	a.putMark(a.block[:], high)
	if a.file != nil {
		_ = a.file.Close() // it is replaced
	}
	if err := secretfile.Replace(a.path, append(b, a.block[:]...), 0o600); err != nil {
		return secretfile.Error("write anchor", a.path, err)
	}
	if a.file, err = os.OpenFile(a.path, os.O_RDWR, 0); err != nil {
		return secretfile.Error("write anchor", a.path, err)
	}
	a.state, a.err = anchorMade, nil
	return nil
}

// setHead notes a checkpoint in the head. a.mu is held.
func (a *Anchor) setHead(c *proof.Checkpoint) error {
	if c != nil {
		hash, err := c.Hash()
		if err != nil {
			return err
		}
		a.head.Number, a.head.Hash, a.head.To, a.head.At = c.Number, hash, c.To, c.At
	}
	a.head.MAC = a.headMAC(a.head)
	return nil
}

// headBlock encodes the head. a.mu is held.
func (a *Anchor) headBlock() ([]byte, error) {
	b, err := strictjson.Marshal(a.head)
	if err == nil && len(b) >= anchorBlock {
		err = fmt.Errorf("the head has %d bytes", len(b))
	}
	if err != nil {
		return nil, &message.Error{Code: message.CodeInternal, Op: "write anchor", What: "it does not fit into its block", Err: err}
	}
	b = append(b, bytes.Repeat([]byte(" "), anchorBlock-len(b))...)
	b[anchorBlock-1] = '\n'
	return b, nil
}

// raiseMark notes the highest record. It costs one write into the page cache, which
// survives a killed process.
func (a *Anchor) raiseMark(seq uint64, leaf proof.Hash) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq <= a.high.seq || a.file == nil {
		return
	}
	a.high = highMark{seq: seq, leaf: leaf, at: time.Now().UnixNano()}
	a.putMark(a.block[:], a.high)
	if _, err := a.file.WriteAt(a.block[:], anchorBlock); err != nil && a.err == nil {
		a.err = err
	}
}

// noteCheckpoint notes a newer checkpoint and makes the whole anchor durable.
func (a *Anchor) noteCheckpoint(c *proof.Checkpoint) error {
	if a == nil || c == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.Number <= a.head.Number || a.file == nil {
		return nil
	}
	if err := a.setHead(c); err != nil {
		return err
	}
	b, err := a.headBlock()
	if err != nil {
		return err
	}
	_, err = a.file.WriteAt(b, 0)
	if err = errors.Join(err, a.file.Sync()); err != nil && a.err == nil {
		a.err = err
	}
	return err
}

// writeFailure returns why the anchor can no longer be written, or nil while it can.
func (a *Anchor) writeFailure() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil && a.isReplaced() {
		return &message.Error{Code: message.CodeUnavailable, Op: "write anchor", What: a.path + " was removed or replaced while the engine runs", Hint: "find out who did it; if the data folder is complete, restart the engine, otherwise restore a backup"}
	}
	if a.err == nil {
		return nil
	}
	return &message.Error{Code: message.CodeUnavailable, Op: "write anchor", What: a.path + " cannot be written", Hint: "make it writable, then restart the engine", Err: a.err}
}

// isReplaced reports whether the path no longer names the open file, so that no later start reads
// what is written. a.mu is held.
func (a *Anchor) isReplaced() bool {
	if a.file == nil {
		return false
	}
	open, err := a.file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(a.path)
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(open, named)
}

// Close makes the anchor durable and closes its file. It may be called again.
func (a *Anchor) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	err := errors.Join(a.file.Sync(), a.file.Close())
	a.file = nil
	return err
}
