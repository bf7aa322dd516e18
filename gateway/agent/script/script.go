// Package script is an agent without a model: it does what the lines of the user's message say.
// It shows how a surface handles approval requests, results and errors, in a demonstration and in
// tests.
//
//	think I should look first.
//	say I pay them both.
//	call pay {"to":"acme","amount":42}
//	also pay {"to":"initech","amount":7}
//	stream 20 100
//
// The lines are
//
//	say TEXT          a text block
//	think TEXT        a thinking block
//	stream N [MS]     a text block of N pieces, MS milliseconds apart
//	call TOOL [JSON]  a tool call; the lines also TOOL [JSON] below it run next to
//	                  it; then a text block with their results
//	fail TYPE TEXT    the reply ends with that error
//	panic             the agent panics
//	loop              the agent has called its model too often
//	wait              the agent waits until it is interrupted
//
// A message without any of them gets this list as its answer. The reply depends only on the
// message, so a turn that was cut off continues where it stopped.
package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
)

// Help is the answer to a message that is not a script.
const Help = `I have no model: I do what the lines of your message say.
say TEXT, think TEXT, stream N [MS], call TOOL [JSON], also TOOL [JSON], fail TYPE TEXT, panic, loop, wait.
For instance:
call echo {"text":"hello"}`

// maxPieces bounds a stream line.
const maxPieces = 10_000

// Agent is the agent. Its zero value has no name; use New.
type Agent struct {
	name  string
	tools []agent.Tool
}

var _ agent.Agent = (*Agent)(nil)

// New makes an agent with that name. tools are the tools that it lists; it calls any tool that a
// line names.
func New(name string, tools ...agent.Tool) *Agent { return &Agent{name: name, tools: tools} }

// Info implements agent.Agent.
func (a *Agent) Info() agent.Info {
	return agent.Info{Name: a.name, Description: "Does what the lines of your message say; it has no model.", Tools: a.tools}
}

// Run implements agent.Agent.
func (a *Agent) Run(ctx context.Context, t agent.Turn) error {
	msgs, err := t.Conversation(ctx)
	if err != nil {
		return err
	}
	steps, done := parse(msgs, t.Reply())
	for i, s := range steps {
		if err := s(ctx, &scene{t: t, done: done, step: i}); err != nil {
			return err
		}
	}
	return nil
}

// step executes one line, or the rest of it.
type step func(context.Context, *scene) error

// parse reads the lines of the user's last message. done is the reply so far.
func parse(msgs []*message.Msg, reply message.ReplyID) (steps []step, done *message.Msg) {
	done = &message.Msg{}
	text := ""
	for _, m := range msgs {
		switch {
		case m.Role == message.RoleUser:
			text, _ = m.TextContent("\n")
		case m.ID == string(reply):
			done = m
		}
	}
	var group *calls
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		if word == "also" && group != nil {
			group.add(rest)
			continue
		}
		group = nil
		if word == "call" {
			group = &calls{}
			group.add(rest)
			steps = append(steps, group.run)
		} else if s := single(word, rest); s != nil {
			steps = append(steps, s)
		}
	}
	if len(steps) == 0 {
		steps = append(steps, say(Help, 1, 0))
	}
	return steps, done
}

// single returns the step of a line that needs no others, or nil if it is not one.
func single(word, rest string) step {
	switch word {
	case "say":
		return say(rest, 1, 0)
	case "think":
		return func(ctx context.Context, s *scene) error { return s.think(ctx, rest) }
	case "stream":
		return stream(rest)
	case "fail":
		kind, what, _ := strings.Cut(rest, " ")
		return func(context.Context, *scene) error {
			return &agent.ReplyError{Type: message.ErrorType(kind), What: what}
		}
	case "panic":
		return func(context.Context, *scene) error { panic("as the script says") }
	case "loop":
		return func(context.Context, *scene) error { return agent.ErrMaxIters }
	case "wait":
		return func(ctx context.Context, _ *scene) error { <-ctx.Done(); return context.Cause(ctx) }
	}
	return nil
}

func stream(rest string) step {
	count, pause, _ := strings.Cut(rest, " ")
	n, _ := strconv.Atoi(count)
	ms, _ := strconv.Atoi(strings.TrimSpace(pause)) // 0: none
	n = min(max(n, 1), maxPieces)
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "%05d ", i+1)
	}
	return say(text.String(), n, time.Duration(max(ms, 0))*time.Millisecond)
}

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
		if err := sleep.For(ctx, pause); err != nil {
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
