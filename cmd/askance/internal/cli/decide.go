package cli

import (
	"context"
	"errors"
	"fmt"

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
	head := out.Name(term.SafeLine(string(c.Call))) + " is " + statePaint(out, c)(string(c.State))
	switch {
	case c.State == message.ToolCallAsking:
		return head + ": " + stillAsksText(c)
	case c.State == message.ToolCallFinished:
		return head + ": " + waitsFor(c)
	}
	return head + ", it waits for " + waitsFor(c)
}
