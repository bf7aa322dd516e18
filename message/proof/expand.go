package proof

import (
	"errors"
	"fmt"
	"math"

	"github.com/askance-dev/askance/toolcall"
)

// maxBaseBytes limits the size of the records that an Expander caches.
const maxBaseBytes = 64 << 20

// ErrBaseUnread means that a record could not be expanded because Load failed.
var ErrBaseUnread = errors.New("the record on which it builds could not be read")

// Expander returns the event records of calls with the whole call. It is given the stored
// records in order and caches those on which later ones may build. The zero value is ready
// to use. It must be used by one goroutine at a time.
type Expander struct {
	// Load reads a record that is not cached; nil without an error means that there is none.
	// Without Load, the Expander caches all records.
	Load func(seq uint64) (*Record, error)

	bases toolcall.BaseCache
}

// Expand decodes a record, which may be redacted, and sets its Base. The result belongs to
// the caller. A record that shows something without a proof is an error.
func (e *Expander) Expand(r *Record) (*toolcall.EventRecord, error) { return e.expand(r, 0) }

func (e *Expander) expand(r *Record, loads int) (*toolcall.EventRecord, error) {
	if why := r.findUnproved(); why != "" {
		return nil, errors.New(why)
	}
	s, err := toolcall.DecodeStored(r.Body())
	if err != nil {
		return nil, err
	}
	var base *toolcall.RecordBase
	if seq := s.BaseSeq(); seq > 0 {
		if base, err = e.find(seq, s.Prev().Seq, r, loads); err != nil {
			return nil, err
		}
	}
	rec, err := s.Expand(base)
	if err != nil {
		return nil, err
	}
	r.Base = base
	if rec.Call != nil {
		e.put(toolcall.NewRecordBase(r.Seq, r.Leaf().String(), rec, base), len(r.Body()))
	}
	return rec, nil
}

// find returns the base at seq of a record that follows the one at prev. loads counts the
// records that were already loaded for it.
func (e *Expander) find(seq, prev uint64, of *Record, loads int) (*toolcall.RecordBase, error) {
	if found := e.bases.Find(seq, prev); found != nil {
		return found, nil
	}
	missing := fmt.Errorf("the record %d, on which it builds, is missing", seq)
	if e.Load == nil || loads >= toolcall.MaxBases || seq >= of.Seq {
		return nil, missing
	}
	r, err := e.Load(seq)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBaseUnread, err)
	case r == nil:
		return nil, missing
	}
	rec, err := e.expand(r, loads+1)
	switch {
	case err != nil:
		return nil, err
	case rec.Call == nil:
		return nil, fmt.Errorf("the record %d, on which it builds, does not belong to a call", seq)
	}
	return toolcall.NewRecordBase(seq, r.Leaf().String(), rec, r.Base), nil
}

// put caches a record. Few records follow a finished call; they load it again.
func (e *Expander) put(b *toolcall.RecordBase, bytes int) {
	if e.Load == nil {
		e.bases.MaxBytes = math.MaxInt
	} else if e.bases.MaxBytes = maxBaseBytes; !b.Record.Call.Open() {
		e.bases.Drop(b)
		return
	}
	e.bases.Put(b, bytes)
}
