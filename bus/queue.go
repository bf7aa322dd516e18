package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// queueSign joins the tokens of a tool and a route; no token of a name contains it.
const queueSign = "="

// maxConsumerName is the server's limit.
const maxConsumerName = 255

// EncodeQueue returns the token of a queue, or "" if it has no tool.
func EncodeQueue(q toolcall.Queue) Token {
	t := Encode(q.Tool)
	if q.Route == "" || t == "" {
		return t
	}
	return t + queueSign + encodeRoute(q.Route)
}

// encodeRoute is Encode without the size limit: a route can always be decoded from a
// subject.
func encodeRoute(route string) Token {
	if isPlain(route) {
		return Token(route)
	}
	return Token(textPrefix + strictBase64.EncodeToString([]byte(route)))
}

// Queue decodes a queue. It returns false for a hashed tool, and for a token that is not
// a queue.
func (t Token) Queue() (q toolcall.Queue, ok bool) {
	tool, route, routed := strings.Cut(string(t), queueSign)
	if q.Tool, ok = Token(tool).ID(); !ok || !routed {
		return q, ok
	}
	if q.Route, ok = decodeRoute(route); !ok {
		return toolcall.Queue{}, false
	}
	return q, true
}

func decodeRoute(s string) (string, bool) {
	text, encoded := strings.CutPrefix(s, textPrefix)
	if !encoded {
		return s, isPlain(s)
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || toolcall.CheckRoute(string(b)) != nil || string(encodeRoute(string(b))) != s {
		return "", false
	}
	return string(b), true
}

// parseQueue accepts exactly what EncodeQueue returns.
func parseQueue(s string) (Token, error) {
	tool, route, routed := strings.Cut(s, queueSign)
	t, err := ParseToken(tool)
	if err != nil || !routed {
		return t, err
	}
	if _, ok := decodeRoute(route); !ok {
		return "", badToken(s)
	}
	return Token(s), nil
}

// checkQueue returns why workers cannot serve a queue.
func checkQueue(q toolcall.Queue) error {
	if err := CheckName("tool", q.Tool); err != nil {
		return err
	}
	if q.Route != "" {
		return toolcall.CheckRoute(q.Route)
	}
	return nil
}

// ConsumerName returns the name of the durable consumer that a queue's workers share:
// "w_" and the queue's token, or the hash of the token if that is too long.
func ConsumerName(q toolcall.Queue) string {
	token := string(EncodeQueue(q))
	if name := "w_" + token; len(name) <= maxConsumerName {
		return name
	}
	sum := sha256.Sum256([]byte(token))
	return "w_" + textPrefix + queueSign + hex.EncodeToString(sum[:])
}

const (
	// ackWait is how long a worker may keep a task before its start is answered;
	// after that, the engine's lease counts.
	ackWait = 10 * time.Second
	// maxWaiting limits how many free worker slots can wait for tasks of one tool.
	maxWaiting = 4096
	// ensureEvery is how long an existing consumer is trusted before it is checked again.
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
		FilterSubject: Subject{Space: space, Kind: KindWork, Tool: EncodeQueue(queue)}.String(),
		ReplayPolicy:  jetstream.ReplayInstantPolicy,
		Metadata:      map[string]string{metaKind: "work", metaSpace: string(space)},
	}
}

func queueText(q toolcall.Queue) string {
	text := "askance tasks of the tool " + errtext.Quote(q.Tool)
	if q.Route != "" {
		text += " on " + errtext.Quote(q.Route)
	}
	return text
}

// queueSet creates the consumers of queues and remembers when it saw each.
type queueSet struct {
	js    jetstream.JetStream
	space toolcall.SpaceID

	mu   sync.Mutex // guards seen
	seen map[toolcall.Queue]time.Time

	counting sync.Mutex // guards what follows
	counted  time.Time
	waiting  map[string]int // by consumer
}

func (s *queueSet) isFresh(queue toolcall.Queue, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[queue]
	return ok && now.Sub(at) < ensureEvery
}

func (s *queueSet) noteSeen(queue toolcall.Queue, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[toolcall.Queue]time.Time{}
	}
	s.seen[queue] = now
}

// EnsureQueue creates the durable consumer from which the queue's workers pull, and
// checks it again at most every half minute. A tool name over 180 bytes is refused
// with CodeTooLarge, a consumer with other settings with CodeForeignStream.
func (j *Journal) EnsureQueue(ctx context.Context, queue toolcall.Queue) error {
	return j.queues.ensureQueue(ctx, queue)
}

func (s *queueSet) ensureQueue(ctx context.Context, queue toolcall.Queue) error {
	const op = "prepare tool"
	now := time.Now()
	if s.isFresh(queue, now) {
		return nil
	}
	if err := checkQueue(queue); err != nil {
		return err
	}
	cfg := consumerConfig(s.space, queue)
	_, err := s.js.CreateConsumer(ctx, StreamName(s.space), cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "the consumer " + cfg.Durable + " of stream " + StreamName(s.space) + " has the wrong settings", Hint: "delete it with: nats consumer rm " + StreamName(s.space) + " " + cfg.Durable + "; unfinished tasks are delivered again", Err: err}
	}
	if err != nil {
		return apiError(op, "consumer "+cfg.Durable+" of stream "+StreamName(s.space), err)
	}
	s.noteSeen(queue, now)
	return nil
}
