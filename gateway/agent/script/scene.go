package script

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/message"
)

// scene is a step within a turn.
type scene struct {
	t    agent.Turn
	done *message.Msg // the reply as it was when the run began
	step int
}

// id returns an id of the step that is unique within the reply.
func (s *scene) id(kind string) string { return fmt.Sprintf("%s-%d", kind, s.step+1) }

// block returns a block id that is unique within the session, because frontends treat blocks as
// messages.
func (s *scene) block(kind string) string { return string(s.t.Reply()) + "-" + s.id(kind) }

// say emits a text in that many pieces, with a pause after each.
func say(text string, pieces int, pause time.Duration) step {
	return func(ctx context.Context, s *scene) error { return s.say(ctx, "say", text, pieces, pause) }
}

// said returns the text that blocks of the step already have, and the id of the next block.
func (s *scene) said(kind string) (text, next string) {
	next = s.block(kind)
	for _, b := range message.BlocksOf[*message.TextBlock](s.done) {
		if b.ID == next {
			text += b.Text
			next += "+"
		}
	}
	return text, next
}

func (s *scene) say(ctx context.Context, kind, text string, pieces int, pause time.Duration) error {
	said, id := s.said(kind)
	rest, more := strings.CutPrefix(text, said)
	if !more || rest == "" {
		return nil
	}
	if err := s.t.Emit(ctx, &message.TextBlockStart{BlockID: id}); err != nil {
		return err
	}
	size := max((len(text)+pieces-1)/pieces, 1)
	for rest != "" {
		piece := rest[:min(cut(rest, size), len(rest))]
		rest = rest[len(piece):]
		if err := s.t.Emit(ctx, &message.TextBlockDelta{BlockID: id, Delta: piece}); err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	return s.t.Emit(ctx, &message.TextBlockEnd{BlockID: id})
}

// cut moves an index to the end of a character.
func cut(s string, i int) int {
	for i < len(s) && s[i]&0xC0 == 0x80 {
		i++
	}
	return i
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *scene) think(ctx context.Context, text string) error {
	id := s.block("think")
	for _, b := range message.BlocksOf[*message.ThinkingBlock](s.done) {
		if b.ID == id {
			return nil
		}
	}
	return s.t.Emit(ctx, &message.ThinkingBlockStart{BlockID: id}, &message.ThinkingBlockDelta{BlockID: id, Delta: text}, &message.ThinkingBlockEnd{BlockID: id})
}

// calls are calls that run in parallel.
type calls struct {
	blocks []message.ToolCallBlock
}

func (c *calls) add(rest string) {
	tool, input, _ := strings.Cut(rest, " ")
	if input = strings.TrimSpace(input); input == "" {
		input = "{}"
	}
	c.blocks = append(c.blocks, message.ToolCallBlock{Name: tool, Input: input})
}

// run makes the calls and emits their results. The calls have the same ids as in an earlier run.
func (c *calls) run(ctx context.Context, s *scene) error {
	blocks := make([]message.ToolCallBlock, 0, len(c.blocks))
	for i, b := range c.blocks {
		b.ID = message.CallID(fmt.Sprintf("%s-%d", s.id("call"), i+1))
		blocks = append(blocks, b)
	}
	results, err := s.t.Call(ctx, blocks...)
	if err != nil {
		return err
	}
	var text strings.Builder
	for i, r := range results {
		fmt.Fprintf(&text, "%s: %s: %s\n", blocks[i].Name, r.State, r.Output)
	}
	return s.say(ctx, "results", text.String(), 1, 0)
}
