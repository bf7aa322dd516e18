package bustest

import (
	"context"
	"os"
	"testing"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
)

// Main runs the tests of a package that uses New inside a bubble.
func Main(m *testing.M) {
	ats.Register()
	os.Exit(m.Run())
}

// Dir is a folder for a server's store, to be made before a bubble begins.
func Dir(t testing.TB) string {
	t.Helper()
	return t.TempDir()
}

// Option changes the server that New starts.
type Option func(*bus.ServerOptions)

// In keeps the store in dir. Default: a new folder.
func In(dir string) Option { return func(o *bus.ServerOptions) { o.StoreDir = dir } }

// Fsynced makes the server write through to the disk. Default: cached, which is
// faster and no weaker against anything that a test can do.
func Fsynced() Option { return func(o *bus.ServerOptions) { o.Durability = bus.DurabilityFsynced } }

// Listening opens a TCP socket on a free loopback port. Not inside a bubble.
func Listening() Option { return func(o *bus.ServerOptions) { o.Listen = "127.0.0.1:0" } }

// With changes the options at will.
func With(f func(*bus.ServerOptions)) Option { return f }

// Bus is a running server and what a test needs to talk to it.
type Bus struct {
	*bus.Server
	t    testing.TB
	keys *bus.Keys
}

// New starts a server, which stops when the test ends.
func New(t testing.TB, opts ...Option) *Bus {
	t.Helper()
	o := bus.ServerOptions{Durability: bus.DurabilityCached}
	for _, f := range opts {
		f(&o)
	}
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := bus.StartServer(t.Context(), o)
	if err != nil {
		t.Fatalf("start NATS: %v", err)
	}
	t.Cleanup(s.Close)
	keys, err := bus.NewKeys()
	if err != nil {
		t.Fatalf("make keys: %v", err)
	}
	return &Bus{Server: s, t: t, keys: keys}
}

// Keys are the engine keys of this bus.
func (b *Bus) Keys() *bus.Keys { return b.keys }

// UseKeys replaces them: for a second server on the store of a first.
func (b *Bus) UseKeys(k *bus.Keys) { b.keys = k }

// Conn opens a connection with every right for a principal. It is closed when
// the test ends.
func (b *Bus) Conn(principal string) *nats.Conn {
	b.t.Helper()
	nc, err := b.Connect(context.Background(), bus.ConnectOptions{Principal: principal})
	if err != nil {
		b.t.Fatalf("connect as %s: %v", principal, err)
	}
	b.t.Cleanup(nc.Close)
	return nc
}

// Journal opens a space's journal on a connection of its own.
func (b *Bus) Journal(space message.SpaceID) *bus.Journal {
	b.t.Helper()
	return b.JournalWith(space, bus.JournalOptions{Durability: b.Durability(), Health: b.Health})
}

// JournalWith is Journal with options.
func (b *Bus) JournalWith(space message.SpaceID, o bus.JournalOptions) *bus.Journal {
	b.t.Helper()
	j, err := bus.OpenJournal(context.Background(), b.Conn("engine"), space, b.keys, o)
	if err != nil {
		b.t.Fatalf("open journal: %v", err)
	}
	return j
}
