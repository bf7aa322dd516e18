package toolcall

import (
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// ActivityRequest asks what happened to calls, and what is queued and running now.
type ActivityRequest struct {
	V int `json:"v,omitzero"`
	// Since and Until bound what is counted, to the second: at Since or later, and
	// before Until. Zero: from the beginning of the journal, and until now.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// StepMS is the length of a bucket, in whole seconds. 0 chooses one that gives at most 60 buckets.
	StepMS int64  `json:"step_ms,omitzero"`
	Tool   string `json:"tool_name,omitzero"` // only calls of this tool
	Agent  string `json:"agent,omitzero"`     // only calls of this agent
	Recent int    `json:"recent,omitzero"`    // how many decisions to list; default 50, maximum 500
}

// MaxActivityBuckets bounds the buckets of one reply.
const MaxActivityBuckets = 1000

// Validate refuses a window that ends before it begins, and a step that is not whole seconds.
func (r ActivityRequest) Validate() error {
	var what, hint string
	switch {
	case !r.Since.IsZero() && !r.Until.IsZero() && !r.Since.Before(r.Until):
		what, hint = "the window ends before it begins", "set since earlier than until"
	case r.StepMS < 0 || r.StepMS%1000 != 0:
		what, hint = fmt.Sprintf("the step is %d ms", r.StepMS), "use whole seconds, for example 60000"
	case r.Recent < 0:
		what, hint = "the number of decisions is negative", "leave it out for 50"
	default:
		return nil
	}
	return &message.Error{Code: message.CodeInvalid, Op: "activity", What: what, Hint: hint}
}

// ActivityReply is what one engine counted in the journal. Engines of one space count
// the same, also after a restart. Names beyond the first 1,000 tools, rules and agents
// are counted as "other".
type ActivityReply struct {
	At     time.Time `json:"at"`
	Since  time.Time `json:"since,omitzero"` // as asked
	Until  time.Time `json:"until,omitzero"` // as asked
	StepMS int64     `json:"step_ms"`
	// CompleteSince is set if older events were forgotten: windows and buckets may lack
	// earlier events. Totals from the beginning of the journal are still complete.
	CompleteSince time.Time        `json:"complete_since,omitzero"`
	Total         ActivityCounts   `json:"total"`
	Buckets       []ActivityBucket `json:"buckets"` // without gaps, in order of time
	ByTool        []ActivityTool   `json:"by_tool"`
	ByRule        []ActivityShare  `json:"by_rule"`  // "" where no rule matched; proposed is the number of decisions
	ByAgent       []ActivityShare  `json:"by_agent"` // "" where the runtime named none
	ByToolAndRule []ActivityCell   `json:"by_tool_and_rule"`
	// ToDecision is the time from a request for approval to its response or expiry,
	// Queued from the offer of an attempt to its start, Run from its start to its result.
	ToDecision ActivityTimes    `json:"to_decision"`
	Queued     ActivityTimes    `json:"queued"`
	Run        ActivityTimes    `json:"run"`
	Queues     []ActivityQueue  `json:"queues"` // now, independent of the window
	Recent     []RecentDecision `json:"recent"` // latest first, independent of the window
	Open       ActivityOpen     `json:"open"`   // now, independent of the window
}

// Urgent is how little time an approval request has left when it counts as urgent.
const Urgent = 15 * time.Minute

// ActivityOpen counts the open approval requests.
type ActivityOpen struct {
	Requests   int                `json:"requests"`
	ByAge      []ActivityOpenUpTo `json:"by_age"` // since the proposal
	ByTimeLeft []ActivityOpenUpTo `json:"by_time_left"`
}

// ActivityOpenUpTo counts the requests whose time is below UpToMS, but not below the UpToMS
// of the entry before.
type ActivityOpenUpTo struct {
	UpToMS     int64 `json:"up_to_ms,omitzero"` // 0 means all others
	Urgent     int   `json:"urgent,omitzero"`   // ending within 15 minutes
	Later      int   `json:"later,omitzero"`
	NoDeadline int   `json:"no_deadline,omitzero"`
}

// ActivityCounts are events, each counted when it happened.
type ActivityCounts struct {
	Proposed    int `json:"proposed"`
	Allowed     int `json:"allowed"`     // by the policy, or by a standing approval
	Standing    int `json:"standing"`    // those of Allowed by a standing approval
	Asked       int `json:"asked"`       // requests for approval
	Denied      int `json:"denied"`      // by the policy
	Refused     int `json:"refused"`     // unknown tool, or bad input
	Approved    int `json:"approved"`    // by people, edited calls included
	Rejected    int `json:"rejected"`    // by people
	Responded   int `json:"responded"`   // by people, for the tool
	Expired     int `json:"expired"`     // requests without a response in time
	Started     int `json:"started"`     // attempts
	Retried     int `json:"retried"`     // attempts that were lost or returned
	Blocked     int `json:"blocked"`     // calls that needed an operator
	Succeeded   int `json:"succeeded"`   // calls that ran, without an error
	Failed      int `json:"failed"`      // calls that ran, with an error
	Revoked     int `json:"revoked"`     // before the start
	Interrupted int `json:"interrupted"` // with their reply
}

// Decided is the number of decisions of the policy, and refusals of calls that never reach it.
func (c ActivityCounts) Decided() int { return c.Allowed + c.Asked + c.Denied + c.Refused }

// ActivityBucket counts what happened at Start or later and before the next bucket.
type ActivityBucket struct {
	Start time.Time `json:"start"`
	ActivityCounts
}

// ActivityShare holds the counts of one name.
type ActivityShare struct {
	Name string `json:"name"`
	ActivityCounts
}

// ActivityTool holds the counts and times of one tool.
type ActivityTool struct {
	ActivityShare
	ToDecision ActivityTimes `json:"to_decision"`
	Queued     ActivityTimes `json:"queued"`
	Run        ActivityTimes `json:"run"`
}

// ActivityCell holds the counts of the calls of one tool that one rule decided; proposed is
// the number of decisions.
type ActivityCell struct {
	Tool string `json:"tool_name"`
	Rule string `json:"rule"`
	ActivityCounts
}

// ActivityTimes is a distribution of times.
type ActivityTimes struct {
	Count   int            `json:"count"`
	SumMS   int64          `json:"sum_ms"`
	P50MS   int64          `json:"p50_ms"` // estimated within its bucket, like P90MS and P99MS
	P90MS   int64          `json:"p90_ms"`
	P99MS   int64          `json:"p99_ms"`
	Buckets []ActivityUpTo `json:"buckets"` // empty if Count is 0
}

// ActivityUpTo counts the times above the previous bucket and up to UpToMS; 0 means no limit.
type ActivityUpTo struct {
	UpToMS int64 `json:"up_to_ms"`
	Count  int   `json:"count"`
}

// ActivityQueue is what the allowed calls of one tool and route wait for.
type ActivityQueue struct {
	Tool      string    `json:"tool_name"`
	Route     string    `json:"route,omitzero"`
	Placement Placement `json:"placement"`
	Depth     int       `json:"depth"`           // calls that wait for a worker
	Oldest    time.Time `json:"oldest,omitzero"` // when the first of them was offered
	Running   int       `json:"running"`
	Retrying  int       `json:"retrying"` // calls that wait for their next attempt
	Blocked   int       `json:"blocked"`  // calls that need an operator
	// Listening is the number of requests for tasks that now wait at the server: a worker has
	// at least one while it has free slots. It is absent if unknown.
	Listening *int             `json:"listening,omitzero"`
	Workers   []ActivityWorker `json:"workers"` // heard of within the last hour
}

// WorkerSilence is how long a worker without a running call may be silent and still count
// as connected: three times the longest request for tasks.
const WorkerSilence = 90 * time.Second

// Connected counts the workers of the queue that are connected.
func (q ActivityQueue) Connected(now time.Time) int {
	n := 0
	for _, w := range q.Workers {
		if w.IsConnected(now) {
			n++
		}
	}
	return n
}

// HasWorker reports whether a worker is connected to this engine or another one.
func (q ActivityQueue) HasWorker(now time.Time) bool {
	return q.Connected(now) > 0 || q.Listening != nil && *q.Listening > 0
}

// ActivityWorker is a worker, or the engine that runs local calls.
type ActivityWorker struct {
	Name      string    `json:"name"`
	Running   int       `json:"running"` // calls of this queue
	Calls     []Key     `json:"calls"`   // the first 20 of them
	LastHeard time.Time `json:"last_heard,omitzero"`
	// ClockAheadMS is how far the worker's clock is ahead of the engine's if it differs, negative
	// if behind; ClockWithinMS is the accuracy.
	ClockAheadMS  int64 `json:"clock_ahead_ms,omitzero"`
	ClockWithinMS int64 `json:"clock_within_ms,omitzero"`
}

// IsConnected reports whether the worker runs a call, or was heard of within
// [WorkerSilence].
func (w ActivityWorker) IsConnected(now time.Time) bool {
	return w.Running > 0 || now.Sub(w.LastHeard) < WorkerSilence
}

// Verdict names a decision.
type Verdict string

// The verdicts: of the policy, of people, and of time.
const (
	VerdictAllow   Verdict = "allow"
	VerdictAsk     Verdict = "ask"
	VerdictDeny    Verdict = "deny"
	VerdictRefuse  Verdict = "refuse" // unknown tool, or bad input
	VerdictApprove Verdict = "approve"
	VerdictReject  Verdict = "reject"
	VerdictRespond Verdict = "respond"
	VerdictExpire  Verdict = "expire"
)

// RecentDecision is one decision about a call. An approval request is listed once it has
// been answered.
type RecentDecision struct {
	Key
	Tool    string    `json:"tool_name"`
	Agent   string    `json:"agent,omitzero"`
	Summary string    `json:"summary"` // empty once the engine has forgotten the call
	Verdict Verdict   `json:"verdict"`
	By      string    `json:"by,omitzero"` // the person; empty for the policy or an expiry
	Rule    string    `json:"rule,omitzero"`
	At      time.Time `json:"at"`
	TookMS  int64     `json:"took_ms,omitzero"` // since the approval request
}

// Verdict returns the last decision in an event record, or "". An edit that the policy
// allows is an approval.
func (r *EventRecord) Verdict() Verdict {
	if r.Call == nil || r.Note != nil {
		return ""
	}
	var out Verdict
	edited := false
	for _, s := range r.Path {
		edited = edited || Cause(s.Cause) == CauseEdit
		if v := Cause(s.Cause).Verdict(edited); v != "" {
			out = v
		}
	}
	return out
}

// Verdict returns what a step decides about a call, or "".
func (c Cause) Verdict(edited bool) Verdict {
	if c == CauseAllow && edited {
		return VerdictApprove
	}
	return map[Cause]Verdict{
		CauseAllow: VerdictAllow, CauseAsk: VerdictAsk, CauseDeny: VerdictDeny, CauseRefuse: VerdictRefuse,
		CauseApprove: VerdictApprove, CauseReject: VerdictReject, CauseRespond: VerdictRespond, CauseExpire: VerdictExpire,
	}[c]
}
