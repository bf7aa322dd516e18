package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/huh"

	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const scriptName = "demo-script"

// thinking is the delay of the script's approval, which shows that other calls
// continue meanwhile.
const thinking = 300 * time.Millisecond

// scripted approves everything. It is a demo.Approver.
type scripted struct{}

// Name implements demo.Approver.
func (scripted) Name() string { return scriptName }

// SubmitResponse implements demo.Approver.
func (scripted) SubmitResponse(ctx context.Context, _ *toolcall.Call, refused error) (toolcall.Response, error) {
	if refused != nil {
		return toolcall.Response{}, refused
	}
	t := time.NewTimer(thinking)
	defer t.Stop()
	select {
	case <-t.C:
		return toolcall.Response{Kind: toolcall.ResponseApprove}, nil
	case <-ctx.Done():
		return toolcall.Response{}, context.Cause(ctx)
	}
}

// asker asks the person at the terminal. It is a demo.Approver.
type asker struct {
	env   *environment
	story *story.Story
}

// Name implements demo.Approver.
func (k *asker) Name() string { return k.env.cfg.As }

// The choices of a person.
const (
	chooseEdit  = "edit"
	chooseLeave = "leave"
)

// SubmitResponse implements demo.Approver. The story pauses while it asks.
func (k *asker) SubmitResponse(ctx context.Context, c *toolcall.Call, refused error) (toolcall.Response, error) {
	release := k.story.Hold()
	defer release()
	env := k.env
	env.notef("\n%s", callText(env.err, c))
	if refused != nil {
		env.notef("%s %s\n", env.err.Bad("not accepted:"), term.SafeLine(refused.Error()))
	}
	choice := string(toolcall.ResponseApprove)
	err := env.runForm(ctx, huh.NewSelect[string]().Title("Your response").Options(
		huh.NewOption("Approve: run the call with exactly these arguments", string(toolcall.ResponseApprove)),
		huh.NewOption("Edit: change the arguments; the policy decides again", chooseEdit),
		huh.NewOption("Reject: run nothing and tell the model why", string(toolcall.ResponseReject)),
		huh.NewOption("Respond: run nothing and supply the result", string(toolcall.ResponseRespond)),
		huh.NewOption("Leave: end the demo; the approval request stays open", chooseLeave),
	).Value(&choice))
	if err != nil {
		return toolcall.Response{}, err
	}
	if choice == chooseLeave {
		return toolcall.Response{}, errAborted
	}
	return k.details(ctx, c, choice)
}

func (k *asker) details(ctx context.Context, c *toolcall.Call, choice string) (toolcall.Response, error) {
	text := ""
	switch choice {
	case chooseEdit:
		text = asked.Editable(c.Input)
		err := k.env.runForm(ctx, huh.NewText().Title("Arguments").Lines(10).CharLimit(toolcall.MaxInputBytes).ShowLineNumbers(true).Value(&text))
		k.env.notef("%s", diffText(k.env.err, asked.Changes(c.Input, text)))
		return toolcall.Response{Kind: toolcall.ResponseApprove, Input: &text}, err
	case string(toolcall.ResponseReject):
		err := k.env.runForm(ctx, huh.NewInput().Title("Feedback for the model").Value(&text))
		return toolcall.Response{Kind: toolcall.ResponseReject, Feedback: text}, err
	case string(toolcall.ResponseRespond):
		err := k.env.runForm(ctx, huh.NewInput().Title("Result").Value(&text))
		return toolcall.Response{Kind: toolcall.ResponseRespond, Output: text}, err
	}
	return toolcall.Response{Kind: toolcall.ResponseApprove}, nil
}

type storyTeller struct {
	*story.Story
	env *environment
}

func newStoryTeller(env *environment) *storyTeller {
	return &storyTeller{Story: story.New(env.out, time.Now()), env: env}
}

func (t *storyTeller) begin(d *demo.Demo, cfg demo.Config) error {
	env, n := t.env, d.Node()
	row := func(label, text string) string {
		return fmt.Sprintf("  %s %s\n", env.out.Dim(fmt.Sprintf("%-8s", label)), text)
	}
	return env.printf("%s\n\n%s", env.out.Bold("An incident: a bot with tools, a policy, and a person who approves"),
		row("engine", fmt.Sprintf("%s with a NATS server of its own at %s", n.Engine().ID(), n.URL()))+
			row("worker", fmt.Sprintf("process %d, for %s", d.WorkerPID(), strings.Join(demo.WorkerTools, " and ")))+
			row("policy", fmt.Sprintf("%d rules, %s", n.Rules(), n.PolicyHash()))+
			row("journal", fmt.Sprintf("%s, %s", cfg.Dir, n.Journal().Durability())))
}

func (t *storyTeller) end(r *demo.Result) error {
	env := t.env
	if err := env.printf("\n%s\n\n", env.out.Bold(fmt.Sprintf("The message, rebuilt from its %d events alone", r.Events))); err != nil {
		return err
	}
	if err := story.Message(env.out, r.Message, r.Edited); err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", env.out.Bold("Checked"))
	for _, c := range r.Checks {
		mark := env.out.Good("ok  ")
		if !c.OK {
			mark = env.out.Bad("FAIL")
		}
		fmt.Fprintf(&b, "  %s %s", mark, c.What)
		if c.Why != "" {
			fmt.Fprintf(&b, ": %s", term.SafeLine(c.Why))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n%s %s\n", env.out.Bold("The journal is in"), r.Data)
	b.WriteString("Next:\n")
	for _, args := range []string{"list --all", "show call_refund", "events replay", "events tail --once"} {
		fmt.Fprintf(&b, "  %s\n", commandLine(args, r.Data))
	}
	_, err := io.WriteString(env.out, b.String())
	return err
}

// commandLine is a command that the reader can run: after go run, the program file no
// longer exists.
func commandLine(args, data string) string {
	name := "askance"
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		name = "go run ./cmd/askance"
	}
	return name + " " + args + " --data " + data
}

// jsonTeller prints each event of the journal on a line, as askance events tail --json
// does, then the summary.
type jsonTeller struct {
	out io.Writer

	mu  sync.Mutex // guards err
	err error      // the first write that failed
}

func (t *jsonTeller) begin(*demo.Demo, demo.Config) error { return nil }

// CaughtUp implements toolcall.Sink.
func (t *jsonTeller) CaughtUp() {}

// Progress prints nothing: it is not in the journal.
func (t *jsonTeller) Progress(*toolcall.Call, toolcall.ProgressRequest) {}

// Record implements toolcall.Sink.
func (t *jsonTeller) Record(r toolcall.JournalEntry) {
	switch {
	case r.Event != nil:
		t.line(r.Seq, r.Event)
	case r.Record != nil:
		for _, ev := range toolcall.Events(r.Record) {
			raw, err := json.Marshal(ev)
			if err != nil {
				t.fail(err)
				return
			}
			t.line(r.Seq, raw)
		}
	}
}

func (t *jsonTeller) line(seq uint64, raw message.RawJSON) {
	if err := writeJSON(t.out, toolcall.SequencedEvent{Seq: seq, Event: raw}); err != nil {
		t.fail(err)
	}
}

func (t *jsonTeller) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		t.err = err
	}
}

func (t *jsonTeller) end(r *demo.Result) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		return t.err
	}
	return writeJSON(t.out, struct {
		Summary *demo.Result `json:"summary"`
	}{r})
}
