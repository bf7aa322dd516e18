package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine/internal/approve"
	"github.com/askance-dev/askance/engine/internal/decide"
	"github.com/askance-dev/askance/engine/internal/schedule"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// proposer handles the calls that runtimes propose.
type proposer struct {
	*core
	sessions  *sessions
	replies   *replies
	decider   *decider
	batches   *batches
	responses *approve.Responses
	keeper    *keeper

	mu      sync.Mutex // guards open and running: what proposals in progress will add
	open    int
	running int
}

func (p *proposer) proposeCalls(ctx context.Context, by toolcall.Principal, r toolcall.ProposeRequest) ([]*toolcall.Call, error) {
	calls, declared, err := p.newCalls(by, r)
	if err != nil {
		return nil, err
	}
	p.noteRequester(ctx, by, calls)
	for _, c := range calls {
		if c.Trace = toolcall.TraceOf(ctx); c.Trace == "" && p.cfg.newTrace != nil {
			c.Trace = p.cfg.newTrace(c.Key)
		}
	}
	reply := calls[0].ReplyKey()
	if err := p.placeCalls(ctx, r, calls); err != nil {
		return nil, err
	}
	if len(calls) > 1 { // for one call, nothing is written before the call itself
		if err := p.checkConflicts(ctx, by, calls); err != nil {
			return nil, err
		}
	}
	release, err := p.reservePlaces(r, calls)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range calls {
			release(c)
		}
	}()
	session, err := p.sessions.bindSession(ctx, by, reply.SessionKey(), declared...)
	if err != nil {
		return nil, err
	}
	if err := p.defineTools(ctx, session, calls); err != nil {
		return nil, err
	}
	p.orderCalls(calls)
	out := make([]*toolcall.Call, len(calls))
	for i, c := range calls {
		out[i], err = p.proposeOne(ctx, by, c, out[:i])
		release(c)
		if err != nil {
			return out[:i], err // stored calls stay stored; the same proposal sent again continues
		}
	}
	return out, nil
}

