// Package node wires an engine: keys and journal of a data folder (or of a NATS
// cluster), policy, tools, and the service that takes requests.
//
//	n, err := node.Start(ctx, node.Config{Dir: dir, Listen: "127.0.0.1:4222", Policy: paths, Tools: tools})
//	…
//	defer n.Close()
//
// A data folder has:
//
//	engine.key     the secrets of the space's engines (mode 0600)
//	engine.pub     the keys with which workers check grants
//	askance.lock   locked by the one engine process of the folder
//	nats/          the store of the embedded server; one process at a time
//	archive/       archived records, if any
//	snapshots/     the engine's state, so that it need not read the whole journal
//	policies/      the last policies that were in force, for people
//	spaces/NAME/   the files of a space that is served in addition to the first one
//	endpoint       the URL of the embedded server, while it runs
//	console        the URL of the web console, while it runs
//	last-run.yaml  the settings of the engine that last ran (written by package cli)
//
// OpenReader reads the journal of a folder in which no server runs, and
// changes nothing in it: no timer fires, no call is resumed.
package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/embed"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/cmd/askance/internal/toolfile"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/permission"
	"github.com/askance-dev/askance/toolcall"
)

// Config says what to run. Dir and Space are required.
type Config struct {
	Dir   Dir
	Space toolcall.SpaceID
	// First is the node of the first space of the process, in the same data folder: this one
	// uses its server, has its files in spaces/ and ends before it. Failed of the first node
	// reports a failure of either.
	First *Node

	// Listen is the address of the embedded server; "" opens no socket.
	Listen string
	// CredsDir is a credentials folder: only its logins can connect to the embedded
	// server. "": every connection can use any name.
	CredsDir string
	// Reopen permits leaving out CredsDir if it was used before.
	Reopen bool
	// NATS is the URL of an existing server instead of the embedded one.
	NATS, Creds string
	// Cert and Key are the files that encrypt connections over Listen; CA has the certificates of
	// the authorities trusted for NATS. PlainText permits logins beyond this machine without TLS.
	Cert, Key, CA string
	PlainText     bool
	// Durability of the embedded server, or what the operator of an existing one
	// states. "": the embedded server syncs, an existing one is asked.
	Durability journal.Durability
	// Replicas of a new journal and its buckets on an existing cluster, and the fewest
	// that an existing journal must have; see journal.StreamOptions.
	Replicas int
	// SystemCreds is a login of the system account of an existing server, to ask it
	// when it syncs. "": it is not asked.
	SystemCreds string
	// Keys is the file with the space's secrets; "" is that of Dir. Start creates it
	// if it does not exist.
	Keys string
	// Anchor is the file that records the last known sequence; "" is that of Dir.
	Anchor string

	Policy []string // rule files and folders; none: everything asks
	// PolicyBucket also reads rule files from the space's bucket; see journal.PolicyBucket.
	PolicyBucket bool
	// Shadow are rule files and folders of a policy that decides nothing and is
	// compared with the one in force.
	Shadow []string
	Mode   permission.Mode
	// Directory are files that say which groups people are in; DirectoryBucket also
	// reads those of the space's bucket.
	Directory       []string
	DirectoryBucket bool
	Tools           []toolfile.Tool
	ToolsFile       string // where Tools come from; a change is only logged
	ToolsText       []byte // the text of ToolsFile when it was parsed
	// Cwd is the folder in which the tools run, WorkingDirs are others in which they
	// can edit files if the mode permits it.
	Cwd         string
	WorkingDirs []string
	// Remind is after how long inboxes are reminded of an approval request without a
	// change; 0: never.
	Remind time.Duration
	// Reviewers are the limits of approvers.
	Reviewers toolcall.ReviewerLimits
	// Engine are more options of the engine.
	Engine []engine.Option
	// Local has Go functions for local tools. Commands of Tools are added to it.
	Local *executor.Registry

	// Pace is how often the journal is signed; zero: as journal.Pace says.
	Pace journal.Pace
	// Archiving is what the engine archives.
	Archiving Archiving

	// Offline opens the journal for one request: it serves no other clients and runs no tool here.
	Offline bool
	// Observers are called for each record that the engine writes.
	Observers []func(engine.Written)
	// NewTrace gives a trace to calls that have none. It may be nil.
	NewTrace func(toolcall.Key) toolcall.Trace
	// Progress, if set, gets what running calls report.
	Progress func(*toolcall.Call, toolcall.ProgressRequest)

	// Checked, if set, is called after all files and the folder were checked and before
	// anything starts; its error ends the start.
	Checked func(context.Context) error

	Version string
	Log     *slog.Logger
}

