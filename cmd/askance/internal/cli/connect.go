package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/permission"
)

// greetTimeout is how long a command waits for an engine to answer at all.
const greetTimeout = 2 * time.Second

// link is a way to the calls, for one principal.
type link struct {
	engine.Client
	live  bool                                     // an engine is at work, so that more may come
	audit auditor                                  // of auditors
	exam  func(context.Context) (*bus.Exam, error) // of a folder that an auditor reads
	close func() error
}

// Close ends the link. Nothing is lost by an error here: what was answered is
// durable.
func (l *link) Close() { _ = l.close() }

// connect finds the calls: at the NATS server that was named, at the server
// that runs on the data folder, or, if none does, in the data folder itself.
func (env *environment) connect(ctx context.Context, role message.Role) (*link, error) {
	by := message.Principal{Role: role, Name: env.at.as}
	if env.at.nats != "" {
		return env.dial(ctx, env.at.nats, by)
	}
	dir := node.Dir(env.at.dir())
	url, err := dir.URL()
	if err != nil {
		return nil, err
	}
	if url == "" {
		return env.openFolder(ctx, dir, by)
	}
	l, err := env.dial(ctx, url, by)
	if !errors.Is(err, message.ErrUnavailable) || ctx.Err() != nil {
		return l, err
	}
	// The server may have been killed, and its endpoint file left behind. If it
	// lives after all, the store is locked and we are none the wiser.
	l, ferr := env.openFolder(ctx, dir, by)
	if errors.Is(ferr, bus.ErrStoreLocked) {
		return nil, err
	}
	return l, ferr
}

// connectOptions says who connects to a server, and how. The server of a data folder is known
// by the certificate that it left there.
func (env *environment) connectOptions(principal, name, url, login string) bus.ConnectOptions {
	o := bus.ConnectOptions{Principal: principal, Name: name, CredsFile: login, CAFile: env.at.ca, PlainText: env.at.plain, Logger: env.log}
	if env.at.nats == "" && env.at.ca == "" && strings.HasPrefix(url, "tls://") {
		o.ServerCert = node.Dir(env.at.dir()).Certificate()
	}
	return o
}

// dial connects to an engine over NATS and makes sure that one answers.
func (env *environment) dial(ctx context.Context, url string, by message.Principal) (*link, error) {
	nc, err := bus.Connect(ctx, url, env.connectOptions(by.Name, "askance "+string(by.Role)+" "+by.Name, url, env.loginFor(by)))
	if err != nil {
		return nil, err
	}
	client, err := bus.NewClient(nc, env.at.spaceID(), by)
	if err == nil {
		greet, cancel := context.WithTimeout(ctx, greetTimeout)
		defer cancel()
		_, err = client.Info(greet)
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &link{Client: client, live: true, audit: client, close: func() error { nc.Close(); return nil }}, nil
}

// openFolder works on a data folder in which no server runs: readers read, and
// for everybody else an engine is started for this one request, with the
// policy and the tools of the last run.
func (env *environment) openFolder(ctx context.Context, dir node.Dir, by message.Principal) (*link, error) {
	if err := dir.Exists(); err != nil {
		return nil, err
	}
	last, err := readLastRun(string(dir))
	if err != nil {
		return nil, err
	}
	if by.Role == message.RoleAuditor {
		r, err := node.OpenReader(ctx, dir, one(last["keys"]), env.at.spaceID(), by.Name)
		if err != nil {
			return nil, inUse(err)
		}
		exam := func(ctx context.Context) (*bus.Exam, error) { return r.Examine(ctx, one(last["anchor_file"])) }
		return &link{Client: r, audit: r.Ledger(), exam: exam, close: r.Close}, nil
	}
	cfg, err := lastRunConfig(env, dir, last)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return nil, inUse(err)
	}
	return &link{Client: n.Engine().As(by), close: n.Close}, nil
}

