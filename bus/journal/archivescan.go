package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// replyRecords is what the journal has of a reply, or of a session itself.
type replyRecords struct {
	session *sessionRecords
	reply   bus.Token // "": the records are the session's own
	seqs    []uint64  // in order
	bytes   uint64
	last    int64 // when the last one was stored, in nanoseconds
	calls   int
	open    int // of the calls
	granted []toolcall.StandingID
	// keep: a part of it cannot be read, or its last record interrupts it.
	keep, interrupted bool
}

func (r *replyRecords) lastSequence() uint64 { return r.seqs[len(r.seqs)-1] }

// sessionRecords are the session's own records.
type sessionRecords struct {
	replyRecords
	token bus.Token
	// stays is the first record of a reply that stays, going how many before it go.
	stays uint64
	going int
}

// replyAt names a reply. All replies of a session share its pointer.
type replyAt struct {
	session *sessionRecords
	reply   bus.Token
}

// replyScan is what the journal has of all replies.
type replyScan struct {
	head     uint64 // what is behind is not signed
	end      uint64
	waiting  []HeldBack // the destinations of webhooks with deliveries that wait
	clock    time.Time  // of the server, when it told the end
	bytes    uint64     // of the journal
	sessions map[bus.Token]*sessionRecords
	replies  map[replyAt]*replyRecords
	open     map[bus.Entity]bool                        // calls
	parents  map[[2]bus.Token]map[toolcall.Key]struct{} // open calls that were made within a call of the reply
	granted  map[toolcall.StandingID]toolcall.StandingApproval
}

func newReplyScan() *replyScan {
	return &replyScan{
		sessions: map[bus.Token]*sessionRecords{}, replies: map[replyAt]*replyRecords{}, open: map[bus.Entity]bool{},
		parents: map[[2]bus.Token]map[toolcall.Key]struct{}{}, granted: map[toolcall.StandingID]toolcall.StandingApproval{},
	}
}

// scanReplies reads the whole journal up to its last signed record.
func (l archiver) scanReplies(ctx context.Context, progress func(done, all uint64)) (*replyScan, error) {
	info, err := l.j.store.leaderInfo(ctx)
	if err != nil {
		return nil, err
	}
	state := info.State
	last, err := l.kept.readNewest(ctx)
	if err != nil {
		return nil, err
	}
	s := newReplyScan()
	s.clock = info.TimeStamp
	all, err := l.j.store.listDestinations(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Waiting > 0 {
			s.waiting = append(s.waiting, HeldBack{Destination: d})
		}
	}
	s.head, s.end, s.bytes = min(last.lastSequence(), state.LastSeq), state.LastSeq, state.Bytes // what came later is signed, but not read
	in := l.j.voids.newOrder(0)
	err = l.j.store.visitRecords(ctx, "archive", 0, state.LastSeq, func(m stored) error {
		r, err := in.decode(ctx, m)
		if err == nil {
			s.noteRecord(m, r)
			progress(m.seq, state.LastSeq)
		}
		return err
	})
	return s, err
}

// replyIn returns the reply that a message belongs to.
func replyIn(subject string) (s bus.Subject, reply [2]bus.Token, ok bool) {
	s, err := bus.ParseSubject(subject)
	if err != nil {
		return s, reply, false
	}
	switch s.Kind {
	case bus.KindEvent, bus.KindRecord, bus.KindWork, bus.KindReplyRecord:
		return s, [2]bus.Token{s.Session, s.Reply}, s.Reply != ""
	}
	return s, reply, false
}

// ownToken copies a token, so that it does not keep a whole message in memory.
func ownToken(t bus.Token) bus.Token { return bus.Token(strings.Clone(string(t))) }

func (s *replyScan) sessionOf(t bus.Token) *sessionRecords {
	x := s.sessions[t]
	if x == nil {
		x = &sessionRecords{token: ownToken(t)}
		x.session = x
		s.sessions[x.token] = x
	}
	return x
}

func (s *replyScan) replyOf(session, reply bus.Token) *replyRecords {
	at := replyAt{s.sessionOf(session), reply}
	x := s.replies[at]
	if x == nil {
		at.reply = ownToken(reply)
		x = &replyRecords{session: at.session, reply: at.reply}
		s.replies[at] = x
	}
	return x
}

