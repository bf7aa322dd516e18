package agui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/jcs"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// overtakenEvent is the name of the CUSTOM event which tells a client that its
// response had no effect: another person, or the deadline, decided first.
const overtakenEvent = "askance.overtaken"

// plan is what a run shows.
type plan struct {
	projection *projection // what the thread already has
	from       uint64      // cursor from which the run follows
	restate    bool        // send the whole conversation, even what the client has
	done       bool        // nothing follows
	queued     bool        // another reply follows this one
	notes      []settled
}

// openTurnError reports that a message has to wait for an earlier turn.
type openTurnError struct {
	reply   message.ReplyID
	through uint64
}

func (e *openTurnError) Error() string { return busyError().Error() }
func (e *openTurnError) Unwrap() error { return busyError() }

// decide determines what a run has to do, and does it: it submits responses, delivers results,
// begins a turn. The client gets a *refusedError in the stream.
func (r *run) decide(ctx context.Context, t *thread, connect bool) (*plan, error) {
	maps.Copy(r.of.ClientTools, t.tools)
	r.parked = t.parks.last()
	if connect {
		return r.attach(t, true), nil
	}
	if err := t.checkKnown(r.in); err != nil {
		return nil, refuse(err)
	}
	st, err := readStanding(ctx, r.owner, t)
	if err != nil {
		return nil, err
	}
	res, again, err := st.resume(r.in.Resume, time.Now())
	if err != nil {
		return nil, refuse(err)
	}
	for _, e := range res.Strays {
		r.log.Warn("an answer to an interrupt that the thread never had was left aside", "interrupt", e.InterruptID, "status", string(e.Status))
	}
	now := t.project(t.through, r.run())
	r.noteApprovals(t.parks, now.reply)
	var brought []message.ToolResultBlock
	if now.mapper != nil && !now.mapper.Ended() {
		brought = r.resultsOf(now.mapper.Pending())
	}
	notes := st.listOvertaken(r.in.Resume)
	if len(brought)+len(res.Answers)+len(res.Replayed)+len(res.Overtaken) == 0 {
		if len(t.newMessages(r.in)) > 0 {
			return r.begin(ctx, t, now)
		}
		return r.attach(t, false), nil
	}
	turn, err := r.nextTurn(t)
	if err != nil {
		return nil, err
	}
	results := brought
	if !again {
		if err := r.answer(ctx, st, res); err != nil {
			return nil, refuse(err)
		}
		if results, err = r.completeResults(ctx, now, brought, turn); err != nil {
			return nil, err
		}
	}
	if err := r.deliverResults(ctx, now.reply, results); err != nil {
		return nil, refuse(err)
	}
	p := r.continueReply(t, st, now, results)
	p.notes = append(notes, r.listLost(st, res)...)
	return p, r.enqueue(ctx, t, turn, p)
}

// nextTurn returns the turn that a person's message begins when it comes together with responses
// or results, or nil. It is checked before those take effect.
func (r *run) nextTurn(t *thread) (*agent.Input, error) {
	fresh := t.newMessages(r.in)
	if len(fresh) == 0 {
		return nil, nil
	}
	in, err := r.turnInput(fresh)
	if err != nil {
		return nil, err
	}
	in.Queue = true
	return &in, r.runner.Check(r.principal(), r.session, r.agent, in)
}

// enqueue makes the turn begin after the continued reply, and makes the plan show both.
func (r *run) enqueue(ctx context.Context, t *thread, turn *agent.Input, p *plan) error {
	p.queued = len(t.turnsAfter(p.from)) > 0
	if turn == nil {
		return nil
	}
	reply, err := r.runner.Start(ctx, r.principal(), r.session, r.agent, *turn)
	if err != nil {
		return err
	}
	p.queued = true
	if p.done {
		p.projection.addMessages(turn.Messages)
		p.projection.begin(reply)
		p.done, p.queued = false, false
	}
	return nil
}

// principal returns the peer in the role in which it talks to the agent.
func (r *run) principal() toolcall.Principal {
	return toolcall.Principal{Role: toolcall.RoleRuntime, Name: r.peer.Name, Auth: r.peer.Auth}
}

