package inbox

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// request is an approval request that is or was open.
type request struct {
	call   *toolcall.Call
	over   string    // what became of it; "" while it is open
	overAt time.Time // when this inbox learnt of that
}

// open reports whether it still needs a response.
func (q *request) open() bool { return q.over == "" }

const (
	// linger is how long a resolved approval request stays on the list, so that a person
	// who looks at it sees what became of it.
	linger = 5 * time.Second
	// memory is how long a resolved approval request is remembered, so that a reply of
	// the engine that is older than what is known cannot open it again.
	memory = 2 * time.Minute
)

// requests holds what the inbox knows. The zero value is empty. What it takes in
// may be old, doubled and in any order: the highest sequence of a call counts.
type requests struct {
	all  map[toolcall.Key]*request
	past map[toolcall.Key]closedRequest
}

// closedRequest remembers an approval request that left.
type closedRequest struct {
	seq uint64
	at  time.Time
}

// take takes in the state of a call. by is who moved it last, if that is known.
func (qs *requests) take(c *toolcall.Call, by string, now time.Time) {
	if qs.all == nil {
		qs.all, qs.past = map[toolcall.Key]*request{}, map[toolcall.Key]closedRequest{}
	}
	if c.Seq < qs.past[c.Key].seq {
		return
	}
	q := qs.all[c.Key]
	switch {
	case q != nil && c.Seq < q.call.Seq:
	case c.State == message.ToolCallAsking && c.Request != nil:
		qs.all[c.Key] = &request{call: c}
	case q != nil:
		q.call, q.over = c, asked.Verdict(c, by)
		if q.overAt.IsZero() {
			q.overAt = now
		}
		qs.past[c.Key] = closedRequest{c.Seq, now}
	}
}

// takeList takes in a list of open approval requests. If it is complete, the result is
// which of those on the screen are not on it: what became of them must be asked.
func (qs *requests) takeList(calls []*toolcall.Call, complete bool, now time.Time) (missing []toolcall.Key) {
	have := map[toolcall.Key]bool{}
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
	slices.SortFunc(missing, func(a, b toolcall.Key) int { return cmp.Compare(a.String(), b.String()) })
	return missing
}

// markGone notes that the engine knows no such call.
func (qs *requests) markGone(k toolcall.Key, now time.Time) {
	if q := qs.all[k]; q != nil && q.open() {
		q.over, q.overAt = "gone: the engine no longer has it", now
	}
}

// sweep lets resolved approval requests leave, save those that keep holds.
func (qs *requests) sweep(now time.Time, keep func(toolcall.Key) bool) {
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

// get gives an approval request, or nil.
func (qs *requests) get(k toolcall.Key) *request { return qs.all[k] }

// count is how many are open.
func (qs *requests) count() int {
	n := 0
	for _, q := range qs.all {
		if q.open() {
			n++
		}
	}
	return n
}

// sorted gives those that match, in the order in which they were proposed.
func (qs *requests) sorted(match func(*request) bool) []*request {
	var out []*request
	for _, q := range qs.all {
		if match(q) {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b *request) int {
		return cmp.Or(cmp.Compare(a.call.First, b.call.First), cmp.Compare(a.call.Key.String(), b.call.Key.String()))
	})
	return out
}

// similar gives the open approval requests about the same tool for the same reason of
// the policy, q among them.
func (qs *requests) similar(q *request) []*request {
	return qs.sorted(func(o *request) bool {
		return o.open() && o.call.Tool == q.call.Tool && o.call.Request.Rule == q.call.Request.Rule && o.call.Request.Source == q.call.Request.Source
	})
}

// matcher gives the test for a filter: every word of it must occur somewhere.
func matcher(filter string) func(*request) bool {
	words := strings.Fields(strings.ToLower(filter))
	return func(q *request) bool {
		if len(words) == 0 {
			return true
		}
		c := q.call
		text := []string{string(c.Call), string(c.Session), string(c.Reply), c.Tool, c.Runtime, c.Agent, c.Input}
		if c.Request != nil {
			text = append(text, c.Request.Text, c.Request.Rule, c.Request.Reason)
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
