package activity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const (
	defaultRecent  = 50
	defaultBuckets = 60
)

// steps are the bucket lengths to choose from if the request names none.
var steps = []time.Duration{
	time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 365 * 24 * time.Hour,
}

// window is the period that a request asks for: from and until in seconds, until excluded.
type window struct {
	from, until, step uint32
	tool, agent       uint16
	byTool, byAgent   bool
}

func (w window) holdsEvent(e event) bool {
	return e.at >= w.from && e.at < w.until && (!w.byTool || e.tool == w.tool) && (!w.byAgent || e.agent == w.agent)
}

// Report returns what was counted, as of now. It does not fill in queues.
func (l *Ledger) Report(r toolcall.ActivityRequest, now time.Time) (toolcall.ActivityReply, error) {
	if err := r.Validate(); err != nil {
		return toolcall.ActivityReply{}, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	w, err := l.alignWindow(r, now)
	if err != nil {
		return toolcall.ActivityReply{}, err
	}
	out := toolcall.ActivityReply{At: now, Since: r.Since, Until: r.Until, StepMS: int64(w.step) * 1000, Queues: []toolcall.ActivityQueue{}}
	if l.forgotten > 0 && w.from <= l.forgotten {
		out.CompleteSince = timeOf(l.forgotten + 1)
	}
	whole := r.Since.IsZero() && r.Until.IsZero() && !w.byTool && !w.byAgent
	buckets := make([]counts, (w.until-w.from+w.step-1)/w.step)
	in := newSums()
	for _, c := range l.chunks {
		if c.last < w.from || c.first >= w.until {
			continue
		}
		for _, e := range c.events[:c.n] {
			if w.holdsEvent(e) {
				buckets[(e.at-w.from)/w.step][e.kind]++
				if !whole {
					in.add(e)
				}
			}
		}
	}
	if whole {
		in = l.total
	}
	out.Buckets = make([]toolcall.ActivityBucket, len(buckets))
	for i := range buckets {
		out.Buckets[i] = toolcall.ActivityBucket{Start: timeOf(w.from + uint32(i)*w.step), ActivityCounts: buckets[i].toReply()}
	}
	l.fillDerived(&out, in)
	out.Recent = l.latestDecisions(r)
	return out, nil
}

// alignWindow computes the window of a request, in whole steps.
func (l *Ledger) alignWindow(r toolcall.ActivityRequest, now time.Time) (window, error) {
	w := window{from: secondsOf(r.Since), until: secondsOf(now) + 1, step: uint32(r.StepMS / 1000)}
	if !r.Until.IsZero() {
		w.until = secondsOf(r.Until)
	}
	if r.Since.IsZero() {
		w.from = w.until - 1
		for _, c := range l.chunks {
			w.from = min(w.from, c.first)
		}
	}
	w.until = max(w.until, w.from+1)
	length := time.Duration(w.until-w.from) * time.Second
	if w.step == 0 {
		i := slices.IndexFunc(steps, func(s time.Duration) bool { return length <= (defaultBuckets-1)*s })
		w.step = uint32(steps[cmp.Or(max(i, 0), 0)].Seconds())
	}
	if n := int64(w.until-w.from) / int64(w.step); n >= toolcall.MaxActivityBuckets {
		return w, &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("the window has %d buckets, the limit is %d", n, toolcall.MaxActivityBuckets), Hint: "use a longer step_ms, or a later since"}
	}
	if r.Since.IsZero() {
		w.from -= w.from % w.step
	}
	w.byTool, w.byAgent = r.Tool != "", r.Agent != ""
	w.tool, w.agent = l.tools.find(r.Tool), l.agents.find(r.Agent)
	return w, nil
}

// find is idOf for reading: it does not add an unknown name.
func (n *names) find(name string) uint16 {
	name = clipName(name)
	if id, known := n.ids[name]; known || name == Other {
		return id
	}
	return MaxNames + 1 // no event has it
}

// fillDerived fills in the figures that are computed from sums.
func (l *Ledger) fillDerived(out *toolcall.ActivityReply, in sums) {
	byTool, byRule, byAgent, byCell := map[uint16]*counts{}, map[uint16]*counts{}, map[uint16]*counts{}, map[cell]*counts{}
	var total counts
	for k, c := range in.cells {
		total.merge(c)
		countsAt(byTool, k.tool()).merge(c)
		countsAt(byAgent, k.agent()).merge(c)
		// Most calls are proposed in a record of their own, before a rule decides them.
		decided := *c
		if decided[proposed] = c.toReply().Decided(); decided != (counts{}) {
			countsAt(byRule, k.rule()).merge(&decided)
			countsAt(byCell, cellOf(k.tool(), k.rule(), 0)).merge(&decided)
		}
	}
	out.Total = total.toReply()
	var all [spans]times
	out.ByTool = make([]toolcall.ActivityTool, 0, len(byTool))
	for _, s := range sharesByName(byTool, l.tools.list) {
		t := toolcall.ActivityTool{ActivityShare: s}
		of := in.times[l.tools.find(s.Name)]
		if of == nil {
			of = &[spans]times{}
		}
		for i, to := range [spans]*toolcall.ActivityTimes{&t.ToDecision, &t.Queued, &t.Run} {
			*to = of[i].toReply()
			all[i].merge(&of[i])
		}
		out.ByTool = append(out.ByTool, t)
	}
	out.ToDecision, out.Queued, out.Run = all[toDecision].toReply(), all[queued].toReply(), all[run].toReply()
	out.ByRule, out.ByAgent = sharesByName(byRule, l.rules.list), sharesByName(byAgent, l.agents.list)
	out.ByToolAndRule = make([]toolcall.ActivityCell, 0, len(byCell))
	for k, c := range byCell {
		out.ByToolAndRule = append(out.ByToolAndRule, toolcall.ActivityCell{Tool: l.tools.list[k.tool()], Rule: l.rules.list[k.rule()], ActivityCounts: c.toReply()})
	}
	slices.SortFunc(out.ByToolAndRule, func(a, b toolcall.ActivityCell) int {
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Rule, b.Rule))
	})
}

func countsAt[K comparable](m map[K]*counts, k K) *counts {
	if m[k] == nil {
		m[k] = &counts{}
	}
	return m[k]
}

// sharesByName returns counts by name, sorted by name.
func sharesByName(of map[uint16]*counts, names []string) []toolcall.ActivityShare {
	out := make([]toolcall.ActivityShare, 0, len(of))
	for _, id := range slices.SortedFunc(maps.Keys(of), func(a, b uint16) int { return cmp.Compare(names[a], names[b]) }) {
		out = append(out, toolcall.ActivityShare{Name: names[id], ActivityCounts: of[id].toReply()})
	}
	return out
}

// latestDecisions returns the latest decisions, newest first.
func (l *Ledger) latestDecisions(r toolcall.ActivityRequest) []toolcall.RecentDecision {
	most := min(cmp.Or(r.Recent, defaultRecent), MaxDecisions)
	out := make([]toolcall.RecentDecision, 0, min(most, len(l.recent)))
	for i := range l.recent {
		d := l.recent[(l.next+len(l.recent)-1-i)%len(l.recent)]
		if len(out) < most && (r.Tool == "" || d.Tool == r.Tool) && (r.Agent == "" || d.Agent == r.Agent) {
			out = append(out, d)
		}
	}
	return out
}

func timeOf(seconds uint32) time.Time { return time.Unix(int64(seconds), 0).UTC() }
