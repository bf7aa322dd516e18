package bus

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// replyRecords is what the journal has of a reply.
type replyRecords struct {
	entity  Entity
	seqs    []uint64 // in order
	bytes   uint64
	last    time.Time
	calls   map[Token]bool // whether each is open
	phase   toolcall.ReplyPhase
	granted []toolcall.StandingID
	keep    bool // something of it cannot be read, or something open refers to it
}

// replyScan is what the journal has of all replies.
type replyScan struct {
	head    uint64 // what is behind is not signed
	end     uint64
	bytes   uint64 // of the journal
	replies map[[2]Token]*replyRecords
	parents map[[2]Token]map[toolcall.Key]bool // open calls that were made within a call of the reply
	granted map[toolcall.StandingID]toolcall.StandingApproval
}

// scanReplies reads the whole journal up to its last signed record.
func (l *Ledger) scanReplies(ctx context.Context) (*replyScan, error) {
	state, err := l.j.streamState(ctx)
	if err != nil {
		return nil, err
	}
	last, err := l.kept.readNewest(ctx)
	if err != nil {
		return nil, err
	}
	s := &replyScan{
		head: last.lastSequence(), end: state.LastSeq, bytes: state.Bytes, replies: map[[2]Token]*replyRecords{},
		parents: map[[2]Token]map[toolcall.Key]bool{}, granted: map[toolcall.StandingID]toolcall.StandingApproval{},
	}
	in := l.j.voids.newOrder(0)
	err = l.j.store.visitRecords(ctx, "archive", 0, state.LastSeq, func(m stored) error {
		r, err := in.decode(ctx, m)
		if err == nil {
			s.noteRecord(l.j.space, m, r)
		}
		return err
	})
	return s, err
}

// visitRecords visits the records of the stream after one sequence and up to another.
func (rd reader) visitRecords(ctx context.Context, op string, after, through uint64, visit func(stored) error) error {
	for after < through {
		found, seen, err := rd.readPage(ctx, ">", after, maxPage)
		if err != nil {
			return apiError(op, "read the journal", err)
		}
		for _, m := range found {
			if m.seq > through {
				return nil
			}
			if err := visit(m); err != nil {
				return err
			}
		}
		after = seen
	}
	return nil
}

// replyIn returns the reply that a message belongs to.
func replyIn(subject string) (s Subject, reply [2]Token, ok bool) {
	s, err := ParseSubject(subject)
	if err != nil {
		return s, reply, false
	}
	switch s.Kind {
	case KindEvent, KindRecord, KindWork, KindReplyRecord:
		return s, [2]Token{s.Session, s.Reply}, s.Reply != ""
	}
	return s, reply, false
}

// ownToken copies a token, so that it does not keep a whole message in memory.
func ownToken(t Token) Token { return Token(strings.Clone(string(t))) }

func (s *replyScan) noteRecord(space toolcall.SpaceID, m stored, r toolcall.JournalEntry) {
	if f := r.Record; f != nil && f.Standing != nil {
		s.granted[f.Standing.ID] = *f.Standing
	}
	subject, reply, ok := replyIn(m.subject)
	if !ok {
		return
	}
	x := s.replies[reply]
	if x == nil {
		reply = [2]Token{ownToken(reply[0]), ownToken(reply[1])}
		x = &replyRecords{entity: Subject{Space: space, Kind: KindReplyRecord, Session: subject.Session, Reply: subject.Reply}.entity(), calls: map[Token]bool{}}
		s.replies[reply] = x
	}
	x.seqs, x.bytes = append(x.seqs, m.seq), x.bytes+uint64(len(m.data)+len(m.subject))
	if m.time.After(x.last) {
		x.last = m.time
	}
	switch f := r.Record; {
	case subject.Kind == KindEvent && r.Invalid == nil:
	case f == nil:
		x.keep = true
	case f.Reply != nil:
		x.phase = f.Reply.Phase
	case f.Call != nil:
		if _, known := x.calls[subject.Call]; !known {
			subject.Call = ownToken(subject.Call)
		}
		x.calls[subject.Call] = f.Call.Open()
		for _, g := range f.Call.Granted() {
			if _, known := s.granted[g.ID]; !known {
				s.granted[g.ID] = g
			}
			x.granted = append(x.granted, g.ID)
		}
		if p := f.Call.Parent; p != nil {
			at := [2]Token{Encode(string(p.Session)), Encode(string(p.Reply))}
			if s.parents[at] == nil {
				s.parents[at] = map[toolcall.Key]bool{}
			}
			if delete(s.parents[at], f.Call.Key); f.Call.Open() {
				s.parents[at][f.Call.Key] = true
			}
		}
	}
}

// isOver reports whether nothing can happen in a reply any more without a new record.
func (s *replyScan) isOver(reply [2]Token, x *replyRecords, now time.Time) bool {
	if x.keep || x.phase == toolcall.ReplyInterrupted || len(s.parents[reply]) > 0 || x.seqs[len(x.seqs)-1] >= s.head {
		return false // the last record stays: it shows that the journal is this one
	}
	for _, open := range x.calls {
		if open {
			return false
		}
	}
	return !slices.ContainsFunc(x.granted, func(id toolcall.StandingID) bool {
		l := s.granted[id]
		state := l.State(now)
		return state != toolcall.StandingRevoked && state != toolcall.StandingExpired
	})
}

// chooseReplies returns the replies to archive, the oldest first.
func (s *replyScan) chooseReplies(r Retention, now time.Time) []*replyRecords {
	var out []*replyRecords
	calls := 0
	for reply, x := range s.replies {
		if now.Sub(x.last) >= r.OlderThan && s.isOver(reply, x, now) {
			out = append(out, x)
			calls += len(x.calls)
		}
	}
	slices.SortFunc(out, func(a, b *replyRecords) int { return cmp.Compare(a.seqs[len(a.seqs)-1], b.seqs[len(b.seqs)-1]) })
	left := s.bytes
	for i, x := range out {
		if calls -= len(x.calls); calls < r.Keep || r.MaxBytes > 0 && left <= r.MaxBytes {
			return out[:i]
		}
		left -= min(left, x.bytes)
	}
	return out
}

func rangesOf(replies []*replyRecords) []proof.Range {
	var seqs []uint64
	for _, x := range replies {
		seqs = append(seqs, x.seqs...)
	}
	slices.Sort(seqs)
	var out []proof.Range
	for _, seq := range seqs {
		if n := len(out); n > 0 && out[n-1].Through+1 == seq {
			out[n-1].Through = seq
			continue
		}
		out = append(out, proof.Range{From: seq, Through: seq})
	}
	return out
}
