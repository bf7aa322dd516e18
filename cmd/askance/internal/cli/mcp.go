package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/cmd/askance/internal/hook"
	"github.com/askance-dev/askance/cmd/askance/internal/node"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/gateway/mcp"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// proxying has the flags of askance mcp.
type proxying struct {
	http, upstreams, session, agent, inbox string

	hold       time.Duration
	legs       int
	block      bool
	form       bool
	noWait     bool
	noJoin     bool
	hideEdits  bool
	trust      bool
	idempotent []string
	argv       []string
	door       door

	isOpen func() bool // with --http: whether clients need no token
}

func newMCPCommand(env *environment) *cobra.Command {
	m := proxying{door: door{role: toolcall.RoleRuntime}}
	c := &cobra.Command{
		Use:   "mcp [--http ADDR] (--upstreams FILE | -- CMD [ARG…])",
		Short: "Put askance between an MCP client and MCP servers",
		Long: `Runs an MCP server that forwards everything to the MCP server CMD, or to those in a file,
and holds each tool call until askance has decided about it. A person who approves a
call sees the arguments, and exactly these run, once.

It serves one client on standard input and output, or many with --http. It needs a
running askance serve, which it reaches as a runtime: on the data folder, at the NATS
server of --nats, or over HTTP at --server with a token.

A client that can wait is told how: with a task, a link, or progress. Any other gets an
ordinary result after --hold that names the tool askance_wait, which returns the result
once the call is decided.

The file of upstreams is YAML; paths of programs and tokens are relative to it:

  upstreams:
    github:                          # a-z, 0-9 and -: its tools are github_NAME
      command: [github-mcp, stdio]
      env: {LOG: info}
      idempotent: [search]           # tools that can run again after a lost answer
    docs:
      url: https://docs.example/mcp
      bearer_file: docs.token        # sent to this upstream only
      headers: {X-Team: agents}
      trust_annotations: true        # believe idempotentHint and readOnlyHint

With --http, clients send a token of this space, if there is a token file (askance token
create NAME --role runtime --space SPACE). Without one, only programs on this machine can
connect.`,
		Example: `  askance mcp -- npx -y @modelcontextprotocol/server-filesystem /srv/files
  askance mcp --server https://askance.example --token-file agent.token -- ./server.py
  askance mcp --http 127.0.0.1:8788 --upstreams upstreams.yaml`,
		Args: func(_ *cobra.Command, args []string) error {
			if (len(args) == 0) == (m.upstreams == "") {
				return usagef("expected a command after --, or --upstreams, for instance: askance mcp -- ./server.py")
			}
			m.argv = args
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return m.run(c.Context(), env) },
	}
	env.cfg.bindService(c)
	m.door.bind(c, env)
	env.cfg.bind(c, &env.cfg.Server, &env.cfg.HTTPTokens, &env.cfg.HTTPCert, &env.cfg.HTTPKey)
	env.cfg.bindAs(c, &env.cfg.HTTPInsecure, "allow --http to listen beyond loopback without TLS, behind a proxy that has it")
	env.cfg.bindAs(c, &env.cfg.HTTPOrigins, "origin of pages that can use --http from a browser; may be repeated")
	f := c.Flags()
	f.StringVar(&m.http, "http", "", "serve streamable HTTP at this address instead of standard input and output")
	f.StringVar(&m.upstreams, "upstreams", "", "file of MCP servers, by alias")
	f.StringVar(&m.session, "session", "", "askance session of the calls of --as; other principals have their own (default one for each start)")
	f.StringVar(&m.agent, "agent", "", "name of the agent in proposals (default the name of the client's token, or --as)")
	f.StringVar(&m.inbox, "inbox", "", "URL of the web inbox, for links to approval requests (default --server)")
	durationVar(f, &m.hold, "hold", mcp.DefaultHold, "how long a request waits for a person, if its client cannot wait longer")
	f.BoolVar(&m.block, "block", false, "hold each request until it is decided: for clients without a timeout")
	f.IntVar(&m.legs, "retry-legs", 0, "how often a client of revision 2026-07-28 is told to retry before it gets askance_wait")
	f.BoolVar(&m.form, "form", false, "let the user of the client approve in a form, in the name of --as; the client itself could fill it in")
	f.BoolVar(&m.noWait, "no-wait-tool", false, "do not add the tool askance_wait")
	f.BoolVar(&m.noJoin, "no-join", false, "ask again if the same call is repeated while the first is open")
	f.BoolVar(&m.hideEdits, "hide-edits", false, "do not tell the model that a person changed the arguments")
	f.StringArrayVar(&m.idempotent, "idempotent", nil, "tool of CMD that can run again after a lost answer; may be repeated")
	f.BoolVar(&m.trust, "trust-annotations", false, "believe the idempotentHint and readOnlyHint of the tools of CMD")
	return c
}

