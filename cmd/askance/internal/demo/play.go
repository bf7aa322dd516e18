package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent/chatstream"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Result is the result of a play.
type Result struct {
	Session message.SessionID `json:"session_id"`
	Reply   message.ReplyID   `json:"reply_id"`
	Data    string            `json:"data"`
	Elapsed int64             `json:"elapsed_ms"`
	Records uint64            `json:"records"` // in the journal, sessions and earlier plays included
	Events  int               `json:"events"`  // from which the message was rebuilt
	Calls   []*toolcall.Call  `json:"calls"`
	Checks  []Check           `json:"checks"`
	Message *message.Msg      `json:"message"` // rebuilt only from the events
	// Edited has the arguments of calls that the approver edited.
	Edited map[message.CallID]string `json:"edited,omitzero"`
}

// OK reports whether every check held.
func (r *Result) OK() bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return !c.OK })
}

var errPlayed = errors.New("the script has ended")

// Play plays the script to its end and checks the result.
func (d *Demo) Play(ctx context.Context) (*Result, error) {
	began := time.Now()
	playing, over := context.WithCancelCause(ctx)
	defer over(errPlayed)
	f := &follower{
		reply: toolcall.Key{Space: d.cfg.Space, Session: Session, Reply: d.reply}, sink: d.cfg.Sink, asked: make(chan *toolcall.Call, toolcall.MaxCallsPerTurn),
		calls: map[toolcall.Key]*toolcall.Call{}, moved: make(chan struct{}),
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer over(errPlayed)
	wg.Go(func() { // prints what happens
		if err := d.node.Journal().Watch(playing, 0, f); playing.Err() == nil {
			over(fmt.Errorf("follow the journal: %w", err))
		}
	})
	wg.Go(func() { // the approver responds
		if err := d.approve(playing, f); playing.Err() == nil {
			over(err)
		}
	})
	stream, err := os.Open(d.path(streamFile))
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer func() { _ = stream.Close() }() // only read
	bot := &Bot{Client: d.as(toolcall.RoleRuntime, BotName), Name: BotName, Session: Session, Reply: d.reply, Pace: d.cfg.Pace}
	last, err := bot.Play(playing, stream)
	if err == nil {
		err = f.until(playing, func() bool { return f.told >= last })
	}
	if playing.Err() != nil {
		return nil, context.Cause(playing)
	}
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return d.result(ctx, last, time.Since(began))
}

func (d *Demo) as(role toolcall.Role, name string) engine.Client {
	return d.node.Engine().As(toolcall.Principal{Role: role, Name: name})
}

// result rebuilds the message from the events and checks everything.
func (d *Demo) result(ctx context.Context, last uint64, took time.Duration) (*Result, error) {
	auditor := d.as(toolcall.RoleAuditor, "demo")
	b, err := replay.Message(ctx, auditor, Session, d.reply)
	if err != nil {
		return nil, fmt.Errorf("demo: rebuild the message: %w", err)
	}
	calls, err := auditor.List(ctx, toolcall.ListRequest{V: 1, Session: Session, Reply: d.reply, All: true})
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	r := &Result{
		Session: Session, Reply: d.reply, Data: string(d.cfg.Dir), Elapsed: took.Milliseconds(), Records: last,
		Events: b.Events, Calls: calls.Calls, Message: b.Msg, Edited: b.Edited,
	}
	r.Checks, err = d.check(ctx, auditor, r)
	return r, err
}

func (d *Demo) approve(ctx context.Context, f *follower) error {
	client := d.as(toolcall.RoleApprover, d.cfg.Approver.Name())
	for {
		select {
		case c := <-f.asked:
			if err := d.respond(ctx, client, f, c); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// respond asks the approver until a response is accepted, or the approval request is
// closed by another person.
func (d *Demo) respond(ctx context.Context, client engine.Client, f *follower, c *toolcall.Call) error {
	open, stop := f.whileOpen(ctx, c)
	defer stop()
	var refused error
	for {
		resp, err := d.cfg.Approver.SubmitResponse(open, c, refused)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case open.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		resp.V, resp.Key, resp.Digest = 1, c.Key, c.Digest
		_, err = client.SubmitResponse(ctx, resp)
		switch {
		case errors.Is(err, message.ErrInvalid), errors.Is(err, message.ErrTooLarge):
			refused = err // for instance edited arguments that break the schema
		case errors.Is(err, message.ErrFinished), errors.Is(err, message.ErrState), errors.Is(err, message.ErrDigest), errors.Is(err, message.ErrConflict):
			return nil // another person was first
		default:
			return err
		}
	}
}

var errClosed = errors.New("the approval request is closed")

// follower is a toolcall.Sink: it forwards the records of one reply and tracks which
// approval requests are open.
type follower struct {
	reply toolcall.Key
	sink  toolcall.Sink
	asked chan *toolcall.Call // approval requests as they open; has room for many

	mu    sync.Mutex // guards the fields below
	told  uint64     // everything up to here was forwarded
	calls map[toolcall.Key]*toolcall.Call
	moved chan struct{} // closed and replaced with each record
}

func (f *follower) CaughtUp() { f.sink.CaughtUp() }

func (f *follower) Record(r toolcall.JournalEntry) {
	ours := r.Key.ReplyKey() == f.reply
	if ours {
		f.sink.Record(r)
	}
	f.mu.Lock()
	if ours && r.Record != nil && r.Record.Call != nil {
		f.calls[r.Key] = r.Record.Call
	}
	f.told = r.Seq
	close(f.moved)
	f.moved = make(chan struct{})
	f.mu.Unlock()
	if ours && r.Record != nil && r.Record.Call != nil && r.Record.Note == nil && r.Record.Call.State == message.ToolCallAsking {
		f.asked <- r.Record.Call // has room, unless a person edits one call hundreds of times
	}
}

// whileOpen returns a context that ends with errClosed when the approval request of c
// is closed. stop ends the watch.
func (f *follower) whileOpen(ctx context.Context, c *toolcall.Call) (open context.Context, stop func()) {
	open, end := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		closed := f.until(open, func() bool {
			now := f.calls[c.Key]
			return now.State != message.ToolCallAsking || now.Digest != c.Digest
		})
		if closed == nil {
			end(errClosed)
		}
	}()
	return open, func() { end(context.Canceled); <-done }
}

func (f *follower) until(ctx context.Context, ok func() bool) error {
	for {
		f.mu.Lock()
		met, moved := ok(), f.moved
		f.mu.Unlock()
		if met {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("follow the journal: %w", context.Cause(ctx))
		}
	}
}

// Bot is an agent runtime whose model is a recording: it streams what the model says to the
// journal, proposes the tool calls of each turn, and waits for their results before the next.
type Bot struct {
	Client  engine.Client
	Name    string
	Session message.SessionID
	Reply   message.ReplyID
	Pace    time.Duration // pause after each chunk, like that of a model

	codec message.Codec
	seq   uint64 // of the last streamed event
}

const retryPause = 250 * time.Millisecond

// Play plays all turns of the recording as one reply and returns the sequence of its last event.
func (b *Bot) Play(ctx context.Context, stream io.Reader) (uint64, error) {
	r := chatstream.NewReader(stream)
	err := b.emit(ctx, &message.ReplyStart{EventHeader: b.codec.NewHeader(b.Reply), Session: b.Session, Name: b.Name, Role: message.RoleAssistant})
	if err != nil {
		return 0, err
	}
	for {
		calls, err := b.turn(ctx, r)
		if errors.Is(err, io.EOF) || err == nil && len(calls) == 0 {
			break
		}
		if err != nil {
			return b.seq, err
		}
		if err := b.run(ctx, calls); err != nil {
			return b.seq, err
		}
	}
	err = b.emit(ctx, &message.ReplyEnd{EventHeader: b.codec.NewHeader(b.Reply), Session: b.Session, FinishedReason: message.FinishedCompleted})
	return b.seq, err
}

func (b *Bot) turn(ctx context.Context, r *chatstream.Reader) ([]message.ToolCallBlock, error) {
	t := chatstream.NewTurn(b.codec, b.Reply)
	for {
		chunk, err := r.Next()
		if errors.Is(err, chatstream.ErrDone) {
			events, err := t.End()
			if err != nil {
				return nil, err
			}
			return t.Calls(), b.emit(ctx, events...)
		}
		if err != nil {
			return nil, err
		}
		events, err := t.Add(chunk)
		if err != nil {
			return nil, err
		}
		if err := b.emit(ctx, events...); err != nil {
			return nil, err
		}
		if err := sleep.For(ctx, b.Pace); err != nil {
			return nil, err
		}
	}
}

// run proposes the calls of a turn and waits until every one is finished,
// however long a person takes.
func (b *Bot) run(ctx context.Context, calls []message.ToolCallBlock) error {
	_, err := b.Client.Propose(ctx, toolcall.ProposeRequest{V: 1, Session: b.Session, Reply: b.Reply, Agent: b.Name, Calls: calls})
	if err != nil {
		return fmt.Errorf("propose: %w", err)
	}
	ids := make([]message.CallID, 0, len(calls))
	for _, c := range calls {
		ids = append(ids, c.ID)
	}
	for {
		r, err := b.Client.Wait(ctx, toolcall.WaitRequest{V: 1, Session: b.Session, Reply: b.Reply, Calls: ids, Until: toolcall.UntilFinished})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case errors.Is(err, message.ErrUnavailable): // the engine restarts, or another takes over
			if err := sleep.For(ctx, retryPause); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case r.Done:
			return nil
		}
	}
}

func (b *Bot) emit(ctx context.Context, events ...message.Event) error {
	if len(events) == 0 {
		return nil
	}
	r := toolcall.EmitRequest{V: 1, Session: b.Session, Reply: b.Reply}
	for _, e := range events {
		raw, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode %s: %w", e.Type(), err)
		}
		r.Events = append(r.Events, raw)
	}
	reply, err := b.Client.Emit(ctx, r)
	if err != nil {
		return fmt.Errorf("stream events: %w", err)
	}
	b.seq = reply.Seq
	return nil
}

// Check is something that must be true after a play.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitzero"` // if it is not
}

