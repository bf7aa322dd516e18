package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

func newAuditReceiptCommand(env *environment) *cobra.Command {
	var ad address
	var output string
	c := &cobra.Command{
		Use:   "receipt CALL",
		Short: "Write one file that proves what became of a call, without a server",
		Long: `Writes the call's facts as they were stored, each with its way to the root of a
signed checkpoint: what was asked, who answered and how they were authenticated, the
engine's grants, the attempts, the digest of the result. What is not signed yet is
signed first. askance audit check reads the file with nothing but the engine's public
key.

What rules redact is not in a receipt. The engine said as it stored a fact what may be
shown of it, so that this is proved like everything else.`,
		Example: `  askance audit receipt call_42 --output call_42.receipt
  askance audit receipt ticket-7/reply-1/call_42 > call_42.receipt`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(),
		RunE: func(c *cobra.Command, _ []string) error {
			return env.withCall(c.Context(), message.RoleAuditor, &ad, func(l *link, call *message.Call) error {
				r, err := makeReceipt(c.Context(), l.audit, call.Key)
				if err != nil {
					return err
				}
				b, err := r.Encode()
				if err != nil {
					return err
				}
				err = env.writeOutput(output, func(w io.Writer) error {
					_, err := w.Write(append(b, '\n'))
					return err
				})
				if err == nil && output != "" {
					env.notef("receipt of %s written to %s: %s\n", term.SafeLine(keyPath(call.Key)), output, count(uint64(len(r.Facts)), "fact", "facts"))
				}
				return err
			})
		},
	}
	env.cfg.bindClient(c)
	ad.flags(c)
	c.Flags().StringVar(&output, "output", "", "file to write (default standard output)")
	return c
}

func makeReceipt(ctx context.Context, l auditor, key message.Key) (*proof.Receipt, error) {
	facts, err := bus.CallRecords(ctx, l, key)
	if err != nil {
		return nil, err
	}
	seqs := make([]uint64, len(facts))
	for i := range facts {
		bus.RedactRecord(&facts[i]) // from a folder it comes whole
		seqs[i] = facts[i].Seq
	}
	if last, err := l.Checkpoint(ctx); err != nil || last == nil {
		return nil, err
	}
	sealed, err := bus.Covering(ctx, l, seqs)
	if err != nil {
		return nil, err
	}
	return proof.MakeReceipt(key, facts, sealed, time.Now().UTC().Round(0))
}

func newAuditCheckCommand(env *environment) *cobra.Command {
	var keys keyFiles
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a receipt, without a server",
		Long: `Checks a receipt that askance audit receipt wrote: signatures of the checkpoints, each
fact's place under them, the chain of the facts, the digests of the questions, that
votes and grants are about these, and that the facts are ones that the machine could
have written. Whatever does not fit, the receipt is refused, with exit code 6.

A receipt proves what the engine recorded, as true as the engine's key and clock: not
that the tool did what its result says, and not when the server stored a fact.`,
		Example: `  askance audit check call_42.receipt --key engine.pub
  askance audit check call_42.receipt --key engine.pub --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one receipt, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			set, retired, err := keys.load(env.cfg.dir())
			if err != nil {
				return err
			}
			checked, err := checkReceipt(args[0], set, retired)
			if err != nil {
				return err
			}
			if env.json {
				return env.printDocument(checked)
			}
			return env.printf("%s", receiptText(env.out, checked))
		},
	}
	env.cfg.bindAs(c, &env.cfg.Data, "data folder whose engine.pub is used without --key")
	keys.flag(c)
	return c
}

func checkReceipt(path string, keys message.KeySet, retired proof.Retired) (*proof.Checked, error) {
	b, err := textfile.ReadHanded("receipt", path, proof.MaxReceiptBytes)
	if err != nil {
		return nil, err
	}
	r, err := proof.DecodeReceipt(b)
	if err != nil {
		return nil, err
	}
	checked, err := r.Check(keys, retired)
	if err != nil {
		return nil, err
	}
	if _, err := toolcall.Replay(checked.Facts); err != nil {
		return nil, &message.Error{Code: message.CodeForbidden, Op: "check receipt", What: "the facts are not ones that the machine could have written", Err: err}
	}
	return checked, nil
}

// receiptText says in words what a receipt proves and what not.
func receiptText(out *term.Out, c *proof.Checked) string {
	var b strings.Builder
	row := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %s %s\n", out.Dim(fmt.Sprintf("%-9s", label)), fmt.Sprintf(format, args...))
	}
	s := &c.Story
	fmt.Fprintf(&b, "%s %s, %s\n", out.Name(term.SafeLine(keyPath(c.Key))), out.Bold(term.SafeLine(s.Tool)), s.State)
	for _, q := range s.Questions {
		row("question", "%s %s", q.Digest, term.SafeLine(q.Question.Text))
		row("input", "%s", term.SafeLine(q.Question.Input))
	}
	for _, v := range s.Votes {
		row("vote", "%s by %s at %s, on %s", v.Kind, out.Who(term.SafeLine(asked.Actor(v.By))), v.At.UTC().Format(time.RFC3339), v.Digest)
	}
	for _, g := range s.Grants {
		row("grant", "attempt %d%s, signed by key %s", g.Attempt, approversText(out, g.Approvals), g.KeyID)
	}
	for _, t := range s.Attempts {
		if t.Worker != "" {
			row("attempt", "%d, started by %s at %s", t.Number, out.Who(term.SafeLine(t.Worker)), t.StartedAt.UTC().Format(time.RFC3339))
		}
	}
	if s.ResultState != "" {
		row("result", "%s %s", s.ResultState, s.ResultDigest)
	}
	row("facts", "%d, at %d to %d, under checkpoints of key %s", c.Count, c.First, c.Last, strings.Join(c.KeyIDs, ", "))
	proved := "Proved: the engine recorded exactly this, in this order."
	if c.Redacted > 0 {
		proved = fmt.Sprintf("Proved: the engine recorded exactly this, in this order, and what rules hide of %s.", count(uint64(c.Redacted), "fact", "facts"))
	}
	fmt.Fprintf(&b, "%s\n", out.Good(proved))
	for _, text := range limits(c) {
		fmt.Fprintf(&b, "%s %s\n", out.Dim("Not proved:"), text)
	}
	return b.String()
}

// approversText names those whose consent a grant repeats.
func approversText(out *term.Out, approvals []message.Approval) string {
	var b strings.Builder
	for _, by := range approvals {
		fmt.Fprintf(&b, ", approved by %s", out.Who(term.SafeLine(asked.Actor(by.By))))
	}
	return b.String()
}

// limits says what a receipt does not prove.
func limits(c *proof.Checked) []string {
	var out []string
	if !c.Ended {
		out = append(out, "how it goes on; the call had not ended.")
	}
	if !c.Whole {
		out = append(out, fmt.Sprintf("that no fact is missing among the first %d, which an earlier release wrote without links.", c.Unchained+1))
	}
	return append(out, "that the tool did what its result says, and that the engine's clock was right. Whoever has the engine's private key can write such a receipt.")
}
