package view

import (
	"fmt"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Snapshot names the event records from which a view can be rebuilt. It contains their
// sequences but not their contents: Restore is given the records.
type Snapshot struct {
	Seq      uint64      `json:"seq"`   // the watch had delivered everything up to here
	Calls    []uint64    `json:"calls"` // the last event record of each open call
	Ended    []EndedAt   `json:"ended"` // oldest first
	LastEnd  uint64      `json:"last_end"`
	Floor    uint64      `json:"floor"`
	Dropped  bool        `json:"dropped"`
	Replies  []ReplyAt   `json:"replies"`
	Sessions []SessionAt `json:"sessions"`
	// Standing are the records of standing approvals, and Since says where these were granted.
	// Granted are the approvals that have no record of their own, only that of the granting call.
	Standing []uint64    `json:"standing"`
	Since    []GrantedAt `json:"since,omitzero"`
	Granted  []GrantedAt `json:"granted"`
	// Times are those by which standing approvals are judged; see Book.Clock. Their records need not
	// be among the others.
	Times    []RecordTime `json:"times,omitzero"`
	Gone     goneReplies  `json:"gone"` // oldest first
	GoneUpTo uint64       `json:"gone_up_to"`
	// Closed are those of Gone that are not open.
	Closed     goneReplies `json:"closed"`
	ClosedUpTo uint64      `json:"closed_up_to"`
}

// EndedAt is the last event record of a finished call, or of a reply that ended without
// calls, and the sequence at which it ended.
type EndedAt struct {
	Seq uint64 `json:"seq"`
	At  uint64 `json:"at,omitzero"`
}

// ReplyAt is a reply that has an event record of its own, or some of whose calls were forgotten.
type ReplyAt struct {
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Seq     uint64            `json:"seq,omitzero"` // 0 if it has no record of its own
	Gaps    bool              `json:"gaps,omitzero"`

	// Counted calls were first recorded up to CountedTo; 0 with gaps means that the number is unknown.
	Counted   int    `json:"counted,omitzero"`
	CountedTo uint64 `json:"counted_to,omitzero"`
}

// SessionAt is a session. Rules are the event records of the calls that contributed its rules.
type SessionAt struct {
	Session message.SessionID `json:"session_id"`
	Seq     uint64            `json:"seq,omitzero"` // 0 if the view has no binding
	Begin   uint64            `json:"begin,omitzero"`
	Used    uint64            `json:"used,omitzero"`
	Rules   []uint64          `json:"rules,omitzero"`
}

// GrantedAt is a standing approval that an event record of a call granted.
type GrantedAt struct {
	ID  toolcall.StandingID `json:"id"`
	Seq uint64              `json:"seq"`
}

// TakeSnapshot returns the event records from which the view can be rebuilt. It calls also
// while nothing changes the view.
func TakeSnapshot(v *View, also func()) *Snapshot {
	v.mu.RLock()
	defer v.mu.RUnlock()
	s := &Snapshot{Seq: v.seq, LastEnd: v.lastEnd, Floor: v.floor, Dropped: v.dropped, GoneUpTo: v.gone.upTo, ClosedUpTo: v.closed.upTo}
	for k, g := range v.orders.groups {
		if k.state == message.ToolCallFinished {
			continue
		}
		for _, c := range g.proposed.appendTo(nil) {
			s.Calls = append(s.Calls, c.Seq)
		}
	}
	for _, e := range v.recent {
		if c := v.calls[e.key]; c != nil {
			s.Ended = append(s.Ended, EndedAt{c.Seq, e.seq})
		} else if r := v.replies[e.key]; r != nil && r.state != nil && e.key.Call == "" {
			s.Ended = append(s.Ended, EndedAt{Seq: r.seq})
		}
	}
	for key, r := range v.replies {
		if r.seq > 0 || r.gaps && len(r.calls) > 0 {
			s.Replies = append(s.Replies, ReplyAt{key.Session, key.Reply, r.seq, r.gaps, max(0, r.counted), r.countedTo})
		}
	}
	left := map[toolcall.Key]bool{}
	for _, key := range unusedSessions(v, snapshotIdle) {
		left[key] = true
	}
	for key, x := range v.sessions {
		if left[key] {
			continue
		}
		s.Sessions = append(s.Sessions, SessionAt{key.Session, x.seq, x.begin, x.used, slices.Clone(x.gave)})
	}
	s.Gone, s.Closed = v.gone.inOrder(), v.closed.inOrder()
	v.Book.addTo(s)
	also()
	return s
}

func (b *Book) addTo(s *Snapshot) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s.Times = slices.Clone(b.times)
	for id, sa := range b.standingApprovals {
		at := GrantedAt{id, b.gave[id]}
		if sa.Seq == 0 {
			s.Granted = append(s.Granted, at)
			continue
		}
		s.Standing = append(s.Standing, sa.Seq)
		if at.Seq > 0 {
			s.Since = append(s.Since, at)
		}
	}
}

