package bus

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

// NextRequest asks for tasks, each of which is sent in a separate reply. Replies with the
// state waiting arrive in between. The request ends with the last task that it asked for,
// or with any state other than waiting and task.
type NextRequest struct {
	V      int   `json:"v,omitzero"`
	WaitMS int64 `json:"wait_ms,omitzero"` // how long to wait for tasks; default and maximum 25 s
	Batch  int   `json:"batch,omitzero"`   // how many; default 1, maximum 256: ask only for what can start at once
}

// maxBatch is how many tasks one request can get.
const maxBatch = 256

// TaskState is what a NextReply reports.
type TaskState string

// The states of a request for a task.
const (
	TaskWaiting TaskState = "waiting"  // no task yet, the engine still waits; sent every two seconds
	TaskNone    TaskState = "none"     // no task arrived in time: ask again
	TaskNoQueue TaskState = "no_queue" // no engine has offered the tool so far: ask again later
	TaskHere    TaskState = "task"     // the reply has a task
)

// NextReply is one reply to a request for a task.
type NextReply struct {
	State     TaskState       `json:"state"`
	Subject   string          `json:"subject,omitzero"`   // of the task in the journal
	Task      string          `json:"task,omitzero"`      // names the task in an AckRequest
	Delivered int             `json:"delivered,omitzero"` // how often it was delivered, including this time
	Record    message.RawJSON `json:"record,omitzero"`    // the submitted event record
}

// KeysRequest asks for the engines' signing keys.
type KeysRequest struct {
	V int `json:"v,omitzero"`
}

// KeysReply has the keys, oldest first. A worker accepts only keys that a trusted key
// vouches for: see toolcall.KeyRing.
type KeysReply struct {
	Keys toolcall.KeyRing `json:"keys,omitzero"`
}

// AckVerb is what happens to a task in the queue.
type AckVerb string

// The verbs.
const (
	AckDone    AckVerb = "ack"  // remove it from the queue
	AckRelease AckVerb = "nak"  // return it to the queue
	AckDrop    AckVerb = "term" // remove it: it is not a task
)

// AckRequest acknowledges, returns or drops a task. The reply is sent when the queue has
// confirmed it.
type AckRequest struct {
	V       int     `json:"v,omitzero"`
	Task    string  `json:"task"`
	Verb    AckVerb `json:"verb"`
	DelayMS int64   `json:"delay_ms,omitzero"` // with nak: how long not to deliver it again
}

// pulling is one request for a task and the subscription to its replies.
type pulling struct {
	nc      *nats.Conn
	sub     *nats.Subscription
	inbox   string
	replies chan *nats.Msg
	lost    chan nats.Status
}

func startPull(nc *nats.Conn, subject string, body []byte, tasks int) (*pulling, error) {
	p := &pulling{nc: nc, inbox: nc.NewInbox(), replies: make(chan *nats.Msg, 64+tasks)}
	var err error
	if p.sub, err = nc.ChanSubscribe(p.inbox, p.replies); err != nil {
		return nil, err
	}
	p.lost = nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	if err := nc.PublishRequest(subject, p.inbox, body); err != nil {
		p.endRequest(func(*nats.Msg) {})
		return nil, err
	}
	return p, nil
}

// endRequest ends the request and passes late replies to release.
func (p *pulling) endRequest(release func(*nats.Msg)) {
	_ = p.sub.Unsubscribe() // fails only on a dead connection
	p.nc.RemoveStatusListener(p.lost)
	for {
		select {
		case m := <-p.replies:
			release(m)
		default:
			return
		}
	}
}

// ackPrefix begins the acknowledgement subjects of JetStream, which name tasks.
const ackPrefix = "$JS.ACK."

// isTask reports whether text is the acknowledgement subject of a task of the
// consumer: $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer
// seq>.<time>.<pending>, or with domain and account before the stream and a random
// token at the end.
func isTask(text, stream, consumer string) bool {
	if len(text) > maxSubjectFromClient {
		return false
	}
	rest, ok := strings.CutPrefix(text, ackPrefix)
	parts := strings.Split(rest, ".")
	at := 0
	if len(parts) >= 9 {
		at = 2
	}
	if !ok || len(parts) < at+7 || len(parts) > at+8 || parts[at] != stream || parts[at+1] != consumer {
		return false
	}
	for i, p := range parts {
		if p == "" || strings.ContainsAny(p, "*> \t\r\n") {
			return false
		}
		if _, err := strconv.ParseUint(p, 10, 64); err != nil && i >= at+2 && i < at+7 {
			return false
		}
	}
	return true
}

// countDeliveries reads from a task's acknowledgement subject how often it was
// delivered.
func countDeliveries(task string) int {
	return max(1, int(taskNumber(task, 0)))
}

// sequenceOfTask returns the sequence of a task's event record, or 0 if the subject has none.
func sequenceOfTask(task string) uint64 { return taskNumber(task, 1) }

// taskIDs is the part of a journal that reads the ids of tasks.
type taskIDs struct{}

// RecordOf implements engine.TaskQueue.
func (taskIDs) RecordOf(task string) (seq uint64, stored time.Time) {
	return sequenceOfTask(task), time.Unix(0, int64(taskNumber(task, 3)))
}