func (s *replyScan) noteRecord(m stored, r toolcall.JournalEntry) {
	rec := r.Record
	if rec != nil && rec.Standing != nil {
		s.granted[rec.Standing.ID] = *rec.Standing
	}
	subject, reply, ok := replyIn(m.subject)
	var x *replyRecords
	switch {
	case ok:
		x = s.replyOf(reply[0], reply[1])
	case subject.Kind == bus.KindSessionRecord:
		x = &s.sessionOf(subject.Session).replyRecords
	default:
		return
	}
	x.seqs, x.bytes, x.last = append(x.seqs, m.seq), x.bytes+uint64(len(m.data)+len(m.subject)), max(x.last, m.time.UnixNano())
	switch {
	case subject.Kind == bus.KindEvent && r.Invalid == nil:
	case rec == nil:
		x.keep = true
	case rec.Reply != nil:
		x.interrupted = rec.Reply.Phase == toolcall.ReplyInterrupted
	case rec.Call != nil:
		s.noteCall(x, subject.Entity(), jsapi.OnlyHeader(m.header, headerPrev) == "0", rec.Call)
	}
}

func (s *replyScan) noteCall(x *replyRecords, entity bus.Entity, first bool, c *toolcall.Call) {
	if first {
		x.calls++
	}
	switch open := c.Open(); {
	case open && !s.open[entity]:
		s.open[entity] = true
		x.open++
	case !open && s.open[entity]:
		delete(s.open, entity)
		x.open--
	}
	for _, g := range c.Granted() {
		if _, known := s.granted[g.ID]; !known {
			s.granted[g.ID] = g
		}
		x.granted = append(x.granted, g.ID)
	}
	if p := c.Parent; p != nil {
		at := [2]bus.Token{bus.Encode(string(p.Session)), bus.Encode(string(p.Reply))}
		if s.parents[at] == nil {
			s.parents[at] = map[toolcall.Key]struct{}{}
		}
		delete(s.parents[at], c.Key)
		if c.Open() {
			s.parents[at][c.Key] = struct{}{}
		}
		if len(s.parents[at]) == 0 {
			delete(s.parents, at)
		}
	}
}

// isOver reports whether nothing can happen in a reply any more without a new record.
func (s *replyScan) isOver(x *replyRecords, now time.Time) bool {
	if x.keep || x.interrupted || x.open > 0 || len(s.parents[[2]bus.Token{x.session.token, x.reply}]) > 0 || x.lastSequence() >= s.head {
		return false // the last record stays: it shows that the journal is this one
	}
	return !slices.ContainsFunc(x.granted, func(id toolcall.StandingID) bool {
		sa := s.granted[id]
		state := sa.State(now)
		return state != toolcall.StandingRevoked && state != toolcall.StandingExpired
	})
}

// isHeldBack reports whether a destination of webhooks has not received all of a reply, and
// counts the reply for each such destination.
func (s *replyScan) isHeldBack(x *replyRecords) (held bool) {
	for i := range s.waiting {
		if d := &s.waiting[i]; x.lastSequence() > d.upTo {
			d.Replies++
			held = true
		}
	}
	return held
}

// chooseReplies returns the replies to archive, the oldest first. Nothing is too old only because this
// machine's clock, now, is ahead of the server's, which stamped the records.
func (s *replyScan) chooseReplies(r Retention, now time.Time) []*replyRecords {
	if s.clock.Before(now) {
		now = s.clock
	}
	var out []*replyRecords
	calls := 0
	for _, x := range s.replies {
		if now.UnixNano()-x.last >= int64(r.OlderThan) && s.isOver(x, now) {
			out = append(out, x)
			calls += x.calls
		}
	}
	slices.SortFunc(out, compareEnds)
	left := s.bytes
	return slices.DeleteFunc(out, func(x *replyRecords) bool {
		calls -= x.calls
		if calls < r.Keep || r.MaxBytes > 0 && left <= r.MaxBytes || s.isHeldBack(x) {
			return true
		}
		left -= min(left, x.bytes)
		return false
	})
}

// minGoing is how many records of a session must go before the session is recorded again.
const minGoing = 16

