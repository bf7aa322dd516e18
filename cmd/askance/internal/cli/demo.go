package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/huh"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/examples/incident"
	"github.com/askance-dev/askance/internal/asked"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

type playing struct {
	yes    bool
	web    bool
	script string
	pace   time.Duration
}

func newDemoCommand(env *environment) *cobra.Command {
	var p playing
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play an incident with an agent, a policy and an approval",
		Long: `Plays an incident. This process runs the engine, a NATS server and a bot; a second
process runs a worker. Only the bot's model is a recording. Everything else is real:
the log that a tool reads, the command that counts its errors, the rule that denies
rm -rf, the refund that waits for your approval, and the worker that books it.

On a terminal you approve, edit, reject, or supply the result. With --yes, or without a
terminal, a script approves. The web console shows the same calls while the demo runs,
and you can approve there, too. With --web it stays until Ctrl-C, and the demo opens it
in your browser if it runs on a terminal outside CI.

The journal stays in the data folder, so you can try the other commands on it.`,
		Example: `  askance demo
  askance demo --yes
  askance demo --web                       # approve in the browser; Ctrl-C ends it
  askance demo --data ./incident --json
  askance demo --script ./my-incident      # stream.sse, policy.yaml, tools.yaml, workspace/`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), env, p) },
	}
	f := c.Flags()
	f.BoolVarP(&p.yes, "yes", "y", false, "do not ask; a script approves")
	f.BoolVar(&p.web, "web", false, "keep the web console until Ctrl-C, and open it in a browser if there is one")
	env.cfg.bindAs(c, &env.cfg.Data, "data folder (default a new temporary one, which is kept)")
	env.cfg.bind(c, &env.cfg.As)
	f.StringVar(&p.script, "script", "", "folder with another script (default the built-in one of examples/incident)")
	env.cfg.bindAs(c, &env.cfg.Durability, "what an acknowledgement means: fsynced (on the disk) or cached (default fsynced)")
	durationVar(f, &p.pace, "pace", 15*time.Millisecond, "pause between two parts of the model's stream")
	c.AddCommand(demoTool())
	return c
}

// demoTool is the program that the demo's worker runs for each call.
func demoTool() *cobra.Command {
	return &cobra.Command{
		Use:    "tool WORKSPACE",
		Short:  "Run one call of the demo's worker",
		Hidden: true,
		Args:   wantArgs(1, "the workspace folder"),
		RunE: func(c *cobra.Command, args []string) error {
			return demo.RunTool(c.Context(), demo.Call{
				Tool: os.Getenv("ASKANCE_TOOL"), IdempotencyKey: os.Getenv("ASKANCE_IDEMPOTENCY_KEY"), Workspace: args[0],
				Input: c.InOrStdin(), Output: c.OutOrStdout(), Progress: c.ErrOrStderr(),
			})
		},
	}
}

func demoConfig(env *environment, p playing) (demo.Config, error) {
	cfg := demo.Config{
		Dir: node.Dir(env.cfg.Data), Space: "default", Pace: p.pace,
		Version: buildInfo().Version, Log: env.log,
	}
	var err error
	if cfg.Durability, err = env.cfg.embeddedDurability(journal.DurabilityFsynced); err != nil {
		return cfg, err
	}
	if cfg.Exe, err = os.Executable(); err != nil {
		return cfg, fmt.Errorf("demo: find this program, to start the worker: %w", err)
	}
	cfg.Script = fs.FS(incident.Files)
	if p.script != "" {
		if _, err := os.Stat(p.script); err != nil {
			return cfg, fmt.Errorf("demo: find the folder of --script: %w", err)
		}
		cfg.Script = os.DirFS(p.script)
	}
	if cfg.Dir == "" {
		dir, err := os.MkdirTemp("", "askance-demo-")
		if err != nil {
			return cfg, fmt.Errorf("demo: make a data folder: %w", err)
		}
		cfg.Dir = node.Dir(dir)
	}
	dir, err := filepath.Abs(string(cfg.Dir))
	cfg.Dir = node.Dir(dir)
	return cfg, err
}

type teller interface {
	toolcall.Sink
	Progress(c *toolcall.Call, p toolcall.ProgressRequest)
	begin(d *demo.Demo, cfg demo.Config, console string) error
	end(r *demo.Result) error
}