// Node is a running engine. Its methods may be called from several goroutines.
type Node struct {
	connection
	keyring

	cfg     Config
	tools   []engine.Tool
	journal *journal.Journal
	ledger  *journal.Ledger
	ready   readiness
	policy  policy
	People  *directory.Live // the groups of people; nil: there are none
	engine  *engine.Engine
	heard   gateway.Listeners // of progress
	// siblings are all nodes of the process, the first one first.
	siblings *siblings
	owed     atomic.Int64 // disk space that the open calls of the space still need
	failed   chan error   // why the node cannot continue; has room for one

	wg   sync.WaitGroup
	once sync.Once
	down []func() error // what Close calls, in reverse order
}

// Start starts everything, or nothing: after an error it closes what it has started.
// It checks all files before it binds a port or touches the journal.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	collectLessOften()
	n := newNode(cfg)
	n.onClose(n.connection.close)
	for _, step := range []func(context.Context) error{n.readFiles, n.callChecked, n.lockFolder, n.openKeys, n.checkOwnKeys, n.lockAnchor, n.openBus, n.openJournal, n.openLedger, n.writePublic, n.openPolicy, n.openDirectory, n.openEngine, n.open} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.Close())
		}
	}
	return n, nil
}

// roomyHeap is how much garbage a process may have before it collects it.
const roomyHeap = 128 << 20

// collectLessOften saves processor time while the heap is small: each collection marks the
// whole live heap, and by default comes after garbage of the same size. GOGC and GOMEMLIMIT
// switch it off.
var collectLessOften = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		setCollection(new(int))
	}
})

// setCollection adapts to the size of the heap: a finalizer calls it after each collection.
func setCollection(last *int) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if percent := collectAt(live[0].Value.Uint64()); percent != *last {
		debug.SetGCPercent(percent)
		*last = percent
	}
	runtime.SetFinalizer(&struct{ last *int }{last}, func(s *struct{ last *int }) { go setCollection(s.last) })
}

// collectAt returns a GOGC, a multiple of 50, that permits garbage of roomyHeap or of the
// live heap's size.
func collectAt(live uint64) int {
	return int(min(max(roomyHeap*2/max(live, 1)*50, 100), 1600))
}

func newNode(cfg Config) *Node {
	n := &Node{cfg: cfg, failed: make(chan error, 1), siblings: new(siblings)}
	n.connection.cfg, n.keyring.cfg, n.files = &n.cfg, &n.cfg, cfg.Dir.Files(cfg.Space)
	if cfg.First != nil {
		n.files, n.siblings = cfg.Dir.further(cfg.Space), cfg.First.siblings
	}
	return n
}

func (n *Node) onClose(f func() error) { n.down = append(n.down, f) }

// Close stops serving requests, lets running local calls end, and closes the journal.
// It waits for all of this and may be called again.
func (n *Node) Close() error {
	var err error
	n.once.Do(func() {
		for _, v := range slices.Backward(n.down) {
			err = errors.Join(err, v())
		}
	})
	return err
}

// callChecked reports a folder in use before it calls Checked, which opens listeners.
func (n *Node) callChecked(ctx context.Context) error {
	if !n.cfg.Offline && n.cfg.First == nil && embed.InUse(string(n.cfg.Dir)) { // it creates no folder
		lock, err := embed.LockFolder(string(n.cfg.Dir))
		if err == nil { // the other process has just ended
			err = lock.Close()
		}
		if err != nil {
			return err
		}
	}
	if n.cfg.Checked == nil {
		return nil
	}
	return n.cfg.Checked(ctx)
}

// lockFolder excludes other engines that would write to the same files.
func (n *Node) lockFolder(context.Context) error {
	if n.cfg.Offline || n.cfg.First != nil {
		return nil
	}
	lock, err := embed.LockFolder(string(n.cfg.Dir))
	if err == nil {
		n.onClose(lock.Close)
		_ = os.Remove(n.cfg.Dir.Console()) // a killed server left it; this one may have no web console
	}
	return err
}