// sessionsToMove returns the own records of sessions that go with the chosen replies, each
// after the session was recorded again behind them. NATS deletes the whole front of a stream,
// or of a session, with one request, and else each record with one.
func (s *replyScan) sessionsToMove(chosen []*replyRecords) []*replyRecords {
	goes := make(map[*replyRecords]bool, len(chosen))
	for _, x := range chosen {
		goes[x] = true
	}
	for _, x := range s.replies {
		if at := &x.session.stays; !goes[x] && (*at == 0 || x.seqs[0] < *at) {
			*at = x.seqs[0]
		}
	}
	for _, x := range chosen {
		if at := x.session.stays; at == 0 || x.lastSequence() < at {
			x.session.going += len(x.seqs)
		}
	}
	var out []*replyRecords
	for _, x := range s.sessions {
		if x.going >= minGoing && len(x.seqs) > 0 && !x.keep && x.lastSequence() < s.head && (x.stays == 0 || x.lastSequence() < x.stays) {
			out = append(out, &x.replyRecords)
		}
	}
	slices.SortFunc(out, compareEnds)
	return out
}

func compareEnds(a, b *replyRecords) int { return cmp.Compare(a.lastSequence(), b.lastSequence()) }

func rangesOf(replies []*replyRecords) ranges {
	var out []proof.Range
	for _, x := range replies {
		for _, seq := range x.seqs {
			out = append(out, proof.Range{From: seq, Through: seq})
		}
	}
	return ranges(nil).withRanges(out...)
}

// deletion is what one request deletes: everything that a filter covers up to a sequence.
// A single record is deleted by its sequence.
type deletion struct {
	filter      string
	first, last uint64
	records     uint64
}

// deletionPlan collects what the journal has up to the last record that goes.
type deletionPlan struct {
	gone    ranges
	seed    maphash.Seed
	going   []goingRecord
	filters map[uint64]string // of what goes, by their hashes
	stays   map[uint64]uint64 // the first record that stays, by the hash of a filter
}

// goingRecord has the hashes of the filters for the session and for the reply of a record.
type goingRecord struct{ seq, session, reply uint64 }

func newDeletionPlan(gone ranges) *deletionPlan {
	return &deletionPlan{gone: gone, seed: maphash.MakeSeed(), filters: map[uint64]string{}, stays: map[uint64]uint64{}}
}

// filtersOver cover a subject, which need not be one of this release, with its session and
// with its reply.
func filtersOver(subject string) (session, reply string) {
	parts := strings.SplitN(subject, ".", 8)
	switch {
	case len(parts) > 6 && parts[3] == "event":
		session = strings.Join(parts[:4], ".") + ".*." + parts[5] + "."
		return session + "*", session + parts[6]
	case len(parts) > 5:
		session = strings.Join(parts[:5], ".") + "."
		return session + ">", session + parts[5] + ".>"
	}
	return subject, subject
}

func (p *deletionPlan) add(m stored) {
	session, reply := filtersOver(m.subject)
	x := goingRecord{m.seq, maphash.String(p.seed, session), maphash.String(p.seed, reply)}
	if p.gone.has(m.seq, m.seq) {
		p.going = append(p.going, x)
		p.filters[x.session], p.filters[x.reply] = session, reply
		return
	}
	for _, h := range []uint64{x.session, x.reply} {
		p.stays[h] = cmp.Or(p.stays[h], m.seq)
	}
}

// listRequests returns as few requests as delete exactly these records.
//
// Invariant: all records that a filter covers up to its last sequence go.
func (p *deletionPlan) listRequests() []deletion {
	groups := map[uint64]*deletion{}
	add := func(h, seq uint64) bool {
		if before := p.stays[h]; before > 0 && before < seq {
			return false
		}
		if groups[h] == nil {
			groups[h] = &deletion{filter: p.filters[h], first: seq}
		}
		groups[h].last, groups[h].records = seq, groups[h].records+1
		return true
	}
	for _, x := range p.going {
		add(x.session, x.seq)
	}
	for h, d := range groups { // NATS reads what is between the records
		if d.last-d.first > d.records*purgeSpan {
			delete(groups, h)
		}
	}
	var out []deletion
	for _, x := range p.going {
		if d := groups[x.session]; d != nil && x.seq <= d.last {
			continue
		}
		if !add(x.reply, x.seq) {
			out = append(out, deletion{first: x.seq, last: x.seq, records: 1})
		}
	}
	for _, d := range groups {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b deletion) int { return cmp.Compare(a.first, b.first) })
	return out
}

