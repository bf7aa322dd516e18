package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/telemetry"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/engine"
)

type serving struct {
	insecure  bool
	pace      bus.Pace
	demoAgent bool
	agentID   string
	webhooks  string // file that names the destinations
	process   *metrics.Process
}

func newServeCommand(env *environment) *cobra.Command {
	var s serving
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run an engine with an embedded NATS server or on an existing cluster",
		Long: `Runs an engine until a signal stops it. Without --nats it starts an embedded NATS
server with its journal in the data folder. The engine reads changed rule files every
second; it refuses a policy that does not load and keeps the last good one. Without
--policy every call needs an approval.

With credentials (askance creds init), only their logins can connect to the embedded
server. Without credentials every connection can use any name: the server then listens
only on loopback, unless --insecure permits more. Beyond loopback, connections with a
login need TLS (--nats-cert and --nats-key here, --nats-ca for clients), unless
--nats-insecure permits plain text.

If one of several engines on one server (--nats) hangs, the others take over within
seconds. An embedded server hangs with its process, and every other process waits.

The engine compares the journal with its signed checkpoints and with the anchor file when
it starts and every five seconds. If records are missing, it exits with code 8: restore a
backup, or see askance journal check.

HTTP requires tokens (askance token create) or a provider (--oidc-issuer) as soon as
credentials exist, NATS logins included. Without any credentials, every process on the
machine acts as one local user, who can also approve. With --http-socket, the kernel
identifies the user.

--spaces names a file with more spaces. Each has its own journal, keys, policy, tools and
people, and can have every setting of askance.yaml that applies to one space. Its keys,
anchor, archive and snapshots are in spaces/NAME in the data folder:

  version: 1
  spaces:
    team:
      policy: team/rules.yaml
      tools: team/tools.yaml

A token or a login is valid in one space. Without credentials, the host names the space:
http://team.localhost:8787 is team, any other name of this machine the first space.
Webhooks, a provider and --http-socket-role apply only to the first space. If one space
cannot continue, the process ends and names it.

SIGINT or SIGTERM stops the engine; running local calls have ten seconds to end. A
second signal stops it at once. Neither loses acknowledged records.`,
		Example: `  askance serve --policy rules.yaml --tools tools.yaml
  askance serve --data /var/lib/askance --listen 127.0.0.1:4222 --durability cached
  askance serve --policy rules.yaml --tools tools.yaml --spaces spaces.yaml
  askance serve --tools tools.yaml --demo-agent   # an agent without a model, to try the interfaces
  askance serve --nats nats://nats.internal:4222 --creds engine.creds --keys space.key`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runServe(c.Context(), env, s) },
	}
	cfg := &env.cfg
	cfg.bindJournal(c)
	cfg.bind(c, &cfg.Listen, &cfg.Cert, &cfg.CertKey, &cfg.CredsDir, &cfg.Durability, &cfg.Replicas, &cfg.SystemCreds,
		&cfg.Spaces, &cfg.Metrics, &cfg.MetricsWindow, &cfg.MetricsPeople,
		&cfg.HTTP, &cfg.HTTPSocket, &cfg.HTTPSocketGroup, &cfg.HTTPSocketRoles, &cfg.HTTPCert, &cfg.HTTPKey, &cfg.HTTPInsecure, &cfg.HTTPTokens, &cfg.HTTPURL, &cfg.HTTPOrigins, &cfg.HTTPSession,
		&cfg.OIDCIssuer, &cfg.OIDCClient, &cfg.OIDCSecretFile, &cfg.OIDCAudience, &cfg.OIDCNameClaim, &cfg.OIDCGroupsClaim, &cfg.OIDCScopes, &cfg.OIDCRoles)
	cfg.bind(c, cfg.ofSpace()...)
	f := c.Flags()
	f.BoolVar(&s.insecure, "insecure", false, "use no credentials, and let the embedded server listen anywhere: everyone who reaches it can act under any name")
	durationVar(f, &s.pace.Every, "checkpoint-every", time.Minute, "sign the journal at least this often, if it has new records")
	f.IntVar(&s.pace.Records, "checkpoint-records", 1024, "also sign the journal after this many new records")
	f.BoolVar(&s.demoAgent, "demo-agent", false, "let frontends talk to an agent without a model, named "+web.DemoAgent+", that does what the lines of a message say: \"call TOOL {…}\", \"say TEXT\"; it calls any tool that a message names")
	f.StringVar(&s.agentID, "agent-id", "", "name of this process in the replies of its agents, so that the next process with this name continues them (default gateway; with --nats the host's name)")
	f.StringVar(&s.webhooks, "webhooks", "", "file with the destinations that get messages about approval requests and outcomes")
	return c
}

