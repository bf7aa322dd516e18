package e2e_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/toolcall"
)

const (
	space = toolcall.SpaceID("e2e")
	// patience bounds every wait of these tests. Only a defect uses it up.
	patience = 5 * time.Minute
	// lease is the lease of every tool: an owner that is silent for longer counts as dead.
	lease = 800 * ms
	// slack is what processes may add to a checked bound, in addition to the time that the machine
	// had for no process: see busy.
	slack = 2 * time.Second

	ms = time.Millisecond
)

// world is a set of processes around one journal, with all files in one folder.
type world struct {
	t    testing.TB
	dir  string
	keys *keyfile.Keys
	url  string // of NATS
	port int    // of an external NATS
	obs  *observer
	conn *nats.Conn // the test's own connection, with all rights

	records *journal.Journal // over conn

	*dice // for the test's own goroutine

	mu    sync.Mutex // guards procs and acked
	procs []*process
	acked []ack

	tally tally
}

// tally is what a test prints at the end.
type tally struct {
	kills, calls, attempts, effects, unknown, unknownRemote, acked, checkpoints int
}

// newWorld makes the files; methods of the world add processes.
func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, dir: dir, dice: newDice(t.Name(), "")}
	t.Logf("to repeat: %s=%d", seedVar, seed)
	var err error
	if w.keys, err = keyfile.LoadOrCreate(w.file("engine.key")); err != nil {
		t.Fatal(err)
	}
	if err := w.keys.WritePublic(w.file("engine.pub")); err != nil {
		t.Fatal(err)
	}
	w.tools(allTools...)
	if err := os.MkdirAll(w.effects(), 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// tools writes the declarations of the tools for engines that start later.
func (w *world) tools(names ...string) {
	w.t.Helper()
	w.write("policy.yaml", policyFile(names))
	w.write("tools.yaml", toolsFile(w.effects(), names))
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }
func (w *world) effects() string         { return w.file("effects") }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// process adds a process to those that must not end on their own. sign is what it prints when it is
// ready.
func (w *world) process(name, sign string, argv ...string) *process {
	w.t.Helper()
	p := newProcess(w.t, w.dir, name, sign, argv...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs = append(w.procs, p)
	return p
}

// mind ends the test if a process has ended that the test did not kill.
func (w *world) mind() {
	w.t.Helper()
	w.mu.Lock()
	procs := w.procs
	w.mu.Unlock()
	for _, p := range procs {
		if err := p.died(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// kills returns how often processes were killed.
func (w *world) kills() int {
	n := 0
	for _, p := range w.procs {
		p.mu.Lock()
		n += p.kills
		p.mu.Unlock()
	}
	return n
}

// restarts returns how often engines were started again without having been killed.
func (w *world) restarts() int {
	n := 0
	for _, p := range w.procs {
		p.mu.Lock()
		if p.sign == servesSign {
			n += p.restarted
		}
		p.mu.Unlock()
	}
	return n
}

// connect opens a connection for a principal. It reconnects faster than askance's own connections.
func (w *world) connect(principal string) *nats.Conn {
	w.t.Helper()
	var nc *nats.Conn
	eventually(w.t, "connect to NATS", func() bool {
		w.mind()
		var err error
		nc, err = bus.Connect(context.Background(), w.url, bus.ConnectOptions{Principal: principal, Extra: []nats.Option{
			nats.CustomReconnectDelay(func(int) time.Duration { return 20 * time.Millisecond }),
		}})
		return err == nil
	})
	w.t.Cleanup(nc.Close)
	return nc
}

// watch begins to observe the journal once NATS and an engine are up.
func (w *world) watch() {
	w.t.Helper()
	w.conn = w.connect("observer")
	w.records = w.journal(w.conn)
	w.obs = observe(w.t, w.records)
}

// seen reports whether the observer has seen everything that the journal has now. After a fault it
// may be seconds behind.
func (w *world) seen() bool {
	ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
	defer cancel()
	head, err := w.records.Head(ctx)
	return err == nil && w.obs.reached(head)
}

// journal opens the journal as an engine would.
func (w *world) journal(nc *nats.Conn) *journal.Journal {
	w.t.Helper()
	j, _, err := persist(requestLimit, "open the journal", func(ctx context.Context) (*journal.Journal, error) {
		return journal.Open(ctx, nc, space, w.keys, journal.Options{})
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// killAt kills p at a seeded random moment of up to spread after seen. It returns the time at which
// p was certainly dead.
func (w *world) killAt(p *process, seen <-chan struct{}, spread time.Duration, what string) time.Time {
	w.t.Helper()
	delay := w.between(0, spread)
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-seen:
			<-time.After(delay)
			if !p.kill() {
				w.t.Fatalf("%s was dead before the test killed it", p.name)
			}
			return time.Now()
		case <-tick.C:
			w.mind()
		case <-deadline.C:
			w.t.Fatalf("%s: not seen within %s\n%s", what, patience, w.obs.open())
			return time.Time{}
		}
	}
}

// nextPort counts through ports below those that systems use for outgoing connections: a client
// that reconnects to one of those may connect to itself.
var nextPort atomic.Uint32

// freePort returns a loopback port on which no process listens and which no other test of this run
// has received.
func freePort(t testing.TB) int {
	t.Helper()
	first := binary.LittleEndian.Uint16(binary.LittleEndian.AppendUint64(nil, seed*2654435761+uint64(os.Getpid())))
	for range 1000 {
		port := 20_000 + (int(first)+int(nextPort.Add(1)))%10_000
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}
