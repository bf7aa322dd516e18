package journal

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// boundFile is a file about a journal up to one of its records. It has a MAC made with the
// engine keys, and names the signed checkpoint that covers that record. A reader trusts the
// file only if the ledger still has the checkpoint and the journal the record.
type boundFile struct {
	ledger *Ledger
	path   string
	what   string
	key    [sha256.Size]byte
}

func newBoundFile(l *Ledger, path, what string) boundFile {
	return boundFile{ledger: l, path: path, what: what, key: l.j.codec.keys.Derive(what + " of " + string(l.j.space))}
}

// boundHead is the first line of the file; the body follows.
type boundHead struct {
	V       int              `json:"v"` // 1
	Space   toolcall.SpaceID `json:"space"`
	KeyID   string           `json:"key_id"`  // of the engine keys
	Created time.Time        `json:"created"` // of the journal's stream
	Seq     uint64           `json:"seq"`     // the last record that the file covers
	Leaf    proof.Hash       `json:"leaf"`    // of that record
	// The checkpoint that covers that record, and its place in the ledger.
	Checkpoint uint64     `json:"checkpoint"`
	Hash       proof.Hash `json:"checkpoint_hash"`
	Place      uint64     `json:"checkpoint_seq"`
	Body       string     `json:"body_sha256"`
	MAC        string     `json:"mac,omitzero"` // HMAC-SHA256 over the line without it
}

const maxBoundFile = 1 << 30

func (h boundHead) computeMAC(key [sha256.Size]byte) (string, error) {
	h.MAC = ""
	b, err := strictjson.Marshal(h)
	if err != nil {
		return "", err
	}
	m := hmac.New(sha256.New, key[:])
	m.Write(b)
	return hex.EncodeToString(m.Sum(nil)), nil
}

func hashHex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// load returns the body and the checkpoint that the file names, or nil if there is no file.
// After an error the file must not be trusted; a body then says what its writer knew.
func (f boundFile) load(ctx context.Context) (body []byte, at *bound, err error) {
	b, _, err := plainfile.Read(f.path, maxBoundFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	refuse := func(err error) ([]byte, *bound, error) {
		return nil, nil, errtext.Because(fmt.Errorf("the %s does not fit the journal", f.what), err)
	}
	line, body, ok := bytes.Cut(b, []byte("\n"))
	var h boundHead
	if !ok || strictjson.Unmarshal(line, &h) != nil || h.V != 1 {
		return refuse(errors.New("the file is truncated, or has another version"))
	}
	mac, err := h.computeMAC(f.key)
	if err != nil || !hmac.Equal([]byte(mac), []byte(h.MAC)) || h.Body != hashHex(body) {
		return refuse(errors.New("its MAC is wrong: it was changed, or other engine keys wrote it"))
	}
	c, err := f.check(ctx, h)
	if err != nil {
		_, _, err = refuse(err)
		return body, nil, err
	}
	return body, &bound{c, h.Place, h.Seq}, nil
}

// bound is the checkpoint that a file names, its place in the ledger, and the record.
type bound struct {
	checkpoint *proof.Checkpoint
	place, seq uint64
}

// MissingCheckpointError means that a file of a holder of the engine keys names a checkpoint that the
// ledger does not have: the journal is an older copy, or another one.
type MissingCheckpointError struct {
	Anchor proof.Anchor
	At     time.Time // when the file was written, if known
	path   string
}

func (e *MissingCheckpointError) Error() string {
	return fmt.Sprintf("the checkpoint %s, which %s names, is missing", e.Anchor, e.path)
}

// check makes sure that the file is about this journal: the ledger has the signed checkpoint
// that the file names, which covers the file's last record, which the journal still has.
func (f boundFile) check(ctx context.Context, h boundHead) (*proof.Checkpoint, error) {
	j := f.ledger.j
	if h.Space != j.space || h.KeyID != j.codec.keys.ID() {
		return nil, errors.New("it belongs to another journal")
	}
	missing := &MissingCheckpointError{Anchor: proof.Anchor{Number: h.Checkpoint, Hash: h.Hash}, path: f.path}
	m, err := f.ledger.kept.store.getSeq(ctx, h.Place)
	if errors.Is(err, errNone) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, fmt.Errorf("its checkpoint %d is not readable: %w", h.Checkpoint, err)
	}
	sealed, err := f.ledger.kept.verify(m)
	if err != nil {
		return nil, err
	}
	if sealed == nil || sealed.Checkpoint.Number != h.Checkpoint || !sealed.Checkpoint.Covers(h.Seq) {
		return nil, missing
	}
	if hash, err := sealed.Checkpoint.Hash(); err != nil || hash != h.Hash {
		return nil, missing
	}
	if !h.Created.Equal(j.created) {
		return nil, errors.New("it belongs to another journal")
	}
	entries, err := sealed.Entries()
	if err != nil {
		return nil, err
	}
	last, err := j.store.getSeq(ctx, h.Seq)
	if err != nil {
		return nil, fmt.Errorf("record %d is not readable: %w", h.Seq, err)
	}
	if leafOf(last) != h.Leaf {
		return nil, fmt.Errorf("record %d differs from the one that it names", h.Seq)
	}
	if !entries[h.Seq-sealed.Checkpoint.From].Signs(last.subject, entryOf(last).Content) {
		return nil, fmt.Errorf("checkpoint %d signs another record %d", h.Checkpoint, h.Seq)
	}
	return &sealed.Checkpoint, nil
}

