package audit

import (
	"slices"
	"time"
)

// Filter selects records. What is empty selects all. Events have a session, a
// reply and a time only: any other condition leaves them out.
type Filter struct {
	Session  string    `json:"session_id,omitzero"`
	Reply    string    `json:"reply_id,omitzero"`
	Call     string    `json:"tool_call_id,omitzero"`
	Tool     string    `json:"tool_name,omitzero"`
	Approver string    `json:"approver,omitzero"` // has voted on the call by then
	States   []string  `json:"states,omitzero"`
	Causes   []string  `json:"causes,omitzero"` // of a step that the fact took
	Since    time.Time `json:"since,omitzero"`  // when it was stored, this instant included
	Until    time.Time `json:"until,omitzero"`  // this instant excluded
	NoEvents bool      `json:"no_events,omitzero"`
}

// all reports whether nothing is left out.
func (f *Filter) all() bool {
	return f.Session == "" && f.Reply == "" && f.Since.IsZero() && f.Until.IsZero() && !f.NoEvents && !f.facts()
}

// facts reports whether there is a condition that only facts can meet.
func (f *Filter) facts() bool {
	return f.Call != "" || f.Tool != "" || f.Approver != "" || len(f.States) > 0 || len(f.Causes) > 0
}

// match reports whether the row is selected.
func (f *Filter) match(row *Row) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	switch {
	case row.Kind == "event" && (f.NoEvents || f.facts()):
		return false
	case !is(f.Session, row.Session), !is(f.Reply, row.Reply), !is(f.Call, row.Call), !is(f.Tool, row.Tool):
		return false
	case f.Approver != "" && !slices.Contains(row.approvers, f.Approver):
		return false
	case len(f.States) > 0 && !slices.Contains(f.States, row.State):
		return false
	case len(f.Causes) > 0 && !slices.ContainsFunc(row.Causes, func(c string) bool { return slices.Contains(f.Causes, c) }):
		return false
	case !f.Since.IsZero() && row.StoredAt.Before(f.Since), !f.Until.IsZero() && !row.StoredAt.Before(f.Until):
		return false
	}
	return true
}
