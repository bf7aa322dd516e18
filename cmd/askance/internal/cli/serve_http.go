package cli

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/message"
)

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 16 << 10

// serveHTTP is what askance serve is told about the gateway.
type serveHTTP struct {
	web.Config
	secretFile string
	hooks      string   // file of webhooks
	roles      []string // of groups at the provider
	peerRoles  []string // of users at the Unix socket
}

// off reports whether there is to be no gateway.
func (s serveHTTP) off() bool { return s.Address == web.Off && s.Socket.Path == "" }

// serveHTTPFlags adds the flags of the gateway.
func serveHTTPFlags(c *cobra.Command, s *serving) {
	f, w := c.Flags(), &s.web
	f.StringVar(&w.Address, "http", "", "address of the web inbox and the HTTP interfaces; off opens no port (default "+web.DefaultAddress+", or a free port if that is taken)")
	f.StringVar(&w.Socket.Path, "http-socket", "", "Unix socket of the web inbox and the HTTP interfaces: the kernel names the user who connects, and only you can open it; --http then needs tokens or a provider")
	f.StringVar(&w.Socket.Group, "http-socket-group", "", "group that may open the Unix socket too")
	f.StringArrayVar(&w.peerRoles, "http-socket-role", nil, "role of another user at the Unix socket, as USER=ROLE with a name or a uid; * is every user who may open it; may be repeated")
	f.StringVar(&w.Cert, "http-cert", "", "file with the certificate chain for TLS")
	f.StringVar(&w.Key, "http-key", "", "file with its private key")
	f.BoolVar(&s.demoAgent, "demo-agent", false, "let frontends talk to an agent without a model, named "+web.DemoAgent+", that does what the lines of a message say: \"call TOOL {…}\", \"say TEXT\"; it calls any tool that a message names")
	f.StringVar(&w.AgentID, "agent-id", "", "names the replies that agents of this process are making, so that its successor goes on with them (default gateway; with --nats the host's name)")
	f.BoolVar(&w.Insecure, "http-insecure", false, "let --http listen beyond loopback without TLS: for a proxy in front that has it")
	f.StringVar(&w.Tokens, "http-tokens", "", "token file: who may use HTTP (default tokens.json in the data folder, if it is there)")
	f.StringVar(&w.Public, "http-url", "", "URL by which browsers reach the gateway, if a proxy is in front")
	f.StringArrayVar(&w.Origins, "http-origin", nil, "origin of pages elsewhere that may use the gateway, as https://app.example; needs tokens or a provider; may be repeated")
	f.StringVar(&s.web.hooks, "webhooks", "", "file that says which programs elsewhere are told of questions and outcomes")
	f.DurationVar(&w.Session, "http-session", 12*time.Hour, "how long a browser stays logged in")
	f.StringVar(&w.OIDC.Issuer, "oidc-issuer", "", "OpenID Connect provider at which people log in, and whose JWTs programs may send")
	f.StringVar(&w.OIDC.ClientID, "oidc-client", "", "client id at the provider")
	f.StringVar(&w.secretFile, "oidc-secret-file", "", "file with the client's secret, if it has one")
	f.StringVar(&w.OIDC.Audience, "oidc-audience", "", "audience that JWTs of programs must name (default the client id)")
	f.StringVar(&w.OIDC.NameClaim, "oidc-name-claim", "email", "claim that names people; email counts only if it is verified")
	f.StringVar(&w.OIDC.GroupsClaim, "oidc-groups-claim", "groups", "claim with the groups of people")
	f.StringArrayVar(&w.roles, "oidc-role", nil, "role of a group at the provider, as GROUP=ROLE; * is everybody there; may be repeated")
}

// webConfig is what the gateway is told.
func webConfig(env *environment, dir node.Dir, s serving) (web.Config, error) {
	cfg := s.web.Config
	cfg.User, cfg.Log, cfg.Version = userName(), env.log, buildInfo().Version
	if cfg.AgentID == "" && env.at.nats != "" {
		cfg.AgentID, _ = os.Hostname() // without one it is the default
	}
	cfg.DefaultTokens, cfg.HasLogins = dir.Tokens(), hasLogins(env, dir, s)
	if cfg.Tokens == "" {
		// One that cannot be looked at must not be taken for none.
		if _, err := os.Stat(dir.Tokens()); !errors.Is(err, fs.ErrNotExist) {
			cfg.Tokens = dir.Tokens()
		}
	}
	if cfg.Session <= 0 {
		return cfg, usagef("--http-session is %s, and must be positive", cfg.Session)
	}
	var err error
	if cfg.Socket.Roles, err = rolesOf("--http-socket-role", "USER", s.web.peerRoles); err != nil {
		return cfg, err
	}
	if s.web.hooks != "" {
		hooks, err := hookfile.Load(s.web.hooks)
		if err != nil {
			return cfg, err
		}
		cfg.Webhooks = hooks
	}
	if cfg.OIDC.Issuer == "" {
		return cfg, nil
	}
	if cfg.OIDC.ClientID == "" || len(s.web.roles) == 0 {
		return cfg, usagef("--oidc-issuer needs --oidc-client, and an --oidc-role for at least one group")
	}
	if cfg.OIDC.Roles, err = rolesOf("--oidc-role", "GROUP", s.web.roles); err != nil {
		return cfg, err
	}
	if s.web.secretFile != "" {
		b, err := textfile.Read("--oidc-secret-file", s.web.secretFile, maxSecret)
		if err != nil {
			return cfg, err
		}
		cfg.OIDC.Secret = strings.TrimSpace(string(b))
	}
	return cfg, nil
}