func runServe(ctx context.Context, env *environment, s serving) error {
	s.process = metrics.NewProcess()
	cfg, err := serveConfig(env, s)
	if err == nil {
		err = checkHTTP(env, cfg.Dir, s)
	}
	if err != nil {
		return err
	}
	var open listeners
	defer open.close()
	cfg.Observers = append(cfg.Observers, func(w engine.Written) { s.process.Wrote(w.Took) })
	tracer, err := telemetry.Open(buildInfo().Version, env.log)
	if err != nil {
		return err
	}
	defer func() { _ = tracer.Close() }() // what could not be sent is logged
	if tracer != nil {
		cfg.Observers, cfg.NewTrace = append(cfg.Observers, tracer.Observe), tracer.NewTrace
	}
	spaces, err := readSpaces(env, cfg)
	if err != nil {
		return err
	}
	spaces[0].cfg.Checked = func(ctx context.Context) error {
		if err := spaces.check(ctx); err != nil {
			return err
		}
		return openListeners(ctx, env, cfg.Dir, s, &open)
	}
	if err := spaces.start(ctx); err != nil {
		return err
	}
	err = serveUntilStopped(ctx, env, spaces, s, &open)
	if errors.Is(err, errSignal) {
		env.notef("Stopping. A second signal stops at once.\n")
		err = nil
	}
	return errors.Join(err, spaces.close())
}

func serveUntilStopped(ctx context.Context, env *environment, spaces servedSpaces, s serving, d *listeners) error {
	n, cfg := spaces[0].node, spaces[0].cfg
	for _, space := range spaces {
		if err := recordRun(space.cfg, space.set.Policy, space.set.Tools); err != nil {
			return err
		}
	}
	spaces.nameOthers(env.log)
	gate, err := openHTTP(ctx, env, spaces, s, d)
	if err != nil {
		return err
	}
	var gateFailed <-chan error
	var over httpAt
	own := []metrics.Number{
		metrics.Own(metrics.NATSConnected, spaces.connected),
		metrics.Own(metrics.NATSReconnects, spaces.reconnects),
	}
	if gate != nil {
		defer func() { _ = gate.Close() }() // clients reconnect
		at := cmp.Or(env.cfg.HTTPURL, gate.URL())
		if at == "" {
			socket, err := filepath.Abs(gate.SocketPath()) // commands are run in other folders
			if err != nil {
				return err
			}
			at = overSocket + socket
		}
		forget, err := cfg.Dir.WriteConsole(at)
		if err != nil {
			return err
		}
		defer func() { _ = forget() }() // commands try the address before they use it
		gateFailed, over = gate.Failed(), httpAt{gate.URL(), gate.SocketPath(), gate.Logins()}
		own = append(own, metrics.Own(metrics.TokenError, gate.TokenError), metrics.Own(metrics.DeadLetters, gate.DeadLetters))
	}
	scrape := ""
	if d.metrics != nil {
		m := metrics.Serve(d.metrics, spaces.metrics(metrics.Config{People: env.cfg.MetricsPeople, Recent: env.cfg.MetricsWindow, Own: own}), s.process)
		defer func() { _ = m.Close() }() // metrics lose nothing
		scrape = m.URL()
	}
	if err := printServing(env, spaces, scrape, over); err != nil {
		return err
	}
	select {
	case err := <-gateFailed:
		return err
	case err := <-n.Failed():
		return fmt.Errorf("the engine stopped: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
