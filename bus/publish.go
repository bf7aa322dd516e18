package bus

import (
	"context"
	"fmt"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Write is one event record on its way to the stream.
type Write struct {
	// Entity is the entity that the event record belongs to. Two writes of one entity must not
	// travel in one batch: within a batch the server's compare-and-swap does not
	// see what the batch itself writes, so it would store both.
	Entity Entity
	// Msg carries the compare-and-swap and the message id in its headers. It
	// belongs to the caller again when Publish returns.
	Msg *nats.Msg
}

// Ack is the server's confirmation that a write is stored.
type Ack struct {
	Stream    string
	Seq       uint64
	Duplicate bool // a message with this id was stored before, at Seq
}

// Publisher stores writes; the one that collects several into a batch is a
// Publisher like the one that does not. Publish may be called from many
// goroutines at once and returns when the write is stored. A refusal by the
// server is a *jetstream.APIError with the code for this very write, and then
// nothing was stored; any other error leaves open whether it was.
type Publisher interface {
	Publish(ctx context.Context, w Write) (Ack, error)
}

// Direct is the Publisher that sends each write by itself: one request, one
// answer.
type Direct struct{ nc *nats.Conn }

// NewDirect publishes on nc.
func NewDirect(nc *nats.Conn) Direct { return Direct{nc} }

// Publish implements Publisher.
func (d Direct) Publish(ctx context.Context, w Write) (Ack, error) {
	reply, err := d.nc.RequestMsgWithContext(ctx, w.Msg)
	if err != nil {
		return Ack{}, err
	}
	return parseAck(reply.Data)
}

// ackReply is what the server answers to a publish.
type ackReply struct {
	Error     *jetstream.APIError `json:"error"`
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"` // of a batch
}

func parseAck(data []byte) (Ack, error) {
	var r ackReply
	if err := strictjson.UnmarshalOpen(data, &r); err != nil {
		return Ack{}, fmt.Errorf("the server's acknowledgement: %w", err)
	}
	if r.Error != nil {
		return Ack{}, r.Error
	}
	if r.Stream == "" || r.Seq == 0 {
		return Ack{}, fmt.Errorf("something that is no stream answered the publish: %s", errtext.Quote(string(data)))
	}
	return Ack{Stream: r.Stream, Seq: r.Seq, Duplicate: r.Duplicate}, nil
}
