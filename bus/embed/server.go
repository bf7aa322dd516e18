// Package embed runs a NATS server with JetStream inside this process.
//
// [Start] returns a [Server] that keeps its streams in one folder; a lock
// ensures that only one server uses the folder. The server survives a full disk:
// [Server.Recover] restarts it when there is room again. [Server.Health],
// [Server.Room] and [Server.Durability] fit into [journal.Options].
//
// The package knows nothing about calls, and only the folders of journals.
package embed

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/message"
)

// Options configure an embedded NATS server.
type Options struct {
	// StoreDir is the folder of the journal. It is required, and created if it is
	// missing. Only one server at a time can use it.
	StoreDir string
	// Listen is the TCP address for other processes, such as "127.0.0.1:4222"; port 0
	// means a free port, an empty host means loopback. If Listen is empty, the server
	// opens no socket and only Connect reaches it.
	Listen string
	// Durability is fsynced (the default) or cached.
	Durability journal.Durability
	// MaxStore limits the disk space of all streams, in bytes. 0 means their size at
	// the start plus three quarters of the free disk space; see [Server.RaiseLimit].
	MaxStore int64
	// MaxPayload limits one message. 0 means 8 MiB, so that a list of calls with large
	// arguments fits into one reply.
	MaxPayload int32
	// Users can log in over Listen. Without Users and Trust, any client that can reach
	// the address can act under any name, so keep it on loopback.
	Users []User
	// Trust lets only the users of a credentials folder log in. It cannot be combined
	// with Users. Login is then the credentials file for Connect, normally
	// [creds.EngineLogin].
	Trust *creds.Trust
	Login string
	// TLSCert and TLSKey are PEM files: the certificate chain and the private key
	// that encrypt connections over Listen. Empty means no encryption.
	TLSCert, TLSKey string
	// PlainText permits logins over an unencrypted network. Otherwise a server with
	// logins but no certificate can only listen on loopback.
	PlainText bool
	// Reopen permits clients without a login on a store that was served with Trust.
	// Otherwise such a store needs Trust or Users, or must not listen.
	Reopen bool
	// Rebuild makes the server count its records again and cut off what it cannot
	// read. Damaged descriptions of streams are renamed.
	Rebuild bool
	// AddressFiles are files that a killed server may have left with its addresses, which another
	// server can have now. Start removes them.
	AddressFiles []string
	// Logger logs the messages of the server. Nil means no log.
	Logger *slog.Logger
}

// User logs in to an embedded server with a password.
type User struct {
	Name, Password string
	Permissions    bus.Permissions
}

const (
	defaultMaxPayload = 8 << 20
	clientPing        = 5 * time.Second // a client that misses two pings is disconnected
	maxPingsOut       = 2
	readyTimeout      = 30 * time.Second // reading millions of event records takes long
)

// Server is a NATS server with JetStream inside this process.
type Server struct {
	running    atomic.Pointer[server.Server] // nil before the start
	opts       *server.Options               // for a restart, with the port in use
	log        *slog.Logger
	lock       io.Closer
	durability journal.Durability
	password   string      // of the in-process user; "" if there are no users
	account    string      // the NATS account of the journals
	login      string      // credentials file of Connect; "" without Trust
	encryption *encryption // of Listen; nil without TLS
	fixedLimit bool        // of the store
	url        string
	changing   sync.Mutex // held while the server or its accounts are replaced
	closed     bool       // guarded by changing
}