func (p *proxying) run(ctx context.Context, env *environment) error {
	if err := p.door.check(env); err != nil {
		return err
	}
	if err := gateway.CheckOrigins(env.cfg.HTTPOrigins); err != nil {
		return usagef("--http-origin: %w", err)
	}
	ups, err := p.readUpstreams()
	if err != nil {
		return err
	}
	for _, up := range ups {
		if len(up.Command) == 0 {
			continue
		}
		if _, err := exec.LookPath(up.Command[0]); err != nil {
			return usagef("the MCP server cannot be started: %w", err)
		}
	}
	key, err := stateKey(env.cfg.dir())
	if err != nil {
		return err
	}
	client, end, err := p.connect(ctx, env, toolcall.RoleRuntime)
	if err != nil {
		return err
	}
	defer end()
	vote, endVote, err := p.voter(ctx, env)
	if err != nil {
		return err
	}
	defer endVote()
	g, err := mcp.New(mcp.Config{
		Askance: client, Vote: vote, Upstreams: ups, Session: message.SessionID(p.session), Principal: env.cfg.As, Agent: p.agent, Key: key, Inbox: strings.TrimSuffix(p.inbox, "/"),
		Hold: p.hold, Block: p.block, Legs: p.legs, NoWaitTool: p.noWait, NoJoin: p.noJoin, HideEdits: p.hideEdits, Version: buildInfo().Version, Log: env.log,
	})
	if err != nil {
		return err
	}
	defer g.Close()
	if p.http == "" {
		return g.ServeStdio(ctx, env.cfg.As, env.in, env.out)
	}
	return p.serveHTTP(ctx, env, g)
}

// connect reaches askance, over HTTP with a token that must have the role.
func (p *proxying) connect(ctx context.Context, env *environment, role toolcall.Role) (c engine.Client, end func(), err error) {
	l, err := p.door.connect(ctx, env, role)
	if err != nil {
		return nil, nil, err
	}
	if env.cfg.Server != "" && !slices.Contains(l.roles, role) {
		return nil, nil, &message.Error{Code: message.CodeForbidden, Op: "mcp", What: "the token of " + env.cfg.As + " lacks the role " + string(role), Hint: hook.TokenHint(string(role))}
	}
	if !strings.HasPrefix(env.cfg.Server, overSocket) { // browsers open links to it
		p.inbox = cmp.Or(p.inbox, env.cfg.Server)
	}
	return l, l.Close, nil
}

var errFormTokens = errors.New("--form needs one principal, and --http has those of a token file: leave out one of them")

// voter responds in the name of the one principal that the operator states.
func (p *proxying) voter(ctx context.Context, env *environment) (vote func(context.Context, string, toolcall.Response) error, end func(), err error) {
	if !p.form {
		return nil, func() {}, nil
	}
	if p.http != "" && env.tokenFile() != "" {
		return nil, nil, usageError{errFormTokens}
	}
	c, end, err := p.connect(ctx, env, toolcall.RoleApprover)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, _ string, r toolcall.Response) error {
		if p.isOpen != nil && !p.isOpen() {
			return errFormTokens
		}
		_, err := c.SubmitResponse(ctx, r)
		return err
	}, end, nil
}