// rolesOf reads the pairs of a flag that gives roles.
func rolesOf(flag, who string, pairs []string) (map[string][]message.Role, error) {
	all := map[string][]message.Role{}
	for _, pair := range pairs {
		name, role, ok := cutLast(pair, "=")
		if !ok || name == "" {
			return nil, usagef("%s %q: write %s=ROLE", flag, pair, who)
		}
		all[name] = append(all[name], message.Role(role))
	}
	return all, nil
}

// hasLogins reports whether NATS logins exist for the space: what NATS asks of
// people, HTTP must ask too. Logins that cannot be looked at exist.
func hasLogins(env *environment, dir node.Dir, s serving) func() bool {
	if s.credsDir != "" || env.at.creds != "" {
		return func() bool { return true }
	}
	return func() bool {
		_, err := os.Lstat(dir.Creds())
		return !errors.Is(err, fs.ErrNotExist)
	}
}

// cutLast is strings.Cut at the last separator: groups may have one in them.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// checkHTTP refuses a gateway that would let strangers in.
func checkHTTP(env *environment, dir node.Dir, s serving) error {
	if s.web.off() {
		if s.web.hooks != "" {
			return usagef("--webhooks needs the gateway, which --http off leaves out")
		}
		if s.web.Socket.Group != "" || len(s.web.peerRoles) > 0 {
			return usagef("%s", web.NeedsSocket)
		}
		return nil
	}
	if s.web.Address == web.Off && s.web.Public == "" && (s.web.hooks != "" || s.web.OIDC.Issuer != "") {
		return usagef("--webhooks and --oidc-issuer with --http off need --http-url: browsers open their links")
	}
	cfg, err := webConfig(env, dir, s)
	if err == nil {
		err = cfg.Check()
	}
	if bad, ok := errors.AsType[*web.Error](err); ok {
		return usagef("%s", bad.What)
	}
	return err
}

// openHTTP starts the gateway; nil if there is to be none.
func openHTTP(ctx context.Context, env *environment, n *node.Node, dir node.Dir, s serving, d *doors) (*web.Web, error) {
	if s.web.off() {
		return nil, nil //nolint:nilnil // documented: none
	}
	cfg, err := webConfig(env, dir, s)
	if err != nil {
		return nil, err
	}
	cfg.Listener, cfg.Socket.Listener, cfg.Space, cfg.LinkKey = d.http, d.socket, n.Gateway(), n.LinkKey()
	cfg.Outbox = func(ctx context.Context) (web.Outbox, error) { return n.Outbox(ctx) }
	if s.demoAgent {
		cfg.Agents = append(cfg.Agents, web.Demo(cfg.Space.Tools))
	}
	return web.Serve(ctx, cfg)
}

// doors are the addresses that askance serve binds beside that of its server:
// after the files are checked, and before the journal is touched, so that one
// that is taken is told while nothing has happened.
type doors struct{ http, socket, metrics net.Listener }

func openListeners(ctx context.Context, env *environment, dir node.Dir, s serving, d *doors) (err error) {
	if s.metrics != "" {
		if d.metrics, err = metrics.Listen(ctx, s.metrics); err != nil {
			return err
		}
	}
	if s.web.off() {
		return nil
	}
	cfg, err := webConfig(env, dir, s)
	if err != nil {
		return err
	}
	if cfg.Address != web.Off {
		if d.http, err = web.Listen(ctx, cfg); err != nil {
			return err
		}
	}
	if cfg.Socket.Path != "" {
		d.socket, err = web.ListenSocket(ctx, cfg)
	}
	return err
}

// close closes what was opened. Whoever serves at it has done so by then, if it
// came to that.
func (d *doors) close() {
	for _, l := range []net.Listener{d.http, d.socket, d.metrics} {
		if l != nil {
			_ = l.Close() // perhaps once more
		}
	}
}
