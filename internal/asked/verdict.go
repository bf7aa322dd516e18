package asked

import (
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Verdict says in a few words who resolved an approval request, and how. It is not revealed.
// by is who last changed the call, or "" if that is unknown.
func Verdict(c *toolcall.Call, by string) string {
	v, voted := LastVote(c)
	if _, ended := toolcall.EndingVote(c); !ended {
		switch toolcall.Cause(c.Cause) {
		case toolcall.CauseExpire:
			return "expired: no decision in time"
		case toolcall.CauseInterrupt:
			return "interrupted" + from(by)
		case toolcall.CauseBypass:
			return "no longer open: the agent ran the call without a decision"
		}
	}
	if !voted {
		return "no longer open: the call is " + string(c.Phase())
	}
	if toolcall.Cause(c.Cause) == toolcall.CauseDeny {
		return "denied by the policy after a response" + from(Who(v.By))
	}
	text := Said(v) + from(deciders(c, v))
	if v.Feedback != "" {
		text += ": " + v.Feedback
	}
	return text
}

// deciders names the people whose responses ended the approval request.
func deciders(c *toolcall.Call, last toolcall.Vote) string {
	t := c.Tally()
	if last.Kind != toolcall.ResponseApprove || !t.Agreed || len(t.Approvals) < 2 {
		return Who(last.By)
	}
	var all []string
	for _, v := range t.Approvals {
		all = append(all, Who(v.By))
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// Said is what a vote did, as a participle.
func Said(v toolcall.Vote) string {
	switch v.Kind {
	case toolcall.ResponseApprove:
		if v.Edited {
			return "edited and approved"
		}
		return "approved"
	case toolcall.ResponseReject:
		return "rejected"
	case toolcall.ResponseRespond:
		return "responded with a result"
	case toolcall.ResponseSkip:
		return "skipped"
	case toolcall.ResponseDelegate:
		return "delegated to " + v.To
	}
	return string(v.Kind)
}

// Uncounted adds to a vote why it does not count, or nothing if it does. It is not revealed.
func Uncounted(v toolcall.Vote) string {
	if v.Void == "" {
		return ""
	}
	return ", which does not count: " + v.Void
}

func from(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}

// LastVote returns the last vote on a call.
func LastVote(c *toolcall.Call) (toolcall.Vote, bool) {
	if len(c.Votes) == 0 {
		return toolcall.Vote{}, false
	}
	return c.Votes[len(c.Votes)-1], true
}

// LastOn returns the last vote on the open approval request.
func LastOn(c *toolcall.Call) (toolcall.Vote, bool) {
	v, ok := LastVote(c)
	return v, ok && v.On(c.Digest)
}

// Who returns a principal's name with how it was established, such as "ann (HTTP token)". It
// is not revealed. Every text that names an approver uses it.
func Who(p toolcall.Principal) string {
	if p.Name == "" || p.Auth == "" {
		return p.Name
	}
	return p.Name + " (" + Authenticated(p.Auth) + ")"
}

// Actor is Who with the role. An engine cannot choose its name.
func Actor(p toolcall.Principal) string {
	if p.Role == toolcall.RoleEngine {
		return p.String()
	}
	return string(p.Role) + " " + Who(p)
}

// Approvers lists the people of a part whose approval counts, as returned by Who.
func Approvers(t toolcall.Tally, p toolcall.Part) []string {
	out := slices.Clone(p.Approved)
	for i, name := range out {
		for _, v := range t.Approvals {
			if v.By.Name == name {
				out[i] = Who(v.By)
			}
		}
	}
	return out
}

// Authenticated describes toolcall.Principal.Auth.
func Authenticated(auth string) string {
	if text, ok := logins[auth]; ok {
		return text
	}
	if issuer, ok := strings.CutPrefix(auth, "oidc:"); ok {
		return "OIDC, " + issuer
	}
	if uid, ok := strings.CutPrefix(auth, "unix-peer:"); ok {
		return "Unix socket, uid " + uid
	}
	return auth
}

var logins = map[string]string{
	"http-loopback": "loopback, not authenticated", "http-token": "HTTP token", "in-process": "in process",
	"nats-jwt": "NATS login", "nats-subject": "NATS, not authenticated",
}

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
	case r.Excludes(who):
		return No
	case r.NeedsGroups():
		return Perhaps
	}
	return No
}

// Obstacle says why the engine would refuse a person's response to a call, or "" if it would
// not, as far as can be told without the person's groups. An edit has an input.
func Obstacle(c *toolcall.Call, who string, resp toolcall.Response) string {
	if c.State != message.ToolCallAsking || c.Request == nil {
		return "The call does not wait for approval."
	}
	if MayRespond(c, who) == No {
		return WhyNotAsked(c, who)
	}
	edits := resp.Input != nil
	v, voted := c.VoteOf(who)
	signsAgain := v.Signature != nil && v.Kind == resp.Kind && !edits // only the engine knows whether the signature still counts
	if voted && !signsAgain && !v.CanRevise(resp.Kind, edits, time.Now()) {
		return "You " + reveal.Line(Said(v)) + ": you can only " + revisions(v) + " this request now."
	}
	r := c.Request.Requirement
	switch {
	case resp.Kind == toolcall.ResponseApprove && !edits && r.ExcludeEditor && r.IsEditor(who):
		return "You edited these arguments and cannot approve them."
	case resp.Kind == toolcall.ResponseRespond && r.Signed:
		return "You cannot supply the result: this request needs a signed approval."
	case resp.Kind == toolcall.ResponseRespond && !approvesAlone(c, who):
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
	switch {
	case !r.Excludes(who):
	case r.Requester == "":
		return "You cannot respond: the rule excludes the requester, and who requested the call is unknown."
	case toolcall.IsSamePerson(r.Requester, who):
		return "You cannot respond: the call was requested on your behalf, and the rule excludes the requester."
	default:
		return "You cannot respond: a call around this one was requested on your behalf, and the rule excludes its requester, too."
	}
	var from []string
	for _, part := range c.Tally().Parts {
		from = append(from, People(part.Users, part.Groups))
	}
	return "You cannot respond: only " + strings.Join(from, " and ") + " can."
}