// Sequences returns the event records that Restore needs, without duplicates and in order.
func (s *Snapshot) Sequences() []uint64 {
	out := slices.Concat(s.Calls, s.Standing)
	for _, e := range s.Ended {
		out = append(out, e.Seq)
	}
	for _, r := range s.Replies {
		out = append(out, r.Seq)
	}
	for _, x := range s.Sessions {
		out = append(append(out, x.Seq), x.Rules...)
	}
	for _, g := range s.Granted {
		out = append(out, g.Seq)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > 0 && out[0] == 0 {
		out = out[1:]
	}
	return out
}

// Forget drops records that are in archives: they are over, and the journal refuses their ids.
func (s *Snapshot) Forget(archived map[uint64]bool) {
	s.Ended = slices.DeleteFunc(s.Ended, func(e EndedAt) bool { return archived[e.Seq] })
	s.Replies = slices.DeleteFunc(s.Replies, func(r ReplyAt) bool { return archived[r.Seq] })
	s.Granted = slices.DeleteFunc(s.Granted, func(g GrantedAt) bool { return archived[g.Seq] })
	for i, x := range s.Sessions {
		if archived[x.Seq] { // a later record has the session
			s.Sessions[i].Seq = 0
		}
		s.Sessions[i].Rules = slices.DeleteFunc(x.Rules, func(seq uint64) bool { return archived[seq] })
	}
}

// Restore fills an empty view, which nothing else uses yet, from a snapshot. records holds
// the journal's records at Sequences.
func Restore(v *View, space toolcall.SpaceID, s *Snapshot, records map[uint64]*toolcall.EventRecord) error {
	for _, t := range s.Times {
		v.Book.noteTime(t.Seq, t.At)
	}
	for seq, rec := range records { // a snapshot of an earlier version has no times
		if rec != nil {
			v.Book.noteTime(seq, rec.At)
		}
	}
	r := restoring{View: v, space: space, records: records}
	for _, step := range []func(*Snapshot) error{r.restoreReplies, r.restoreCalls, r.restoreSessions, r.restoreBook} {
		if err := step(s); err != nil {
			return err
		}
	}
	v.gone.addAll(s.Gone, s.GoneUpTo)
	v.closed.addAll(s.Closed, s.ClosedUpTo)
	v.seq, v.lastEnd, v.floor, v.dropped = s.Seq, s.LastEnd, s.Floor, s.Dropped
	trimSessions(v)
	v.forgetOldest() // another engine may have kept more than this one does
	return nil
}

// Adopt takes over the contents of a restored view, which must not be used afterwards. v must
// be empty. Reviewers are not taken over.
func Adopt(v, from *View) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.seq, v.lastEnd, v.floor, v.dropped = from.seq, from.lastEnd, from.floor, from.dropped
	v.calls, v.orders, v.blocked, v.returned, v.recent = from.calls, from.orders, from.blocked, from.returned, from.recent
	v.replies, v.sessions, v.trimAt, v.tools, v.gone, v.closed, v.Book = from.replies, from.sessions, from.trimAt, from.tools, from.gone, from.closed, from.Book
}

type restoring struct {
	*View
	space   toolcall.SpaceID
	records map[uint64]*toolcall.EventRecord
}

// find returns a record of the space that satisfies has; what names it in errors.
func (r *restoring) find(seq uint64, what string, has func(*toolcall.EventRecord) bool) (*toolcall.EventRecord, error) {
	rec := r.records[seq]
	if rec == nil || !has(rec) || rec.Key().Space != r.space {
		return nil, fmt.Errorf("record %d is not %s", seq, what)
	}
	return rec, nil
}

