package proof

import (
	"fmt"

	"github.com/askance-dev/askance/toolcall"
)

// maxBases limits the records that an Expander remembers.
const maxBases = 1 << 13

// Expander returns the event records of calls with the whole call. It is given the stored
// records in their order and remembers the last thousands of those on which later ones
// build. The zero value is ready. One goroutine may use it at a time.
type Expander struct {
	// Load reads a record that is not remembered. Nil: such a record cannot be expanded.
	Load func(seq uint64) (*Record, error)

	bases map[uint64]*toolcall.RecordBase
	order []uint64 // in which they came
}

// Expand decodes a record, which may be redacted, and sets its Base. The result belongs to
// the caller.
func (e *Expander) Expand(r *Record) (*toolcall.EventRecord, error) { return e.expand(r, 0) }

func (e *Expander) expand(r *Record, deep int) (*toolcall.EventRecord, error) {
	s, err := toolcall.DecodeStored(r.Body())
	if err != nil {
		return nil, err
	}
	var below *toolcall.RecordBase
	if seq := s.BaseSeq(); seq > 0 {
		if below, err = e.find(seq, s.Follows(), r, deep); err != nil {
			return nil, err
		}
	}
	f, err := s.Expand(below)
	if err != nil {
		return nil, err
	}
	r.Base = below
	if f.Call != nil {
		e.put(toolcall.NewRecordBase(r.Seq, r.Leaf().String(), f, below), s.Follows())
	}
	return f, nil
}

func (e *Expander) find(seq, prev uint64, of *Record, deep int) (*toolcall.RecordBase, error) {
	if found := e.bases[seq]; found != nil {
		return found, nil
	}
	if last := e.bases[prev]; last != nil && last.Whole != nil && last.Whole.Seq == seq {
		return last.Whole, nil
	}
	if e.Load == nil || deep >= toolcall.MaxBases || seq >= of.Seq {
		return nil, fmt.Errorf("the record %d, on which it builds, is missing", seq)
	}
	r, err := e.Load(seq)
	if err != nil {
		return nil, err
	}
	if _, err := e.expand(r, deep+1); err != nil {
		return nil, err
	}
	if found := e.bases[seq]; found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("the record %d, on which it builds, is not of a call", seq)
}

// put remembers a record. Only it still needs the one before.
func (e *Expander) put(b *toolcall.RecordBase, prev uint64) {
	if e.bases == nil {
		e.bases = map[uint64]*toolcall.RecordBase{}
	}
	delete(e.bases, prev)
	if len(e.order) >= maxBases {
		delete(e.bases, e.order[0])
		e.order = e.order[1:]
	}
	e.bases[b.Seq], e.order = b, append(e.order, b.Seq)
}
