package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

type listing struct {
	env             *environment
	cmd             *cobra.Command
	r               toolcall.ListRequest
	states, phases  []string
	sessions        []string
	since, until    string
	blocked, follow bool
	limit           int
}

func newListCommand(env *environment) *cobra.Command {
	l := &listing{env: env}
	c := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"calls", "ps", "requests"},
		Short:      "List open calls: what would run, the deadline, the agent and the rule",
		Long: `Lists the open calls of a space, the request with the nearest deadline first. The
status says where a call is: waiting (for earlier calls of its reply), asking (for
approval), ready, queued (for a worker), running, retrying, blocked (needs an operator),
or how it ended. Ids are shortened to their first letters, which other commands accept;
with --yes they need the complete id, which -o name prints.

A call is listed if it matches every filter; of several values of a filter, one is enough.
--watch follows the changes until you press Ctrl-C. -o wide adds the session, what the
call waits for, and what is risky about its tool; -o name prints only addresses, for other
commands. With --json each call also has its state, AgentScope's coarser classification.`,
		Example: `  askance list                                  # all open calls
  askance list --mine --watch                   # requests that wait for you
  askance list --phase blocked                  # calls that an operator must resolve
  askance list --tool bash --since 1h --sort -age -o wide
  askance list --all --session ticket-7 --json
  askance list --all --by ann --since 24h       # what ann decided
  askance list --mine -o name | xargs -r askance approve --yes`,
		Annotations: map[string]string{printsNames: "true"},
		Args:        noArgs,
		PreRunE:     func(*cobra.Command, []string) error { return l.check(time.Now()) },
		RunE:        func(c *cobra.Command, _ []string) error { return l.run(c.Context()) },
	}
	l.cmd = c
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringSliceVar(&l.phases, "phase", nil, "only calls in these phases: "+strings.Join(toolcall.PhaseWords(), ", "))
	f.StringSliceVar(&l.states, "state", nil, "only calls in these states: "+strings.Join(stateWords, ", "))
	f.BoolVar(&l.blocked, "blocked", false, "the same as --phase blocked")
	f.StringSliceVarP(&l.r.Tools, "tool", "t", nil, "only calls of these tools")
	f.StringSliceVar(&l.r.Agents, "agent", nil, "only calls of these agents")
	f.StringSliceVarP(&l.sessions, "session", "s", nil, "only calls of these sessions")
	f.StringVar((*string)(&l.r.Reply), "reply", "", "only calls of this reply")
	f.StringSliceVar(&l.r.Rules, "rule", nil, "only calls that these rules of the policy decided")
	f.BoolVarP(&l.r.Mine, "mine", "m", false, "only requests that you can respond to and have not responded to")
	f.StringVar(&l.r.By, "by", "", "only calls whose request this person responded to")
	f.StringVar(&l.r.Words, "search", "", "only calls with these words in an id, tool, summary, argument, agent or rule")
	f.StringVar(&l.since, "since", "", "only calls proposed at this time or later: 24h (ago), 2026-03-01 or 2026-03-01T12:00:00Z")
	f.StringVar(&l.until, "until", "", "only calls proposed before this time, in the same form")
	f.StringVar(&l.r.Sort, "sort", "", "order: "+strings.Join(toolcall.Sorts(), ", ")+"; -deadline and so on reverse it (default deadline, with --all proposed)")
	f.IntVarP(&l.limit, "limit", "L", 0, "most calls to list (default all)")
	f.BoolVarP(&l.r.All, "all", "a", false, "include finished calls")
	f.BoolVarP(&l.follow, "watch", "w", false, "follow the changes until you press Ctrl-C")
	noFiles := cobra.ShellCompDirectiveNoFileComp
	for flag, words := range map[string][]string{"phase": toolcall.PhaseWords(), "sort": toolcall.SortWords(), "state": stateWords} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, noFiles))
	}
	completeCallFlags(env, c, "tool", "agent", "session", "rule")
	return c
}

var stateWords = message.Words[message.ToolCallState]()

