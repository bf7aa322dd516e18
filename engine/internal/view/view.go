// Package view is an engine's projection of the journal in memory: calls, replies,
// sessions and standing approvals.
//
// A [View] may lag, and no decision is based on it alone: every write is checked by
// compare-and-swap against the journal. What is read from it without a write is
// monotonic. A finished call stays finished, a bound session stays bound, an
// interrupted reply stays interrupted. A View does its own locking; its values are
// shared and must not be changed.
package view

import (
	"slices"
	"sync"

	"github.com/askance-dev/askance/engine/reviewers"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// View is an engine's projection of the journal. The package comment says how far it can
// be relied on.
type View struct {
	mu                sync.RWMutex // guards all below; never held across I/O
	seq               uint64       // the watch has delivered everything up to here
	calls             map[toolcall.Key]*toolcall.Call
	orders            orders           // of calls
	blocked, returned int              // calls that wait for an operator
	Reviewers         reviewers.Ledger // updated with new records; has its own lock
	replies           map[toolcall.Key]*replyView
	sessions          map[toolcall.Key]*sessionView
	trimAt            int                               // number of sessions above which some are dropped
	tools             map[string]*toolcall.DeclaredTool // by hash
	recent            []ended                           // finished calls still in calls, and ended replies without calls, oldest first
	lastEnd           uint64                            // the highest sequence at which a call ended
	floor             uint64                            // recent may lack calls that ended up to here
	changed           map[toolcall.Key]*watched
	waiting           []waiter // waiting for the watch
	keep              int      // finished calls kept in memory

	gone   gone
	closed gone  // those of gone that are not open
	texts  texts // guards itself
	// dropped is set once calls were forgotten.
	dropped   bool
	forgotten uint64 // highest First of a call forgotten since the view was made

	Book *Book // guards itself
}

// ended is where a call ended. seq is 0 if it ended in a record that the view has not seen,
// or if this is a reply that ended without calls.
type ended struct {
	key toolcall.Key
	seq uint64
}

// Ended is a finished call and the sequence at which it ended.
type Ended struct {
	Call *toolcall.Call
	Seq  uint64
}

// waiter waits until the watch has reached seq.
type waiter struct {
	seq  uint64
	come chan struct{}
}

type replyView struct {
	state *toolcall.ReplyState // nil if it has no event record of its own
	seq   uint64
	open  int            // calls
	calls []toolcall.Key // in the order of their first event records; finished ones until forgotten
	gaps  bool           // some finished calls were forgotten

	counted   int    // calls of the reply first recorded up to countedTo; -1 if unknown
	countedTo uint64 // 0 if none is counted because calls has them all
}

type sessionView struct {
	state toolcall.SessionState     // zero if not bound
	seq   uint64                    // of the state
	begin uint64                    // of the session's first event record; 0 if unknown
	used  uint64                    // of the last event record of one of its calls
	rules []SessionRule             // remembered from answers, in journal order
	from  map[toolcall.Key]struct{} // the calls that contributed rules
	gave  []uint64                  // the event records that contributed the rules, in order
}

// New returns an empty view that keeps at most keep finished calls.
func New(keep int) *View {
	return &View{
		calls: map[toolcall.Key]*toolcall.Call{}, replies: map[toolcall.Key]*replyView{},
		sessions: map[toolcall.Key]*sessionView{}, tools: map[string]*toolcall.DeclaredTool{}, changed: map[toolcall.Key]*watched{}, keep: keep, orders: orders{groups: map[class]*group{}, sessions: map[toolcall.Key]*order{}},
		trimAt: 2 * keepIdle, Book: &Book{standingApprovals: map[toolcall.StandingID]*toolcall.StandingApproval{}, byTool: map[string]map[toolcall.StandingID]struct{}{}, gave: map[toolcall.StandingID]uint64{}},
	}
}

// Apply applies an event record to the view and reports whether it was new. The same event
// record may arrive twice: from its writer and from the watch.
func (v *View) Apply(rec *toolcall.EventRecord, seq uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.Book.noteTime(seq, rec.At)
	switch {
	case rec.Call != nil:
		return v.applyCall(rec, seq)
	case rec.Reply != nil:
		r := v.replyOf(rec.Reply.Key)
		if seq <= r.seq {
			return false
		}
		r.state, r.seq = rec.Reply, seq
		switch {
		case len(r.calls) > 0:
		case rec.Reply.Completed:
			delete(v.replies, rec.Reply.Key) // a reply without calls is no longer needed
		case r.gaps && seq <= v.seq && rec.Reply.Phase != toolcall.ReplyInterrupted:
			forgetReply(v, rec.Reply.Key, seq) // a request had read it again
		case rec.Reply.Phase == toolcall.ReplyEnded:
			v.recent = append(v.recent, ended{key: rec.Reply.Key})
			v.forgetOldest()
		}
		v.wakeWaiters(rec.Reply.Key)
		return true
	case rec.Standing != nil:
		return v.Book.apply(rec.Standing, seq)
	case rec.Session != nil:
		return applySession(v, rec, seq)
	}
	return true
}

func applySession(v *View, rec *toolcall.EventRecord, seq uint64) bool {
	s := v.sessionOf(rec.Session.Key)
	if rec.Prev != nil && rec.Prev.Seq == 0 { // the writer's own copy has no link
		s.begin = seq
	}
	if seq <= s.seq {
		return false
	}
	s.state, s.seq, s.used = v.shareTools(*rec.Session), seq, max(s.used, seq)
	trimSessions(v)
	return true
}

// shareTools makes sessions that declare the same tools share their memory.
func (v *View) shareTools(s toolcall.SessionState) toolcall.SessionState {
	s.Tools = slices.Clone(s.Tools)
	for i, t := range s.Tools {
		if known := v.tools[t.Hash]; known != nil {
			s.Tools[i] = known
		} else {
			v.tools[t.Hash] = t
		}
	}
	return s
}

func (v *View) applyCall(rec *toolcall.EventRecord, seq uint64) bool {
	c := rec.Call
	c.At(seq)
	old := v.calls[c.Key]
	if old != nil && seq <= old.Seq || old == nil && rec.Note != nil {
		return false // already known, or a note about a call that finished long ago
	}
	v.Reviewers.Record(rec)
	r := v.replyOf(c.ReplyKey())
	v.calls[c.Key] = c
	v.orders.put(c, old)
	r.count(v, old, -1)
	r.count(v, c, 1)
	if old == nil {
		v.insert(r, c)
	}
	if granted := c.Granted(); len(granted) > 0 && wasAllowed(rec.Path) {
		v.Book.addGranted(granted, seq)
		if last := granted[len(granted)-1]; last.Plain {
			v.sessionOf(c.SessionKey()).rememberRules(c, last.ID, seq)
		}
	}
	if s := v.sessions[c.SessionKey()]; s != nil {
		s.used = max(s.used, seq)
	}
	if !c.Open() && (old == nil || old.Open()) {
		at := ended{c.Key, seq}
		if rec.Note != nil { // the call ended in an earlier record
			at.seq, v.floor = 0, max(v.floor, seq)
		}
		v.recent, v.lastEnd = append(v.recent, at), max(v.lastEnd, at.seq)
		v.forgetOldest()
	}
	v.wakeWaiters(c.ReplyKey())
	return true
}

// wasAllowed reports whether an event record shows that its call was allowed, in this record
// or before: only then do the rules of its approval apply. A later record counts too,
// because it may become known before the earlier one.
func wasAllowed(path []toolcall.Step) bool {
	return slices.ContainsFunc(path, func(s toolcall.Step) bool {
		return s.To == message.ToolCallAllowed || s.From == message.ToolCallAllowed || s.From == message.ToolCallSubmitted
	})
}

// insert puts a call into its reply, ordered by first event record. A call may become
// known before an earlier one, if a request reads it from the journal while the watch
// lags behind.
func (v *View) insert(r *replyView, c *toolcall.Call) {
	i := len(r.calls)
	for i > 0 && v.calls[r.calls[i-1]].First > c.First {
		i--
	}
	r.calls = slices.Insert(r.calls, i, c.Key)
}

// forgetOldest drops the oldest finished calls and ended replies beyond keep, and each reply
// with its last call.
func (v *View) forgetOldest() {
	for len(v.recent) > v.keep {
		key, last := v.recent[0].key, v.recent[0].seq
		v.floor = max(v.floor, last)
		v.recent = v.recent[1:]
		rk := key.ReplyKey()
		r := v.replies[rk]
		if c := v.calls[key]; c != nil {
			v.orders.removeCall(c)
			last, v.dropped, v.forgotten = c.Seq, true, max(v.forgotten, c.First)
			if r != nil {
				countForgotten(v, r, c)
			}
		}
		delete(v.calls, key)
		if r == nil {
			continue
		}
		if i := slices.Index(r.calls, key); i >= 0 {
			r.calls, r.gaps = append(r.calls[:i:i], r.calls[i+1:]...), true
		}
		if key.Call == "" {
			last = r.seq
		}
		if len(r.calls) == 0 && (r.state == nil || r.state.Phase != toolcall.ReplyInterrupted) {
			forgetReply(v, rk, last)
		}
	}
}

func (v *View) replyOf(key toolcall.Key) *replyView {
	r := v.replies[key]
	if r == nil {
		r = &replyView{}
		if r.gaps = v.gone.mayHave(v, key); r.gaps {
			r.counted = -1
		}
		v.replies[key] = r
	}
	return r
}

func (v *View) sessionOf(key toolcall.Key) *sessionView {
	s := v.sessions[key]
	if s == nil {
		s = &sessionView{}
		v.sessions[key] = s
	}
	return s
}

// wakeWaiters wakes everyone who waits for a change of a reply or its session.
func (v *View) wakeWaiters(reply toolcall.Key) {
	for _, key := range [...]toolcall.Key{reply, reply.SessionKey()} {
		if w := v.changed[key]; w != nil {
			close(w.moved)
			delete(v.changed, key)
		}
	}
}

// NoteEvent wakes waiters after a runtime streamed an event into a session.
func (v *View) NoteEvent(reply toolcall.Key) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.wakeWaiters(reply)
}

