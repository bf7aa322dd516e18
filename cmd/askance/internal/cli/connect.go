package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	by := message.Principal{Role: role, Name: env.cfg.As}
	if env.cfg.NATS != "" {
		return env.dial(ctx, env.cfg.NATS, by)
	}
	dir := node.Dir(env.cfg.dir())
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
	o := bus.ConnectOptions{Principal: principal, Name: name, CredsFile: login, CAFile: env.cfg.CA, PlainText: env.cfg.PlainText, Logger: env.log}
	if env.cfg.NATS == "" && env.cfg.CA == "" && strings.HasPrefix(url, "tls://") {
		o.ServerCert = node.Dir(env.cfg.dir()).Certificate()
	}
	return o
}

// dial connects to an engine over NATS and makes sure that one answers.
func (env *environment) dial(ctx context.Context, url string, by message.Principal) (*link, error) {
	nc, err := bus.Connect(ctx, url, env.connectOptions(by.Name, "askance "+string(by.Role)+" "+by.Name, url, env.loginFor(by)))
	if err != nil {
		return nil, err
	}
	client, err := bus.NewClient(nc, env.cfg.spaceID(), by)
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
		var known config
		if last != nil {
			known = *last
		}
		r, err := node.OpenReader(ctx, dir, known.Keys, env.cfg.spaceID(), by.Name)
		if err != nil {
			return nil, inUse(err)
		}
		exam := func(ctx context.Context) (*bus.Exam, error) { return r.Examine(ctx, known.Anchor) }
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
func lastRunConfig(env *environment, dir node.Dir, last *config) (node.Config, error) {
	cfg := node.Config{Dir: dir, Space: env.cfg.spaceID(), Offline: true, Version: buildInfo().Version, Log: env.log}
	if last == nil {
		return cfg, &message.Error{Code: message.CodeUnavailable, Op: "open data folder", What: fmt.Sprintf("no engine runs on %s, and with which policy and tools the last one ran is not recorded there", dir), Hint: "start askance serve"}
	}
	cfg.Policy, cfg.PolicyBucket, cfg.Mode = last.Policy, last.PolicyBucket, permission.Mode(last.Mode)
	cfg.Directory, cfg.DirectoryBucket, cfg.Reviewers = last.Directory, last.DirectoryBucket, last.reviewerLimits()
	cfg.Durability, cfg.Keys, cfg.Anchor = bus.Durability(last.Durability), last.Keys, last.Anchor
	cfg.Cwd, cfg.WorkingDirs = last.Cwd, last.WorkingDirs
	if last.Tools == "" {
		return cfg, nil
	}
	var err error
	cfg.Tools, err = toolfile.Load(last.Tools)
	return cfg, err
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
	if env.cfg.Creds == "" || c.Flags().Lookup("creds") == nil {
		return nil
	}
	u, err := bus.ReadLogin(env.cfg.Creds)
	switch {
	case errors.Is(err, message.ErrInvalid):
		return nil
	case err != nil:
		return err
	}
	if as != nil && !as.Changed {
		env.cfg.As = u.Name
	}
	if space != nil && !space.Changed && u.Space != "" {
		env.cfg.Space = string(u.Space)
	}
	switch {
	case as != nil && env.cfg.As != u.Name:
		return usagef("--as is %q, and %s is the login of %q: a login is good for its own name alone", env.cfg.As, env.cfg.Creds, u.Name)
	case u.Space != "" && space != nil && env.cfg.Space != string(u.Space):
		return usagef("--space is %q, and %s is good for the space %q alone", env.cfg.Space, env.cfg.Creds, u.Space)
	}
	return nil
}

// loginFor is the credentials file with which to act in a role: the one that
// was named, or one that lies in the data folder. Readers may use any of a
// person's.
func (env *environment) loginFor(by message.Principal) string {
	if env.cfg.Creds != "" || env.cfg.NATS != "" {
		return env.cfg.Creds
	}
	roles := []message.Role{by.Role}
	if by.Role == message.RoleAuditor {
		roles = append(roles, message.RoleApprover, message.RoleOperator)
	}
	dir := node.Dir(env.cfg.dir()).Creds()
	files := make([]string, len(roles))
	for i, role := range roles {
		files[i] = bus.LoginFile(dir, bus.CredUser{Space: env.cfg.spaceID(), Role: role, Name: by.Name})
	}
	found := slices.IndexFunc(files, func(path string) bool { _, err := os.Stat(filepath.Clean(path)); return err == nil })
	if found < 0 {
		return ""
	}
	return files[found]
}
