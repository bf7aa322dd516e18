package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func newListCommand(env *environment) *cobra.Command {
	var r toolcall.ListRequest
	var states, phases []string
	var blocked bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List open calls and what each one waits for",
		Long: `Lists the open calls of a space in the order in which they were proposed. The phase
says where a call is: waiting (for earlier calls of its reply), asking (for approval),
ready, queued (for a worker), running, retrying, blocked (needs an operator) or
finished. With --json each call also has its state, which is AgentScope's coarser word.`,
		Example: `  askance list                       # all open calls
  askance list --phase asking        # open approval requests
  askance list --phase blocked       # calls that an operator must resolve
  askance list --all --session ticket-7 --json`,
		Args: noArgs,
		PreRunE: func(*cobra.Command, []string) error {
			for _, s := range states {
				if r.States = append(r.States, message.ToolCallState(s)); !message.ToolCallState(s).Valid() {
					return usagef("--state %q: use pending, asking, allowed, submitted or finished", s)
				}
			}
			if blocked {
				phases = append(phases, string(toolcall.PhaseBlocked))
			}
			for _, p := range phases {
				if r.Phases = append(r.Phases, toolcall.Phase(p)); !slices.Contains(toolcall.Phases(), toolcall.Phase(p)) {
					return usagef("--phase %q: use %s", p, strings.Join(phaseWords(), ", "))
				}
			}
			return nil
		},
		RunE: operation[toolcall.ListRequest, toolcall.ListReply]{role: toolcall.RoleAuditor, call: listAll, request: always(&r), text: callsTable}.run(env),
	}
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringSliceVar(&phases, "phase", nil, "only calls in these phases: "+strings.Join(phaseWords(), ", "))
	f.StringSliceVar(&states, "state", nil, "only calls in these states: pending, asking, allowed, submitted, finished")
	f.BoolVar(&blocked, "blocked", false, "the same as --phase blocked")
	f.StringVar((*string)(&r.Session), "session", "", "only calls of this session")
	f.StringVar((*string)(&r.Reply), "reply", "", "only calls of this reply")
	f.StringVar(&r.Tool, "tool", "", "only calls of this tool")
	f.BoolVar(&r.All, "all", false, "finished calls, too")
	_ = c.RegisterFlagCompletionFunc("phase", cobra.FixedCompletions(phaseWords(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func phaseWords() []string {
	var out []string
	for _, p := range toolcall.Phases() {
		out = append(out, string(p))
	}
	return out
}

// listAll reads all pages. It adds what each open approval request waits for.
func listAll(ctx context.Context, c api.Caller, r toolcall.ListRequest) (toolcall.ListReply, error) {
	calls, err := engine.ListAll(ctx, api.Methods{Caller: c}, r, 0)
	out := toolcall.ListReply{Calls: calls}
	for _, c := range calls {
		if w, open := c.Waiting(); open {
			out.Waiting = append(out.Waiting, w)
		}
	}
	return out, err
}

func callsTable(out *term.Out, r toolcall.ListRequest, reply toolcall.ListReply) string {
	switch {
	case len(reply.Calls) > 0:
	case r.All:
		return "No calls.\n"
	default:
		return "No open calls.\n"
	}
	var rows [][]string
	for _, c := range reply.Calls {
		rows = append(rows, []string{
			phasePaint(out, c)(string(c.Phase())),
			out.Name(term.Clip(term.SafeLine(string(c.Call)), 24)),
			term.Clip(term.SafeLine(c.Tool), 24),
			term.Clip(term.SafeLine(placeOf(c)), 40),
			age(time.Since(c.ProposedAt)),
			term.Clip(waitsFor(c), 60),
		})
	}
	return tableText(out, []string{"PHASE", "CALL", "TOOL", "SESSION/REPLY", "AGE", "WHAT"}, rows)
}

// placeOf is the reply of a call, and the call within which it was made.
func placeOf(c *toolcall.Call) string {
	text := string(c.Session) + "/" + string(c.Reply)
	if c.Parent != nil {
		text += " in " + string(c.Parent.Call)
	}
	return text
}

func phasePaint(out *term.Out, c *toolcall.Call) func(string) string {
	switch c.Phase() {
	case toolcall.PhaseAsking, toolcall.PhaseBlocked:
		return out.Ask
	case toolcall.PhaseWaiting, toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying:
		return out.Work
	case toolcall.PhaseFinished:
		if c.Result != nil && c.Result.State == message.ToolResultSuccess {
			return out.Good
		}
	}
	return out.Bad
}

// summaryOf is one line of what a call would run.
func summaryOf(c *toolcall.Call) string {
	if c.Request != nil {
		return term.SafeLine(c.Request.Text)
	}
	return term.SafeLine(c.Input)
}

// waitsFor describes in a few words what a call waits for or how it ended.
func waitsFor(c *toolcall.Call) string {
	switch c.Phase() {
	case toolcall.PhaseFinished:
		if c.Result != nil {
			return fmt.Sprintf("%s (%s)", c.Result.State, c.Cause)
		}
		return c.Cause
	case toolcall.PhaseBlocked:
		return story.BlockedDetail(c)
	case toolcall.PhaseAsking:
		if c.Request != nil {
			return votesSoFar(c) + term.SafeLine(c.Request.Text)
		}
		return "an approver"
	case toolcall.PhaseWaiting:
		if c.Behind != "" {
			return "waiting for the approval of " + term.SafeLine(string(c.Behind))
		}
		return "waiting for earlier calls of its reply"
	case toolcall.PhaseRetrying:
		text := "retry at " + c.RetryAt.Local().Format(time.TimeOnly)
		if why := c.ReturnText(); why != "" {
			text += ", " + term.SafeLine(why)
		}
		return text
	case toolcall.PhaseRunning:
		return "running on " + term.SafeLine(c.Attempt.Worker)
	case toolcall.PhaseQueued:
		if c.Placement == toolcall.PlaceExternal {
			return "waiting for an external result"
		}
		return "waiting for a worker"
	default:
		return "waiting for an engine that has the tool"
	}
}

func age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// waitingRows are the rows of an open approval request: who must agree, who cannot,
// and what happens at which time.
func waitingRows(out *term.Out, c *toolcall.Call, row func(label, text string)) {
	w, open := c.Waiting()
	if !open {
		return
	}
	r := c.Request.Requirement
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
		text := moment(w.NextStep) + ": " + people(w.NextUsers, w.NextGroups) + " can respond, too"
		if w.NextOnly {
			text = moment(w.NextStep) + ": only " + people(w.NextUsers, w.NextGroups) + " can respond"
		}
		row("escalates", text)
	}
	if !w.Ends.IsZero() {
		row("until", moment(w.Ends)+", then the call is denied")
	}
}

func partText(out *term.Out, p toolcall.Part, t toolcall.Tally) string {
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

// stillAsksText says why a call still waits for approval after a response.
func stillAsksText(c *toolcall.Call) string {
	if n := len(c.Votes); n > 0 && c.Votes[n-1].On(c.Digest) && !c.Votes[n-1].Edited {
		return votesSoFar(c) + "waiting for other approvers, digest " + c.Digest
	}
	return "needs another approval (" + term.SafeLine(c.Decision.Reason) + "), " + votesSoFar(c) + "digest " + c.Digest
}
