// Package remote is a client of an askance server over HTTP: the operations of the
// table, for commands that have a URL and a token instead of a NATS login.
//
//	c := remote.New("https://askance.example", token)
//	reply, err := c.Propose(ctx, request)
package remote

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// Client is safe for concurrent use.
type Client struct {
	api.Methods
	Host  string // sent instead of that of the URL; "": that of the URL
	at    string // as the caller names it
	base  string
	token func() (string, error)
	http  *http.Client
}

// maxReply bounds a reply: a page of calls has their arguments twice, as JSON text.
const maxReply = 16 << 20

// OpConnect is the operation of errors about a Unix socket to which nothing was sent.
const OpConnect = "http"

// timeout is longer than a server holds a request.
const timeout = 90 * time.Second

// New returns a client of the server at a URL, or at "unix:" and the path of a Unix socket. token
// returns the current token; "" sends none.
func New(at string, token func() (string, error)) *Client {
	base, transport := Open(at)
	c := &Client{at: at, base: base, token: token, http: &http.Client{
		Transport: transport, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token is for one host
	}}
	c.Methods.Caller = c
	return c
}

// Open returns the URL for requests to a server at a URL, or at "unix:" and the path of a Unix
// socket, and their transport.
func Open(at string) (base string, transport http.RoundTripper) {
	socket, local := strings.CutPrefix(at, "unix:")
	if !local {
		return strings.TrimSuffix(at, "/"), http.DefaultTransport
	}
	path := strings.TrimPrefix(socket, "//")
	return "http://localhost", &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := dialSocket(ctx, path)
		if errors.Is(err, fs.ErrPermission) {
			err = &message.Error{Code: message.CodeForbidden, Op: OpConnect, What: "this user has no permission to open the Unix socket " + path, Hint: "start askance serve with --http-socket-group and a group of this user, and --http-socket in a folder that this user can enter", Err: err}
		}
		return c, err
	}}
}

func dialSocket(ctx context.Context, path string) (net.Conn, error) {
	err := CheckSocket(path)
	if _, refused := errors.AsType[*message.Error](err); err != nil && !refused {
		err = &net.OpError{Op: "dial", Net: "unix", Err: err} // as if there were no server: nothing was sent
	}
	if err != nil {
		return nil, err
	}
	return new(net.Dialer).DialContext(ctx, "unix", path)
}

// maxLinks bounds the symbolic links on the way to a socket, as Linux does.
const maxLinks = 40

// CheckSocket refuses a socket that another user could have put there while the server is down: in
// any folder on the way to it, also that of a symbolic link.
func CheckSocket(path string) error {
	at := path
	for range maxLinks {
		next, err := checkFolders(path, at)
		if err != nil || next == "" {
			return err
		}
		at = next
	}
	return &fs.PathError{Op: "open", Path: path, Err: errors.New("too many symbolic links")}
}

// checkFolders checks the folders of at, from the root to the first symbolic link, and returns at
// without that link; "" if it has none. path is what the user named.
func checkFolders(path, at string) (resolved string, err error) {
	const separator = string(filepath.Separator)
	dir := filepath.VolumeName(at) + separator
	names := strings.Split(strings.TrimPrefix(at, dir), separator) // ".." after a link is the folder above its target
	for i, name := range names {
		if name == "" || name == "." || name == ".." {
			dir = filepath.Join(dir, name)
			continue
		}
		file, last := filepath.Join(dir, name), i == len(names)-1
		info, err := os.Stat(dir)
		if err != nil {
			return "", err
		}
		if info.Mode().Perm()&0o022 != 0 && (last || info.Mode()&fs.ModeSticky == 0 || !isOurs(file)) {
			return "", &message.Error{Code: message.CodeForbidden, Op: OpConnect, What: "other users can write to " + dir + ", and put another socket at " + path, Hint: "start askance serve with --http-socket in a folder that only its user can write, for example one of mode 755"}
		}
		if info, err = os.Lstat(file); err != nil {
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(file)
			if err != nil {
				return "", err
			}
			if !filepath.IsAbs(target) {
				target = dir + separator + target
			}
			return strings.Join(append([]string{target}, names[i+1:]...), separator), nil
		}
		dir = file
	}
	return "", nil
}

// isOurs reports whether a path belongs to this user or to root, so that others cannot replace it
// in a folder with the sticky bit.
func isOurs(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return false
	}
	owner := reflect.Indirect(reflect.ValueOf(info.Sys())).FieldByName("Uid") // of a syscall.Stat_t
	return owner.IsValid() && (owner.Uint() == 0 || owner.Uint() == uint64(os.Geteuid()))
}

