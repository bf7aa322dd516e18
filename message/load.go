package message

import "time"

// LoadRequest asks what reviewers have to do, and what they have done.
type LoadRequest struct {
	V int `json:"v,omitzero"`
}

// LoadReply is the load of the space's reviewers, as one engine's copy of the
// journal has it. It counts from the beginning of the journal.
type LoadReply struct {
	At         time.Time      `json:"at"`
	Open       int            `json:"open"`       // open questions
	Unassigned int            `json:"unassigned"` // of those: any approver may answer
	People     []ReviewerLoad `json:"people"`     // by name
	Groups     []ReviewerLoad `json:"groups"`     // by name
	Limits     ReviewerLimits `json:"limits,omitzero"`
	// Refused are the answers that this engine has refused since it started,
	// because of Limits.
	Refused int `json:"refused,omitzero"`
	// Others counts people and groups beyond the number that is kept apart.
	Others int `json:"others,omitzero"`
}

// ReviewerLimits bound what one reviewer does; zero: no limit.
type ReviewerLimits struct {
	// PerMinute is how many answers of one reviewer are taken within sixty
	// seconds.
	PerMinute int `json:"per_minute,omitzero"`
	// MaxOpen is how many open questions may be assigned to one reviewer: no
	// further one is handed over to them.
	MaxOpen int `json:"max_open,omitzero"`
}

// ReviewerLoad is that of one person or group.
type ReviewerLoad struct {
	Name string `json:"name"`
	// Open questions that name the person or group, or were handed over to the
	// person, and wait for their word.
	Open int `json:"open"`
	// Answered counts approvals, rejections and results given for a tool, in all
	// and by kind. A group's are those of its members, to questions that ask it.
	Answered int `json:"answered"`
	Approved int `json:"approved"`
	Rejected int `json:"rejected"`
	ForTool  int `json:"answered_for_tool"`
	Passed   int `json:"passed"` // left to others or handed over; not among Answered
	// MedianMS is the median time from the question to the answer, to within 5 %.
	MedianMS int64 `json:"median_ms"`
	// TotalMS is the sum of those times.
	TotalMS int64 `json:"total_ms"`
	// Within2S of the answers came within two seconds: too soon to have read.
	Within2S int `json:"within_2s"`
	// LastMinute is how many answers of whatever kind came within sixty seconds;
	// 0 for groups.
	LastMinute int `json:"last_minute"`
}

// ApproveRate is the share of approvals among the answers, from 0 to 1; 0 if
// there are none.
func (r ReviewerLoad) ApproveRate() float64 { return share(r.Approved, r.Answered) }

// FastShare is the share of answers that came within two seconds.
func (r ReviewerLoad) FastShare() float64 { return share(r.Within2S, r.Answered) }

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
