package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/cmd/askance/internal/hook"
	"github.com/askance-dev/askance/cmd/askance/internal/remote"
	"github.com/askance-dev/askance/cmd/askance/internal/textfile"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/executor/httpwork"
	"github.com/askance-dev/askance/gateway/auth"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
)

// door is how a worker reaches its engines: NATS, or a server over HTTP.
type door struct {
	server    string
	host      string // NAME.localhost of the server's URL, which then says localhost; see auth.SpaceHost
	tokenFile string
	insecure  bool
	plain     string        // the flag that permits plain HTTP, if not server-insecure
	role      toolcall.Role // of the token; "": worker
	trust     bool          // take the engines' keys from the server

	nc      *nats.Conn
	space   toolcall.SpaceID // whose calls the worker runs
	address string           // for people
	paths   []string         // of the engines' keys; none with trust
	keys    toolcall.KeySet  // those in the files
}

// way is the transport of one queue, with the engines' keys.
type way struct {
	executor.Transport
	keys   toolcall.KeySet
	source executor.KeySource
}

func (d *door) bind(c *cobra.Command, env *environment) {
	env.cfg.bind(c, &env.cfg.TokenFile)
	c.Flags().BoolVar(&d.insecure, "server-insecure", false, "with --server: allow the token and calls to cross the network in plain text")
}

// check takes the settings, and refuses those that cannot be combined.
func (d *door) check(env *environment) error {
	d.server, d.tokenFile = env.cfg.Server, env.cfg.TokenFile
	if d.server == "" {
		if env.found.source("token_file") == byFlag || d.insecure || d.trust {
			return usagef("--token-file, --server-insecure and --trust-server-keys are only for --server")
		}
		return nil
	}
	if u, err := url.Parse(d.server); err == nil && u.Scheme == "http" && strings.HasSuffix(u.Hostname(), auth.SpaceHost("")) {
		d.host, u.Host = u.Host, strings.TrimSuffix("localhost:"+u.Port(), ":")
		d.server = u.String()
		if name := d.namedSpace(env); env.found.source("space") == byFlag && env.cfg.spaceID() != name {
			return usagef("--space is %q, but the URL of --server names the space %q: leave out one of them", env.cfg.spaceID(), name)
		}
	}
	switch {
	case env.cfg.NATS != "":
		return usagef("--server and --nats are both set: pass one of them")
	case d.trust && len(env.cfg.EngineKeys) > 0:
		return usagef("--trust-server-keys and --engine-key are both set: pass one of them")
	}
	if d.role != "" && isSocket(d.server) {
		return nil
	}
	return checkURL("--server", d.server, d.insecure, cmp.Or(d.plain, "server-insecure"))
}

// checkURL refuses text that is no URL of a server, and a URL over which others on the network could
// read and change what is sent, unless the flag permit is set.
func checkURL(name, text string, permitted bool, permit string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil && strings.Contains(text, "@") || err == nil && u.User != nil: // errors and logs name the URL
		return usagef("%s cannot have a user or a password: log in with a token, --token-file FILE or ASKANCE_TOKEN", name)
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return usagef("%s %q is not an http or https URL: pass the one that askance serve prints", name, text)
	case u.Scheme == "http" && !permitted && !bus.OnLoopback(u.Hostname()):
		return usagef("%s %s has no TLS, so the token and the calls would cross the network in plain text: use https, or pass --%s", name, u.Redacted(), permit)
	}
	return nil
}

// open connects, and reads the engines' keys.
func (d *door) open(ctx context.Context, env *environment) (err error) {
	if !d.trust {
		if err = d.readKeys(env); err != nil {
			return err
		}
	}
	if d.server != "" {
		d.address = bus.RedactURL(d.server)
		for said := false; ; said = true { // a worker waits for its server
			who, err := d.whoami(ctx, remote.New(d.server, d.token), d.namedSpace(env))
			if d.space = who.Space; !errors.Is(err, message.ErrUnavailable) {
				return err
			}
			if !said { // the text can differ at every try: it can name a local port
				env.log.Warn("the worker waits until its server says which space the token is for", "server", d.address, "err", err)
			}
			if sleep.For(ctx, time.Second) != nil {
				return err
			}
		}
	}
	d.space = env.cfg.spaceID()
	address, err := env.findServer("start askance serve, or pass a server with --nats or --server")
	if err != nil {
		return err
	}
	d.address = bus.RedactURL(address)
	d.nc, err = connectNATS(ctx, env, address, toolcall.Principal{Role: toolcall.RoleWorker, Name: env.cfg.As})
	return err
}

func (d *door) close() {
	if d.nc != nil {
		d.nc.Close()
	}
}

