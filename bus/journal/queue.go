package journal

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

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
		Durable:       bus.ConsumerName(queue),
		Description:   queueText(queue),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    maxWaiting,
		FilterSubject: bus.Subject{Space: space, Kind: bus.KindWork, Tool: bus.EncodeQueue(queue)}.String(),
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

// queues is the part of a journal that hands out the tasks of its queues. It remembers when
// it saw the consumer of each.
type queues struct {
	js    jetstream.JetStream
	space toolcall.SpaceID
	codec codec

	mu   sync.Mutex // guards seen
	seen map[toolcall.Queue]time.Time

	counting sync.Mutex // guards what follows
	counted  time.Time
	waiting  map[string]int // by consumer
}

func (s *queues) isFresh(queue toolcall.Queue, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[queue]
	return ok && now.Sub(at) < ensureEvery
}

func (s *queues) noteSeen(queue toolcall.Queue, now time.Time) {
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
func (s *queues) EnsureQueue(ctx context.Context, queue toolcall.Queue) error {
	const op = "prepare tool"
	now := time.Now()
	if s.isFresh(queue, now) {
		return nil
	}
	if err := bus.CheckQueue(queue); err != nil {
		return err
	}
	cfg := consumerConfig(s.space, queue)
	_, err := s.js.CreateConsumer(ctx, bus.StreamName(s.space), cfg)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "the consumer " + cfg.Durable + " of stream " + bus.StreamName(s.space) + " has the wrong settings", Hint: "delete it with: nats consumer rm " + bus.StreamName(s.space) + " " + cfg.Durable + "; unfinished tasks are delivered again", Err: err}
	}
	if err != nil {
		return jsapi.Error(op, "consumer "+cfg.Durable+" of stream "+bus.StreamName(s.space), err)
	}
	s.noteSeen(queue, now)
	return nil
}

// RecordOf implements engine.TaskQueue.
func (*queues) RecordOf(task string) (seq uint64, stored time.Time) {
	return jsapi.SequenceOf(task), jsapi.TimeOf(task)
}

// moreWait is how long the server has to send tasks that are ready.
const moreWait = time.Second

// TakeTasks implements engine.TaskQueue. Waiting clients get tasks in the order in which
// they asked.
func (s *queues) TakeTasks(ctx context.Context, queue toolcall.Queue, limit int, wait time.Duration) ([]toolcall.OfferedTask, error) {
	out, err := s.pullTasks(ctx, queue, jsapi.Pull{Expires: wait.Nanoseconds(), Batch: 1}, wait+jsapi.MaxSilence)
	if len(out) > 0 && err == nil && limit > 1 {
		more, _ := s.pullTasks(ctx, queue, jsapi.Pull{Batch: limit - 1, NoWait: true}, moreWait) // after an error there are just no more
		out = append(out, more...)
	}
	if ctx.Err() != nil { // the client has gone
		s.returnTasks(out)
		return nil, jsapi.CannotFetch(context.Cause(ctx))
	}
	return out, err
}

// pullTasks sends one request and collects its tasks until the server says that there
// are no more.
func (s *queues) pullTasks(ctx context.Context, queue toolcall.Queue, ask jsapi.Pull, patience time.Duration) (out []toolcall.OfferedTask, err error) {
	nc := s.js.Conn()
	p, err := ask.Start(nc, bus.NextSubject(s.space, queue))
	if err != nil {
		return nil, jsapi.CannotFetch(err)
	}
	defer p.End(func(late *nats.Msg) {
		if jsapi.StateOf(late) == jsapi.StateTask {
			_ = nc.Publish(late.Reply, jsapi.NakBody(0)) // if lost, it returns after ackWait
		}
	})
	over := time.After(patience)
	for len(out) < ask.Batch {
		select {
		case m := <-p.Replies:
			switch jsapi.StateOf(m) {
			case jsapi.StateWaiting:
			case jsapi.StateTask:
				record, err := s.TaskForWorker(ctx, queue, m)
				if errors.Is(err, bus.ErrNotTask) {
					_ = nc.Publish(m.Reply, []byte(jsapi.TermBody)) // if lost, it returns
					return out, nil
				}
				if err != nil {
					_ = nc.Publish(m.Reply, jsapi.NakBody(jsapi.MaxPause)) // if lost, it returns after ackWait
					return out, nil
				}
				out = append(out, toolcall.OfferedTask{Task: m.Reply, Delivered: jsapi.Deliveries(m.Reply), Record: record})
			case jsapi.StateNoTask, jsapi.StateNoQueue:
				return out, nil
			default:
				return out, jsapi.CannotFetch(nil)
			}
		case <-over:
			return out, nil
		case <-p.Lost:
			return out, jsapi.CannotFetch(nats.ErrDisconnected)
		case <-ctx.Done():
			s.returnTasks(out)
			return nil, jsapi.CannotFetch(context.Cause(ctx))
		}
	}
	return out, nil
}

