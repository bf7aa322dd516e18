package agenthook

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agenthook/dialect"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// gate decides about one event.
type gate struct {
	c          engine.Client
	feeds      *gateway.Feeds
	ev         *dialect.Event
	o          Options
	invocation message.CallID // the id of a call that has none from the agent
	public     string
	about      string // the holder whose call a prompt is about; "": the event's own call
	// waiter tells this request from others about the same call; "": it has claimed no call.
	waiter string
}

func (g *gate) session() message.SessionID { return message.SessionID(g.ev.Session) }

// id returns the id of the event's call: the agent's, or the invocation's.
func (g *gate) id() message.CallID {
	return cmp.Or(message.CallID(g.ev.Call), g.invocation)
}

// key returns the key of the event's call. Calls of one prompt are one reply, so that a request
// about one of them can also answer the others.
func (g *gate) key() toolcall.Key {
	return toolcall.Key{Session: g.session(), Reply: message.ReplyID(cmp.Or(g.ev.Turn, string(g.id()))), Call: g.id()}
}

func (g *gate) decide(ctx context.Context) (dialect.Verdict, error) {
	switch {
	case g.ev.Kind == dialect.After && !g.o.DryRun:
		return dialect.Verdict{}, g.report(ctx)
	case g.ev.CwdErr != nil:
		return dialect.Verdict{}, g.ev.CwdErr
	case g.o.DryRun:
		return g.preview(ctx)
	}
	call, err := g.enter(ctx)
	if err != nil {
		return dialect.Verdict{}, err
	}
	wait, cancel := context.WithTimeout(ctx, g.o.Hold)
	defer cancel()
	waited := !isDecided(call)
	call, err = g.await(wait, call)
	if isDecided(call) {
		return g.finish(ctx, call, waited)
	}
	// The agent stops waiting. A later call with the same arguments may claim this one, unless its
	// release cannot be recorded.
	releaseErr := g.release(context.WithoutCancel(ctx), call)
	switch {
	case ctx.Err() != nil:
		return dialect.Verdict{}, errors.Join(context.Cause(ctx), releaseErr)
	case wait.Err() == nil:
		return dialect.Verdict{}, errors.Join(err, releaseErr)
	}
	return dialect.Verdict{Behavior: message.BehaviorDeny, Reason: g.waitingText(call)}, nil
}

// enter returns the call of the event, which it proposes if there is none.
func (g *gate) enter(ctx context.Context) (*toolcall.Call, error) {
	call, err := g.find(ctx)
	if err == nil && call == nil {
		call, err = g.propose(ctx)
	}
	return call, err
}

// finish returns what a decided call means for the agent, and begins the call if it may run. After
// a wait, another agent's call can be the holder.
func (g *gate) finish(ctx context.Context, c *toolcall.Call, waited bool) (dialect.Verdict, error) {
	if _, err := dialect.Encode(g.ev, g.verdict(c)); err != nil { // the agent cannot run what was approved
		return dialect.Verdict{}, err
	}
	var err error
	if waited && c.Open() {
		err = g.keep(ctx, c)
	}
	begun := c
	if err == nil {
		begun, err = g.begin(ctx, c)
	}
	if err != nil && !errors.Is(err, message.ErrSuperseded) { // a later call can begin it
		err = errors.Join(err, g.release(context.WithoutCancel(ctx), c))
	}
	if err != nil {
		return dialect.Verdict{}, err
	}
	return g.verdict(begun), nil
}

// begin records that the agent runs the call if it may, and returns the call as it is then. The
// claim is the holder, which a repeated event has, too: it gets the same answer.
func (g *gate) begin(ctx context.Context, c *toolcall.Call) (*toolcall.Call, error) {
	if c.State == message.ToolCallAllowed { // an engine is about to submit it
		out, err := g.c.Wait(ctx, toolcall.WaitRequest{Session: c.Session, Reply: c.Reply, Calls: []message.CallID{c.Call}, Until: toolcall.UntilRunnable})
		if err != nil || len(out.Calls) != 1 {
			return nil, cmp.Or(err, errors.New("the reply has no call"))
		}
		c = out.Calls[0]
	}
	if !c.Open() || c.Blocked.NeedsOperator() {
		return c, nil
	}
	now, err := g.c.Begin(ctx, toolcall.BeginRequest{Key: c.Key, Claim: g.holder()})
	if known := toolcall.CallOf(err); known != nil && (!known.Open() || known.Blocked.NeedsOperator()) {
		return known, nil
	}
	return now, err
}