func isOfCall(rec *toolcall.EventRecord) bool { return rec.Call != nil }

func (r *restoring) restoreReplies(s *Snapshot) error {
	for _, x := range s.Replies {
		key := toolcall.Key{Space: r.space, Session: x.Session, Reply: x.Reply}
		reply := r.replyOf(key)
		reply.gaps, reply.counted, reply.countedTo = x.Gaps, x.Counted, x.CountedTo
		if x.Gaps && x.CountedTo == 0 {
			reply.counted = -1
		}
		if x.Seq == 0 {
			continue
		}
		rec, err := r.find(x.Seq, "of the reply "+key.String(), func(rec *toolcall.EventRecord) bool { return rec.Reply != nil && rec.Reply.Key == key })
		if err != nil {
			return err
		}
		reply.state, reply.seq = rec.Reply, x.Seq
	}
	return nil
}

func (r *restoring) restoreCalls(s *Snapshot) error {
	for _, seq := range s.Calls {
		rec, err := r.find(seq, "of an open call", func(rec *toolcall.EventRecord) bool { return isOfCall(rec) && rec.Call.Open() })
		if err != nil {
			return err
		}
		r.addCall(rec.Call, seq)
	}
	for _, e := range s.Ended {
		rec, err := r.find(e.Seq, "of a finished call or reply", func(rec *toolcall.EventRecord) bool {
			return isOfCall(rec) && !rec.Call.Open() || rec.Reply != nil && r.View.replies[rec.Reply.Key] != nil
		})
		if err != nil {
			return err
		}
		if rec.Call != nil {
			r.addCall(rec.Call, e.Seq)
		}
		r.recent = append(r.recent, ended{rec.Key(), e.At})
	}
	return nil
}

func (r *restoring) addCall(c *toolcall.Call, seq uint64) {
	c.At(seq)
	r.View.calls[c.Key] = c
	r.orders.put(c, nil)
	reply := r.replyOf(c.ReplyKey())
	r.insert(reply, c)
	reply.count(r.View, c, 1)
}

func (r *restoring) restoreSessions(s *Snapshot) error {
	for _, x := range s.Sessions {
		key := toolcall.Key{Space: r.space, Session: x.Session}
		session := r.sessionOf(key)
		session.begin, session.used = x.Begin, x.Used
		if x.Seq != 0 {
			rec, err := r.find(x.Seq, "of the session "+key.String(), func(rec *toolcall.EventRecord) bool { return rec.Session != nil && rec.Session.Key == key })
			if err != nil {
				return err
			}
			session.state, session.seq = r.shareTools(*rec.Session), x.Seq
		}
		for _, seq := range x.Rules {
			rec, err := r.find(seq, "of a call of the session "+key.String(), func(rec *toolcall.EventRecord) bool { return isOfCall(rec) && rec.Call.SessionKey() == key })
			if err != nil {
				return err
			}
			sa, plain := rec.Call.PlainStandingApproval()
			if !plain {
				return fmt.Errorf("record %d gives no rule", seq)
			}
			session.rememberRules(rec.Call, sa.ID, seq)
		}
	}
	return nil
}

func (r *restoring) restoreBook(s *Snapshot) error {
	for _, seq := range s.Standing {
		rec, err := r.find(seq, "of a standing approval", func(rec *toolcall.EventRecord) bool { return rec.Standing != nil })
		if err != nil {
			return err
		}
		sa := *rec.Standing
		sa.Seq = seq
		r.Book.indexApproval(&sa)
	}
	for _, g := range s.Since {
		r.Book.gave[g.ID] = g.Seq
	}
	for _, g := range s.Granted {
		rec, err := r.find(g.Seq, "of a call", isOfCall)
		if err != nil {
			return err
		}
		granted := rec.Call.Granted()
		i := slices.IndexFunc(granted, func(sa toolcall.StandingApproval) bool { return sa.ID == g.ID })
		if i < 0 {
			return fmt.Errorf("record %d grants no standing approval %s", g.Seq, g.ID)
		}
		r.Book.gave[g.ID] = g.Seq
		r.Book.indexApproval(&granted[i])
	}
	return nil
}
