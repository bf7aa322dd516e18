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

// app is what the commands of one run share.
type app struct {
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
	a := &app{in: std.In, out: term.New(std.Out), err: term.New(std.Err), log: slog.New(slog.DiscardHandler)}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(std.In)
	root.SetOut(std.Out)
	root.SetErr(std.Err)
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), errSignal) && !errors.Is(err, errSignal) {
		err = fmt.Errorf("%w: %w", errSignal, err)
	}
	if err != nil {
		a.report(err)
	}
	return ExitCode(err)
}

// report tells what went wrong.
func (a *app) report(err error) {
	if a.json {
		_ = writeJSON(a.err, documentOf(err)) // nowhere to report that to
		return
	}
	text := a.err.Bad("error: ") + term.Safe(err.Error()) + "\n"
	if _, ok := errors.AsType[usageError](err); ok {
		text += a.err.Dim("See the command's --help.") + "\n"
	}
	_, _ = io.WriteString(a.err, text)
}

// root is the command tree.
func (a *app) root() *cobra.Command {
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
			return a.prepare(c)
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := c.PersistentFlags()
	f.BoolVar(&a.json, "json", false, "print JSON instead of text")
	f.StringVar(&a.config, "config", "", "settings file (default askance.yaml, if it is there)")
	f.StringVar(&a.logLevel, "log-level", "warn", "what is logged on standard error: debug, info, warn or error")
	c.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "calls", Title: "Look at calls, and decide:"}, &cobra.Group{ID: "proof", Title: "Prove what happened:"}, &cobra.Group{ID: "policy", Title: "Write policies:"}, &cobra.Group{ID: "trust", Title: "Say who is trusted:"}, &cobra.Group{ID: "about", Title: "About:"})
	c.SetHelpCommandGroupID("about")
	c.SetCompletionCommandGroupID("about")
	for _, add := range []struct {
		group string
		cmds  []*cobra.Command
	}{
		{"run", []*cobra.Command{a.demo(), a.serve(), a.worker(), a.webhooks(), a.bench()}},
		{"calls", []*cobra.Command{a.inbox(), a.list(), a.load(), a.show(), a.approve(), a.edit(), a.reject(), a.answer(), a.handOver(), a.settle(), a.interrupt(), a.revoke(), a.rules(), a.events()}},
		{"proof", []*cobra.Command{a.audit(), a.journal()}},
		{"policy", []*cobra.Command{a.policy()}},
		{"trust", []*cobra.Command{a.creds(), a.token(), a.keys()}},
		{"about", []*cobra.Command{a.version()}},
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
func (a *app) prepare(c *cobra.Command) error {
	if err := a.settings(c); err != nil {
		return err
	}
	if f := c.Flags().Lookup("space"); f != nil && f.Changed && f.Value.Type() == "string" {
		if err := bus.CheckSpace(message.SpaceID(f.Value.String())); err != nil {
			return err
		}
	}
	if err := a.login(c); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(strings.ToUpper(a.logLevel))); err != nil {
		return usagef("--log-level is %q, use debug, info, warn or error", a.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	if a.json {
		a.log = slog.New(slog.NewJSONHandler(a.err, opts))
	} else {
		opts.ReplaceAttr = shownAttr
		a.log = slog.New(slog.NewTextHandler(a.err, opts))
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

// interactive reports whether a person can be asked.
func (a *app) interactive() bool {
	return !a.json && term.IsTerminal(a.in) && a.err.Terminal() && os.Getenv("TERM") != "dumb"
}

// printf writes to the standard output.
func (a *app) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(a.out, format, args...)
	return err
}

// notef writes what is no result.
func (a *app) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(a.err, format, args...)
}

// document prints one JSON document, indented.
func (a *app) document(v any) error {
	b, err := strictjson.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, b, "", "  "); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	pretty.WriteByte('\n')
	_, err = a.out.Write(pretty.Bytes())
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
