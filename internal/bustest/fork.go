package bustest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/nats-io/nats.go"
)

// Forker is a Publisher that stores two writes after the same record and answers neither, like a
// leader whose disk is full. The server accepts both because they are one batch: see [journal.Write].
// When they are sent again it answers like a cluster, which checks the id before it compares the
// sequence: see TestForkOnACluster.
type Forker struct {
	journal.Publisher
	nc *nats.Conn

	mu    sync.Mutex // guards all below
	armed bool
	held  []*nats.Msg
	Holds chan struct{} // has one for each write in held
	both  chan struct{} // closed when both are stored
	acks  map[string]journal.Ack
	Own   bool // the server answers itself when they come again
}

// NewForker returns one that is not armed.
func NewForker(nc *nats.Conn) *Forker {
	return &Forker{Publisher: journal.NewDirect(nc), nc: nc, Holds: make(chan struct{}, 2), both: make(chan struct{})}
}

// Arm makes it fork the next two writes.
func (f *Forker) Arm() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
}

// Publish implements journal.Publisher.
func (f *Forker) Publish(ctx context.Context, w journal.Write) (journal.Ack, error) {
	f.mu.Lock()
	ack, again := f.acks[w.Msg.Header.Get("Nats-Msg-Id")]
	f.mu.Unlock()
	if again && !f.Own {
		return ack, nil
	}
	if !f.hold(w.Msg) {
		return f.Publisher.Publish(ctx, w)
	}
	f.Holds <- struct{}{}
	select {
	case <-f.both:
		return journal.Ack{}, errNoAnswer
	case <-ctx.Done():
		return journal.Ack{}, context.Cause(ctx)
	}
}

func (f *Forker) hold(m *nats.Msg) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed || len(f.held) == 2 {
		return false
	}
	next := &nats.Msg{Subject: m.Subject, Data: slices.Clone(m.Data), Header: nats.Header{}}
	for name, values := range m.Header {
		next.Header[name] = slices.Clone(values)
	}
	if f.held = append(f.held, next); len(f.held) < 2 {
		return true
	}
	for i, m := range f.held {
		m.Header.Set("Nats-Batch-Id", "fork")
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
	}
	f.held[1].Header.Set("Nats-Batch-Commit", "1")
	f.acks = f.store()
	close(f.both)
	return true
}

// store returns the later answers by id, or none if the server did not store both.
func (f *Forker) store() map[string]journal.Ack {
	if err := f.nc.PublishMsg(f.held[0]); err != nil {
		return nil
	}
	reply, err := f.nc.RequestMsg(f.held[1], Patience)
	var ack struct {
		Stream string `json:"stream"`
		Seq    uint64 `json:"seq"`
	}
	if err != nil || strictjson.UnmarshalOpen(reply.Data, &ack) != nil || ack.Seq == 0 {
		return nil
	}
	acks := map[string]journal.Ack{}
	for i, m := range f.held {
		acks[m.Header.Get("Nats-Msg-Id")] = journal.Ack{Stream: ack.Stream, Seq: ack.Seq - 1 + uint64(i), Duplicate: true}
	}
	return acks
}

var errNoAnswer = errors.New("no answer")