// check compares the effects with the journal.
func (d *Demo) check(ctx context.Context, c engine.Client, r *Result) ([]Check, error) {
	out := []Check{checkMessage(r)}
	order, err := checkOrder(ctx, c, r.Calls)
	if err != nil {
		return nil, err
	}
	ledger, err := d.checkLedger(r.Calls)
	if err != nil {
		return nil, err
	}
	logs, err := d.checkLogs(r.Calls)
	if err != nil {
		return nil, err
	}
	return append(out, order, ledger, logs), nil
}

func checkMessage(r *Result) Check {
	check := Check{What: fmt.Sprintf("the message rebuilt from %d events has the result of every call", r.Events), OK: true}
	for _, c := range r.Calls {
		block := r.Message.ToolResult(c.Call)
		if c.Result == nil || block == nil || block.State != c.Result.State || block.Output.String() != c.Result.Output.String() {
			check.OK, check.Why = false, fmt.Sprintf("%s differs", c.Call)
		}
	}
	return check
}

// checkOrder checks that nothing started before it was allowed.
func checkOrder(ctx context.Context, c engine.Client, calls []*toolcall.Call) (Check, error) {
	check := Check{What: "nothing started before it was allowed, and nothing that was denied", OK: true}
	for _, call := range calls {
		r, err := c.Show(ctx, toolcall.ShowRequest{V: 1, Key: call.Key})
		if err != nil {
			return check, err
		}
		allowed := false
		for _, entry := range r.History {
			for _, s := range entry.Path {
				allowed = allowed || s.To == message.ToolCallAllowed
				if s.Cause == "start" && !allowed {
					check.OK, check.Why = false, fmt.Sprintf("%s started at record %d", call.Call, entry.Seq)
				}
			}
		}
	}
	return check, nil
}