// taskNumber returns the number at a place after the consumer's name.
func taskNumber(task string, place int) uint64 {
	parts := strings.Split(task, ".")
	at := 4
	if len(parts) >= 11 {
		at = 6
	}
	if len(parts) <= at+place {
		return 0
	}
	n, err := strconv.ParseUint(parts[at+place], 10, 31+32*(place&1))
	if err != nil {
		return 0
	}
	return n
}

// moreWait is how long the server has to send tasks that are ready.
const moreWait = time.Second

// TakeTasks implements engine.TaskQueue. Waiting clients get tasks in the order in which
// they asked.
func (j *Journal) TakeTasks(ctx context.Context, queue toolcall.Queue, limit int, wait time.Duration) ([]toolcall.OfferedTask, error) {
	out, err := j.pullTasks(ctx, queue, pullRequest{Expires: wait.Nanoseconds(), Batch: 1}, wait+maxSilence)
	if len(out) > 0 && err == nil && limit > 1 {
		more, _ := j.pullTasks(ctx, queue, pullRequest{Batch: limit - 1, NoWait: true}, moreWait) // after an error there are just no more
		out = append(out, more...)
	}
	if ctx.Err() != nil { // the client has gone
		j.returnTasks(out)
		return nil, notNow(context.Cause(ctx))
	}
	return out, err
}

// pullTasks sends one request and collects its tasks until the server says that there
// are no more.
func (j *Journal) pullTasks(ctx context.Context, queue toolcall.Queue, ask pullRequest, patience time.Duration) (out []toolcall.OfferedTask, err error) {
	nc := j.queues.js.Conn()
	p, err := ask.start(nc, nextSubject(j.space, queue))
	if err != nil {
		return nil, notNow(err)
	}
	defer p.endRequest(func(late *nats.Msg) {
		if stateOf(late) == TaskHere {
			_ = nc.Publish(late.Reply, ackBody(AckRelease, 0)) // if lost, it returns after ackWait
		}
	})
	over := time.After(patience)
	for len(out) < ask.Batch {
		select {
		case m := <-p.replies:
			switch stateOf(m) {
			case TaskWaiting:
			case TaskHere:
				record, err := j.codec.forWorker(ctx, queue, m)
				if errors.Is(err, errNotTask) {
					_ = nc.Publish(m.Reply, ackBody(AckDrop, 0)) // if lost, it returns
					return out, nil
				}
				if err != nil {
					_ = nc.Publish(m.Reply, ackBody(AckRelease, maxPause)) // if lost, it returns after ackWait
					return out, nil
				}
				out = append(out, toolcall.OfferedTask{Task: m.Reply, Delivered: countDeliveries(m.Reply), Record: record})
			case TaskNone, TaskNoQueue:
				return out, nil
			default:
				return out, notNow(nil)
			}
		case <-over:
			return out, nil
		case <-p.lost:
			return out, notNow(nats.ErrDisconnected)
		case <-ctx.Done():
			j.returnTasks(out)
			return nil, notNow(context.Cause(ctx))
		}
	}
	return out, nil
}

func (j *Journal) returnTasks(tasks []toolcall.OfferedTask) {
	for _, t := range tasks {
		_ = j.queues.js.Conn().Publish(t.Task, ackBody(AckRelease, 0)) // if lost, it returns after ackWait
	}
}

// listeningFor is how long a count of waiting requests is reused.
const listeningFor = 2 * time.Second

// CountListening implements engine.TaskQueue. All consumers of the stream are read at
// once, at most every two seconds.
func (j *Journal) CountListening(ctx context.Context, queues []toolcall.Queue) (map[toolcall.Queue]int, error) {
	s := j.queues
	s.counting.Lock()
	defer s.counting.Unlock()
	if now := time.Now(); now.Sub(s.counted) > listeningFor {
		st, err := s.js.Stream(ctx, StreamName(j.space))
		if err != nil {
			return nil, apiError("count workers", "stream "+StreamName(j.space), err)
		}
		waiting := map[string]int{}
		list := st.ListConsumers(ctx)
		for c := range list.Info() {
			waiting[c.Name] = c.NumWaiting
		}
		if err := list.Err(); err != nil {
			return nil, apiError("count workers", "stream "+StreamName(j.space), err)
		}
		s.waiting, s.counted = waiting, now
	}
	out := make(map[toolcall.Queue]int, len(queues))
	for _, q := range queues {
		out[q] = s.waiting[ConsumerName(q)]
	}
	return out, nil
}

// DropTask implements engine.TaskQueue. If the message is lost, the task returns
// after ackWait.
func (j *Journal) DropTask(queue toolcall.Queue, task string) {
	if isTask(task, StreamName(j.space), ConsumerName(queue)) {
		_ = j.queues.js.Conn().Publish(task, ackBody(AckDone, 0))
	}
}

// AckTask implements engine.TaskQueue.
func (j *Journal) AckTask(ctx context.Context, queue toolcall.Queue, r toolcall.AckTaskRequest) error {
	if !isTask(r.Task, StreamName(j.space), ConsumerName(queue)) {
		return &message.Error{Code: message.CodeInvalid, Op: "ack", What: errtext.Quote(r.Task) + " is not a task of this tool", Hint: "send the task member of the reply to next"}
	}
	body := ackBody(AckDone, 0)
	if r.Return {
		body = ackBody(AckRelease, time.Duration(min(max(0, r.DelayMS), maxDelay.Milliseconds()))*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if _, err := j.queues.js.Conn().RequestWithContext(ctx, r.Task, body); err != nil {
		return apiError("ack", "a task of "+queue.String(), err)
	}
	return nil
}
