// Package cli is the askance command: one file for each group of sub-commands,
// and the environment that they share.
//
//	code := cli.Main(ctx, cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:])
//
// Every command follows these rules:
//
//   - results go to Out, everything else to Err;
//   - --json makes the result one JSON document, or one per line where it is a
//     stream, and errors one JSON document on Err;
//   - the exit codes are those of ExitCode, the same for every command;
//   - settings come from flags, then ASKANCE_… variables, then askance.yaml (see
//     settings.go);
//   - a command asks a person only if In and Err are terminals;
//   - text of models, tools and other people is printed only through package
//     term, which removes escape sequences.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/toolcall"
)

// IO is what a command reads from and writes to.
type IO struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// Main runs one command and returns its exit code. It ends when ctx does.
func Main(ctx context.Context, std IO, args []string) int {
	env, root := newCommand(std, args)
	return execute(ctx, env, root, args)
}

func newCommand(std IO, args []string) (*environment, *cobra.Command) {
	env := &environment{format: formatText, in: std.In, out: term.New(std.Out), err: term.New(std.Err), log: slog.New(slog.DiscardHandler)}
	root := newRootCommand(env)
	root.SetArgs(args)
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	refuseUnknownShells(root)
	return env, root
}

func execute(ctx context.Context, env *environment, root *cobra.Command, args []string) int {
	ran, err := root.ExecuteContextC(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errSignal) && !errors.Is(err, errSignal) {
		err = fmt.Errorf("%w: %w", errSignal, err)
	}
	if err == nil {
		return ExitOK
	}
	env.command = ran.CommandPath()
	env.json = env.json || jsonWanted(args) // an unknown flag ends the reading of flags
	err = env.found.explain(err)
	env.report(err)
	if ran.Annotations[blockOnFailure] != "" {
		return ExitUsage
	}
	return ExitCode(err)
}

// jsonWanted reports whether the flags of a command line that failed have --json.
func jsonWanted(args []string) bool {
	flags := args
	if i := slices.Index(args, "--"); i >= 0 {
		flags = args[:i]
	}
	return slices.Contains(flags, "--json")
}

func newRootCommand(env *environment) *cobra.Command {
	var version bool
	c := &cobra.Command{
		Use:   "askance",
		Short: "Control the tool calls of AI agents: decide, ask, run, prove",
		Long: `askance stands between AI agents and their tools. A policy decides which tool calls
run, people approve the rest, each allowed call runs exactly once, and a signed
journal proves every step.

Start with askance demo, or write the files of a project with askance init.`,
		Example: `  askance demo
  askance init && askance serve
  askance status
  askance list
  askance approve call_42`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          onlyCommands,
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				return printVersion(env)
			}
			return c.Help()
		},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			return env.prepare(c)
		},
	}
	c.SetFlagErrorFunc(flagError)
	c.Flags().BoolVarP(&version, "version", "V", false, "print the version")
	f := c.PersistentFlags()
	f.BoolVar(&env.json, "json", false, "print JSON instead of text: the same as --output json")
	f.VarP(formatFlag{env}, "output", "o", "print the result as text, wide, json or yaml; lists of calls also as name")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formatWords, cobra.ShellCompDirectiveNoFileComp))
	f.StringVar(&env.settingsFile, "config", "", "settings file (default askance.yaml, if it exists)")
	env.cfg.bindFlag(c, f, &env.cfg.LogLevel, "")
	env.cfg.bindFlag(c, f, &env.cfg.LogFormat, "")
	c.AddGroup(&cobra.Group{ID: "start", Title: "Get started:"}, &cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "calls", Title: "Calls and approvals:"}, &cobra.Group{ID: "proof", Title: "Audit:"}, &cobra.Group{ID: "policy", Title: "Policies:"}, &cobra.Group{ID: "trust", Title: "Trust:"}, &cobra.Group{ID: "about", Title: "About:"})
	c.SetHelpCommandGroupID("about")
	c.SetHelpFunc(fitHelp(env, c.HelpFunc()))
	c.SetCompletionCommandGroupID("about")
	for _, add := range []struct {
		group string
		cmds  []*cobra.Command
	}{
		{"start", []*cobra.Command{newDemoCommand(env), newInitCommand(env), newStatusCommand(env), newDoctorCommand(env), newOpenCommand(env)}},
		{"run", []*cobra.Command{newServeCommand(env), newWorkerCommand(env), newMCPCommand(env), newHookCommand(env), newWebhooksCommand(env), newBenchCommand(env)}},
		{"calls", []*cobra.Command{newInboxCommand(env), newListCommand(env), newLoadCommand(env), newShowCommand(env), newPreviewCommand(env), newCallCommand(env), newApproveCommand(env), newEditCommand(env), newRejectCommand(env), newResultCommand(env), newDelegateCommand(env), newResolveCommand(env), newInterruptCommand(env), newRevokeCommand(env), newStandingCommand(env), newEventsCommand(env)}},
		{"proof", []*cobra.Command{newAuditCommand(env), newJournalCommand(env)}},
		{"policy", []*cobra.Command{newPolicyCommand(env), newToolsCommand(env)}},
		{"trust", []*cobra.Command{newCredsCommand(env), newTokenCommand(env), newKeysCommand(env)}},
		{"about", []*cobra.Command{newContextCommand(env), newVersionCommand(env)}},
	} {
		for _, cmd := range add.cmds {
			cmd.GroupID = add.group
			c.AddCommand(cmd)
		}
	}
	completeNames(env, c)
	c.AddCommand(
		&cobra.Command{Use: "exit-codes", Short: "Meaning of the exit codes", Long: exitCodeHelp()},
		&cobra.Command{Use: "settings", Short: "Reference of all settings", Long: settingsHelp()},
		&cobra.Command{Use: "addresses", Short: "How to name a call", Long: addressHelp},
	)
	addShortNames(c)
	refuseUnknownTopics(c)
	onlyDecimalIn(c)
	return c
}