func (d *Demo) checkLedger(calls []*toolcall.Call) (Check, error) {
	check := Check{What: "the ledger has every refund that ran once, and no other", OK: true}
	booked, err := ReadLedger(d.path(workspace) + "/" + Ledger)
	if err != nil {
		return check, err
	}
	for _, c := range calls {
		if c.Tool != "refund" {
			continue
		}
		want := 0
		if c.Started() && c.Result.State == message.ToolResultSuccess {
			want = 1
		}
		key := c.IdempotencyKey()
		have := len(slices.DeleteFunc(slices.Clone(booked), func(b Booking) bool { return b.Key != key }))
		if have != want {
			check.OK, check.Why = false, fmt.Sprintf("%s is booked %d times, want %d", c.Call, have, want)
		}
	}
	return check, nil
}

// checkLogs checks that what a denied command would have deleted still exists.
func (d *Demo) checkLogs(calls []*toolcall.Call) (Check, error) {
	check := Check{What: "the denied command did not run: the logs are still there", OK: true}
	for _, c := range calls {
		if c.Tool == "shell" && c.Decision != nil && c.Decision.Behavior == message.BehaviorDeny && c.Started() {
			check.OK, check.Why = false, fmt.Sprintf("%s has started", c.Call)
		}
	}
	_, err := os.Stat(d.path(workspace) + "/logs")
	if errors.Is(err, fs.ErrNotExist) {
		check.OK, check.Why = false, "the folder is gone"
		err = nil
	}
	return check, err
}