// completeResults adds an error result for every other call that was handed to the client, if the
// person begins another turn: the client gave those calls up. Another program can run one of them.
func (r *run) completeResults(ctx context.Context, now *projection, brought []message.ToolResultBlock, turn *agent.Input) ([]message.ToolResultBlock, error) {
	if turn == nil || now.mapper == nil || now.mapper.Ended() {
		return brought, nil
	}
	open, err := engine.ListAll(ctx, r.owner, toolcall.ListRequest{Session: r.session, Reply: now.reply}, 0)
	all := slices.Clone(brought)
	for _, c := range now.mapper.Pending() {
		if !slices.ContainsFunc(brought, func(b message.ToolResultBlock) bool { return b.ID == c.ID }) &&
			slices.ContainsFunc(open, func(o *toolcall.Call) bool { return o.Call == c.ID && r.isClientCall(o) }) {
			all = append(all, failedResult(c, "The user went on without a result of this call."))
		}
	}
	return all, err
}

// listLost lists the responses of this run that others overtook while it submitted them.
func (r *run) listLost(st *standing, res *wire.Resumption) []settled {
	var lost []wire.ResumeEntry
	for _, a := range res.Answers {
		if !a.Abandoned && !r.answered[a.Interrupt.ID] {
			lost = append(lost, a.Entry)
		}
	}
	return st.listOvertaken(lost)
}

// run returns what the mapper needs to know. The server, not the client, determines the calls and
// messages of earlier replies.
func (r *run) run() wire.Run {
	of := r.of
	of.Calls, of.Messages = nil, nil
	return of
}

// resultsOf returns the client's results for calls that wait for them. A result of other arguments
// than the allowed ones becomes an error: the client must not run the call again, either.
func (r *run) resultsOf(waiting map[string]message.ToolCallBlock) []message.ToolResultBlock {
	out := r.in.ToolResults(waiting)
	for id, c := range waiting {
		a := r.approved[c.ID]
		if a != nil && a.edited != nil && jcs.Equal(a.edited, []byte(c.Input)) || hasArguments(r.in.Messages, id, c.Input) {
			continue
		}
		if i := slices.IndexFunc(out, func(b message.ToolResultBlock) bool { return b.ID == c.ID }); i >= 0 {
			out[i] = failedResult(c, "The frontend ran this call with other arguments than those that were allowed. Its result does not count.")
		}
	}
	return out
}

// hasArguments reports whether messages show a call only with these arguments.
func hasArguments(messages []wire.Message, id, input string) bool {
	return !slices.ContainsFunc(messages, func(m wire.Message) bool {
		return slices.ContainsFunc(m.ToolCalls, func(c wire.ToolCall) bool {
			return c.ID == id && !jcs.Equal([]byte(c.Arguments), []byte(input))
		})
	})
}

func failedResult(c message.ToolCallBlock, text string) message.ToolResultBlock {
	return message.ToolResultBlock{ID: c.ID, Name: c.Name, State: message.ToolResultError, Output: message.Content{Text: text}}
}

// deliverResults passes results of the client's tools to the engine. It skips those that the
// engine already has. A result that the engine refuses for its content becomes an error in results:
// the client would send it again in every run.
func (r *run) deliverResults(ctx context.Context, reply message.ReplyID, results []message.ToolResultBlock) error {
	deliver := func(b message.ToolResultBlock) error {
		ev := &message.ExternalExecutionResult{EventHeader: message.NewHeader(reply), ExecutionResults: []message.ToolResultBlock{b}}
		return engine.Deliver(ctx, r.owner, r.session, ev, nil)
	}
	for i, b := range results {
		err := deliver(b)
		if errors.Is(err, message.ErrTooLarge) || errors.Is(err, message.ErrInvalid) {
			text := "The frontend ran this call, but its result cannot be stored: " + message.AsError("", err).What + "."
			results[i] = failedResult(message.ToolCallBlock{ID: b.ID, Name: b.Name}, text)
			err = deliver(results[i])
		}
		if err != nil && !isOvertaken(err) && !errors.Is(err, message.ErrNotFound) {
			return err
		}
	}
	return nil
}

