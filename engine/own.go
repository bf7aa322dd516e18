package engine

import "sync"

// ownFacts holds the ids of facts that this engine is writing, and of those
// that it has written until the watch meets them: the watch need not read
// them, whichever of the two is first.
type ownFacts struct {
	mu  sync.Mutex
	ids map[string]ownState
}

type ownState uint8

const (
	flying ownState = iota // being written
	landed                 // written and in the view
	passed                 // being written, and the watch has passed over it
)

// begin announces a fact before it is written.
func (o *ownFacts) begin(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = map[string]ownState{}
	}
	o.ids[id] = flying
}

// stored notes that the fact is in the journal and in the view.
func (o *ownFacts) stored(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id] == passed {
		delete(o.ids, id)
		return
	}
	o.ids[id] = landed
}

// failed takes the announcement back and reports whether the watch has passed
// over the fact meanwhile: it is in the journal after all, and the view does
// not have it.
func (o *ownFacts) failed(id string) (missed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	missed = o.ids[id] == passed
	delete(o.ids, id)
	return missed
}

// met is asked by the watch: true means that it can pass over the fact.
func (o *ownFacts) met(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	state, ours := o.ids[id]
	switch {
	case !ours:
		return false
	case state == landed:
		delete(o.ids, id)
	default:
		o.ids[id] = passed
	}
	return true
}
