package inbox

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// request is a call as the inbox knows it: one that asks, asked, or needs no approval.
type request struct {
	call *toolcall.Call
	over string // outcome of its approval request; "" while it is open
	// left is the tab that still shows the call, why says why it left; leaving ends after linger.
	left    tab
	why     string
	leftAt  time.Time
	leaving bool
	words   string    // what a filter searches, in lower case; "" until it is needed
	round   int       // of the list that has it among its rows
	due     time.Time // when something happens to the call unless a person or a worker acts
}

// dueOf is the deadline of an approval request, or of a run.
func dueOf(c *toolcall.Call) time.Time {
	switch {
	case c.State == message.ToolCallAsking && c.Request != nil:
		return c.Request.Requirement.Ends()
	case c.Started():
		return c.Attempt.Deadline
	}
	return time.Time{}
}

// open reports whether it still needs a response.
func (r *request) open() bool { return r.over == "" && r.call.State == message.ToolCallAsking }

// awaits reports whether it waits for a person, who has not responded yet.
func (r *request) awaits(who string) bool {
	_, voted := r.call.VoteOf(who)
	return !voted && asked.MayRespond(r.call, who) != asked.No
}

// isOn reports whether a tab shows it.
func (r *request) isOn(t tab) bool { return tabOf(r) == t || r.leaving && r.left == t }

const (
	// linger is how long a call that left a tab stays there, so that a person who looks
	// at it sees the outcome.
	linger = 5 * time.Second
	// memory is how long a finished call is remembered, so that an older reply of the
	// engine cannot open it again.
	memory = 2 * time.Minute
)

// requests holds the known calls. The zero value is empty. Updates may be old, repeated and
// in any order: the highest sequence of a call wins.
type requests struct {
	all  map[toolcall.Key]*request
	past map[toolcall.Key]closedRequest
	rev  int // incremented by every change, so that derived tables can be cached
}

// closedRequest remembers a call that finished.
type closedRequest struct {
	seq uint64
	at  time.Time
}

// take updates the state of a call. by is who changed it last, if that is known.
func (r *requests) take(c *toolcall.Call, by string, now time.Time) {
	if r.all == nil {
		r.all, r.past = map[toolcall.Key]*request{}, map[toolcall.Key]closedRequest{}
	}
	if c.Seq < r.past[c.Key].seq {
		return
	}
	q := r.all[c.Key]
	finished := c.State == message.ToolCallFinished
	switch {
	case q != nil && (c.Seq < q.call.Seq || isSame(q, c)):
		return
	case q == nil && finished:
		return
	case q == nil, c.State == message.ToolCallAsking && c.Request != nil:
		r.all[c.Key] = &request{call: c, due: dueOf(c)}
	default:
		q.move(c, by, now)
	}
	if finished {
		r.past[c.Key] = closedRequest{c.Seq, now}
	}
	r.rev++
}

// isSame reports whether a call has nothing new.
func isSame(q *request, c *toolcall.Call) bool {
	return c.Seq == q.call.Seq && !q.gone() && c.Phase() == q.call.Phase() && c.BlockedReason == q.call.BlockedReason
}

// move updates a call that changed.
func (r *request) move(c *toolcall.Call, by string, now time.Time) {
	from := tabOf(r)
	switch {
	case r.open():
		r.over = asked.Verdict(c, by)
	case r.gone():
		r.over = ""
	}
	r.call, r.words, r.due = c, "", dueOf(c)
	if r.over == "" && c.State == message.ToolCallFinished {
		r.over, _ = endedText(c)
	}
	if from == tabOf(r) || r.leaving {
		return
	}
	r.left, r.leaving, r.leftAt = from, true, now
	r.why = r.over
	if c.State == message.ToolCallFinished && from != tabOpen {
		r.why, _ = endedText(c)
	}
}

// takeList adds a part of the list of open calls. With the last part comes listed, the
// keys of the whole list; the result is then the open calls that the list lacks.
func (r *requests) takeList(calls []*toolcall.Call, listed map[toolcall.Key]bool, now time.Time) (missing []toolcall.Key) {
	for _, c := range calls {
		r.take(c, "", now)
	}
	if listed == nil {
		return nil
	}
	for k, q := range r.all {
		if q.call.State != message.ToolCallFinished && !q.gone() && !listed[k] {
			missing = append(missing, k)
		}
	}
	slices.SortFunc(missing, func(a, b toolcall.Key) int { return cmp.Compare(a.String(), b.String()) })
	return missing
}

const goneText = "gone: the engine no longer has it"

func (r *request) gone() bool { return r.over == goneText }

// markGone records that the engine has no such call.
func (r *requests) markGone(k toolcall.Key, now time.Time) {
	if q := r.all[k]; q != nil && !q.gone() {
		q.left = tabOf(q)
		q.over, q.why, q.leaving, q.leftAt = goneText, goneText, true, now
		r.rev++
	}
}

// drop forgets a call that finished unseen, among many others.
func (r *requests) drop(k toolcall.Key) {
	delete(r.all, k)
	r.rev++
}

