package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/inbox"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/message"
)

func newInboxCommand(env *environment) *cobra.Command {
	var session string
	sign := signing{cfg: &env.cfg}
	c := &cobra.Command{
		Use:   "inbox",
		Short: "Answer questions on a screen that lives",
		Long: `Shows the open questions on the whole terminal and keeps them up to date: new ones
appear, settled ones say who settled them and leave. Everything works by keys; ?
lists them. A question shows why it is asked, who must still agree, how long there
is, and its arguments as a tree; an answer can approve, edit in $VISUAL or $EDITOR,
reject, give the result, or hand over. Offered rules can be remembered, narrowed and
on terms; r lists the remembered ones and takes them back. Before an answer is sent,
the screen shows exactly what its digest binds. With --sign-key approvals go with
your own signature; nothing else is asked.

It needs an engine at work, a terminal of at least 40x10, and draws no colours if
NO_COLOR is set. Without a terminal there are askance list, show and approve.`,
		Example: `  askance inbox
  askance inbox --session ticket-7
  askance inbox --sign-key ann.key              # where rules take your own signature
  askance inbox --nats nats://nats.internal:4222 --creds ann.creds --as ann
  ssh -t ops.internal askance inbox`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runInbox(c.Context(), env, session, &sign) },
	}
	env.cfg.bindClient(c)
	c.Flags().StringVar(&session, "session", "", "only questions of this session")
	sign.flags(c)
	return c
}

func runInbox(ctx context.Context, env *environment, session string, sign *signing) error {
	if env.json || !term.IsTerminal(env.in) || !env.out.Terminal() || os.Getenv("TERM") == "dumb" {
		return usagef("the inbox needs a terminal for input and output; askance list shows the open questions without one")
	}
	if env.err.Terminal() { // the log would be written across the screen
		env.log = slog.New(slog.DiscardHandler)
	}
	l, err := env.connectLive(ctx, message.RoleApprover)
	if err != nil {
		return err
	}
	defer l.Close()
	signer, err := inboxSigner(sign)
	if err != nil {
		return err
	}
	err = inbox.Run(ctx, inbox.Config{
		Engine: l, Hints: hints(l), Who: env.cfg.As, Space: env.cfg.spaceID(), Session: message.SessionID(session),
		Signer: signer, Editor: editor(), In: env.in, Out: env.out,
	})
	if errors.Is(err, errSignal) {
		return nil // one of the ways to leave; nothing is half done
	}
	return err
}

// inboxSigner reads the key of the person, whose name the login has said by now;
// nil, if none was named.
func inboxSigner(sign *signing) (*inbox.Signer, error) {
	key, err := sign.load()
	if err != nil || key == nil {
		return nil, err
	}
	return &inbox.Signer{KeyID: key.keyID(), Lasts: key.lasts, Sign: key.sign}, nil
}

// connectLive is connect for what stays: a folder must not be kept locked for as
// long as somebody looks, so an engine must be at work.
func (env *environment) connectLive(ctx context.Context, role message.Role) (*link, error) {
	url := env.cfg.NATS
	if url == "" {
		var err error
		if url, err = node.Dir(env.cfg.dir()).URL(); err != nil {
			return nil, err
		}
	}
	if url == "" {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "open inbox", What: "no engine is at work on " + env.cfg.dir(), Hint: "start askance serve; askance list shows what is open without one"}
	}
	return env.dial(ctx, url, message.Principal{Role: role, Name: env.cfg.As})
}

// hints gives the hints of an engine over NATS; nil for any other.
func hints(l *link) inbox.Hints {
	client, ok := l.Client.(*bus.Client)
	if !ok {
		return nil
	}
	return func(ctx context.Context, f func(message.Key, bool)) (func(), error) {
		return client.OnHint(ctx, func(h bus.Hint) { f(h.Key, h.State == message.ToolCallAsking) })
	}
}
