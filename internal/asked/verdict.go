package asked

import (
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Verdict says in a few words who resolved an approval request, and how, as it comes from
// people: not revealed. by is who moved
// the call last, or "" if that is not known.
func Verdict(c *message.Call, by string) string {
	v, voted := LastVote(c)
	if !voted || !decides(c, v) {
		switch toolcall.Cause(c.Cause) {
		case toolcall.Expire:
			return "expired: no decision in time"
		case toolcall.Interrupt:
			return "interrupted" + from(by)
		}
	}
	if !voted {
		return "no longer open: the call is " + string(c.State)
	}
	if toolcall.Cause(c.Cause) == toolcall.Deny {
		return "denied by the policy after a response" + from(Who(v.By))
	}
	text := Said(v) + from(Who(v.By))
	if v.Feedback != "" {
		text += ": " + v.Feedback
	}
	return text
}

// decides reports whether the call's last vote ended its approval request.
func decides(c *message.Call, v message.Vote) bool {
	return v.Kind == message.ResponseReject || v.Kind == message.ResponseRespond || c.Tally().Agreed
}

// Said is what a vote did, as a participle.
func Said(v message.Vote) string {
	switch v.Kind {
	case message.ResponseApprove:
		if v.Edited {
			return "edited and approved"
		}
		return "approved"
	case message.ResponseReject:
		return "rejected"
	case message.ResponseRespond:
		return "responded with a result"
	case message.ResponseSkip:
		return "skipped"
	case message.ResponseDelegate:
		return "delegated to " + v.To
	}
	return string(v.Kind)
}

func from(name string) string {
	if name == "" {
		return ""
	}
	return " by " + name
}

// LastVote is the last word on a call.
func LastVote(c *message.Call) (message.Vote, bool) {
	if len(c.Votes) == 0 {
		return message.Vote{}, false
	}
	return c.Votes[len(c.Votes)-1], true
}

// LastOn is the last word on the approval request that is open.
func LastOn(c *message.Call) (message.Vote, bool) {
	v, ok := LastVote(c)
	return v, ok && v.On(c.Digest)
}
