package engine

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// TaskQueue is a Journal from which an engine takes tasks for workers that cannot reach
// the journal. All methods may be called from many goroutines at once.
type TaskQueue interface {
	// TakeTasks waits for a task of the queue and returns it with others that are available, at
	// most limit, or none after wait. A task that arrives after ctx has ended goes back.
	TakeTasks(ctx context.Context, queue toolcall.Queue, limit int, wait time.Duration) ([]toolcall.OfferedTask, error)
	// AckTask removes a task from the queue, or returns it.
	AckTask(ctx context.Context, queue toolcall.Queue, r toolcall.AckTaskRequest) error
	// DropTask removes a task from the queue without waiting. It ignores anything that is not
	// a task of the queue.
	DropTask(queue toolcall.Queue, task string)
	// RecordOf returns the journal sequence of a task's record and when it was stored.
	RecordOf(task string) (seq uint64, stored time.Time)
	// CountListening counts the waiting requests for tasks of each queue.
	CountListening(ctx context.Context, queues []toolcall.Queue) (map[toolcall.Queue]int, error)
}

// taskQueue returns the journal as a TaskQueue, if the worker may act for the queue.
func (w *workers) taskQueue(by toolcall.Principal, queues []toolcall.Queue, queue toolcall.Queue) (TaskQueue, error) {
	if len(queues) > 0 && !slices.Contains(queues, queue) || queue.Tool == "" {
		return nil, w.errNotCovered(by, queues, queue)
	}
	if _, known := w.tools[queue.Tool]; !known {
		return nil, &message.Error{Code: message.CodeNotFound, What: fmt.Sprintf("the engine has no tool %q", queue.Tool), Hint: "declare it in the tools file, with placement remote"}
	}
	tasks, ok := w.journal.(TaskQueue)
	if !ok {
		return nil, &message.Error{Code: message.CodeState, What: "the journal of this engine has no queues", Hint: "run askance serve"}
	}
	return tasks, nil
}

// errNotCovered says what the worker's token covers, and how to make one that covers the queue.
func (w *workers) errNotCovered(by toolcall.Principal, queues []toolcall.Queue, queue toolcall.Queue) error {
	covers, others := []string{}, false
	create := []string{"askance token create", spelling.ShellWord(by.Name), "--role worker"}
	for _, q := range queues {
		if q.Tool == "" {
			continue // it restricts a worker without tools
		}
		covers = append(covers, q.String())
		if q.Route == queue.Route {
			create = append(create, "--tool "+spelling.ShellWord(q.Tool))
		} else {
			others = true
		}
	}
	create = append(create, "--tool "+spelling.ShellWord(queue.Tool))
	if queue.Route != "" {
		create = append(create, "--subject "+spelling.ShellWord(queue.Route))
	}
	hint := "make a token with " + strings.Join(create, " ") + " --space " + spelling.ShellWord(string(w.space))
	if others { // a token is for one route
		hint += "; it does not cover the queues of another route, which need a worker with its own token"
	}
	return &message.Error{
		Code: message.CodeForbidden, What: fmt.Sprintf("the token of %s covers %s, but the worker asked for %s", by.Name, cmp.Or(strings.Join(covers, ", "), "no queue"), queue),
		Hint: hint,
	}
}

// MaxTasks is how many tasks one request may take.
const MaxTasks = 64

func (w *workers) takeTasks(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.NextTasksRequest) (toolcall.NextTasksReply, error) {
	queue := toolcall.Queue{Tool: r.Tool, Route: r.Route}
	tasks, err := w.taskQueue(by, queues, queue)
	if err == nil {
		err = w.journal.EnsureQueue(ctx, queue)
	}
	if err != nil {
		return toolcall.NextTasksReply{}, err
	}
	left := w.activity.Workers.Ask(by.Name, queue, time.Now())
	out, err := tasks.TakeTasks(ctx, queue, min(max(r.Limit, 1), MaxTasks), time.Duration(max(r.WaitMS, 1))*time.Millisecond)
	if ctx.Err() != nil {
		left()
	}
	return toolcall.NextTasksReply{Tasks: append([]toolcall.OfferedTask{}, out...)}, err
}

func (w *workers) ackTask(ctx context.Context, by toolcall.Principal, queues []toolcall.Queue, r toolcall.AckTaskRequest) error {
	queue := toolcall.Queue{Tool: r.Tool, Route: r.Route}
	tasks, err := w.taskQueue(by, queues, queue)
	if err != nil {
		return err
	}
	return tasks.AckTask(ctx, queue, r)
}

// engineKeys returns the keys with which engines sign, as far as this engine knows them.
func (w *workers) engineKeys() toolcall.EngineKeysReply {
	if all, ok := w.cfg.signer.(interface{ Ring() toolcall.KeyRing }); ok {
		return toolcall.EngineKeysReply{Keys: all.Ring()}
	}
	public, _ := w.cfg.signer.SigningKey().Public().(ed25519.PublicKey)
	return toolcall.EngineKeysReply{Keys: toolcall.KeyRing{{ID: toolcall.KeyID(public), Public: toolcall.FormatPublicKey(public)}}}
}

// relayHeartbeat forwards a heartbeat to the other engines, which would otherwise consider
// the worker dead.
func (w *workers) relayHeartbeat(by toolcall.Principal, r toolcall.HeartbeatRequest) {
	r.Space = w.space
	if c := w.view.Call(r.Key); c != nil {
		w.cfg.signals.Beat(c.Queue(), by.Name, r)
	}
}