// save writes a file about the journal up to seq, which a checkpoint covers.
func (f boundFile) save(ctx context.Context, seq uint64, body []byte) error {
	j := f.ledger.j
	last, err := j.store.getSeq(ctx, seq)
	if err != nil {
		return jsapi.Error("save "+f.what, fmt.Sprintf("record %d", seq), err)
	}
	h := boundHead{V: 1, Space: j.space, KeyID: j.codec.keys.ID(), Created: j.created, Seq: seq, Leaf: leafOf(last), Body: hashHex(body)}
	if err := f.findCheckpoint(ctx, &h); err != nil {
		return err
	}
	if h.MAC, err = h.computeMAC(f.key); err != nil {
		return err
	}
	line, err := strictjson.Marshal(h)
	if err != nil {
		return err
	}
	if err := j.room.checkBeside(len(line) + len(body)); err != nil {
		_ = os.Remove(f.path + secretfile.Unfinished) // a killed process may have left it: free its space
		return secretfile.Error("save "+f.what, f.path, err)
	}
	return secretfile.Write("save "+f.what, f.path, func(w io.Writer) error {
		_, err := io.Copy(w, io.MultiReader(bytes.NewReader(append(line, '\n')), bytes.NewReader(body)))
		return err
	})
}

// findCheckpoint sets the checkpoint that covers the file's last record.
func (f boundFile) findCheckpoint(ctx context.Context, h *boundHead) error {
	uncovered := fmt.Errorf("no checkpoint covers record %d", h.Seq)
	newest, err := f.ledger.kept.readNewest(ctx)
	if err != nil {
		return err
	}
	if h.Seq > newest.lastSequence() {
		return uncovered
	}
	for place := newest.seq; place > 0; place-- {
		m, err := f.ledger.kept.store.getSeq(ctx, place)
		if err != nil {
			return jsapi.Error("save "+f.what, fmt.Sprintf("checkpoint at %d", place), err)
		}
		sealed, err := f.ledger.kept.verify(m)
		switch {
		case err != nil:
			return err
		case sealed == nil || !sealed.Checkpoint.Covers(h.Seq): // a later one, or a copy of an earlier one
			continue
		}
		h.Checkpoint, h.Place = sealed.Checkpoint.Number, place
		h.Hash, err = sealed.Checkpoint.Hash()
		return err
	}
	return uncovered
}
