package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/huh"

	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/replay"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

const scriptName = "demo-script"

// thinking is the delay of the script's approval, which shows that other calls continue meanwhile.
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
	return toolcall.Response{Kind: toolcall.ResponseApprove}, replay.Sleep(ctx, thinking)
}

// asker asks the person at the terminal. It is a demo.Approver.
type asker struct {
	env   *environment
	story *story.Story
}

// Name implements demo.Approver.
func (k *asker) Name() string { return k.env.cfg.As }

// The choices that are not kinds of a response.
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
	web bool // the console stays after the story
}

func (t *storyTeller) begin(d *demo.Demo, cfg demo.Config, console string) error {
	env, n := t.env, d.Node()
	until := "until the demo ends"
	if t.web {
		until = "until Ctrl-C"
	}
	text := newSheet(env.out, 8, env.out.Bold("An incident: a bot with tools, a policy, and a person who approves")+"\n")
	text.row("console", fmt.Sprintf("%s (%s)", console, until))
	text.row("policy", asked.Count(n.PolicyStatus().Rules, "rule")+" in "+d.PolicyPath())
	text.row("worker", fmt.Sprintf("process %d, for %s", d.WorkerPID(), strings.Join(demo.WorkerTools, " and ")))
	text.row("journal", fmt.Sprintf("%s, %s", cfg.Dir, n.Journal().Durability()))
	return env.printf("%s", text)
}

func (t *storyTeller) end(r *demo.Result) error {
	env := t.env
	text := newSheet(env.out, 0, env.out.Bold("Checked"))
	for _, c := range r.Checks {
		line := "  " + env.out.Good("ok  ") + " " + c.What
		if !c.OK {
			line = "  " + env.out.Bad("FAIL") + " " + c.What
		}
		if c.Why != "" {
			line += ": " + term.SafeLine(c.Why)
		}
		text.line(line)
	}
	text.line("\n" + env.out.Bold("Three things to try"))
	for i, try := range t.toTry(r) {
		text.line(fmt.Sprintf("  %d. %s\n     %s", i+1, try.why, env.out.Name(try.command)))
	}
	if t.web {
		text.line("\nThe web console stays until you press Ctrl-C.")
	}
	_, err := io.WriteString(env.out, text.String())
	return err
}

type suggestion struct{ why, command string }

func (t *storyTeller) toTry(r *demo.Result) []suggestion {
	first := suggestion{"Play it again and approve in the web console:", programName() + " demo --web"}
	if t.web {
		first = suggestion{"Look at the timeline, the rules and the history in the web console:", commandLine("open", r.Data)}
	}
	call := r.Calls[0]
	if i := slices.IndexFunc(r.Calls, func(c *toolcall.Call) bool { return len(c.Votes) > 0 }); i >= 0 {
		call = r.Calls[i]
	}
	show := fmt.Sprintf("show %s/%s/%s", call.Session, call.Reply, call.Call)
	return []suggestion{
		first,
		{"See who approved " + term.SafeLine(call.Tool) + ", which rule asked, and each step:", commandLine(show, r.Data)},
		{"Prove that no record of the journal was changed or removed:", commandLine("audit verify", r.Data)},
	}
}

// commandLine is a command that the reader can run.
func commandLine(args, data string) string {
	return programName() + " " + args + " --data " + term.ShellWord(data)
}

// programName returns how to start this program: after go run, its file no longer exists.
func programName() string {
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		return "go run ./cmd/askance"
	}
	return "askance"
}

// jsonTeller prints each event of the journal on a line, as askance events tail --json
// does, then the summary.
type jsonTeller struct {
	out io.Writer
	err error // the first event that could not be written
}

func (t *jsonTeller) begin(*demo.Demo, demo.Config, string) error { return nil }

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
			t.err = cmp.Or(t.err, err)
			t.line(r.Seq, raw)
		}
	}
}

func (t *jsonTeller) line(seq uint64, raw message.RawJSON) {
	if t.err == nil {
		t.err = writeJSON(t.out, toolcall.SequencedEvent{Seq: seq, Event: raw})
	}
}

// end is called when no more events come.
func (t *jsonTeller) end(r *demo.Result) error {
	if t.err != nil {
		return t.err
	}
	return writeJSON(t.out, struct {
		Summary *demo.Result `json:"summary"`
	}{r})
}
