// Package mcp is a gateway between MCP clients and MCP servers: it passes everything on
// and holds each tool call until askance has decided about it.
//
//	g, err := mcp.New(mcp.Config{Askance: client, Upstreams: []*mcp.Upstream{{Command: argv}}, Key: key})
//	err = g.ServeStdio(ctx, "ann", os.Stdin, os.Stdout) // one client
//	http.Handle("/mcp", g.Handler(mcp.HTTPConfig{Authenticate: who})) // many
//
// On the command line it is askance mcp. With --http, it writes "MCP gateway at URL"
// on standard error once it listens.
//
// It works on JSON-RPC messages, below any SDK: arguments, schemas, results and unknown members
// pass through as the bytes that arrived. It speaks the legacy revisions (2024-11-05 to
// 2025-11-25) and the modern one (2026-07-28), independently on each side.
//
// # Guarantees
//
//   - A tool runs only if askance allowed the call, with the arguments on record. The
//     gateway marks the call in the journal before it runs; only the first mark runs.
//   - A repeated request joins the open call of the same principal, tool and arguments.
//   - A call whose server died has an unknown outcome, and stays open until an operator resolves it,
//     unless the tool is idempotent.
//   - A definition that changed since the decision does not run.
//   - What a client returns (call ids, requestState) is authenticated.
//   - A client's credentials never reach a server, and a server's never a client.
package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// Client is what the gateway needs from an askance server, as a runtime.
type Client interface {
	Propose(ctx context.Context, r toolcall.ProposeRequest) (toolcall.ProposeReply, error)
	Wait(ctx context.Context, r toolcall.WaitRequest) (toolcall.WaitReply, error)
	Begin(ctx context.Context, r toolcall.BeginRequest) (*toolcall.Call, error)
	Report(ctx context.Context, r toolcall.ReportRequest) (*toolcall.Call, error)
	Interrupt(ctx context.Context, r toolcall.InterruptRequest) (toolcall.InterruptReply, error)
	List(ctx context.Context, r toolcall.ListRequest) (toolcall.ListReply, error)
}

// Config configures a gateway.
type Config struct {
	Askance   Client
	Upstreams []*Upstream
	// Session is the askance session of the calls of Principal; "": one for this process.
	Session   message.SessionID
	Principal string
	// Agent names the agent in proposals.
	Agent string
	// Key authenticates what clients return: call ids and request states. Keep it across restarts.
	Key []byte
	// Inbox is the URL of the web inbox, for links to approval requests; "": none.
	Inbox string
	// Vote responds to approval requests in the name of a principal, so that a client's
	// user can decide in a form; nil: only people elsewhere decide.
	Vote func(ctx context.Context, principal string, r toolcall.Response) error
	// Hold is how long a request waits for a person, if its client has no way to wait
	// longer. Block holds every request until it is decided.
	Hold  time.Duration
	Block bool
	// Legs is how often a modern client is told to retry before it gets the wait tool.
	Legs int
	// NoWaitTool omits askance_wait, NoJoin asks again for a repeated call, and HideEdits does not
	// tell the model about changed arguments.
	NoWaitTool, NoJoin, HideEdits bool
	Version                       string
	Log                           *slog.Logger
}

// DefaultHold is under the 60 seconds after which most clients give up.
const DefaultHold = 50 * time.Second

// Gateway is an MCP server that holds tool calls for askance. It is safe for
// concurrent use.
type Gateway struct {
	cfg  Config
	life context.Context //nolint:containedctx // it ends with the gateway
	end  context.CancelFunc
	busy busy // with proposals and calls at an upstream
	// shared: the session is configured, so that other processes may have calls in it.
	shared bool

	mu    sync.Mutex // guards the rest
	calls map[message.CallID]*held
	joins map[string]*held
	peers map[string]*peer // of modern requests by their kind, of legacy clients by session
	idle  *time.Timer      // closes the upstreams of the last modern client
}

var aliasPattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// New makes a gateway. The caller must Close it.
func New(cfg Config) (*Gateway, error) {
	bad := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: "mcp", What: what, Hint: hint}
	}
	if len(cfg.Upstreams) == 0 {
		return nil, bad("there is no upstream", "name a command or a file of upstreams")
	}
	if len(cfg.Key) < 16 {
		return nil, bad("the state key has fewer than 16 bytes", "make a key of 32 random bytes")
	}
	seen := map[string]bool{}
	for _, up := range cfg.Upstreams {
		switch {
		case (up.URL == "") == (len(up.Command) == 0):
			return nil, bad(up.name()+" has no command and no URL, or both", "give it one of them")
		case seen[up.Alias]:
			return nil, bad(fmt.Sprintf("two upstreams have the alias %q", up.Alias), "give each its own")
		case up.Alias == "askance" || up.Alias != "" && !aliasPattern.MatchString(up.Alias):
			return nil, bad(fmt.Sprintf("the alias %q cannot be used", up.Alias), "use up to 32 of a-z, 0-9 and -, and not askance")
		case up.Alias == "" && len(cfg.Upstreams) > 1:
			return nil, bad("an upstream has no alias", "with several upstreams give each an alias")
		}
		seen[up.Alias] = true
	}
	if cfg.Hold <= 0 {
		cfg.Hold = DefaultHold
	}
	shared := cfg.Session != ""
	if !shared {
		cfg.Session = message.SessionID("mcp-" + rand.Text())
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	g := &Gateway{cfg: cfg, shared: shared, calls: map[message.CallID]*held{}, joins: map[string]*held{}, peers: map[string]*peer{}}
	g.life, g.end = context.WithCancel(context.Background())
	g.idle = time.AfterFunc(sessionIdle, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.removeOldPeers()
	})
	return g, nil
}

