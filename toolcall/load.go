package toolcall

import (
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/message"
)

// LoadRequest asks what reviewers have to do, and what they have done: from the
// beginning of the journal until now, or within a window.
type LoadRequest struct {
	V int `json:"v,omitzero"`
	// Since and Until bound the responses that are counted: those given at Since or later
	// and before Until. Zero means no bound.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// Window reports whether responses are counted within a window.
func (r LoadRequest) Window() bool { return !r.Since.IsZero() || !r.Until.IsZero() }

// Validate refuses a window that ends before it begins.
func (r LoadRequest) Validate() error {
	if !r.Since.IsZero() && !r.Until.IsZero() && !r.Since.Before(r.Until) {
		return &message.Error{Code: message.CodeInvalid, Op: "load", What: "the window ends before it begins", Hint: "set since earlier than until"}
	}
	return nil
}

// LoadReply is the load of the space's reviewers, according to one engine's copy of the
// journal. Open approval requests are the current ones; responses are counted from the
// beginning of the journal, or within the requested window.
type LoadReply struct {
	At         time.Time      `json:"at"`
	Since      time.Time      `json:"since,omitzero"` // as asked
	Until      time.Time      `json:"until,omitzero"` // as asked
	Open       int            `json:"open"`           // open approval requests
	Unassigned int            `json:"unassigned"`     // those of Open that any approver may answer
	People     []ReviewerLoad `json:"people"`         // by name
	Groups     []ReviewerLoad `json:"groups"`         // by name
	Limits     ReviewerLimits `json:"limits,omitzero"`
	// Refused is how many responses and requests this engine has refused since it started,
	// because of Limits.
	Refused int `json:"refused,omitzero"`
	// Others counts people and groups beyond the number that is counted separately.
	Others int `json:"others,omitzero"`
}

// ReviewerLimits limit what one reviewer may do and get; zero means no limit. What is over
// a limit is refused with CodeOverLimit and changes nothing.
type ReviewerLimits struct {
	// PerMinute is how many responses of one reviewer, of any kind, are accepted within
	// sixty seconds.
	PerMinute int `json:"per_minute,omitzero"`
	// PerHour is the same for sixty minutes.
	PerHour int `json:"per_hour,omitzero"`
	// MaxOpen is how many open approval requests may wait for one reviewer by name. Beyond
	// it no request is delegated to them, and a proposed call is refused if its approval
	// request could be answered only by people at this limit.
	MaxOpen int `json:"max_open,omitzero"`
}

// Validate refuses negative limits.
func (l ReviewerLimits) Validate() error {
	if l.PerMinute < 0 || l.PerHour < 0 || l.MaxOpen < 0 {
		return &message.Error{Code: message.CodeInvalid, Op: "limit reviewers", What: "a limit of reviewers is negative", Hint: "use a positive number, or 0 for no limit"}
	}
	return nil
}

// ReviewerLoad is the load of one person or group.
type ReviewerLoad struct {
	Name string `json:"name"`
	// Open counts approval requests that name the person or group, or were delegated to the
	// person, and wait for their response.
	Open int `json:"open"`
	// Answered counts approvals, rejections and results given for a tool, in total and by
	// kind. A group's are those of its members to approval requests that ask the group.
	Answered  int `json:"answered"`
	Approved  int `json:"approved"`
	Rejected  int `json:"rejected"`
	Responded int `json:"responded"`
	Passed    int `json:"passed"` // skipped or delegated; not included in Answered
	// MedianMS is the median time from the approval request to the response, to within 5%.
	MedianMS int64 `json:"median_ms"`
	// TotalMS is the sum of those times.
	TotalMS int64 `json:"total_ms"`
	// Within2S counts the responses within two seconds, which is too fast to have read.
	Within2S int `json:"within_2s"`
	// LastMinute and LastHour are how many responses of any kind came within the last sixty
	// seconds or sixty minutes before At, independent of the window; 0 for groups.
	LastMinute int `json:"last_minute"`
	LastHour   int `json:"last_hour,omitzero"`
}

// ApproveRate is the share of approvals among the responses, from 0 to 1, or 0 if there are
// none.
func (r ReviewerLoad) ApproveRate() float64 { return shareOf(r.Approved, r.Answered) }

// FastShare is the share of responses that came within two seconds.
func (r ReviewerLoad) FastShare() float64 { return shareOf(r.Within2S, r.Answered) }

func shareOf(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// Replay reads the event records of one call, oldest first, checks every step against the
// table and returns the call's state. It proves that a history is one that the machine
// could have written: steps that the table lacks, gaps, a changed identity, a change of a
// finished call, a dispatch without an allow, and an approval without all required approvers
// are errors. A note changes nothing.
func Replay(records []*EventRecord) (*Call, error) {
	var cur *Call
	for i, rec := range records {
		if rec.Call == nil {
			return nil, fmt.Errorf("event record %d is not about a call", i)
		}
		if rec.Note != nil {
			if cur == nil {
				return nil, fmt.Errorf("event record %d is a note before the call was proposed", i)
			}
			continue
		}
		if err := checkNext(cur, rec); err != nil {
			return nil, fmt.Errorf("event record %d (%s) of %s: %w", i, rec.Kind(), rec.Call.Key, err)
		}
		cur = rec.Call
	}
	return cur, nil
}

// checkNext checks that rec is a possible next event record after cur.
func checkNext(cur *Call, rec *EventRecord) error {
	c, state, count := rec.Call, none, 0
	if cur != nil {
		state, count = cur.State, cur.Records
		if cur.Key != c.Key || cur.Tool != c.Tool || cur.Proposal != c.Proposal && !isRedacted(cur) && !isRedacted(c) || cur.Runtime != c.Runtime {
			return errors.New("the call's identity changed")
		}
	}
	if len(rec.Path) == 0 {
		return errors.New("no step was taken")
	}
	for _, s := range rec.Path {
		to, ok := nextState(state, Cause(s.Cause))
		if !ok || s.From != state || s.To != to {
			return fmt.Errorf("the table has no step %q from %q to %q", s.Cause, s.From, s.To)
		}
		if Cause(s.Cause) == CauseApprove && !c.Tally().Agreed {
			return errors.New("the call was approved without all required approvers")
		}
		state = to
	}
	if state != c.State {
		return fmt.Errorf("the steps lead to %q, but the event record has %q", state, c.State)
	}
	if c.Records != count+1 {
		return fmt.Errorf("it is number %d of the call's event records, want number %d", c.Records, count+1)
	}
	return nil
}

// isRedacted reports whether the proposal's digest was removed by redaction.
func isRedacted(c *Call) bool { return c.Proposal == "" && c.Hides() }