// checkConflicts refuses a proposal if one of its calls is known with other content, before
// any of it is written. A conflict with a concurrent proposal is noticed only when the
// call itself is written.
func (p *proposer) checkConflicts(ctx context.Context, by toolcall.Principal, calls []*toolcall.Call) error {
	for _, c := range calls {
		known, err := p.store.Call(ctx, c.Key)
		if errors.Is(err, message.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if known.Runtime != by.Name { // whose content must not be shown either
			return foreignSessionError(c.Session)
		}
		if _, err := checkSameProposal(c, known); err != nil {
			return err
		}
	}
	return nil
}

// reservePlaces refuses new calls while the engine is at its limits. Otherwise it reserves a
// place for each until release, when the call is counted or was not recorded. A running call
// may always make local calls, because it would otherwise wait for itself.
func (p *proposer) reservePlaces(r toolcall.ProposeRequest, calls []*toolcall.Call) (release func(*toolcall.Call), err error) {
	newLocal, kept := 0, map[message.CallID]int{} // running places reserved for each new call
	for _, c := range calls {
		if p.view.Call(c.Key) == nil {
			kept[c.Call] = 0
			if p.tools[c.Tool].Placement == toolcall.PlaceLocal {
				kept[c.Call] = 1
				newLocal++
			}
		}
	}
	if len(kept) == 0 {
		return func(*toolcall.Call) {}, nil
	}
	refuse := func(what, hint string) (func(*toolcall.Call), error) {
		return nil, &message.Error{Code: message.CodeOverloaded, What: what, Hint: "try again later; " + hint}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	open, _, _ := p.view.Counts()
	if open += p.open; p.cfg.maxOpen > 0 && open >= p.cfg.maxOpen {
		return refuse(fmt.Sprintf("%d calls of this space are open, the limit is %d; nothing was started", open, p.cfg.maxOpen), "finish open calls, or raise --max-open")
	}
	if n := p.keeper.runs.count() + p.running; p.cfg.maxRunning > 0 && n >= p.cfg.maxRunning && r.Parent == nil && newLocal > 0 {
		return refuse(fmt.Sprintf("%d local calls are running, the limit is %d; nothing was started", n, p.cfg.maxRunning), "add engines or workers, or raise --max-running")
	}
	p.open, p.running = p.open+len(kept), p.running+newLocal
	return func(c *toolcall.Call) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if local, is := kept[c.Call]; is {
			delete(kept, c.Call)
			p.open, p.running = p.open-1, p.running-local
		}
	}, nil
}

// newCalls checks all calls and definitions of a proposal, before anything is looked up
// or written.
func (p *proposer) newCalls(by toolcall.Principal, r toolcall.ProposeRequest) (calls []*toolcall.Call, declared []*toolcall.DeclaredTool, err error) {
	if declared, err = p.declareTools(r); err == nil {
		err = p.checkProposal(r)
	}
	if err != nil {
		return nil, nil, err
	}
	seen := map[message.CallID]bool{}
	for i, b := range r.Calls {
		c := &toolcall.Call{Key: toolcall.Key{Space: p.space, Session: r.Session, Reply: r.Reply, Call: b.ID}, Runtime: by.Name, Agent: r.Agent, Tool: b.Name, Input: b.Input, Cwd: r.Cwd}
		err := c.Key.Validate()
		if err == nil {
			err = checkBlock(b, seen)
		}
		if err != nil {
			return nil, nil, errorAt(fmt.Sprintf("tool_calls[%d]", i), err)
		}
		seen[b.ID] = true
		if r.Cwd != "" && p.checkExternal("cwd", b.Name) != nil { // another program runs it in its own folder
			return nil, nil, badProposal(message.CodeInvalid, "cwd is set, but the runtime does not run the tool "+b.Name, "leave out cwd: it is only for tools that the runtime runs itself")
		}
		placeCall(c, r, declared)
		calls = append(calls, c)
	}
	return calls, declared, nil
}

func badProposal(code message.Code, what, hint string) error {
	return &message.Error{Code: code, What: what, Hint: hint}
}

// checkProposal checks what all calls of a proposal share.
func (p *proposer) checkProposal(r toolcall.ProposeRequest) error {
	switch {
	case !isInURL(string(r.Session)) || !isInURL(string(r.Reply)):
		return badProposal(message.CodeInvalid, "session_id or reply_id is /, . or .., so no URL can name the call", "use another id, for example a UUID")
	case len(r.Calls) == 0:
		return badProposal(message.CodeInvalid, "tool_calls is empty", "propose at least one call")
	case len(r.Calls) > toolcall.MaxCallsPerTurn:
		return badProposal(message.CodeTooLarge, fmt.Sprintf("%d calls in one proposal, the limit is %d", len(r.Calls), toolcall.MaxCallsPerTurn), "propose them in several requests")
	case len(r.Agent) > toolcall.MaxIDBytes:
		return badProposal(message.CodeTooLarge, fmt.Sprintf("agent has %d bytes, the limit is %d", len(r.Agent), toolcall.MaxIDBytes), "shorten it")
	}
	for i, tool := range r.External {
		if err := p.checkExternal(fmt.Sprintf("external_tools[%d]", i), tool); err != nil {
			return err
		}
	}
	return toolcall.CheckCwd(r.Cwd)
}

func isInURL(id string) bool { return id != "/" && id != "." && id != ".." }

func checkBlock(b message.ToolCallBlock, seen map[message.CallID]bool) error {
	switch {
	case !isInURL(string(b.ID)):
		return badProposal(message.CodeInvalid, "no URL can name a call with the id "+string(b.ID), "use another id, for example a UUID")
	case seen[b.ID]:
		return badProposal(message.CodeInvalid, "the id "+string(b.ID)+" occurs twice", "give each call of a reply its own id")
	case b.Name == "":
		return badProposal(message.CodeInvalid, "name is empty", "name the tool")
	case len(b.Name) > toolcall.MaxIDBytes:
		return badProposal(message.CodeTooLarge, fmt.Sprintf("the tool's name has %d bytes, the limit is %d", len(b.Name), toolcall.MaxIDBytes), "use the name of a known tool")
	case len(b.Input) > toolcall.MaxInputBytes:
		return badProposal(message.CodeTooLarge, fmt.Sprintf("input has %d bytes, the limit is %d", len(b.Input), toolcall.MaxInputBytes), "pass large content by reference")
	case b.State != "" && b.State != message.ToolCallPending:
		return badProposal(message.CodeInvalid, fmt.Sprintf("state is %q", b.State), "a proposed call is pending; only askance changes its state")
	}
	return nil
}

// placeCall sets the placement and the definition that a proposal gives a call, and the digest
// of what was proposed.
func placeCall(c *toolcall.Call, r toolcall.ProposeRequest, declared []*toolcall.DeclaredTool) {
	var more []string
	if r.Cwd != "" {
		more = append(more, toolcall.ProposedIn(r.Cwd))
	}
	if slices.Contains(r.External, c.Tool) {
		c.Placement = toolcall.PlaceExternal
	}
	if i := slices.IndexFunc(declared, func(t *toolcall.DeclaredTool) bool { return t.Name == c.Tool }); i >= 0 {
		c.Placement, c.Definition = toolcall.PlaceExternal, &toolcall.DefinitionRef{Hash: declared[i].Hash}
		more = append(more, "definition "+declared[i].Hash)
	}
	c.Proposal = toolcall.ProposalDigest(c.Tool, c.Input, more...)
}

// checkExternal refuses a proposal that declares a tool external which is run elsewhere.
func (p *proposer) checkExternal(at, tool string) error {
	if t, known := p.tools[tool]; known && t.Placement != toolcall.PlaceExternal {
		return &message.Error{Code: message.CodeInvalid, What: fmt.Sprintf("%s: the tool %s is not run by the runtime: its placement is %s", at, tool, t.Placement), Hint: "give the runtime's own tool another name"}
	}
	return nil
}

// orderCalls sets the order of each call in a proposal with an exclusive tool. Other
// proposals need none.
func (p *proposer) orderCalls(calls []*toolcall.Call) {
	isExclusive := func(c *toolcall.Call) bool { return !p.judge.IsSafe(c.Tool) }
	if !slices.ContainsFunc(calls, isExclusive) {
		return
	}
	for _, c := range calls {
		c.Order = toolcall.OrderShared
		if isExclusive(c) {
			c.Order = toolcall.OrderExclusive
		}
	}
}

// proposeOne writes the first event record of a call: proposed and, unless it must first have
// its place in the journal, decided and begun at once. earlier are the calls before it in the
// same proposal.
func (p *proposer) proposeOne(ctx context.Context, by toolcall.Principal, c *toolcall.Call, earlier []*toolcall.Call) (*toolcall.Call, error) {
	defer p.enterStep().leaveStep()
	if known, err := p.knownCall(ctx, c.Key); err != nil {
		return nil, err
	} else if known != nil {
		return checkSameProposal(c, known)
	}
	m := toolcall.Load(nil)
	if err := m.Step(toolcall.Proposed{Base: baseNow(), Call: c}); err != nil {
		return nil, err
	}
	err := decide.ErrUndecided
	if !p.isPlaced(c) {
		err = p.decider.decideCall(ctx, m, earlier)
	}
	if errors.Is(err, decide.ErrUndecided) {
		p.noteRedaction(ctx, m.Call())
	} else if err != nil {
		return nil, err
	}
	given, err := p.responses.Assign(m.Call())
	if err != nil {
		return nil, err
	}
	defer given()
	next, err := p.writeFirst(ctx, m, by)
	if errors.Is(err, message.ErrConflict) {
		known, lerr := p.store.LastCall(ctx, c.Key)
		if lerr != nil {
			return nil, lerr
		}
		return checkSameProposal(c, known)
	}
	return next, err
}

// knownCall returns the current state of a call that was proposed before, or nil if it seems
// new; the write will find out. A new call in an interrupted reply is refused.
func (p *proposer) knownCall(ctx context.Context, key toolcall.Key) (*toolcall.Call, error) {
	known := p.view.Call(key)
	if known != nil && !known.Open() {
		return known, nil
	}
	state, _ := p.view.ReplyState(key)
	over := state != nil && state.Phase != toolcall.ReplyOpen
	if known == nil && !over {
		return nil, nil
	}
	known, err := p.store.LastCall(ctx, key) // the view may not have its latest state
	if over && errors.Is(err, message.ErrNotFound) {
		return nil, interruptedError(key)
	}
	return known, err
}

// checkSameProposal tells a repeated proposal from one with other content under the same
// ids.
func checkSameProposal(c, known *toolcall.Call) (*toolcall.Call, error) {
	if c.Proposal != known.Proposal {
		return nil, &message.Error{Code: message.CodeConflict, Call: toolcall.ErrorCall(known),
			What: "the call " + string(c.Call) + " of this reply was proposed before with other content", Hint: "give the new call its own id"}
	}
	return known, nil
}

// writeFirst stores a call's first record, then reads the reply before anything begins: an
// interrupt written meanwhile did not see this call.
func (p *proposer) writeFirst(ctx context.Context, m *toolcall.Machine, by toolcall.Principal) (*toolcall.Call, error) {
	c := m.Call()
	seq, sent, err := p.store.AppendFirst(ctx, m, by)
	if err != nil {
		return nil, err
	}
	if !c.Open() {
		p.keeper.performEffects(c, m.Effects(), sent)
		return c, nil
	}
	phase, err := p.replies.phaseAt(ctx, c.ReplyKey(), seq)
	if err == nil && phase == toolcall.ReplyOpen {
		if c.State == message.ToolCallPending && p.isPlaced(c) {
			if next := p.batches.advanceNew(ctx, c); next != nil {
				return next, nil
			}
		}
		p.keeper.performEffects(c, m.Effects(), sent)
		return c, nil
	}
	if err == nil {
		return p.update(ctx, "interrupt", c.Key, p.selfPrincipal(), closeInterrupted)
	}
	p.log.Warn("a recorded call does not begin yet: its reply cannot be read", "call", c.Key.String(), "error", err)
	p.runInBackground(func(ctx context.Context) { p.beginLater(ctx, m, sent) })
	return c, nil
}

// beginLater performs the effects of a first record once the reply can be read and
// was not interrupted.
func (p *proposer) beginLater(ctx context.Context, m *toolcall.Machine, sent time.Time) {
	c := m.Call()
	for pauses := (schedule.Pauses{Next: 20 * time.Millisecond, Most: time.Second}); ; {
		state, _, err := p.store.LastReply(ctx, c.ReplyKey())
		switch {
		case err == nil && state.Phase == toolcall.ReplyOpen:
			p.keeper.performEffects(c, m.Effects(), sent)
			return
		case err == nil:
			_, err = p.update(ctx, "interrupt", c.Key, p.selfPrincipal(), closeInterrupted)
			if err == nil || errors.Is(err, message.ErrFinished) {
				return
			}
		}
		if !pauses.Wait(ctx) {
			return
		}
	}
}

// preview decides calls with the current policy as a proposal would, each independently,
// and records nothing.
func (p *Port) preview(ctx context.Context, r api.PreviewRequest) (api.PreviewReply, error) {
	if err := p.e.sessions.checkSession(ctx, p.by, r.Session); err != nil {
		return api.PreviewReply{}, err
	}
	if p.e.policy.Hash() == "" {
		return api.PreviewReply{}, &message.Error{Code: message.CodeUnavailable, What: "no policy is in force here", Hint: "ask an engine: start askance serve"}
	}
	ctx, by := permission.WithTrial(ctx), p.by
	key := toolcall.Key{Space: p.e.space, Session: r.Session}
	session, seq := p.e.view.Session(key)
	if seq == 0 { // the view may have forgotten it
		var err error
		if session, _, err = p.e.store.LastSession(ctx, key); err != nil {
			return api.PreviewReply{}, err
		}
	}
	if by.Role != toolcall.RoleRuntime { // rules see the session's runtime
		by = toolcall.Principal{Role: toolcall.RoleRuntime, Name: session.Runtime}
	}
	if r.Edit != nil {
		return p.e.proposer.previewEdit(ctx, p.by, r)
	}
	calls, declared, err := p.e.proposer.newCalls(by, r.ProposeRequest)
	if err == nil {
		err = p.e.proposer.placeCalls(ctx, r.ProposeRequest, calls)
	}
	if err == nil {
		session, _, err = session.With(declared)
	}
	if err == nil {
		err = p.e.proposer.defineTools(ctx, session, calls)
	}
	if err != nil {
		return api.PreviewReply{}, err
	}
	p.e.noteRequester(ctx, by, calls)
	out := api.PreviewReply{Bundle: p.e.policy.Hash(), Calls: make([]api.PreviewedCall, len(calls))}
	for i, c := range calls {
		out.Calls[i] = p.e.proposer.previewCall(ctx, c)
	}
	if p.by.Role != toolcall.RoleRuntime && len(calls) == 1 && out.Calls[0].Decision != nil {
		if out.Calls[0].Trace, _, err = p.e.proposer.judge.Trace(ctx, p.e.proposer.snapshotOf(ctx, calls[0])); err != nil {
			return api.PreviewReply{}, err
		}
	}
	return out, nil
}

func (p *proposer) previewCall(ctx context.Context, c *toolcall.Call) api.PreviewedCall {
	out := api.PreviewedCall{Call: c.Call, Tool: c.Tool, Definition: c.Definition, Refused: p.judge.WhyUnfit(p.snapshotOf(ctx, c))}
	decided := c.Clone()
	if out.Refused == "" {
		v := p.standing.Consult(ctx, c, p.budgets.PreviewClaim)
		if by, standing := p.standing.ResponseFor(ctx, c, v.Decision, couldSpend); standing != "" {
			v.Decision, v.StandingApprovals = by, []toolcall.StandingID{standing}
		}
		decision := decide.DecisionWithRun(v.Decision)
		decide.NoteStandingApprovals(&decision, v.StandingApprovals)
		out.Decision, decided.Decision, decided.Redact = &decision, &decision, v.Decision.Redact
	}
	out.Summary, out.Risk = p.summarizeCall(decided, decided.Redacted())
	return out
}

// previewEdit reports what a person's edit of an open approval request would do.
func (p *proposer) previewEdit(ctx context.Context, by toolcall.Principal, r api.PreviewRequest) (api.PreviewReply, error) {
	key := toolcall.Key{Space: p.space, Session: r.Session, Reply: r.Reply, Call: r.Edit.Call}
	if by.Role == toolcall.RoleRuntime || len(r.Calls) > 0 {
		return api.PreviewReply{}, &message.Error{Code: message.CodeInvalid, What: "edit is only for people, without other calls", Hint: "send it as the approver, and leave tool_calls out"}
	}
	if err := key.Validate(); err != nil {
		return api.PreviewReply{}, err
	}
	c, err := p.store.CallOrNil(ctx, key)
	switch {
	case err != nil:
		return api.PreviewReply{}, err
	case c == nil:
		return api.PreviewReply{}, &message.Error{Code: message.CodeNotFound, What: "no call " + key.String() + " exists", Hint: "list the calls of the session"}
	}
	out := api.PreviewedCall{Call: c.Call, Tool: c.Tool, Definition: c.Definition, Edit: api.EditRefused}
	if r.Edit.Digest != "" {
		if err := toolcall.Load(c.Clone()).CheckRequest(r.Edit.Digest); err != nil {
			return api.PreviewReply{}, err
		}
	}
	after, err := p.responses.PreviewEdit(ctx, by, c, r.Edit.Input)
	if err != nil {
		if e := message.AsError(api.Preview.Name, err); e.Code != message.CodeForbidden && e.Code != message.CodeInvalid {
			return api.PreviewReply{}, err
		}
		out.Refused = message.AsError(api.Preview.Name, err).What
		if denied, is := errors.AsType[*approve.DeniedEditError](err); is {
			out.Decision = &denied.Decision
		}
		return api.PreviewReply{Bundle: p.policy.Hash(), Calls: []api.PreviewedCall{out}}, nil
	}
	out.Decision = after.Redacted().Decision
	out.Summary, out.Risk = p.summarizeCall(after, after.Redacted())
	switch after.State {
	case message.ToolCallAsking:
		tally := after.Tally()
		out.Edit, out.Needs = api.EditAsks, &tally
	case message.ToolCallFinished:
		out.Refused = "the policy now denies the call"
	default:
		out.Edit = api.EditRuns
	}
	return api.PreviewReply{Bundle: p.policy.Hash(), Calls: []api.PreviewedCall{out}}, nil
}

// couldSpend returns why a standing approval could not be used for a call, or nil.
func couldSpend(_ context.Context, s *toolcall.StandingApproval, c *toolcall.Call, amount string) error {
	_, err := s.Spend(c.Key, c.Input, amount, baseNow().At)
	return err
}
