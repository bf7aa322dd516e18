package cli

import (
	"context"
	"time"

	"github.com/charmbracelet/huh"

	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
)

// scriptName is who approves where nobody is asked. It says so in the journal.
const scriptName = "demo-script"

// thinking is how long the script lets the question stand, so that it can be
// seen that other calls go on meanwhile.
const thinking = 300 * time.Millisecond

// scripted approves everything. It is a demo.Approver.
type scripted struct{}

// Name implements demo.Approver.
func (scripted) Name() string { return scriptName }

// Answer implements demo.Approver.
func (scripted) Answer(ctx context.Context, _ *message.Call, refused error) (message.Answer, error) {
	if refused != nil {
		return message.Answer{}, refused
	}
	t := time.NewTimer(thinking)
	defer t.Stop()
	select {
	case <-t.C:
		return message.Answer{Kind: message.AnswerApprove}, nil
	case <-ctx.Done():
		return message.Answer{}, context.Cause(ctx)
	}
}

// asker asks the person at the terminal. It is a demo.Approver.
type asker struct {
	env   *environment
	story *story.Story
}

// Name implements demo.Approver.
func (k *asker) Name() string { return k.env.at.as }

// The choices of a person.
const (
	chooseEdit  = "edit"
	chooseLeave = "leave"
)

// Answer implements demo.Approver. While it asks, the story is held back.
func (k *asker) Answer(ctx context.Context, c *message.Call, refused error) (message.Answer, error) {
	release := k.story.Hold()
	defer release()
	env := k.env
	env.notef("\n%s", callText(env.err, c))
	if refused != nil {
		env.notef("%s %s\n", env.err.Bad("not accepted:"), term.SafeLine(refused.Error()))
	}
	choice := string(message.AnswerApprove)
	err := env.runForm(ctx, huh.NewSelect[string]().Title("What do you say?").Options(
		huh.NewOption("Approve: exactly these arguments run", string(message.AnswerApprove)),
		huh.NewOption("Edit: other arguments, decided again by the policy", chooseEdit),
		huh.NewOption("Reject: nothing runs, and the model is told why", string(message.AnswerReject)),
		huh.NewOption("Answer: nothing runs, you give the result", string(message.AnswerForTool)),
		huh.NewOption("Leave: end the demo, the question stays open", chooseLeave),
	).Value(&choice))
	if err != nil {
		return message.Answer{}, err
	}
	if choice == chooseLeave {
		return message.Answer{}, errAborted
	}
	return k.details(ctx, c, choice)
}

// details asks for what goes with a choice.
func (k *asker) details(ctx context.Context, c *message.Call, choice string) (message.Answer, error) {
	text := ""
	switch choice {
	case chooseEdit:
		text = asked.Editable(c.Input)
		err := k.env.runForm(ctx, huh.NewText().Title("Arguments").Lines(10).CharLimit(message.MaxInputBytes).ShowLineNumbers(true).Value(&text))
		k.env.notef("%s", diffText(k.env.err, asked.Changes(c.Input, text)))
		return message.Answer{Kind: message.AnswerApprove, Input: &text}, err
	case string(message.AnswerReject):
		err := k.env.runForm(ctx, huh.NewInput().Title("What should the model be told?").Value(&text))
		return message.Answer{Kind: message.AnswerReject, Feedback: text}, err
	case string(message.AnswerForTool):
		err := k.env.runForm(ctx, huh.NewInput().Title("The result").Value(&text))
		return message.Answer{Kind: message.AnswerForTool, Output: text}, err
	}
	return message.Answer{Kind: message.AnswerApprove}, nil
}