func runDemo(ctx context.Context, env *environment, p playing) error {
	cfg, err := demoConfig(env, p)
	if err != nil {
		return err
	}
	var t teller
	if env.json {
		t = &jsonTeller{out: env.out}
		cfg.Approver = scripted{}
	} else {
		s := &storyTeller{Story: story.New(env.out, time.Now()), env: env, web: p.web}
		t = s
		cfg.Approver = scripted{}
		if !p.yes && env.isInteractive() {
			cfg.Approver = &asker{env: env, story: s.Story}
		}
	}
	cfg.Sink, cfg.Progress = t, t.Progress
	d, err := demo.Open(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(showDemo(ctx, env, d, cfg, t, p.web), d.Close())
}

// showDemo plays the demo with a web console, which stays open afterwards if keep is set.
func showDemo(ctx context.Context, env *environment, d *demo.Demo, cfg demo.Config, t teller, keep bool) error {
	n := d.Node()
	console, err := web.Serve(ctx, web.Config{
		Address: "127.0.0.1:0", Space: n.Gateway(), LinkKey: n.LinkKey(), User: userName(),
		DefaultTokens: cfg.Dir.Tokens(), HasLogins: hasLogins(env, cfg.Dir), Version: cfg.Version, Log: env.log,
	})
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }() // only pages; the journal has everything
	forget, err := cfg.Dir.WriteConsole(console.URL())
	if err != nil {
		return err
	}
	defer func() { _ = forget() }() // commands try the address before they use it
	if keep && env.isInteractive() && os.Getenv("CI") == "" && browser() != nil {
		browsing, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() { startBrowser(browsing, env, console.URL()) })
	}
	r, err := playDemo(ctx, d, cfg, t, console.URL())
	if err != nil {
		return err
	}
	if err := t.end(r); err != nil {
		return err
	}
	if !r.OK() {
		return errors.New("demo: a check failed; the list above says which one")
	}
	if !keep {
		return nil
	}
	select {
	case err := <-console.Failed():
		return err
	case err := <-n.Failed():
		return fmt.Errorf("the engine stopped: %w", err)
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, errSignal) {
			return err
		}
		return nil
	}
}

// startBrowser opens the console; the story prints its address in any case.
func startBrowser(ctx context.Context, env *environment, console string) {
	at, err := url.Parse(console)
	if err == nil {
		err = openBrowser(ctx, at)
	}
	if err != nil && ctx.Err() == nil {
		env.log.WarnContext(ctx, "the browser did not start", "console", console, "error", err)
	}
}

func playDemo(ctx context.Context, d *demo.Demo, cfg demo.Config, t teller, console string) (*demo.Result, error) {
	recorded := node.Config{Dir: cfg.Dir, Space: cfg.Space, Durability: cfg.Durability}
	if err := recordRun(recorded, []string{d.PolicyPath()}, d.ToolsPath()); err != nil {
		return nil, err
	}
	if err := t.begin(d, cfg, console); err != nil {
		return nil, err
	}
	r, err := d.Play(ctx)
	if errors.Is(err, errAborted) {
		return nil, fmt.Errorf("%w; the journal is in %s, and %s shows the open calls", err, cfg.Dir, commandLine("list", string(cfg.Dir)))
	}
	return r, err
}

const scriptName = "demo-script"

// thinking is the delay of the script's approval, which shows that other calls continue meanwhile.
const thinking = 300 * time.Millisecond

// scripted approves everything. It is a demo.Approver.
type scripted struct{}

func (scripted) Name() string { return scriptName }

func (scripted) SubmitResponse(ctx context.Context, _ *toolcall.Call, refused error) (toolcall.Response, error) {
	if refused != nil {
		return toolcall.Response{}, refused
	}
	return toolcall.Response{Kind: toolcall.ResponseApprove}, sleep.For(ctx, thinking)
}

// asker asks the person at the terminal. It is a demo.Approver.
type asker struct {
	env   *environment
	story *story.Story
}

func (a *asker) Name() string { return a.env.cfg.As }

// The choices that are not kinds of a response.
const (
	chooseEdit  = "edit"
	chooseLeave = "leave"
)

// SubmitResponse implements demo.Approver. The story pauses while it asks.
func (a *asker) SubmitResponse(ctx context.Context, c *toolcall.Call, refused error) (toolcall.Response, error) {
	release := a.story.Hold()
	defer release()
	env := a.env
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
	return a.details(ctx, c, choice)
}

func (a *asker) details(ctx context.Context, c *toolcall.Call, choice string) (toolcall.Response, error) {
	text := ""
	switch choice {
	case chooseEdit:
		text = asked.Editable(c.Input)
		err := a.env.runForm(ctx, huh.NewText().Title("Arguments").Lines(10).CharLimit(toolcall.MaxInputBytes).ShowLineNumbers(true).Value(&text))
		a.env.notef("%s", diffText(a.env.err, asked.Changes(c.Input, text)))
		return toolcall.Response{Kind: toolcall.ResponseApprove, Input: &text}, err
	case string(toolcall.ResponseReject):
		err := a.env.runForm(ctx, huh.NewInput().Title("Feedback for the model").Value(&text))
		return toolcall.Response{Kind: toolcall.ResponseReject, Feedback: text}, err
	case string(toolcall.ResponseRespond):
		err := a.env.runForm(ctx, huh.NewInput().Title("Result").Value(&text))
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
	return programName() + " " + args + " --data " + spelling.ShellWord(data)
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

func (t *jsonTeller) CaughtUp() {}

// Progress prints nothing: it is not in the journal.
func (t *jsonTeller) Progress(*toolcall.Call, toolcall.ProgressRequest) {}

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