// find returns the call of the event: one with the same id, or an earlier call with the same
// arguments and folder for which no agent waits any more. It returns nil if there is none.
func (g *gate) find(ctx context.Context) (*toolcall.Call, error) {
	shown, err := g.c.Show(ctx, toolcall.ShowRequest{Key: g.key()})
	switch {
	case err == nil:
		return g.take(ctx, shown.Call)
	case !errors.Is(err, message.ErrNotFound):
		return nil, err
	}
	open, err := g.openCalls(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(open, func(c *toolcall.Call) bool { return c.Call == g.id() }); i >= 0 {
		return g.take(ctx, open[i])
	}
	var decided, undecided []*toolcall.Call // that are free
	for _, c := range open {
		prompted := g.ev.Kind == dialect.Prompt && g.ev.Call == "" && isDecided(c) && c.Cwd == g.ev.Cwd && dialect.SameInput(c.Input, string(g.ev.Input))
		same := c.Proposal == g.proposal(g.ev.Cwd)
		if !prompted && !same {
			continue
		}
		holder, err := g.holderOf(ctx, c)
		switch {
		case err != nil:
			return nil, err
		case prompted && holder != "" && !isInvocation(holder): // what a prompt decided is only for that prompt
			g.about = holder // the agent asks again about the call that it asked about before the tool
			return c, nil
		case same && holder == g.holder():
			return c, g.mustClaim(ctx, c)
		case same && holder == "" && isDecided(c):
			decided = append(decided, c)
		case same && holder == "":
			undecided = append(undecided, c)
		}
	}
	for _, c := range slices.Concat(decided, undecided) {
		if mine, err := g.claim(ctx, c); err != nil || mine {
			return c, err
		}
	}
	return nil, nil //nolint:nilnil // documented: there is none
}

func (g *gate) openCalls(ctx context.Context) ([]*toolcall.Call, error) {
	all, err := engine.ListAll(ctx, g.c, toolcall.ListRequest{Session: g.session(), Tool: g.ev.Tool}, 0)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(c *toolcall.Call) bool { return !c.Open() || c.Tool != g.ev.Tool }), nil
}

func (g *gate) proposal(cwd string) string {
	var more []string
	if cwd != "" {
		more = append(more, toolcall.ProposedIn(cwd))
	}
	return toolcall.ProposalDigest(g.ev.Tool, string(g.ev.Input), more...)
}

// take returns the call with the event's own id, unless the id belongs to another call or a later
// call holds it.
func (g *gate) take(ctx context.Context, c *toolcall.Call) (*toolcall.Call, error) {
	if !g.ev.CwdAssumed && c.Cwd != g.ev.Cwd {
		return c, refuse(c, "proposed in another folder")
	}
	if c.Proposal != g.proposal(c.Cwd) {
		return c, refuse(c, "proposed with other arguments")
	}
	if !c.Open() {
		return c, nil
	}
	return c, g.mustClaim(ctx, c)
}

func refuse(c *toolcall.Call, what string) error {
	return &message.Error{Code: message.CodeConflict, Op: "decide hook event", What: "the call " + string(c.Call) + " was " + what, Hint: "the agent must give each call its own id"}
}

func (g *gate) proposeRequest() toolcall.ProposeRequest {
	k := g.key()
	return toolcall.ProposeRequest{
		Session: k.Session, Reply: k.Reply, Agent: g.ev.Agent, Cwd: g.ev.Cwd, External: []string{g.ev.Tool},
		Calls: []message.ToolCallBlock{{ID: k.Call, Name: g.ev.Tool, Input: string(g.ev.Input), State: message.ToolCallPending}},
	}
}

