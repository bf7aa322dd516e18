package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/permission"
)

func serveConfig(env *environment, s serving) (node.Config, error) {
	set := &env.cfg
	cfg := node.Config{
		Dir: node.Dir(set.dir()), Version: buildInfo().Version, Log: env.log,
		NATS: set.NATS, Creds: set.Creds, CA: set.CA, PlainText: set.PlainText, SystemCreds: set.SystemCreds,
		Listen: set.Listen, Cert: set.Cert, Key: set.CertKey, CredsDir: set.CredsDir, Reopen: s.insecure,
		Durability: bus.Durability(set.Durability), Replicas: set.Replicas, Pace: s.pace,
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
	to.Mode, to.Tools = "", nil
	to.Engine = []engine.Option{engine.WithMaxOpen(cfg.MaxOpen), engine.WithMaxRunning(cfg.MaxRunning)}
	if cfg.ArchiveOlderThan < 0 || cfg.ArchiveKeep < 0 || cfg.ArchiveMaxBytes < 0 {
		return usagef("--archive-older-than, --archive-keep or --archive-max-bytes is negative, use 0 or a positive value")
	}
	to.Archiving.Retention = bus.Retention{OlderThan: cfg.ArchiveOlderThan, Keep: cfg.ArchiveKeep, MaxBytes: uint64(cfg.ArchiveMaxBytes), By: creds.EngineName}
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
		tools, err := toolfile.Load(cfg.Tools)
		if err != nil {
			return err
		}
		to.Tools = tools
	}
	return nil
}

// embeddedDurability returns the durability of an embedded server that a command starts for itself.
func (cfg *config) embeddedDurability(absent bus.Durability) (bus.Durability, error) {
	d := cmp.Or(bus.Durability(cfg.Durability), absent)
	if d != bus.DurabilityFsynced && d != bus.DurabilityCached {
		return "", usagef("--durability is %q, use fsynced or cached", d)
	}
	return d, nil
}

// checkDurability refuses an unknown durability and impossible replicas. The engine later compares the stated
// durability of --nats with the stream.
func checkDurability(cfg *node.Config) error {
	if bus.CheckReplicas(cfg.Replicas) != nil {
		return usagef("--replicas is %d, use 1, 3 or 5", cfg.Replicas)
	}
	switch d := cfg.Durability; {
	case cfg.Replicas > 0 && cfg.NATS == "":
		return usagef("--replicas applies only to the cluster of --nats: an embedded server has one replica")
	case d == bus.DurabilityQuorum && cfg.Replicas == 1:
		return usagef("--durability quorum needs 3 replicas: leave out --replicas, or state fsynced or cached")
	case cfg.SystemCreds != "" && cfg.NATS == "":
		return usagef("--nats-system-creds applies only to the server of --nats; for the embedded server use --durability")
	case cfg.NATS == "" && d == "":
		cfg.Durability = bus.DurabilityFsynced
	case d == "", d == bus.DurabilityFsynced, d == bus.DurabilityCached, d == bus.DurabilityQuorum && cfg.NATS != "":
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
