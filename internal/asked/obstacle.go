package asked

import (
	"slices"
	"strings"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// May says whether a person can respond.
type May int

// A person can respond, cannot, or can if they are in one of the groups, which only the
// engine can check.
const (
	No May = iota
	Perhaps
	Yes
)

// MayRespond reports whether the engine would accept a response of the person.
func MayRespond(c *toolcall.Call, who string) May {
	if c.Request == nil {
		return No
	}
	r := c.Request.Requirement
	v := toolcall.Vote{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: who}, Step: c.Step}
	switch {
	case r.Accepts(v):
		return Yes
	case r.ExcludeRequester && (r.Requester == "" || r.Requester == who):
		return No
	case r.NeedsGroups():
		return Perhaps
	}
	return No
}

// Obstacle says why the engine would refuse a person's response to a call, or "" if it would
// not, as far as can be told without the person's groups. An edit has an input.
func Obstacle(c *toolcall.Call, who string, a toolcall.Response) string {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return "The call does not wait for approval."
	}
	if MayRespond(c, who) == No {
		return WhyNotAsked(c, who)
	}
	edits := a.Input != nil
	if v, voted := c.VoteOf(who); voted && !v.CanRevise(a.Kind, edits) {
		return "You " + reveal.Line(Said(v)) + ": you can only " + revisions(v) + " this request now."
	}
	r := c.Request.Requirement
	switch {
	case a.Kind == toolcall.ResponseApprove && !edits && r.ExcludeEditor && slices.Contains(r.Editors, who):
		return "You edited these arguments and cannot approve them."
	case a.Kind == toolcall.ResponseRespond && r.Signed:
		return "You cannot supply the result: this request needs a signed approval."
	case a.Kind == toolcall.ResponseRespond && !approvesAlone(c, who):
		return "You cannot supply the result: others must agree, too."
	}
	return ""
}

// revisions says what a person whose last vote is v can still send.
func revisions(v toolcall.Vote) string {
	if v.Kind == toolcall.ResponseApprove {
		return "edit, reject, delegate or skip"
	}
	return "reject"
}

// approvesAlone reports whether the person could approve alone, if in all required groups.
func approvesAlone(c *toolcall.Call, who string) bool {
	v := toolcall.Vote{By: toolcall.Principal{Role: toolcall.RoleApprover, Name: who}, Digest: c.Digest, Step: c.Step}
	for _, p := range c.Tally().Parts {
		v.Groups = append(v.Groups, p.Groups...)
	}
	return c.Request.Requirement.ApprovesAlone(v)
}

// WhyNotAsked says why a person cannot respond to an approval request at all.
func WhyNotAsked(c *toolcall.Call, who string) string {
	r := c.Request.Requirement
	if r.ExcludeRequester && (r.Requester == "" || r.Requester == who) {
		return "You cannot respond: the call was requested on your behalf, and the rule excludes the requester."
	}
	var from []string
	for _, part := range c.Tally().Parts {
		from = append(from, People(part.Users, part.Groups))
	}
	return "You cannot respond: only " + strings.Join(from, " and ") + " can."
}
