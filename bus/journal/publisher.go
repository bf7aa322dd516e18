package journal

import (
	"context"
	"fmt"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Write is one event record on its way to the stream.
type Write struct {
	// Entity is the entity of the event record. A batch must not have two writes
	// to one entity: the server's compare-and-swap ignores the rest of the batch.
	Entity bus.Entity
	// Msg has the compare-and-swap and the message id in its headers. The
	// caller owns it again when Publish returns.
	Msg *nats.Msg
	// Again means that an earlier attempt may have stored it, so a batch would be refused.
	Again bool
}

// Ack is the server's confirmation that a write is stored.
type Ack struct {
	Stream    string
	Seq       uint64
	Duplicate bool // a message with this id was stored before, at Seq
}

// Publisher stores writes, one by one or in batches. Publish is safe for concurrent
// use and returns when the write is stored. After a *jetstream.APIError nothing was
// stored; after any other error the write may be stored.
type Publisher interface {
	Publish(ctx context.Context, w Write) (Ack, error)
}

// Direct is a Publisher that sends each write in its own request.
type Direct struct{ nc *nats.Conn }

// NewDirect returns a Direct that publishes on nc.
func NewDirect(nc *nats.Conn) Direct { return Direct{nc} }

// Publish implements Publisher.
func (d Direct) Publish(ctx context.Context, w Write) (Ack, error) {
	reply, err := d.nc.RequestMsgWithContext(ctx, w.Msg)
	if err != nil {
		return Ack{}, err
	}
	return parseAck(reply.Data)
}

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
		return Ack{}, fmt.Errorf("the reply to the publish is not from a stream: %s", errtext.Quote(string(data)))
	}
	return Ack{Stream: r.Stream, Seq: r.Seq, Duplicate: r.Duplicate}, nil
}
