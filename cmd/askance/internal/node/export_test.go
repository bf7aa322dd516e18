package node

// HasObserved reports whether the reader has read the whole journal.
func (r *Reader) HasObserved() bool { return r.observed }
