package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Names of the CUSTOM events of a turn. Their value is a Record.
const (
	TurnEvent   = "askance.turn"        // the turn begins
	QueuedEvent = "askance.turn.queued" // the turn begins after the turns before it
)

// maxRecord bounds a turn's record, in bytes of JSON.
const maxRecord = toolcall.MaxRequestBytes - 16<<10

// Record is the value of these events: what a user sent, and what the turn needs to continue in
// another process.
type Record struct {
	V     int             `json:"v"` // 1
	Reply message.ReplyID `json:"reply_id"`
	Agent string          `json:"agent"`
	// Runner is the Config.ID of the runner that runs the turn.
	Runner string `json:"runner"`
	// By is the user's name, as authenticated.
	By       string                     `json:"by"`
	Messages []*message.Msg             `json:"messages"`
	Tools    []Tool                     `json:"tools,omitzero"`
	Input    map[string]message.RawJSON `json:"input,omitzero"`
}

// ParseRecord reads a turn's record from an event. It returns false for any other event, and for
// a record that this version cannot use.
func ParseRecord(e message.Event) (*Record, bool) { return parseRecord(e, TurnEvent) }

func parseRecord(e message.Event, name string) (*Record, bool) {
	c, ok := e.(*message.Custom)
	if !ok || c.Name != name {
		return nil, false
	}
	type bare Record
	var in struct {
		bare
		Messages []message.RawJSON `json:"messages"`
	}
	if err := fromValue(c.Value, &in); err != nil || in.V != 1 || in.Reply == "" || len(in.Messages) == 0 {
		return nil, false
	}
	r := Record(in.bare)
	r.Messages = make([]*message.Msg, len(in.Messages))
	for i, raw := range in.Messages {
		m, err := stableCodec(c.ID).DecodeMsg(raw)
		if err != nil || m.ID == "" {
			return nil, false
		}
		r.Messages[i] = m
	}
	return &r, true
}

// stableCodec fills in what another writer left out, with the same values for every reader.
func stableCodec(id string) message.Codec {
	n := 0
	return message.Codec{
		Now:   func() time.Time { return time.Unix(0, 0).UTC() },
		NewID: func() string { n++; return fmt.Sprintf("%s-%d", id, n) },
	}
}

func custom(name string, v any) (message.Event, error) {
	text, err := strictjson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", name, err)
	}
	if len(text) > maxRecord {
		return nil, &message.Error{Code: message.CodeTooLarge, Op: "start turn", What: fmt.Sprintf("the messages, tools and inputs of the turn have %d bytes, the limit is %d", len(text), maxRecord), Hint: "send large content as a URL"}
	}
	value, err := strictjson.Object(text, strictjson.KeepBigIntegers())
	if err != nil {
		return nil, message.Errorf(message.CodeInvalid, "start turn", "%s: %w", name, err)
	}
	return &message.Custom{EventHeader: message.NewHeader(""), Name: name, Value: value}, nil
}

// fromValue reads the value of a CUSTOM event into v.
func fromValue(value map[string]any, v any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return strictjson.Unmarshal(text, v)
}

// replyID returns the id of the reply to a message, always the same for the same message.
func replyID(session message.SessionID, last string) message.ReplyID {
	sum := sha256.Sum256(fmt.Appendf(nil, "askance-turn-v1\x00%d\x00%s%s", len(session), session, last))
	return message.ReplyID(hex.EncodeToString(sum[:16]))
}

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

func (n notes) session() message.SessionID { return message.SessionID(toolcall.GatewaySessions + n.id) }

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

// retry repeats an idempotent request while no engine answers, or while its error is one of waits.
func retry(ctx context.Context, request func() error, waits ...error) error {
	for {
		err := request()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !slices.ContainsFunc(append(waits, message.ErrUnavailable, message.ErrUnknownOutcome), func(w error) bool { return errors.Is(err, w) }):
			return err
		}
		if err := sleep.For(ctx, retryPause); err != nil {
			return err
		}
	}
}
