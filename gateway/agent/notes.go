package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Names of the events with which a runner records its turns.
const (
	noteOpened = "askance.turn.opened"
	noteClosed = "askance.turn.closed"
	noteStarts = "askance.runner.starts"
)

// note names a turn and who began it.
type note struct {
	V       int                `json:"v"`
	Session message.SessionID  `json:"session_id"`
	Reply   message.ReplyID    `json:"reply_id"`
	By      toolcall.Principal `json:"by"`
}

// key identifies the turn.
func (n note) key() turnKey { return turnKey{n.Session, n.Reply} }

// notes is the list of a runner's turns, in a session of its own. A new process reads it to find
// open turns; the state of a turn is in the turn's own session.
type notes struct {
	as port
	id string
}

// port returns the engine for one principal. It is called for each request, because the engine
// may be replaced while a turn waits.
type port func() engine.Client

func (n notes) session() message.SessionID { return message.SessionID("askance.turns/" + n.id) }

func (n notes) recordOpened(ctx context.Context, t note) error { return n.write(ctx, noteOpened, t) }
func (n notes) recordClosed(ctx context.Context, t note) error { return n.write(ctx, noteClosed, t) }

// bind claims the notes' session for this runner before another principal can.
func (n notes) bind(ctx context.Context) error {
	err := n.write(ctx, noteStarts, struct {
		V int `json:"v"`
	}{1})
	if errors.Is(err, message.ErrForeign) {
		return &message.Error{Code: message.CodeForeign, Op: "start runner", What: "the session " + string(n.session()) + " belongs to another principal", Hint: "give the runner another ID", Err: err}
	}
	return err
}

func (n notes) write(ctx context.Context, name string, v any) error {
	e, err := custom(name, v)
	if err != nil {
		return err
	}
	return emit(ctx, n.as, n.session(), "turns", e)
}

// open returns the turns that are open according to the notes, in the order in which they began.
func (n notes) open(ctx context.Context) ([]note, error) {
	var order []turnKey
	open := map[turnKey]note{}
	_, err := EachEvent(ctx, n.as(), toolcall.EventsRequest{Session: n.session()}, func(seq uint64, e message.Event) error {
		name, t, err := readNote(e)
		switch {
		case err != nil:
			return fmt.Errorf("the note at %d: %w", seq, err)
		case name == noteOpened:
			order = append(order, t.key())
			open[t.key()] = t
		case name == noteClosed:
			delete(open, t.key())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var out []note
	for _, k := range order {
		if t, ok := open[k]; ok {
			out = append(out, t)
			delete(open, k)
		}
	}
	return out, nil
}

func readNote(e message.Event) (string, note, error) {
	var t note
	c, ok := e.(*message.Custom)
	if !ok || c.Name != noteOpened && c.Name != noteClosed {
		return "", t, nil
	}
	if err := fromValue(c.Value, &t); err != nil {
		return "", t, err
	}
	if t.V != 1 || t.By.Role != toolcall.RoleRuntime {
		return "", t, errors.New("it is of another version")
	}
	return c.Name, t, nil
}

// retryPause is the pause after a request that no engine answered.
const retryPause = 250 * time.Millisecond

// emit stores events and waits for an engine until ctx ends. Every attempt sends the same events,
// so they are stored once.
func emit(ctx context.Context, as port, session message.SessionID, reply message.ReplyID, events ...message.Event) error {
	if len(events) == 0 {
		return nil
	}
	req := toolcall.EmitRequest{V: 1, Session: session, Reply: reply}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		req.Events = append(req.Events, raw)
	}
	return retry(ctx, func() error {
		_, err := as().Emit(ctx, req)
		return err
	})
}

// retry repeats an idempotent request until an engine answers.
func retry(ctx context.Context, request func() error) error {
	for {
		err := request()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, message.ErrUnavailable) && !errors.Is(err, message.ErrUnknownOutcome):
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
