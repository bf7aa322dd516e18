// Package activity counts what happens to calls, for people and for metrics.
//
// A [Ledger] is given the records of the journal, each once and in order, so every engine
// counts the same, also after a restart. It keeps totals from the beginning of the journal
// and the latest [MaxEvents] events, from which it computes any window.
//
// Its memory is bounded: 16 bytes for each event (16 MiB), [MaxNames] tools, rules and
// agents of 200 bytes, [MaxCells] totals (2 MiB with their times), [MaxDecisions] decisions,
// [MaxWorkers] workers, and one instant for each open request. It decides nothing.
package activity

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// The bounds of a ledger.
const (
	MaxEvents    = chunkEvents * maxChunks
	MaxNames     = 1000
	MaxCells     = 4096
	MaxDecisions = 500

	chunkEvents = 512
	maxChunks   = 2048
)

// Other is the name for everything beyond the bounds, and for unknown tools.
const Other = "other"

// maxDeclared bounds the names from tools that runtimes declare; the rest of MaxNames is
// for the tools of the engine.
const maxDeclared = MaxNames / 2

// kind is what an event counts as.
type kind uint8

const (
	proposed kind = iota
	allowed
	standing // in addition to allowed
	asked
	denied
	refused
	approved
	rejected
	responded
	expired
	started
	retried
	blocked
	succeeded
	failed
	revoked
	interrupted
	kinds
)

// unknownTime is the time of an event that has none.
const unknownTime = math.MaxUint32

// event is one thing that happened, in 16 bytes.
type event struct {
	at                uint32 // seconds since 1970
	took              uint32 // milliseconds, or unknownTime
	tool, rule, agent uint16 // numbers in names
	kind              kind
}

// chunk holds events in journal order.
type chunk struct {
	n           int
	first, last uint32 // the earliest and the latest instant
	events      [chunkEvents]event
}

// names assigns short numbers to names; 0 is Other.
type names struct {
	ids  map[string]uint16
	list []string
}

func newNames() names { return names{ids: map[string]uint16{}, list: []string{Other}} }

// maxName is how many bytes of a name are kept.
const maxName = 200

func clipName(name string) string {
	if len(name) <= maxName {
		return name
	}
	return strings.ToValidUTF8(name[:maxName], "") + "…"
}

func (n *names) idOf(name string) uint16 {
	name = clipName(name)
	if id, known := n.ids[name]; known || name == Other {
		return id
	}
	if len(n.list) > MaxNames {
		return 0
	}
	id := uint16(len(n.list))
	n.ids[name], n.list = id, append(n.list, name)
	return id
}

// Ledger counts what happens to calls. Its methods may be called from many goroutines.
type Ledger struct {
	mu                   sync.RWMutex // guards all below but workers
	tools, rules, agents names
	since                map[uint64]int64 // when open requests were made, by the hash of their calls, in nanoseconds
	total                sums
	chunks               []*chunk // oldest first
	forgotten            uint32   // time of the latest dropped event; 0 if none was dropped
	recent               []toolcall.RecentDecision
	next                 int // position in recent to overwrite next, once recent is full

	Workers Workers // guards itself
}

// New makes an empty ledger.
func New() *Ledger {
	return &Ledger{tools: newNames(), rules: newNames(), agents: newNames(), since: map[uint64]int64{}, total: newSums()}
}

// Record counts the next event record of the journal.
func (l *Ledger) Record(rec *toolcall.EventRecord) {
	c := rec.Call
	if c == nil || rec.Note != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := event{at: secondsOf(rec.At), took: unknownTime, tool: l.toolOf(c), agent: l.agents.idOf(c.Agent)}
	if c.Decision != nil {
		e.rule = l.rules.idOf(c.Decision.Rule)
	} else {
		e.rule = l.rules.idOf("")
	}
	edited := false
	for _, s := range rec.Path {
		edited = edited || toolcall.Cause(s.Cause) == toolcall.CauseEdit
		l.countStep(e, toolcall.Cause(s.Cause), edited, rec)
	}
	if c.State != message.ToolCallAsking {
		delete(l.since, l.hashCall(c))
	}
	if w := c.Attempt.Worker; w != "" && c.Placement != toolcall.PlaceExternal && (rec.By.Name == w || c.Cause == string(toolcall.CauseStart)) {
		l.Workers.Hear(w, c.Queue(), rec.At)
	}
}

// toolOf returns the number of the call's tool. A refused call adds no name, because
// models invent tools.
func (l *Ledger) toolOf(c *toolcall.Call) uint16 {
	if toolcall.Cause(c.Cause) == toolcall.CauseRefuse || c.Definition != nil && len(l.tools.list) > maxDeclared {
		return l.tools.ids[clipName(c.Tool)] // 0, which is Other, if it has none
	}
	return l.tools.idOf(c.Tool)
}

// AskedAt returns when the approval request that is open before a record was made, or zero if
// there is none or it is unknown.
func (l *Ledger) AskedAt(rec *toolcall.EventRecord) (at time.Time) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if rec.Call == nil {
		return at
	}
	if since, known := l.since[l.hashCall(rec.Call)]; known {
		at = time.Unix(0, since).UTC()
	}
	return at
}

