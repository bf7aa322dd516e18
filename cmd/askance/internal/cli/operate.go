package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/explain"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func newResolveCommand(env *environment) *cobra.Command {
	ad := address{whole: true}
	var r toolcall.ResolveRequest
	var output string
	outcomes := []string{"happened", "did_not_happen", "run_again"}
	c := &cobra.Command{
		Use:   "resolve CALL --outcome OUTCOME",
		Short: "Resolve a call whose outcome is unknown",
		Long: `A call is blocked if its worker fell silent and the tool is not idempotent, if its
worker did not stop at the deadline and may still run it, if every permitted attempt
was lost, or if no worker took it in time. A call that an agent or an MCP gateway
runs itself has no result if that stopped before it reported one.
Find out what happened, then resolve the call:

  happened         the effect took place; --output is the result
  did_not_happen   the effect did not take place; the model gets an error
  run_again        offer the call to a worker again, as a new attempt`,
		Example: `  askance list --phase blocked
  askance resolve call_42 --outcome happened --output "refund re_123"
  askance resolve call_42 --outcome run_again --note "the provider never saw it"`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallSubmitted, message.ToolCallAllowed),
		PreRunE: func(c *cobra.Command, _ []string) (err error) {
			if r.Outcome == "" {
				return usagef("--outcome is missing: use %s", spelling.OrList(toolcall.Outcomes()))
			}
			if err := checkWord("outcome", string(r.Outcome), toolcall.Outcomes()); err != nil {
				return err
			}
			if output != "" && r.Outcome != toolcall.OutcomeHappened {
				return usagef("--output is for --outcome happened: leave it out, or put it into --note")
			}
			if r.Outcome == toolcall.OutcomeHappened && !c.Flags().Changed("output") {
				return usagef("--output is missing: pass the result that the model gets, or --output \"\" if the tool returned nothing")
			}
			r.Output, err = env.readText("--output", output, toolcall.MaxOutputBytes)
			return err
		},
		RunE: operation[toolcall.ResolveRequest, *toolcall.Call]{
			role: toolcall.RoleOperator, call: api.Resolve.Call, text: outcomeLine[toolcall.ResolveRequest],
			request: onCall(&ad, func(call *toolcall.Call) (toolcall.ResolveRequest, error) {
				r.V, r.Key = 1, call.Key
				r.Attempt = cmp.Or(r.Attempt, call.Attempt.Number)
				return r, nil
			}),
		}.run(env),
	}
	bindDeciding(env, c)
	ad.flags(env, c)
	f := c.Flags()
	f.StringVar((*string)(&r.Outcome), "outcome", "", "happened, did_not_happen or run_again")
	f.StringVar(&output, "output", "", "result, with happened: a text, @FILE, or - for standard input")
	f.StringVar(&r.Note, "note", "", "what you found out, for the journal")
	f.IntVar(&r.Attempt, "attempt", 0, "resolve only this attempt (default the current one)")
	_ = c.RegisterFlagCompletionFunc("outcome", cobra.FixedCompletions(outcomes, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func newRevokeCommand(env *environment) *cobra.Command {
	ad := address{whole: true}
	var reason string
	c := &cobra.Command{
		Use:               "revoke CALL",
		Short:             "Revoke a call that is allowed and has not started",
		Example:           `  askance revoke call_42 --reason "wrong customer"`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallSubmitted, message.ToolCallAllowed),
		RunE: operation[toolcall.RevokeRequest, *toolcall.Call]{
			role: toolcall.RoleOperator, call: api.Revoke.Call, text: outcomeLine[toolcall.RevokeRequest],
			request: onCall(&ad, func(call *toolcall.Call) (toolcall.RevokeRequest, error) {
				return toolcall.RevokeRequest{V: 1, Key: call.Key, Reason: reason}, nil
			}),
		}.run(env),
	}
	bindDeciding(env, c)
	ad.flags(env, c)
	c.Flags().StringVar(&reason, "reason", "", "reason, for the journal and the model")
	return c
}

func newInterruptCommand(env *environment) *cobra.Command {
	ad := address{whole: true}
	var reason string
	c := &cobra.Command{
		Use:   "interrupt CALL",
		Short: "Interrupt every open call of a reply",
		Long: `Interrupts the reply that a call belongs to, with all its open calls. None of its calls
starts afterwards, and workers are told to stop those that run.`,
		Example: `  askance interrupt call_42 --reason "wrong ticket"
  askance interrupt --session ticket-7 --reply reply-1`,
		ValidArgsFunction: env.completeCalls(),
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && ad.session != "" && ad.reply != "" {
				return nil
			}
			return oneCall(&ad)(c, args)
		},
		RunE: operation[toolcall.InterruptRequest, toolcall.InterruptReply]{
			role: toolcall.RoleOperator, call: api.Interrupt.Call,
			request: func(ctx context.Context, l *link, _ []string) (toolcall.InterruptRequest, error) {
				session, reply, err := findReply(ctx, l, &ad)
				return toolcall.InterruptRequest{V: 1, Session: session, Reply: reply, Reason: reason}, err
			},
			text: func(out *term.Out, r toolcall.InterruptRequest, reply toolcall.InterruptReply) string {
				var text strings.Builder
				fmt.Fprintf(&text, "Reply %s interrupted, %s ended.\n", term.SafeLine(string(r.Session)+"/"+string(r.Reply)), asked.Count(len(reply.Calls), "open call"))
				for _, call := range reply.Calls {
					text.WriteString(outcomeText(out, call) + "\n")
				}
				return text.String()
			},
		}.run(env),
	}
	bindDeciding(env, c)
	ad.flags(env, c)
	c.Flags().StringVar(&reason, "reason", "", "reason, for the journal")
	return c
}

