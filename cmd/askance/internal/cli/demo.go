package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/demo"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/story"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/examples/incident"
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
	if cfg.Durability, err = env.cfg.embeddedDurability(bus.DurabilityFsynced); err != nil {
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
	console, err := openDemoConsole(ctx, env, d.Node(), cfg)
	if err != nil {
		return err
	}
	defer func() { _ = console.Close() }() // only pages; the journal has everything
	forget, err := cfg.Dir.WriteConsole(console.URL())
	if err != nil {
		return err
	}
	defer func() { _ = forget() }() // commands try the address before they use it
	if keep && wantsBrowser(env) {
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
	case err := <-d.Node().Failed():
		return fmt.Errorf("the engine stopped: %w", err)
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, errSignal) {
			return err
		}
		return nil
	}
}

func openDemoConsole(ctx context.Context, env *environment, n *node.Node, cfg demo.Config) (*web.Web, error) {
	return web.Serve(ctx, web.Config{
		Address: "127.0.0.1:0", Space: n.Gateway(), LinkKey: n.LinkKey(), User: userName(),
		DefaultTokens: cfg.Dir.Tokens(), HasLogins: hasLogins(env, cfg.Dir), Version: cfg.Version, Log: env.log,
	})
}

// wantsBrowser reports whether to open a browser: for a person at a terminal, never in CI.
func wantsBrowser(env *environment) bool {
	return env.isInteractive() && os.Getenv("CI") == "" && browser() != nil
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
