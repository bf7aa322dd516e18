package executortest

import (
	"context"
	"reflect"
	"time"

	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

var _ executor.Transport = (*Engine)(nil)

// Next hands out the oldest task.
func (e *Engine) Next(ctx context.Context) (toolcall.Task, error) {
	type got struct{}
	if _, err := network(ctx, e, Request{Op: OpNext}, func() (got, error) { return got{}, nil }); err != nil {
		return toolcall.Task{}, err
	}
	for {
		var rec *toolcall.EventRecord
		e.mu.Lock()
		changed := e.changed
		ok := len(e.queue) > 0
		if ok {
			rec, e.queue = e.queue[0], e.queue[1:]
		}
		e.mu.Unlock()
		if ok {
			return e.task(rec), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return toolcall.Task{}, context.Cause(ctx)
		}
	}
}

func (e *Engine) task(rec *toolcall.EventRecord) toolcall.Task {
	var k toolcall.Key
	if rec != nil && rec.Call != nil {
		k = rec.Call.Key
	}
	task := toolcall.Task{Record: rec}
	e.update(func() {
		s := e.state(k)
		s.delivered++
		task.Delivered = s.delivered
	})
	task.Ack = func(ctx context.Context) error {
		_, err := network(ctx, e, Request{Op: OpAck, Key: k}, func() (struct{}, error) {
			e.state(k).acks++
			return struct{}{}, nil
		})
		return err
	}
	task.Release = func(delay time.Duration) error {
		e.update(func() { s := e.state(k); s.releases = append(s.releases, delay) })
		return nil
	}
	return task
}

// Start claims an attempt or refuses it.
func (e *Engine) Start(ctx context.Context, r toolcall.StartRequest) (toolcall.StartReply, error) {
	req := Request{Op: OpStart, Key: r.Key, Attempt: r.Attempt, Claim: r.Claim, Refuse: r.Refuse}
	return network(ctx, e, req, func() (toolcall.StartReply, error) {
		s := e.state(r.Key)
		switch {
		case s.attempt == 0:
			return toolcall.StartReply{}, fault(message.CodeNotFound, "start", "no such call "+r.Key.String())
		case s.result != nil:
			return toolcall.StartReply{}, fault(message.CodeFinished, "start", r.Key.String()+" is finished")
		case s.attempt == r.Attempt && s.nonce != r.Nonce && r.Refuse == "":
			return toolcall.StartReply{}, fault(message.CodeSuperseded, "start", "the attempt was offered again")
		case s.attempt != r.Attempt || s.claim != "" && s.claim != r.Claim:
			return toolcall.StartReply{}, fault(message.CodeSuperseded, "start", "the attempt is another's")
		}
		fresh := s.claim == ""
		s.claim = r.Claim
		if r.Refuse != "" {
			s.refused = r.Refuse
			return toolcall.StartReply{}, fault(message.CodeFinished, "start", r.Key.String()+" is refused")
		}
		reply := e.terms
		reply.Key, reply.Attempt, reply.Claim, reply.Request, reply.Fresh = r.Key, r.Attempt, r.Claim, r.Request, fresh
		reply.Nonce, reply.IdempotencyKey, reply.At = s.nonce, r.Key.IdempotencyKey(), time.Now().Add(e.ahead).UTC()
		if err := reply.Sign(e.replyKey); err != nil {
			return toolcall.StartReply{}, fault(message.CodeInternal, "start", err.Error())
		}
		if e.forge != nil {
			e.forge(&reply)
		}
		return reply, nil
	})
}

// Heartbeat answers with cancel and stale.
func (e *Engine) Heartbeat(ctx context.Context, r toolcall.HeartbeatRequest) (toolcall.HeartbeatReply, error) {
	req := Request{Op: OpHeartbeat, Key: r.Key, Attempt: r.Attempt, Claim: r.Claim, ClockMS: r.ClockMS}
	return network(ctx, e, req, func() (toolcall.HeartbeatReply, error) {
		s, at := e.state(r.Key), time.Now().Add(e.ahead).UTC()
		if s.attempt != r.Attempt || s.claim != r.Claim {
			return toolcall.HeartbeatReply{Stale: true, At: at}, nil
		}
		return toolcall.HeartbeatReply{Cancel: s.cancel, Reason: s.reason, At: at}, nil
	})
}

// Progress accepts a line of progress.
func (e *Engine) Progress(ctx context.Context, r toolcall.ProgressRequest) error {
	req := Request{Op: OpProgress, Key: r.Key, Attempt: r.Attempt, Claim: r.Claim, Line: r.N, Text: r.Text}
	_, err := network(ctx, e, req, func() (struct{}, error) { return struct{}{}, nil })
	return err
}

// Result stores the result of the current attempt and notes any other.
func (e *Engine) Result(ctx context.Context, r toolcall.ResultRequest) (toolcall.ResultReply, error) {
	req := Request{Op: OpResult, Key: r.Key, Attempt: r.Attempt, Claim: r.Claim}
	return network(ctx, e, req, func() (toolcall.ResultReply, error) {
		s := e.state(r.Key)
		if s.attempt != r.Attempt || s.claim != r.Claim {
			s.late = append(s.late, r.Result)
			return toolcall.ResultReply{State: message.ToolCallSubmitted}, nil
		}
		if r.NotBegun != "" {
			s.notBegun, s.attempt, s.claim = append(s.notBegun, r.NotBegun), s.attempt+1, ""
			return toolcall.ResultReply{Stored: true, State: message.ToolCallSubmitted}, nil
		}
		if s.result != nil && !reflect.DeepEqual(*s.result, r.Result) {
			return toolcall.ResultReply{}, fault(message.CodeConflict, "result", "another result is stored")
		}
		s.result = &r.Result
		return toolcall.ResultReply{Stored: true, State: message.ToolCallFinished}, nil
	})
}

// Cancels registers f for cancel messages.
func (e *Engine) Cancels(f func(toolcall.HeartbeatRequest, string)) (stop func()) {
	var id int
	e.update(func() {
		e.serial++
		id = e.serial
		e.listeners[id] = f
	})
	return func() { e.update(func() { delete(e.listeners, id) }) }
}

func fault(code message.Code, op, what string) *message.Error {
	return &message.Error{Code: code, Op: op, What: what}
}