// continueReply continues from where the client was asked to respond. If the client has already
// seen a part of what came since, it gets the current state instead.
func (r *run) continueReply(t *thread, st *standing, now *projection, brought []message.ToolResultBlock) *plan {
	at := st.parks.last()
	if i := slices.IndexFunc(st.parks, isAnswered(r.in.Resume)); i >= 0 {
		at = st.parks[i]
	}
	p := &plan{projection: now, from: t.through}
	if at != nil {
		then := t.project(at.Through, r.run())
		if !hasSeenMore(r.in.Messages, then.history.Messages(), now.history.Messages()) {
			p.projection, p.from = then, at.Through
		}
	}
	if p.projection.mapper == nil || p.projection.mapper.Ended() {
		p.done = true
		return p
	}
	if len(p.projection.open) > 0 {
		return p
	}
	waiting := now.mapper.Pending()
	for _, m := range r.in.Messages { // so that a snapshot keeps what the client brings
		i := slices.IndexFunc(brought, func(b message.ToolResultBlock) bool {
			return m.Role == wire.RoleTool && m.Content != nil && b.ID == waiting[m.ToolCallID].ID
		})
		if i < 0 {
			continue
		}
		content := *m.Content
		if brought[i].Output.Blocks == nil {
			content = wire.Content{Text: brought[i].Output.Text}
		}
		p.projection.history.Apply(&wire.ToolCallResult{MessageID: m.ID, ToolCallID: m.ToolCallID, Content: content})
		p.projection.mapper.OmitResult(brought[i].ID)
		brought = slices.Delete(brought, i, i+1) // the first result counts
	}
	return p
}

func (r *run) begin(ctx context.Context, t *thread, now *projection) (*plan, error) {
	if open := t.turns.Busy(); open != "" {
		return r.handleOpenTurn(ctx, t, open)
	}
	fresh := t.newMessages(r.in)
	in, err := r.turnInput(fresh)
	if err != nil {
		return nil, err
	}
	reply, err := r.runner.Start(ctx, r.principal(), r.session, r.agent, in)
	if other, ok := errors.AsType[*agent.OpenTurnError](err); ok {
		return nil, &openTurnError{other.Reply, t.through}
	}
	if err != nil {
		return nil, err
	}
	now.addMessages(in.Messages)
	now.begin(reply)
	return &plan{projection: now, from: t.through}, nil
}

// handleOpenTurn handles a message while a turn is open. If the turn waits for people, the run
// asks them, and the next run takes the message. If it waits only for calls that the client did
// not run, the reply is interrupted. The message has to wait for the end of the turn.
func (r *run) handleOpenTurn(ctx context.Context, t *thread, open message.ReplyID) (*plan, error) {
	calls, err := engine.ListAll(ctx, r.owner, toolcall.ListRequest{Session: r.session, Reply: open}, 0)
	if err != nil {
		return nil, err
	}
	switch {
	case slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return c.State == message.ToolCallAsking }):
		return r.attach(t, false), nil
	case len(calls) > 0 && !slices.ContainsFunc(calls, func(c *toolcall.Call) bool { return !r.isClientCall(c) }):
		_, err := r.owner.Interrupt(ctx, toolcall.InterruptRequest{Session: r.session, Reply: open, Reason: r.peer.Name + " went on without it"})
		if err != nil {
			return nil, err
		}
	}
	return nil, &openTurnError{open, t.through}
}

// attach shows the current state of the thread, and follows what is in progress.
func (r *run) attach(t *thread, restate bool) *plan {
	now := t.project(t.through, r.run())
	p := &plan{projection: now, from: t.through, restate: restate, queued: len(t.turns.Queue) > 0}
	switch {
	case t.turns.Open == "" && p.queued:
		now.addMessages(t.turns.Queue[0].Messages)
		now.begin(t.turns.Queue[0].Reply)
		p.queued = len(t.turns.Queue) > 1
	case t.turns.Open == "":
		p.done = true
	case now.mapper == nil || now.reply != t.turns.Open:
		now.begin(t.turns.Open)
	}
	return p
}

// requests are the approval requests of a reply, by call, as the mapper will send them. The end
// of the run fills in what the events do not contain.
type requests map[message.CallID]*request

type request struct {
	id        string // as the mapper made it
	block     message.ToolCallBlock
	interrupt *wire.Interrupt
}

// approve notes the arguments that people approved, which an edit may have changed, and shows them in
// a history: the client must run those.
func (r requests) approve(e message.Event, h *wire.History) {
	answer, ok := e.(*message.UserConfirmResult)
	if !ok {
		return
	}
	for _, a := range answer.ConfirmResults {
		if q := r[a.ToolCall.ID]; q != nil && a.Confirmed {
			q.block.Input = a.ToolCall.Input
			h.ShowAsked(*q.interrupt.ToolCallID, q.block.Name, q.block.Input)
		}
	}
}

