package engine

import "sync"

// ownFacts holds the sequences of facts that this engine wrote and took into
// its view, until the watch meets them. The watch then need not read them
// again. If the watch is first, the fact is read twice, which is harmless.
type ownFacts struct {
	mu  sync.Mutex
	seq map[uint64]struct{}
	// met is the highest sequence that the watch has asked about: a fact at or
	// below it will never be asked about again.
	met uint64
}

func (o *ownFacts) add(seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if seq <= o.met {
		return
	}
	if o.seq == nil {
		o.seq = map[uint64]struct{}{}
	}
	o.seq[seq] = struct{}{}
}

func (o *ownFacts) take(seq uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.met = max(o.met, seq)
	_, ok := o.seq[seq]
	delete(o.seq, seq)
	return ok
}
