package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// newGroup completes a command that has only sub-commands.
func newGroup(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = onlyCommands
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(subs...)
	return c
}

// onlyCommands refuses an argument, which is then the name of an unknown command.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(c, args[0])
	}
	return nil
}

// wantArgs requires n arguments that are not empty.
func wantArgs(n int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n || slices.Contains(args, "") {
			return usagef("expected %s", want)
		}
		return nil
	}
}

// optional accepts no argument, or what check accepts.
func optional(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return check(c, args)
	}
}

// onlyArg returns the argument of a command that accepts one; "" if there is none.
func onlyArg(args []string) string { return strings.Join(args, "") }

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}

// completeFirst completes the first argument, and no files.
func completeFirst(words func(*cobra.Command) []string) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(c), cobra.ShellCompDirectiveNoFileComp
	}
}

func completeWords(words ...string) cobra.CompletionFunc {
	return completeFirst(func(*cobra.Command) []string { return words })
}

// operation describes how a command performs an operation of the engine: it connects,
// makes the request, and prints the reply.
type operation[Req, Rep any] struct {
	role toolcall.Role
	// call performs it: the Call method of a row of package api, or a loop over pages.
	call func(context.Context, api.Caller, Req) (Rep, error)
	// request makes the request from the arguments of the command.
	request func(ctx context.Context, l *link, args []string) (Req, error)
	text    func(*term.Out, Req, Rep) string
}

func (o operation[Req, Rep]) run(env *environment) func(*cobra.Command, []string) error {
	return connected(env, o.role, func(ctx context.Context, l *link, args []string) error {
		r, err := o.request(ctx, l, args)
		if err != nil {
			return err
		}
		reply, err := o.call(ctx, l, r)
		if err != nil {
			return err
		}
		return env.print(reply, o.text(env.out, r, reply))
	})
}

// connected makes the RunE of a command that needs a connection.
func connected(env *environment, role toolcall.Role, do func(ctx context.Context, l *link, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		l, err := env.connect(c.Context(), role)
		if err != nil {
			return err
		}
		defer l.Close()
		return do(c.Context(), l, args)
	}
}

// onCall makes the request of an operation on one call.
func onCall[Req any](ad *address, request func(*toolcall.Call) (Req, error)) func(context.Context, *link, []string) (Req, error) {
	return func(ctx context.Context, l *link, _ []string) (Req, error) {
		call, err := ad.find(ctx, l)
		if err != nil {
			var none Req
			return none, err
		}
		return request(call)
	}
}

// always returns the request that the flags of a command filled in.
func always[Req any](r *Req) func(context.Context, *link, []string) (Req, error) {
	return func(context.Context, *link, []string) (Req, error) { return *r, nil }
}

// durationFlag is a duration that can be in days, as in rule files.
type durationFlag time.Duration

// String returns "" for zero, so the help shows no default.
func (d *durationFlag) String() string {
	if *d == 0 {
		return ""
	}
	return permission.FormatDuration(time.Duration(*d))
}

func (d *durationFlag) Set(text string) error {
	v, err := permission.ParseDuration(text)
	*d = durationFlag(v)
	return err // valueError says what a duration is
}

func (d *durationFlag) Type() string { return "duration" }

func durationVar(f *pflag.FlagSet, into *time.Duration, name string, value time.Duration, help string) {
	*into = value
	f.Var((*durationFlag)(into), name, help)
}

// decimalFlag is a flag for a whole number. By itself pflag reads 010 as eight, and 0x10 as sixteen.
type decimalFlag struct{ pflag.Value }

var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func (d decimalFlag) Set(text string) error {
	if !decimal.MatchString(text) {
		return strconv.ErrSyntax // valueError says what to write
	}
	return d.Value.Set(text)
}

func onlyDecimal(f *pflag.Flag) {
	if slices.Contains([]string{"int", "uint64"}, f.Value.Type()) {
		f.Value = decimalFlag{f.Value}
	}
}

func onlyDecimalIn(c *cobra.Command) {
	c.Flags().VisitAll(onlyDecimal)
	for _, below := range c.Commands() {
		onlyDecimalIn(below)
	}
}

