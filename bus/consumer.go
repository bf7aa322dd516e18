package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ackWait is how long a task stays with a worker before it is delivered
	// again. It only spans taking the task and getting the start answered: from
	// then on the engine's lease decides.
	ackWait = 10 * time.Second
	// maxWaiting is how many free worker slots may wait on one tool.
	maxWaiting = 4096
	// ensureEvery is how long a consumer is taken to be there without looking.
	ensureEvery = 30 * time.Second
)

func consumerConfig(space toolcall.SpaceID, queue toolcall.Queue) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       ConsumerName(queue),
		Description:   queueText(queue),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    maxWaiting,
		FilterSubject: workFilter(space, queue),
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		Metadata:      map[string]string{metaKind: "work", metaSpace: string(space)},
	}
}

// queueText describes a consumer to whoever lists them.
func queueText(l toolcall.Queue) string {
	text := "askance tasks of the tool " + errtext.Quote(l.Tool)
	if l.Route != "" {
		text += " on " + errtext.Quote(l.Route)
	}
	return text
}

// queueSet remembers which queues' consumers were seen, and when.
type queueSet struct {
	mu   sync.Mutex // guards seen
	seen map[toolcall.Queue]time.Time
}

func (s *queueSet) fresh(queue toolcall.Queue, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[queue]
	return ok && now.Sub(at) < ensureEvery
}

func (s *queueSet) saw(queue toolcall.Queue, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[toolcall.Queue]time.Time{}
	}
	s.seen[queue] = now
}

// EnsureQueue makes the durable consumer that the queue's workers pull from, if
// it is not there. It is looked for again after half a minute, so that one
// which somebody deleted comes back. A tool whose name a worker's subject
// cannot carry (over 180 bytes) is refused with CodeTooLarge; a consumer of
// that name with other settings with CodeForeignStream.
func (j *Journal) EnsureQueue(ctx context.Context, queue toolcall.Queue) error {
	const op = "prepare tool"
	now := time.Now()
	if j.queues.fresh(queue, now) {
		return nil
	}
	if err := checkQueue(queue); err != nil {
		return err
	}
	cfg := consumerConfig(j.space, queue)
	_, err := j.js.CreateConsumer(ctx, j.stream, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "the consumer " + cfg.Durable + " of stream " + j.stream + " has other settings than it must", Hint: "delete it with: nats consumer rm " + j.stream + " " + cfg.Durable + "; unfinished tasks are delivered again", Err: err}
	}
	if err != nil {
		return apiError(op, "consumer "+cfg.Durable+" of stream "+j.stream, err)
	}
	j.queues.saw(queue, now)
	return nil
}