// Call implements api.Caller.
func (c *Client) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op.HTTP == nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: "it has no route over HTTP", Hint: "use a NATS login"}
	}
	body, err := c.send(ctx, op, request)
	if err != nil {
		return nil, err
	}
	reply, err := op.DecodeReply(maxReply, body)
	if err != nil {
		return nil, unlike(op, err)
	}
	return reply, nil
}

// Whoami returns the identity that the server derives from the token.
func (c *Client) Whoami(ctx context.Context) (who Identity, err error) {
	op := &api.Operation{Name: "whoami", HTTP: &api.HTTP{Method: http.MethodGet, Path: "/v1/whoami"}}
	if err = c.Do(ctx, op, &who); err == nil && (who.Name == "" || who.Space == "") {
		err = unlike(op, nil)
	}
	return who, err
}

// Do sends a request without members for an operation outside the table, and decodes the reply.
func (c *Client) Do(ctx context.Context, op *api.Operation, into any) error {
	body, err := c.send(ctx, op, struct{}{})
	if err != nil {
		return err
	}
	if err := strictjson.UnmarshalOpen(body, into, strictjson.MaxBytes(maxReply)); err != nil {
		return unlike(op, err)
	}
	return nil
}

// Identity is the name, the space and the roles of a token.
type Identity struct {
	Name  string           `json:"name"`
	Space toolcall.SpaceID `json:"space"`
	Roles []toolcall.Role  `json:"roles"`
}

func unlike(op *api.Operation, err error) error {
	return unavailable(op, "the reply is not one that askance sends", err)
}

func (c *Client) send(ctx context.Context, op *api.Operation, request any) ([]byte, error) {
	r, err := c.newRequest(ctx, op, request)
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(r)
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok { // nothing was sent
		return nil, &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: "cannot verify the certificate of the server at " + c.at, Hint: "make the system trust the authority that signed it; on Linux, SSL_CERT_FILE can name the file of its certificate", Err: bad.Err}
	}
	if unsafe, ok := errors.AsType[*message.Error](err); ok { // nothing was sent
		return nil, unsafe
	}
	if err != nil {
		return nil, unavailable(op, "the server at "+c.at+" does not answer", err)
	}
	defer func() { _ = res.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if err != nil || len(body) > maxReply {
		return nil, unavailable(op, "the reply was incomplete or is too large", err)
	}
	if res.StatusCode != http.StatusOK {
		return nil, refusal(op, res, body)
	}
	return body, nil
}

// isDial reports whether there was no connection over which a request could have been sent.
func isDial(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return ok && dial.Op == "dial"
}

func unavailable(op *api.Operation, what string, err error) error {
	if op.Changes && !isDial(err) {
		return &message.Error{Code: message.CodeUnknownOutcome, Op: op.Name, What: what + "; the request may have been executed", Hint: "send it again: repeating the same request is safe", Err: reasonOf(err)}
	}
	return &message.Error{Code: message.CodeUnavailable, Op: op.Name, What: what, Hint: "start askance serve, or check the URL of the server and the proxy in front of it", Err: reasonOf(err)}
}

// reasonOf leaves out the request and the addresses that Go's network errors repeat.
func reasonOf(err error) error {
	if sent, ok := errors.AsType[*url.Error](err); ok {
		err = sent.Err
	}
	if of, ok := err.(*net.OpError); ok { //nolint:errorlint // an error around it says more
		err = of.Err
	}
	if of, ok := err.(*os.SyscallError); ok { //nolint:errorlint // as above
		err = of.Err
	}
	return err
}

func (c *Client) newRequest(ctx context.Context, op *api.Operation, request any) (*http.Request, error) {
	path, query, body, err := op.HTTP.Encode(request)
	if err != nil {
		return nil, &message.Error{Code: message.CodeInvalid, Op: op.Name, What: "the request has no JSON form", Hint: "send text that is UTF-8", Err: err}
	}
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, op.HTTP.Method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Host = cmp.Or(c.Host, r.Host)
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// refusal returns the error for a reply whose status is not 200.
func refusal(op *api.Operation, res *http.Response, body []byte) error {
	e := api.ReadProblem(res.Header.Get("Content-Type"), body)
	if e == nil {
		return unavailable(op, "the server replied with status "+res.Status+", not as askance does", nil)
	}
	e.Op = op.Name
	return e
}
