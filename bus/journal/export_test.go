package journal

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/message/proof"
)

// ErrBatchLost is the error of a batch without an answer.
var ErrBatchLost = errBatchLost

// ClaimOf returns the durability that a journal opened on the server n1 claims for a stream.
func ClaimOf(info *jetstream.StreamInfo, stated Durability, syncs map[string]bool) (Durability, error) {
	c, err := (&claims{stated: stated, syncs: syncs, server: "n1"}).computeClaim(info)
	return c.Durability, err
}

// ReplicasError is the error of a stream that cannot have its replicas, by the server's code.
func ReplicasError(code jetstream.ErrorCode) error {
	return streamError(context.Background(), nil, "open journal", jetstream.StreamConfig{Name: "s", Replicas: 3}, &jetstream.APIError{Code: 400, ErrorCode: code})
}

// ForgetLook makes the last examination of the journal too old.
func (j *Journal) ForgetLook() { j.guard.looked.Store(nil) }

// AnnounceArchive makes and announces one archive and deletes nothing, like a process that is killed
// at that moment.
func (l *Ledger) AnnounceArchive(ctx context.Context, r Retention) ([]proof.Range, error) {
	chosen, head, err := archiver{l, r}.planArchives(ctx, new(Archiving))
	if err != nil {
		return nil, err
	}
	a, err := archiver{l, r}.makeArchive(ctx, head, chosen)
	if err != nil {
		return nil, err
	}
	return a.Gone, nil
}

// IsVoidAfter reads a record, calls happen, and then reports whether the record is void.
func (j *Journal) IsVoidAfter(ctx context.Context, seq uint64, happen func()) (bool, error) {
	m, err := j.store.getSeq(ctx, seq)
	if err != nil {
		return false, err
	}
	happen()
	return j.voids.isVoid(ctx, m)
}

// WriteArchive writes the files of an archive of these records and does not announce it.
func (l *Ledger) WriteArchive(ctx context.Context, name string, gone ...proof.Range) error {
	return archiver{Ledger: l}.writeArchive(ctx, &proof.Archive{Name: name, Gone: gone})
}

// IsNeeded reports whether an unannounced file may contain a record that exists nowhere else.
func (l *Ledger) IsNeeded(ctx context.Context, name string, losses ...proof.Loss) bool {
	return archiver{Ledger: l}.isNeeded(ctx, name, losses)
}

// SetLeftAfter sets the age at which a file is no longer that of an archiver at work.
func (b *ArchiveBucket) SetLeftAfter(d time.Duration) { b.leftAfter = d }

// SetLearnTime sets how long an archive waits until other engines know of it.
func (l *Ledger) SetLearnTime(d time.Duration) { l.learnTime = d }

// SetPauseAfter sets after how long without an acknowledgement a record that begins a call is checked
// again.
func (j *Journal) SetPauseAfter(d time.Duration) { j.pauseAfter = d }

// MetaArchiving is the metadata that warns of an archive.
const MetaArchiving = metaArchiving

// ExpectLag makes the journal treat its stream as a replicated one.
func (j *Journal) ExpectLag() { j.store.lag.on.Store(true) }

// AskStream sends one request about a copy and returns where its chunks go.
func AskStream(ctx context.Context, nc *nats.Conn, subject string) (deliver string, err error) {
	_, deliver, err = askStream(ctx, nc, subject, nil)
	return deliver, err
}

// LimitOutbox sets how many dead letters an outbox may have.
func LimitOutbox(o *Outbox, most uint64) { o.most = most }
