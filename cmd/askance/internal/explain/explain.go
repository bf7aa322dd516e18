// Package explain formats explanations for people: how the engine and a policy
// decided about a call. The command line and the terminal inbox print the same.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/permission/suite"
	"github.com/askance-dev/askance/toolcall"
)

// Reply formats an explanation of the engine: the standing approvals that allowed the
// call, how it was decided, and how the current policy decides it.
func Reply(out *term.Out, x toolcall.ExplainReply) (string, error) {
	text := StandingApprovals(out, x)
	if x.Recorded != nil {
		var more struct {
			Truncated bool `json:"truncated"`
		}
		e, err := readTrace(x.Recorded)
		if err == nil {
			err = strictjson.UnmarshalOpen(x.Recorded, &more)
		}
		if err != nil {
			return "", fmt.Errorf("read the recorded explanation: %w", err)
		}
		head := "explanation at the time of the decision:"
		if more.Truncated {
			head = "explanation at the time of the decision (shortened):"
		}
		text += "  " + out.Dim(head) + "\n" + Policy(out, e)
	}
	if x.Trace == nil {
		return text + "  " + out.Dim("no explanation:") + " " + term.SafeLine(x.Withheld) + "\n", nil
	}
	e, err := readTrace(x.Trace)
	if err != nil {
		return "", fmt.Errorf("read the explanation: %w", err)
	}
	head := "explanation with the current policy:"
	if x.Decision != nil && x.Decision.Bundle != e.Bundle {
		head = "explanation with the current policy, which is not the one that decided:"
	}
	return text + "  " + out.Dim(head) + "\n" + Policy(out, e), nil
}

// StandingApprovals names the standing approvals that allowed a call.
func StandingApprovals(out *term.Out, x toolcall.ExplainReply) string {
	var b strings.Builder
	for _, s := range x.StandingApprovals {
		sa := s.Standing
		fmt.Fprintf(&b, "  %s %s, %s, granted by %s, %s, until %s\n", out.Dim(fmt.Sprintf("%-10s", "rule used")), out.Name(term.SafeLine(string(sa.ID))),
			State(out, sa), asked.Grantors(sa), term.SafeLine(sa.Text()), End(sa))
	}
	return b.String()
}

// State says whether a standing approval is in force.
func State(out *term.Out, s *toolcall.StandingApproval) string {
	state := s.State(time.Now())
	if state == toolcall.StandingActive {
		return out.Good(string(state))
	}
	return out.Dim(string(state))
}

// End says when a standing approval ends.
func End(s *toolcall.StandingApproval) string {
	if s.Terms.Until.IsZero() {
		return "it is revoked"
	}
	return s.Terms.Until.Local().Format(time.DateTime)
}

// Policy formats an explanation of a policy: one line, and a tree of the rules.
func Policy(out *term.Out, e *permission.Explanation) string {
	var b strings.Builder
	by := "no rule decides"
	if e.Rule != "" {
		by = "by rule " + out.Name(term.SafeLine(e.Rule))
	}
	fmt.Fprintf(&b, "%s %s (mode %s)\n", Behavior(out, e.Decision), by, e.Mode)
	fmt.Fprintf(&b, "  %s\n", term.SafeLine(e.Reason))
	if e.Message != "" {
		for line := range strings.SplitSeq(e.Message, "\n") {
			fmt.Fprintf(&b, "  %s %s\n", out.Dim(">"), term.SafeLine(line))
		}
	}
	if need := requirementText(e); need != "" {
		fmt.Fprintf(&b, "  needs %s\n", need)
	}
	for _, r := range e.Suggested {
		fmt.Fprintf(&b, "  can be remembered: %s\n", asked.RuleText(r))
	}
	for i, t := range e.Trace {
		branch := "├─"
		if i == len(e.Trace)-1 {
			branch = "└─"
		}
		fmt.Fprintf(&b, "%s %s\n", out.Dim(branch), ruleLine(out, t))
	}
	if len(e.Shell) > 0 {
		fmt.Fprintf(&b, "%s in the command line:\n", asked.Count(len(e.Shell), "command"))
		for _, p := range e.Shell {
			fmt.Fprintf(&b, "  %s\n", pieceLine(out, p))
		}
	}
	if n := len(e.NotEvaluated); n > 0 {
		fmt.Fprintf(&b, "%s for other tools\n", asked.Count(n, "rule"))
	}
	for _, err := range e.Errors {
		if err.Rule != "" && err.Field == "input" {
			continue // the error about the call has the same text
		}
		text := err.Error()
		if err.Rule == "" && err.Field == "input" {
			text = err.Msg
		}
		fmt.Fprintf(&b, "%s %s\n", out.Bad("failed:"), term.SafeLine(text))
	}
	if e.NearMiss != "" {
		fmt.Fprintf(&b, "near miss: %s\n", term.SafeLine(e.NearMiss))
	}
	return b.String()
}

