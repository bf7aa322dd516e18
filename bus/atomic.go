package bus

import (
	"context"
	"errors"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
)

// Why a batch is refused before anything is sent.
var (
	// ErrSameTree: two writes of one tree in a batch. The server would store both.
	ErrSameTree = errors.New("two facts of one tree in a batch")
	// ErrBatchSize: none, or more than the server takes.
	ErrBatchSize = errors.New("a batch has 1 to 1000 writes")
)

// MaxBatch is how many messages the server takes in one atomic batch.
const MaxBatch = 1000

// PublishAtomic stores all writes or none, in one round trip. It refuses with
// ErrSameTree two facts of one tree. A server's refusal does not say which
// write it was for: settle each by itself then. The Ack is that of the last
// write.
func PublishAtomic(ctx context.Context, nc *nats.Conn, writes []Write) (Ack, error) {
	if len(writes) == 0 || len(writes) > MaxBatch {
		return Ack{}, ErrBatchSize
	}
	trees := make(map[Tree]struct{}, len(writes))
	for _, w := range writes {
		if _, twice := trees[w.Tree]; twice {
			return Ack{}, ErrSameTree
		}
		trees[w.Tree] = struct{}{}
	}
	msgs := make([]*nats.Msg, len(writes))
	for i, w := range writes {
		msgs[i] = w.Msg
	}
	return sendBatch(ctx, nc, msgs)
}

// sendBatch sends without asking first: a fault of any member comes back as
// the commit's answer.
func sendBatch(ctx context.Context, nc *nats.Conn, msgs []*nats.Msg) (Ack, error) {
	id := nuid.Next()
	last := len(msgs) - 1
	defer func() { // each may be sent by itself next
		for _, m := range msgs {
			for _, h := range [...]string{headerBatchID, headerBatchSeq, headerBatchCommit} {
				m.Header.Del(h)
			}
		}
	}()
	for i, m := range msgs {
		m.Header.Set(headerBatchID, id)
		m.Header.Set(headerBatchSeq, strconv.Itoa(i+1))
		if i < last {
			if err := nc.PublishMsg(m); err != nil {
				return Ack{}, err // never committed: the server drops it after ten seconds
			}
		}
	}
	msgs[last].Header.Set(headerBatchCommit, "1")
	reply, err := nc.RequestMsgWithContext(ctx, msgs[last])
	if err != nil {
		return Ack{}, err
	}
	return parseAck(reply.Data)
}
