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
	"github.com/askance-dev/askance/message"
)

// serving is what askance serve is told.
type serving struct {
	listen, durability, tools, mode, keys, anchor, cwd string
	cert, certKey                                      string
	credsDir, systemCreds                              string
	policy, shadow, dirs, people                       []string
	bucket, peopleBucket, insecure                     bool
	remind                                             time.Duration
	reviewers                                          message.ReviewerLimits
	metrics                                            string
	recent                                             time.Duration // window of metrics
	pace                                               bus.Pace
	web                                                serveHTTP
	demoAgent                                          bool
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
	env.at.whereFlags(c)
	f := c.Flags()
	f.StringVar(&s.listen, "listen", "127.0.0.1:4222", "address of the embedded server; port 0 takes a free one")
	f.StringVar(&s.cert, "nats-cert", "", "certificate chain in PEM: connections to the embedded server are encrypted")
	f.StringVar(&s.certKey, "nats-key", "", "private key of --nats-cert")
	f.StringVar(&s.credsDir, "creds-dir", "", "credentials folder: who may log in to the embedded server (default creds in the data folder, if it is there)")
	f.BoolVar(&s.insecure, "insecure", false, "use no credentials, and let the embedded server listen anywhere: whoever reaches it may act as anybody")
	f.StringVar(&s.durability, "durability", "", "what an acknowledgement means: fsynced (on the disk) or cached; with --nats what you state of that server: fsynced, cached or quorum (default fsynced; with --nats what the server says, else cached)")
	f.StringVar(&s.systemCreds, "nats-system-creds", "", "NATS credentials file of the system account: the engine asks the server of --nats when it syncs")
	f.StringArrayVar(&s.policy, "policy", nil, "rule file, or folder of rule files, with its LAYER= before it if that is not project; may be repeated")
	f.BoolVar(&s.bucket, "policy-bucket", false, "take rule files from the NATS key-value bucket ASKANCE_POLICY_<space> too; it is made if it is not there")
	f.StringArrayVar(&s.people, "directory", nil, "file that says which groups people are in; may be repeated")
	f.BoolVar(&s.peopleBucket, "directory-bucket", false, "take directory files from the NATS key-value bucket ASKANCE_DIRECTORY_<space> too; it is made if it is not there")
	f.StringArrayVar(&s.shadow, "shadow", nil, "rule file, or folder of rule files, of a policy that decides nothing: what it would decide otherwise is logged; may be repeated")
	f.StringVar(&s.tools, "tools", "", "file that declares the tools")
	f.StringVar(&s.mode, "mode", "", "permission mode, over that of the policy: default, accept_edits, explore, bypass or dont_ask")
	f.StringVar(&s.cwd, "cwd", "", "folder in which the tools run, for rules about paths (default the current one)")
	f.StringArrayVar(&s.dirs, "working-dir", nil, "further folder in which tools may edit where the mode lets them; may be repeated")
	f.DurationVar(&s.remind, "remind", 0, "tell inboxes of an open question again whenever nothing was said about it for so long; 0 never does")
	f.IntVar(&s.reviewers.PerMinute, "reviewer-per-minute", 0, "refuse answers of one reviewer beyond so many within a minute; 0: no limit")
	f.IntVar(&s.reviewers.PerHour, "reviewer-per-hour", 0, "refuse answers of one reviewer beyond so many within an hour; 0: no limit")
	f.IntVar(&s.reviewers.MaxOpen, "reviewer-max-open", 0, "give nothing more to a reviewer with so many open questions: no hand-over, and no proposal whose question only such people could answer; 0: no limit")
	f.DurationVar(&s.pace.Every, "checkpoint-every", time.Minute, "sign the journal at least so often, if there is anything new")
	f.IntVar(&s.pace.Records, "checkpoint-records", 1024, "sign the journal after so many records all the same")
	f.StringVar(&s.metrics, "metrics", "", "address at which Prometheus may scrape /metrics, the names of reviewers included; :9464 is on loopback (default none)")
	f.DurationVar(&s.recent, "metrics-window", time.Hour, "how far back the metrics askance_reviewer_recent_* reach")
	f.StringVar(&s.keys, "keys", "", "key file of the space's engines (default engine.key in the data folder; made if it is not there)")
	f.StringVar(&s.anchor, "anchor-file", "", "file that remembers how far the journal was, to notice when records are lost; put it on another disk (default anchors/SPACE in the data folder)")
	serveHTTPFlags(c, &s)
	_ = c.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"fsynced", "cached", "quorum"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"default", "accept_edits", "explore", "bypass", "dont_ask"}, cobra.ShellCompDirectiveNoFileComp))
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
	if err := recordRun(cfg, s.policy, s.tools); err != nil {
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
		m := metrics.Serve(d.metrics, n.Engine().As(message.Principal{Role: message.RoleAuditor, Name: "askance-metrics"}), s.recent, own...)
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
