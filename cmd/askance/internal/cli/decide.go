package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/spf13/cobra"
)

// decision is common to approve, edit, reject, answer and delegate: they find a
// call, show it, and send a response that names the digest of what they showed.
type decision struct {
	ad     address
	digest string // of --digest: binds the response to what the person reviewed earlier
	yes    bool
}

func (d *decision) flags(c *cobra.Command) {
	d.ad.flags(c)
	c.Flags().StringVar(&d.digest, "digest", "", "respond only to the approval request with this digest, as askance show or list --json printed it")
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation: respond to the present approval request")
}

// decide finds the call, lets build make the response, asks for confirmation unless
// --yes or --digest is set, and sends the response.
func decide(ctx context.Context, env *environment, d *decision, verb string, build func(context.Context, *message.Call) (message.Response, error)) error {
	if d.digest == "" && !d.yes && !env.isInteractive() {
		return usagef("not a terminal: pass --yes, or --digest to respond to exactly what you reviewed")
	}
	l, err := env.connect(ctx, message.RoleApprover)
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
	response, err := build(ctx, call)
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
	return sendAnswer(ctx, env, l, response)
}

func sendAnswer(ctx context.Context, env *environment, c engine.Client, response message.Response) error {
	after, err := c.SubmitResponse(ctx, response)
	if err != nil {
		return err
	}
	return printOutcome(env, after)
}

// mustAsk refuses calls without an open approval request.
func mustAsk(c *message.Call) error {
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

// printOutcome prints a call after something was done to it.
func printOutcome(env *environment, after *message.Call) error {
	if env.json {
		return env.printDocument(after)
	}
	return env.printf("%s\n", outcomeText(env.out, after))
}

// outcomeText describes a call in one line after an operation.
func outcomeText(out *term.Out, c *message.Call) string {
	head := out.Name(term.SafeLine(string(c.Call))) + " is " + phasePaint(out, c)(string(c.Phase()))
	switch {
	case c.State == message.ToolCallAsking:
		return head + ": " + stillAsksText(c)
	case c.State == message.ToolCallFinished:
		return head + ": " + waitsFor(c)
	}
	return head + ": " + waitsFor(c)
}

func newApproveCommand(env *environment) *cobra.Command {
	var d decision
	var memory memory
	sign := signing{cfg: &env.cfg}
	c := &cobra.Command{
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
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Approve", func(_ context.Context, call *message.Call) (message.Response, error) {
				response := message.Response{Kind: message.ResponseApprove}
				key, err := sign.load()
				if err != nil {
					return response, err
				}
				if key != nil {
					if response.Signature, err = key.sign(call, time.Now()); err != nil {
						return response, err
					}
				}
				return response, memory.into(&response, call, time.Now())
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	memory.flags(c)
	sign.flags(c)
	return c
}

func newRejectCommand(env *environment) *cobra.Command {
	var d decision
	var feedback string
	c := &cobra.Command{
		Use:   "reject CALL",
		Short: "Reject a call and tell the model why",
		Example: `  askance reject call_42 --feedback "refund only the shipping"
  askance reject call_42 --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Reject", func(context.Context, *message.Call) (message.Response, error) {
				return message.Response{Kind: message.ResponseReject, Feedback: feedback}, nil
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	c.Flags().StringVar(&feedback, "feedback", "", "text for the model")
	return c
}

func newAnswerCommand(env *environment) *cobra.Command {
	var d decision
	var output string
	c := &cobra.Command{
		Use:   "respond CALL --output TEXT",
		Short: "Supply the tool's result yourself; nothing runs",
		Example: `  askance respond call_42 --output "done manually, ticket 17"
  askance respond call_42 --output @result.txt --yes
  date | askance respond call_42 --output - --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("output") {
				return usagef("--output is missing: pass the text that becomes the tool's result")
			}
			return decide(c.Context(), env, &d, "Supply the result of", func(context.Context, *message.Call) (message.Response, error) {
				text, err := env.readText("--output", output, message.MaxOutputBytes)
				return message.Response{Kind: message.ResponseRespond, Output: strings.TrimRight(text, "\n")}, err
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	c.Flags().StringVar(&output, "output", "", "result: a text, @FILE, or - for standard input")
	return c
}

func newHandOverCommand(env *environment) *cobra.Command {
	var d decision
	var to, note string
	c := &cobra.Command{
		Use:   "delegate CALL [--to NAME]",
		Short: "Delegate an approval request to another person, or skip it",
		Long: `With --to, delegates an approval request to one person; without --to, you skip it and
leave it to the other approvers. The request stays open and its deadline does not
change. You cannot approve it afterwards, only reject it; your earlier approval is
revoked. Only people who could respond before can respond now.`,
		Example: `  askance delegate call_42 --to bob --note "you know the customer"
  askance delegate call_42 --note "I am related to the payee" --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Delegate", func(context.Context, *message.Call) (message.Response, error) {
				response := message.Response{Kind: message.ResponseSkip, Note: note}
				if to != "" {
					response.Kind, response.To = message.ResponseDelegate, to
				}
				return response, nil
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	c.Flags().StringVar(&to, "to", "", "person who should respond; without it you skip the request")
	c.Flags().StringVar(&note, "note", "", "note for the next approver")
	return c
}
