package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/inbox"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

func newInboxCommand(env *environment) *cobra.Command {
	var session string
	sign := signing{cfg: &env.cfg}
	c := &cobra.Command{
		Use:   "inbox",
		Short: "Interactive inbox in the terminal",
		Long: `Shows open approval requests, running and blocked calls and the history in the
terminal, and keeps them up to date. ? lists the keys. Requests are sorted by deadline;
you can sort, group and filter them. On wide terminals a preview shows the selected
call. You can approve, edit in $VISUAL or $EDITOR, reject, supply the result, delegate
or skip, and respond to several requests at once. Operators can resolve blocked calls.
An approval can create a standing approval; R lists and revokes standing approvals.
Before you send a response, the screen shows what would run. With --sign-key, approvals
carry your own signature.

The inbox needs a running engine and a terminal of at least 40x10. NO_COLOR turns
colours off. Without a terminal, use askance list, show and approve.`,
		Example: `  askance inbox
  askance inbox --session ticket-7
  askance inbox --sign-key ann.key              # if rules require your signature
  askance inbox --nats nats://nats.internal:4222 --creds ann.creds --as ann
  ssh -t ops.internal askance inbox`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runInbox(c.Context(), env, session, &sign) },
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&session, "session", "", "only approval requests of this session")
	sign.cmd = c
	sign.flags()
	return c
}

func runInbox(ctx context.Context, env *environment, session string, sign *signing) error {
	const instead = "list requests with askance list, and respond with askance approve CALL"
	switch {
	case env.json || !term.IsTerminal(env.in) || !env.out.Terminal():
		return usagef("cannot open the inbox: it needs a terminal for input and output; %s", instead)
	case os.Getenv("TERM") == "dumb":
		return usagef("cannot open the inbox: a terminal with TERM=dumb cannot draw screens; %s", instead)
	}
	if env.err.Terminal() { // log lines would corrupt the screen
		env.log = slog.New(slog.DiscardHandler)
	}
	l, err := env.connectLive(ctx, toolcall.RoleApprover)
	if err != nil {
		return err
	}
	defer l.Close()
	key, err := sign.load() // after the login, which sets the name
	if err != nil {
		return err
	}
	var signer *inbox.Signer
	if key != nil {
		signer = &inbox.Signer{KeyID: key.keyID(), Lasts: key.lasts, Sign: key.sign}
	}
	preview := func(ctx context.Context, r api.PreviewRequest) (api.PreviewReply, error) {
		return api.Preview.Call(ctx, l, r)
	}
	err = inbox.Run(ctx, inbox.Config{
		Engine: l, Hints: hints(l), Preview: preview, Resolve: resolver(ctx, env, l), Who: env.cfg.As, Session: message.SessionID(session),
		Signer: signer, Editor: editor(), In: env.in, Out: env.out,
	})
	if errors.Is(err, inbox.ErrInterrupted) {
		return errSignal
	}
	return err
}

// connectLive is connect for a long-running command: it needs a running engine,
// because it must not lock the data folder.
func (env *environment) connectLive(ctx context.Context, role toolcall.Role) (*link, error) {
	if env.cfg.Server != "" {
		return env.connect(ctx, role)
	}
	url, err := env.findServer(startHint(env.cfg.dir()))
	if err != nil {
		return nil, err
	}
	l, err := env.dial(ctx, url, toolcall.Principal{Role: role, Name: env.cfg.As})
	if env.cfg.NATS == "" && errors.Is(err, message.ErrUnavailable) && ctx.Err() == nil {
		dir := node.Dir(env.cfg.dir())
		return nil, noServer(dir, err, startHint(string(dir))) // a killed server leaves its endpoint file
	}
	return l, err
}

// findServer returns the URL of the NATS server of --nats or of the data folder. hint says what to
// do if the folder has none.
func (env *environment) findServer(hint string) (string, error) {
	if env.cfg.NATS != "" {
		return env.cfg.NATS, nil
	}
	url, err := node.Dir(env.cfg.dir()).URL()
	if err == nil && url == "" {
		err = noServer(node.Dir(env.cfg.dir()), nil, hint)
	}
	return url, err
}

// resolver returns how to resolve blocked calls as an operator, with a separate login if the
// connection has only one role, or nil if the person is not an operator.
func resolver(ctx context.Context, env *environment, l *link) inbox.Resolve {
	if env.cfg.Server != "" {
		if !slices.Contains(l.roles, toolcall.RoleOperator) {
			return nil
		}
		return l.Resolve
	}
	own := *env // dialing sets the name to that of the login
	dial := func(ctx context.Context) (*link, error) { return own.connectLive(ctx, toolcall.RoleOperator) }
	o, err := dial(ctx)
	if err != nil {
		return nil
	}
	o.Close()
	return func(ctx context.Context, r toolcall.ResolveRequest) (*toolcall.Call, error) {
		o, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		defer o.Close()
		return o.Resolve(ctx, r)
	}
}

// hints returns the change hints of an engine over NATS; nil for a data folder.
func hints(l *link) inbox.Hints {
	client, ok := l.Client.(*bus.Client)
	if !ok {
		return nil
	}
	return func(ctx context.Context, f func(toolcall.Key, bool)) (func(), error) {
		return client.OnHint(ctx, func(h bus.Hint) { f(h.Key, h.State == message.ToolCallAsking) })
	}
}