// ReachSequence records that the watch has delivered everything up to seq.
func (v *View) ReachSequence(seq uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seq = seq
	v.waiting = slices.DeleteFunc(v.waiting, func(w waiter) bool {
		if w.seq > seq {
			return false
		}
		close(w.come)
		return true
	})
}

// Sequence is the sequence up to which the watch has delivered everything.
func (v *View) Sequence() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.seq
}

// WaitFor returns nil if the watch has reached seq, or else a channel that is closed
// when it does.
func (v *View) WaitFor(seq uint64) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.seq >= seq {
		return nil
	}
	w := waiter{seq, make(chan struct{})}
	v.waiting = append(v.waiting, w)
	return w.come
}

// watched is what requests wait on.
type watched struct {
	moved chan struct{} // closed at the next change
	n     int           // how many wait
}

// Watch returns a channel that is closed at the next change of a reply or, with a session's
// key, of any of its replies. A caller that stops waiting earlier must call leave, so that
// names without records do not pile up.
func (v *View) Watch(key toolcall.Key) (moved <-chan struct{}, leave func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	w := v.changed[key]
	if w == nil {
		w = &watched{moved: make(chan struct{})}
		v.changed[key] = w
	}
	w.n++
	return w.moved, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if w.n--; w.n == 0 && v.changed[key] == w {
			delete(v.changed, key)
		}
	}
}
