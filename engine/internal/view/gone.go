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
	// keepGone is how many replies are known to be forgotten one by one.
	keepGone = 1 << 16
	// keepIdle is how many sessions without an open call and without a standing approval
	// are kept. The view may have so many more of them for a while.
	keepIdle = 4096
	// snapshotIdle is how many of them a snapshot names: a start reads each from its own
	// place in the journal.
	snapshotIdle = 256
)

// gone knows the replies whose calls were all forgotten: the latest by the hash of their
// keys, and of all others that their records end at or before a sequence.
//
// Invariant: it never denies that a reply was forgotten.
type gone struct {
	ring  []goneReply
	next  int // of ring, once it is full
	known map[uint64]struct{}
	upTo  uint64
}

type goneReply struct {
	Hash uint64
	Seq  uint64 // of one of its event records
}

// goneReplies are 16 bytes each in a snapshot, as base64: a start reads many.
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
		return errors.New("the forgotten replies do not fit")
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

// hashOf stands for a reply, also in snapshots: two with one hash cost a needless look
// into the journal.
func hashOf(reply toolcall.Key) uint64 {
	return toolcall.HashIDs(string(reply.Session), string(reply.Reply))
}

// forgetReply drops a reply without calls in memory. seq is of one of its event records.
// v.mu is held.
func forgetReply(v *View, key toolcall.Key, seq uint64) {
	delete(v.replies, key)
	v.gone.add(goneReply{hashOf(key), seq})
}

// isForgotten reports whether calls of a reply that the view does not have may have been
// forgotten. What was forgotten of a session is later than its first record. v.mu is held.
func isForgotten(v *View, key toolcall.Key) bool {
	if _, known := v.gone.known[hashOf(key)]; known || v.gone.upTo == 0 {
		return known
	}
	s := v.sessions[key.SessionKey()]
	return s == nil || s.begin <= v.gone.upTo
}

// unusedSessions are the sessions that a request can read from the journal without a loss, but for
// those that were used last. v.mu is held.
func unusedSessions(v *View, keep int) []toolcall.Key {
	now := time.Now()
	idle := slices.DeleteFunc(slices.Collect(maps.Keys(v.sessions)), func(key toolcall.Key) bool {
		return v.orders.sessions[key] != nil || hasRules(v, v.sessions[key], now)
	})
	slices.SortFunc(idle, func(a, b toolcall.Key) int { return cmp.Compare(v.sessions[a].used, v.sessions[b].used) })
	return idle[:max(0, len(idle)-keep)]
}

// trimSessions drops the sessions that were not used for longest. v.mu is held.
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

// hasRules reports whether a session has a remembered rule that counts.
func hasRules(v *View, s *sessionView, now time.Time) bool {
	return slices.ContainsFunc(s.rules, func(r SessionRule) bool {
		l := v.Book.Get(r.Standing)
		return l != nil && l.State(now) == toolcall.StandingActive
	})
}

// countForgotten counts the calls up to one that is forgotten now, while memory has them.
// v.mu is held.
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

// CountUpTo counts the calls of the reply up to this one: those that this engine has
// heard of, so a policy can lag behind calls that are proposed at the same moment
// elsewhere. known is false when it has forgotten some: LearnCount tells it.
//
// Invariant: it never counts too few of what it has heard of. Of an old call, forgotten
// later ones may count as well.
func (v *View) CountUpTo(c *toolcall.Call) (n int, known bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	r := v.replies[c.ReplyKey()]
	switch {
	case r == nil:
		return 1, !isForgotten(v, c.ReplyKey())
	case r.counted < 0:
		return 0, false
	}
	n = r.counted
	if c.First == 0 || c.First > r.countedTo {
		n++ // itself
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

// LearnCount notes that the journal has so many calls of a reply whose first record is
// at most at through. It reports false and notes nothing if a later call may have been
// forgotten meanwhile: count again.
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
	if !known { // forgotten in its turn if no call follows
		v.recent = append(v.recent, ended{key: reply})
		v.forgetOldest()
	}
	return true
}
