package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func newShowCommand(env *environment) *cobra.Command {
	var ad address
	var why bool
	c := &cobra.Command{
		Use:   "show CALL",
		Short: "Show a call: arguments, decision, digest and history",
		Long: `Shows a call with its decision and its history. If standing approvals allowed the
call, it shows who granted them, what remains of them and when they end. --explain
adds how the current policy decides the call, rule by rule, as askance policy explain
does. If a rule records explanations (audit: {level: full}), it also prints how the
call was decided at the time.`,
		Example: `  askance show call_42
  askance show call_42 --explain
  askance show ticket-7/reply-1/call_42 --json`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(),
		RunE: func(c *cobra.Command, _ []string) error {
			return env.withCall(c.Context(), toolcall.RoleAuditor, &ad, func(l *link, call *toolcall.Call) error {
				r, err := l.Show(c.Context(), toolcall.ShowRequest{V: 1, Key: call.Key})
				if err != nil {
					return err
				}
				if w, open := r.Call.Waiting(time.Now()); open {
					r.Waiting = &w
				}
				x, err := explainCall(c.Context(), l, r.Call, why)
				if err != nil {
					return err
				}
				text := callText(env.out, r.Call) + editsText(c.Context(), env.out, l, r.Call)
				switch {
				case why:
					more, err := explain.Reply(env.out, *x)
					if err != nil {
						return err
					}
					text += historyText(env.out, r.History) + more
				case x != nil:
					text += explain.StandingApprovals(env.out, *x) + historyText(env.out, r.History)
				default:
					text += historyText(env.out, r.History)
				}
				return env.print(shown{r, x}, text)
			})
		},
	}
	env.cfg.bindClient(c)
	ad.flags(env, c)
	c.Flags().BoolVar(&why, "explain", false, "explain with the current policy, rule by rule")
	return c
}

// callText is a call in full: everything that a person needs to decide about it.
func callText(out *term.Out, c *toolcall.Call) string {
	s := newSheet(out, 10, fmt.Sprintf("%s %s, %s", out.Name(term.SafeName(string(c.Call))), out.Bold(term.SafeLine(c.Tool)), phasePaint(out, c)(string(c.Phase()))))
	row := s.row
	row("address", term.SafeName(keyPath(c.Key)))
	row("from", asked.Origin(c))
	row("definition", asked.Definition(c))
	row("input", strings.TrimLeft(term.Indent(asked.Laid(c.Input), strings.Repeat(" ", 13)), " "))
	if req := c.Request; req != nil && c.State == message.ToolCallAsking {
		s.lines("request", req.Text, out.Ask)
		row("digest", c.Digest)
		waitingRows(out, c, row)
		if l := req.Requirement.Remember; l != nil {
			row("remember", asked.Limits(l))
		}
	}
	if d := c.Decision; d != nil {
		row("decision", fmt.Sprintf("%s: %s", d.Behavior, term.SafeLine(d.Reason)))
		row("source", term.SafeLine(asked.Source(d.Source)))
		row("policy", d.Bundle)
		row("runs", runsText(d))
		for _, e := range d.Errors {
			row("rule error", out.Bad(term.SafeLine(e)))
		}
	}
	for _, v := range c.Votes {
		row("response", voteText(c, v))
		s.lines("feedback", v.Feedback, nil)
		s.lines("note", v.Note, nil)
	}
	for _, sa := range c.StandingApprovals {
		row("remembered", term.SafeLine(string(sa.ID))+": "+asked.Allows(&sa)+", "+term.SafeLine(sa.Text()))
	}
	for _, r := range c.Suggested {
		row("suggested", asked.RuleText(r))
	}
	if at := c.Attempt; at.Number > 0 {
		row("attempt", attemptText(c))
	}
	row("returned", term.SafeLine(c.ReturnText()))
	row("blocked", story.BlockedDetail(c))
	if c.Result != nil {
		row("result", string(c.Result.State))
		row("output", strings.TrimLeft(term.Indent(term.Safe(asked.Output(c.Result.Output)), strings.Repeat(" ", 13)), " "))
	}
	return s.String()
}

