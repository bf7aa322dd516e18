package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/reveal"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

func newLoadCommand(env *environment) *cobra.Command {
	var r toolcall.LoadRequest
	var since, until string
	c := &cobra.Command{
		Use:     "load",
		Aliases: []string{"reviewers"},
		Short:   "Show the workload and the response statistics of each reviewer",
		Long: `Shows for each person and group: open approval requests, the number of responses, the
share of approvals, the median response time (within 5%), and the share of responses
within two seconds, which is too short to read a request. The responses of a group are
those of its members to requests that ask the group.

--since and --until limit the responses to a window; each takes a time, a day, or a
duration before now. Open requests and the responses of the last minute and hour are
always current.

askance serve limits reviewers with --reviewer-per-minute, --reviewer-per-hour and
--reviewer-max-open, and exports the same figures to Prometheus with --metrics.`,
		Example: `  askance load
  askance load --since 24h
  askance load --since 2026-03-01 --until 2026-04-01T00:00:00Z --json`,
		Args: noArgs,
		PreRunE: func(*cobra.Command, []string) (err error) {
			r, err = loadWindow(since, until, time.Now())
			return err
		},
		RunE: operation[toolcall.LoadRequest, toolcall.LoadReply]{role: toolcall.RoleAuditor, call: api.Load.Call, request: always(&r), text: loadText}.run(env),
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&since, "since", "", "only responses at this time or later: 24h (ago), 2026-03-01 or 2026-03-01T12:00:00Z")
	c.Flags().StringVar(&until, "until", "", "only responses before this time, in the same form")
	return c
}

func loadWindow(since, until string, now time.Time) (toolcall.LoadRequest, error) {
	from, to, err := window(since, until, now)
	r := toolcall.LoadRequest{V: 1, Since: from, Until: to}
	if err == nil && r.Validate() != nil {
		err = usagef("--since must be earlier than --until")
	}
	return r, err
}

func window(since, until string, now time.Time) (from, to time.Time, err error) {
	if from, err = ago("since", since, now); err == nil {
		to, err = ago("until", until, now)
	}
	return from, to, err
}

// ago reads an instant: a duration before now, the start of a local day, or a time. "" is none.
func ago(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := permission.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d).UTC().Round(0), nil
	}
	if day, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return day.UTC(), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, usagef("--%s is %q, use a duration such as 24h or 7d, a day such as 2026-03-01, or a time such as 2026-03-01T12:00:00Z", flag, text)
	}
	return at.UTC(), nil
}

func loadText(out *term.Out, _ toolcall.LoadRequest, r toolcall.LoadReply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d for any approver\n", asked.Count(r.Open, "open approval request"), r.Unassigned)
	if text := limitsText(r.Limits); text != "" {
		fmt.Fprintf(&b, "limits for one reviewer: %s; this engine refused %d responses\n", text, r.Refused)
	}
	if text := windowText(r); text != "" {
		b.WriteString(text + "\n")
	}
	if len(r.People)+len(r.Groups) == 0 {
		return b.String() + "There are no responses yet, and no open approval request names a person or group.\n"
	}
	heads := []string{"REVIEWER", "OPEN", "RESPONSES", "APPROVED", "MEDIAN", "WITHIN 2S", "DELEGATED"}
	var rows [][]string
	for _, p := range r.People {
		rows = append(rows, loadRow(out, out.Who(term.Clip(reveal.Line(p.Name), 32)), p))
	}
	for _, g := range r.Groups {
		rows = append(rows, loadRow(out, "group "+out.Name(term.Clip(reveal.Line(g.Name), 32)), g))
	}
	if r.Limits.PerMinute > 0 || r.Limits.PerHour > 0 {
		heads = append(heads, "LAST MIN", "LAST HOUR")
		for i := range rows {
			last := []string{"-", "-"} // limits are for people
			if i < len(r.People) {
				last = []string{fmt.Sprint(r.People[i].LastMinute), fmt.Sprint(r.People[i].LastHour)}
			}
			rows[i] = append(rows[i], last...)
		}
	}
	b.WriteString(tableText(out, heads, rows))
	if r.Others > 0 {
		fmt.Fprintf(&b, "and %d more reviewers in total\n", r.Others)
	}
	return b.String()
}

// hasty is the share of responses within two seconds that is highlighted.
const hasty = 0.5

func loadRow(out *term.Out, name string, r toolcall.ReviewerLoad) []string {
	approved, median, fast := "-", "-", "-"
	if r.Answered > 0 {
		approved = percent(r.ApproveRate())
		median = asked.Took(time.Duration(r.MedianMS) * time.Millisecond)
		if fast = percent(r.FastShare()); r.FastShare() >= hasty {
			fast = out.Bad(fast)
		}
	}
	return []string{name, fmt.Sprint(r.Open), fmt.Sprint(r.Answered), approved, median, fast, fmt.Sprint(r.Passed)}
}

func percent(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

func windowText(r toolcall.LoadReply) string {
	var out []string
	if !r.Since.IsZero() {
		out = append(out, "from "+r.Since.Local().Format(time.DateTime))
	}
	if !r.Until.IsZero() {
		out = append(out, "before "+r.Until.Local().Format(time.DateTime))
	}
	if len(out) == 0 {
		return ""
	}
	return "responses " + strings.Join(out, " and ")
}

func limitsText(l toolcall.ReviewerLimits) string {
	var out []string
	if l.PerMinute > 0 {
		out = append(out, fmt.Sprintf("%d responses a minute", l.PerMinute))
	}
	if l.PerHour > 0 {
		out = append(out, fmt.Sprintf("%d responses an hour", l.PerHour))
	}
	if l.MaxOpen > 0 {
		out = append(out, fmt.Sprintf("%d open requests", l.MaxOpen))
	}
	return strings.Join(out, ", ")
}
