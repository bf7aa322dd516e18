package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// serveConfig checks what was said.
func serveConfig(env *environment, s serving) (node.Config, error) {
	cfg := node.Config{
		Dir: node.Dir(env.at.dir()), Space: env.at.spaceID(), Listen: s.listen, NATS: env.at.nats, Creds: env.at.creds,
		CredsDir: s.credsDir, Reopen: s.insecure, Durability: bus.Durability(s.durability), Keys: s.keys, Anchor: s.anchor, Policy: s.policy, PolicyBucket: s.bucket, Directory: s.people, DirectoryBucket: s.peopleBucket, Shadow: s.shadow, Version: buildInfo().Version, Log: env.log,
	}
	cfg.Cert, cfg.Key, cfg.CA, cfg.PlainText = s.cert, s.certKey, env.at.ca, env.at.plain
	if err := checkTLS(cfg); err != nil {
		return cfg, err
	}
	if cfg.Dir == "" {
		return cfg, usagef("no data folder is known: name one with --data")
	}
	cfg.SystemCreds = s.systemCreds
	if err := checkDurability(&cfg); err != nil {
		return cfg, err
	}
	if err := findCreds(&cfg, s.insecure); err != nil {
		return cfg, err
	}
	if cfg.CredsDir != "" && cfg.Cert == "" && beyondLoopback(cfg) && !cfg.PlainText {
		return cfg, usagef("--listen %s is not a loopback address, and logins and calls would cross the network in plain text: give the server a certificate with --nats-cert and --nats-key, listen on 127.0.0.1, or say --nats-insecure", cfg.Listen)
	}
	if openBeyondLoopback(cfg) && !s.insecure {
		return cfg, usagef("--listen %s is not a loopback address, and without credentials the embedded server asks nobody who they are: whoever reaches it may act as anybody, approve calls included; make credentials with askance creds init, listen on 127.0.0.1, use --nats with a server that has accounts, or say --insecure", cfg.Listen)
	}
	if s.remind < 0 {
		return cfg, usagef("--remind is %s, and must not be negative", s.remind)
	}
	if s.reviewers.Validate() != nil {
		return cfg, usagef("--reviewer-per-minute, --reviewer-per-hour and --reviewer-max-open must not be negative")
	}
	if s.recent <= 0 {
		return cfg, usagef("--metrics-window is %s, and must be positive", s.recent)
	}
	if s.pace.Every <= 0 || s.pace.Records <= 0 {
		return cfg, usagef("--checkpoint-every and --checkpoint-records must be positive")
	}
	cfg.Reviewers, cfg.Pace = s.reviewers, s.pace
	cfg.Cwd, cfg.WorkingDirs, cfg.Remind = s.cwd, s.dirs, s.remind
	if cfg.Cwd == "" {
		cfg.Cwd, _ = os.Getwd() // not known: then no path counts as inside
	}
	if s.mode != "" {
		mode, err := permission.ParseMode(s.mode)
		if err != nil {
			return cfg, usagef("--mode: %w", err)
		}
		cfg.Mode = mode
	}
	if s.tools != "" {
		tools, err := toolfile.Load(s.tools)
		if err != nil {
			return cfg, err
		}
		cfg.Tools = tools
	}
	return cfg, nil
}

// checkDurability refuses what no server gives. What is stated of the server of
// --nats is compared with its stream later.
func checkDurability(cfg *node.Config) error {
	switch d := cfg.Durability; {
	case cfg.SystemCreds != "" && cfg.NATS == "":
		return usagef("--nats-system-creds is for the server of --nats; the embedded one gives the durability of --durability")
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

// findCreds uses the credentials of the data folder, unless it was said
// otherwise.
func findCreds(cfg *node.Config, insecure bool) error {
	switch {
	case cfg.CredsDir != "" && insecure:
		return usagef("--insecure means to use no credentials; leave out one of --creds-dir and --insecure")
	case cfg.CredsDir != "" && cfg.NATS != "":
		return usagef("--creds-dir is for the embedded server; the one of --nats has users of its own (askance creds config prints their configuration)")
	case cfg.CredsDir == "" && cfg.NATS == "" && !insecure:
		_, err := os.Stat(cfg.Dir.Creds())
		switch {
		case err == nil:
			cfg.CredsDir = cfg.Dir.Creds()
		case !errors.Is(err, fs.ErrNotExist): // the server must not open because a folder cannot be read
			return fmt.Errorf("look for credentials: %w", err)
		}
	}
	return nil
}

// openBeyondLoopback reports whether other machines may reach the embedded
// server under any name. A name other than localhost may stand for any address.
func openBeyondLoopback(cfg node.Config) bool {
	return cfg.CredsDir == "" && beyondLoopback(cfg)
}

// beyondLoopback reports whether other machines may reach the embedded server.
func beyondLoopback(cfg node.Config) bool {
	if cfg.NATS != "" || cfg.Listen == "" {
		return false
	}
	host, _, err := net.SplitHostPort(cfg.Listen)
	return err == nil && !bus.OnLoopback(host) // what is no address is refused by the server
}

// checkTLS refuses what could not be encrypted as it was meant.
func checkTLS(cfg node.Config) error {
	switch {
	case (cfg.Cert == "") != (cfg.Key == ""):
		return usagef("--nats-cert and --nats-key go together")
	case cfg.Cert != "" && cfg.NATS != "":
		return usagef("--nats-cert is for the embedded server; the one of --nats has a certificate of its own")
	case cfg.CA != "" && cfg.NATS == "":
		return usagef("--nats-ca is for the server of --nats; the embedded one gets its certificate with --nats-cert")
	}
	return nil
}

// recordRun keeps what an engine runs with in its data folder.
func recordRun(cfg node.Config, policy []string, tools string) error {
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("record the settings of this run: %w", err)
	}
	values := map[string][]string{"space": {string(cfg.Space)}}
	if cfg.NATS == "" {
		values["durability"] = []string{string(cfg.Durability)}
	}
	if cfg.PolicyBucket {
		values["policy_bucket"] = []string{"true"}
	}
	if cfg.DirectoryBucket {
		values["directory_bucket"] = []string{"true"}
	}
	for key, n := range limitSettings(&cfg.Reviewers) {
		if *n > 0 {
			values[key] = []string{strconv.Itoa(*n)}
		}
	}
	if cfg.Mode != "" {
		values["mode"] = []string{string(cfg.Mode)}
	}
	for key, paths := range map[string][]string{"policy": policy, "tools": {tools}, "directory": cfg.Directory, "keys": {cfg.Keys}, "anchor_file": {cfg.Anchor}, "cwd": {cfg.Cwd}, "working_dir": cfg.WorkingDirs} {
		for _, p := range paths {
			if p == "" {
				continue
			}
			values[key] = append(values[key], inFolder(here, key, p))
		}
	}
	return writeLastRun(string(cfg.Dir), values)
}

// limitSettings are the limits of reviewers by their settings.
func limitSettings(l *message.ReviewerLimits) map[string]*int {
	return map[string]*int{"reviewer_per_minute": &l.PerMinute, "reviewer_per_hour": &l.PerHour, "reviewer_max_open": &l.MaxOpen}
}