func (s *queues) returnTasks(tasks []toolcall.OfferedTask) {
	for _, t := range tasks {
		_ = s.js.Conn().Publish(t.Task, jsapi.NakBody(0)) // if lost, it returns after ackWait
	}
}

// listeningFor is how long a count of waiting requests is reused.
const listeningFor = 2 * time.Second

// CountListening implements engine.TaskQueue. All consumers of the stream are read at
// once, at most every two seconds.
func (s *queues) CountListening(ctx context.Context, queues []toolcall.Queue) (map[toolcall.Queue]int, error) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if now := time.Now(); now.Sub(s.counted) > listeningFor {
		st, err := s.js.Stream(ctx, bus.StreamName(s.space))
		if err != nil {
			return nil, jsapi.Error("count workers", "stream "+bus.StreamName(s.space), err)
		}
		waiting := map[string]int{}
		list := st.ListConsumers(ctx)
		for c := range list.Info() {
			waiting[c.Name] = c.NumWaiting
		}
		if err := list.Err(); err != nil {
			return nil, jsapi.Error("count workers", "stream "+bus.StreamName(s.space), err)
		}
		s.waiting, s.counted = waiting, now
	}
	out := make(map[toolcall.Queue]int, len(queues))
	for _, q := range queues {
		out[q] = s.waiting[bus.ConsumerName(q)]
	}
	return out, nil
}

// DropTask implements engine.TaskQueue. If the message is lost, the task returns
// after ackWait.
func (s *queues) DropTask(queue toolcall.Queue, task string) {
	if jsapi.IsTask(task, bus.StreamName(s.space), bus.ConsumerName(queue)) {
		_ = s.js.Conn().Publish(task, []byte(jsapi.AckBody))
	}
}

// AckTask implements engine.TaskQueue.
func (s *queues) AckTask(ctx context.Context, queue toolcall.Queue, r toolcall.AckTaskRequest) error {
	if !jsapi.IsTask(r.Task, bus.StreamName(s.space), bus.ConsumerName(queue)) {
		return &message.Error{Code: message.CodeInvalid, Op: "ack", What: errtext.Quote(r.Task) + " is not a task of this tool", Hint: "send the member task of the reply to next"}
	}
	body := []byte(jsapi.AckBody)
	if r.Return {
		body = jsapi.NakBody(time.Duration(min(max(0, r.DelayMS), jsapi.MaxDelay.Milliseconds())) * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	if _, err := s.js.Conn().RequestWithContext(ctx, r.Task, body); err != nil {
		return jsapi.Error("ack", "a task of "+queue.String(), err)
	}
	return nil
}

// TaskForWorker returns the task as workers get it: the whole event record, without the
// explanation of the decision. It does not verify the task: the worker verifies its grant.
// A record that this engine cannot read goes to the worker unchanged, if it is JSON.
func (s *queues) TaskForWorker(ctx context.Context, queue toolcall.Queue, task *nats.Msg) (message.RawJSON, error) {
	if at, err := bus.ParseSubject(task.Subject); err != nil || at.Kind != bus.KindWork || at.Space != s.space || at.Tool != bus.EncodeQueue(queue) {
		return nil, errtext.Because(bus.ErrNotTask, err)
	}
	seq := jsapi.SequenceOf(task.Reply)
	c := s.codec
	c.bases.store.noteSeen(seq)
	if known := c.bases.get(seq); known != nil {
		return strictjson.Marshal(known.Record)
	}
	if err := strictjson.Check(task.Data, strictjson.MaxBytes(jsapi.MaxMessageBytes)); err != nil {
		return nil, errtext.Because(bus.ErrNotTask, err)
	}
	if stored, err := toolcall.DecodeStored(task.Data); err != nil || !stored.IsCompact() {
		return withoutExplanation(task.Data), nil //nolint:nilerr // the worker says what is wrong with it
	}
	c.keys = nil
	rec, _, err := c.expand(ctx, bus.Entity(bus.EntityIn(task.Subject)), stored{subject: task.Subject, seq: seq, header: task.Header, data: task.Data}, 0)
	if errors.Is(err, errUnreadable) {
		return task.Data, nil
	}
	if err != nil {
		return nil, err
	}
	rec.Explanation = nil
	return strictjson.Marshal(rec)
}

func withoutExplanation(body []byte) []byte {
	const name = "explanation"
	if !bytes.Contains(body, []byte(`"`+name+`"`)) {
		return body
	}
	out, err := strictjson.Without(body, name)
	if err != nil {
		return body
	}
	return out
}