// Start starts a server and returns when it accepts connections. Its errors are
// *message.Error and can wrap [ErrStoreLocked] or [ErrStoreUnwritable].
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{durability: o.Durability, log: o.Logger, fixedLimit: o.MaxStore > 0}
	s.durability = cmp.Or(s.durability, journal.DurabilityFsynced)
	opts, err := s.serverOptions(o)
	if err != nil {
		return nil, err
	}
	if s.lock, err = Lock(filepath.Join(o.StoreDir, lockName), o.StoreDir, "stop it, or choose another folder"); err != nil {
		return nil, err
	}
	_ = os.Remove(probeFile(o.StoreDir)) // a killed process may have left it
	for _, path := range o.AddressFiles {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.Close()
			return nil, unwritableError(path, err)
		}
	}
	if err := s.claimStore(o); err != nil {
		s.Close()
		return nil, err
	}
	if opts.JetStreamMaxStore, err = storeLimit(o); err != nil {
		s.Close()
		return nil, err
	}
	s.opts = opts
	err = s.start(ctx, opts.Clone())
	if err == nil && o.Rebuild {
		err = s.setAsideMeta(o.StoreDir)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if a, ok := s.runningServer().Addr().(*net.TCPAddr); ok {
		s.opts.Port, s.url = a.Port, "nats://"+a.String()
		if s.encryption != nil {
			s.url = "tls://" + a.String()
		}
	}
	return s, nil
}

// Check returns why [Start] would refuse the options, and starts nothing.
func (o Options) Check() error {
	s := &Server{durability: o.Durability}
	s.durability = cmp.Or(s.durability, journal.DurabilityFsynced)
	_, err := s.serverOptions(o)
	return err
}

func (s *Server) start(ctx context.Context, opts *server.Options) error {
	const op = "start embedded NATS"
	ns, err := server.NewServer(opts)
	if err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: "the server refuses its options", Hint: "check the options", Err: err}
	}
	s.running.Store(ns)
	l := &serverLog{log: cmp.Or(s.log, slog.New(slog.DiscardHandler)).With("component", "nats-server")}
	ns.SetLoggerV2(l, false, false, false)
	ns.Start()
	wait := readyTimeout
	if end, ok := ctx.Deadline(); ok {
		wait = max(0, min(wait, time.Until(end)))
	}
	if err := l.fatalError(); err != nil {
		if at := net.JoinHostPort(opts.Host, strconv.Itoa(opts.Port)); strings.Contains(err.Error(), "address already in use") {
			return &message.Error{Code: message.CodeUnavailable, Op: op, What: "another process listens on " + at, Hint: "stop it, or choose another address with --listen; port 0 takes a free one"}
		}
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server did not start", Hint: "check the listen address and the store folder " + opts.StoreDir, Err: err}
	}
	if !ns.ReadyForConnections(wait) || !ns.JetStreamEnabled() {
		return &message.Error{Code: message.CodeUnavailable, Op: op, What: "the server was not ready after " + wait.String(), Hint: "check its log", Err: context.Cause(ctx)}
	}
	return nil
}

func (s *Server) serverOptions(o Options) (*server.Options, error) {
	const op = "start embedded NATS"
	invalid := func(what, hint string) error {
		return &message.Error{Code: message.CodeInvalid, Op: op, What: what, Hint: hint}
	}
	switch {
	case o.StoreDir == "":
		return nil, invalid("the store folder is not set", "name one")
	case s.durability != journal.DurabilityFsynced && s.durability != journal.DurabilityCached:
		return nil, invalid("an embedded server cannot have the durability "+errtext.Quote(string(s.durability)), "use fsynced or cached")
	case o.MaxStore < 0 || o.MaxPayload < 0:
		return nil, invalid("a limit is negative", "use 0 for the default")
	}
	opts := &server.Options{
		ServerName: "askance",
		JetStream:  true, StoreDir: o.StoreDir, SyncAlways: s.durability == journal.DurabilityFsynced,
		MaxPayload: o.MaxPayload,
		DontListen: o.Listen == "", NoSigs: true,
		PingInterval: clientPing, MaxPingsOut: maxPingsOut,
		NoSublistCache: true, // nearly every message has a subject of its own, which would only push out others
	}
	opts.MaxPayload = cmp.Or(opts.MaxPayload, defaultMaxPayload)
	opts.MaxPending = max(server.MAX_PENDING_SIZE, 4*int64(opts.MaxPayload))
	if o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || perr != nil {
			return nil, invalid("the listen address "+errtext.Quote(o.Listen)+" is not host:port", "write 127.0.0.1:4222, or 127.0.0.1:0 for a free port")
		}
		host = cmp.Or(host, "127.0.0.1")
		opts.Host, opts.Port = host, int(n)
		if n == 0 {
			opts.Port = server.RANDOM_PORT
		}
	}
	var err error
	if s.encryption, err = o.readTLS(); err != nil {
		return nil, err
	}
	if opts.TLS = s.encryption != nil; opts.TLS {
		opts.TLSConfig = s.encryption.tlsConfig()
	}
	return opts, s.setLogins(opts, o)
}

