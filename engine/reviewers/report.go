// Package reviewers folds a journal into what each reviewer has to do and what
// they have done: open approval requests, answers, how long they took, how many were
// approvals, and how many came sooner than one can read. It also holds the
// limits of reviewers, which bound how much one person answers and is given.
//
// A [Ledger] is fed with event records; what it says is a function of them alone. Its
// memory is bounded by the number of open approval requests, and for people and groups
// by [MaxNames]: times are kept in logarithmic buckets, from which the median
// follows to within five per cent. The latest [MaxLog] answers are kept one by
// one, so that windows can be asked for; [Read] folds a journal for a window that
// reaches further back.
//
// An approval request's clock begins with the fact that asks it; asked again, it begins
// again. A vote counts once, however often its event record arrives. A vote on a
// approval request that the ledger never saw open does not count.
package reviewers

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/toolcall"
)

// MaxLog bounds how many answers are kept one by one, for windows.
const MaxLog = 1 << 16

// span is a window of time. The zero value is all of it.
type span struct{ since, until time.Time }

func (s span) holdsTime(at time.Time) bool {
	return !at.Before(s.since) && (s.until.IsZero() || at.Before(s.until))
}

// entry is one answer.
type entry struct {
	at     time.Time
	kind   toolcall.ResponseKind
	took   time.Duration
	who    string
	groups []string // that were asked, and in which the person was
}

// log has the latest answers, in a ring.
type log struct {
	most   int // 0: MaxLog
	ring   []entry
	next   int       // where the next goes, once the ring is full
	before time.Time // the latest instant of what was forgotten
	lost   bool      // something was
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

// Keep sets how many answers are kept one by one instead of MaxLog, before the
// first record.
func (l *Ledger) Keep(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.most = max(n, 1)
}

// Within is a ledger that counts the answers of a window alone. The zero time is
// no bound.
func Within(since, until time.Time) *Ledger {
	return &Ledger{span: span{since, until}}
}

// Report says how things stand at now, with the answers that the ledger counts.
func (l *Ledger) Report(now time.Time) toolcall.LoadReply {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reportSpan(&l.sums, l.span, now)
}

// Window is Report with the answers of a window alone. It reports whether the
// ledger has them all: it keeps the latest MaxLog answers, and what is older
// must be read from the journal again (see Within).
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
	for name, c := range l.sums.people {
		if countWithin(c.recent, now, kept) == 0 {
			continue
		}
		if n := in.countsOf(&in.people, name); n != nil {
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
	if s != (span{}) { // who has nothing to do with it
		out.People, out.Groups = slices.DeleteFunc(out.People, isIdle), slices.DeleteFunc(out.Groups, isIdle)
	}
	return out
}

func isIdle(r toolcall.ReviewerLoad) bool { return r == (toolcall.ReviewerLoad{Name: r.Name}) }

func listLoads(of map[string]*counts, now time.Time) []toolcall.ReviewerLoad {
	out := make([]toolcall.ReviewerLoad, 0, len(of))
	for _, name := range slices.SortedFunc(maps.Keys(of), cmp.Compare[string]) {
		out = append(out, of[name].loadOf(name, now))
	}
	return out
}

// Journal is what Read reads. engine.Journal has it.
type Journal interface {
	// Watch delivers every record above after, in order, until ctx ends.
	Watch(ctx context.Context, after uint64, sink toolcall.Sink) error
}

// errCaughtUp ends a fold.
var errCaughtUp = errors.New("the end of the journal is reached")

// Read folds a whole journal, with the answers of a window alone (see Within).
// It takes as long as reading the journal does.
func Read(ctx context.Context, j Journal, since, until time.Time) (*Ledger, error) {
	ctx, done := context.WithCancelCause(ctx)
	defer done(nil)
	f := &fold{ledger: Within(since, until), end: func() { done(errCaughtUp) }}
	if err := j.Watch(ctx, 0, f); !errors.Is(err, errCaughtUp) {
		return nil, err
	}
	return f.ledger, nil
}

// fold feeds a ledger. It is a toolcall.Sink.
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
