package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
)

func newListCommand(env *environment) *cobra.Command {
	var r message.ListRequest
	var states []string
	c := &cobra.Command{
		Use:   "list",
		Short: "List open calls, and what each waits for",
		Example: `  askance list                    # all that is open
  askance list --state asking     # open questions
  askance list --held             # calls that wait to be settled
  askance list --all --session ticket-7 --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, s := range states {
				state := message.ToolCallState(s)
				if !state.Valid() {
					return usagef("--state %q: use pending, asking, allowed, submitted or finished", s)
				}
				r.States = append(r.States, state)
			}
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			calls, err := engine.ListAll(c.Context(), l, r, 0)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(message.ListReply{Calls: calls, Waiting: waitingOf(calls)})
			}
			return printCalls(env, calls, r)
		},
	}
	env.at.flags(c)
	f := c.Flags()
	f.StringSliceVar(&states, "state", nil, "only calls in these states")
	f.StringVar((*string)(&r.Session), "session", "", "only calls of this session")
	f.StringVar((*string)(&r.Reply), "reply", "", "only calls of this reply")
	f.BoolVar(&r.Held, "held", false, "only calls that wait to be settled")
	f.BoolVar(&r.All, "all", false, "finished calls too")
	return c
}

func printCalls(env *environment, calls []*message.Call, r message.ListRequest) error {
	if len(calls) == 0 {
		what := "No open calls"
		if r.All {
			what = "No calls"
		}
		return env.printf("%s.\n", what)
	}
	t := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(2) }).
		Headers(env.out.Dim("STATE"), env.out.Dim("CALL"), env.out.Dim("TOOL"), env.out.Dim("SESSION/REPLY"), env.out.Dim("AGE"), env.out.Dim("WHAT"))
	for _, c := range calls {
		t.Row(
			statePaint(env.out, c)(string(c.State)),
			env.out.Name(term.Clip(term.SafeLine(string(c.Call)), 24)),
			term.Clip(term.SafeLine(c.Tool), 24),
			term.Clip(term.SafeLine(string(c.Session)+"/"+string(c.Reply)), 40),
			age(time.Since(c.ProposedAt)),
			term.Clip(waitsFor(c), 60),
		)
	}
	for line := range strings.Lines(t.Render() + "\n") {
		if err := env.printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// statePaint gives the colour of a call's state.
func statePaint(out *term.Out, c *message.Call) func(string) string {
	switch {
	case c.State == message.ToolCallAsking, c.Hold != message.HoldNone:
		return out.Ask
	case c.State != message.ToolCallFinished:
		return out.Work
	case c.Result != nil && c.Result.State == message.ToolResultSuccess:
		return out.Good
	}
	return out.Bad
}

// waitsFor says in a few words where a call stands.
func waitsFor(c *message.Call) string {
	switch {
	case c.State == message.ToolCallFinished && c.Result != nil:
		return fmt.Sprintf("%s (%s)", c.Result.State, c.Cause)
	case c.Hold != message.HoldNone:
		return story.HeldText(c)
	case c.State == message.ToolCallAsking && c.Question != nil:
		return votesSoFar(c) + term.SafeLine(c.Question.Text)
	case c.Behind != "":
		return "behind the question about " + term.SafeLine(string(c.Behind))
	case c.State == message.ToolCallPending:
		return "behind earlier calls of its reply"
	case !c.RetryAt.IsZero():
		return "tried again at " + c.RetryAt.Local().Format(time.TimeOnly)
	case c.Started():
		return "running at " + term.SafeLine(c.Attempt.Worker)
	case c.Placement == message.PlaceRemote:
		return "a worker"
	case c.Placement == message.PlaceExternal:
		return "its result from outside"
	}
	return "an engine that has the tool"
}

// age is a duration in the one unit that says enough.
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