func (p *proxying) serveHTTP(ctx context.Context, env *environment, g *mcp.Gateway) error {
	path := env.tokenFile()
	if err := mcp.CheckAddress(p.http, path != "", env.cfg.HTTPCert != "" || env.cfg.HTTPInsecure); err != nil {
		return usageError{err}
	}
	admission, err := p.admission(env, path)
	if err != nil {
		return err
	}
	go admission.Run(ctx, nil)
	p.isOpen = admission.IsOpen
	cfg := mcp.HTTPConfig{Origins: env.cfg.HTTPOrigins, Authenticate: func(r *http.Request) (string, error) { return env.cfg.runtimeOf(admission.Authenticate(r)) }}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", p.http)
	if err != nil {
		return &message.Error{Code: message.CodeUnavailable, Op: "mcp", What: "cannot listen at " + p.http, Hint: "choose another address with --http", Err: err}
	}
	cfg.Public = !auth.LoopbackHost(listener.Addr().String())
	server := &http.Server{Handler: g.Handler(cfg), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	defer func() { g.Close(); _ = server.Close() }()                    // in this order: clients that are disconnected cancel their calls
	defer context.AfterFunc(ctx, func() { _ = server.Shutdown(ctx) })() // it stops listening, and waits for no request
	scheme, serve := "http", func() error { return server.Serve(listener) }
	if env.cfg.HTTPCert != "" {
		scheme, serve = "https", func() error { return server.ServeTLS(listener, env.cfg.HTTPCert, env.cfg.HTTPKey) }
	}
	announcef(env, "MCP gateway at %s://%s/mcp\n", scheme, listener.Addr())
	if err := serve(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// admission admits the tokens of a file. Without one, it admits every program on this machine as
// --as until the default file exists.
func (*proxying) admission(env *environment, path string) (*auth.Auth, error) {
	open := auth.OpenTokens
	if path == "" {
		path, open = node.Dir(env.cfg.dir()).Tokens(), auth.AwaitTokens
	}
	tokens, err := open(path, env.log)
	if err != nil {
		return nil, err
	}
	cfg := auth.Config{Tokens: tokens, TokenCommand: programName() + " token create NAME --role runtime" + flagsGiven(env, byCurrentContext, "data", "http-tokens", "space"), Log: env.log}
	if tokens.Missing() {
		cfg.Local = &auth.Loopback{Name: env.cfg.As, Space: env.cfg.spaceID()}
	}
	return auth.New(cfg)
}

// tokenFile is the token file in force; "" if there is none.
func (env *environment) tokenFile() string {
	if env.cfg.HTTPTokens != "" {
		return env.cfg.HTTPTokens
	}
	path := node.Dir(env.cfg.dir()).Tokens()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return path
}

// runtimeOf returns the name of the runtime that was authenticated.
func (cfg *config) runtimeOf(id *gateway.Identity, err error) (string, error) {
	if err == nil && (id.Space != cfg.spaceID() || !slices.Contains(id.Roles, toolcall.RoleRuntime)) {
		err = errors.New("the token is not a runtime token of this space")
	}
	if err != nil {
		return "", err
	}
	return id.Name, nil
}

type upstreamEntry struct {
	Command          []string          `yaml:"command"`
	Env              map[string]string `yaml:"env"`
	URL              string            `yaml:"url"`
	Headers          map[string]string `yaml:"headers"`
	BearerFile       string            `yaml:"bearer_file"`
	Idempotent       []string          `yaml:"idempotent"`
	TrustAnnotations bool              `yaml:"trust_annotations"`
}

const maxUpstreams = 256 << 10

func (p *proxying) readUpstreams() ([]*mcp.Upstream, error) {
	if p.upstreams == "" {
		return []*mcp.Upstream{{Command: p.argv, Idempotent: p.idempotent, TrustAnnotations: p.trust}}, nil
	}
	text, err := textfile.Read("--upstreams", p.upstreams, maxUpstreams)
	if err != nil {
		return nil, err
	}
	var file struct {
		Upstreams map[string]upstreamEntry `yaml:"upstreams"`
	}
	if err := textfile.DecodeYAML(text, &file); err != nil {
		return nil, usagef("--upstreams: %s cannot be read: %s", p.upstreams, err)
	}
	folder, err := filepath.Abs(filepath.Dir(p.upstreams)) // an editor starts the command in a folder of its choice
	if err != nil {
		return nil, err
	}
	var out []*mcp.Upstream
	for _, alias := range slices.Sorted(maps.Keys(file.Upstreams)) {
		up, err := file.Upstreams[alias].resolve(alias, folder)
		if err != nil {
			return nil, err
		}
		out = append(out, up)
	}
	return out, nil
}

// resolve returns the upstream of an entry, whose paths are relative to a folder.
func (e upstreamEntry) resolve(alias, folder string) (*mcp.Upstream, error) {
	if u, err := url.Parse(e.URL); err != nil || u.Scheme == "http" && !bus.OnLoopback(u.Hostname()) && (e.BearerFile != "" || len(e.Headers) > 0) {
		return nil, usagef("--upstreams: the url of %q is not a URL, or sends its headers over the network in plain text: use https", alias)
	}
	if len(e.Command) > 0 && filepath.Base(e.Command[0]) != e.Command[0] && !filepath.IsAbs(e.Command[0]) {
		e.Command[0] = filepath.Join(folder, e.Command[0])
	}
	up := &mcp.Upstream{Alias: alias, Command: e.Command, URL: e.URL, Header: e.Headers, Idempotent: e.Idempotent, TrustAnnotations: e.TrustAnnotations}
	for name, value := range e.Env {
		up.Env = append(up.Env, name+"="+value)
	}
	if e.BearerFile == "" {
		return up, nil
	}
	if !filepath.IsAbs(e.BearerFile) {
		e.BearerFile = filepath.Join(folder, e.BearerFile)
	}
	token, err := textfile.Read("bearer_file", e.BearerFile, maxSecret)
	if err != nil {
		return nil, err
	}
	if up.Header == nil {
		up.Header = map[string]string{}
	}
	up.Header["Authorization"] = "Bearer " + strings.TrimSpace(string(token))
	return up, nil
}

// stateKey reads or creates the key with which the gateway recognizes its own call ids
// and request states.
func stateKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, "mcp.key")
	fault := func(err error) error {
		return &message.Error{Code: message.CodeUnavailable, Op: "mcp", What: "cannot keep the state key " + path, Hint: "name a data folder that this user can write to with --data", Err: err}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fault(err)
	}
	key := []byte(rand.Text() + rand.Text())
	if err := plainfile.Publish(path, key, 0o600, os.Link); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first: use its key
		return nil, fault(err)
	}
	key, err := textfile.Read("mcp.key", path, len(key))
	if err != nil {
		return nil, fault(err)
	}
	return key, nil
}