func (l *listing) check(now time.Time) (err error) {
	for _, s := range l.states {
		if err := checkWord("state", s, stateWords); err != nil {
			return err
		}
		l.r.States = append(l.r.States, message.ToolCallState(s))
	}
	if l.blocked {
		l.phases = append(l.phases, string(toolcall.PhaseBlocked))
	}
	for _, p := range l.phases {
		if err := checkWord("phase", p, toolcall.Phases()); err != nil {
			return err
		}
		l.r.Phases = append(l.r.Phases, toolcall.Phase(p))
	}
	if len(l.sessions) == 1 {
		l.r.Session = message.SessionID(l.sessions[0])
	} else {
		for _, s := range l.sessions {
			l.r.Sessions = append(l.r.Sessions, message.SessionID(s))
		}
	}
	if l.r.Since, l.r.Until, err = window(l.since, l.until, now); err != nil {
		return err
	}
	switch {
	case l.limit < 0:
		return usagef("--limit is %d, use a positive number", l.limit)
	case l.r.Sort != "" && !slices.Contains(toolcall.SortWords(), l.r.Sort):
		return usagef("--sort is %q, use %s, with - before it for the reverse", l.r.Sort, strings.Join(toolcall.Sorts(), ", "))
	}
	if l.r.Sort == "" && !l.r.All && !l.wantsFinished() {
		l.r.Sort = toolcall.SortDeadline
	}
	l.r.V = 1
	return nil
}

func (l *listing) wantsFinished() bool {
	return slices.Contains(l.r.Phases, toolcall.PhaseFinished) || slices.Contains(l.r.States, message.ToolCallFinished)
}

func (l *listing) role() toolcall.Role {
	if l.r.Mine {
		return toolcall.RoleApprover // only an approver has requests
	}
	return toolcall.RoleAuditor
}

func (l *listing) run(ctx context.Context) error {
	if l.follow {
		return l.watch(ctx)
	}
	env := l.env
	c, err := env.connect(ctx, l.role())
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := l.read(ctx, c)
	if err != nil {
		return err
	}
	if len(reply.Calls) == 0 && !env.json {
		text, err := l.emptyText(ctx, c)
		if err != nil {
			return err
		}
		if env.format == formatName {
			env.notef("%s", text)
			return nil
		}
		return env.print(reply, text)
	}
	return env.print(reply, l.text(reply.Calls))
}

// read reads all pages, and adds what each open approval request waits for.
func (l *listing) read(ctx context.Context, c engine.Client) (toolcall.ListReply, error) {
	r := l.r
	r.Limit = l.limit
	calls, err := engine.ListAll(ctx, c, r, l.limit)
	if l.limit > 0 {
		calls = calls[:min(len(calls), l.limit)]
	}
	out := toolcall.ListReply{Calls: calls}
	for _, c := range calls {
		if w, open := c.Waiting(time.Now()); open {
			out.Waiting = append(out.Waiting, w)
		}
	}
	return out, err
}

// emptyText says why a list is empty: there are no calls, a session is unknown, or no call matches.
func (l *listing) emptyText(ctx context.Context, c engine.Client) (string, error) {
	for _, s := range l.sessions {
		err := checkSession(ctx, l.env, c, message.SessionID(s))
		if errors.Is(err, message.ErrNotFound) {
			return fmt.Sprintf("There is no session %s. %s shows the sessions.\n", term.SafeLine(s), commandAgain(l.env, "list --all -o wide")), nil
		}
		if err != nil {
			return "", err
		}
	}
	var filters []string
	for _, name := range []string{"phase", "state", "blocked", "tool", "agent", "session", "reply", "rule", "by", "mine", "search", "since", "until"} {
		if f := l.cmd.Flags().Lookup(name); f.Changed {
			filters = append(filters, "--"+name)
		}
	}
	which, more := "open calls", ""
	if l.r.All || l.wantsFinished() {
		which = "calls"
	}
	if len(filters) == 0 {
		return "No " + which + ".\n", nil
	}
	if which == "open calls" {
		more = " --all includes finished calls."
	}
	return fmt.Sprintf("No %s match %s.%s\n", which, strings.Join(filters, ", "), more), nil
}

func (l *listing) text(calls []*toolcall.Call) string {
	if l.env.format != formatName {
		return callsTable(l.env.out, calls, l.env.format == formatWide, l.limit > 0, time.Now())
	}
	var b strings.Builder
	for _, c := range calls {
		b.WriteString(keyName(c.Key) + "\n")
	}
	return b.String()
}

// The widths of columns.
const (
	idWidth      = 16
	nameWidth    = 18
	wideWidth    = 48
	summaryWidth = 24 // at least
)

// narrowedBy lists the columns that a narrow screen omits, in this order.
var narrowedBy = []string{"AGENT", "RULE", "BY", "AGE", "TOOL"}