// sessionOf returns the session of a principal's calls: what is remembered for one answers for no other.
func (g *Gateway) sessionOf(principal string) message.SessionID {
	if principal == g.cfg.Principal {
		return g.cfg.Session
	}
	return g.cfg.Session + message.SessionID("-"+hex.EncodeToString(g.mac("session", []byte(principal))[:8]))
}

// Bounds of the waits for calls that run at an upstream, and for reports of what is then unknown.
const (
	closeTime  = 5 * time.Second
	reportTime = 2 * time.Second
)

// Close waits a short time for running calls, and ends the upstreams.
func (g *Gateway) Close() {
	g.waitQuiet(closeTime)
	g.end()
	g.mu.Lock()
	g.idle.Stop()
	peers := slices.Collect(maps.Values(g.peers))
	g.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range peers {
		wg.Go(p.close)
	}
	wg.Wait()
	g.waitQuiet(reportTime)
}

func (g *Gateway) waitQuiet(most time.Duration) {
	select {
	case <-g.busy.quiet():
	case <-time.After(most):
	}
}

// about describes the gateway to clients and servers.
func (g *Gateway) about() json.RawMessage {
	version := cmp.Or(g.cfg.Version, "dev")
	return encode(map[string]string{"name": "askance", "version": version})
}

// maxPeers bounds how many kinds of modern clients have open upstreams, without those in use.
// Those in use are bounded as legacy sessions are.
const maxPeers = 64

// modernPeer returns the peer of a modern request, and a function to call at its end. ok is false if
// too many others are in use.
func (g *Gateway) modernPeer(principal string, meta object) (p *peer, release func(), ok bool) {
	caps, info := meta.get(metaCapabilities), meta.get(metaClient)
	sum := sha256.Sum256([]byte(principal + "\x00" + string(caps) + "\x00" + string(info)))
	key := hex.EncodeToString(sum[:])
	g.mu.Lock()
	defer g.mu.Unlock()
	if p = g.peers[key]; p == nil {
		if !g.hasRoom(principal) {
			return nil, nil, false
		}
		p = g.newPeer(principal, true, modernVersion, caps, info)
		p.key = key
		g.peers[key] = p
	}
	p.users++
	p.used = time.Now()
	g.removeOldPeers()
	return p, func() { g.release(p) }, true
}

// hasRoom reports whether a principal may use one more kind of modern client.
func (g *Gateway) hasRoom(principal string) bool {
	all, own := 0, 0
	for _, p := range g.peers {
		if p.modern && p.users > 0 {
			all++
			if p.principal == principal {
				own++
			}
		}
	}
	return all < maxSessions && own < maxSessions/2
}

// adopt stores the peer of a legacy client.
func (g *Gateway) adopt(p *peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.key = rand.Text()
	p.used = time.Now()
	g.peers[p.key] = p
}

// hold keeps the upstreams of a peer open until release.
func (g *Gateway) hold(p *peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.users++
}

func (g *Gateway) release(p *peer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.used = time.Now()
	if p.modern && g.life.Err() == nil {
		g.idle.Reset(sessionIdle)
	}
	if p.users--; p.users == 0 && p.retired {
		g.closePeer(p)
	}
}

// retire closes the upstreams of a client that is gone, once its calls have ended.
func (g *Gateway) retire(p *peer) {
	p.endAsks()
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.retired = true; p.users == 0 {
		g.closePeer(p)
	}
}

func (g *Gateway) closePeer(p *peer) {
	delete(g.peers, p.key)
	go p.close()
}

// removeOldPeers closes the upstreams of modern clients that have not been used for long and, if
// there are too many, of the one that was used least recently.
func (g *Gateway) removeOldPeers() {
	var oldest *peer
	count := 0
	for _, p := range g.peers {
		switch {
		case !p.modern:
			continue
		case p.users == 0 && time.Since(p.used) >= sessionIdle:
			g.closePeer(p)
			continue
		case p.users == 0 && (oldest == nil || p.used.Before(oldest.used)):
			oldest = p
		}
		count++
	}
	if count > maxPeers && oldest != nil {
		g.closePeer(oldest)
	}
}

// busy counts what Close waits for.
type busy struct {
	mu   sync.Mutex // guards the rest
	n    int
	wait chan struct{} // closed when n is 0; nil: nothing waits
}

func (b *busy) add() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n++
}

func (b *busy) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n--; b.n == 0 && b.wait != nil {
		close(b.wait)
		b.wait = nil
	}
}

func (b *busy) quiet() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n == 0 {
		c := make(chan struct{})
		close(c)
		return c
	}
	if b.wait == nil {
		b.wait = make(chan struct{})
	}
	return b.wait
}