// claimStore prepares the store for the server's account.
func (s *Server) claimStore(o Options) error {
	if err := o.checkTrust(); err != nil {
		return err
	}
	if o.Rebuild { // engines create consumers again, and the server makes indexes from the records
		stream := filepath.Join("*", "streams", "*")
		if err := removeInStore(o.StoreDir, filepath.Join(stream, "msgs", "index.db"), filepath.Join(stream, "obs")); err != nil {
			return err
		}
	}
	return moveJournals(o.StoreDir, s.account)
}

// setLogins sets who can log in.
func (s *Server) setLogins(opts *server.Options, o Options) error {
	s.account = openAccount
	switch {
	case o.Trust != nil && len(o.Users) > 0:
		return &message.Error{Code: message.CodeInvalid, Op: "start embedded NATS", What: "the server has both users with passwords and credentials", Hint: "choose one"}
	case o.Trust != nil:
		s.account, s.login = o.Trust.Account(), o.Login
		return o.Trust.Configure(opts)
	case len(o.Users) > 0:
		s.password = rand.Text()
		opts.Users = serverUsers(o.Users, s.password)
	}
	return nil
}

// inProcessUser is the user for Connect if there are Users.
const inProcessUser = "askance-in-process"

func serverUsers(users []User, password string) []*server.User {
	out := []*server.User{{Username: inProcessUser, Password: password}}
	for _, u := range users {
		out = append(out, &server.User{Username: u.Name, Password: u.Password, Permissions: &server.Permissions{
			Publish: allowOnly(u.Permissions.Publish), Subscribe: allowOnly(u.Permissions.Subscribe),
		}})
	}
	return out
}

// allowOnly allows only these subjects. (NATS reads an empty list as all subjects.)
func allowOnly(subjects []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects}
}

// Connect opens a connection within the process, with all permissions, or with those of
// a credentials file if the server has Trust.
func (s *Server) Connect(ctx context.Context, o bus.ConnectOptions) (*nats.Conn, error) {
	switch {
	case s.password != "":
		o.User, o.Password = inProcessUser, s.password
	case o.CredsFile == "":
		o.CredsFile = s.login
	}
	return bus.ConnectInProcess(ctx, s, o)
}

// URL returns the URL for other processes, or "" without Listen.
func (s *Server) URL() string { return s.url }

// Durability returns what an acknowledgement of this server means.
func (s *Server) Durability() journal.Durability { return s.durability }

// Close stops the server and waits until it has stopped. It may be called again, and is
// safe for concurrent use.
func (s *Server) Close() {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.runningServer() != nil {
		if err := s.stop(); err != nil && s.log != nil {
			s.log.Error("cannot remove the indexes of broken streams: the next start may report a damaged journal", "err", err)
		}
		secretfile.KeepOwners(s.opts.StoreDir)
	}
	if s.lock != nil {
		_ = s.lock.Close() // the end of the process also unlocks
	}
}

const opUseTrust = "load credentials"

