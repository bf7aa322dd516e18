package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Principal is the name under which runners keep their notes, each in its own session,
// "askance.turns/" followed by its ID. No other principal may have that name in a space with a
// runner: it could make the runner act as any user.
const Principal = toolcall.GatewayName

// Config configures a Runner.
type Config struct {
	// As returns the space's engine for a principal. Required.
	As func(toolcall.Principal) engine.Client
	// Agents are the agents; their names must differ. Required.
	Agents []Agent
	// ID distinguishes this process's turns from those of others on the same journal, even after a
	// restart. Default "gateway".
	ID string
	// Tools are the names of the tools that the engine or its workers run: a
	// frontend cannot bring a tool of the same name.
	Tools []string
	Log   *slog.Logger // nil: none
}

// Runner drives the turns of agents in one space. It is safe for concurrent use.
type Runner struct {
	cfg    Config
	agents map[string]Agent
	log    *slog.Logger
	notes  notes

	ctx  context.Context //nolint:containedctx // the life of the runner, not of a request; ends with ErrStopping
	stop context.CancelCauseFunc
	wg   sync.WaitGroup

	mu    sync.Mutex // guards turns; nothing begins after stop
	turns map[turnKey]*turn
}

type turnKey struct {
	session message.SessionID
	reply   message.ReplyID
}

// New makes a runner. Call Resume to start its work.
func New(cfg Config) (*Runner, error) {
	if cfg.As == nil || len(cfg.Agents) == 0 {
		return nil, errors.New("agent: a runner needs an engine and an agent")
	}
	cfg.ID = cmp.Or(cfg.ID, "gateway")
	r := &Runner{cfg: cfg, agents: map[string]Agent{}, log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), turns: map[turnKey]*turn{}}
	for _, a := range cfg.Agents {
		name := a.Info().Name
		if name == "" || r.agents[name] != nil {
			return nil, fmt.Errorf("agent: two agents are named %q, or one has no name", name)
		}
		r.agents[name] = a
	}
	r.notes = notes{as: r.port(toolcall.Principal{Role: toolcall.RoleRuntime, Name: Principal, Auth: "in-process"}), id: cfg.ID}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	return r, nil
}

func (r *Runner) port(p toolcall.Principal) port {
	return func() engine.Client { return r.cfg.As(p) }
}

