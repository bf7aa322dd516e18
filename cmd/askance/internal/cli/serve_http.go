package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/message"
)

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 16 << 10

// noHTTP turns the gateway off.
const noHTTP = "off"

// serveHTTP is what askance serve is told about the gateway.
type serveHTTP struct {
	web.Config
	secretFile string
	hooks      string   // file of webhooks
	roles      []string // of groups at the provider
}

// serveHTTPFlags adds the flags of the gateway.
func serveHTTPFlags(c *cobra.Command, s *serving) {
	f, w := c.Flags(), &s.web
	f.StringVar(&w.Address, "http", "", "address of the web inbox and the HTTP interfaces; off opens none (default "+web.DefaultAddress+", or a free port if that is taken)")
	f.StringVar(&w.Cert, "http-cert", "", "file with the certificate chain for TLS")
	f.StringVar(&w.Key, "http-key", "", "file with its private key")
	f.BoolVar(&s.demoAgent, "demo-agent", false, "let frontends talk to an agent without a model, named "+web.DemoAgent+", that does what the lines of a message say: \"call TOOL {…}\", \"say TEXT\"; it calls any tool that a message names")
	f.StringVar(&w.AgentID, "agent-id", "", "names the replies that agents of this process are making, so that its successor goes on with them (default gateway; with --nats the host's name)")
	f.BoolVar(&w.Insecure, "http-insecure", false, "let --http listen beyond loopback without TLS: for a proxy in front that has it")
	f.StringVar(&w.Tokens, "http-tokens", "", "token file: who may use HTTP (default tokens.json in the data folder, if it is there)")
	f.StringVar(&w.Public, "http-url", "", "URL by which browsers reach the gateway, if a proxy is in front")
	f.StringArrayVar(&w.Origins, "http-origin", nil, "origin of pages elsewhere that may use the gateway, as https://app.example; may be repeated")
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
func (a *app) webConfig(dir node.Dir, s serving) (web.Config, error) {
	cfg := s.web.Config
	cfg.User, cfg.Log, cfg.Version = userName(), a.log, buildInfo().Version
	if cfg.AgentID == "" && a.at.nats != "" {
		cfg.AgentID, _ = os.Hostname() // without one it is the default
	}
	if cfg.Tokens == "" {
		// One that cannot be looked at must not be taken for none.
		if _, err := os.Stat(dir.Tokens()); !errors.Is(err, fs.ErrNotExist) {
			cfg.Tokens = dir.Tokens()
		}
	}
	if cfg.Session <= 0 {
		return cfg, usagef("--http-session is %s, and must be positive", cfg.Session)
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
	cfg.OIDC.Roles = map[string][]message.Role{}
	for _, pair := range s.web.roles {
		group, role, ok := cutLast(pair, "=")
		if !ok || group == "" {
			return cfg, usagef("--oidc-role %q: write GROUP=ROLE", pair)
		}
		cfg.OIDC.Roles[group] = append(cfg.OIDC.Roles[group], message.Role(role))
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

// cutLast is strings.Cut at the last separator: groups may have one in them.
func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// checkHTTP refuses a gateway that would let strangers in.
func (a *app) checkHTTP(dir node.Dir, s serving) error {
	if s.web.Address == noHTTP {
		if s.web.hooks != "" {
			return usagef("--webhooks needs the gateway, which --http off leaves out")
		}
		return nil
	}
	cfg, err := a.webConfig(dir, s)
	if err == nil {
		err = cfg.Check()
	}
	if bad, ok := errors.AsType[*web.Error](err); ok {
		return usagef("%s", bad.What)
	}
	return err
}

// openHTTP starts the gateway; nil if there is to be none.
func (a *app) openHTTP(ctx context.Context, n *node.Node, dir node.Dir, s serving, d *doors) (*web.Web, error) {
	if s.web.Address == noHTTP {
		return nil, nil //nolint:nilnil // documented: none
	}
	cfg, err := a.webConfig(dir, s)
	if err != nil {
		return nil, err
	}
	cfg.Listener, cfg.Space, cfg.LinkKey = d.http, n.Gateway(), n.LinkKey()
	cfg.Outbox = func(ctx context.Context) (web.Outbox, error) { return n.Outbox(ctx) }
	if s.demoAgent {
		cfg.Agents = append(cfg.Agents, web.Demo(cfg.Space.Tools))
	}
	return web.Serve(ctx, cfg)
}
