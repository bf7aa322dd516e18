package node

import (
	"cmp"
	"context"
	"errors"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Reader reads a journal without running an engine on it: it decides nothing, resumes nothing and
// lets nothing time out. It is the engine.Client of an auditor; its writing methods are refused.
type Reader struct {
	api.Methods
	engine  *engine.Engine // never started: it only reads
	port    *engine.Port
	journal *journal.Journal
	ledger  *journal.Ledger
	nc      *nats.Conn
	keys    *keyfile.Keys
	dir     Dir // with the files of the space
	close   func()

	mu       sync.Mutex // guards observed
	observed bool       // the engine has read the journal
}

// OpenReader opens the journal of a data folder in which no server runs, for a reader
// with the given name. keyFile is the key file of the space; "" is the folder's own. The
// caller must close the Reader: while it is open, no server can start there.
func OpenReader(ctx context.Context, dir Dir, keyFile string, space toolcall.SpaceID, name string) (*Reader, error) {
	if err := dir.Exists(); err != nil {
		return nil, err
	}
	options := embed.Options{StoreDir: dir.Store(), AddressFiles: dir.Addresses()}
	dir = dir.Files(space)
	keys, err := keyfile.Load(cmp.Or(keyFile, dir.Keys()))
	if err != nil {
		return nil, err
	}
	server, err := embed.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	r, err := newReader(ctx, server, keys, space, name, dir)
	if err != nil {
		server.Close()
		return nil, err
	}
	r.keys, r.dir = keys, dir
	return r, nil
}

func newReader(ctx context.Context, server *embed.Server, keys *keyfile.Keys, space toolcall.SpaceID, name string, dir Dir) (*Reader, error) {
	nc, err := server.Connect(ctx, bus.ConnectOptions{Principal: "askance-reader"})
	if err != nil {
		return nil, err
	}
	j, err := openExisting(ctx, nc, server, keys, space, dir)
	if err != nil {
		nc.Close()
		return nil, err
	}
	ledger, err := journal.OpenLedger(ctx, j, journal.LedgerOptions{Existing: true, Engine: creds.EngineName})
	if err != nil {
		nc.Close()
		return nil, err
	}
	eng, err := engine.New(space, j, new(permission.Bundle), nil, engine.WithSnapshots(journal.NewSnapshots(ledger, dir.Snapshot(space))))
	if err != nil {
		nc.Close()
		return nil, err
	}
	r := &Reader{
		engine:  eng,
		port:    eng.As(toolcall.Principal{Role: toolcall.RoleAuditor, Name: name}),
		journal: j,
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

// openExisting opens the journal of a space, but does not create one: a misspelled space
// must not leave an empty journal behind.
func openExisting(ctx context.Context, nc *nats.Conn, server *embed.Server, keys *keyfile.Keys, space toolcall.SpaceID, dir Dir) (*journal.Journal, error) {
	if err := checkSpaceExists(ctx, nc, space); err != nil {
		if _, serr := os.Stat(dir.Anchor(space)); serr == nil && !journal.IsBlankAnchor(dir.Anchor(space)) && errors.Is(err, message.ErrNotFound) {
			err = &message.Error{Code: message.CodeDamaged, Op: "open journal", What: "the journal of the space " + string(space) + " is gone, but its anchor file " + dir.Anchor(space) + " is there", Hint: "restore a backup, or see askance journal check"}
		}
		return nil, err
	}
	return journal.Open(ctx, nc, space, keys, journal.Options{Durability: server.Durability(), Health: server.Health, Room: server.Room, Archives: ArchivesOf(nc, server, dir, space), Inspect: true})
}

func checkSpaceExists(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID) error {
	if err := bus.CheckSpace(space); err != nil {
		return err
	}
	js, err := nc.JetStream()
	if err != nil {
		return err
	}
	if _, err := js.StreamInfo(bus.StreamName(space), nats.Context(ctx)); errors.Is(err, nats.ErrStreamNotFound) {
		return &message.Error{Code: message.CodeNotFound, Op: "open journal", What: "there is no journal of the space " + string(space) + " here", Hint: "start askance serve, or name another space with --space; if there was one, see askance journal check"}
	}
	return nil
}

// Ledger returns the stored records and their proofs. Its Checkpoint is the only
// operation that writes.
func (r *Reader) Ledger() *journal.Ledger { return r.ledger }

// Verified returns the record of what auditors of the folder verified.
func (r *Reader) Verified() *journal.Verified {
	return journal.NewVerified(r.ledger, r.dir.Verified(r.journal.Space()))
}

// Compare compares the journal with its checkpoints and with an anchor file; "" is the
// folder's own.
func (r *Reader) Compare(ctx context.Context, anchorFile string) (*journal.Exam, error) {
	anchorFile = cmp.Or(anchorFile, r.dir.Anchor(r.journal.Space()))
	anchor, bad := journal.OpenAnchor(anchorFile, r.journal.Space(), r.keys)
	if bad != nil {
		anchor = journal.NewAnchor(anchorFile, r.journal.Space(), r.keys)
	}
	defer func() { _ = anchor.Close() }() // nothing was written
	x, err := journal.Compare(ctx, r.nc, r.journal.Space(), r.keys, anchor)
	if err == nil && bad != nil {
		x.AddFlaw(journal.FlawBadAnchor, message.AsError("", bad).What)
	}
	return x, err
}

// Close releases the folder.
func (r *Reader) Close() error {
	r.close()
	return nil
}

// Call performs an operation. An operation on more than one call or session first reads
// the whole journal, once.
func (r *Reader) Call(ctx context.Context, op *api.Operation, request any) (any, error) {
	if list, ok := request.(toolcall.ListRequest); ok {
		if found, err := r.listNamed(ctx, list); found != nil {
			return *found, err
		}
	}
	if op != api.Show.Operation && op != api.Events.Operation {
		if err := r.observe(ctx); err != nil {
			return nil, err
		}
	}
	return r.port.Call(ctx, op, request)
}

// listNamed lists the calls of an id without reading the whole journal. It returns nil if
// r asks for anything else, or if that failed.
func (r *Reader) listNamed(ctx context.Context, list toolcall.ListRequest) (*toolcall.ListReply, error) {
	named := toolcall.ListRequest{V: list.V, Session: list.Session, Reply: list.Reply, Call: list.Call, All: list.All, Limit: list.Limit}
	if list.Call == "" || !reflect.DeepEqual(list, named) {
		return nil, nil
	}
	keys := []toolcall.Key{{Space: r.journal.Space(), Session: list.Session, Reply: list.Reply, Call: list.Call}}
	if list.Session == "" || list.Reply == "" {
		var err error
		if keys, err = journal.KeysOf(ctx, r.journal, list.Call); err != nil {
			return nil, nil //nolint:nilerr // the list that reads everything reports the error
		}
	}
	out := &toolcall.ListReply{Calls: []*toolcall.Call{}}
	for _, key := range keys {
		if list.Session != "" && key.Session != list.Session || list.Reply != "" && key.Reply != list.Reply {
			continue
		}
		shown, err := api.Show.Call(ctx, r.port, toolcall.ShowRequest{V: 1, Key: key})
		if errors.Is(err, message.ErrNotFound) { // there is no such call
			continue
		}
		if err != nil {
			return &toolcall.ListReply{}, err
		}
		if list.All || shown.Call.Open() {
			out.Calls = append(out.Calls, shown.Call)
		}
	}
	slices.SortFunc(out.Calls, func(a, b *toolcall.Call) int { return cmp.Compare(a.First, b.First) })
	return out, nil
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