// editsText shows what people changed in the arguments that the agent proposed, as far as its
// events can be read.
func editsText(ctx context.Context, out *term.Out, c engine.Client, call *toolcall.Call) string {
	if !slices.ContainsFunc(call.Votes, func(v toolcall.Vote) bool { return v.Edited }) {
		return ""
	}
	proposed, err := replay.Proposed(ctx, c, call)
	lines := asked.Changes(proposed, call.Input)
	if err != nil || proposed == "" || len(lines) == 0 {
		return ""
	}
	return out.Dim("  edited") + "\n" + term.Indent(diffText(out, lines), "    ") + "\n"
}

func runsText(d *toolcall.Decision) string {
	var parts []string
	if d.Route != "" {
		parts = append(parts, "on "+term.SafeLine(d.Route))
	}
	if d.TimeoutMS > 0 {
		parts = append(parts, "for at most "+asked.Span(time.Duration(d.TimeoutMS)*time.Millisecond))
	}
	return strings.Join(parts, ", ")
}

func attemptText(c *toolcall.Call) string {
	at := c.Attempt
	text := fmt.Sprintf("%d, %s", at.Number, c.Placement)
	switch {
	case at.Worker != "":
		text += ", started by " + term.SafeLine(at.Worker) + " at " + at.StartedAt.Local().Format(time.DateTime)
	case !at.OfferedAt.IsZero():
		text += ", offered at " + at.OfferedAt.Local().Format(time.DateTime)
	}
	if at.Grant != nil {
		text += ", grant signed by key " + at.Grant.KeyID
	}
	return text
}

func historyText(out *term.Out, entries []toolcall.HistoryEntry) string {
	var b strings.Builder
	b.WriteString(out.Dim("  history") + "\n")
	day := ""
	for _, e := range entries {
		if d := e.At.Local().Format(time.DateOnly); d != day {
			day = d
			b.WriteString("    " + out.Dim(day) + "\n")
		}
		var causes []string
		for _, s := range e.Path {
			causes = append(causes, s.Cause)
		}
		what := strings.Join(causes, ", ")
		if e.Note != nil {
			what = e.Note.What
		}
		if e.Worker != "" && slices.Contains(causes, "start") {
			what += " at " + term.SafeLine(e.Worker)
		}
		by, gap := term.SafeLine(asked.Actor(e.By)), " "
		if out.Terminal() && 25+max(32, ansi.StringWidth(what))+1+ansi.StringWidth(by) > out.Width() {
			gap = "\n" + strings.Repeat(" ", 17)
		}
		fmt.Fprintf(&b, "    %s %6d  %-32s%s%s\n", out.Dim(e.At.Local().Format("15:04:05.000")), e.Seq, what, gap, out.Who(by))
	}
	return b.String()
}

type shown struct {
	toolcall.ShowReply
	Explain *toolcall.ExplainReply `json:"explain,omitzero"`
}

// explainCall asks for the explanation of a call, if why is set or if standing approvals
// allowed the call.
func explainCall(ctx context.Context, c engine.Client, call *toolcall.Call, why bool) (*toolcall.ExplainReply, error) {
	if !why && len(call.Decision.StandingApprovals()) == 0 {
		return nil, nil
	}
	x, err := c.Explain(ctx, toolcall.ExplainRequest{V: 1, Key: call.Key})
	if err != nil {
		return nil, err
	}
	if !why {
		x.Recorded, x.Trace, x.Withheld = nil, nil, ""
	}
	return &x, nil
}

