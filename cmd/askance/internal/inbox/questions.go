package inbox

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// question is one that is or was open.
type question struct {
	call   *message.Call
	over   string    // what became of it; "" while it is open
	overAt time.Time // when this inbox learnt of that
}

// open reports whether it can still be answered.
func (q *question) open() bool { return q.over == "" }

const (
	// linger is how long a settled question stays on the list, so that a person
	// who looks at it sees what became of it.
	linger = 5 * time.Second
	// memory is how long a settled question is remembered, so that an answer of
	// the engine that is older than what is known cannot open it again.
	memory = 2 * time.Minute
)

// questions is what the inbox knows. The zero value is empty. What it takes in
// may be old, doubled and in any order: the highest sequence of a call counts.
type questions struct {
	all  map[message.Key]*question
	past map[message.Key]settled
}

// settled remembers a question that left.
type settled struct {
	seq uint64
	at  time.Time
}

// take takes in the state of a call. by is who moved it last, if that is known.
func (qs *questions) take(c *message.Call, by string, now time.Time) {
	if qs.all == nil {
		qs.all, qs.past = map[message.Key]*question{}, map[message.Key]settled{}
	}
	if c.Seq < qs.past[c.Key].seq {
		return
	}
	q := qs.all[c.Key]
	switch {
	case q != nil && c.Seq < q.call.Seq:
	case c.State == message.ToolCallAsking && c.Question != nil:
		qs.all[c.Key] = &question{call: c}
	case q != nil:
		q.call, q.over = c, asked.Verdict(c, by)
		if q.overAt.IsZero() {
			q.overAt = now
		}
		qs.past[c.Key] = settled{c.Seq, now}
	}
}

// listed takes in a list of open questions. If it is complete, the result is
// which of those on the screen are not on it: what became of them must be asked.
func (qs *questions) listed(calls []*message.Call, complete bool, now time.Time) (missing []message.Key) {
	have := map[message.Key]bool{}
	for _, c := range calls {
		have[c.Key] = true
		qs.take(c, "", now)
	}
	if !complete {
		return nil
	}
	for k, q := range qs.all {
		if q.open() && !have[k] {
			missing = append(missing, k)
		}
	}
	slices.SortFunc(missing, func(a, b message.Key) int { return cmp.Compare(a.String(), b.String()) })
	return missing
}

// unknown notes that the engine knows no such call.
func (qs *questions) unknown(k message.Key, now time.Time) {
	if q := qs.all[k]; q != nil && q.open() {
		q.over, q.overAt = "gone: the engine does not know it any more", now
	}
}

// sweep lets settled questions leave, save those that keep holds.
func (qs *questions) sweep(now time.Time, keep func(message.Key) bool) {
	for k, q := range qs.all {
		if !q.open() && now.Sub(q.overAt) >= linger && !keep(k) {
			delete(qs.all, k)
		}
	}
	for k, s := range qs.past {
		if now.Sub(s.at) >= memory && qs.all[k] == nil {
			delete(qs.past, k)
		}
	}
}

// get gives a question, or nil.
func (qs *questions) get(k message.Key) *question { return qs.all[k] }

// count is how many are open.
func (qs *questions) count() int {
	n := 0
	for _, q := range qs.all {
		if q.open() {
			n++
		}
	}
	return n
}

// sorted gives those that match, in the order in which they were proposed.
func (qs *questions) sorted(match func(*question) bool) []*question {
	var out []*question
	for _, q := range qs.all {
		if match(q) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b *question) int {
		return cmp.Or(cmp.Compare(a.call.First, b.call.First), cmp.Compare(a.call.Key.String(), b.call.Key.String()))
	})
	return out
}

// similar gives the open questions about the same tool for the same reason of
// the policy, q among them.
func (qs *questions) similar(q *question) []*question {
	return qs.sorted(func(o *question) bool {
		return o.open() && o.call.Tool == q.call.Tool && o.call.Question.Rule == q.call.Question.Rule && o.call.Question.Source == q.call.Question.Source
	})
}

// matcher gives the test for a filter: every word of it must occur somewhere.
func matcher(filter string) func(*question) bool {
	words := strings.Fields(strings.ToLower(filter))
	return func(q *question) bool {
		if len(words) == 0 {
			return true
		}
		c := q.call
		text := []string{string(c.Call), string(c.Session), string(c.Reply), c.Tool, c.Runtime, c.Agent, c.Input}
		if c.Question != nil {
			text = append(text, c.Question.Text, c.Question.Rule, c.Question.Reason)
		}
		all := strings.ToLower(strings.Join(text, "\n"))
		for _, w := range words {
			if !strings.Contains(all, w) {
				return false
			}
		}
		return true
	}
}
