package script

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askance-dev/askance/gateway/agent"
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

// stream is a stream line's step.
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
