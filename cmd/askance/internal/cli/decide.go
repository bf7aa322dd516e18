package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// responding is common to approve, edit, reject, respond and delegate: they find a
// call, show it, and send a response that names the digest of what they showed.
type responding struct {
	env    *environment
	ad     address
	digest string // of --digest: binds the response to what the person reviewed earlier
	yes    bool

	memory                            memory
	sign                              signing
	feedback, input, output, to, note string
}

// newRespondCommand completes a command that responds to an approval request. verb
// begins the question for confirmation; build makes the response.
func newRespondCommand(env *environment, c *cobra.Command, verb string, flags func(*responding, *pflag.FlagSet), build func(*responding, context.Context, *toolcall.Call) (toolcall.Response, error)) *cobra.Command {
	d := &responding{env: env, sign: signing{cfg: &env.cfg}}
	c.Args, c.ValidArgsFunction = oneCall(&d.ad), env.completeCalls(message.ToolCallAsking)
	c.RunE = func(c *cobra.Command, _ []string) error { return d.respond(c.Context(), verb, build) }
	env.cfg.bindClient(c)
	d.memory.cmd, d.sign.cmd = c, c
	d.ad.flags(c)
	c.Flags().StringVar(&d.digest, "digest", "", "respond only to the approval request with this digest, as askance show or list --json printed it")
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation: respond to the present approval request")
	flags(d, c.Flags())
	return c
}

// respond finds the call, lets build make the response, asks for confirmation unless
// --yes or --digest is set, and sends the response.
func (d *responding) respond(ctx context.Context, verb string, build func(*responding, context.Context, *toolcall.Call) (toolcall.Response, error)) error {
	env := d.env
	if d.digest == "" && !d.yes && !env.isInteractive() {
		return usagef("not a terminal: pass --yes, or --digest to respond to exactly what you reviewed")
	}
	l, err := env.connect(ctx, toolcall.RoleApprover)
	if err != nil {
		return err
	}
	defer l.Close()
	call, err := d.ad.find(ctx, l)
	if err != nil {
		return err
	}
	if err := mustAsk(call); err != nil {
		return err
	}
	if !env.json {
		env.notef("%s", callText(env.err, call))
	}
	response, err := build(d, ctx, call)
	if err != nil {
		return err
	}
	response.V, response.Key, response.Digest = 1, call.Key, call.Digest
	if d.digest != "" {
		response.Digest = d.digest
	}
	if d.digest == "" && !d.yes {
		ok, err := env.confirm(ctx, fmt.Sprintf("%s %s %s?", verb, call.Tool, call.Call))
		if err != nil {
			return err
		}
		if !ok {
			return errors.New("canceled: no response was sent, the approval request is still open")
		}
	}
	after, err := l.SubmitResponse(ctx, response)
	if err != nil {
		return err
	}
	return env.print(after, outcomeText(env.out, after)+"\n")
}

func mustAsk(c *toolcall.Call) error {
	if c.State == message.ToolCallAsking {
		return nil
	}
	e := &message.Error{Code: message.CodeState, Op: "submit_response", Call: toolcall.ErrorCall(c), What: fmt.Sprintf("the call %s is %s and waits for no approval", c.Call, c.State), Hint: "askance show prints its history"}
	if !c.Open() {
		e.Code, e.What = message.CodeFinished, fmt.Sprintf("the call %s is finished (%s)", c.Call, c.Cause)
		if n := len(c.Votes); n > 0 {
			e.What += fmt.Sprintf("; %s responded first: %s", asked.Who(c.Votes[n-1].By), c.Votes[n-1].Kind)
		}
	}
	return e
}

func outcomeLine[Req any](out *term.Out, _ Req, after *toolcall.Call) string {
	return outcomeText(out, after) + "\n"
}

func outcomeText(out *term.Out, c *toolcall.Call) string {
	head := out.Name(term.SafeLine(string(c.Call))) + " is " + phasePaint(out, c)(string(c.Phase()))
	if c.State == message.ToolCallAsking {
		return head + ": " + stillAsksText(c)
	}
	return head + ": " + waitsFor(c)
}

func newApproveCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "approve CALL",
		Short: "Approve a call with exactly these arguments",
		Long: `Approves a call as it is. The response names the digest of the approval request, so
that exactly what you reviewed runs: if the call was edited or requested again
meanwhile, the engine refuses the response with exit code 3.

--remember creates a standing approval: later calls that match the offered rules run
without a request, in the same session. More flags limit it: --rule narrows the
rules, --uses and --budget count later calls, --until ends it. A policy rule with
remember permits a wider scope; without one, a standing approval is valid only in its
session. A call with hidden arguments permits none. askance standing lists and revokes
standing approvals.`,
		Example: `  askance approve call_42                       # shows the call and asks for confirmation
  askance approve call_42 --yes
  askance approve call_42 --digest sha256:9f2…  # for scripts: what was reviewed before
  askance approve call_42 --remember            # and accept the offered rules
  askance approve call_42 --sign-key ann.key    # if the rule requires your signature
  askance approve call_42 --remember --scope session --until 2h --uses 3
  askance approve call_42 --remember --rule "git push origin:*"
  askance approve call_42 --remember --budget args.cents=10000`,
	}, "Approve", func(d *responding, _ *pflag.FlagSet) {
		d.memory.flags()
		d.sign.flags()
	}, func(d *responding, _ context.Context, call *toolcall.Call) (toolcall.Response, error) {
		response := toolcall.Response{Kind: toolcall.ResponseApprove}
		key, err := d.sign.load()
		if err == nil && key != nil {
			response.Signature, err = key.sign(call, time.Now())
		}
		if err != nil {
			return response, err
		}
		return response, d.memory.into(&response, call, time.Now())
	})
}

func newEditCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "edit CALL",
		Short: "Approve a call with changed arguments",
		Long: `Approves a call with changed arguments. An edit is a new proposal by you: it must
match the tool's schema, and the policy decides about it again, so the policy can
deny it or require another approval. Without --input your editor ($VISUAL, $EDITOR)
opens.

--remember and its flags are those of askance approve, for the edited call.`,
		Example: `  askance edit call_42
  askance edit call_42 --input '{"order_id":"A-1042","amount_cents":4900}' --yes
  askance edit call_42 --input @refund.json --digest sha256:9f2…
  askance edit call_42 --input @refund.json --remember --uses 3`,
		PreRunE: func(c *cobra.Command, _ []string) error {
			if input, err := c.Flags().GetString("input"); (err != nil || input == "") && !env.isInteractive() {
				return usagef("not a terminal, so that no editor can open: pass the new arguments with --input")
			}
			return nil
		},
	}, "Approve as edited", func(d *responding, f *pflag.FlagSet) {
		d.memory.flags()
		f.StringVar(&d.input, "input", "", "new arguments: a JSON object, @FILE, or - for standard input")
	}, func(d *responding, ctx context.Context, call *toolcall.Call) (toolcall.Response, error) {
		text, err := readEditedInput(ctx, env, call, d.input)
		if err != nil {
			return toolcall.Response{}, err
		}
		if !env.json {
			env.notef("%s", diffText(env.err, asked.Changes(call.Input, text)))
		}
		response := toolcall.Response{Kind: toolcall.ResponseApprove, Input: &text}
		return response, d.memory.into(&response, call, time.Now())
	})
}

func newRejectCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "reject CALL",
		Short: "Reject a call and tell the model why",
		Example: `  askance reject call_42 --feedback "refund only the shipping"
  askance reject call_42 --yes`,
	}, "Reject", func(d *responding, f *pflag.FlagSet) {
		f.StringVar(&d.feedback, "feedback", "", "feedback for the model")
	}, func(d *responding, _ context.Context, _ *toolcall.Call) (toolcall.Response, error) {
		return toolcall.Response{Kind: toolcall.ResponseReject, Feedback: d.feedback}, nil
	})
}

func newResultCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "respond CALL --output TEXT",
		Short: "Supply the tool's result yourself; nothing runs",
		Example: `  askance respond call_42 --output "done manually, ticket 17"
  askance respond call_42 --output @result.txt --yes
  date | askance respond call_42 --output - --yes`,
		PreRunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("output") {
				return usagef("--output is missing: pass the text that becomes the tool's result")
			}
			return nil
		},
	}, "Supply the result of", func(d *responding, f *pflag.FlagSet) {
		f.StringVar(&d.output, "output", "", "result: a text, @FILE, or - for standard input")
	}, func(d *responding, _ context.Context, _ *toolcall.Call) (toolcall.Response, error) {
		text, err := env.readText("--output", d.output, toolcall.MaxOutputBytes)
		return toolcall.Response{Kind: toolcall.ResponseRespond, Output: strings.TrimRight(text, "\n")}, err
	})
}

func newDelegateCommand(env *environment) *cobra.Command {
	return newRespondCommand(env, &cobra.Command{
		Use:   "delegate CALL [--to NAME]",
		Short: "Delegate an approval request to another person, or skip it",
		Long: `With --to, delegates an approval request to one person; without --to, you skip it and
leave it to the other approvers. The request stays open and its deadline does not
change. You cannot approve it afterwards, only reject it; your earlier approval is
revoked. Only people who could respond before can respond now.`,
		Example: `  askance delegate call_42 --to bob --note "you know the customer"
  askance delegate call_42 --note "I am related to the payee" --yes`,
	}, "Delegate", func(d *responding, f *pflag.FlagSet) {
		f.StringVar(&d.to, "to", "", "person who should respond; without it you skip the request")
		f.StringVar(&d.note, "note", "", "note for the next approver")
	}, func(d *responding, _ context.Context, _ *toolcall.Call) (toolcall.Response, error) {
		response := toolcall.Response{Kind: toolcall.ResponseSkip, Note: d.note}
		if d.to != "" {
			response.Kind, response.To = toolcall.ResponseDelegate, d.to
		}
		return response, nil
	})
}
