package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/examples/incident"
	"github.com/askance-dev/askance/toolcall"
)

type playing struct {
	yes    bool
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
terminal, a script approves.

The journal stays in the data folder, so that you can try the other commands on it.`,
		Example: `  askance demo
  askance demo --yes
  askance demo --data ./incident --json
  askance demo --script ./my-incident      # stream.sse, policy.yaml, tools.yaml, workspace/`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c.Context(), env, p) },
	}
	f := c.Flags()
	f.BoolVarP(&p.yes, "yes", "y", false, "do not ask; a script approves")
	env.cfg.bindAs(c, &env.cfg.Data, "data folder (default a new temporary one, which is kept)")
	env.cfg.bind(c, &env.cfg.As)
	f.StringVar(&p.script, "script", "", "folder with another script (default the built-in one of examples/incident)")
	env.cfg.bindAs(c, &env.cfg.Durability, "what an acknowledgement means: fsynced (on the disk) or cached (default fsynced)")
	f.DurationVar(&p.pace, "pace", 15*time.Millisecond, "pause between two parts of the model's stream")
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
	if cfg.Durability, err = env.cfg.embeddedDurability(bus.DurabilityFsynced); err != nil {
		return cfg, err
	}
	if cfg.Exe, err = os.Executable(); err != nil {
		return cfg, fmt.Errorf("demo: find this program, to start the worker: %w", err)
	}
	cfg.Script = fs.FS(incident.Files)
	if p.script != "" {
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
	begin(d *demo.Demo, cfg demo.Config) error
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
		s := newStoryTeller(env)
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
	r, err := playDemo(ctx, d, cfg, t)
	if err = errors.Join(err, d.Close()); err != nil {
		return err
	}
	if err := t.end(r); err != nil {
		return err
	}
	if !r.OK() {
		return errors.New("demo: a check failed; the list above says which one")
	}
	return nil
}

func playDemo(ctx context.Context, d *demo.Demo, cfg demo.Config, t teller) (*demo.Result, error) {
	recorded := node.Config{Dir: cfg.Dir, Space: cfg.Space, Durability: cfg.Durability}
	if err := recordRun(recorded, []string{d.PolicyPath()}, d.ToolsPath()); err != nil {
		return nil, err
	}
	if err := t.begin(d, cfg); err != nil {
		return nil, err
	}
	r, err := d.Play(ctx)
	if errors.Is(err, errAborted) {
		return nil, fmt.Errorf("%w; the journal is in %s, and %s shows the open calls", err, cfg.Dir, commandLine("list", string(cfg.Dir)))
	}
	return r, err
}
