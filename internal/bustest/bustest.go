package bustest

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/toolcall"
)

// Main runs the tests of a package that uses New inside a bubble.
func Main(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}

// Dir returns a folder for a server's store. Call it before a bubble begins.
func Dir(t testing.TB) string {
	t.Helper()
	// The client keeps timers of the bubble in a sync.Pool, which another bubble must not get.
	t.Cleanup(func() { runtime.GC(); runtime.GC() })
	return t.TempDir()
}

// Option changes the server that New starts.
type Option func(*embed.Options)

// In keeps the store in dir instead of a new folder.
func In(dir string) Option { return func(o *embed.Options) { o.StoreDir = dir } }

// Fsynced makes the server write through to the disk. The default is cached, which is faster and
// equally safe against anything that a test can do.
func Fsynced() Option { return func(o *embed.Options) { o.Durability = journal.DurabilityFsynced } }

// Listening opens a TCP socket on a free loopback port. It does not work inside a bubble.
func Listening() Option { return func(o *embed.Options) { o.Listen = FreeAddress() } }

// With changes the options directly.
func With(f func(*embed.Options)) Option { return f }

// Bus is a running server and everything that a test needs to use it.
type Bus struct {
	*embed.Server
	t    testing.TB
	o    embed.Options // as the server was started
	keys *keyfile.Keys

	spaces atomic.Int32 // that NewSpace opened
}

// New starts a server, which stops when the test ends.
func New(t testing.TB, opts ...Option) *Bus {
	t.Helper()
	o := embed.Options{Durability: journal.DurabilityCached}
	for _, f := range opts {
		f(&o)
	}
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	keys, err := keyfile.New()
	if err != nil {
		t.Fatalf("make keys: %v", err)
	}
	b := &Bus{t: t, o: o, keys: keys}
	b.start()
	return b
}

func (b *Bus) start() {
	b.t.Helper()
	s, err := embed.Start(b.t.Context(), b.o)
	if err != nil {
		b.t.Fatalf("start NATS: %v", err)
	}
	b.t.Cleanup(s.Close)
	b.Server = s
}

// Restart stops the server and starts it again on the same folder and, if it listens, the
// same port. Connections of Dial reconnect, those of Conn do not. No other goroutine may use
// b during the restart.
func (b *Bus) Restart() {
	b.t.Helper()
	b.Close()
	b.start()
}

// Keys returns the engine keys of this bus.
func (b *Bus) Keys() *keyfile.Keys { return b.keys }

// UseKeys replaces the keys, for a second server on the store of a first.
func (b *Bus) UseKeys(k *keyfile.Keys) { b.keys = k }

// Conn opens a connection with all permissions for a principal. It is closed when the test
// ends.
func (b *Bus) Conn(principal string) *nats.Conn {
	b.t.Helper()
	nc, err := b.Connect(context.Background(), bus.ConnectOptions{Principal: principal})
	if err != nil {
		b.t.Fatalf("connect as %s: %v", principal, err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// Dial is like Conn over TCP, and survives a Restart. The server must listen.
func (b *Bus) Dial(principal string) *nats.Conn {
	b.t.Helper()
	nc, err := bus.Connect(context.Background(), b.URL(), bus.ConnectOptions{Principal: principal})
	if err != nil {
		b.t.Fatalf("connect as %s: %v", principal, err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// Journal opens a space's journal on its own connection.
func (b *Bus) Journal(space toolcall.SpaceID) *journal.Journal {
	b.t.Helper()
	return b.JournalWith(space, journal.Options{Durability: b.Durability(), Health: b.Health, Room: b.Room})
}

// JournalWith is like Journal, with options.
func (b *Bus) JournalWith(space toolcall.SpaceID, o journal.Options) *journal.Journal {
	b.t.Helper()
	j, err := journal.Open(context.Background(), b.Conn("engine"), space, b.keys, o)
	if err != nil {
		b.t.Fatalf("open journal: %v", err)
	}
	return j
}

// NewSpace opens the journal of a space of its own, on a connection that closes after t.
func (b *Bus) NewSpace(t testing.TB) *journal.Journal {
	t.Helper()
	nc, err := b.Connect(t.Context(), bus.ConnectOptions{Principal: "engine"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	space := toolcall.SpaceID(fmt.Sprint("s", b.spaces.Add(1)))
	j, err := journal.Open(t.Context(), nc, space, b.keys, journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Ports that systems do not assign. A restarted server must find its port free, but the
// system could meanwhile assign another port to a listener or a connection.
const (
	firstPort = 10_000
	ports     = 10_000
	// portsEach is the distance between the first ports of two test processes.
	portsEach = 97
)

var lastPort atomic.Uint32

// FreeAddress returns a loopback address without a listener that no other test of this process
// received.
func FreeAddress() string {
	for range ports {
		n := uint32(os.Getpid())*portsEach + lastPort.Add(1)
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+n%ports)
		if l, err := net.Listen("tcp", addr); err == nil {
			_ = l.Close()
			return addr
		}
	}
	return "127.0.0.1:0" // none of these ports is free
}
