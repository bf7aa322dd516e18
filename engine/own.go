package engine

import (
	"slices"
	"sync"

	"github.com/askance-dev/askance/message"
)

// ownFacts holds the ids of facts that this engine is writing, and of those
// that it has written until the watch meets them: the watch need not read
// them, whichever of the two is first.
type ownFacts struct {
	mu      sync.Mutex // guards all below
	ids     map[string]ownFact
	missing map[message.Key]int // how many are passed, by reply: in the journal, perhaps, and not in the view
	waiting []ownWaiter
}

type ownFact struct {
	state ownState
	reply message.Key // of its tree
}

// ownWaiter waits until none is missing of a reply; of any, if that is zero.
type ownWaiter struct {
	reply message.Key
	come  chan struct{}
}

type ownState uint8

const (
	flying ownState = iota // being written
	landed                 // written and in the view
	passed                 // being written, and the watch has passed over it
)

// begin announces a fact of a tree before it is written.
func (o *ownFacts) begin(id string, tree message.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids, o.missing = map[string]ownFact{}, map[message.Key]int{}
	}
	o.ids[id] = ownFact{flying, tree.ReplyKey()}
}

// stored notes that the fact is in the journal and in the view.
func (o *ownFacts) stored(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f := o.ids[id]
	if f.state == passed {
		o.found(id)
		return
	}
	f.state = landed
	o.ids[id] = f
}

// found forgets a fact that was passed over: the view has it, or it is in no
// journal. o.mu is held.
func (o *ownFacts) found(id string) {
	reply := o.ids[id].reply
	delete(o.ids, id)
	if o.missing[reply]--; o.missing[reply] > 0 {
		return
	}
	delete(o.missing, reply)
	o.waiting = slices.DeleteFunc(o.waiting, func(w ownWaiter) bool {
		if o.lacks(w.reply) {
			return false
		}
		close(w.come)
		return true
	})
}

// missed reports whether the view lacks own facts of a reply that the watch has
// passed over.
func (o *ownFacts) missed(reply message.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lacks(reply)
}

// lacks is missed for those who hold o.mu; the zero key stands for everything.
func (o *ownFacts) lacks(reply message.Key) bool {
	if reply == (message.Key{}) {
		return len(o.missing) > 0
	}
	return o.missing[reply] > 0
}

// whole returns nil if the view lacks none of the own facts of a reply that the
// watch has passed over, else a channel that is closed when that is so. The zero
// key stands for everything.
func (o *ownFacts) whole(reply message.Key) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.lacks(reply) {
		return nil
	}
	ch := make(chan struct{})
	o.waiting = append(o.waiting, ownWaiter{reply, ch})
	return ch
}

// failed takes the announcement back and reports whether the watch has passed
// over the fact meanwhile: it is in the journal after all, and the view does
// not have it. Then caughtUp must follow.
func (o *ownFacts) failed(id string) (missed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id].state == passed {
		return true
	}
	delete(o.ids, id)
	return false
}

// caughtUp notes that the view has the fact that failed had missed.
func (o *ownFacts) caughtUp(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids[id].state == passed {
		o.found(id)
	}
}

// met is asked by the watch: true means that it can pass over the fact.
func (o *ownFacts) met(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, ours := o.ids[id]
	switch {
	case !ours:
		return false
	case f.state == landed:
		delete(o.ids, id)
	case f.state == flying:
		f.state = passed
		o.ids[id] = f
		o.missing[f.reply]++
	}
	return true
}
