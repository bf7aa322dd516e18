package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/spelling"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
)

// greetTimeout bounds how long a command waits for an engine to respond at all.
const greetTimeout = 2 * time.Second

// link is one principal's access to the calls.
type link struct {
	engine.Client
	conn  *nats.Conn                                   // nil for a folder
	roles []toolcall.Role                              // of the token over HTTP
	live  bool                                         // an engine runs, so more events can come
	audit auditor                                      // for auditors
	exam  func(context.Context) (*journal.Exam, error) // for a folder that an auditor reads
	// verified records what was verified in that folder.
	verified *journal.Verified
	close    func() error
}

// Close ends the link. Its error can be ignored: what the engine acknowledged is durable.
func (l *link) Close() { _ = l.close() }

// connect connects to the server of --server, of --nats or of the data folder. Without a
// server, auditors read the folder, and others act on it only with --offline.
func (env *environment) connect(ctx context.Context, role toolcall.Role) (*link, error) {
	d := door{insecure: env.cfg.PlainText, plain: "nats-insecure", role: role}
	return d.connect(ctx, env, role)
}

func (d *door) connect(ctx context.Context, env *environment, role toolcall.Role) (*link, error) {
	by := toolcall.Principal{Role: role, Name: env.cfg.As}
	if env.cfg.Server != "" {
		return d.dial(ctx, env)
	}
	if env.cfg.NATS != "" {
		return env.dial(ctx, env.cfg.NATS, by)
	}
	dir := node.Dir(env.cfg.dir())
	url, err := dir.URL()
	if err != nil {
		return nil, err
	}
	if url != "" {
		var l *link
		if l, err = env.dial(ctx, url, by); !errors.Is(err, message.ErrUnavailable) || ctx.Err() != nil {
			return l, err
		}
	}
	if err := dir.Exists(); err != nil {
		return nil, err
	}
	if role != toolcall.RoleAuditor && !env.offline {
		hint := startHint(string(dir))
		if role != toolcall.RoleRuntime {
			hint += ", or pass --offline to act on the folder with the policy of its last run"
		}
		if space := env.cfg.spaceID(); url != "" && space != "default" {
			hint = "check --space: perhaps the server has no space " + string(space)
		}
		return nil, noServer(dir, err, hint)
	}
	// A killed server leaves its endpoint file. If the server still runs, the store
	// is locked and the first error counts.
	l, ferr := env.openFolder(ctx, dir, by)
	if err != nil && errors.Is(ferr, embed.ErrStoreLocked) {
		return nil, err
	}
	if ferr == nil && !env.json {
		env.notef("%s\n", env.err.Dim("No server runs on "+term.SafeLine(string(dir))+": the command uses its journal directly."))
	}
	return l, ferr
}

// isRemote reports whether the command talks to a server other than that of the data folder.
func isRemote(env *environment) bool { return env.cfg.NATS != "" || env.cfg.Server != "" }

// dial reaches a server over HTTP. Its token says who acts, in which roles and in which space.
// Without a token, the host names the space.
func (d *door) dial(ctx context.Context, env *environment) (*link, error) {
	if err := d.check(env); err != nil {
		return nil, err
	}
	client, space := remote.New(d.server, d.tokenIfAny), d.namedSpace(env)
	client.Host = d.host
	if token, err := d.tokenIfAny(); err == nil && token == "" && space != "" && d.host == "" && isHere(d.server) {
		client.Host = auth.SpaceHost(space)
	}
	who, err := d.whoami(ctx, client, space)
	if err != nil {
		return nil, err
	}
	env.cfg.As, env.cfg.Space = who.Name, string(who.Space)
	return &link{Client: client, roles: who.Roles, live: true, audit: noAudit{}, close: func() error { return nil }}, nil
}

// namedSpace returns the space that the user named for this server, or "".
func (d *door) namedSpace(env *environment) toolcall.SpaceID {
	if name, _, ok := strings.Cut(strings.ToLower(d.host), auth.SpaceHost("")); ok {
		return toolcall.SpaceID(name)
	}
	if from := env.found.source("space"); from == byNone || from > max(byVariable, env.found.source("server")) { // a file says it of another server
		return ""
	}
	return env.cfg.spaceID()
}

// whoami returns the identity of the token, and refuses one of another space than the named one.
func (d *door) whoami(ctx context.Context, client *remote.Client, space toolcall.SpaceID) (remote.Identity, error) {
	who, err := client.Whoami(ctx)
	if err != nil {
		return who, d.adviseToken(err)
	}
	if space != "" && space != who.Space {
		return who, usagef("--space is %q, but the login of %s at this server is valid only for the space %q; leave out --space, or use a token for %[1]q", space, who.Name, who.Space)
	}
	return who, nil
}

