package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/message"
)

// serving is what askance serve is told besides its settings.
type serving struct {
	insecure  bool
	pace      bus.Pace
	demoAgent bool
	agentID   string
	webhooks  string // file that names the destinations
}

func newServeCommand(env *environment) *cobra.Command {
	var s serving
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run an engine with its own NATS server, or on an existing cluster",
		Long: `Runs an engine until it is stopped. Without --nats it brings a NATS server of its
own, whose journal is in the data folder. Rule files are looked at every second; a
policy that cannot be read is refused as a whole and the last good one stays.
Without --policy every call asks a person.

With credentials (askance creds init) the embedded server lets in those who have a
login, and nobody else. Without, it lets in whoever reaches its address, under any
name: it stays on loopback then, and another address needs --insecure. Beyond loopback
connections with a login are encrypted (--nats-cert, --nats-key; --nats-ca where others
connect), or refused unless --nats-insecure permits plain text.

Engines on one server (--nats) take over from one that hangs, within seconds. An
embedded server hangs with its process, and every other process waits for it.

The engine compares the journal with its signed checkpoints and with the anchor file
before it runs anything, and every five seconds. If records are missing it serves
nothing and ends with exit code 8: restore a backup, or see askance journal check.

HTTP demands tokens (askance token create) or a provider (--oidc-issuer) as soon as
any credentials exist, NATS logins included. Without any, every process on the machine
acts as one local user, approve included. With --http-socket the kernel names the user.

SIGINT or SIGTERM stops it: running local calls get ten seconds to end. A second
signal stops it at once; nothing acknowledged is lost by that either.`,
		Example: `  askance serve --policy rules.yaml --tools tools.yaml
  askance serve --data /var/lib/askance --listen 127.0.0.1:4222 --durability cached
  askance serve --tools tools.yaml --demo-agent   # an agent without a model, to try the interfaces
  askance serve --nats nats://nats.internal:4222 --creds engine.creds --keys space.key`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runServe(c.Context(), env, s) },
	}
	cfg := &env.cfg
	cfg.bindJournal(c)
	cfg.bind(c, &cfg.Listen, &cfg.Cert, &cfg.CertKey, &cfg.CredsDir, &cfg.Durability, &cfg.SystemCreds,
		&cfg.Policy, &cfg.PolicyBucket, &cfg.Shadow, &cfg.Directory, &cfg.DirectoryBucket, &cfg.Tools, &cfg.Mode, &cfg.Cwd, &cfg.WorkingDirs,
		&cfg.Remind, &cfg.ReviewerPerMinute, &cfg.ReviewerPerHour, &cfg.ReviewerMaxOpen, &cfg.Metrics, &cfg.MetricsWindow, &cfg.Keys, &cfg.Anchor,
		&cfg.HTTP, &cfg.HTTPSocket, &cfg.HTTPSocketGroup, &cfg.HTTPSocketRoles, &cfg.HTTPCert, &cfg.HTTPKey, &cfg.HTTPInsecure, &cfg.HTTPTokens, &cfg.HTTPURL, &cfg.HTTPOrigins, &cfg.HTTPSession,
		&cfg.OIDCIssuer, &cfg.OIDCClient, &cfg.OIDCSecretFile, &cfg.OIDCAudience, &cfg.OIDCNameClaim, &cfg.OIDCGroupsClaim, &cfg.OIDCRoles)
	f := c.Flags()
	f.BoolVar(&s.insecure, "insecure", false, "use no credentials, and let the embedded server listen anywhere: everyone who reaches it can act under any name")
	f.DurationVar(&s.pace.Every, "checkpoint-every", time.Minute, "sign the journal at least this often, if it has new records")
	f.IntVar(&s.pace.Records, "checkpoint-records", 1024, "sign the journal after this many new records, too")
	f.BoolVar(&s.demoAgent, "demo-agent", false, "let frontends talk to an agent without a model, named "+web.DemoAgent+", that does what the lines of a message say: \"call TOOL {…}\", \"say TEXT\"; it calls any tool that a message names")
	f.StringVar(&s.agentID, "agent-id", "", "names the replies that agents of this process make, so that its successor continues them (default gateway; with --nats the host's name)")
	f.StringVar(&s.webhooks, "webhooks", "", "file that names the programs elsewhere that are told of questions and outcomes")
	return c
}

func runServe(ctx context.Context, env *environment, s serving) error {
	cfg, err := serveConfig(env, s)
	if err == nil {
		err = checkHTTP(env, cfg.Dir, s)
	}
	if err != nil {
		return err
	}
	var doors doors
	defer doors.close()
	cfg.Checked = func(ctx context.Context) error { return openListeners(ctx, env, cfg.Dir, s, &doors) }
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return err
	}
	err = serveUntilStopped(ctx, env, n, cfg, s, &doors)
	if errors.Is(err, errSignal) {
		env.notef("stopping; a second signal stops at once\n")
		err = nil
	}
	return errors.Join(err, n.Close())
}

func serveUntilStopped(ctx context.Context, env *environment, n *node.Node, cfg node.Config, s serving, d *doors) error {
	if err := recordRun(cfg, env.cfg.Policy, env.cfg.Tools); err != nil {
		return err
	}
	gate, err := openHTTP(ctx, env, n, cfg.Dir, s, d)
	if err != nil {
		return err
	}
	var gateFailed <-chan error
	var over httpAt
	var own []metrics.Gauge
	if gate != nil {
		defer func() { _ = gate.Close() }() // whoever is cut off comes back
		gateFailed, over = gate.Failed(), httpAt{gate.URL(), gate.SocketPath(), gate.Logins()}
		own = append(own, metrics.Gauge{Name: "http_token_error", Help: "1 while the token file cannot be read: the tokens of before are good for a minute, then none is.", Value: gate.TokenError})
	}
	scrape := ""
	if d.metrics != nil {
		m := metrics.Serve(d.metrics, n.Engine().As(message.Principal{Role: message.RoleAuditor, Name: "askance-metrics"}), env.cfg.MetricsWindow, own...)
		defer func() { _ = m.Close() }() // nothing is lost
		scrape = m.URL()
	}
	if err := printServing(env, n, cfg, scrape, over); err != nil {
		return err
	}
	select {
	case err := <-gateFailed:
		return err
	case err := <-n.Failed():
		return fmt.Errorf("the engine cannot go on: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
