package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/agent/chatstream"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

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
		if err := replay.Sleep(ctx, b.Pace); err != nil {
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
			if err := replay.Sleep(ctx, retryPause); err != nil {
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
