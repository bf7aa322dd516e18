package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// decision is what approve, edit, reject, answer and hand-over have in common: they find
// a call, show what is decided, and send an answer that names the digest of
// what was shown.
type decision struct {
	ad     address
	digest string // from the command line: binds the answer to what was seen earlier
	yes    bool
}

func (d *decision) flags(c *cobra.Command) {
	d.ad.flags(c)
	c.Flags().StringVar(&d.digest, "digest", "", "answer only the question with this digest, as askance show or list --json gave it")
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask back: answer the question that is open now")
}

// run finds the call, lets build make the answer, asks back if nobody said
// otherwise, and sends it.
func decide(ctx context.Context, env *environment, d *decision, verb string, build func(context.Context, *message.Call) (message.Answer, error)) error {
	if d.digest == "" && !d.yes && !env.isInteractive() {
		return usagef("nobody can be asked here: give --digest of the question that was seen, or --yes for the one that is open now")
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
	answer, err := build(ctx, call)
	if err != nil {
		return err
	}
	answer.V, answer.Key, answer.Digest = 1, call.Key, call.Digest
	if d.digest != "" {
		answer.Digest = d.digest
	}
	if d.digest == "" && !d.yes {
		ok, err := env.confirm(ctx, fmt.Sprintf("%s %s %s?", verb, call.Tool, call.Call))
		if err != nil {
			return err
		}
		if !ok {
			return errors.New("not answered: the question is still open")
		}
	}
	return sendAnswer(ctx, env, l, answer)
}

func sendAnswer(ctx context.Context, env *environment, c engine.Client, answer message.Answer) error {
	after, err := c.Answer(ctx, answer)
	if err != nil {
		return err
	}
	return printOutcome(env, after)
}

// mustAsk refuses calls without an open question.
func mustAsk(c *message.Call) error {
	if c.State == message.ToolCallAsking {
		return nil
	}
	e := &message.Error{Code: message.CodeState, Op: "answer", Call: c, What: fmt.Sprintf("the call %s is %s, no question is open", c.Call, c.State), Hint: "askance show tells its story"}
	if !c.Open() {
		e.Code, e.What = message.CodeFinished, fmt.Sprintf("the call %s is finished (%s), no question is open", c.Call, c.Cause)
		if n := len(c.Votes); n > 0 {
			e.What += fmt.Sprintf("; %s gave the answer %s", asked.Who(c.Votes[n-1].By), c.Votes[n-1].Kind)
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

// outcomeText says in one line where an answered call stands.
func outcomeText(out *term.Out, c *message.Call) string {
	head := out.Name(term.SafeLine(string(c.Call))) + " is " + phasePaint(out, c)(string(c.Phase()))
	switch {
	case c.State == message.ToolCallAsking:
		return head + ": " + stillAsksText(c)
	case c.State == message.ToolCallFinished:
		return head + ": " + waitsFor(c)
	}
	return head + ", it waits for " + waitsFor(c)
}

func newApproveCommand(env *environment) *cobra.Command {
	var d decision
	var memory memory
	sign := signing{cfg: &env.cfg}
	c := &cobra.Command{
		Use:   "approve CALL",
		Short: "Approve exactly what a call asks",
		Long: `Approves a call as it stands. The answer names the digest of the question, so
what was shown is what runs: if the call was edited or asked anew meanwhile, the
answer is refused with exit code 3.

With --remember later calls like it are not asked about again: by the rules that
the question offers, in the session. With the flags beside it the rules are
remembered on terms: they can be narrowed (--rule), count the calls that they
answer for (--uses, --budget), and end (--until). A rule of the policy with
remember says what else may be; without one no answer reaches beyond its session.
Of a call that hides arguments nothing is remembered. askance rules lists what is
remembered and takes it back.`,
		Example: `  askance approve call_42                       # shows the call and asks back
  askance approve call_42 --yes
  askance approve call_42 --digest sha256:9f2…  # for scripts: what was seen before
  askance approve call_42 --remember            # and accept the rules it offers
  askance approve call_42 --sign-key ann.key    # where the rule takes your own signature
  askance approve call_42 --remember --scope session --until 2h --uses 3
  askance approve call_42 --remember --rule "git push origin:*"
  askance approve call_42 --remember --budget args.cents=10000`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Approve", func(_ context.Context, call *message.Call) (message.Answer, error) {
				answer := message.Answer{Kind: message.AnswerApprove}
				key, err := sign.load()
				if err != nil {
					return answer, err
				}
				if key != nil {
					if answer.Signature, err = key.sign(call, time.Now()); err != nil {
						return answer, err
					}
				}
				return answer, memory.into(&answer, call, time.Now())
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
		Short: "Reject a call, and tell the model why",
		Example: `  askance reject call_42 --feedback "refund only the shipping"
  askance reject call_42 --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Reject", func(context.Context, *message.Call) (message.Answer, error) {
				return message.Answer{Kind: message.AnswerReject, Feedback: feedback}, nil
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	c.Flags().StringVar(&feedback, "feedback", "", "what the model is told")
	return c
}

func newAnswerCommand(env *environment) *cobra.Command {
	var d decision
	var output string
	c := &cobra.Command{
		Use:   "answer CALL --output TEXT",
		Short: "Answer for the tool: the text becomes the result, nothing runs",
		Example: `  askance answer call_42 --output "done by hand, ticket 17"
  askance answer call_42 --output @result.txt --yes
  date | askance answer call_42 --output - --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("output") {
				return usagef("--output is missing: it becomes the tool's result")
			}
			return decide(c.Context(), env, &d, "Answer for", func(context.Context, *message.Call) (message.Answer, error) {
				text, err := env.readText("--output", output, message.MaxOutputBytes)
				return message.Answer{Kind: message.AnswerForTool, Output: strings.TrimRight(text, "\n")}, err
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	c.Flags().StringVar(&output, "output", "", "the result: a text, @FILE, or - for standard input")
	return c
}

func newHandOverCommand(env *environment) *cobra.Command {
	var d decision
	var to, note string
	c := &cobra.Command{
		Use:   "hand-over CALL [--to NAME]",
		Short: "Leave a question to somebody else, with a note",
		Long: `Leaves a question to others: to the person named with --to, or to whoever else
may answer it. The question stays open, and its time goes on. You cannot approve
it afterwards, only reject it; an approval that you gave before is taken back.
Nobody may answer because of this who could not before.`,
		Example: `  askance hand-over call_42 --to bob --note "you know the customer"
  askance hand-over call_42 --note "I am related to the payee" --yes`,
		Args:              oneCall(&d.ad),
		ValidArgsFunction: env.completeCalls(message.ToolCallAsking),
		RunE: func(c *cobra.Command, _ []string) error {
			return decide(c.Context(), env, &d, "Hand over", func(context.Context, *message.Call) (message.Answer, error) {
				answer := message.Answer{Kind: message.AnswerAbstain, Note: note}
				if to != "" {
					answer.Kind, answer.To = message.AnswerHandOver, to
				}
				return answer, nil
			})
		},
	}
	env.cfg.bindClient(c)
	d.flags(c)
	c.Flags().StringVar(&to, "to", "", "who should answer; left out, you abstain")
	c.Flags().StringVar(&note, "note", "", "for the people who look next")
	return c
}
