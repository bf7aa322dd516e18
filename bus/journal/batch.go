package journal

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/nats-io/nats.go"
)

const (
	// minMembers is the number of writes from which a batch costs the server less than a
	// request for each of them.
	minMembers = 16
	// maxMembers and maxMemberBytes limit a batch; the server accepts at most 1000 messages.
	maxMembers     = 256
	maxMemberBytes = 4 << 20

	headerBatchID       = "Nats-Batch-Id"
	headerBatchSequence = "Nats-Batch-Sequence"
	headerBatchCommit   = "Nats-Batch-Commit"
)

var (
	// errWaited: the write waited behind others until its context ended.
	errWaited = errors.New("nothing was sent: other writes were under way")
	// errBatchLost: the server may still store the batch, even after a restart.
	errBatchLost = errors.New("the server did not acknowledge the batch")
	errTooFew    = errors.New("too few writes for a batch")
)

// Batched is a Publisher for a server that syncs each request separately: writes that
// wait while others are in flight go into one atomic batch, which the server syncs
// once. If there are few writes, each goes in a request of its own, without waiting. A
// batch that the server refuses is sent again as single writes, because the refusal
// does not name the member at fault.
type Batched struct {
	nc     *nats.Conn
	single Publisher
	pays   func() bool
	prefix string

	mu      sync.Mutex // guards all below
	waiting []*member  // the oldest first
	singles int        // single writes in flight
	batch   bool       // a batch is in flight
	limit   int        // of a batch's writes; smaller after a refusal
	number  uint64     // of the last batch
}

// member is a write that waits for a batch, or is in one.
type member struct {
	Write
	batch *batch    // that has the write; Batched.mu guards batch and left
	left  bool      // its caller no longer waits
	turn  chan turn // buffered: it gets exactly one turn
}

// turn is how the wait of a member ends.
type turn struct {
	ack   Ack
	err   error
	alone bool // send it as a single write
}

type batch struct {
	id      string
	members []*member
	sent    chan struct{} // closed when the messages of the members are no longer used
}

// NewBatched returns a Batched that publishes on nc. It uses batches while pays returns true.
func NewBatched(nc *nats.Conn, pays func() bool) *Batched {
	return &Batched{nc: nc, single: NewDirect(nc), pays: pays, prefix: rand.Text()[:10], limit: maxMembers}
}

// Publish implements Publisher.
func (b *Batched) Publish(ctx context.Context, w Write) (Ack, error) {
	if w.Again || !b.pays() {
		return b.single.Publish(ctx, w)
	}
	if m := b.admitWrite(w); m != nil {
		if t := b.awaitTurn(ctx, m); !t.alone {
			return t.ack, t.err
		}
	}
	defer b.endSingle()
	return b.single.Publish(ctx, w)
}

// admitWrite counts a single write and returns nil, or returns a member that has to wait.
func (b *Batched) admitWrite(w Write) *member {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.batch && len(b.waiting) == 0 && b.singles < minMembers-1 {
		b.singles++
		return nil
	}
	m := &member{Write: w, turn: make(chan turn, 1)}
	b.waiting = append(b.waiting, m)
	b.giveTurns()
	return m
}

// giveTurns starts what can start now. b.mu is held.
func (b *Batched) giveTurns() {
	if b.batch {
		return
	}
	if len(b.waiting) >= minMembers {
		b.batch = true
		go b.commit(b.takeBatch())
		return
	}
	for len(b.waiting) > 0 && b.singles < minMembers-1 {
		b.singles++
		b.waiting[0].turn <- turn{alone: true}
		b.waiting = slices.Delete(b.waiting, 0, 1)
	}
}

// takeBatch makes a batch of the oldest waiting writes, one per entity. b.mu is held.
func (b *Batched) takeBatch() *batch {
	b.number++
	out := &batch{id: b.prefix + strconv.FormatUint(b.number, 36), sent: make(chan struct{})}
	size, entities := 0, make(map[bus.Entity]bool, len(b.waiting))
	b.waiting = slices.DeleteFunc(b.waiting, func(m *member) bool {
		if len(out.members) >= b.limit || size > maxMemberBytes || entities[m.Entity] {
			return false
		}
		size += len(m.Msg.Data) + headerRoom
		entities[m.Entity] = true
		m.batch, out.members = out, append(out.members, m)
		return true
	})
	return out
}