func (l *Ledger) countStep(e event, cause toolcall.Cause, edited bool, rec *toolcall.EventRecord) {
	c := rec.Call
	switch cause {
	case toolcall.CausePropose:
		l.add(e, proposed)
	case toolcall.CauseAllow:
		switch {
		case edited:
			l.countDecision(e, approved, rec)
			return
		case c.Decision != nil && c.Decision.Standing != "":
			l.add(e, standing)
		}
		l.add(e, allowed)
		l.keepDecision(e, rec)
	case toolcall.CauseAsk:
		if _, open := l.since[l.hashCall(c)]; !open {
			l.since[l.hashCall(c)] = rec.At.UnixNano()
			l.add(e, asked)
		}
	case toolcall.CauseDeny:
		l.add(e, denied)
		l.keepDecision(e, rec)
	case toolcall.CauseRefuse:
		l.add(e, refused)
		l.keepDecision(e, rec)
	case toolcall.CauseApprove:
		l.countDecision(e, approved, rec)
	case toolcall.CauseReject:
		l.countDecision(e, rejected, rec)
	case toolcall.CauseRespond:
		l.countDecision(e, responded, rec)
	case toolcall.CauseExpire:
		l.countDecision(e, expired, rec)
	case toolcall.CauseStart:
		e.took = millisBetween(c.Attempt.OfferedAt, c.Attempt.StartedAt)
		l.add(e, started)
	case toolcall.CauseLose, toolcall.CauseReturn:
		l.add(e, retried)
	case toolcall.CauseSuspend:
		l.add(e, blocked)
	case toolcall.CauseResult:
		e.took = millisBetween(c.Attempt.StartedAt, rec.At)
		l.countFinished(e, c)
	case toolcall.CauseResolve, toolcall.CauseBypass:
		l.countFinished(e, c)
	case toolcall.CauseRevoke:
		l.add(e, revoked)
	case toolcall.CauseInterrupt:
		l.add(e, interrupted)
	case toolcall.CauseHide, toolcall.CauseVote, toolcall.CauseSkip, toolcall.CauseDelegate, toolcall.CauseEscalate, toolcall.CauseEdit, toolcall.CauseSubmit, toolcall.CauseOffer:
	}
}

// countDecision counts the end of an approval request.
func (l *Ledger) countDecision(e event, k kind, rec *toolcall.EventRecord) {
	if since, known := l.since[l.hashCall(rec.Call)]; known {
		e.took = millisBetween(time.Unix(0, since), rec.At)
	}
	l.add(e, k)
	l.keepDecision(e, rec)
}

func (l *Ledger) countFinished(e event, c *toolcall.Call) {
	if c.Result != nil && c.Result.State == message.ToolResultSuccess {
		l.add(e, succeeded)
		return
	}
	l.add(e, failed)
}

// hashCall identifies a call. If two calls collide, only their times are wrong.
func (l *Ledger) hashCall(c *toolcall.Call) uint64 {
	return toolcall.HashIDs(string(c.Session), string(c.Reply), string(c.Call))
}

func (l *Ledger) add(e event, k kind) {
	e.kind = k
	l.total.add(e)
	l.keepEvent(e)
}

func (l *Ledger) keepEvent(e event) {
	var last *chunk
	if n := len(l.chunks); n > 0 {
		last = l.chunks[n-1]
	}
	if last == nil || last.n == chunkEvents {
		if len(l.chunks) < maxChunks {
			last = &chunk{}
		} else { // reuse the oldest
			last = l.chunks[0]
			l.forgotten = max(l.forgotten, last.last)
			copy(l.chunks, l.chunks[1:])
			l.chunks = l.chunks[:maxChunks-1]
			last.n = 0
		}
		l.chunks = append(l.chunks, last)
	}
	if last.n == 0 {
		last.first, last.last = e.at, e.at
	}
	last.first, last.last = min(last.first, e.at), max(last.last, e.at)
	last.events[last.n] = e
	last.n++
}

// keepDecision keeps a decision for the list of recent ones.
func (l *Ledger) keepDecision(e event, rec *toolcall.EventRecord) {
	d := toolcall.RecentDecision{Key: rec.Call.Key, Tool: rec.Call.Tool, Agent: rec.Call.Agent, Verdict: rec.Verdict(), At: rec.At}
	if rec.By.Role == toolcall.RoleApprover {
		d.By = rec.By.Name
	}
	if rec.Call.Decision != nil {
		d.Rule = rec.Call.Decision.Rule
	}
	if e.took != unknownTime {
		d.TookMS = int64(e.took)
	}
	if len(l.recent) < MaxDecisions {
		l.recent = append(l.recent, d)
		return
	}
	l.recent[l.next] = d
	l.next = (l.next + 1) % MaxDecisions
}

func secondsOf(at time.Time) uint32 {
	return uint32(min(max(at.Unix(), 0), math.MaxUint32))
}

// millisBetween is the time from one instant to another, in milliseconds, or unknownTime if
// either is unknown.
func millisBetween(from, to time.Time) uint32 {
	if from.IsZero() || to.IsZero() {
		return unknownTime
	}
	return uint32(min(max(to.Sub(from).Milliseconds(), 0), unknownTime-1))
}