// Agents describes the agents, by name.
func (r *Runner) Agents() []Info {
	out := make([]Info, 0, len(r.agents))
	for _, a := range r.agents {
		out = append(out, a.Info())
	}
	slices.SortFunc(out, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Resume continues the turns that an earlier process with the same ID left open. It returns once
// all of them run.
func (r *Runner) Resume(ctx context.Context) error {
	if err := r.notes.bind(ctx); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	open, err := r.notes.open(ctx)
	if err != nil {
		return fmt.Errorf("agent: read the open turns: %w", err)
	}
	for _, n := range open {
		if err := r.resume(ctx, n); err != nil {
			return fmt.Errorf("agent: continue the reply %s of the session %s: %w", n.Reply, n.Session, err)
		}
	}
	return nil
}

// resume continues a turn if it is open.
func (r *Runner) resume(ctx context.Context, n note) error {
	thread := NewThread()
	if err := thread.read(ctx, r.cfg.As(n.By), n.Session); err != nil {
		return err
	}
	rec := thread.current(n.Reply)
	if rec == nil { // it ended, or never began
		return r.notes.recordClosed(ctx, n)
	}
	r.begin(n, rec, thread)
	return nil
}

// Close tells the running agents to stop and waits for them. Open turns stay open in the journal.
// It may be called twice.
func (r *Runner) Close() error {
	r.mu.Lock()
	r.stop(ErrStopping)
	r.mu.Unlock()
	r.wg.Wait()
	return nil
}

// Running reports whether this runner is making a reply.
func (r *Runner) Running(session message.SessionID, reply message.ReplyID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns[turnKey{session, reply}] != nil
}

// begin runs a turn in its own goroutine, unless the turn already runs or the runner is stopping.
func (r *Runner) begin(n note, rec *Record, thread *Thread) {
	a := r.agents[rec.Agent]
	if a == nil {
		a = missingAgent(rec.Agent)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil || r.turns[n.key()] != nil {
		return
	}
	t := &turn{
		notes: r.notes, note: n, rec: rec, thread: thread, agent: a, as: r.port(n.By),
		log: r.log.With("agent", rec.Agent, "session", string(n.Session), "reply", string(n.Reply)),
	}
	r.turns[n.key()] = t
	r.wg.Go(func() {
		t.run(r.ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.turns, n.key())
	})
}

// missingAgent stands in for an agent that was removed.
type missingAgent string

func (m missingAgent) Info() Info { return Info{Name: string(m)} }

func (m missingAgent) Run(context.Context, Turn) error {
	return &ReplyError{Type: message.ErrorSetup, What: "the agent " + string(m) + " is not available any more"}
}

// Runners are the runners of several spaces.
type Runners map[toolcall.SpaceID]*Runner

// Of returns the runner of a space, or an error with message.CodeNotFound if no agent runs there.
func (r Runners) Of(space toolcall.SpaceID) (*Runner, error) {
	if one := r[space]; one != nil {
		return one, nil
	}
	return nil, &message.Error{Code: message.CodeNotFound, Op: "find agent", What: "no agent runs in the space " + string(space), Hint: "embed the gateway in the program of an agent as examples/openai-agent does, or try askance serve --demo-agent"}
}

// Input is what begins a turn.
type Input struct {
	// Messages are what the user says, oldest first; the last is new. Earlier ones that the
	// session already has are left out.
	Messages []*message.Msg
	// Tools are the tools that the frontend runs.
	Tools []Tool
	// Input is what else the frontend sends, by name; the agent sees it.
	Input map[string]message.RawJSON
	// Reply is the reply's id; by default it is derived from the id of the last message.
	Reply message.ReplyID
	// Queue makes the turn wait for the session's open turn; otherwise Start would refuse it.
	Queue bool
}

// Start begins a turn: the named agent answers the user by, who must have the role runtime. It
// returns when the messages are durable; the turn continues after that. The same messages sent
// again are the same turn.
//
// Errors: *OpenTurnError while a turn of the session is open, unless Input.Queue is set;
// message.ErrForeign if the session belongs to another principal; message.ErrNotFound if there is
// no such agent.
func (r *Runner) Start(ctx context.Context, by toolcall.Principal, session message.SessionID, name string, in Input) (message.ReplyID, error) {
	in.Tools = slices.Clone(in.Tools)
	for i := range in.Tools {
		in.Tools[i].Client = true
	}
	if err := r.Check(by, session, name, in); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errNoAnswer)
	defer cancel()
	rec := &Record{V: 1, Reply: in.Reply, Agent: name, Runner: r.cfg.ID, By: by.Name, Messages: in.Messages, Tools: in.Tools, Input: in.Input}
	if rec.Reply == "" {
		rec.Reply = replyID(session, in.Messages[len(in.Messages)-1].ID)
	}
	n := note{V: 1, Session: session, Reply: rec.Reply, By: by}
	thread := NewThread()
	if err := thread.read(ctx, r.cfg.As(by), session); err != nil {
		return "", err
	}
	if known, err := r.findTurn(ctx, by, session, thread, rec); known || err != nil {
		return rec.Reply, err
	}
	name = QueuedEvent
	if !in.Queue {
		name = TurnEvent
		if busy := thread.Busy(); busy != "" {
			return rec.Reply, &OpenTurnError{Session: session, Reply: busy}
		}
	}
	var err error
	if rec.Messages, err = dropKnown(thread, in.Messages); err != nil {
		return "", err
	}
	event, err := custom(name, rec)
	if err != nil {
		return "", err
	}
	// From here on the turn may be on record, so Start completes it even if the client gives up.
	sure, done := context.WithTimeoutCause(r.ctx, startTimeout, errNoAnswer)
	defer done()
	return rec.Reply, r.open(sure, n, event, thread)
}

// startTimeout bounds how long Start waits for the engine, once to read the session
// and once to store a turn.
const startTimeout = 15 * time.Second

var errNoAnswer error = &message.Error{Code: message.CodeUnavailable, Op: "start turn", What: "the engine did not answer in time", Hint: "send the same message again"}

// Check returns the error that Start would return for these arguments in any session.
func (r *Runner) Check(by toolcall.Principal, session message.SessionID, name string, in Input) error {
	bad := func(code message.Code, what, hint string) error {
		return &message.Error{Code: code, Op: "start turn", What: what, Hint: hint}
	}
	switch {
	case by.Role != toolcall.RoleRuntime || by.Name == "" || by.Name == Principal:
		return bad(message.CodeForbidden, by.String()+" does not talk to agents", "use credentials with the role runtime")
	case r.agents[name] == nil:
		return bad(message.CodeNotFound, fmt.Sprintf("there is no agent %q", name), "look at the list of agents")
	case session == "":
		return bad(message.CodeInvalid, "session_id is empty", "name the session")
	case len(in.Messages) == 0:
		return bad(message.CodeInvalid, "there is no message", "send what the user says")
	}
	for i, m := range in.Messages {
		if m == nil || m.ID == "" || m.Role != message.RoleUser && m.Role != message.RoleSystem {
			return bad(message.CodeInvalid, fmt.Sprintf("messages[%d] is not a message of a user or a system with an id", i), "send only what the user says; the agent's messages are kept here")
		}
		if err := m.Validate(); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		if u := foreignURL(m); u != "" {
			return bad(message.CodeInvalid, fmt.Sprintf("messages[%d]: %.60q is not a web address", i, u), "send a URL that begins with https:// or http://, or the content")
		}
	}
	for i, t := range in.Tools {
		if t.Name == "" || slices.Contains(r.cfg.Tools, t.Name) || slices.ContainsFunc(in.Tools[:i], func(o Tool) bool { return o.Name == t.Name }) {
			return bad(message.CodeInvalid, fmt.Sprintf("tools[%d]: the name %q is empty or taken", i, t.Name), "give the frontend's tool a name of its own")
		}
	}
	return nil
}

// foreignURL returns a URL in a message that frontends must not turn into a link, such as
// javascript:, or "" if there is none.
func foreignURL(m *message.Msg) string {
	for _, b := range message.BlocksOf[*message.DataBlock](m) {
		src, ok := b.Source.(*message.URLSource)
		if !ok {
			continue
		}
		if u, err := url.Parse(src.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return src.URL
		}
	}
	return ""
}

// findTurn reports whether the turn has already begun or is queued. It resumes this runner's
// turns of the session that are not running.
func (r *Runner) findTurn(ctx context.Context, by toolcall.Principal, session message.SessionID, thread *Thread, rec *Record) (bool, error) {
	waiting := thread.Queue
	if thread.Open != "" {
		waiting = append([]*Record{thread.replies[thread.Open].turn}, waiting...)
	}
	for _, t := range waiting {
		if t.Runner != r.cfg.ID {
			continue
		}
		if err := r.takeUp(ctx, note{V: 1, Session: session, Reply: t.Reply, By: by}); err != nil {
			return false, err
		}
	}
	if old := thread.replies[rec.Reply]; old != nil {
		return true, r.sameTurn(old.turn, rec)
	}
	if old := thread.queued(rec.Reply); old != nil {
		return true, r.sameTurn(old, rec)
	}
	return false, nil
}

// takeUp continues an open turn of this runner whose start was not completed.
func (r *Runner) takeUp(ctx context.Context, n note) error {
	if r.Running(n.Session, n.Reply) {
		return nil
	}
	if err := r.notes.recordOpened(ctx, n); err != nil {
		return err
	}
	return r.resume(ctx, n)
}

func (r *Runner) sameTurn(old, rec *Record) error {
	if old != nil && old.Agent == rec.Agent {
		last, again := old.Messages[len(old.Messages)-1], rec.Messages[len(rec.Messages)-1]
		if last.ID == again.ID && saysSame(last, again) {
			return nil
		}
	}
	return &message.Error{Code: message.CodeConflict, Op: "start turn", What: "the reply " + string(rec.Reply) + " was begun with another message", Hint: "give each message an id of its own"}
}

// dropKnown drops the messages that the session already has.
func dropKnown(thread *Thread, msgs []*message.Msg) ([]*message.Msg, error) {
	var out []*message.Msg
	for i, m := range msgs {
		switch known := thread.said[m.ID]; {
		case known == nil:
			out = append(out, m)
		case !saysSame(known, m):
			return nil, &message.Error{Code: message.CodeConflict, Op: "start turn", What: fmt.Sprintf("messages[%d]: the message %s was sent before with other content", i, m.ID), Hint: "what was said cannot be changed; send a new message"}
		}
	}
	if len(out) == 0 {
		return nil, &message.Error{Code: message.CodeInvalid, Op: "start turn", What: "all messages were sent before", Hint: "send a new message"}
	}
	return out, nil
}

// saysSame compares what two messages say; ids and times of blocks do not matter.
func saysSame(a, b *message.Msg) bool {
	return a.Role == b.Role && slices.Equal(contentWords(a), contentWords(b))
}

// contentWords returns the content of a user's message in a form that can be compared.
func contentWords(m *message.Msg) []string {
	var out []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case *message.TextBlock:
			out = append(out, "text", b.Text)
		case *message.DataBlock:
			switch src := b.Source.(type) {
			case *message.Base64Source:
				out = append(out, "base64", src.MediaType, src.Data)
			case *message.URLSource:
				out = append(out, "url", src.MediaType, src.URL)
			}
		default: // a user's message has no others
		}
	}
	return out
}