func (n *Node) lockAnchor(context.Context) error {
	lock, err := lockAnchor(n.anchorPath(), n.cfg.Log)
	if err == nil {
		n.onClose(lock.Close)
	}
	return err
}

// lockAnchor excludes other engines that would write to the same anchor. In a folder that cannot be
// written, it locks nothing.
func lockAnchor(path string, log *slog.Logger) (io.Closer, error) {
	lock, err := embed.LockAnchor(path)
	if errors.Is(err, embed.ErrStoreUnwritable) { // for example, the anchor alone is mounted
		log.Warn("nothing keeps another engine from the anchor file", "err", err)
		return io.NopCloser(nil), nil
	}
	return lock, err
}

func (n *Node) openJournal(ctx context.Context) (err error) {
	anchor, err := journal.OpenAnchor(n.anchorPath(), n.cfg.Space, n.keys)
	if err != nil {
		return err
	}
	n.onClose(anchor.Close)
	o := journal.Options{Stream: journal.StreamOptions{Replicas: n.cfg.Replicas}, Durability: n.cfg.Durability, Keys: n.signing.Now, Anchor: anchor, Archives: ArchivesOf(n.conn, n.server, n.files, n.cfg.Space), Logger: n.cfg.Log}
	if n.server != nil {
		o.Durability, o.Health, o.Room = n.server.Durability(), n.server.Health, n.server.Room
	} else if n.cfg.SystemCreds != "" {
		system, err := n.connectToSystem(ctx)
		if err != nil {
			return err
		}
		defer system.Close()
		o.Syncs = func(ctx context.Context, server string) (bool, error) {
			return journal.SyncsBeforeAck(ctx, system, server)
		}
	}
	n.journal, err = journal.Open(ctx, n.conn, n.cfg.Space, n.keys, o)
	if err != nil {
		return err
	}
	n.ready.journal, n.ready.log = n.journal, n.cfg.Log
	if n.server == nil && !n.cfg.Offline {
		if c := n.journal.Claim(); c.Assumed { // the server may have more
			n.cfg.Log.Warn("the durability of the journal is unknown, so the least is claimed: state it with --durability, or let the engine ask with --nats-system-creds", "durability", string(c.Durability), "why", c.Why)
		}
		n.logReplicas(ctx)
	}
	return nil
}

// logReplicas warns about streams that are lost with one server of a cluster.
func (n *Node) logReplicas(ctx context.Context) {
	if n.cfg.Replicas == 1 || n.conn.ConnectedClusterName() == "" {
		return
	}
	switch raised, err := journal.LevelReplicas(ctx, n.conn, n.cfg.Space); {
	case err != nil:
		n.cfg.Log.Warn("streams of the space have fewer replicas than the journal; run askance journal replicas", "err", err)
	case len(raised) > 0:
		n.cfg.Log.Info("streams of the space get as many replicas as the journal", "streams", raised)
	}
	streams, err := journal.Replication(ctx, n.conn, n.cfg.Space)
	if err != nil {
		n.cfg.Log.Warn("the replicas of the space are unknown", "err", err)
	}
	for _, s := range streams {
		if s.Replicas == 1 {
			n.cfg.Log.Warn("a stream of the space has one replica on a cluster: everything stops while its server is down; run askance journal replicas 3, or state --replicas 1", "stream", s.Stream, "server", s.Leader)
		}
	}
}

