package bus

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Snapshots keeps an engine's snapshot of a journal in a file; it implements
// engine.Snapshots. The file has a MAC by the engine keys, and names the signed checkpoint
// that covers the last record before it: a snapshot of another journal, or of one that
// was rolled back, is not used.
type Snapshots struct {
	ledger *Ledger
	path   string
	key    [sha256.Size]byte
}

// NewSnapshots keeps the snapshot of a ledger's journal at path. Nothing is read or
// written yet.
func NewSnapshots(l *Ledger, path string) *Snapshots {
	return &Snapshots{ledger: l, path: path, key: l.j.codec.keys.Derive("snapshot of " + string(l.j.space))}
}

// snapshotHead is the first line of the file; the snapshot follows.
type snapshotHead struct {
	V       int              `json:"v"` // 1
	Space   toolcall.SpaceID `json:"space"`
	KeyID   string           `json:"key_id"`  // of the engine keys
	Created time.Time        `json:"created"` // of the journal's stream
	Seq     uint64           `json:"seq"`     // the last record that the snapshot knows
	Leaf    proof.Hash       `json:"leaf"`    // of that record
	// The checkpoint that covers that record, and its place in the ledger.
	Checkpoint uint64     `json:"checkpoint"`
	Hash       proof.Hash `json:"checkpoint_hash"`
	Place      uint64     `json:"checkpoint_seq"`
	Body       string     `json:"body_sha256"`
	MAC        string     `json:"mac,omitzero"` // HMAC-SHA256 over the line without it
}

const (
	maxSnapshotFile = 1 << 30
	// snapshotReaders is how many records are read at a time.
	snapshotReaders = 64
	// olderPause limits Check to about 10,000 records a second.
	olderPause = 50 * time.Millisecond
)

var errSnapshot = errors.New("the snapshot does not fit the journal")

func (h snapshotHead) mac(key [sha256.Size]byte) (string, error) {
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

// Load implements engine.Snapshots.
func (s *Snapshots) Load(ctx context.Context) ([]byte, error) {
	b, _, err := plainfile.Read(s.path, maxSnapshotFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	line, body, ok := bytes.Cut(b, []byte("\n"))
	var h snapshotHead
	if !ok || strictjson.Unmarshal(line, &h) != nil || h.V != 1 {
		return nil, errtext.Because(errSnapshot, errors.New("the file is cut off, or of another version"))
	}
	mac, err := h.mac(s.key)
	if err != nil || !hmac.Equal([]byte(mac), []byte(h.MAC)) || h.Body != hashHex(body) {
		return nil, errtext.Because(errSnapshot, errors.New("its MAC is wrong: it was changed, or other engine keys wrote it"))
	}
	if err := s.check(ctx, h); err != nil {
		return nil, errtext.Because(errSnapshot, err)
	}
	return body, nil
}

// check ensures that a snapshot is of this journal: the signed checkpoint that it names is
// in the ledger and covers the record at its end, which is still there.
func (s *Snapshots) check(ctx context.Context, h snapshotHead) error {
	j := s.ledger.j
	if h.Space != j.space || h.KeyID != j.codec.keys.ID() || !h.Created.Equal(j.created) {
		return errors.New("it is of another journal")
	}
	m, err := s.ledger.kept.store.getSeq(ctx, h.Place)
	if err != nil {
		return fmt.Errorf("its checkpoint %d is not readable: %w", h.Checkpoint, err)
	}
	sealed, err := s.ledger.kept.verify(m)
	if err != nil {
		return err
	}
	if sealed == nil || sealed.Checkpoint.Number != h.Checkpoint || !sealed.Checkpoint.Covers(h.Seq) {
		return fmt.Errorf("checkpoint %d is not the one that it names", h.Checkpoint)
	}
	if hash, err := sealed.Checkpoint.Hash(); err != nil || hash != h.Hash {
		return fmt.Errorf("checkpoint %d differs from the one that it names", h.Checkpoint)
	}
	entries, err := sealed.Entries()
	if err != nil {
		return err
	}
	if entries[h.Seq-sealed.Checkpoint.From].Leaf() != h.Leaf {
		return fmt.Errorf("checkpoint %d signs another record %d", h.Checkpoint, h.Seq)
	}
	last, err := j.store.getSeq(ctx, h.Seq)
	if err != nil {
		return fmt.Errorf("record %d is not readable: %w", h.Seq, err)
	}
	if leafOf(last) != h.Leaf {
		return fmt.Errorf("record %d differs from the one that it names", h.Seq)
	}
	return nil
}

// Save implements engine.Snapshots. It signs the journal up to the snapshot first. The
// file is replaced whole, or not at all.
func (s *Snapshots) Save(ctx context.Context, seq uint64, snapshot []byte) error {
	j := s.ledger.j
	last, err := j.store.getSeq(ctx, seq)
	if err != nil {
		return apiError("save snapshot", fmt.Sprintf("record %d", seq), err)
	}
	h := snapshotHead{V: 1, Space: j.space, KeyID: j.codec.keys.ID(), Created: j.created, Seq: seq, Leaf: leafOf(last), Body: hashHex(snapshot)}
	if err := s.findCheckpoint(ctx, &h); err != nil {
		return err
	}
	if h.MAC, err = h.mac(s.key); err != nil {
		return err
	}
	line, err := strictjson.Marshal(h)
	if err != nil {
		return err
	}
	return s.replace(append(line, '\n'), snapshot)
}

// findCheckpoint names the checkpoint that covers the snapshot's end.
func (s *Snapshots) findCheckpoint(ctx context.Context, h *snapshotHead) error {
	if _, err := s.ledger.Checkpoint(ctx); err != nil {
		return err
	}
	newest, err := s.ledger.kept.readNewest(ctx)
	if err != nil {
		return err
	}
	for place := newest.seq; place > 0; place-- {
		m, err := s.ledger.kept.store.getSeq(ctx, place)
		if err != nil {
			return apiError("save snapshot", fmt.Sprintf("checkpoint at %d", place), err)
		}
		sealed, err := s.ledger.kept.verify(m)
		switch {
		case err != nil:
			return err
		case sealed == nil || sealed.Checkpoint.From > h.Seq:
			continue
		case !sealed.Checkpoint.Covers(h.Seq):
			return fmt.Errorf("no checkpoint covers record %d", h.Seq)
		}
		h.Checkpoint, h.Place = sealed.Checkpoint.Number, place
		h.Hash, err = sealed.Checkpoint.Hash()
		return err
	}
	return fmt.Errorf("no checkpoint covers record %d", h.Seq)
}

// replace writes the file under another name first, always the same one, so that a
// killed process leaves at most one.
func (s *Snapshots) replace(parts ...[]byte) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return secretfile.Error("save snapshot", s.path, err)
	}
	next := s.path + ".new"
	f, err := os.OpenFile(next, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return secretfile.Error("save snapshot", s.path, err)
	}
	for _, p := range parts {
		if err == nil {
			_, err = f.Write(p)
		}
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		_ = os.Remove(next) // the room may be needed
		return secretfile.Error("save snapshot", s.path, err)
	}
	return nil
}

