package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const severalHelp = `With several calls, or with a filter instead of calls, one confirmation lists what each
would run. Filters select open requests that you can respond to: --tool, --agent,
--session, --reply, --policy-rule, --mine. Each call gets its own response and output
line. If some fail, the exit code is 9; if all fail for one reason, the code of that one.`

// picks are the filters with which a command responds to several requests.
type picks struct {
	ad                *address // session and reply, which are filters without a call
	tools, agents, by []string
	mine              bool
}

func (p *picks) bind(c *cobra.Command, env *environment) {
	f := c.Flags()
	f.StringSliceVar(&p.tools, "tool", nil, "all requests of these tools")
	f.StringSliceVar(&p.agents, "agent", nil, "all requests of these agents")
	f.StringSliceVar(&p.by, "policy-rule", nil, "all requests of these rules of the policy")
	f.BoolVar(&p.mine, "mine", false, "all requests that you can respond to")
	completeCallFlags(env, c, "tool", "agent", "session", "policy-rule")
	f.Lookup("session").Usage = "session of the call; without a call: all requests of this session"
	f.Lookup("reply").Usage = "reply of the call; without a call: all requests of this reply"
}

// any reports whether a filter was given.
func (p *picks) any() bool { return len(p.tools)+len(p.agents)+len(p.by) > 0 || p.mine || p.ad != nil }

// check reads the arguments: calls or filters.
func (p *picks) check(d *responding, args []string) error {
	if len(args) == 0 && d.ad.session+d.ad.reply != "" {
		p.ad = &d.ad
	}
	switch {
	case len(args) == 0 && !p.any():
		return usagef("expected a call or a filter such as --tool; askance list shows the open calls, and askance help addresses how to name one")
	case len(args) > 0 && p.any():
		return usagef("name calls or pass filters, not both")
	case (len(args) > 1 || p.any()) && d.digest != "":
		return usagef("--digest is for one call: it names what you reviewed")
	case (len(args) > 1 || p.any()) && d.memory.remember:
		return usagef("--remember is for one call: approve the others one by one")
	}
	if slices.Contains(args, "") {
		return usagef("expected a call, got an empty argument; see askance help addresses")
	}
	return nil
}

// find returns the calls that the arguments or filters name, each once.
func (p *picks) find(ctx context.Context, c engine.Client, d *responding, args []string) ([]*toolcall.Call, error) {
	if p.any() {
		calls, err := engine.ListAll(ctx, c, toolcall.ListRequest{
			V: 1, Session: message.SessionID(d.ad.session), Reply: message.ReplyID(d.ad.reply), Phases: []toolcall.Phase{toolcall.PhaseAsking},
			Tools: p.tools, Agents: p.agents, Rules: p.by, Mine: true, Sort: toolcall.SortDeadline,
		}, 0)
		if err == nil && len(calls) == 0 {
			err = &message.Error{Code: message.CodeNotFound, Op: "find calls", What: "no open request that you can respond to matches", Hint: commandAgain(d.env, "list") + " shows the open requests"}
		}
		return calls, err
	}
	var out []*toolcall.Call
	have := map[toolcall.Key]bool{}
	for _, arg := range args {
		ad := d.ad
		ad.arg = arg
		call, err := ad.find(ctx, c)
		if err != nil {
			return nil, err
		}
		if !have[call.Key] {
			have[call.Key] = true
			out = append(out, call)
		}
	}
	return out, nil
}

// answered is the outcome of one of several responses.
type answered struct {
	toolcall.Key
	Call  *toolcall.Call `json:"call,omitzero"`
	Error *errorBody     `json:"error,omitzero"`
	err   error
}

// respondToMany sends one response to each call, after one confirmation that lists all.
func (d *responding) respondToMany(ctx context.Context, l *link, args []string) error {
	env := d.env
	calls, err := d.picks.find(ctx, l, d, args)
	if err != nil {
		return err
	}
	if !d.isConfirmed() {
		env.notef("%s", requestsTable(env.err, calls))
		if d.kind.sends.Kind == toolcall.ResponseApprove {
			for i, id := range shortIDs(calls, false) {
				if asked.IsShortened(calls[i]) { // what runs is on the screen
					env.notef("\nArguments of %s:\n%s\n", env.err.Name(term.SafeLine(id)), term.Indent(asked.Laid(calls[i].Input), "  "))
				}
			}
			env.notef("Exactly these calls run.\n")
		}
		if err := d.confirm(ctx, fmt.Sprintf("%s these %s", d.kind.verb, asked.Count(len(calls), "call"))); err != nil {
			return err
		}
	}
	var all []answered
	var text strings.Builder
	var failed []error
	for _, call := range calls {
		one := answered{Key: call.Key}
		if one.err = d.mustAsk(call); one.err == nil {
			var response toolcall.Response
			if response, one.err = d.response(ctx, call); one.err == nil {
				one.Call, one.err = l.SubmitResponse(ctx, response)
			}
		}
		if one.err != nil {
			body := errorBodyOf(env, one.err)
			one.Error, one.Call = &body, nil
			failed = append(failed, one.err)
			what := "failed:"
			if asked.IsUnsure(one.err) {
				what = "outcome unknown, see " + commandAgain(env, "show "+addressWord(call.Key)) + ":"
			}
			fmt.Fprintf(&text, "%s: %s %s\n", env.out.Name(term.SafeLine(string(call.Call))), env.out.Bad(what), term.SafeLine(one.err.Error()))
		} else {
			text.WriteString(outcomeText(env.out, one.Call) + "\n")
		}
		all = append(all, one)
		if ctx.Err() != nil {
			break
		}
	}
	if rest := len(calls) - len(all); rest > 0 {
		fmt.Fprintf(&text, "%s not sent\n", asked.Count(rest, "response"))
		failed = append(failed, context.Cause(ctx))
	}
	if err := env.print(map[string]any{"results": all}, text.String()); err != nil {
		return err
	}
	return partialFailure(failed, len(calls))
}

// partialError says how many of several calls failed.
type partialError struct{ failed, of, exit int }

func (e partialError) Error() string { return fmt.Sprintf("%d of %d calls failed", e.failed, e.of) }

// partialFailure combines the failures of several calls into one error.
func partialFailure(failed []error, of int) error {
	if len(failed) == 0 {
		return nil
	}
	for _, err := range failed {
		if errors.Is(err, context.Canceled) || errors.Is(err, errSignal) {
			return err
		}
		if len(failed) < of || ExitCode(err) != ExitCode(failed[0]) {
			return partialError{len(failed), of, ExitPartial}
		}
	}
	return partialError{of, of, ExitCode(failed[0])}
}

func requestsTable(out *term.Out, calls []*toolcall.Call) string {
	var rows [][]string
	for i, id := range shortIDs(calls, false) {
		c := calls[i]
		rows = append(rows, []string{out.Name(term.SafeLine(id)), term.Clip(term.SafeLine(c.Agent), nameWidth), term.Clip(term.SafeLine(c.Tool), nameWidth), term.SafeLine(c.Summary), out.Bad(strings.Join(c.Risk, ", "))})
	}
	return tableText(out, []string{"ID", "AGENT", "TOOL", "WOULD RUN", "RISK"}, rows)
}