// isHere reports whether a server is on this machine.
func isHere(server string) bool {
	u, err := url.Parse(server)
	return err == nil && (u.Scheme == "unix" || bus.OnLoopback(u.Hostname()))
}

// noAudit is the journal of a server over HTTP, which does not serve stored records.
type noAudit struct{}

var errNoAudit = &message.Error{Code: message.CodeInvalid, Op: "audit", What: "the stored records of the journal cannot be read over HTTP", Hint: "use --nats with the login of an auditor, or --data on the machine of the server"}

func (noAudit) Records(context.Context, bus.RecordsRequest) (bus.RecordsReply, error) {
	return bus.RecordsReply{}, errNoAudit
}

func (noAudit) Checkpoint(context.Context) (*proof.Checkpoint, error) { return nil, errNoAudit }

// startHint says how to start the server of a data folder.
func startHint(dir string) string {
	return "start it with askance serve --data " + spelling.ShellWord(dir)
}

// noServer returns the error for a data folder that no server serves.
func noServer(dir node.Dir, cause error, hint string) error {
	if me, ok := errors.AsType[*message.Error](cause); ok {
		cause = errors.New(me.What) // one piece of advice is enough
	}
	e := &message.Error{Code: message.CodeUnavailable, Op: "connect", What: "no server runs on " + string(dir), Hint: hint, Err: cause}
	if cause == nil && embed.InUse(dir.Store()) {
		e.What, e.Hint = "the program that uses "+string(dir)+" accepts no commands through the folder", "a Go program accepts them if it is opened with askance.Listen; if it is a server that starts, try again"
	}
	return e
}

// bindDeciding adds the flags of a command that changes calls.
func bindDeciding(env *environment, c *cobra.Command) {
	env.cfg.bindClient(c)
	c.Flags().BoolVar(&env.offline, "offline", false, "without a server: act on the data folder, with the policy and tools of its last run")
}

// connectOptions says who connects to a server, and how. The server of a data folder is
// recognized by the certificate that it left there.
func (env *environment) connectOptions(principal, name, url, login string) bus.ConnectOptions {
	o := bus.ConnectOptions{Principal: principal, Name: name, CredsFile: login, CAFile: env.cfg.CA, PlainText: env.cfg.PlainText, Logger: env.log}
	if env.cfg.NATS == "" && env.cfg.CA == "" && strings.HasPrefix(url, "tls://") {
		o.ServerCert = node.Dir(env.cfg.dir()).Certificate()
	}
	return o
}

func connectNATS(ctx context.Context, env *environment, url string, by toolcall.Principal) (*nats.Conn, error) {
	login := env.loginFor(by)
	nc, err := bus.Connect(ctx, url, env.connectOptions(by.Name, "askance "+string(by.Role)+" "+by.Name, url, login))
	return nc, adviseLogin(env, err, login, by)
}

// dial connects to an engine over NATS and makes sure that one answers.
func (env *environment) dial(ctx context.Context, url string, by toolcall.Principal) (*link, error) {
	nc, err := connectNATS(ctx, env, url, by)
	if err != nil {
		return nil, err
	}
	nc.SetErrorHandler(nil) // what NATS refuses is the error of the command
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
	return &link{Client: client, conn: nc, live: true, audit: client, close: func() error { nc.Close(); return nil }}, nil
}

// openFolder works on a data folder without a running server. Auditors read the journal. For other
// roles it starts an engine for this one request, with the policy and the tools of the last run.
func (env *environment) openFolder(ctx context.Context, dir node.Dir, by toolcall.Principal) (*link, error) {
	if err := dir.Exists(); err != nil {
		return nil, err
	}
	last, err := readLastRun(string(dir.Files(env.cfg.spaceID())))
	if err != nil {
		return nil, err
	}
	if by.Role == toolcall.RoleAuditor {
		var known config
		if last != nil {
			known = *last
		}
		r, err := node.OpenReader(ctx, dir, known.Keys, env.cfg.spaceID(), by.Name)
		if err != nil {
			return nil, inUse(err, silentServer)
		}
		exam := func(ctx context.Context) (*journal.Exam, error) { return r.Compare(ctx, known.Anchor) }
		return &link{Client: r, audit: r.Ledger(), exam: exam, verified: r.Verified(), close: r.Close}, nil
	}
	cfg, err := lastRunConfig(env, dir, last)
	if err != nil {
		return nil, err
	}
	n, err := node.Start(ctx, cfg)
	if err != nil {
		return nil, inUse(err, silentServer)
	}
	return &link{Client: n.Engine().As(by), close: n.Close}, nil
}

