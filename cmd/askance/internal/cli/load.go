package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/lipgloss/table"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message"
)

func (a *app) load() *cobra.Command {
	c := &cobra.Command{
		Use:     "load",
		Aliases: []string{"reviewers"},
		Short:   "Show what each reviewer has to do, and how they answer",
		Long: `Shows for each person and group: open questions that wait for their word, how many
they have answered, the share of approvals, the median time from question to answer
(to within 5 %), and the share of answers within two seconds, which nobody can have
read. It counts from the beginning of the journal. A group's answers are those of
its members to questions that ask the group.

askance serve --reviewer-per-minute and --reviewer-max-open set limits; askance
serve --metrics shows the same to Prometheus.`,
		Example: `  askance load
  askance load --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := a.connect(c.Context(), message.RoleAuditor)
			if err != nil {
				return err
			}
			defer l.Close()
			r, err := l.Load(c.Context(), message.LoadRequest{V: 1})
			if err != nil {
				return err
			}
			if a.json {
				return a.document(r)
			}
			return a.printf("%s", a.loadText(r))
		},
	}
	a.at.flags(c)
	return c
}

// loadText is the load as a table, and what stands beside it.
func (a *app) loadText(r message.LoadReply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d open questions, %d of them for any approver\n", r.Open, r.Unassigned)
	if l := r.Limits; l.PerMinute > 0 || l.MaxOpen > 0 {
		fmt.Fprintf(&b, "limits: %s; %d answers refused by this engine\n", limitsText(l), r.Refused)
	}
	if len(r.People)+len(r.Groups) == 0 {
		return b.String() + "Nobody has answered, and no question names anybody.\n"
	}
	t := table.New().Border(lipgloss.HiddenBorder()).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderHeader(false).BorderColumn(false).
		StyleFunc(func(int, int) lipgloss.Style { return lipgloss.NewStyle().PaddingRight(2) })
	var head []string
	for _, h := range []string{"REVIEWER", "OPEN", "ANSWERED", "APPROVED", "MEDIAN", "WITHIN 2S", "LAST MINUTE", "PASSED ON"} {
		head = append(head, a.out.Dim(h))
	}
	t.Headers(head...)
	for _, p := range r.People {
		t.Row(a.loadRow(a.out.Who(term.Clip(reveal.Line(p.Name), 32)), p, fmt.Sprint(p.LastMinute))...)
	}
	for _, g := range r.Groups {
		t.Row(a.loadRow("group "+a.out.Name(term.Clip(reveal.Line(g.Name), 32)), g, "-")...)
	}
	for line := range strings.Lines(t.Render() + "\n") {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	if r.Others > 0 {
		fmt.Fprintf(&b, "and %d more, who are not kept apart\n", r.Others)
	}
	return b.String()
}

// hasty is the share of answers within two seconds from which on it is painted.
const hasty = 0.5

func (a *app) loadRow(name string, r message.ReviewerLoad, lastMinute string) []string {
	approved, median, fast := "-", "-", "-"
	if r.Answered > 0 {
		approved = percent(r.ApproveRate())
		median = took(time.Duration(r.MedianMS) * time.Millisecond)
		if fast = percent(r.FastShare()); r.FastShare() >= hasty {
			fast = a.out.Bad(fast)
		}
	}
	return []string{name, fmt.Sprint(r.Open), fmt.Sprint(r.Answered), approved, median, fast, lastMinute, fmt.Sprint(r.Passed)}
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// took is a duration with as many digits as five per cent are worth.
func took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	}
	return age(d)
}

func limitsText(l message.ReviewerLimits) string {
	var out []string
	if l.PerMinute > 0 {
		out = append(out, fmt.Sprintf("%d answers a minute", l.PerMinute))
	}
	if l.MaxOpen > 0 {
		out = append(out, fmt.Sprintf("nothing handed over to who has %d open", l.MaxOpen))
	}
	return strings.Join(out, ", ")
}
