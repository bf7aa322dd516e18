package store

import (
	"sync"

	"github.com/askance-dev/askance/toolcall"
)

// inFlight holds the event records that this engine is writing, by id. The watch applies
// them from memory when it meets them, in the journal's order, instead of
// decoding what the journal sends back.
//
// Invariant: an entry is a write whose outcome is open, or a stored event record that
// the watch has not met. When the watch has ended there is none.
type inFlight struct {
	mu      sync.Mutex // guards all below
	records map[string]*toolcall.EventRecord
	ended   bool
}

// put keeps a copy: the writer may be sending the event record once more while the watch
// gives the call its place in the journal.
func (o *inFlight) put(f *toolcall.EventRecord) {
	held := *f
	if f.Call != nil {
		held.Call = f.Call.Clone()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	if o.records == nil {
		o.records = map[string]*toolcall.EventRecord{}
	}
	o.records[f.ID] = &held
}

// take returns the event record and removes it; nil if there is none with this id.
func (o *inFlight) take(id string) *toolcall.EventRecord {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.records[id]
	delete(o.records, id)
	return f
}

// end removes everything: the watch has ended and takes nothing more.
func (o *inFlight) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.records, o.ended = nil, true
}
