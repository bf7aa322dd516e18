package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/toolcall"
)

const maxSecret = 16 << 10

func (cfg *config) withoutHTTP() bool { return cfg.HTTP == web.Off && cfg.HTTPSocket == "" }

func webConfig(env *environment, dir node.Dir, s serving) (web.Config, error) {
	set := &env.cfg
	cfg := web.Config{
		Address: set.HTTP, Cert: set.HTTPCert, Key: set.HTTPKey, Insecure: set.HTTPInsecure, Public: set.HTTPURL, Origins: set.HTTPOrigins, Session: set.HTTPSession,
		Tokens: set.HTTPTokens, DefaultTokens: dir.Tokens(), HasLogins: hasLogins(env, dir), TokenCommand: programName() + " token create NAME --role approver" + flagsGiven(env, byCurrentContext, "data", "http-tokens", "space"),
		AgentID: s.agentID, User: userName(), Log: env.log, Version: buildInfo().Version,
		Served: s.process.Served,
	}
	cfg.Socket.Path, cfg.Socket.Group = set.HTTPSocket, set.HTTPSocketGroup
	if cfg.AgentID == "" && set.NATS != "" {
		cfg.AgentID, _ = os.Hostname() // without one it is the default
	}
	if cfg.Tokens == "" {
		// A file that cannot be examined must not count as no file.
		if _, err := os.Stat(dir.Tokens()); !errors.Is(err, fs.ErrNotExist) {
			cfg.Tokens = dir.Tokens()
		}
	}
	if cfg.Session <= 0 {
		return cfg, usagef("--http-session is %s, use a positive time", cfg.Session)
	}
	var err error
	if cfg.Socket.Roles, err = rolesOf("--http-socket-role", "USER", set.HTTPSocketRoles); err != nil {
		return cfg, err
	}
	if s.webhooks != "" {
		if cfg.Webhooks, err = hookfile.Load(s.webhooks); err != nil {
			return cfg, err
		}
	}
	err = set.provider(&cfg.OIDC)
	return cfg, err
}

func (cfg *config) provider(o *auth.OIDCConfig) error {
	o.Issuer, o.ClientID, o.Audience = cfg.OIDCIssuer, cfg.OIDCClient, cfg.OIDCAudience
	o.NameClaim, o.GroupsClaim, o.Scopes = cfg.OIDCNameClaim, cfg.OIDCGroupsClaim, cfg.OIDCScopes
	claims := cmp.Or(o.NameClaim, "email") != "email" || cmp.Or(o.GroupsClaim, "groups") != "groups" // not the defaults
	if o.Issuer == "" && (claims || o.ClientID != "" || o.Audience != "" || cfg.OIDCSecretFile != "" || len(cfg.OIDCScopes)+len(cfg.OIDCRoles) > 0) {
		return usagef("--oidc-issuer is missing: the other --oidc flags describe its logins, and without it this server has none")
	}
	if o.Issuer == "" {
		return nil
	}
	if o.ClientID == "" || len(cfg.OIDCRoles) == 0 {
		return usagef("--oidc-issuer needs --oidc-client, and an --oidc-role for at least one group")
	}
	var err error
	if o.Roles, err = rolesOf("--oidc-role", "GROUP", cfg.OIDCRoles); err != nil || cfg.OIDCSecretFile == "" {
		return err
	}
	b, err := textfile.Read("--oidc-secret-file", cfg.OIDCSecretFile, maxSecret)
	o.Secret = strings.TrimSpace(string(b))
	return err
}

// rolesOf parses the NAME=ROLE pairs of a flag.
func rolesOf(flag, who string, pairs []string) (map[string][]toolcall.Role, error) {
	all := map[string][]toolcall.Role{}
	for _, pair := range pairs {
		i := strings.LastIndex(pair, "=") // a group name can contain one
		if i < 1 {
			return nil, usagef("%s is %q, use %s=ROLE", flag, pair, who)
		}
		all[pair[:i]] = append(all[pair[:i]], toolcall.Role(pair[i+1:]))
	}
	return all, nil
}

// hasLogins returns whether NATS logins exist for the space: if so, HTTP also requires
// authentication. Logins in an unreadable folder count as existing.
func hasLogins(env *environment, dir node.Dir) func() bool {
	if env.cfg.CredsDir != "" || env.cfg.Creds != "" {
		return func() bool { return true }
	}
	return func() bool {
		_, err := os.Lstat(dir.Creds())
		return !errors.Is(err, fs.ErrNotExist)
	}
}

// checkHTTP refuses a gateway that would admit strangers.
func checkHTTP(env *environment, dir node.Dir, s serving) error {
	if env.cfg.withoutHTTP() {
		if s.webhooks != "" {
			return usagef("--webhooks needs the gateway: leave out --http off, or pass --http-socket")
		}
		if env.cfg.HTTPSocketGroup != "" || len(env.cfg.HTTPSocketRoles) > 0 {
			return usagef("%s", web.NeedsSocket)
		}
		return nil
	}
	if env.cfg.HTTP == web.Off && env.cfg.HTTPURL == "" && (s.webhooks != "" || env.cfg.OIDCIssuer != "") {
		return usagef("--webhooks and --oidc-issuer need --http-url with --http off, because browsers open links to it: pass --http-url")
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

// openHTTP starts the gateway; nil without one.
func openHTTP(ctx context.Context, env *environment, spaces servedSpaces, s serving, d *listeners) (*web.Web, error) {
	if env.cfg.withoutHTTP() {
		return nil, nil //nolint:nilnil // documented: none
	}
	n := spaces[0].node
	cfg, err := webConfig(env, spaces[0].cfg.Dir, s)
	if err != nil {
		return nil, err
	}
	cfg.Listener, cfg.Socket.Listener, cfg.Space, cfg.LinkKey, cfg.LoginKey = d.http, d.socket, n.Gateway(), n.LinkKey(), spaces.loginKey()
	for _, further := range spaces[1:] {
		cfg.Further = append(cfg.Further, further.node.Gateway())
	}
	cfg.Outbox = func(ctx context.Context) (web.Outbox, error) { return n.Outbox(ctx) }
	if s.demoAgent {
		cfg.Agents = func(space *gateway.Space) []agent.Agent { return []agent.Agent{web.Demo(space.Tools)} }
	}
	return web.Serve(ctx, cfg)
}

// listeners are those of askance serve, except that of its NATS server. They open after
// the files are checked and before the journal opens, so that an address in use is
// reported before anything happens.
type listeners struct{ http, socket, metrics net.Listener }

func openListeners(ctx context.Context, env *environment, dir node.Dir, s serving, d *listeners) (err error) {
	if env.cfg.Metrics != "" {
		if d.metrics, err = metrics.Listen(ctx, env.cfg.Metrics); err != nil {
			return err
		}
	}
	if env.cfg.withoutHTTP() {
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

// close closes the listeners; a server that used them has ended by then.
func (d *listeners) close() {
	for _, l := range []net.Listener{d.http, d.socket, d.metrics} {
		if l != nil {
			_ = l.Close() // closing twice is harmless
		}
	}
}
