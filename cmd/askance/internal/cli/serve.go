package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/telemetry"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/permission"
)

type serving struct {
	insecure  bool
	pace      journal.Pace
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
--policy every call needs an approval, unless its mode or tool decides.

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
		announcef(env, "Stopping. A second signal stops at once.\n")
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
		metrics.Own(metrics.DirectoryError, spaces.directoryError),
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

func serveConfig(env *environment, s serving) (node.Config, error) {
	set := &env.cfg
	cfg := node.Config{
		Dir: node.Dir(set.dir()), Version: buildInfo().Version, Log: env.log,
		NATS: set.NATS, Creds: set.Creds, CA: set.CA, PlainText: set.PlainText, SystemCreds: set.SystemCreds,
		Listen: set.Listen, Cert: set.Cert, Key: set.CertKey, CredsDir: set.CredsDir, Reopen: s.insecure,
		Durability: journal.Durability(set.Durability), Replicas: set.Replicas, Pace: s.pace,
	}
	if err := checkTLS(cfg); err != nil {
		return cfg, err
	}
	if cfg.Dir == "" {
		return cfg, usagef("cannot find a home folder for the data folder: pass --data")
	}
	if err := checkDurability(&cfg); err != nil {
		return cfg, err
	}
	if err := findCreds(&cfg, s.insecure); err != nil {
		return cfg, err
	}
	if cfg.CredsDir != "" && cfg.Cert == "" && beyondLoopback(cfg) && !cfg.PlainText {
		return cfg, usagef("--listen %s is not a loopback address, so logins and calls would cross the network in plain text: pass --nats-cert and --nats-key, listen on 127.0.0.1, or pass --nats-insecure", cfg.Listen)
	}
	if openBeyondLoopback(cfg) && !s.insecure {
		return cfg, usagef("--listen %s is not a loopback address, and without credentials every connection can act under any name and approve calls: create credentials with askance creds init, listen on 127.0.0.1, use --nats with a server that has accounts, or pass --insecure", cfg.Listen)
	}
	if set.MetricsWindow <= 0 {
		return cfg, usagef("--metrics-window is %s, use a positive time", set.MetricsWindow)
	}
	if s.pace.Every <= 0 || s.pace.Records <= 0 {
		return cfg, usagef("--checkpoint-every or --checkpoint-records is not positive, use positive values")
	}
	return cfg, set.addSpace(&cfg)
}

func (cfg *config) addSpace(to *node.Config) error {
	to.Space, to.Keys, to.Anchor = cfg.spaceID(), cfg.Keys, cfg.Anchor
	to.Policy, to.PolicyBucket, to.Shadow, to.Directory, to.DirectoryBucket = cfg.Policy, cfg.PolicyBucket, cfg.Shadow, cfg.Directory, cfg.DirectoryBucket
	to.Cwd, to.WorkingDirs, to.Remind, to.Reviewers = cfg.Cwd, cfg.WorkingDirs, cfg.Remind, cfg.reviewerLimits()
	to.Mode, to.Tools, to.ToolsFile, to.ToolsText = "", nil, "", nil
	to.Engine = []engine.Option{engine.WithMaxOpen(cfg.MaxOpen), engine.WithMaxRunning(cfg.MaxRunning)}
	if cfg.ArchiveOlderThan < 0 || cfg.ArchiveKeep < 0 || cfg.ArchiveMaxBytes < 0 {
		return usagef("--archive-older-than, --archive-keep or --archive-max-bytes is negative, use 0 or a positive value")
	}
	to.Archiving.Retention = journal.Retention{OlderThan: cfg.ArchiveOlderThan, Keep: cfg.ArchiveKeep, MaxBytes: uint64(cfg.ArchiveMaxBytes), By: creds.EngineName}
	to.Archiving.Reason = retentionText(to.Archiving.Retention)
	if to.Remind < 0 {
		return usagef("--remind is %s, use 0 or a positive time", to.Remind)
	}
	if to.Reviewers.Validate() != nil {
		return usagef("--reviewer-per-minute, --reviewer-per-hour or --reviewer-max-open is negative, use 0 or a positive number")
	}
	if cfg.MaxOpen < 0 || cfg.MaxRunning < 0 {
		return usagef("--max-open or --max-running is negative, use 0 or a positive number")
	}
	if to.Cwd == "" { // with links followed, as agents name their folder
		to.Cwd, _ = os.Getwd() // without it no path counts as inside
		if followed, err := filepath.EvalSymlinks(to.Cwd); err == nil {
			to.Cwd = followed
		}
	}
	if cfg.Mode != "" {
		mode, err := permission.ParseMode(cfg.Mode)
		if err != nil {
			return usagef("--mode: %w", err)
		}
		to.Mode = mode
	}
	if cfg.Tools != "" {
		text, err := textfile.Read("tools file", cfg.Tools, textfile.MaxBytes)
		if err != nil {
			return err
		}
		tools, err := toolfile.Parse(cfg.Tools, text)
		if err != nil {
			return err
		}
		to.Tools, to.ToolsFile, to.ToolsText = tools, cfg.Tools, text
	}
	return nil
}

// embeddedDurability returns the durability of an embedded server that a command starts for itself.
func (cfg *config) embeddedDurability(absent journal.Durability) (journal.Durability, error) {
	d := cmp.Or(journal.Durability(cfg.Durability), absent)
	if d != journal.DurabilityFsynced && d != journal.DurabilityCached {
		return "", usagef("--durability is %q, use fsynced or cached", d)
	}
	return d, nil
}

// checkDurability refuses an unknown durability and impossible replicas. The engine later compares the stated
// durability of --nats with the stream.
func checkDurability(cfg *node.Config) error {
	if journal.CheckReplicas(cfg.Replicas) != nil {
		return usagef("--replicas is %d, use 1, 3 or 5", cfg.Replicas)
	}
	switch d := cfg.Durability; {
	case cfg.Replicas > 0 && cfg.NATS == "":
		return usagef("--replicas applies only to the cluster of --nats: an embedded server has one replica")
	case d == journal.DurabilityQuorum && cfg.Replicas == 1:
		return usagef("--durability quorum needs 3 replicas: leave out --replicas, or state fsynced or cached")
	case cfg.SystemCreds != "" && cfg.NATS == "":
		return usagef("--nats-system-creds applies only to the server of --nats; for the embedded server use --durability")
	case cfg.NATS == "" && d == "":
		cfg.Durability = journal.DurabilityFsynced
	case d == "", d == journal.DurabilityFsynced, d == journal.DurabilityCached, d == journal.DurabilityQuorum && cfg.NATS != "":
	case cfg.NATS != "":
		return usagef("--durability is %q, use fsynced, cached or quorum", d)
	default:
		return usagef("--durability is %q, use fsynced or cached", d)
	}
	return nil
}

// findCreds uses the credentials of the data folder, unless flags say otherwise.
func findCreds(cfg *node.Config, insecure bool) error {
	switch {
	case cfg.CredsDir != "" && insecure:
		return usagef("--insecure uses no credentials: leave out --creds-dir or --insecure")
	case cfg.CredsDir != "" && cfg.NATS != "":
		return usagef("--creds-dir applies only to the embedded server: leave it out, and configure the server of --nats with the output of askance creds config")
	case cfg.CredsDir == "" && cfg.NATS == "" && !insecure:
		_, err := os.Stat(cfg.Dir.Creds())
		switch {
		case err == nil:
			cfg.CredsDir = cfg.Dir.Creds()
		case !errors.Is(err, fs.ErrNotExist): // an unreadable folder must not open the server
			return fmt.Errorf("look for credentials: %w", err)
		}
	}
	return nil
}

// openBeyondLoopback reports whether other machines can reach the embedded server
// under any name. A host name other than localhost can mean any address.
func openBeyondLoopback(cfg node.Config) bool {
	return cfg.CredsDir == "" && beyondLoopback(cfg)
}

func beyondLoopback(cfg node.Config) bool {
	if cfg.NATS != "" || cfg.Listen == "" {
		return false
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	return err == nil && !bus.OnLoopback(host) // the server refuses an invalid address
}

func checkTLS(cfg node.Config) error {
	switch {
	case (cfg.Cert == "") != (cfg.Key == ""):
		return usagef("only one of --nats-cert and --nats-key is set: pass both")
	case cfg.Cert != "" && cfg.NATS != "":
		return usagef("--nats-cert applies only to the embedded server: leave it out, because the server of --nats has its own certificate")
	case cfg.CA != "" && cfg.NATS == "":
		return usagef("--nats-ca applies only to the server of --nats: leave it out; the embedded server gets its certificate with --nats-cert")
	}
	return nil
}

func recordRun(cfg node.Config, policy []string, tools string) error {
	run := config{
		Space: string(cfg.Space), Keys: cfg.Keys, Anchor: cfg.Anchor, Policy: policy, PolicyBucket: cfg.PolicyBucket, Tools: tools, Mode: string(cfg.Mode),
		Directory: cfg.Directory, DirectoryBucket: cfg.DirectoryBucket, Cwd: cfg.Cwd, WorkingDirs: cfg.WorkingDirs,
		ReviewerPerMinute: cfg.Reviewers.PerMinute, ReviewerPerHour: cfg.Reviewers.PerHour, ReviewerMaxOpen: cfg.Reviewers.MaxOpen,
	}
	if cfg.NATS == "" {
		run.Durability = string(cfg.Durability)
	}
	files := cfg.Dir.Files(cfg.Space)
	err := writeLastRun(string(files), run)
	if err == nil && cfg.First == nil && files != cfg.Dir { // commands without --space use this one
		err = writeLastRun(string(cfg.Dir), run)
	}
	return err
}