// open starts serving: the last step, when everything works.
func (n *Node) open(ctx context.Context) error {
	if n.cfg.Offline {
		return nil
	}
	n.policy.keepHistory(ctx, n.files.Policies(n.cfg.Space), n.cfg.Log)
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	n.wg.Go(func() { n.policy.watch(watching, n.cfg.Log) })
	if n.cfg.First == nil {
		n.wg.Go(func() { n.watchTrust(watching) })
		n.wg.Go(func() { n.watchCertificate(watching) })
		n.wg.Go(func() { n.watchStore(watching, n.fail) })
	}
	n.wg.Go(func() { n.watchKeys(watching, n.engine.Renew) })
	n.wg.Go(func() { n.forwardFailure(watching) })
	n.wg.Go(func() { n.ready.watch(watching) })
	if n.People != nil {
		n.wg.Go(func() { n.People.Watch(watching, reloadEvery) })
	}
	if n.cfg.ToolsFile != "" {
		n.wg.Go(func() { watchTools(watching, n.cfg.ToolsFile, n.cfg.ToolsText, n.cfg.Log) })
	}
	n.wg.Go(func() { archiver{n.cfg.Archiving, n.ledger, n.cfg.Log}.run(watching, n.server != nil) })
	n.wg.Go(func() { _ = n.ledger.Run(watching, n.cfg.Pace) }) // ends with watching, and logs all other errors
	n.onClose(func() error { stop(); n.wg.Wait(); return nil })
	if err := n.serve(ctx); err != nil {
		return err
	}
	url := n.URL()
	if url == "" || n.server == nil || n.cfg.First != nil {
		return nil
	}
	n.onClose(func() error {
		if err := os.Remove(n.cfg.Dir.Endpoint()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
	return n.cfg.Dir.writeEndpoint(url, n.server.Certificate())
}

// Journal returns the journal.
func (n *Node) Journal() *journal.Journal { return n.journal }

// Engine returns the engine.
func (n *Node) Engine() *engine.Engine { return n.engine }

// PolicyStatus returns the status of the policy.
func (n *Node) PolicyStatus() api.PolicyStatusReply { return n.policy.status() }

// Failed delivers an error when the node cannot continue.
func (n *Node) Failed() <-chan error { return n.failed }

// Files returns the folder with the files of the space.
func (n *Node) Files() Dir { return n.files }

// fail ends the node with an error; only the first one is reported. It also ends the other
// spaces: a process that served the rest would hide the failure from its supervisor.
func (n *Node) fail(err error) {
	if all := n.siblings.nodes(); len(all) > 1 {
		err = fmt.Errorf("space %s: %w", n.cfg.Space, err)
		n = all[0]
	}
	select {
	case n.failed <- err:
	default:
	}
}

// forwardFailure reports why the engine cannot continue, until ctx ends.
func (n *Node) forwardFailure(ctx context.Context) {
	select {
	case err := <-n.engine.Failed():
		n.fail(err)
	case <-ctx.Done():
	}
}

// siblings are the nodes of one process. They share the disk of one server, and the
// failure of one ends all.
type siblings struct {
	mu  sync.Mutex
	all []*Node
}

func (s *siblings) nodes() []*Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.all)
}

func (s *siblings) add(n *Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, n)
}

// owedByAll returns the disk space that the open calls of all spaces still need. Each space
// counts its own, so one with many calls does not slow down the others.
func (n *Node) owedByAll() (sum int64) {
	n.owed.Store(n.engine.Owed())
	for _, other := range n.siblings.nodes() {
		sum += other.owed.Load()
	}
	return sum
}

// Check reads the files of a node as [Start] does, and starts nothing.
func Check(ctx context.Context, cfg Config) error {
	cfg.Log = slog.New(slog.DiscardHandler) // Start logs the same
	n := newNode(cfg)
	if err := n.readFiles(ctx); err != nil {
		return fmt.Errorf("space %s: %w", cfg.Space, err)
	}
	return checkMoved(cfg)
}

// checkMoved refuses to give new keys to a space that was served alone before.
func checkMoved(cfg Config) error {
	d := cfg.Dir
	if d.Files(cfg.Space) != d {
		return nil
	}
	if _, err := os.Stat(d.Anchor(cfg.Space)); err != nil {
		return nil //nolint:nilerr // it was not served alone
	}
	return &message.Error{Code: message.CodeInvalid, Op: "open space", What: fmt.Sprintf("space %s was served alone, with the keys in %s", cfg.Space, d), Hint: "serve it with --space " + string(cfg.Space)}
}

// checkOwnKeys refuses the keys of another space of the process.
func (n *Node) checkOwnKeys(context.Context) error {
	for _, other := range n.siblings.nodes() {
		if other.KeyID() == n.KeyID() {
			return &message.Error{Code: message.CodeInvalid, Op: "open space", What: fmt.Sprintf("spaces %s and %s have the same keys", other.cfg.Space, n.cfg.Space), Hint: "give each space its own key file"}
		}
	}
	return nil
}
