package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/toolcall"
)

// maxBaseBytes limits the bases in memory.
const maxBaseBytes = 64 << 20

// errBaseUnread: the server did not answer, so a record could not be expanded.
var errBaseUnread = errors.New("the record on which it builds could not be read now")

// errBaseLost: the journal no longer has a genuine record there. An operator has to accept
// the loss before the entity can change.
var errBaseLost = errors.New("the record on which it builds is lost")

// bases caches the last records of open calls, on which the next ones build. Others are
// read from the journal.
type bases struct {
	store    reader
	archives *archives // has records that the journal no longer has; nil: there are no archives

	mu   sync.Mutex // guards list
	list toolcall.BaseCache
}

// put adds a base, whose stored record has that many bytes.
func (b *bases) put(base *toolcall.RecordBase, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !base.Record.Call.Open() {
		b.list.Drop(base)
		return
	}
	b.list.Put(base, bytes)
}

func (b *bases) get(seq uint64) *toolcall.RecordBase {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list.At(seq)
}

// find returns the base at seq of a record that follows prev, or nil.
func (b *bases) find(seq, prev uint64) *toolcall.RecordBase {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list.Find(seq, prev)
}

// baseAt returns the record at seq of an entity as a base, from memory or the journal.
// After errBaseUnread, ask again. errUnreadable means that this engine cannot use the record.
func (c codec) baseAt(ctx context.Context, entity bus.Entity, seq, prev uint64, deep int) (*toolcall.RecordBase, error) {
	if found := c.bases.find(seq, prev); found != nil {
		return found, nil
	}
	m, err := c.bases.store.getSeq(ctx, seq)
	if errors.Is(err, errNone) && c.bases.archives != nil {
		m, err = c.bases.archives.get(ctx, seq)
	}
	switch {
	case errors.Is(err, errNone):
		return nil, errtext.Because(errUnreadable, errtext.Because(errBaseLost, fmt.Errorf("the journal has no record %d", seq)))
	case err != nil:
		return nil, errtext.Because(errBaseUnread, err)
	case bus.EntityIn(m.subject) != string(entity):
		return nil, errtext.Because(errUnreadable, fmt.Errorf("record %d, on which it builds, belongs to another entity", seq))
	}
	s, err := bus.ParseSubject(m.subject)
	if err == nil {
		err = c.checkMAC(s, m)
	}
	if err != nil {
		return nil, errtext.Because(errUnreadable, errtext.Because(errBaseLost, fmt.Errorf("no engine of this space wrote record %d: %w", seq, err)))
	}
	rec, below, err := c.expand(ctx, entity, m, deep+1)
	if err != nil {
		return nil, err
	}
	return toolcall.NewRecordBase(seq, leafOf(m).String(), rec, below), nil
}

// expand decodes a stored record with its base, below; below is nil if it has none.
func (c codec) expand(ctx context.Context, entity bus.Entity, m stored, deep int) (rec *toolcall.EventRecord, below *toolcall.RecordBase, err error) {
	s, err := toolcall.DecodeStored(m.data)
	if err != nil {
		return nil, nil, errtext.Because(errUnreadable, err)
	}
	seq := s.BaseSeq()
	if seq >= m.seq || deep > toolcall.MaxBases {
		return nil, nil, errtext.Because(errUnreadable, errors.New("it builds on a later record, or on too many records"))
	}
	if seq > 0 {
		if below, err = c.baseAt(ctx, entity, seq, s.Prev().Seq, deep); err != nil {
			return nil, nil, err
		}
	}
	if rec, err = s.Expand(below); err != nil {
		return nil, nil, errtext.Because(errUnreadable, err)
	}
	return rec, below, nil
}

// rememberBase caches a call's record for the records that build on it.
func (c codec) rememberBase(m stored, rec *toolcall.EventRecord, below *toolcall.RecordBase) {
	if rec.Call == nil {
		return
	}
	if !rec.Call.Open() || c.bases.get(m.seq) == nil {
		c.bases.put(toolcall.NewRecordBase(m.seq, leafOf(m).String(), rec, below), len(m.data))
	}
}

// isBaseUnread reports whether a record could not be expanded because the server did not
// answer: the reader has to read it again.
func isBaseUnread(r toolcall.JournalEntry) bool { return errors.Is(r.Invalid, errBaseUnread) }
