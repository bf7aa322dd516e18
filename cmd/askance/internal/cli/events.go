package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

func newEventsCommand(env *environment) *cobra.Command {
	return newGroup(&cobra.Command{
		Use:   "events",
		Short: "Follow the events of a session, or rebuild a message from them",
		Example: `  askance events tail ticket-7
  askance events replay ticket-7`,
	}, newEventsTailCommand(env), newEventsReplayCommand(env))
}

// oneSession accepts a session. Without one there must be only one session with calls.
var oneSession = optional(wantArgs(1, "one session"))

// theSession returns the named session, which must exist, or the only one there is.
func theSession(ctx context.Context, env *environment, c engine.Client, named message.SessionID) (message.SessionID, error) {
	if named != "" {
		return named, checkSession(ctx, env, c, named)
	}
	calls, err := engine.ListAll(ctx, c, toolcall.ListRequest{All: true}, 0)
	if err != nil {
		return "", err
	}
	var sessions []string
	for _, call := range calls {
		sessions = append(sessions, string(call.Session))
	}
	slices.Sort(sessions)
	switch sessions = slices.Compact(sessions); len(sessions) {
	case 0:
		return "", &message.Error{Code: message.CodeNotFound, Op: "find session", What: "the journal has no calls", Hint: "name the session"}
	case 1:
		return message.SessionID(sessions[0]), nil
	default:
		return "", usagef("there are %d sessions, name one of %q", len(sessions), sessions[:min(len(sessions), maxCandidates)])
	}
}

// checkSession refuses a session that the journal does not have.
func checkSession(ctx context.Context, env *environment, c engine.Client, session message.SessionID) error {
	calls, err := c.List(ctx, toolcall.ListRequest{V: 1, Session: session, All: true, Limit: 1})
	if err != nil || len(calls.Calls) > 0 {
		return err
	}
	errFound := errors.New("found")
	err = replay.Events(ctx, c, toolcall.EventsRequest{V: 1, Session: session}, func(toolcall.SequencedEvent) error { return errFound })
	if errors.Is(err, errFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return &message.Error{Code: message.CodeNotFound, Op: "find session", What: fmt.Sprintf("there is no session %s", session), Hint: commandAgain(env, "list --all -o wide") + " shows the sessions; events tail --wait waits for a new one"}
}

func newEventsTailCommand(env *environment) *cobra.Command {
	var r toolcall.EventsRequest
	var once, wait bool
	c := &cobra.Command{
		Use:   "tail [SESSION]",
		Short: "Print and follow the AgentScope events of a session",
		Long: `Prints the AgentScope events of a session in the order of the journal and follows
them until it is interrupted. Without SESSION the journal must have exactly one
session. With --json each line is {"seq": …, "event": …}; pass the last seq to --after
to continue.`,
		Example: `  askance events tail ticket-7
  askance events tail ticket-7 --reply reply-1 --json
  askance events tail ticket-7 --after 120 --once
  askance events tail ticket-8 --wait           # even if it does not exist yet`,
		Args:              oneSession,
		ValidArgsFunction: completeSessions(env),
		RunE: connected(env, toolcall.RoleAuditor, func(ctx context.Context, l *link, args []string) (err error) {
			r.Session = message.SessionID(onlyArg(args))
			if !wait || r.Session == "" {
				if r.Session, err = theSession(ctx, env, l, r.Session); err != nil {
					return err
				}
			}
			show := func(ev toolcall.SequencedEvent) error { return printEvent(env, ev) }
			if once || !l.live {
				return replay.Events(ctx, l, r, show)
			}
			return ended(replay.Follow(ctx, l, r, show))
		}),
	}
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringVar((*string)(&r.Reply), "reply", "", "only events of this reply")
	f.Uint64Var(&r.After, "after", 0, "only events after this sequence")
	f.BoolVar(&once, "once", false, "end after the last stored event")
	f.BoolVar(&wait, "wait", false, "wait for a session that does not exist yet")
	return c
}

func printEvent(env *environment, ev toolcall.SequencedEvent) error {
	if env.json {
		return env.printItem(ev)
	}
	e, err := message.DecodeEvent(ev.Event)
	if err != nil {
		return fmt.Errorf("event of record %d: %w", ev.Seq, err)
	}
	return env.printf("%s %s %s\n", env.out.Dim(fmt.Sprintf("%6d", ev.Seq)), env.out.Work(fmt.Sprintf("%-26s", e.Type())), term.Clip(eventText(e), max(40, env.out.Width()-36)))
}

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

func newEventsReplayCommand(env *environment) *cobra.Command {
	var r toolcall.EventsRequest
	c := &cobra.Command{
		Use:   "replay [SESSION]",
		Short: "Rebuild the message of a reply from its events and print it",
		Long: `Reads the AgentScope events of a session and applies them to an empty message, as any
frontend does. Without --reply it uses the last reply of the session. Without SESSION
the journal must have exactly one session. In the message, an edited call keeps the
model's arguments, as the format requires; the line "edited" below shows the
arguments that ran.`,
		Example: `  askance events replay ticket-7
  askance events replay ticket-7 --reply reply-1 --json`,
		Args:              oneSession,
		ValidArgsFunction: completeSessions(env),
		RunE: connected(env, toolcall.RoleAuditor, func(ctx context.Context, l *link, args []string) (err error) {
			r.Session = message.SessionID(onlyArg(args))
			if r.Session, err = theSession(ctx, env, l, r.Session); err != nil {
				return err
			}
			b, err := replay.Message(ctx, l, r.Session, r.Reply)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(b.Msg)
			}
			return story.Message(env.out, b.Msg, b.Edited)
		}),
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar((*string)(&r.Reply), "reply", "", "reply (default the last one)")
	return c
}
