package view

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

const (
	// keepGone is how many forgotten replies are remembered individually.
	keepGone = 1 << 16
	// keepIdle is how many sessions without an open call or standing approval are kept. The
	// view may temporarily have twice that many.
	keepIdle = 4096
	// snapshotIdle is how many of them a snapshot names: after a start each is read from its
	// own place in the journal.
	snapshotIdle = 256
)

// gone remembers replies whose calls were all forgotten: the latest by the hash of their
// keys, all others only by a sequence at or before which their records end.
//
// Invariant: it never denies that a reply was forgotten.
type gone struct {
	ring  []goneReply
	next  int // position in ring to overwrite next, once it is full
	known map[uint64]struct{}
	upTo  uint64
}

type goneReply struct {
	Hash uint64
	Seq  uint64 // of one of its event records
}

// goneReplies is stored as base64 with 16 bytes per reply, because a start reads many.
type goneReplies []goneReply

// MarshalText implements encoding.TextMarshaler.
func (g goneReplies) MarshalText() ([]byte, error) {
	b := make([]byte, 0, 16*len(g))
	for _, r := range g {
		b = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(b, r.Hash), r.Seq)
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (g *goneReplies) UnmarshalText(text []byte) error {
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b)%16 != 0 || len(b)/16 > keepGone {
		return errors.New("the stored forgotten replies are malformed")
	}
	for ; len(b) > 0; b = b[16:] {
		*g = append(*g, goneReply{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])})
	}
	return nil
}

func (g *gone) add(r goneReply) {
	if _, known := g.known[r.Hash]; known {
		return
	}
	if g.known == nil {
		g.known = map[uint64]struct{}{}
	}
	g.known[r.Hash] = struct{}{}
	if len(g.ring) < keepGone {
		g.ring = append(g.ring, r)
		return
	}
	old := g.ring[g.next]
	delete(g.known, old.Hash)
	g.upTo = max(g.upTo, old.Seq)
	g.ring[g.next] = r
	g.next = (g.next + 1) % keepGone
}

// inOrder returns the replies that are remembered individually, oldest first.
func (g *gone) inOrder() goneReplies {
	return append(slices.Clone(g.ring[g.next:]), g.ring[:g.next]...)
}

func (g *gone) addAll(replies goneReplies, upTo uint64) {
	for _, r := range replies {
		g.add(r)
	}
	g.upTo = max(g.upTo, upTo)
}

// hashOf identifies a reply, also in snapshots. A collision only costs a needless read of
// the journal.
func hashOf(reply toolcall.Key) uint64 {
	return toolcall.HashIDs(string(reply.Session), string(reply.Reply))
}

// forgetReply drops a reply without calls in memory. seq belongs to one of its event
// records. v.mu is held.
func forgetReply(v *View, key toolcall.Key, seq uint64) {
	g := goneReply{hashOf(key), seq}
	if r := v.replies[key]; r != nil && r.state != nil && r.state.Phase != toolcall.ReplyOpen {
		v.closed.add(g)
	}
	delete(v.replies, key)
	v.gone.add(g)
}

// mayHave reports whether a reply may be among those that g remembers. A session's first
// record comes before everything forgotten in it. v.mu is held.
func (g *gone) mayHave(v *View, key toolcall.Key) bool {
	if _, known := g.known[hashOf(key)]; known || g.upTo == 0 {
		return known
	}
	s := v.sessions[key.SessionKey()]
	return s == nil || s.begin <= g.upTo
}

// unusedSessions returns the sessions that can be dropped because a request can read them from
// the journal, except for the keep most recently used. v.mu is held.
func unusedSessions(v *View, keep int) []toolcall.Key {
	now := time.Now()
	idle := slices.DeleteFunc(slices.Collect(maps.Keys(v.sessions)), func(key toolcall.Key) bool {
		return v.orders.sessions[key] != nil || hasRules(v, v.sessions[key], now)
	})
	slices.SortFunc(idle, func(a, b toolcall.Key) int { return cmp.Compare(v.sessions[a].used, v.sessions[b].used) })
	return idle[:max(0, len(idle)-keep)]
}

// trimSessions drops the least recently used sessions. v.mu is held.
func trimSessions(v *View) {
	if len(v.sessions) <= v.trimAt {
		return
	}
	dropped := unusedSessions(v, keepIdle)
	for _, key := range dropped {
		delete(v.sessions, key)
	}
	v.trimAt = len(v.sessions) + keepIdle
	if len(dropped) == 0 {
		return
	}
	v.tools = map[string]*toolcall.DeclaredTool{}
	for _, s := range v.sessions {
		for _, t := range s.state.Tools {
			v.tools[t.Hash] = t
		}
	}
}

// hasRules reports whether a session has a remembered rule that is active.
func hasRules(v *View, s *sessionView, now time.Time) bool {
	return slices.ContainsFunc(s.rules, func(r SessionRule) bool {
		sa := v.Book.Get(r.Standing)
		return sa != nil && sa.State(now) == toolcall.StandingActive
	})
}

// countForgotten counts the calls up to c, which is about to be forgotten, while they are
// still in memory. v.mu is held.
func countForgotten(v *View, r *replyView, c *toolcall.Call) {
	if r.counted < 0 || c.First <= r.countedTo {
		return
	}
	for _, k := range r.calls {
		if first := v.calls[k].First; first > r.countedTo && first <= c.First {
			r.counted++
		}
	}
	r.countedTo = c.First
}

// CountUpTo counts the calls of the reply up to this one that this engine has heard of; calls
// proposed elsewhere at the same moment may be missing. known is false if it has forgotten
// some; LearnCount then provides the count.
//
// Invariant: it never counts too few of the calls that it has heard of. For an old call,
// it may also count later calls that were forgotten.
func (v *View) CountUpTo(c *toolcall.Call) (n int, known bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r := v.replies[c.ReplyKey()]
	switch {
	case r == nil:
		return 1, !v.gone.mayHave(v, c.ReplyKey())
	case r.counted < 0:
		return 0, false
	}
	n = r.counted
	if c.First == 0 || c.First > r.countedTo {
		n++ // the call itself
	}
	for _, k := range r.calls {
		first := v.calls[k].First
		before := c.First == 0 || first < c.First
		switch isCounted := first <= r.countedTo; {
		case k == c.Key:
		case before && !isCounted:
			n++
		case !before && isCounted:
			n--
		}
	}
	return n, true
}

// LearnCount records that the journal has this number of calls of a reply whose first record
// is at or before through. It reports false and records nothing if a later call may have
// been forgotten meanwhile; then count again.
func LearnCount(v *View, reply toolcall.Key, calls int, through uint64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.forgotten > through {
		return false
	}
	known := v.replies[reply] != nil
	if r := v.replyOf(reply); r.counted < 0 {
		r.counted, r.countedTo = calls, through
	}
	if !known { // so that it is forgotten again if no call follows
		v.recent = append(v.recent, ended{key: reply})
		v.forgetOldest()
	}
	return true
}