// readKeys reads the keys of --engine-key, or those of the data folder.
func (d *door) readKeys(env *environment) (err error) {
	named := len(env.cfg.EngineKeys) > 0
	d.paths = env.cfg.EngineKeys
	if !named {
		d.paths = []string{env.files().PublicKeys()}
	}
	d.keys, err = keyfile.LoadPublic(d.paths...)
	if e, ok := errors.AsType[*message.Error](err); ok && !named && errors.Is(err, fs.ErrNotExist) {
		if d.server != "" {
			return withHint(e, "copy engine.pub from the server's data folder and pass it with --engine-key, or pass --trust-server-keys")
		}
		return withHint(e, "start askance serve on this data folder, or pass the engine's public key with --engine-key")
	}
	return err
}

// roleFlags returns the role flags with which askance token create makes the token.
func (d *door) roleFlags() string {
	return cmp.Or(string(d.role), "worker --tool TOOL")
}

// token returns the current token: the file may have been replaced.
func (d *door) token() (string, error) {
	text, err := readToken(textfile.Read, d.tokenFile)
	if err != nil {
		return "", err
	}
	if text == "" || strings.ContainsAny(text, " \r\n") {
		return "", usagef("%s has no token: create one with askance token create NAME --role "+d.roleFlags(), cmp.Or(d.tokenFile, "ASKANCE_TOKEN"))
	}
	return text, nil
}

// readToken returns the token in a file, or without a file that of $ASKANCE_TOKEN.
func readToken(read func(kind, path string, most int) ([]byte, error), file string) (string, error) {
	if file == "" {
		return strings.TrimSpace(os.Getenv("ASKANCE_TOKEN")), nil
	}
	b, err := read("token file", file, maxSecret)
	return strings.TrimSpace(string(b)), err
}

// adviseToken says how to pass a token, if a server refused a request without one.
func (d *door) adviseToken(err error) error {
	me, ok := errors.AsType[*message.Error](err)
	if ok && me.Code == message.CodeForbidden && me.Op != remote.OpConnect && d.tokenFile == "" && os.Getenv("ASKANCE_TOKEN") == "" {
		return withHint(me, hook.TokenHint(d.roleFlags()))
	}
	return err
}

// tokenIfAny returns the token, or "" if none is set: a server on this machine may need none.
func (d *door) tokenIfAny() (string, error) {
	if d.tokenFile == "" && os.Getenv("ASKANCE_TOKEN") == "" {
		return "", nil
	}
	return d.token()
}

func (d *door) transport(ctx context.Context, env *environment, queue toolcall.Queue) (way, error) {
	if d.server == "" {
		t, err := bus.NewQueueWorker(d.nc, env.cfg.spaceID(), queue, env.cfg.As, env.log)
		if err != nil {
			return way{}, err
		}
		return way{t, d.keys, keyfile.NewFollower(d.paths, t.Keys)}, nil
	}
	t, err := httpwork.New(httpwork.Config{URL: d.server, Queue: queue, Token: d.token, Log: env.log})
	if err != nil {
		return way{}, usageError{err}
	}
	if !d.trust {
		return way{t, d.keys, keyfile.NewFollower(d.paths, t.Keys)}, d.checkKeys(ctx, t)
	}
	source := serverKeys{t}
	keys, err := source.Keys(ctx)
	return way{t, keys, source}, err
}

// checkKeys refuses keys that verify no call of the token's space. Without a reply, the worker starts:
// it verifies each call.
func (d *door) checkKeys(ctx context.Context, t *httpwork.Transport) error {
	ring, err := t.Keys(ctx)
	if err != nil {
		return nil //nolint:nilerr // it waits for its server, or gets the error with the first task
	}
	known, err := keyfile.NewFollower(d.paths, func(context.Context) (toolcall.KeyRing, error) { return ring, nil }).Keys(ctx)
	if err != nil {
		return err
	}
	for _, k := range ring {
		if k.Retired.IsZero() && known[k.ID] != nil {
			return nil
		}
	}
	return &message.Error{
		Code: message.CodeInvalid, Op: "worker", What: fmt.Sprintf("the token is for the space %q, whose engines sign with other keys than those in %s", d.space, strings.Join(d.paths, ", ")),
		Hint: "use a token of the space of these keys, or pass engine.pub of the space " + string(d.space) + " with --engine-key",
	}
}

// serverKeys trusts the keys that the server sends.
type serverKeys struct{ t *httpwork.Transport }

func (s serverKeys) Keys(ctx context.Context) (toolcall.KeySet, error) {
	ring, err := s.t.Keys(ctx)
	if err != nil {
		return nil, &message.Error{Code: message.CodeUnavailable, Op: "worker", What: "cannot take the engines' keys from the server", Hint: "check --server and the token", Err: err}
	}
	return ring.InForce()
}
