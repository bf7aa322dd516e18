package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/hookfile"
	"github.com/askance-dev/askance/cmd/askance/internal/metrics"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/term"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/cmd/askance/internal/web"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/agent"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/asked"
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

// started is the result of serve with --json once the engine runs.
type started struct {
	URL        string `json:"url"`
	Data       string `json:"data"`
	PublicKey  string `json:"public_key_file"`
	KeyID      string `json:"key_id"`
	Space      string `json:"space"`
	Engine     string `json:"engine"`
	Durability string `json:"durability"`
	// DurabilityWhy names the source of the durability of an existing server.
	DurabilityWhy string `json:"durability_why,omitzero"`
	Policy        string `json:"policy"`
	Rules         int    `json:"rules"`
	// PolicyFiles and PolicySince say where the policy in force comes from; none without rule files.
	PolicyFiles []string  `json:"policy_files,omitzero"`
	PolicySince time.Time `json:"policy_since,omitzero"`
	Tools       []string  `json:"tools"`
	PID         int       `json:"pid"`
	// Auth is how clients are authenticated.
	Auth string `json:"auth"`
	// HTTP is where the gateway is.
	HTTP string `json:"http,omitzero"`
	// HTTPAuth says who can use it; "" means every process on this machine.
	HTTPAuth string `json:"http_auth,omitzero"`
	// HTTPSocket is the path of its Unix socket.
	HTTPSocket string `json:"http_socket,omitzero"`
	// Metrics is where Prometheus can scrape.
	Metrics string `json:"metrics,omitzero"`
	// Spaces are those of --spaces.
	Spaces []startedSpace `json:"spaces,omitzero"`
	// Open reports whether other machines can reach the embedded server under any name.
	Open bool `json:"open_beyond_loopback,omitzero"`
}

type startedSpace struct {
	Space  string `json:"space"`
	KeyID  string `json:"key_id"`
	Engine string `json:"engine"`
	Policy string `json:"policy"`
	Rules  int    `json:"rules"`
	// HTTP is the address of its gateway for the local user; a login names its space itself.
	HTTP string `json:"http,omitzero"`
}

// httpAt says where the gateway listens and who can log in; "" means none.
type httpAt struct{ url, socket, logins string }

