package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// newGroup completes a command that has only sub-commands.
func newGroup(c *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.AddCommand(subs...)
	return c
}

// wantArgs takes n arguments that are not empty.
func wantArgs(n int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n || slices.Contains(args, "") {
			return usagef("expected %s", want)
		}
		return nil
	}
}

func noArgs(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q", args[0])
	}
	return nil
}

func completeWords(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// operation says how a command carries out an operation of the engine: the body of
// a command is to connect, to make the request, and to print the reply.
type operation[Req, Rep any] struct {
	role toolcall.Role
	// call carries it out: the Call method of a row of package api, or a loop over pages.
	call func(context.Context, api.Caller, Req) (Rep, error)
	// request makes the request; args are those of the command line.
	request func(ctx context.Context, l *link, args []string) (Req, error)
	text    func(*term.Out, Req, Rep) string
}

func (o operation[Req, Rep]) run(env *environment) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		l, err := env.connect(c.Context(), o.role)
		if err != nil {
			return err
		}
		defer l.Close()
		r, err := o.request(c.Context(), l, args)
		if err != nil {
			return err
		}
		reply, err := o.call(c.Context(), l, r)
		if err != nil {
			return err
		}
		return env.print(reply, o.text(env.out, r, reply))
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

// always is the request of a command whose flags fill it in.
func always[Req any](r *Req) func(context.Context, *link, []string) (Req, error) {
	return func(context.Context, *link, []string) (Req, error) { return *r, nil }
}