// awaitTurn returns the member's turn, or an error when ctx ends.
func (b *Batched) awaitTurn(ctx context.Context, m *member) turn {
	select {
	case t := <-m.turn:
		return t
	case <-ctx.Done():
	}
	if in := b.stopWaiting(m); in != nil {
		<-in.sent
		return turn{err: errtext.Because(errBatchLost, context.Cause(ctx))}
	}
	return <-m.turn
}

// stopWaiting ends a wait early. It returns the batch that has the member, or nil if
// the member's turn is already there.
func (b *Batched) stopWaiting(m *member) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, m); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		m.turn <- turn{err: errWaited}
	}
	if len(m.turn) > 0 {
		return nil
	}
	m.left = true
	return m.batch
}

func (b *Batched) endSingle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.singles--
	b.giveTurns()
}

// commit sends a batch and gives its members their turns.
func (b *Batched) commit(in *batch) {
	last, err := b.send(in)
	b.mu.Lock()
	defer b.mu.Unlock()
	refused := err != nil && !errors.Is(err, errBatchLost)
	for i, m := range in.members {
		switch {
		case m.left:
		case refused:
			b.singles++
			m.turn <- turn{alone: true}
		case err != nil:
			m.turn <- turn{err: err}
		default:
			m.turn <- turn{ack: Ack{Stream: last.Stream, Seq: last.Seq - uint64(len(in.members)-1-i)}}
		}
	}
	if refused {
		b.limit = max(minMembers, len(in.members)/2)
	} else {
		b.limit = min(b.limit+minMembers, maxMembers)
	}
	b.batch = false
	b.giveTurns()
}

// send stores the batch and returns the acknowledgement of its last write. Any error
// other than errBatchLost means that nothing is stored.
func (b *Batched) send(in *batch) (ackReply, error) {
	end, err := b.stageWrites(in)
	if err != nil {
		return ackReply{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), jsapi.AttemptTimeout)
	defer cancel()
	reply, err := b.nc.RequestMsgWithContext(ctx, end)
	if errors.Is(err, nats.ErrNoResponders) {
		return ackReply{}, err
	}
	if err != nil {
		return ackReply{}, errtext.Because(errBatchLost, err)
	}
	var ack ackReply
	switch err := strictjson.UnmarshalOpen(reply.Data, &ack); {
	case err != nil:
		return ackReply{}, errtext.Because(errBatchLost, err)
	case ack.Error != nil && ack.Error.ErrorCode == jsapi.CodeOutOfStep:
		return ackReply{}, errtext.Because(errBatchLost, ack.Error)
	case ack.Error != nil:
		return ackReply{}, ack.Error
	case ack.Stream == "" || ack.Count != len(in.members) || ack.Seq < uint64(ack.Count):
		return ackReply{}, fmt.Errorf("%w: the reply is not about its %d writes: %s", errBatchLost, len(in.members), errtext.Quote(string(reply.Data)))
	}
	return ack, nil
}

// stageWrites sends all writes except the last, which it returns: the last one commits.
func (b *Batched) stageWrites(in *batch) (end *nats.Msg, err error) {
	defer close(in.sent)
	n := len(in.members)
	if n < minMembers {
		return nil, errTooFew
	}
	id, sequence := []string{in.id}, []string{""}
	for i, m := range in.members[:n-1] {
		sequence[0] = strconv.Itoa(i + 1)
		m.Msg.Header[headerBatchID], m.Msg.Header[headerBatchSequence] = id, sequence
		err := b.nc.PublishMsg(m.Msg)
		delete(m.Msg.Header, headerBatchID)
		delete(m.Msg.Header, headerBatchSequence)
		if err != nil {
			return nil, err
		}
	}
	last := in.members[n-1].Msg
	end = &nats.Msg{Subject: last.Subject, Data: bytes.Clone(last.Data), Header: nats.Header{}}
	for name, values := range last.Header {
		end.Header[name] = slices.Clone(values)
	}
	end.Header[headerBatchID], end.Header[headerBatchSequence], end.Header[headerBatchCommit] = id, []string{strconv.Itoa(n)}, []string{"1"}
	return end, nil
}
