package askance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// folder is a data folder with the journal of an app, and the server that uses it.
type folder struct {
	path    string
	space   toolcall.SpaceID
	log     *slog.Logger
	locks   []io.Closer // no other engine uses the folder or the anchor file
	keys    *keyfile.Live
	server  *embed.Server
	conn    *nats.Conn
	anchor  *journal.Anchor
	journal *journal.Journal
	ledger  *journal.Ledger
	service *bus.Service // nil: no other process can connect
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// openFolder opens a data folder, and makes it if it is missing. The folder that it returns
// must be closed even if there is an error.
func openFolder(ctx context.Context, o options) (*folder, error) {
	f := &folder{path: o.data, space: o.space, log: o.log}
	keyPath, anchorPath := filepath.Join(f.path, "engine.key"), filepath.Join(f.path, "anchors", string(f.space))
	folderLock, err := embed.LockFolder(f.path)
	if err != nil {
		return f, err
	}
	f.locks = append(f.locks, folderLock)
	anchorLock, err := embed.LockAnchor(anchorPath)
	if err != nil {
		return f, err
	}
	f.locks = append(f.locks, anchorLock)
	keys, err := journal.LoadOrCreateSpaceKeys(keyPath, anchorPath)
	if err != nil {
		return f, err
	}
	f.keys = keyfile.NewLive(keyPath, keys)
	if f.server, err = embed.Start(ctx, embed.Options{StoreDir: filepath.Join(f.path, "nats"), AddressFiles: []string{f.endpoint(), filepath.Join(f.path, "console")}, Listen: o.listen, Logger: f.log}); err != nil {
		return f, err
	}
	if f.conn, err = f.server.Connect(ctx, bus.ConnectOptions{Principal: creds.EngineName, Logger: f.log}); err != nil {
		return f, err
	}
	if f.anchor, err = journal.OpenAnchor(anchorPath, f.space, keys); err != nil {
		return f, err
	}
	f.journal, err = journal.Open(ctx, f.conn, f.space, keys, journal.Options{
		Durability: f.server.Durability(), Health: f.server.Health, Room: f.server.Room, Keys: f.keys.Now, Anchor: f.anchor, Logger: f.log,
	})
	if err != nil {
		return f, err
	}
	if f.ledger, err = journal.OpenLedger(ctx, f.journal, journal.LedgerOptions{Engine: creds.EngineName, Logger: f.log}); err != nil {
		return f, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f.stop = stop
	f.wg.Go(func() { _ = f.ledger.Run(running, journal.Pace{}) }) // ends when running does; it logs all other errors
	return f, f.keys.Publish(filepath.Join(f.path, "engine.pub"))
}

func (f *folder) signals() engine.Signals { return bus.NewSignals(f.conn, f.space, f.log) }

func (f *folder) endpoint() string { return filepath.Join(f.path, "endpoint") }

// serve accepts requests of other processes, and tells the askance command where.
func (f *folder) serve(ctx context.Context, e *engine.Engine) (err error) {
	surface := func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		if p.Role == toolcall.RoleWorker {
			return e.Worker(p, queue)
		}
		return e.As(p)
	}
	f.service, err = bus.Serve(ctx, f.conn, f.journal, surface, bus.ServiceOptions{Observer: e, Auth: bus.AuthSubject, Ledger: f.ledger, Keys: f.keys.Ring, Logger: f.log})
	if err != nil {
		return err
	}
	return plainfile.Replace(f.endpoint(), []byte(f.server.URL()+"\n")) // writes through no link
}

// stopServing stops accepting requests of other processes.
func (f *folder) stopServing() error {
	if f.service == nil {
		return nil
	}
	f.service.Close()
	if err := os.Remove(f.endpoint()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// lastSealTimeout bounds the last checkpoint.
const lastSealTimeout = time.Second

// close signs the end of the journal and stops the server.
func (f *folder) close() error {
	var err error
	if f.stop != nil {
		f.stop()
		f.wg.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), lastSealTimeout)
		defer cancel()
		if _, serr := f.ledger.Checkpoint(ctx); serr != nil {
			f.log.Warn("the end of the journal was not signed; the next engine will do so", "err", serr)
		}
	}
	if f.anchor != nil {
		err = errors.Join(err, f.anchor.Close())
	}
	if f.conn != nil {
		f.conn.Close()
	}
	if f.server != nil {
		f.server.Close()
	}
	for _, lock := range f.locks {
		err = errors.Join(err, lock.Close())
	}
	return err
}