// open stores the record of a new turn, and runs the turn if it is then the session's open turn
// or waits in the queue.
func (r *Runner) open(ctx context.Context, n note, event message.Event, thread *Thread) error {
	if err := r.notes.recordOpened(ctx, n); err != nil {
		return err
	}
	if err := emit(ctx, r.port(n.By), n.Session, n.Reply, event); err != nil {
		if !errors.Is(err, message.ErrUnavailable) && !errors.Is(err, message.ErrUnknownOutcome) && ctx.Err() == nil {
			return errors.Join(err, r.notes.recordClosed(ctx, n)) // nothing was written
		}
		return &message.Error{Code: message.CodeUnavailable, Op: "start turn", What: "it is unknown whether the message was stored", Hint: "send the same message again", Err: err}
	}
	if err := thread.read(ctx, r.cfg.As(n.By), n.Session); err != nil {
		return err
	}
	rec := thread.current(n.Reply)
	if rec == nil { // another process was faster; or this turn is already over
		if old := thread.replies[n.Reply]; old != nil && old.turn != nil {
			return nil
		}
		return errors.Join(&OpenTurnError{Session: n.Session, Reply: thread.Busy()}, r.notes.recordClosed(ctx, n))
	}
	r.begin(n, rec, thread)
	return nil
}

// Stop interrupts what is in progress in a session: its open turn or, where a runtime works
// without a runner, the reply of its first open call. It returns the reply, or "" if nothing is
// in progress.
func Stop(ctx context.Context, c engine.Client, session message.SessionID) (message.ReplyID, error) {
	t, err := ReadThread(ctx, c, session)
	if err != nil {
		return "", err
	}
	reply := t.Busy()
	if reply == "" {
		open, err := c.List(ctx, toolcall.ListRequest{Session: session, Limit: 1})
		if err != nil {
			return "", err
		}
		if len(open.Calls) == 0 {
			return "", nil
		}
		reply = open.Calls[0].Reply
	}
	_, err = c.Interrupt(ctx, toolcall.InterruptRequest{Session: session, Reply: reply})
	return reply, err
}