// lastRunConfig is an engine like the one that last ran on the folder. Without
// its policy and tools nothing can be decided here.
func lastRunConfig(env *environment, dir node.Dir, last map[string][]string) (node.Config, error) {
	cfg := node.Config{
		Dir: dir, Space: env.at.spaceID(), Offline: true, Version: buildInfo().Version, Log: env.log,
		Policy: last["policy"], PolicyBucket: one(last["policy_bucket"]) == "true", Durability: bus.Durability(one(last["durability"])), Mode: permission.Mode(one(last["mode"])), Keys: one(last["keys"]), Anchor: one(last["anchor_file"]),
		Directory: last["directory"], DirectoryBucket: one(last["directory_bucket"]) == "true",
		Cwd: one(last["cwd"]), WorkingDirs: last["working_dir"],
	}
	if last == nil {
		return cfg, &message.Error{Code: message.CodeUnavailable, Op: "open data folder", What: fmt.Sprintf("no engine runs on %s, and with which policy and tools the last one ran is not recorded there", dir), Hint: "start askance serve"}
	}
	var err error
	if cfg.Reviewers, err = lastLimits(last); err != nil {
		return cfg, err
	}
	if path := one(last["tools"]); path != "" {
		cfg.Tools, err = toolfile.Load(path)
	}
	return cfg, err
}

// lastLimits are the limits of reviewers of the last run. What cannot be read
// is no absence of limits.
func lastLimits(last map[string][]string) (l message.ReviewerLimits, err error) {
	for key, n := range limitSettings(&l) {
		if text := one(last[key]); text != "" || len(last[key]) > 0 {
			if *n, err = strconv.Atoi(text); err != nil || *n < 0 {
				return l, usagef("%s: %s is no number", lastRun, key)
			}
		}
	}
	return l, nil
}

// one is the only value of a setting, or "".
func one(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return ""
}

// inUse says more about a locked store.
func inUse(err error) error {
	if !errors.Is(err, bus.ErrStoreLocked) {
		return err
	}
	return fmt.Errorf("%w; if that is a server, it could not be reached; if it is another askance command, try again", err)
}

// applyLogin takes name and space from a credentials file, which are all that it is
// good for. A file that another tool made says neither.
func (env *environment) applyLogin(c *cobra.Command) error {
	as, space := c.Flags().Lookup("as"), c.Flags().Lookup("space")
	if env.at.creds == "" || c.Flags().Lookup("creds") == nil {
		return nil
	}
	u, err := bus.ReadLogin(env.at.creds)
	switch {
	case errors.Is(err, message.ErrInvalid):
		return nil
	case err != nil:
		return err
	}
	if as != nil && !as.Changed {
		env.at.as = u.Name
	}
	if space != nil && !space.Changed && u.Space != "" {
		env.at.space = string(u.Space)
	}
	switch {
	case as != nil && env.at.as != u.Name:
		return usagef("--as is %q, and %s is the login of %q: a login is good for its own name alone", env.at.as, env.at.creds, u.Name)
	case u.Space != "" && space != nil && env.at.space != string(u.Space):
		return usagef("--space is %q, and %s is good for the space %q alone", env.at.space, env.at.creds, u.Space)
	}
	return nil
}

// loginFor is the credentials file with which to act in a role: the one that
// was named, or one that lies in the data folder. Readers may use any of a
// person's.
func (env *environment) loginFor(by message.Principal) string {
	if env.at.creds != "" || env.at.nats != "" {
		return env.at.creds
	}
	roles := []message.Role{by.Role}
	if by.Role == message.RoleAuditor {
		roles = append(roles, message.RoleApprover, message.RoleOperator)
	}
	dir := node.Dir(env.at.dir()).Creds()
	files := make([]string, len(roles))
	for i, role := range roles {
		files[i] = bus.LoginFile(dir, bus.CredUser{Space: env.at.spaceID(), Role: role, Name: by.Name})
	}
	found := slices.IndexFunc(files, func(path string) bool { _, err := os.Stat(filepath.Clean(path)); return err == nil })
	if found < 0 {
		return ""
	}
	return files[found]
}
