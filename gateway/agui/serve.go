package agui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
	"github.com/askance-dev/askance/toolcall"
)

// Pauses of a run that finds an open turn in its thread.
const (
	waitForClient = time.Second      // until the other client is known to be gone
	waitForTurn   = 20 * time.Second // then for the end of the turn
)

// serve answers one request. Its errors are HTTP errors, because no run has begun.
func (s *Surface) serve(w http.ResponseWriter, req *http.Request, p *gateway.Peer, connect bool) error {
	in, err := readInput(req)
	if err != nil {
		return err
	}
	of, err := wire.RunOf(in)
	if err != nil {
		return err
	}
	runner, err := s.cfg.Runners.Of(p.Space.ID)
	if err != nil {
		return err
	}
	name, err := agentOf(req, runner)
	if err != nil {
		return err
	}
	owner, err := p.As(toolcall.RoleRuntime)
	if err != nil {
		return err
	}
	key := threadKey{p.Space.ID, message.SessionID(in.ThreadID)}
	l, err := s.threads.enter(key, !connect)
	if err != nil {
		return err
	}
	defer s.threads.leave(key, !connect)
	r := &run{
		s: s, in: in, of: of, peer: p, owner: owner, runner: runner, agent: name, session: key.session,
		log:      s.log.With("thread", in.ThreadID, "run", in.RunID, "peer", p.Name),
		answered: map[string]bool{}, approved: map[message.CallID]*approvedCall{},
	}
	return r.serve(req.Context(), w, l, connect)
}

// refusedError is why a run of an existing thread does not proceed: the client gets it as
// RUN_ERROR, and keeps its interrupts.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

func refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err}
}

func (r *run) serve(ctx context.Context, w http.ResponseWriter, l *load, connect bool) error {
	next, err := r.decideWhenFree(ctx, l, connect)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		r.logEarlyEnd(newStream(w, r.in, r.of.Peer, r.log).send(runError(refused.err)))
		return nil
	}
	if errors.Is(err, message.ErrForeign) { // do not say whether the thread exists
		return &message.Error{Code: message.CodeForbidden, Op: "run", What: "the thread is not yours", Hint: "begin a thread with an id of your own"}
	}
	if err != nil {
		return err
	}
	f := &follower{run: r, out: newStream(w, r.in, r.of.Peer, r.log)}
	r.logEarlyEnd(f.play(ctx, next))
	return nil
}

// logEarlyEnd logs why a stream ended before its run: the client has gone, or is too slow.
func (r *run) logEarlyEnd(err error) {
	if err != nil {
		r.log.Debug("a stream ended before its run", "err", err)
	}
}

// decideWhenFree decides, if necessary after the earlier turn has ended.
func (r *run) decideWhenFree(ctx context.Context, l *load, connect bool) (*plan, error) {
	wait, cancel := context.WithTimeoutCause(ctx, waitForTurn, busyError())
	defer cancel()
	for {
		next, err := r.decideAlone(ctx, l, connect)
		open, ok := errors.AsType[*openTurnError](err)
		if !ok {
			return next, err
		}
		if err := r.waitForOtherClient(ctx, l); err != nil {
			return nil, err
		}
		if err := r.waitForTurnEnd(wait, open); err != nil {
			return nil, err
		}
	}
}

