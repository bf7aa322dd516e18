package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
)

// IO is what a command reads from and writes to.
type IO struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// environment is what the commands of one run share: streams, settings, log.
type environment struct {
	in  io.Reader
	out *term.Out
	err *term.Out

	json     bool
	config   string // path of the settings file; "" looks for askance.yaml
	logLevel string
	at       place

	log *slog.Logger
}

// Main runs one command and returns its exit code. It ends when ctx does.
func Main(ctx context.Context, std IO, args []string) int {
	env := &environment{in: std.In, out: term.New(std.Out), err: term.New(std.Err), log: slog.New(slog.DiscardHandler)}
	root := newRootCommand(env)
	root.SetArgs(args)
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errSignal) && !errors.Is(err, errSignal) {
		err = fmt.Errorf("%w: %w", errSignal, err)
	}
	if err != nil {
		env.report(err)
	}
	return ExitCode(err)
}

// report tells what went wrong.
func (env *environment) report(err error) {
	if env.json {
		_ = writeJSON(env.err, documentOf(err)) // nowhere to report that to
		return
	}
	text := env.err.Bad("error: ") + term.Safe(err.Error()) + "\n"
	if _, ok := errors.AsType[usageError](err); ok {
		text += env.err.Dim("See the command's --help.") + "\n"
	}
	_, _ = io.WriteString(env.err, text)
}

// newRootCommand is the command tree.
func newRootCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "askance",
		Short: "Stands between AI agents and their tools: decides, asks, runs, proves",
		Long: `askance stands between AI agents and their tools: it decides by policy which
tool calls run, asks people about the rest, runs what was allowed exactly once,
and keeps a proof of every step.

Begin with askance demo.`,
		Example: `  askance demo
  askance serve --policy rules.yaml --tools tools.yaml
  askance list
  askance approve call_42`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			return env.prepare(c)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := c.PersistentFlags()
	f.BoolVar(&env.json, "json", false, "print JSON instead of text")
	f.StringVar(&env.config, "config", "", "settings file (default askance.yaml, if it is there)")
	f.StringVar(&env.logLevel, "log-level", "warn", "what is logged on standard error: debug, info, warn or error")
	c.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "calls", Title: "Look at calls, and decide:"}, &cobra.Group{ID: "proof", Title: "Prove what happened:"}, &cobra.Group{ID: "policy", Title: "Write policies:"}, &cobra.Group{ID: "trust", Title: "Say who is trusted:"}, &cobra.Group{ID: "about", Title: "About:"})
	c.SetHelpCommandGroupID("about")
	c.SetCompletionCommandGroupID("about")
	for _, add := range []struct {
		group string
		cmds  []*cobra.Command
	}{
		{"run", []*cobra.Command{newDemoCommand(env), newServeCommand(env), newWorkerCommand(env), newWebhooksCommand(env), newBenchCommand(env)}},
		{"calls", []*cobra.Command{newInboxCommand(env), newListCommand(env), newLoadCommand(env), newShowCommand(env), newApproveCommand(env), newEditCommand(env), newRejectCommand(env), newAnswerCommand(env), newHandOverCommand(env), newSettleCommand(env), newInterruptCommand(env), newRevokeCommand(env), newRulesCommand(env), newEventsCommand(env)}},
		{"proof", []*cobra.Command{newAuditCommand(env), newJournalCommand(env)}},
		{"policy", []*cobra.Command{newPolicyCommand(env)}},
		{"trust", []*cobra.Command{newCredsCommand(env), newTokenCommand(env), newKeysCommand(env)}},
		{"about", []*cobra.Command{newVersionCommand(env)}},
	} {
		for _, cmd := range add.cmds {
			cmd.GroupID = add.group
			c.AddCommand(cmd)
		}
	}
	c.AddCommand(helpTopics()...)
	return c
}

// prepare fills in the settings and starts the log, before a command runs.
func (env *environment) prepare(c *cobra.Command) error {
	if err := env.applySettings(c); err != nil {
		return err
	}
	if f := c.Flags().Lookup("space"); f != nil && f.Changed && f.Value.Type() == "string" {
		if err := bus.CheckSpace(message.SpaceID(f.Value.String())); err != nil {
			return err
		}
	}
	if err := env.applyLogin(c); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(env.logLevel))); err != nil {
		return usagef("--log-level is %q, use debug, info, warn or error", env.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if env.json {
		env.log = slog.New(slog.NewJSONHandler(env.err, opts))
	} else {
		opts.ReplaceAttr = shownAttr
		env.log = slog.New(slog.NewTextHandler(env.err, opts))
	}
	return nil
}

// shownAttr makes harmless for a terminal what a log says.
func shownAttr(_ []string, at slog.Attr) slog.Attr {
	if s := at.Value.String(); at.Value.Kind() == slog.KindString || at.Value.Kind() == slog.KindAny {
		if safe := term.SafeLine(s); safe != s {
			at.Value = slog.StringValue(safe)
		}
	}
	return at
}

// isInteractive reports whether a person can be asked.
func (env *environment) isInteractive() bool {
	return !env.json && term.IsTerminal(env.in) && env.err.Terminal() && os.Getenv("TERM") != "dumb"
}

// printf writes to the standard output.
func (env *environment) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(env.out, format, args...)
	return err
}

// notef writes what is no result.
func (env *environment) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(env.err, format, args...)
}

// printDocument prints one JSON document, indented.
func (env *environment) printDocument(v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "  "); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	pretty.WriteByte('\n')
	_, err = env.out.Write(pretty.Bytes())
	return err
}

// writeJSON writes one JSON document on one line.
func writeJSON(w io.Writer, v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
