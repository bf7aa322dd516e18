package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// history is a whole journal, looked at by what was decided when.
type history struct {
	broken []string // what no engine could have written
	lines  []string // one for each fact, for whoever reads a failure
	trees  map[message.Key][]*message.Fact
	last   map[message.Key]*message.Call
	plans  map[message.ReplyID][]plannedAt
	over   map[message.ReplyID]bool // was interrupted
}

// plannedAt is a batch and the sequence of the fact that planned it.
type plannedAt struct {
	message.BatchPlan
	seq uint64
}

type allRecords struct {
	records []message.Record
	stop    context.CancelFunc
}

func (a *allRecords) Record(r message.Record) { a.records = append(a.records, r) }
func (a *allRecords) CaughtUp()               { a.stop() }

func readHistory(w *wired) *history {
	w.Helper()
	h := &history{trees: map[message.Key][]*message.Fact{}, last: map[message.Key]*message.Call{}, plans: map[message.ReplyID][]plannedAt{}, over: map[message.ReplyID]bool{}}
	ctx, stop := context.WithCancel(w.Context())
	all := &allRecords{stop: stop}
	if err := w.journal.Watch(ctx, 0, all); !errors.Is(err, context.Canceled) {
		w.Fatal(err)
	}
	for _, r := range all.records {
		f := r.Fact
		switch {
		case f == nil:
		case f.Call != nil:
			f.Call.At(r.Seq)
			h.trees[r.Key], h.last[r.Key] = append(h.trees[r.Key], f), f.Call
		case f.Reply != nil:
			for _, p := range f.Reply.Batches[len(h.plans[f.Reply.Reply]):] {
				h.plans[f.Reply.Reply] = append(h.plans[f.Reply.Reply], plannedAt{p, r.Seq})
			}
			h.over[f.Reply.Reply] = f.Reply.Phase != message.ReplyOpen
		}
		if f != nil {
			h.lines = append(h.lines, fmt.Sprintf("%d %s %s %s by %s", r.Seq, r.Time.Format("05.000"), r.Key.Call, f.Kind(), f.Engine))
		}
	}
	for key, facts := range h.trees {
		if _, err := toolcall.Replay(facts); err != nil {
			h.broken = append(h.broken, fmt.Sprintf("%s: %v", key.Call, err))
		}
		starts := map[int]int{}
		for _, f := range facts {
			if f.Kind() == "start" {
				starts[f.Call.Attempt.Number]++
			}
		}
		for n, times := range starts {
			if times > 1 {
				h.broken = append(h.broken, fmt.Sprintf("attempt %d of %s started %d times", n, key.Call, times))
			}
		}
	}
	return h
}

// when gives the sequence of the first fact of a call of which is is true.
func (h *history) when(key message.Key, is func(*message.Call) bool) uint64 {
	for _, f := range h.trees[key] {
		if is(f.Call) {
			return f.Call.Seq
		}
	}
	return 0
}

func begun(c *message.Call) bool {
	return c.State == message.ToolCallAsking || c.State == message.ToolCallAllowed || c.State == message.ToolCallSubmitted || !c.Open() && c.Cause != "interrupt"
}

func isFinished(c *message.Call) bool { return !c.Open() }

// before gives the calls of the plan that come before a call; without those that
// came late, only after the call's own batch was planned: they may have been
// given up. missing tells whether one of its own batch was never proposed.
func (h *history) before(key message.Key, late bool) (out []message.Key, missing bool) {
	plans, of := h.plans[key.Reply], h.last[key].Batch
	if of.Number == 0 {
		return nil, false
	}
	for _, p := range plans[:of.Number] {
		for i, id := range p.Calls {
			k := key
			k.Call = id
			switch first := h.when(k, func(*message.Call) bool { return true }); {
			case p.Number == of.Number && p.Groups[i] >= of.Group:
			case p.Number == of.Number && first == 0:
				missing = true
			case first != 0 && (late || p.Number == of.Number || first < plans[of.Number-1].seq):
				out = append(out, k)
			}
		}
	}
	return out, missing
}

// outOfOrder finds calls that were decided before what they had to wait for had
// ended.
func (h *history) outOfOrder() (out []string) {
	for key := range h.trees {
		at := h.when(key, begun)
		if at == 0 {
			continue
		}
		earlier, missing := h.before(key, false)
		if missing {
			out = append(out, fmt.Sprintf("%s was decided before a call of its batch was proposed", key.Call))
		}
		for _, k := range earlier {
			if end := h.when(k, isFinished); end == 0 || end > at {
				out = append(out, fmt.Sprintf("%s was decided at %d, and %s before it ended at %d", key.Call, at, k.Call, end))
			}
		}
	}
	return out
}

// asksAtOnce finds calls of one group that asked at the same time, where the
// answer to the one could have been the answer to the other.
func (h *history) asksAtOnce() (out []string) {
	type span struct {
		call     message.CallID
		from, to uint64
	}
	type group struct {
		reply message.ReplyID
		batch message.Batch
	}
	spans := map[group][]span{}
	for key, facts := range h.trees {
		g := group{key.Reply, message.Batch{Number: facts[0].Call.Batch.Number, Group: facts[0].Call.Batch.Group}}
		if facts[0].Call.Tool != asks {
			continue
		}
		if from := h.when(key, func(c *message.Call) bool { return c.State == message.ToolCallAsking }); from > 0 {
			s := span{key.Call, from, ^uint64(0)}
			for _, f := range facts {
				if f.Call.Seq > from && f.Call.State != message.ToolCallAsking {
					s.to = f.Call.Seq
					break
				}
			}
			spans[g] = append(spans[g], s)
		}
	}
	for _, of := range spans {
		slices.SortFunc(of, func(a, b span) int { return int(a.from) - int(b.from) })
		for i := 1; i < len(of); i++ {
			if of[i].from < of[i-1].to {
				out = append(out, fmt.Sprintf("%s asked from %d on, and %s from %d to %d", of[i].call, of[i].from, of[i-1].call, of[i-1].from, of[i-1].to))
			}
		}
	}
	return out
}

// waitsForEver finds pending calls that nothing holds back, and open calls of
// replies that were interrupted.
func (h *history) waitsForEver() (out []string) {
	for key, c := range h.last {
		if c.Open() && h.over[key.Reply] {
			out = append(out, fmt.Sprintf("%s is %s, and its reply was interrupted", key.Call, c.State))
		}
		if c.State != message.ToolCallPending {
			continue
		}
		earlier, wait := h.before(key, true)
		for _, k := range earlier {
			wait = wait || h.last[k].Open()
		}
		for k, o := range h.last { // also what did not wait for a call that came late
			hides := k.Call == c.Behind && o.State == message.ToolCallAsking
			wait = wait || k.Reply == key.Reply && (hides || o.Batch.Number > c.Batch.Number && o.Open() && o.State != message.ToolCallPending)
		}
		if !wait {
			out = append(out, fmt.Sprintf("%s is pending behind %q, and nothing holds it back", key.Call, c.Behind))
		}
	}
	return out
}