func (r *run) decideAlone(ctx context.Context, l *load, connect bool) (*plan, error) {
	release, err := l.lockDeciding(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	t, err := readThread(ctx, r.owner, r.session)
	if err != nil {
		return nil, err
	}
	return r.decide(ctx, t, connect)
}

// waitForOtherClient refuses a run while another run of the thread has a client. A run whose
// client has just gone ends in a moment.
func (r *run) waitForOtherClient(ctx context.Context, l *load) error {
	deadline := time.After(waitForClient)
	for {
		others, left := r.s.threads.hasOtherRuns(l)
		if !others {
			return nil
		}
		select {
		case <-left:
		case <-deadline:
			return busyError()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waitForTurnEnd waits until a turn ends or asks for a response.
func (r *run) waitForTurnEnd(ctx context.Context, turn *openTurnError) error {
	for after := turn.through; ctx.Err() == nil; {
		page, err := r.owner.Events(ctx, toolcall.EventsRequest{Session: r.session, Reply: turn.reply, After: after, WaitMS: 10_000})
		if err != nil {
			break
		}
		for _, e := range page.Events {
			ev, err := message.DecodeEvent(e.Event)
			if err != nil {
				continue
			}
			switch ev.(type) {
			case *message.ReplyEnd, *message.RequireUserConfirm, *message.RequireExternalExecution:
				return nil
			default:
			}
		}
		after = page.Next
	}
	return cmp.Or(context.Cause(ctx), busyError())
}

func (f *follower) play(ctx context.Context, p *plan) error {
	f.reply = p.projection.reply
	if err := f.start(p.projection, p.restate); err != nil {
		return err
	}
	for _, n := range p.notes {
		if err := f.out.send(&wire.Custom{Name: overtakenEvent, Value: object(n.members())}); err != nil {
			return err
		}
	}
	if p.done {
		return f.out.send(&wire.RunFinished{ThreadID: f.in.ThreadID, RunID: f.in.RunID, Outcome: &wire.Outcome{Type: wire.OutcomeSuccess}})
	}
	if err := f.out.send(p.projection.open...); err != nil {
		return err
	}
	f.mapper, f.calls, f.asked, f.seq = p.projection.mapper, p.projection.calls, p.projection.asked, p.from
	f.queued = p.queued
	return f.follow(ctx)
}

// threadKey names a thread on this server.
type threadKey struct {
	space   toolcall.SpaceID
	session message.SessionID
}

// threads are the threads that clients follow on this server.
type threads struct {
	mu   sync.Mutex
	open map[threadKey]*load
}

// load counts the streams of one thread.
type load struct {
	watchers int
	runs     int           // streams that may begin or resume something
	left     chan struct{} // closed and replaced when a watcher leaves
	// deciding is held by the one request that reads the thread and acts on it, so responses are
	// taken one request at a time.
	deciding chan struct{}
}

// enter counts a stream. The caller must call leave.
func (t *threads) enter(k threadKey, runs bool) (*load, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.open[k]
	if l == nil {
		l = &load{left: make(chan struct{}), deciding: make(chan struct{}, 1)}
		t.open[k] = l
	}
	if l.watchers >= MaxWatchers {
		return nil, &message.Error{Code: message.CodeOverLimit, Op: "run", What: "too many streams follow this thread", Hint: "close some of them"}
	}
	l.watchers++
	if runs {
		l.runs++
	}
	return l, nil
}

func (t *threads) leave(k threadKey, runs bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.open[k]
	if runs {
		l.runs--
	}
	close(l.left)
	l.left = make(chan struct{})
	if l.watchers--; l.watchers == 0 {
		delete(t.open, k)
	}
}

// hasOtherRuns reports whether other runs of the thread are in progress, and returns a channel
// that is closed when a stream leaves.
func (t *threads) hasOtherRuns(l *load) (bool, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return l.runs > 1, l.left
}

// busyError refuses a second run of a thread.
func busyError() error {
	return &message.Error{Code: message.CodeConflict, Op: "run", What: "a run of this thread is under way", Hint: "wait for its end, or POST to /agui/connect to follow it"}
}

// lockDeciding waits for the right to act on the thread.
func (l *load) lockDeciding(ctx context.Context) (release func(), err error) {
	select {
	case l.deciding <- struct{}{}:
		return func() { <-l.deciding }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// stream is the reply to one request: the events of one run, in an order that AG-UI allows. The
// last event ends the run.
type stream struct {
	sse     *gateway.SSE
	peer    wire.Peer
	history *wire.History // the client's messages so far
	buf     []byte
	ended   bool // RUN_FINISHED or RUN_ERROR was sent
	log     *slog.Logger
}

// newStream begins a reply to a client that has these messages.
func newStream(w http.ResponseWriter, in *wire.RunInput, peer wire.Peer, log *slog.Logger) *stream {
	return &stream{sse: gateway.NewSSE(w), peer: peer, history: wire.NewHistory(in.Messages), log: log}
}

// send sends events until one ends the run.
func (s *stream) send(events ...wire.Event) error {
	for _, e := range events {
		if s.ended {
			return nil
		}
		e, _ = s.peer.Adapt(e)
		if err := s.write(e); err != nil {
			return err
		}
	}
	return nil
}

// write writes one event. It leaves out a snapshot that is too large.
func (s *stream) write(e wire.Event) (err error) {
	s.buf, err = wire.AppendFrame(s.buf[:0], e)
	if errors.Is(err, message.ErrTooLarge) {
		if _, ok := e.(*wire.MessagesSnapshot); ok {
			s.log.Warn("a snapshot is longer than clients take and was left out", "err", err)
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("encode %s: %w", wire.TypeOf(e), err)
	}
	s.history.Apply(e)
	switch e.(type) {
	case *wire.RunFinished, *wire.RunError:
		s.ended = true
	default:
	}
	return s.sse.Write(s.buf)
}

// runError returns the event that ends a run with an error.
func runError(err error) *wire.RunError {
	if refusal, ok := errors.AsType[*wire.RefusalError](err); ok {
		return refusal.Event()
	}
	p := gateway.ProblemOf(err)
	text := p.Detail
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return &wire.RunError{Message: text, Code: new(string(p.Code))}
}

// object encodes members that JSON can represent.
func object(members map[string]any) message.RawJSON {
	raw, err := strictjson.Marshal(members)
	if err != nil {
		return message.RawJSON("{}")
	}
	return raw
}