// deleteRecords deletes exactly these sequences. They are announced, and their ids are
// refused.
func (l archiver) deleteRecords(ctx context.Context, gone ranges) error {
	st, err := l.j.store.lookUpStream(ctx)
	if err != nil {
		return jsapi.Error("archive", "stream "+l.j.store.stream, err)
	}
	progress, all := l.r.reportOn("delete archived records"), gone.count()
	var mu sync.Mutex
	done := uint64(0) // guarded by mu, as progress is
	p, after := newDeletionPlan(gone), uint64(0)
	var requests []deletion
	if first := st.CachedInfo().State.FirstSeq; len(gone) > 0 && gone[0].Has(first) {
		after, p.gone = gone[0].Through, gone[1:]
		requests = append(requests, deletion{filter: ">", last: after, records: gone[:1].count()})
	}
	if n := len(p.gone); n > 0 {
		err = l.j.store.visitRecords(ctx, "archive", after, p.gone[n-1].Through, func(m stored) error {
			p.add(m)
			return nil
		})
		if err != nil {
			return err
		}
	}
	requests = append(requests, p.listRequests()...)
	atOnce := deleters
	if l.learnTime > 0 {
		atOnce = 1
	}
	return eachAtOnce(ctx, atOnce, len(requests), func(ctx context.Context, i int) error {
		began := time.Now()
		if err := l.delete(ctx, st, requests[i]); err != nil {
			return err
		}
		if l.learnTime > 0 && sleep.For(ctx, deletePause*time.Since(began)) != nil { // a deletion holds up all writes
			return context.Cause(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		done += requests[i].records
		progress(done, all)
		return nil
	})
}

func (l archiver) delete(ctx context.Context, st jetstream.Stream, d deletion) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := jsapi.WithDefaultTimeout(ctx, jsapi.GiveUpAfter)
	defer cancel()
	var err error
	if d.records == 1 {
		if err = st.DeleteMsg(ctx, d.last); err != nil {
			if _, gone := l.j.store.getSeq(ctx, d.last); errors.Is(gone, errNone) {
				return nil
			}
		}
	} else {
		err = st.Purge(ctx, jetstream.WithPurgeSubject(d.filter), jetstream.WithPurgeSequence(d.last+1))
	}
	if err != nil {
		return jsapi.Error("archive", fmt.Sprintf("delete the archived records up to %d", d.last), err)
	}
	return nil
}

// HeldBack says how many replies stay only because a destination of webhooks has not received
// all of them.
type HeldBack struct {
	Destination
	Replies int `json:"replies"`
}

// planArchives chooses what is archived, oldest first, from what is signed up to head. It notes
// in out what is held back.
func (l archiver) planArchives(ctx context.Context, out *Archiving) (chosen []*replyRecords, head uint64, err error) {
	if !l.r.DryRun {
		if _, err := l.Checkpoint(ctx); err != nil {
			return nil, 0, err
		}
	}
	s, err := l.scanReplies(ctx, l.r.reportOn("read the journal"))
	if err != nil {
		return nil, 0, err
	}
	if l.r.DryRun { // the rest would be signed first
		s.head = s.end
	}
	chosen = s.chooseReplies(l.r, time.Now())
	if out.HeldBack = slices.DeleteFunc(s.waiting, func(h HeldBack) bool { return h.Replies == 0 }); len(out.HeldBack) == 0 {
		out.HeldBack = nil
	}
	sessions := s.sessionsToMove(chosen)
	head = s.head
	if !l.r.DryRun {
		if err = l.recordSessions(ctx, sessions); errors.Is(err, message.ErrFull) { // they can stay: archiving makes room
			sessions, err = nil, nil
		}
	}
	chosen = append(chosen, sessions...)
	slices.SortStableFunc(chosen, compareEnds)
	return chosen, head, err
}
