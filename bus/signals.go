package bus

import (
	"log/slog"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// Hint says that the approval request of a call opened, changed or closed. Read
// the call with list or show before acting on it.
type Hint struct {
	V int `json:"v"` // 1
	toolcall.Key
	Tool   string                `json:"tool_name"`
	State  message.ToolCallState `json:"state"`
	Digest string                `json:"digest,omitzero"` // of the approval request, while it is open
	Seq    uint64                `json:"seq,omitzero"`
}

// Presence is what an engine reports to the other engines of its space.
type Presence struct {
	V          int    `json:"v,omitzero"`
	Engine     string `json:"engine"`              // a random id of this service
	Generation uint64 `json:"generation,omitzero"` // of the queue group in which it takes requests
	Leaving    bool   `json:"leaving,omitzero"`    // it takes no more requests
}

type cancelNote struct {
	toolcall.HeartbeatRequest
	Reason string `json:"reason,omitzero"`
}

// Signals sends best-effort messages outside the journal; it implements
// engine.Signals. All methods may be called from many goroutines and do not wait.
type Signals struct {
	nc    *nats.Conn
	space toolcall.SpaceID
	log   *slog.Logger
}

// NewSignals sends on nc. A nil logger logs nothing.
func NewSignals(nc *nats.Conn, space toolcall.SpaceID, log *slog.Logger) *Signals {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Signals{nc: nc, space: space, log: log}
}

// Hint implements engine.Signals.
func (s *Signals) Hint(c *toolcall.Call) {
	h := Hint{V: ProtocolVersion, Key: c.Key, Tool: c.Tool, State: c.State, Seq: c.Seq}
	if c.State == message.ToolCallAsking {
		h.Digest = c.Digest
	}
	s.send(s.ofCall(KindAsk, c.Key), h)
}

// Cancel implements engine.Signals.
func (s *Signals) Cancel(queue toolcall.Queue, worker string, r toolcall.HeartbeatRequest, reason string) {
	s.send(Subject{Space: s.space, Kind: KindCancel, Tool: EncodeQueue(queue), Who: Encode(worker)}, cancelNote{r, reason})
}

// Beat implements engine.Signals: a heartbeat without a reply.
func (s *Signals) Beat(tool, engine string, r toolcall.HeartbeatRequest) {
	body, err := strictjson.Marshal(r)
	if err != nil {
		s.log.Error("a heartbeat has no JSON form", "err", err)
		return
	}
	s.send(Subject{Space: s.space, Kind: KindHeartbeat, Tool: Encode(tool), Who: Encode(engine)}, requestEnvelope{V: ProtocolVersion, Op: api.Heartbeat.Name, Body: body})
}

// Progress implements engine.Signals. It omits the claim, which would let a reader
// speak for the attempt.
func (s *Signals) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	p.Claim = ""
	s.send(s.ofCall(KindProgress, c.Key), p)
}

func (s *Signals) ofCall(kind Kind, k toolcall.Key) Subject {
	return Subject{Space: s.space, Kind: kind, Session: Encode(string(k.Session)), Reply: Encode(string(k.Reply)), Call: Encode(string(k.Call))}
}

func (s *Signals) send(to Subject, v any) {
	b, err := strictjson.Marshal(v)
	if err == nil && !to.isComplete() {
		err = badSubject(to.String(), "a token is missing")
	}
	if err == nil {
		err = s.nc.Publish(to.String(), b)
	}
	if err != nil {
		s.log.Debug("a signal was lost", "subject", to.String(), "err", err)
	}
}