// ReadRecords implements engine.Snapshots. It reads from any replica: what stands at a
// sequence never changes.
func (s *Snapshots) ReadRecords(ctx context.Context, seqs []uint64) ([]toolcall.JournalEntry, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := make([]toolcall.JournalEntry, len(seqs))
	next := make(chan int)
	var wg sync.WaitGroup
	for range min(snapshotReaders, len(seqs)) {
		wg.Go(func() {
			for i := range next {
				m, err := s.ledger.j.store.getAny(ctx, seqs[i])
				if err != nil {
					stop(apiError("read records", fmt.Sprintf("record %d", seqs[i]), err))
					continue
				}
				if out[i] = s.ledger.j.codec.decode(ctx, m); isBaseUnread(out[i]) {
					stop(out[i].Invalid)
				}
			}
		})
	}
	for i := range seqs {
		next <- i
	}
	close(next)
	wg.Wait()
	return out, context.Cause(ctx)
}

// Check implements engine.Snapshots. A record that the server counts and does not deliver
// ends the journal.
func (s *Snapshots) Check(ctx context.Context, through uint64) error {
	g := s.ledger.j.guard
	if g.inspect {
		return nil
	}
	x, err := g.check(ctx)
	if err != nil {
		return err
	}
	bad, err := g.findUnreadable(ctx, x, through, olderPause)
	if err != nil || !x.addUnreadable(bad) {
		return err
	}
	if x.patience() == 0 {
		g.finish(x.Error())
	}
	return x.Error()
}

// getAny reads one message from any replica, or from the leader if that one lacks it.
func (rd reader) getAny(ctx context.Context, seq uint64) (stored, error) {
	if err := ctx.Err(); err != nil {
		return stored{}, err
	}
	once, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	m, err := rd.nc.RequestWithContext(once, "$JS.API.DIRECT.GET."+rd.stream, fmt.Appendf(nil, `{"seq":%d}`, seq))
	if err == nil && last(m.Header, "Nats-Sequence") != "" {
		if found, err := storedOf(m); err == nil && found.seq == seq {
			return found, nil
		}
	}
	if errors.Is(err, nats.ErrConnectionClosed) {
		return stored{}, err
	}
	return rd.getSeq(ctx, seq)
}