// findReply finds the reply. A reply without calls is taken for a typing error.
func findReply(ctx context.Context, c engine.Client, ad *address) (message.SessionID, message.ReplyID, error) {
	if ad.arg != "" {
		call, err := ad.find(ctx, c)
		if err != nil {
			return "", "", err
		}
		return call.Session, call.Reply, nil
	}
	session, reply := message.SessionID(ad.session), message.ReplyID(ad.reply)
	calls, err := c.List(ctx, toolcall.ListRequest{V: 1, Session: session, Reply: reply, All: true, Limit: 1})
	if err == nil && len(calls.Calls) == 0 {
		err = &message.Error{Code: message.CodeNotFound, Op: "interrupt", What: fmt.Sprintf("the reply %s/%s has no calls", session, reply), Hint: commandAgain(ad.env, "list --all") + " shows all calls"}
	}
	return session, reply, err
}

func newPreviewCommand(env *environment) *cobra.Command {
	var r api.PreviewRequest
	var input, definition string
	var external bool
	c := &cobra.Command{
		Use:   "preview TOOL",
		Short: "Ask the engine what it would decide about a call, without proposing it",
		Long: `Decides a call with the engine's current policy and its standing approvals. Nothing is
proposed, nothing runs, and the journal records nothing. A later proposal of the same
call can be decided differently: the policy, the time and standing approvals change.

--session and --reply name the place of the call for rules that depend on it. --external
and --define are for tools that the runtime itself runs and the tools file does not name.
askance policy explain shows the rules of a rule file without an engine.`,
		Example: `  askance preview refund --args '{"order": "A-1", "cents": 900}'
  askance preview refund --args @call.json --session ticket-7 --json
  askance preview search --define '{"input_schema": {"type": "object"}, "annotations": {"read_only": true}}'`,
		Args:              wantArgs(1, `one tool, and its arguments, for instance: askance preview refund --args '{"order": "A-7"}'`),
		ValidArgsFunction: completeTools(env),
		PreRunE: func(_ *cobra.Command, args []string) error {
			text, err := env.readText("--args", input, toolcall.MaxInputBytes)
			r.V, r.Calls = 1, []message.ToolCallBlock{{ID: "preview", Name: args[0], Input: strings.TrimSpace(text)}}
			if external {
				r.External = args
			}
			if err != nil || definition == "" {
				return err
			}
			d := toolcall.ToolDefinition{Name: args[0]}
			if text, err = env.readText("--define", definition, toolcall.MaxDefinitionBytes); err == nil {
				if err = strictjson.Unmarshal([]byte(text), &d, strictjson.MaxBytes(toolcall.MaxDefinitionBytes)); err != nil {
					err = usagef("--define: %s; write an object such as {\"input_schema\": {…}, \"annotations\": {…}}", strictjson.AtLine(err, text))
				}
			}
			r.Tools = []toolcall.ToolDefinition{d}
			return err
		},
		RunE: operation[api.PreviewRequest, api.PreviewReply]{
			role: toolcall.RoleAuditor, call: api.Preview.Call, request: always(&r), text: previewText,
		}.run(env),
	}
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringVar(&input, "args", "{}", "arguments of the call: a JSON object, @FILE, or - for standard input")
	f.StringVar((*string)(&r.Session), "session", "preview", "session of the call")
	f.StringVar((*string)(&r.Reply), "reply", "preview", "reply of the call")
	f.StringVar(&r.Agent, "agent", "", "agent that proposes the call")
	f.BoolVar(&external, "external", false, "the runtime runs the tool")
	f.StringVar(&definition, "define", "", "the runtime's declaration of the tool that it runs: a JSON object with description, input_schema and annotations, @FILE, or -")
	return c
}

func previewText(out *term.Out, _ api.PreviewRequest, reply api.PreviewReply) string {
	var b strings.Builder
	for _, c := range reply.Calls {
		tool := out.Bold(term.SafeLine(c.Tool))
		if c.Decision == nil {
			fmt.Fprintf(&b, "%s %s: %s\n", out.Bad("refused"), tool, term.SafeLine(c.Refused))
			if strings.HasPrefix(c.Refused, "ToolNotFoundError: ") {
				b.WriteString("No tools file declares it. If the agent runs it, pass --external.\n")
			}
			continue
		}
		d := c.Decision
		s := newSheet(out, 8, fmt.Sprintf("%s %s: %s", explain.Behavior(out, d.Behavior), tool, term.SafeLine(d.Reason)))
		s.row("rule", term.SafeLine(d.Rule))
		s.row("source", term.SafeLine(asked.Source(d.Source)))
		s.lines("message", d.Message, nil)
		s.row("runs", runsText(d))
		for _, id := range d.StandingApprovals() {
			s.row("standing", term.SafeLine(string(id)))
		}
		for _, e := range d.Errors {
			s.row("failed", out.Bad(term.SafeLine(e)))
		}
		s.row("policy", reply.Bundle)
		b.WriteString(s.String())
	}
	return b.String()
}
