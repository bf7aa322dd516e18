package askance

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/toolcall"
)

// Request is an approval request as its approver may see it, without what rules redact.
type Request struct {
	Tool   string
	Input  string // the arguments, as JSON
	Reason string // why a person has to decide
	Call   *toolcall.Call
}

// Response is what an approver decides. The zero Response decides nothing: the request stays
// open.
type Response struct{ response toolcall.Response }

// Approve lets the call run with exactly the arguments of the request.
func Approve() Response { return Response{toolcall.Response{Kind: toolcall.ResponseApprove}} }

// ApproveEdited replaces the arguments. The policy decides again about them.
func ApproveEdited(input string) Response {
	return Response{toolcall.Response{Kind: toolcall.ResponseApprove, Input: &input}}
}

// Reject ends the call. The model reads the feedback.
func Reject(feedback string) Response {
	return Response{toolcall.Response{Kind: toolcall.ResponseReject, Feedback: feedback}}
}

// Respond ends the call with the person's own result. Nothing runs.
func Respond(output string) Response {
	return Response{toolcall.Response{Kind: toolcall.ResponseRespond, Output: output}}
}

// AskFunc asks a person. It can be called for several requests at the same time. ctx ends when
// the request or the app is closed; the response then has no effect.
type AskFunc func(ctx context.Context, r Request) Response

// asker asks one approver about each open request. It implements the engine's Signals.
type asker struct {
	engine.Signals
	name string
	ask  AskFunc
	as   engine.Client // the approver's; set before the engine starts
	log  *slog.Logger
	ctx  context.Context //nolint:containedctx // the life of the app

	mu   sync.Mutex // guards open and the start of goroutines
	open map[toolcall.Key]asked
	wg   sync.WaitGroup
}

type asked struct {
	digest string
	cancel context.CancelFunc
}

// Hint implements engine.Signals.
func (a *asker) Hint(c *toolcall.Call) {
	a.Signals.Hint(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	was, known := a.open[c.Key]
	if known && c.Phase() == toolcall.PhaseAsking && c.Digest == was.digest {
		return
	}
	if known {
		was.cancel()
		delete(a.open, c.Key)
	}
	if c.Phase() != toolcall.PhaseAsking || a.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithCancel(a.ctx)
	a.open[c.Key] = asked{c.Digest, cancel}
	key := c.Key
	a.wg.Go(func() {
		defer cancel()
		if err := a.askPerson(ctx, key); err != nil && ctx.Err() == nil {
			a.log.Warn("an approval request stays open", "call", key.String(), "approver", a.name, "error", err)
		}
	})
}

// resume asks about the requests that an earlier run left open.
func (a *asker) resume(ctx context.Context) error {
	for after := uint64(0); ; {
		r, err := a.as.List(ctx, toolcall.ListRequest{Phases: []toolcall.Phase{toolcall.PhaseAsking}, After: after})
		if err != nil {
			return err
		}
		for _, c := range r.Calls {
			a.Hint(c)
		}
		if after = r.Next; after == 0 {
			return nil
		}
	}
}

// askPerson asks about a request and submits the response. After a panic there is no response.
func (a *asker) askPerson(ctx context.Context, key toolcall.Key) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the approver panicked: %v", v)
		}
	}()
	shown, err := a.as.Show(ctx, toolcall.ShowRequest{Key: key})
	if err != nil {
		return err
	}
	c := shown.Call
	if c.Phase() != toolcall.PhaseAsking {
		return nil
	}
	r := Request{Tool: c.Tool, Input: c.Input, Call: c}
	if c.Decision != nil {
		r.Reason = c.Decision.Reason
	}
	answer := a.ask(ctx, r).response
	if answer.Kind == "" {
		return nil
	}
	// The digest is that of the call that was shown, so no other arguments are approved.
	answer.Key, answer.Digest = key, c.Digest
	_, err = a.as.SubmitResponse(ctx, answer)
	return err
}

// close waits for the questions that are still being asked. ctx must have ended.
func (a *asker) close() {
	a.mu.Lock() // no goroutine starts after ctx has ended
	for _, q := range a.open {
		q.cancel()
	}
	a.mu.Unlock()
	a.wg.Wait()
}

// noSignals implements Signals for an app whose journal no other process reads.
type noSignals struct{}

func (noSignals) Hint(*toolcall.Call) {}

func (noSignals) Cancel(toolcall.Queue, string, toolcall.HeartbeatRequest, string) {}

func (noSignals) Beat(toolcall.Queue, string, toolcall.HeartbeatRequest) {}

func (noSignals) Progress(*toolcall.Call, toolcall.ProgressRequest) {}