// waitsFor describes in a few words what a call waits for or how it ended.
func waitsFor(c *toolcall.Call) string {
	switch c.Phase() {
	case toolcall.PhaseFinished:
		word, _ := asked.Ended(c)
		return strings.ToLower(word)
	case toolcall.PhaseBlocked:
		return story.BlockedDetail(c)
	case toolcall.PhaseAsking:
		if c.Request != nil {
			return votesSoFar(c) + term.SafeLine(strings.ReplaceAll(c.Request.Text, "\n", " / "))
		}
		return "an approver"
	case toolcall.PhaseWaiting:
		if c.Behind != "" {
			return "waiting for the approval of " + term.SafeName(string(c.Behind))
		}
		return "waiting for earlier calls of its reply"
	case toolcall.PhaseRetrying:
		text := "retry at " + c.RetryAt.Local().Format(time.TimeOnly)
		if why := c.ReturnText(); why != "" {
			text += ", " + term.SafeLine(why)
		}
		return text
	case toolcall.PhaseRunning:
		return "on " + term.SafeName(c.Attempt.Worker)
	case toolcall.PhaseQueued:
		if c.Placement == toolcall.PlaceExternal {
			return "waiting for an external result"
		}
		return "waiting for a worker"
	default:
		return "waiting for an engine that has the tool"
	}
}

// waitingRows adds the rows of an open approval request: who must agree, who cannot,
// and what happens when.
func waitingRows(out *term.Out, c *toolcall.Call, row func(label, text string)) {
	w, open := c.Waiting(time.Now())
	if !open {
		return
	}
	r := c.Request.Requirement
	for _, p := range w.Parts {
		if len(r.Users)+len(r.Approvers) > 0 || p.Quorum > 1 {
			row("must agree", partText(out, p, w.Tally))
		}
	}
	if r.ExcludeRequester {
		row("not", term.SafeLine("the requester "+r.Requester))
	}
	if len(r.RequestersAround) > 0 {
		row("not", term.SafeLine(strings.Join(r.RequestersAround, ", ")+" (requested a call around this one)"))
	}
	if r.ExcludeEditor && len(r.Editors) > 0 {
		row("not", term.SafeLine("approve: "+strings.Join(r.Editors, ", ")+" (edited the arguments)"))
	}
	if !w.NextStep.IsZero() {
		text := moment(w.NextStep) + ": " + asked.People(w.NextUsers, w.NextGroups) + " can also respond"
		if w.NextOnly {
			text = moment(w.NextStep) + ": only " + asked.People(w.NextUsers, w.NextGroups) + " can respond"
		}
		row("escalates", text)
	}
	if !w.Ends.IsZero() {
		row("deadline", moment(w.Ends)+", then the call is denied")
	}
}

func partText(out *term.Out, p toolcall.Part, t toolcall.Tally) string {
	text := fmt.Sprintf("%d of %s", p.Quorum, asked.People(p.Users, p.Groups))
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

func moment(t time.Time) string { return t.Local().Format(time.DateTime) }

func voteText(c *toolcall.Call, v toolcall.Vote) string {
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
	if !v.On(c.Digest) && v.Kind == toolcall.ResponseApprove {
		text += "; void: the arguments changed"
	}
	return text
}

// votesSoFar counts the approvals of a request that needs several.
func votesSoFar(c *toolcall.Call) string {
	w, open := c.Waiting(time.Now())
	if !open || len(w.Parts) == 1 && w.Parts[0].Quorum == 1 {
		return ""
	}
	missing := 0
	for _, p := range w.Parts {
		missing += p.Missing
	}
	return fmt.Sprintf("[%d approved, %d missing] ", len(w.Approvals), missing)
}

// stillAsksText says why a call waits for approval, also after a response.
func stillAsksText(c *toolcall.Call) string {
	what, n := "needs approval (", len(c.Votes)
	switch {
	case n > 0 && c.Votes[n-1].On(c.Digest) && !c.Votes[n-1].Edited:
		delegated := ""
		if v := c.Votes[n-1]; v.Kind == toolcall.ResponseDelegate {
			delegated = term.SafeLine(asked.Said(v)) + ", "
		}
		return votesSoFar(c) + delegated + "waiting for other approvers, digest " + c.Digest
	case n > 0:
		what = "needs another approval ("
	}
	return what + term.SafeLine(c.Decision.Reason) + "), " + votesSoFar(c) + "digest " + c.Digest
}