// lastRunConfig returns the configuration of the engine that last ran on the folder. Without
// its policy and tools nothing can be decided.
func lastRunConfig(env *environment, dir node.Dir, last *config) (node.Config, error) {
	if last == nil {
		return node.Config{}, &message.Error{Code: message.CodeUnavailable, Op: "open data folder", What: fmt.Sprintf("no engine runs on %s, and the folder does not record the policy and tools of an earlier run", dir), Hint: "start askance serve"}
	}
	cfg := node.Config{Dir: dir, Offline: true, Version: buildInfo().Version, Log: env.log, Durability: journal.Durability(last.Durability)}
	err := last.addSpace(&cfg)
	cfg.Space, cfg.Cwd = env.cfg.spaceID(), last.Cwd
	cfg.Engine = nil // the limits of open calls are not recorded
	return cfg, err
}

// adviseLogin explains how to get a login, if a server refused a command without one.
func adviseLogin(env *environment, err error, login string, by toolcall.Principal) error {
	me, ok := errors.AsType[*message.Error](err)
	if !ok || me.Code != message.CodeForbidden || login != "" {
		return err
	}
	role := by.Role
	if role == toolcall.RoleAuditor {
		role = toolcall.RoleApprover
	}
	add := fmt.Sprintf("askance creds add %s %s", role, spelling.ShellWord(by.Name))
	if role == toolcall.RoleWorker {
		add += " --tool TOOL"
	}
	if dir := env.cfg.dir(); env.cfg.NATS == "" && dir != "" {
		return withHint(me, fmt.Sprintf("the server requires a login, and %s has none for %s: create it with %s --data %s, or pass another one with --creds FILE", dir, by.Name, add, spelling.ShellWord(dir)))
	}
	return withHint(me, "pass your login with --creds FILE; the owner of the server creates it with "+add)
}

// inUse replaces the advice of an error about a folder that another process uses.
func inUse(err error, hint string) error {
	if me, ok := errors.AsType[*message.Error](err); ok && errors.Is(err, embed.ErrStoreLocked) {
		return withHint(me, hint)
	}
	return err
}

// withHint returns a copy of an error, which others may hold, with another hint.
func withHint(e *message.Error, hint string) error {
	own := *e
	own.Hint = hint
	return &own
}

const silentServer = "if an askance server holds it, that server did not respond; if another askance command holds it, try again"

// applyLogin takes name and space from a credentials file, which is valid only for
// these. A file written by another tool names neither.
func (env *environment) applyLogin(c *cobra.Command) error {
	as, space := c.Flags().Lookup("as"), c.Flags().Lookup("space")
	if env.cfg.Creds == "" || c.Flags().Lookup("creds") == nil {
		return nil
	}
	u, err := creds.ReadLogin(env.cfg.Creds)
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
		return usagef("--as is %q, but %s is the login of %q, which is valid only for that name; leave out --as, or use the login of %[1]q", env.cfg.As, env.cfg.Creds, u.Name)
	case u.Space != "" && space != nil && env.cfg.Space != string(u.Space):
		return usagef("--space is %q, but the login %s is valid only for the space %q; leave out --space, or use a login for %[1]q", env.cfg.Space, env.cfg.Creds, u.Space)
	}
	return nil
}

// engineLogin returns the credentials file of engines: that of --creds, or the one in the data
// folder if the server is the folder's.
func engineLogin(env *environment) string {
	own := creds.EngineLogin(node.Dir(env.cfg.dir()).Creds())
	if _, err := os.Stat(own); env.cfg.Creds != "" || env.cfg.NATS != "" || err != nil {
		return env.cfg.Creds
	}
	return own
}

// loginFor returns the credentials file for acting in a role: that of --creds, or one
// in the data folder. An auditor can use any login of the same person.
func (env *environment) loginFor(by toolcall.Principal) string {
	if env.cfg.Creds != "" || env.cfg.NATS != "" {
		return env.cfg.Creds
	}
	roles := []toolcall.Role{by.Role}
	if by.Role == toolcall.RoleAuditor {
		roles = append(roles, toolcall.RoleApprover, toolcall.RoleOperator)
	}
	dir := node.Dir(env.cfg.dir()).Creds()
	files := make([]string, len(roles))
	for i, role := range roles {
		files[i] = creds.LoginFile(dir, creds.User{Space: env.cfg.spaceID(), Role: role, Name: by.Name})
	}
	found := slices.IndexFunc(files, func(path string) bool { _, err := os.Stat(filepath.Clean(path)); return err == nil })
	if found < 0 {
		return ""
	}
	return files[found]
}