// fill completes the interrupt from the current state of the call, and returns what is asked. It
// returns false if the call no longer has the approval request that was put.
func (r *request) fill(c *toolcall.Call, id string, mayRespond bool) (asked, bool) {
	out := asked{ID: id, Call: c.Call, Digest: c.Digest}
	if c.State != message.ToolCallAsking || c.Request == nil || c.Input != r.block.Input || !out.isGenuine() {
		return asked{}, false
	}
	i := r.interrupt
	i.ID = id
	w, _ := c.Waiting(time.Now())
	text := cmp.Or(c.RequestText(), "Allow "+c.Tool+"?")
	if !mayRespond {
		text += " " + describeWaiting(w)
	}
	i.Message = &text
	i.ResponseSchema = responseSchema(len(c.Suggested) > 0)
	if !w.Ends.IsZero() {
		out.Expires = w.Ends.UTC().Format(time.RFC3339Nano)
		i.ExpiresAt = &out.Expires
	}
	meta, err := strictjson.Marshal(map[string]any{"askance": requestMeta{
		ToolCallID: c.Call, ToolName: c.Tool, Arguments: c.Input, Suggested: c.Suggested,
		Session: c.Session, Reply: c.Reply, Digest: c.Digest, Rule: c.Request.Rule, Reason: c.Request.Reason,
		Waiting: w.Tally, Approvals: approvalsOf(w.Tally), MayRespond: mayRespond,
	}})
	if err == nil {
		i.Metadata = meta
	}
	return out, true
}

type approval struct {
	Name string `json:"name"`
	Auth string `json:"auth"` // as toolcall.Principal has it
}

func approvalsOf(t toolcall.Tally) []approval {
	var out []approval
	for _, v := range t.Approvals {
		out = append(out, approval{v.By.Name, v.By.Auth})
	}
	return out
}

// requestMeta is metadata.askance of an interrupt.
type requestMeta struct {
	ToolCallID message.CallID           `json:"toolCallId"` // askance's id; the interrupt has the client's
	ToolName   string                   `json:"toolName"`
	Arguments  string                   `json:"arguments"` // what will run, as JSON text
	Suggested  []message.PermissionRule `json:"suggestedRules,omitzero"`
	Session    message.SessionID        `json:"sessionId"`
	Reply      message.ReplyID          `json:"replyId"`
	Digest     string                   `json:"digest"`
	Rule       string                   `json:"rule,omitzero"` // the rule that asked
	Reason     string                   `json:"reason,omitzero"`
	Waiting    toolcall.Tally           `json:"waiting"` // who must agree, and who has
	// Approvals are the approvals that count, with how each name was established.
	Approvals []approval `json:"approvals,omitzero"`
	// MayRespond reports that the reader has the role to respond and has not voted yet; Waiting
	// shows whether the rule needs them.
	MayRespond bool `json:"mayRespond"`
}

// describeWaiting says for whom an approval request waits.
func describeWaiting(w toolcall.Waiting) string {
	var who []string
	for _, p := range w.Parts {
		var of []string
		of = append(of, p.Users...)
		for _, g := range p.Groups {
			of = append(of, "the group "+g)
		}
		if p.Missing == 0 {
			continue
		}
		if len(of) == 0 {
			of = []string{"an approver"}
		}
		text := strings.Join(of, " or ")
		if p.Missing > 1 {
			text = fmt.Sprintf("%d of %s", p.Missing, text)
		}
		who = append(who, text)
	}
	if len(who) == 0 {
		who = []string{"an approver"}
	}
	return "(Waits for " + strings.Join(who, ", and for ") + ".)"
}

// responseSchema is the schema of an answer, as [wire.Answer] reads it.
func responseSchema(rules bool) message.RawJSON {
	s := `{"type":"object","properties":{"approved":{"type":"boolean"},` +
		`"editedArgs":{"type":"object","description":"with approved: true; takes the place of all arguments"},` +
		`"feedback":{"type":"string","description":"with approved: false; why not, for the model"}`
	if rules {
		s += `,"rules":{"type":"array","items":{"type":"object"},"description":"with approved: true; of the suggested rules, those to remember"}`
	}
	return message.RawJSON(s + `},"required":["approved"],"additionalProperties":false}`)
}