func printServing(env *environment, spaces servedSpaces, scrape string, over httpAt) error {
	n, cfg := spaces[0].node, spaces[0].cfg
	claim, policy := n.Journal().Claim(), n.PolicyStatus()
	st := started{
		URL: n.URL(), Data: string(cfg.Dir), PublicKey: n.Files().PublicKeys(), KeyID: n.KeyID(), Space: string(cfg.Space),
		Engine: n.Engine().ID(), Durability: string(claim.Durability), Policy: policy.Bundle, Rules: policy.Rules, PolicySince: policy.Loaded, PID: os.Getpid(),
		Open: openBeyondLoopback(cfg), Auth: n.Auth(), Metrics: scrape, HTTP: over.url, HTTPAuth: over.logins, HTTPSocket: over.socket,
	}
	for _, t := range cfg.Tools {
		st.Tools = append(st.Tools, t.Name)
	}
	for _, s := range spaces[1:] {
		at := ""
		if over.url != "" && over.logins == "" {
			at = web.OfSpace(over.url, s.cfg.Space)
		}
		own := s.node.PolicyStatus()
		st.Spaces = append(st.Spaces, startedSpace{Space: string(s.cfg.Space), KeyID: s.node.KeyID(), Engine: s.node.Engine().ID(), Policy: own.Bundle, Rules: own.Rules, HTTP: at})
	}
	if cfg.NATS != "" {
		st.DurabilityWhy = claim.Why
	}
	for _, f := range policy.Files {
		st.PolicyFiles = append(st.PolicyFiles, f.Name)
	}
	const running = "askance is running"
	switch {
	case env.json:
		return writeJSON(env.out, st)
	case env.cfg.logsJSON(env.out):
		logRecord(env.out, slog.LevelInfo, running, "server", st, "next", st.next(cfg.PolicyBucket))
		return nil
	}
	text := newSheet(env.out, 8, env.out.Bold(running))
	console := env.cfg.HTTPURL
	if over.url != "" {
		if console = cmp.Or(console, over.url); console != over.url {
			console += " (listens at " + over.url + ")"
		}
		console += "  " + cmp.Or(over.logins, env.out.Ask("no login: every process on this machine can approve as "+term.SafeLine(userName())))
	}
	text.row("console", console)
	if over.socket != "" {
		text.row("socket", over.socket+"  the kernel identifies the user")
	}
	text.row("nats", st.URL+"  "+loginsText(env.out, cfg, st.Auth))
	text.row("metrics", scrape)
	journal := st.Data
	if cfg.NATS != "" {
		journal = "on that server, keys in " + cmp.Or(cfg.Keys, cfg.Dir.Keys())
	}
	text.row("journal", journal+", space "+st.Space+", "+durabilityText(env.out, cfg, claim))
	text.row("policy", st.policyText(env.out, cfg.PolicyBucket))
	text.row("tools", cmp.Or(shortList(st.Tools), "none: only tools that runtimes, coding agents and MCP gateways declare; --tools FILE adds others"))
	for _, s := range st.Spaces {
		text.row("space", strings.TrimSpace(s.Space+", "+asked.Count(s.Rules, "rule")+"  "+s.HTTP))
	}
	if st.Open {
		text.line(env.out.Bold("  open beyond loopback: every connection can act under any name"))
	}
	text.line("\nNext: " + st.next(cfg.PolicyBucket))
	_, err := io.WriteString(env.out, text.String())
	return err
}

// policyText says what is in force, where it comes from and since when.
func (st *started) policyText(out *term.Out, bucket bool) string {
	switch {
	case st.PolicySince.IsZero() && bucket:
		return out.Bad(noPolicy)
	case st.PolicySince.IsZero():
		return out.Ask(noRules)
	}
	return fmt.Sprintf("%s in %s, in force since %s", asked.Count(st.Rules, "rule"), shortList(st.PolicyFiles), st.PolicySince.Local().Format(time.DateTime))
}

// next returns the next step: first what is missing, then where people decide.
func (st *started) next(bucket bool) string {
	switch {
	case st.PolicySince.IsZero() && bucket:
		return "store rules with " + commandLine("policy put FILE", st.Data)
	case st.PolicySince.IsZero():
		return "write a policy with " + programName() + " init, then start again with --policy FILE"
	case st.HTTP != "":
		return "see and decide requests with " + commandLine("open", st.Data)
	}
	return "see and decide requests with " + commandLine("inbox", st.Data)
}

// shortList names at most five.
func shortList(names []string) string {
	const most = 4
	if more := len(names) - most; more > 1 {
		return term.SafeLine(strings.Join(names[:most], ", ")) + fmt.Sprintf(" and %d more", more)
	}
	return term.SafeLine(strings.Join(names, ", "))
}

// durabilityText says what an acknowledgement means, and why the engine states that. The log warns
// about an assumption.
func durabilityText(out *term.Out, cfg node.Config, c journal.DurabilityClaim) string {
	switch {
	case cfg.NATS == "":
		return string(c.Durability)
	case c.Assumed:
		return out.Ask(string(c.Durability) + " (assumed, the log says why)")
	}
	return string(c.Durability) + " (" + term.SafeLine(c.Why) + ")"
}

func loginsText(out *term.Out, cfg node.Config, auth string) string {
	switch {
	case cfg.CredsDir != "":
		return "logins required, from " + cfg.CredsDir
	case cfg.NATS != "" && auth == bus.AuthJWT:
		return "logins required, by the server of --nats"
	case cfg.NATS != "":
		return out.Ask("logins as configured on the server of --nats")
	}
	return out.Ask("no login: every connection can use any name")
}
