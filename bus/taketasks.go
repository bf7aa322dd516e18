package bus

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
)

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
	body, err := strictjson.Marshal(ask)
	if err != nil {
		return nil, err
	}
	nc := j.queues.js.Conn()
	p, err := startPull(nc, nextSubject(j.space, queue), body, ask.Batch)
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
