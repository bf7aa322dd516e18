package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// storyTeller tells a demo to people.
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
	return env.printf("%s\n\n%s", env.out.Bold("An incident: a bot with tools, a policy, and somebody who is asked"),
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

// commandLine is a command line that works for whoever reads it: with go run, the
// program itself is gone by then.
func commandLine(args, data string) string {
	name := "askance"
	if exe, err := os.Executable(); err == nil && strings.Contains(exe, "go-build") {
		name = "go run ./cmd/askance"
	}
	return name + " " + args + " --data " + data
}

// jsonTeller tells a demo to programs: each event of the journal on a line, as
// askance events tail --json does, then the summary.
type jsonTeller struct {
	out io.Writer

	mu  sync.Mutex // guards err
	err error      // the first that kept a line from being written
}

func (t *jsonTeller) begin(*demo.Demo, demo.Config) error { return nil }

// CaughtUp implements message.Sink.
func (t *jsonTeller) CaughtUp() {}

// Progress is no event of the journal and left out.
func (t *jsonTeller) Progress(*message.Call, message.ProgressRequest) {}

// Record implements message.Sink.
func (t *jsonTeller) Record(r message.Record) {
	switch {
	case r.Event != nil:
		t.line(r.Seq, r.Event)
	case r.Fact != nil:
		for _, ev := range toolcall.Events(r.Fact) {
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
	if err := writeJSON(t.out, message.SequencedEvent{Seq: seq, Event: raw}); err != nil {
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
