package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

func newAuditReceiptCommand(env *environment) *cobra.Command {
	var ad address
	var output string
	c := &cobra.Command{
		Use:   "receipt CALL",
		Short: "Write a receipt: one file that proves the history of a call",
		Long: `Writes the event records of a call, each with its path to the root of a signed
checkpoint: the approval request, the responses and how their authors were
authenticated, the grants, the attempts, and the digest of the result. Records without
a signature are signed first. askance audit check verifies the file with only the
engine's public key.

A receipt does not contain text that rules redact. The engine signs what a redacted
record shows, so the receipt proves that as well.`,
		Example: `  askance audit receipt call_42 --output call_42.receipt
  askance audit receipt ticket-7/reply-1/call_42 > call_42.receipt`,
		Args:              oneCall(&ad),
		ValidArgsFunction: env.completeCalls(),
		RunE: func(c *cobra.Command, _ []string) error {
			return env.withCall(c.Context(), toolcall.RoleAuditor, &ad, func(l *link, call *toolcall.Call) error {
				r, err := bus.MakeReceipt(c.Context(), l.audit, call.Key)
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
					env.notef("Receipt of %s written to %s: %s.\n", term.SafeLine(keyPath(call.Key)), output, count(uint64(len(r.Records)), "record", "records"))
				}
				return err
			})
		},
	}
	env.cfg.bindClient(c)
	ad.flags(env, c)
	c.Flags().StringVar(&output, "output", "", "file to write (default standard output)")
	return c
}

func newAuditCheckCommand(env *environment) *cobra.Command {
	var keys keyFiles
	c := &cobra.Command{
		Use:   "check FILE|-",
		Short: "Verify a receipt without a server",
		Long: `Verifies a receipt of askance audit receipt: the signatures of the checkpoints, the
path of each record to them, the chain of the records, and the digests of the approval
requests, responses and grants. The records must also follow the state machine. A
receipt that fails any check is refused with exit code 6.

A receipt proves what the engine recorded. It does not prove that the tool did what
its result says, or that the engine's clock was right.`,
		Example: `  askance audit check call_42.receipt --key engine.pub
  askance audit receipt call_42 | askance audit check - --json`,
		Args: wantArgs(1, "one receipt file, or - for standard input"),
		RunE: func(_ *cobra.Command, args []string) error {
			set, retired, err := keys.load(env.files())
			if err != nil {
				return err
			}
			checked, err := checkReceipt(env, args[0], set, retired)
			if err != nil {
				return err
			}
			return env.print(checked, receiptText(env.out, checked))
		},
	}
	env.cfg.bindAs(c, &env.cfg.Data, "data folder whose engine.pub is used without --key")
	keys.flag(c)
	return c
}

func checkReceipt(env *environment, path string, set toolcall.KeySet, retired proof.Retired) (*proof.Checked, error) {
	b, err := readFile(env, "receipt", path, proof.MaxReceiptBytes)
	if err != nil {
		return nil, err
	}
	return proof.CheckReceipt(b, set, retired)
}

func receiptText(out *term.Out, c *proof.Checked) string {
	story := &c.Story
	s := newSheet(out, 9, fmt.Sprintf("%s %s, %s", out.Name(term.SafeLine(keyPath(c.Key))), out.Bold(term.SafeLine(story.Tool)), story.State))
	for _, q := range story.Requests {
		s.rowf("request", "%s %s", q.Digest, term.SafeLine(q.Request.Text))
		s.rowf("input", "%s", term.SafeLine(q.Request.Input))
	}
	for _, v := range story.Votes {
		s.rowf("response", "%s by %s at %s, on %s", v.Kind, out.Who(term.SafeLine(asked.Actor(v.By))), v.At.UTC().Format(time.RFC3339), v.Digest)
	}
	for _, g := range story.Grants {
		s.rowf("grant", "attempt %d%s, signed by key %s", g.Attempt, approversText(out, g.Approvals), g.KeyID)
	}
	for _, t := range story.Attempts {
		if t.Worker != "" {
			s.rowf("attempt", "%d, started by %s at %s", t.Number, out.Who(term.SafeLine(t.Worker)), t.StartedAt.UTC().Format(time.RFC3339))
		}
	}
	if story.ResultState != "" {
		s.rowf("result", "%s %s", story.ResultState, story.ResultDigest)
	}
	s.rowf("records", "%d, from %d to %d, signed with key %s", c.Count, c.First, c.Last, strings.Join(c.KeyIDs, ", "))
	proved := "Proved: the engine recorded exactly these steps in this order."
	if c.Redacted > 0 {
		proved = fmt.Sprintf("Proved: the engine recorded exactly these steps in this order, %s of them redacted by rules.", fmt.Sprint(c.Redacted))
	}
	s.line(out.Good(proved))
	for _, text := range unprovenTexts(c) {
		s.line(fmt.Sprintf("%s %s", out.Dim("Not proved:"), text))
	}
	return s.String()
}

func approversText(out *term.Out, approvals []toolcall.Approval) string {
	var b strings.Builder
	for _, by := range approvals {
		fmt.Fprintf(&b, ", approved by %s", out.Who(term.SafeLine(asked.Actor(by.By))))
	}
	return b.String()
}

func unprovenTexts(c *proof.Checked) []string {
	var out []string
	if !c.Ended {
		out = append(out, "how the call ended: it was still open.")
	}
	if !c.Whole {
		out = append(out, fmt.Sprintf("that no record is missing among the first %d, which an earlier release wrote without links.", c.Unchained+1))
	}
	return append(out, "that the tool did what its result says, and that the engine's clock was right. The owner of the engine's private key can write any receipt.")
}
