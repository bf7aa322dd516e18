// Package reviewers computes from a journal what each reviewer has to do and has done:
// open approval requests, responses, how long they took, how many were approvals, and how
// many came faster than anyone can read. It also applies the limits of reviewers: how many
// responses one person may give and how many requests one may get.
//
// A [Ledger] is given event records and depends on nothing else. Its memory is bounded by
// the number of open approval requests, and for people and groups by [MaxNames]: times are
// kept in logarithmic buckets, from which the median follows to within five per cent. The
// latest [MaxLog] responses are kept individually, so that windows can be computed; [Read]
// reads a journal for a window that reaches further back.
//
// The clock of an approval request begins with the event record that opens it, and begins
// again when the request is replaced. A vote counts once, however often its event record
// arrives. A vote on an approval request that the ledger never saw open does not count.
package reviewers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// MaxLog bounds how many responses are kept individually, for windows.
const MaxLog = 1 << 16

// span is a window of time. The zero value contains all times.
type span struct{ since, until time.Time }

func (s span) holdsTime(at time.Time) bool {
	return !at.Before(s.since) && (s.until.IsZero() || at.Before(s.until))
}

// entry is one response.
type entry struct {
	at     time.Time
	kind   toolcall.ResponseKind
	took   time.Duration
	who    string
	groups []string // asked groups that the person was in
}

// log holds the latest responses, in a ring.
type log struct {
	most   int // 0 means MaxLog
	ring   []entry
	next   int       // position to overwrite next, once the ring is full
	before time.Time // latest time of a forgotten response
	lost   bool      // whether any was forgotten
}

func (l *log) add(e entry) {
	most := cmp.Or(l.most, MaxLog)
	if len(l.ring) < most {
		l.ring = append(l.ring, e)
		return
	}
	if old := l.ring[l.next]; !l.lost || old.at.After(l.before) {
		l.before, l.lost = old.at, true
	}
	l.ring[l.next] = e
	l.next = (l.next + 1) % most
}

// coversSpan reports whether everything in the window is in memory.
func (l *log) coversSpan(s span) bool { return !l.lost || l.before.Before(s.since) }

// Keep sets how many responses are kept individually, instead of MaxLog. Call it before the
// first record.
func (l *Ledger) Keep(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.most = max(n, 1)
}

// Within returns a ledger that counts only the responses of a window. A zero time is no
// bound.
func Within(since, until time.Time) *Ledger {
	return &Ledger{span: span{since, until}}
}

// Report returns the state at now, with the responses that the ledger counts.
func (l *Ledger) Report(now time.Time) toolcall.LoadReply {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reportSpan(&l.sums, l.span, now)
}

// Window is Report with only the responses of a window. It reports false if the ledger does
// not have them all: it keeps the latest MaxLog responses, and older ones must be read from
// the journal again (see Within).
func (l *Ledger) Window(since, until, now time.Time) (toolcall.LoadReply, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := span{since, until}
	if !l.log.coversSpan(s) {
		return toolcall.LoadReply{}, false
	}
	var in sums
	for _, q := range l.open {
		in.assignRequest(&request{}, q.people, q.groups)
	}
	for _, e := range l.log.ring {
		if s.holdsTime(e.at) {
			in.countVote(e)
		}
	}
	for _, c := range l.sums.people {
		if countWithin(c.recent, now, kept) == 0 {
			continue
		}
		if n := in.countsOfPerson(c.load.Name); n != nil {
			n.recent = c.recent
		}
	}
	return l.reportSpan(&in, s, now), true
}

func (l *Ledger) reportSpan(in *sums, s span, now time.Time) toolcall.LoadReply {
	out := toolcall.LoadReply{
		At: now, Since: s.since, Until: s.until, Open: len(l.open), Limits: l.limits, Refused: l.refused,
		People: listLoads(in.people, now), Groups: listLoads(in.groups, now), Others: len(in.others),
	}
	for _, q := range l.open {
		if len(q.people)+len(q.groups) == 0 {
			out.Unassigned++
		}
	}
	if s != (span{}) { // leave out people and groups without figures
		out.People, out.Groups = slices.DeleteFunc(out.People, isIdle), slices.DeleteFunc(out.Groups, isIdle)
	}
	return out
}

func isIdle(r toolcall.ReviewerLoad) bool { return r == (toolcall.ReviewerLoad{Name: r.Name}) }

func listLoads(of map[string]*counts, now time.Time) []toolcall.ReviewerLoad {
	out := make([]toolcall.ReviewerLoad, 0, len(of))
	for _, c := range of {
		out = append(out, c.loadOf(now))
	}
	slices.SortFunc(out, func(a, b toolcall.ReviewerLoad) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Journal is the part of engine.Journal that Read needs.
type Journal interface {
	// Watch delivers every record above after, in order, until ctx ends.
	Watch(ctx context.Context, after uint64, sink toolcall.Sink) error
}

// errCaughtUp ends Read.
var errCaughtUp = errors.New("reached the end of the journal")

// Read reads a whole journal into a ledger with only the responses of a window (see Within).
// It takes as long as reading the journal.
func Read(ctx context.Context, j Journal, since, until time.Time) (*Ledger, error) {
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	f := &fold{ledger: Within(since, until), end: func() { done(errCaughtUp) }}
	if err := j.Watch(ctx, 0, f); !errors.Is(err, errCaughtUp) {
		return nil, err
	}
	return f.ledger, nil
}

// fold passes records to a ledger. It is a toolcall.Sink.
type fold struct {
	ledger *Ledger
	end    func()
}

// Record implements toolcall.Sink.
func (f *fold) Record(r toolcall.JournalEntry) {
	if r.Record != nil && r.Record.Call != nil {
		f.ledger.Record(r.Record)
	}
}

// CaughtUp implements toolcall.Sink.
func (f *fold) CaughtUp() { f.end() }
