package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// This file says in words what an open question waits for.

func waitingOf(calls []*message.Call) []message.Waiting {
	var out []message.Waiting
	for _, c := range calls {
		if w, open := c.Waiting(); open {
			out = append(out, w)
		}
	}
	return out
}

// waitingRows are the rows of an open question: who must agree, who may not,
// and what time does.
func waitingRows(out *term.Out, c *message.Call, row func(label, text string)) {
	w, open := c.Waiting()
	if !open {
		return
	}
	r := c.Question.Requirement
	for _, p := range w.Parts {
		if len(r.Users)+len(r.Approvers) > 0 || w.Quorum > 1 {
			row("must agree", partText(out, p, w.Tally))
		}
	}
	if r.ExcludeRequester {
		row("not", term.SafeLine("the requester "+r.Requester))
	}
	if r.ExcludeEditor && len(r.Editors) > 0 {
		row("not", term.SafeLine("approve: "+strings.Join(r.Editors, ", ")+" (edited the arguments)"))
	}
	if !w.NextStep.IsZero() {
		text := moment(w.NextStep) + ": " + people(w.NextUsers, w.NextGroups) + " may answer, too"
		if w.NextOnly {
			text = moment(w.NextStep) + ": only " + people(w.NextUsers, w.NextGroups) + " may answer"
		}
		row("escalates", text)
	}
	if !w.Ends.IsZero() {
		row("until", moment(w.Ends)+", then it is denied")
	}
}

// partText is one circle of people that has to agree.
func partText(out *term.Out, p message.Part, t message.Tally) string {
	text := fmt.Sprintf("%d of %s", t.Quorum, people(p.Users, p.Groups))
	if p.Rule != "" {
		text += " (rule " + term.SafeLine(p.Rule) + ")"
	}
	if len(p.Approved) > 0 {
		text += ": approved by " + term.SafeLine(strings.Join(asked.Approvers(t, p), ", "))
	}
	if p.Missing == 0 {
		return text + ", " + out.Good("enough")
	}
	return text + ", " + out.Ask(fmt.Sprintf("%d missing", p.Missing))
}

// people names users and groups; none are all approvers.
func people(users, groups []string) string {
	var out []string
	if len(users) > 0 {
		out = append(out, strings.Join(users, ", "))
	}
	for _, g := range groups {
		out = append(out, "group "+g)
	}
	if len(out) == 0 {
		return "all approvers"
	}
	return term.SafeLine(strings.Join(out, ", "))
}

func moment(t time.Time) string { return t.Local().Format(time.DateTime) }

// voteText is one answer, and whether it still counts.
func voteText(c *message.Call, v message.Vote) string {
	text := fmt.Sprintf("%s by %s, %s", v.Kind, term.SafeLine(asked.Actor(v.By)), moment(v.At))
	if v.Edited {
		text = "edit and " + text
	}
	if v.To != "" {
		text += ", to " + term.SafeLine(v.To)
	}
	if len(v.Groups) > 0 {
		text += ", of " + term.SafeLine(strings.Join(v.Groups, ", ")) + " (" + term.SafeLine(v.GroupsFrom) + ")"
	}
	if !v.On(c.Digest) && v.Kind == message.AnswerApprove {
		text += "; void: it was for other arguments"
	}
	return text
}

// votesSoFar is how far a question is that several must agree to.
func votesSoFar(c *message.Call) string {
	w, open := c.Waiting()
	if !open || w.Quorum == 1 && len(w.Parts) == 1 {
		return ""
	}
	missing := 0
	for _, p := range w.Parts {
		missing += p.Missing
	}
	return fmt.Sprintf("[%d approved, %d missing] ", len(w.Approvals), missing)
}

// stillAsksText says why a call asks after an answer.
func stillAsksText(c *message.Call) string {
	if n := len(c.Votes); n > 0 && c.Votes[n-1].On(c.Digest) && !c.Votes[n-1].Edited {
		return votesSoFar(c) + "it waits for others, digest " + c.Digest
	}
	return "it asks again (" + term.SafeLine(c.Decision.Reason) + "), " + votesSoFar(c) + "digest " + c.Digest
}
