package toolcall

import (
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