// UseTrust updates the account of a running server and immediately disconnects revoked
// users.
func (s *Server) UseTrust(t *creds.Trust) error {
	if s.account != t.Account() {
		return &message.Error{Code: message.CodeInvalid, Op: opUseTrust, What: "these credentials belong to another account", Hint: "restart the server"}
	}
	s.changing.Lock() // a restart reads the resolver's accounts
	defer s.changing.Unlock()
	account, err := s.runningServer().LookupAccount(s.account)
	if err == nil {
		err = s.runningServer().AccountResolver().Store(s.account, t.AccountToken())
	}
	if err != nil {
		return message.Errorf(message.CodeInternal, opUseTrust, "account %s: %w", s.account, err)
	}
	s.runningServer().UpdateAccountClaims(account, t.AccountClaims())
	return nil
}

// serverLog forwards the server's messages and keeps the first fatal one, which
// the server otherwise only prints.
type serverLog struct {
	log   *slog.Logger
	mu    sync.Mutex // guards first
	first error

	refused sampler // of subjects that a client may not use
	clients sampler // of other errors that name a client
}

// sampler permits one line a second of a kind that a client can cause any number of times, some
// of them without a login.
type sampler struct {
	n  atomic.Int64 // since the last line
	at atomic.Int64 // when that was, in Unix nanoseconds
}

// countDue returns how many errors the next line stands for; 0: none is due.
func (s *sampler) countDue() int64 {
	n, now, last := s.n.Add(1), time.Now().UnixNano(), s.at.Load()
	if last != 0 && now-last < int64(time.Second) || !s.at.CompareAndSwap(last, now) {
		return 0
	}
	s.n.Add(-n)
	return n
}

func (l *serverLog) fatalError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l *serverLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	of := &l.clients
	switch {
	case strings.Contains(text, " Violation"):
		of = &l.refused
	case !strings.Contains(text, " - cid:"):
		l.log.Error(text)
		return
	}
	if n := of.countDue(); n > 0 {
		l.log.Error(text, "count", n)
	}
}

func (l *serverLog) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	l.log.Debug(err.Error()) // start reports it
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = cmp.Or(l.first, err)
}

const opUseTLS = "use TLS"

// encryption is the certificate of a server that can be renewed while the server runs.
type encryption struct {
	cert, key string // files
	now       atomic.Pointer[tls.Certificate]
}

// readTLS reads the server's certificate; nil if there is none. It refuses logins from other
// machines without encryption.
func (o Options) readTLS() (*encryption, error) {
	if (o.TLSCert == "") != (o.TLSKey == "") {
		return nil, &message.Error{Code: message.CodeInvalid, Op: opUseTLS, What: "the certificate or its key is missing", Hint: "name both files"}
	}
	if o.TLSCert == "" {
		host, _, err := net.SplitHostPort(o.Listen)
		if err == nil && host != "" && !bus.OnLoopback(host) && (o.Trust != nil || len(o.Users) > 0) && !o.PlainText {
			return nil, &message.Error{Code: message.CodeInvalid, Op: "start embedded NATS", What: "logins and calls would cross the network from " + o.Listen + " in plain text", Hint: "give the server a certificate, listen on 127.0.0.1, or permit plain text"}
		}
		return nil, nil //nolint:nilnil // documented
	}
	e := &encryption{cert: o.TLSCert, key: o.TLSKey}
	return e, e.read()
}

func (e *encryption) read() error {
	cert, err := secretfile.Read(opUseTLS, e.cert, false)
	if err != nil {
		return err
	}
	key, err := secretfile.Read(opUseTLS, e.key, true)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return &message.Error{Code: message.CodeInvalid, Op: opUseTLS, What: e.cert + " and " + e.key + " are not a certificate and its key", Hint: "name a certificate chain and a private key in PEM", Err: err}
	}
	e.now.Store(&pair)
	return nil
}

func (e *encryption) tlsConfig() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return e.now.Load(), nil
	}}
}

// RenewCertificate reads the certificate again, for connections from now on. After an error the
// last one stays.
func (s *Server) RenewCertificate() error {
	if s.encryption == nil {
		return nil
	}
	return s.encryption.read()
}

// Certificate returns the server's certificate in PEM, or nil without TLS.
func (s *Server) Certificate() []byte {
	if s.encryption == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.encryption.now.Load().Certificate[0]})
}
