package agui

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	wire "github.com/askance-dev/askance/message/agui"
)

// stream is the reply to one request: the events of one run, in an order that AG-UI allows. The
// last event ends the run.
type stream struct {
	sse     *gateway.SSE
	peer    wire.Peer
	order   wire.Verifier
	history *wire.History // the client's messages so far
	buf     []byte
	ended   bool // RUN_FINISHED or RUN_ERROR was sent
	log     *slog.Logger
}

// newStream begins a reply to a client that has these messages.
func newStream(w http.ResponseWriter, in *wire.RunInput, peer wire.Peer, log *slog.Logger) *stream {
	s := &stream{sse: gateway.NewSSE(w), peer: peer, history: wire.NewHistory(in.Messages), log: log}
	s.order.Seed(in.Messages)
	return s
}

// send sends events. An event that would break the order of the stream is our defect: the run
// ends with an error, so that the client does not fail over it.
func (s *stream) send(events ...wire.Event) error {
	for _, e := range events {
		if s.ended {
			return nil
		}
		e, _ = s.peer.Adapt(e)
		if err := s.order.Check(e); err != nil {
			s.log.Error("an event out of order was held back", "event", wire.TypeOf(e), "err", err)
			s.ended = true
			return s.write(&wire.RunError{Message: "the run cannot be shown any further; connect again", Code: new(string(message.CodeInternal))})
		}
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