func (g *gate) propose(ctx context.Context) (*toolcall.Call, error) {
	r, err := g.c.Propose(ctx, g.proposeRequest())
	if err != nil {
		return nil, err
	}
	return r.Calls[0], nil
}

// preview decides without recording anything.
func (g *gate) preview(ctx context.Context) (dialect.Verdict, error) {
	r, err := api.Preview.Call(ctx, g.c, api.PreviewRequest{ProposeRequest: g.proposeRequest()})
	if err != nil {
		return dialect.Verdict{}, err
	}
	p := r.Calls[0]
	v := dialect.Verdict{Behavior: message.BehaviorDeny, Reason: "dry run: the call is refused: " + p.Refused}
	if p.Decision != nil {
		v.Reason = "dry run: the policy says " + string(p.Decision.Behavior) + ": " + p.Decision.Reason
		if p.Decision.Behavior == message.BehaviorAllow {
			v.Behavior = message.BehaviorAllow
		}
	}
	return v, nil
}

func isDecided(c *toolcall.Call) bool {
	return c != nil && c.State != message.ToolCallPending && c.State != message.ToolCallAsking
}

var errDecided = errors.New("the call is decided")

// await waits until the call is decided, or ctx ends. It always returns the call.
func (g *gate) await(ctx context.Context, call *toolcall.Call) (*toolcall.Call, error) {
	key := call.Key
	for !isDecided(call) && ctx.Err() == nil {
		look := func() error {
			shown, err := g.c.Show(ctx, toolcall.ShowRequest{Key: key})
			if err != nil {
				return err
			}
			if call = shown.Call; isDecided(call) {
				return errDecided
			}
			return nil
		}
		err := g.feeds.Changes(ctx, look, func(c gateway.Change) error {
			if c.Call == nil || c.Call.Key != key || !isDecided(c.Call) {
				return nil
			}
			return look() // a change has the call in the form that others see
		})
		if err != nil && !errors.Is(err, errDecided) && !errors.Is(err, gateway.ErrBehind) && ctx.Err() == nil {
			return call, err
		}
	}
	return call, context.Cause(ctx)
}

// verdict is what a decided call means for the agent.
func (g *gate) verdict(c *toolcall.Call) dialect.Verdict {
	switch {
	case c.Blocked.NeedsOperator():
		return dialect.Verdict{Behavior: message.BehaviorDeny, Reason: "This call may have run, and an operator must resolve it. Do not repeat it."}
	case c.Open():
		return dialect.Verdict{Behavior: message.BehaviorAllow, Input: c.Input, Pass: g.o.Pass, Reason: allowedText(c)}
	case c.Cause == string(toolcall.CauseRespond):
		output := c.Result.Output.String()
		if input := dialect.AnswerInPlace(g.ev, output); input != "" {
			return dialect.Verdict{Behavior: message.BehaviorAllow, Input: input}
		}
		return dialect.Verdict{Behavior: message.BehaviorDeny, Reason: "The tool did not run. A person gave its result instead:\n" + output}
	case c.Cause == string(toolcall.CauseResult), c.Cause == string(toolcall.CauseBypass):
		return dialect.Verdict{Behavior: message.BehaviorDeny, Reason: "This call ran already, and its result is recorded. Make a new call if it must run again."}
	}
	return dialect.Verdict{Behavior: message.BehaviorDeny, Reason: c.Result.Output.String()}
}

func allowedText(c *toolcall.Call) string {
	var names []string
	for _, v := range c.Votes {
		if v.Kind == toolcall.ResponseApprove {
			names = append(names, v.By.Name)
		}
	}
	switch {
	case len(names) > 0:
		return "approved in askance by " + strings.Join(names, ", ")
	case c.Decision != nil && c.Decision.Rule != "":
		return "allowed by the askance rule " + c.Decision.Rule
	}
	return "allowed by askance"
}