// callsTable lays out calls: the summary gets the width that the other columns leave.
// With partial there may be more calls, so no id is shortened.
func callsTable(out *term.Out, calls []*toolcall.Call, wide, partial bool, now time.Time) string {
	ids := shortIDs(calls, partial)
	heads := []string{"ID", "STATUS", "DUE", "AGE", "AGENT", "TOOL", "RULE"}
	ended := slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return !c.Open() })
	if ended {
		heads = append(heads, "BY")
	}
	rows := make([][]string, 0, len(calls))
	widths := make([]int, len(heads))
	for i, c := range calls {
		id := term.Clip(term.SafeName(ids[i]), 2*wideWidth)
		agent := term.Clip(term.SafeName(c.Agent), nameWidth)
		due, _ := c.Waiting(time.Now())
		row := []string{id, statusOf(c), asked.Until(due.Ends, now), asked.ShortSpan(now.Sub(c.ProposedAt)), agent, term.Clip(term.SafeLine(c.Tool), nameWidth), term.Clip(term.SafeLine(c.DecidingRule()), nameWidth)}
		if ended {
			row = append(row, term.Clip(asked.Deciders(c), nameWidth))
		}
		for n, text := range row {
			widths[n] = max(widths[n], ansi.StringWidth(text), len(heads[n]))
		}
		rows = append(rows, row)
	}
	left := out.Width()
	for _, w := range widths {
		left -= w + 2
	}
	for _, name := range narrowedBy {
		if wide || left >= summaryWidth {
			break
		}
		n := slices.Index(heads, name)
		if n < 0 {
			continue
		}
		left += widths[n] + 2
		heads, widths = slices.Delete(heads, n, n+1), slices.Delete(widths, n, n+1)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], n, n+1)
		}
	}
	heads = append(heads, "SUMMARY")
	if wide {
		left = 4 * wideWidth
		heads = append(heads, "RISK", "WAITS FOR", "SESSION/REPLY")
	}
	for i, c := range calls {
		rows[i] = append(rows[i], term.Clip(votesSoFar(c)+term.SafeLine(c.Summary), max(left, summaryWidth)))
		if wide {
			waits := ""
			if c.Open() {
				waits = term.Clip(waitsFor(c), wideWidth)
			}
			rows[i] = append(rows[i], strings.Join(c.Risk, ", "), waits, term.SafeLine(placeOf(c)))
		}
		rows[i][0], rows[i][1] = out.Name(rows[i][0]), phasePaint(out, c)(rows[i][1])
		due, _ := c.Waiting(time.Now())
		rows[i][2] = out.Due(due.Ends, now, func(s string) string { return s })(rows[i][2])
	}
	return tableText(out, heads, rows)
}

// shortIDs returns the shortest prefixes of ids that name the calls of a list. Calls that
// share an id are named with session and reply. With whole, no id is shortened.
func shortIDs(calls []*toolcall.Call, whole bool) []string {
	sorted := make([]string, 0, len(calls))
	for _, c := range calls {
		sorted = append(sorted, string(c.Call))
	}
	slices.Sort(sorted)
	out := make([]string, 0, len(calls))
	for _, c := range calls {
		id := string(c.Call)
		i, _ := slices.BinarySearch(sorted, id)
		same := 0
		for _, near := range []int{i - 1, i + 1} {
			if near >= 0 && near < len(sorted) {
				same = max(same, commonPrefix(id, sorted[near]))
			}
		}
		switch n := max(idWidth, same+1); {
		case i+1 < len(sorted) && sorted[i+1] == id:
			id = keyPath(c.Key)
		case !whole && n < len(id) && utf8.RuneStart(id[n]):
			id = id[:n]
		}
		out = append(out, id)
	}
	return out
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// statusOf is the phase of a call, or how it ended.
func statusOf(c *toolcall.Call) string {
	if c.Phase() != toolcall.PhaseFinished {
		return string(c.Phase())
	}
	word, _ := asked.Ended(c)
	return strings.ToLower(word)
}

// placeOf is the reply of a call, and the call within which it was made.
func placeOf(c *toolcall.Call) string {
	text := string(c.Session) + "/" + string(c.Reply)
	if c.Parent != nil {
		text += " in " + string(c.Parent.Call)
	}
	return text
}

func phasePaint(out *term.Out, c *toolcall.Call) func(string) string {
	switch c.Phase() {
	case toolcall.PhaseAsking, toolcall.PhaseBlocked:
		return out.Ask
	case toolcall.PhaseWaiting, toolcall.PhaseReady, toolcall.PhaseQueued, toolcall.PhaseRunning, toolcall.PhaseRetrying:
		return out.Work
	case toolcall.PhaseFinished:
		if c.Result != nil && c.Result.State == message.ToolResultSuccess {
			return out.Good
		}
	}
	return out.Bad
}
