package engine

import "sync"

// ownFacts holds the ids of facts that this engine is writing, and of those
// that it has written until the watch meets them: the watch need not read
// them, whichever of the two is first.
type ownFacts struct {
	mu      sync.Mutex // guards all below
	ids     map[string]ownState
	missing int             // how many are passed: in the journal, perhaps, and not in the view
	waiting []chan struct{} // for missing to be 0
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
		o.found(id)
		return
	}
	o.ids[id] = landed
}

// found forgets a fact that was passed over: the view has it, or it is in no
// journal. o.mu is held.
func (o *ownFacts) found(id string) {
	delete(o.ids, id)
	if o.missing--; o.missing > 0 {
		return
	}
	for _, ch := range o.waiting {
		close(ch)
	}
	o.waiting = nil
}

// whole returns nil if the view lacks none of the own facts that the watch has
// passed over, else a channel that is closed when that is so.
func (o *ownFacts) whole() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.missing == 0 {
		return nil
	}
	ch := make(chan struct{})
	o.waiting = append(o.waiting, ch)
	return ch
}

// failed takes the announcement back and reports whether the watch has passed
// over the fact meanwhile: it is in the journal after all, and the view does
// not have it. Then caughtUp must follow.
func (o *ownFacts) failed(id string) (missed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id] == passed {
		return true
	}
	delete(o.ids, id)
	return false
}

// caughtUp notes that the view has the fact that failed had missed.
func (o *ownFacts) caughtUp(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id] == passed {
		o.found(id)
	}
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
	case state == flying:
		o.ids[id] = passed
		o.missing++
	}
	return true
}