// sweep lets calls leave their tabs, and forgets those that finished, except those that
// keep reports.
func (r *requests) sweep(now time.Time, keep func(toolcall.Key) bool) {
	for k, q := range r.all {
		finished := q.call.State == message.ToolCallFinished || q.gone()
		if !finished && !q.leaving || now.Sub(q.leftAt) < linger || keep(k) {
			continue
		}
		q.leaving = false
		if finished {
			delete(r.all, k)
		}
		r.rev++
	}
	for k, s := range r.past {
		if now.Sub(s.at) >= memory && r.all[k] == nil {
			delete(r.past, k)
		}
	}
}

// get returns a call, or nil.
func (r *requests) get(k toolcall.Key) *request { return r.all[k] }

// count returns how many requests are open, and how many of them are due soon.
func (r *requests) count(now time.Time) (open, due int) {
	for _, q := range r.all {
		if !q.open() {
			continue
		}
		open++
		if !q.due.IsZero() && q.due.Sub(now) <= term.Soon {
			due++
		}
	}
	return open, due
}

// matcher returns the predicate for a filter: every word of it must occur somewhere.
func matcher(filter string) func(*request) bool {
	words := strings.Fields(strings.ToLower(filter))
	return func(q *request) bool {
		if q.words == "" && len(words) > 0 {
			q.words = searchText(q.call)
		}
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(q.words, w) })
	}
}

func searchText(c *toolcall.Call) string {
	text := []string{string(c.Call), string(c.Session), string(c.Reply), c.Tool, c.Runtime, c.Agent, asked.Title(c), c.Input}
	if c.Request != nil {
		text = append(text, c.Request.Text, c.Request.Rule, c.Request.Reason)
	}
	return strings.ToLower(strings.Join(text, "\n"))
}

// riskText returns what the tool's annotations warn about.
func riskText(c *toolcall.Call) string {
	return reveal.Line(strings.Join(c.Risk, ", "))
}

// sinceOf returns when the call entered its phase.
func sinceOf(c *toolcall.Call) time.Time {
	if c.Phase() == toolcall.PhaseRunning && !c.Attempt.StartedAt.IsZero() {
		return c.Attempt.StartedAt
	}
	return c.UpdatedAt
}

// blockedWord says in a word or two why a call is blocked.
func blockedWord(c *toolcall.Call) string {
	switch c.Blocked {
	case toolcall.BlockedUnknown:
		return "outcome unknown"
	case toolcall.BlockedDeadLetter:
		return "retries exhausted"
	case toolcall.BlockedNoWorker:
		return "no worker"
	case toolcall.BlockedReturned:
		return "returned too often"
	case toolcall.BlockedClock:
		return "worker clock is off"
	case toolcall.BlockedKey:
		return "approver's key is unknown"
	case toolcall.NotBlocked:
	}
	return reveal.Line(string(c.Blocked))
}

// endedText says how a finished call ended, and whether it ended well.
func endedText(c *toolcall.Call) (text string, good bool) {
	text, good = asked.Ended(c)
	return strings.ToLower(text), good
}

// outcomeText says how a finished call ended, when, and on which worker.
func outcomeText(m *model, c *toolcall.Call) string {
	text, good := endedText(c)
	paint := m.out.Bad
	if good {
		paint = m.out.Good
	}
	text = paint(text) + ", " + asked.Span(m.now.Sub(c.UpdatedAt)) + " ago"
	if c.Attempt.Worker != "" {
		text += ", on " + reveal.MarkedName(c.Attempt.Worker)
	}
	return text
}

// phaseText describes the phase of a call that waits for no response.
func phaseText(c *toolcall.Call, now time.Time) []string {
	since := ", " + asked.Span(now.Sub(sinceOf(c))) + " ago"
	switch p := c.Phase(); p {
	case toolcall.PhaseWaiting:
		if c.Behind != "" {
			return []string{"waiting for the approval of " + reveal.MarkedName(string(c.Behind))}
		}
		return []string{"waiting: other calls of the reply come first"}
	case toolcall.PhaseQueued:
		if c.Placement == toolcall.PlaceExternal {
			return []string{"queued" + since + ", its runtime runs it"}
		}
		return []string{"queued" + since + ", waits for a worker"}
	case toolcall.PhaseRunning:
		text := "running"
		if c.Attempt.Worker != "" {
			text += " on " + reveal.MarkedName(c.Attempt.Worker)
		}
		text += ", started" + strings.TrimPrefix(since, ",")
		if at := c.Attempt.Deadline; !at.IsZero() {
			text += ", timeout in " + asked.Until(at, now)
		}
		return []string{text}
	case toolcall.PhaseRetrying:
		return []string{"retrying in " + asked.Until(c.RetryAt, now), reveal.Line(c.ReturnText())}
	case toolcall.PhaseBlocked:
		return []string{"blocked" + since + ": " + story.BlockedDetail(c)}
	case toolcall.PhaseReady, toolcall.PhaseAsking, toolcall.PhaseFinished:
		return []string{string(p) + since}
	}
	return nil
}

func resultText(c *toolcall.Call) []string {
	switch {
	case c.Result != nil:
		return strings.Split(reveal.Text(strings.TrimRight(asked.Output(c.Result.Output), "\n")), "\n")
	case c.Denial != nil:
		return []string{oneLine(c.Denial.Reason)}
	}
	return nil
}