// Behavior paints a decision.
func Behavior(out *term.Out, b message.Behavior) string {
	switch b {
	case message.BehaviorAllow:
		return out.Good(string(b))
	case message.BehaviorAsk:
		return out.Ask(string(b))
	default:
		return out.Bad(string(b))
	}
}

// ruleLine formats a rule of the trace on one line, with its place.
func ruleLine(out *term.Out, t *permission.Traced) string {
	text := term.SafeLine(suite.RuleText(t))
	name := term.SafeLine(t.Rule)
	text = strings.Replace(text, "rule "+name, "rule "+out.Name(name), 1)
	if t.Because != nil && t.Because.Line > 0 {
		text += "  " + out.Dim(Place(permission.Place{File: t.Because.File, Line: t.Because.Line, Col: t.Because.Col}))
	}
	return text
}

func pieceLine(out *term.Out, p permission.Piece) string {
	verdict := out.Bad("not covered")
	if p.Covered {
		verdict = out.Good("covered")
	}
	text := verdict + "  " + term.SafeLine(p.Text)
	if p.Why != "" {
		text += "  " + out.Dim(term.SafeLine(p.Why))
	}
	return text
}

// Place says where a rule is in a file; "" if it is unknown.
func Place(p permission.Place) string {
	if p.File == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", term.SafeLine(p.File), p.Line, p.Col)
}

// requirementText says who can respond, and until when; "" if the call needs no approval.
func requirementText(e *permission.Explanation) string {
	if e.Decision != message.BehaviorAsk {
		return ""
	}
	r := e.Requirement
	text := "an approval"
	if r.Quorum > 1 {
		text = fmt.Sprintf("%d approvals", r.Quorum)
	}
	var parts, excluded []string
	if len(r.Users) > 0 {
		parts = append(parts, strings.Join(r.Users, " or "))
	}
	for _, set := range r.Approvers {
		names := slices.Clone(set.Users)
		for _, g := range set.Groups {
			names = append(names, "group "+g)
		}
		part := strings.Join(names, " or ")
		if set.Quorum > 0 {
			part = fmt.Sprintf("%d of %s", set.Quorum, part)
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 0:
	case 1:
		text += " by " + parts[0]
	default:
		text += " by each of: " + strings.Join(parts, "; ")
	}
	if r.Expiry > 0 {
		text += " within " + permission.FormatDuration(r.Expiry)
	}
	if r.ExcludeRequester {
		excluded = append(excluded, "the requester")
	}
	if r.ExcludeEditor {
		excluded = append(excluded, "a person who edits the arguments")
	}
	if len(excluded) > 0 {
		text += ", not by " + strings.Join(excluded, " or ")
	}
	return term.SafeLine(text)
}

// readTrace decodes the parts of an explanation that are printed.
func readTrace(raw message.RawJSON) (*permission.Explanation, error) {
	var e permission.Explanation
	var more struct {
		Requirement struct {
			ExpiryMS int64 `json:"expiry_ms"`
		} `json:"requirement"`
	}
	if err := strictjson.UnmarshalOpen(raw, &e); err != nil {
		return nil, err
	}
	if err := strictjson.UnmarshalOpen(raw, &more); err != nil {
		return nil, err
	}
	e.Requirement.Expiry = time.Duration(more.Requirement.ExpiryMS) * time.Millisecond
	return &e, nil
}
