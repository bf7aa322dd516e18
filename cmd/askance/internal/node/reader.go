package node

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Reader reads a journal without an engine at work on it: nothing is decided,
// resumed or timed out because of it. It is the engine.Client of an auditor; its
// writing methods are refused.
type Reader struct {
	api.Methods
	engine  *engine.Engine // never started: it only reads
	port    *engine.Port
	journal *bus.Journal
	ledger  *bus.Ledger
	nc      *nats.Conn
	keys    *keyfile.Keys
	dir     Dir
	close   func()

	mu       sync.Mutex // guards observed
	observed bool       // the engine has read the journal
}

// OpenReader opens the journal of a data folder in which no server runs, for a
// reader of that name. keyFile is that of the space; "" is the folder's own.
// Close it: while it is open, no server can start there.
func OpenReader(ctx context.Context, dir Dir, keyFile string, space toolcall.SpaceID, name string) (*Reader, error) {
	if err := dir.Exists(); err != nil {
		return nil, err
	}
	if keyFile == "" {
		keyFile = dir.Keys()
	}
	keys, err := keyfile.Load(keyFile)
	if err != nil {
		return nil, err
	}
	server, err := embed.Start(ctx, embed.Options{StoreDir: dir.Store()})
	if err != nil {
		return nil, err
	}
	r, err := newReader(ctx, server, keys, space, name, dir.Snapshot(space))
	if err != nil {
		server.Close()
		return nil, err
	}
	r.keys, r.dir = keys, dir
	return r, nil
}

func newReader(ctx context.Context, server *embed.Server, keys *keyfile.Keys, space toolcall.SpaceID, name, snapshot string) (*Reader, error) {
	nc, err := server.Connect(ctx, bus.ConnectOptions{Principal: "askance-reader"})
	if err != nil {
		return nil, err
	}
	journal, err := openExisting(ctx, nc, server, keys, space)
	if err != nil {
		nc.Close()
		return nil, err
	}
	ledger, err := bus.OpenLedger(ctx, journal, bus.LedgerOptions{Existing: true, Engine: creds.EngineName})
	if err != nil {
		nc.Close()
		return nil, err
	}
	eng, err := engine.New(space, journal, new(permission.Bundle), nil, engine.WithSnapshots(bus.NewSnapshots(ledger, snapshot)))
	if err != nil {
		nc.Close()
		return nil, err
	}
	r := &Reader{
		engine:  eng,
		port:    eng.As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: name}),
		journal: journal,
		nc:      nc,
		ledger:  ledger,
		close: func() {
			_ = eng.Close() // it was never started, there is nothing to fail
			nc.Close()
			server.Close()
		},
	}
	r.Caller = r
	return r, nil
}

// openExisting opens the journal of a space, but makes none: a misspelled space
// must not leave an empty one behind.
func openExisting(ctx context.Context, nc *nats.Conn, server *embed.Server, keys *keyfile.Keys, space toolcall.SpaceID) (*bus.Journal, error) {
	if err := bus.CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := nc.JetStream()
	if err != nil {
		return nil, err
	}
	if _, err := js.StreamInfo(bus.StreamName(space), nats.Context(ctx)); errors.Is(err, nats.ErrStreamNotFound) {
		return nil, &message.Error{Code: message.CodeNotFound, Op: "open journal", What: "there is no space " + string(space) + " here", Hint: "name another with --space"}
	}
	return bus.OpenJournal(ctx, nc, space, keys, bus.JournalOptions{Durability: server.Durability(), Health: server.Health, Room: server.Room, Inspect: true})
}

// Ledger reads the records as they are, and what proves them. Its Checkpoint is
// the one thing that writes.
func (r *Reader) Ledger() *bus.Ledger { return r.ledger }

// Examine compares the journal with its checkpoints and with an anchor file; ""
// is that of the folder.
func (r *Reader) Examine(ctx context.Context, anchorFile string) (*bus.Exam, error) {
	if anchorFile == "" {
		anchorFile = r.dir.Anchor(r.journal.Space())
	}
	anchor, bad := bus.OpenAnchor(anchorFile, r.journal.Space(), r.keys)
	if bad != nil {
		anchor = bus.NewAnchor(anchorFile, r.journal.Space(), r.keys)
	}
	defer func() { _ = anchor.Close() }() // nothing was written
	x, err := bus.ExamineJournal(ctx, r.nc, r.journal.Space(), r.keys, anchor)
	if err == nil && bad != nil {
		x.AddFlaw(bus.FlawBadAnchor, message.AsError("", bad).What)
	}
	return x, err
}

// Close gives the folder free.
func (r *Reader) Close() error {
	r.close()
	return nil
}

// Call carries an operation out. What needs to know more than one call or
// session first reads the whole journal, once.
func (r *Reader) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if op != api.Show.Operation && op != api.Events.Operation {
		if err := r.observe(ctx); err != nil {
			return nil, err
		}
	}
	return r.port.Call(ctx, op, request)
}

func (r *Reader) observe(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.observed {
		return nil
	}
	err := r.engine.Observe(ctx)
	r.observed = err == nil
	return err
}
