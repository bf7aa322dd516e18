package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// proposing is one run of askance call.
type proposing struct {
	env       *environment
	r         toolcall.ProposeRequest
	input, id string // as given
	noWait    bool
}

func newCallCommand(env *environment) *cobra.Command {
	p := &proposing{env: env}
	c := &cobra.Command{
		Use:        "call TOOL",
		SuggestFor: []string{"propose", "run", "request", "try"},
		Short:      "Propose a call as an agent does, and wait for its result",
		Long: `Proposes one call of a tool: the policy decides, people approve it if the policy asks,
and the engine or a worker runs it. The result goes to standard output, and what the
call waits for to standard error. Try a policy, a tool or a worker with it.

Ctrl-C ends the waiting, not the call: askance interrupt ends the call. --reply and
--id name the call, so that repeating the command does not run it again.

Exits with code 6 if the call was not allowed, and with code 1 if the tool failed.`,
		Example: `  askance call refund --args '{"order": "A-1", "cents": 900}'
  askance call refund --args @call.json --no-wait --json
  askance call refund --args @call.json --reply job-17 --id refund`,
		Args:              wantArgs(1, `one tool, and its arguments, for instance: askance call refund --args '{"order": "A-7"}'`),
		ValidArgsFunction: completeTools(env),
		PreRunE: func(_ *cobra.Command, args []string) error {
			text, err := env.readText("--args", p.input, toolcall.MaxInputBytes)
			p.r.V, p.r.Calls = 1, []message.ToolCallBlock{{Name: args[0], Input: strings.TrimSpace(text)}}
			return err
		},
	}
	env.cfg.bindClient(c)
	f := c.Flags()
	f.StringVar(&p.input, "args", "{}", "arguments of the call: a JSON object, @FILE, or - for standard input")
	f.StringVar((*string)(&p.r.Session), "session", "", "session of the call (default cli-NAME, with the name of --as)")
	f.StringVar((*string)(&p.r.Reply), "reply", "", "reply of the call (default a new one)")
	f.StringVar(&p.id, "id", "", "id of the call (default a new one)")
	f.StringVar(&p.r.Agent, "agent", "", "agent that proposes the call")
	f.BoolVar(&p.noWait, "no-wait", false, "do not wait for the result")
	c.RunE = connected(env, toolcall.RoleRuntime, func(ctx context.Context, l *link, _ []string) error { return p.run(ctx, l) })
	return c
}

func (p *proposing) run(ctx context.Context, l *link) error {
	p.r.Session = cmp.Or(p.r.Session, message.SessionID("cli-"+p.env.cfg.As))
	p.r.Reply = cmp.Or(p.r.Reply, message.ReplyID(uuid.NewString()))
	p.id = cmp.Or(p.id, "call_"+uuid.NewString()[:8])
	p.r.Calls[0].ID = message.CallID(p.id)
	call, stopped := &toolcall.Call{Key: toolcall.Key{Session: p.r.Session, Reply: p.r.Reply, Call: message.CallID(p.id)}, Tool: p.r.Calls[0].Name}, "The request may be recorded."
	reply, err := l.Propose(ctx, p.r)
	if me, ok := errors.AsType[*message.Error](err); ok && me.Code == message.CodeUnknownOutcome {
		err = withHint(me, "to try again, add"+p.idFlags()+": another id is another call")
	}
	switch unsure := errors.Is(err, message.ErrUnknownOutcome) || errors.Is(err, message.ErrUnavailable); {
	case err == nil:
		call, stopped = reply.Calls[0], "The call stays open."
		if !p.noWait {
			call, err = p.env.waitForCall(ctx, l, call)
		}
	case p.env.json || !unsure || !errors.Is(context.Cause(ctx), errSignal):
		return err
	}
	if err != nil && errors.Is(context.Cause(ctx), errSignal) {
		err = errSignal
		p.noteStopped(call, stopped)
	}
	if err == nil || p.env.json { // a script needs the ids of a call that it cannot wait for
		env := p.env
		err = cmp.Or(err, env.print(call, resultOrPhase(env.out, call)))
	}
	if err != nil {
		return err
	}
	err = callError(p.env, call)
	if me, ok := errors.AsType[*message.Error](err); ok && call.Cause == string(toolcall.CauseRefuse) {
		if info, err := l.Info(ctx); err == nil && !slices.Contains(info.Tools, call.Tool) {
			me.What += didYouMean("", spelling.Nearest(call.Tool, info.Tools))
		}
	}
	return err
}

// idFlags are the flags that name this call again.
func (p *proposing) idFlags() string {
	return fmt.Sprintf(" --session %s --reply %s --id %s", spelling.ShellWord(string(p.r.Session)), spelling.ShellWord(string(p.r.Reply)), spelling.ShellWord(p.id))
}

// noteStopped says how to wait for the call again, and how to end it.
func (p *proposing) noteStopped(call *toolcall.Call, stopped string) {
	if p.env.json {
		return
	}
	again := fmt.Sprintf("call %s --args %s%s", spelling.ShellWord(call.Tool), spelling.ShellWord(p.input), p.idFlags())
	if p.r.Agent != "" {
		again += " --agent " + spelling.ShellWord(p.r.Agent)
	}
	p.env.notef("Stopped waiting. %s\n  wait again: %s\n  end it:     %s\n", stopped, term.Safe(commandAgain(p.env, again)), commandAgain(p.env, "interrupt "+addressWord(call.Key)))
}

// phaseLook is how long the engine holds one request of a wait: a new phase is noted as late
// as that.
const phaseLook = time.Second

// waitForCall waits until a call is finished, and notes each phase on standard error.
func (env *environment) waitForCall(ctx context.Context, l *link, call *toolcall.Call) (*toolcall.Call, error) {
	var noted toolcall.Phase
	for call.Open() {
		if phase := call.Phase(); phase != noted && !env.json {
			noted = phase
			env.notef("%s\n", env.err.Dim(string(phase)+": "+waitsFor(call)))
			if phase == toolcall.PhaseAsking {
				env.notef("%s\n", env.err.Dim("decide with "+commandLineFor(env, "approve "+addressWord(call.Key))))
			}
		}
		out, err := l.Wait(ctx, toolcall.WaitRequest{V: 1, Session: call.Session, Reply: call.Reply, Calls: []message.CallID{call.Call}, TimeoutMS: phaseLook.Milliseconds()})
		if err != nil {
			return call, err
		}
		call = out.Calls[0]
	}
	return call, nil
}

// resultOrPhase is the tool's result, or what an open call waits for.
func resultOrPhase(out *term.Out, call *toolcall.Call) string {
	if call.Open() || call.Result == nil {
		return outcomeText(out, call) + "\n"
	}
	text := term.Safe(asked.Output(call.Result.Output))
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// callError is how the command ends: nil for an open call and for a success.
func callError(env *environment, call *toolcall.Call) error {
	word, good := asked.Ended(call)
	switch {
	case call.Open() || good:
		return nil
	case call.Result != nil && call.Result.State == message.ToolResultDenied, call.Cause == string(toolcall.CauseRefuse):
		return &message.Error{Code: message.CodeForbidden, Op: "call", What: "the call was not allowed: " + strings.ToLower(word), Hint: commandAgain(env, "show "+addressWord(call.Key)+" --explain") + " tells why"}
	}
	return fmt.Errorf("the call did not succeed: %s; %s shows its history", strings.ToLower(word), commandAgain(env, "show "+addressWord(call.Key)))
}
