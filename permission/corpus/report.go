package corpus

import (
	"context"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/suite"
)

// Report is what a comparison found.
type Report struct {
	// Before and After are the content hashes of the policies; Before is empty
	// where calls were compared with what was recorded.
	Before string `json:"before,omitzero"`
	After  string `json:"after"`
	Calls  int    `json:"calls"`
	// Unknown counts the calls without a recorded verdict.
	Unknown int `json:"unknown"`
	// OtherRule counts the calls with the same verdict by another rule.
	OtherRule int `json:"other_rule"`
	// Looser and Tighter count the changes by their direction.
	Looser  int       `json:"looser"`
	Tighter int       `json:"tighter"`
	Changes []*Change `json:"changes"`
}

// Change is a call whose verdict changes.
type Change struct {
	Name   string  `json:"name"`
	Tool   string  `json:"tool"`
	Args   string  `json:"args"`
	Before Verdict `json:"before"`
	After  Verdict `json:"after"`
	// Looser is true where the new verdict lets more through than the old one.
	Looser bool `json:"looser"`
	// Why says in a line each how the new verdict comes about.
	Why []string `json:"why"`
}

// Replay holds a candidate against what was recorded.
func Replay(ctx context.Context, calls []Call, candidate *permission.Bundle) *Report {
	r := &Report{After: candidate.Hash(), Changes: []*Change{}}
	for _, c := range calls {
		r.Calls++
		if c.Recorded == nil {
			r.Unknown++
			continue
		}
		r.compare(ctx, c, *c.Recorded, candidate)
	}
	return r
}

// Diff holds two policies against each other.
func Diff(ctx context.Context, calls []Call, before, after *permission.Bundle) *Report {
	r := &Report{Before: before.Hash(), After: after.Hash(), Changes: []*Change{}}
	for _, c := range calls {
		r.Calls++
		r.compare(ctx, c, verdict(before.Decide(ctx, c.Request)), after)
	}
	return r
}

func verdict(d permission.Decision) Verdict {
	return Verdict{Behavior: d.Behavior, Rule: d.Rule, Bundle: d.Bundle}
}

func (r *Report) compare(ctx context.Context, c Call, before Verdict, candidate *permission.Bundle) {
	after := verdict(candidate.Decide(ctx, c.Request))
	switch {
	case before.Behavior == after.Behavior && before.Rule == after.Rule:
		return
	case before.Behavior == after.Behavior:
		r.OtherRule++
		return
	}
	change := &Change{Name: c.Name, Tool: c.Request.Tool, Args: string(c.Request.Input), Before: before, After: after,
		Looser: strictness[after.Behavior] < strictness[before.Behavior]}
	if change.Looser {
		r.Looser++
	} else {
		r.Tighter++
	}
	x := candidate.Explain(ctx, c.Request)
	change.Why = append(change.Why, x.Reason)
	for _, t := range x.Trace {
		if t.Rule == before.Rule && t.Rule != after.Rule {
			change.Why = append(change.Why, suite.RuleText(t))
		}
	}
	r.Changes = append(r.Changes, change)
}

// strictness orders behaviors; an unknown one is the strictest.
var strictness = map[message.Behavior]int{message.BehaviorAllow: -3, message.BehaviorAsk: -2, message.BehaviorDeny: -1}
