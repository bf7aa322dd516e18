package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// ackWait is how long an item stays with a worker before it is delivered
	// again. It only spans taking the item and getting the start answered: from
	// then on the engine's lease decides.
	ackWait = 10 * time.Second
	// maxWaiting is how many free worker slots may wait on one tool.
	maxWaiting = 4096
	// ensureEvery is how long a consumer is taken to be there without looking.
	ensureEvery = 30 * time.Second
)

func consumerConfig(space message.SpaceID, lane message.Lane) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       ConsumerName(lane),
		Description:   laneText(lane),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    maxWaiting,
		FilterSubject: workFilter(space, lane),
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		Metadata:      map[string]string{metaKind: "work", metaSpace: string(space)},
	}
}

// laneText describes a consumer to whoever lists them.
func laneText(l message.Lane) string {
	text := "askance work items of the tool " + quote(l.Tool)
	if l.Route != "" {
		text += " on " + quote(l.Route)
	}
	return text
}

// laneSet remembers which lanes' consumers were seen, and when.
type laneSet struct {
	mu   sync.Mutex // guards seen
	seen map[message.Lane]time.Time
}

func (s *laneSet) fresh(lane message.Lane, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[lane]
	return ok && now.Sub(at) < ensureEvery
}

func (s *laneSet) saw(lane message.Lane, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[message.Lane]time.Time{}
	}
	s.seen[lane] = now
}

// EnsureLane makes the durable consumer that the lane's workers pull from, if
// it is not there. It is looked for again after half a minute, so that one
// which somebody deleted comes back. A tool whose name a worker's subject
// cannot carry (over 180 bytes) is refused with CodeTooLarge; a consumer of
// that name with other settings with CodeForeignStream.
func (j *Journal) EnsureLane(ctx context.Context, lane message.Lane) error {
	const op = "prepare tool"
	now := time.Now()
	if j.lanes.fresh(lane, now) {
		return nil
	}
	if err := checkLane(lane); err != nil {
		return err
	}
	cfg := consumerConfig(j.space, lane)
	_, err := j.js.CreateConsumer(ctx, j.stream, cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "the consumer " + cfg.Durable + " of stream " + j.stream + " has other settings than it must", Hint: "delete it with: nats consumer rm " + j.stream + " " + cfg.Durable + "; unfinished items are delivered again", Err: err}
	}
	if err != nil {
		return apiError(op, "consumer "+cfg.Durable+" of stream "+j.stream, err)
	}
	j.lanes.saw(lane, now)
	return nil
}