type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitzero"`
	Time     string `json:"time,omitzero"`
	Modified bool   `json:"modified,omitzero"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func newVersionCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of askance",
		Example: "  askance version\n  askance version --json",
		Args:    noArgs,
		RunE:    func(*cobra.Command, []string) error { return printVersion(env) },
	}
}

func printVersion(env *environment) error {
	b := buildInfo()
	text := "askance " + b.Version
	if b.Revision != "" {
		text += " (" + b.Revision[:min(12, len(b.Revision))]
		if b.Modified {
			text += ", modified"
		}
		text += ")"
	}
	return env.print(b, fmt.Sprintf("%s, %s, %s\n", text, b.Go, b.Platform))
}

// unknownCommand refuses a word that is not a command of c, and suggests those that could be meant.
func unknownCommand(c *cobra.Command, word string) error {
	var names, words []string
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		if slices.Contains(sub.SuggestFor, strings.ToLower(word)) {
			names = append(names, sub.Name())
		}
		for _, nested := range sub.Commands() {
			if nested.Name() == word && nested.IsAvailableCommand() {
				names = append(names, sub.Name()+" "+word)
			}
		}
		words = append(append(words, sub.Name()), sub.Aliases...)
	}
	if len(names) == 0 {
		names = spelling.Nearest(word, words)
	}
	return usagef("unknown command %q for %s%s", word, c.CommandPath(), didYouMean("", names))
}

// flagError explains why the flags of c cannot be read.
func flagError(c *cobra.Command, err error) error {
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return valueError("--"+bad.GetFlag().Name, err)
	}
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError{err}
	}
	if args := c.Flags().Args(); c.HasAvailableSubCommands() && len(args) > 0 {
		return unknownCommand(c, args[0]) // its flags are unknown because the command is
	}
	name := missing.GetSpecifiedName()
	var words, about []string // about: flags for what c does, whose description has the name as a word
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		words = append(words, f.Name)
		if len(name) > 2 && c.LocalFlags().Lookup(f.Name) == f && !slices.Contains(placeFlags, f.Name) && slices.Contains(strings.FieldsFunc(f.Usage, func(r rune) bool { return !unicode.IsLetter(r) }), name) {
			about = append(about, f.Name)
		}
	})
	near := spelling.Nearest(name, words)
	if len(near) == 0 && len(about) <= 2 { // a word of many descriptions says nothing
		near = about
	}
	return usagef("%w%s", err, didYouMean("--", near))
}

// placeFlags say where the server is.
var placeFlags = []string{"data", "nats", "nats-ca", "nats-insecure", "server", "space"}

// commandLineFor returns a command that the reader can run at the same server, also with the flags
// of this command for more settings.
func commandLineFor(env *environment, args string, more ...string) string {
	return programName() + " " + args + flagsGiven(env, byFlag, slices.Concat([]string{"context"}, placeFlags, more)...)
}

// commandAgain is commandLineFor for the same person, so it repeats the login too.
func commandAgain(env *environment, args string) string {
	return commandLineFor(env, args, "as", "creds", "token-file")
}

// flagsGiven returns the flags that repeat the settings of a source, or of one before it.
func flagsGiven(env *environment, from source, names ...string) string {
	var b strings.Builder
	for _, s := range settings {
		if env.found.source(s.key()) > from || !slices.Contains(names, s.flag) {
			continue
		}
		text, between := env.found[s.key()].values[0], " "
		switch s.flag {
		case "nats", "server":
			text = bus.RedactURL(text)
		case "nats-insecure":
			between = "="
		}
		b.WriteString(" --" + s.flag + between + spelling.ShellWord(text))
	}
	return b.String()
}

// checkWord refuses a value of a flag that is not one of the words.
func checkWord[S ~string](flag, value string, words []S) error {
	if slices.Contains(words, S(value)) {
		return nil
	}
	return usagef("--%s %q: use %s%s", flag, value, spelling.OrList(words), didYouMean("", spelling.Nearest(value, words)))
}

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	for i, n := range names {
		names[i] = prefix + n
	}
	return "; did you mean " + strings.Join(names, " or ") + "?"
}