// fitHelp fits a help text to the terminal.
func fitHelp(env *environment, show func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(c *cobra.Command, args []string) {
		var b strings.Builder
		c.SetOut(&b)
		show(c, args)
		c.SetOut(nil)
		text := b.String()
		if env.out.Terminal() {
			text = term.Fit(text, env.out.Width())
		}
		_, _ = io.WriteString(env.out, text)
	}
}

// refuseUnknownTopics makes askance help fail for a word that is not a command.
func refuseUnknownTopics(c *cobra.Command) {
	c.InitDefaultHelpCmd()
	i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == "help" })
	help := c.Commands()[i]
	show := help.Run
	help.Run = nil
	help.RunE = func(h *cobra.Command, args []string) error {
		cmd, rest, err := c.Find(args)
		switch {
		case err != nil:
			return usageError{err}
		case len(rest) > 0 && cmd.HasSubCommands():
			return unknownCommand(cmd, rest[0])
		}
		show(h, args)
		return nil
	}
}

// refuseUnknownShells makes askance completion fail for a shell without a script. The output of
// c must be set: the scripts go to what it is now.
func refuseUnknownShells(c *cobra.Command) {
	c.InitDefaultCompletionCmd()
	completion, _, _ := c.Find([]string{"completion"}) // it was just added
	for _, shell := range newGroup(completion).Commands() {
		shell.Args = noArgs
	}
	completion.Example = "  source <(askance completion bash)\n  askance completion fish > ~/.config/fish/completions/askance.fish"
	completion.Args = wantArgs(0, "one shell of bash, fish, powershell and zsh")
}

// addShortNames gives the commands that people type most the short names that they
// know from other tools.
func addShortNames(c *cobra.Command) {
	for _, sub := range c.Commands() {
		switch sub.Name() {
		case "list":
			sub.Aliases = append(sub.Aliases, "ls")
		case "show":
			sub.Aliases = append(sub.Aliases, "view")
		}
		addShortNames(sub)
	}
}

func (env *environment) prepare(c *cobra.Command) error {
	if c.Annotations[blockOnFailure] != "" {
		return nil // it reads no settings: the agent whose calls it blocks could write them
	}
	if err := env.checkFormat(c); err != nil {
		return err
	}
	if err := env.applySettings(c); err != nil {
		return err
	}
	if f := c.Flags().Lookup("space"); f != nil && f.Changed && f.Value.Type() == "string" {
		if err := bus.CheckSpace(toolcall.SpaceID(f.Value.String())); err != nil {
			return err
		}
	}
	if err := env.applyLogin(c); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(env.cfg.LogLevel))); err != nil {
		return usagef("--log-level is %q, use debug, info, warn or error", env.cfg.LogLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch {
	case env.json || env.cfg.LogFormat == "json":
		env.log = slog.New(slog.NewJSONHandler(env.err, opts))
	case env.cfg.LogFormat == "text":
		opts.ReplaceAttr = shownAttr
		env.log = slog.New(slog.NewTextHandler(env.err, opts))
	default:
		return usagef("--log-format is %q, use text or json", env.cfg.LogFormat)
	}
	warnOfVariables(env.log)
	return nil
}

// signalContext returns a context that ends at the first SIGINT, SIGTERM or SIGHUP. The second ends
// the process at once with a code, which is safe: what was acknowledged is durable.
func signalContext(code int) (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		if _, sent := <-signals; sent {
			end(errSignal)
		}
		if _, sent := <-signals; sent {
			os.Exit(code)
		}
	}()
	return ctx, func() {
		signal.Stop(signals) // sends nothing more
		close(signals)
		end(nil)
	}
}

// Process runs one command on the streams of this process until it ends or a signal
// stops it. It returns the exit code.
func Process(args []string) int {
	env, root := newCommand(IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, args)
	code := signalCode(root, args)
	if code == ExitUsage {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // writing to a closed pipe is only an error
	}
	ctx, stop := signalContext(code)
	defer stop()
	return execute(ctx, env, root, args)
}

// signalCode returns the exit code after two signals. After any code but ExitUsage, an agent runs
// the tool that its hook should block.
func signalCode(root *cobra.Command, args []string) int {
	if found, _, _ := root.Find(args); found != nil && found.Annotations[blockOnFailure] != "" {
		return ExitUsage
	}
	return ExitInterrupted
}