// waitingText tells the model what to do about a call that is still open.
func (g *gate) waitingText(c *toolcall.Call) string {
	where := "askance show " + spelling.ShellWord(string(c.Call))
	if g.public != "" {
		where = g.public + "/inbox/call?" + url.Values{"session": {string(c.Session)}, "reply": {string(c.Reply)}, "call": {string(c.Call)}}.Encode()
	}
	return "This call is still waiting for approval: " + where + " . The request stays open. Try again later with exactly the same arguments, in the same folder."
}

// report records the result of a tool that ran.
func (g *gate) report(ctx context.Context) error {
	c, err := g.reported(ctx)
	if err != nil {
		return err
	}
	if c == nil {
		return g.noteUnasked(ctx, g.key(), "no call with this id was proposed")
	}
	res := g.ev.Result
	text := shortenResult(res.Text)
	why := "" // the call was not allowed to run like this
	if c.Tool != g.ev.Tool || !dialect.SameRun(g.ev, c.Input) {
		why = "the call ran with another tool or other arguments"
	}
	switch {
	case c.Open():
		r := toolcall.ReportRequest{Key: c.Key, Unasked: true, Result: message.ToolResultBlock{
			ID: c.Call, Name: c.Tool, State: res.State, Output: message.Content{Text: cmp.Or(text, "(no output)")},
		}}
		if !isDecided(c) {
			r.Result.Metadata = map[string]any{"decided_by": "local user", "evidence": "agent-prompt"}
		}
		_, err = g.c.Report(ctx, r)
	case !slices.Contains([]toolcall.Cause{toolcall.CauseResult, toolcall.CauseBypass, toolcall.CauseResolve}, toolcall.Cause(c.Cause)): // else its outcome is known
		why = "the call was " + string(c.State) + " (" + c.Cause + ") when the agent ran it"
	}
	if err != nil || why == "" {
		return err
	}
	return g.noteUnasked(ctx, c.Key, why)
}

// shortenResult cuts a text that is too long for a result, whose limit is on its JSON form.
func shortenResult(text string) string {
	const rest, limit = "\n… the rest is not recorded", toolcall.MaxOutputBytes - 256 // state and metadata follow
	size, cut := 0, 0
	for i, r := range text {
		if size <= limit-2*len(rest) {
			cut = i
		}
		switch {
		case strings.ContainsRune("\"\\\b\f\n\r\t", r):
			size += 2
		case r < ' ':
			size += 6
		default:
			size += utf8.RuneLen(r)
		}
	}
	if size <= limit {
		return text
	}
	return text[:cut] + rest
}

// reported returns the call that the agent ran, or nil if none was proposed.
func (g *gate) reported(ctx context.Context) (*toolcall.Call, error) {
	if g.ev.Call != "" {
		shown, err := g.c.Show(ctx, toolcall.ShowRequest{Key: g.key()})
		if err == nil {
			return shown.Call, nil
		}
		if message.AsError("show", err).Code != message.CodeNotFound {
			return nil, err
		}
	}
	open, err := g.openCalls(ctx)
	if err != nil {
		return nil, err
	}
	var same *toolcall.Call // without an id of the agent
	for _, c := range open {
		if g.ev.Call != "" {
			holder, err := g.holderOf(ctx, c)
			if err != nil || holder == g.holder() {
				return c, err
			}
		}
		if same == nil && isDecided(c) && isInvocation(c.Call) && c.Cwd == g.ev.Cwd && dialect.SameInput(c.Input, string(g.ev.Input)) {
			same = c
		}
	}
	return same, nil
}

// noteUnasked records that the agent ran a tool without permission from askance.
func (g *gate) noteUnasked(ctx context.Context, k toolcall.Key, why string) error {
	return g.emit(ctx, k, eventRanUnasked, map[string]any{
		"tool_call_id": string(k.Call), "tool_name": g.ev.Tool, "proposal": g.proposal(g.ev.Cwd), "state": string(g.ev.Result.State), "why": why,
	})
}
