package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

func newEventsTailCommand(env *environment) *cobra.Command {
	var r message.EventsRequest
	var once bool
	c := &cobra.Command{
		Use:   "tail [SESSION]",
		Short: "Print a session's AgentScope events, and those to come",
		Long: `Prints a session's AgentScope events in the order of the journal and follows
them until it is interrupted. Without SESSION there must be only one. With --json
each line is {"seq": …, "event": …}; give the last seq to --after to go on.`,
		Example: `  askance events tail ticket-7
  askance events tail ticket-7 --reply reply-1 --json
  askance events tail ticket-7 --after 120 --once`,
		Args: oneSession(&r.Session),
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := env.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			if r.Session, err = theSession(c.Context(), l, r.Session); err != nil {
				return err
			}
			show := func(ev message.SequencedEvent) error { return printEvent(env, ev) }
			if once || !l.live {
				return replay.Events(c.Context(), l, r, show)
			}
			err = replay.Follow(c.Context(), l, r, show)
			if errors.Is(err, errSignal) {
				return nil // that is how it is ended
			}
			return err
		},
	}
	env.at.flags(c)
	f := c.Flags()
	f.StringVar((*string)(&r.Reply), "reply", "", "only events of this reply")
	f.Uint64Var(&r.After, "after", 0, "only events after this sequence")
	f.BoolVar(&once, "once", false, "end with the last event that is there")
	return c
}

func printEvent(env *environment, ev message.SequencedEvent) error {
	if env.json {
		return writeJSON(env.out, ev)
	}
	e, err := message.DecodeEvent(ev.Event)
	if err != nil {
		return fmt.Errorf("event of record %d: %w", ev.Seq, err)
	}
	return env.printf("%s %s %s\n", env.out.Dim(fmt.Sprintf("%6d", ev.Seq)), env.out.Work(fmt.Sprintf("%-26s", e.Type())), term.Clip(eventText(e), max(40, env.out.Width()-36)))
}

// eventText is what an event says, in one line.
func eventText(e message.Event) string {
	switch e := e.(type) {
	case *message.ReplyStart:
		return term.SafeLine(fmt.Sprintf("%s by %s", e.Reply, e.Name))
	case *message.ReplyEnd:
		return term.SafeLine(string(e.FinishedReason))
	case *message.ModelCallStart:
		return term.SafeLine(e.ModelName)
	case *message.ModelCallEnd:
		return fmt.Sprintf("%d tokens in, %d out", e.InputTokens, e.OutputTokens)
	case *message.TextBlockDelta:
		return term.SafeLine(e.Delta)
	case *message.ThinkingBlockDelta:
		return term.SafeLine(e.Delta)
	case *message.ToolCallStart:
		return term.SafeLine(string(e.ToolCallID) + " " + e.ToolCallName)
	case *message.ToolCallDelta:
		return term.SafeLine(string(e.ToolCallID) + " " + e.Delta)
	case *message.ToolCallEnd:
		return term.SafeLine(string(e.ToolCallID))
	case *message.ToolResultStart:
		return term.SafeLine(string(e.ToolCallID) + " " + e.ToolCallName)
	case *message.ToolResultTextDelta:
		return term.SafeLine(string(e.ToolCallID) + " " + e.Delta)
	case *message.ToolResultEnd:
		return term.SafeLine(string(e.ToolCallID) + " " + string(e.State))
	case *message.RequireUserConfirm:
		return callsText(e.ToolCalls)
	case *message.RequireExternalExecution:
		return callsText(e.ToolCalls)
	case *message.UserConfirmResult:
		return confirmText(e)
	default:
		return "" // its type says it all
	}
}

func callsText(calls []message.ToolCallBlock) string {
	var out []string
	for _, c := range calls {
		out = append(out, string(c.ID)+" "+c.Name+" "+c.Input)
	}
	return term.SafeLine(strings.Join(out, "; "))
}

func confirmText(e *message.UserConfirmResult) string {
	var out []string
	for _, r := range e.ConfirmResults {
		word := "no"
		if r.Confirmed {
			word = "yes"
		}
		out = append(out, string(r.ToolCall.ID)+" "+word)
	}
	return term.SafeLine(strings.Join(out, "; "))
}
