package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/creds"
	"github.com/askance-dev/askance/bus/journal"
	"github.com/askance-dev/askance/cmd/askance/internal/directory"
	"github.com/askance-dev/askance/engine"
	"github.com/askance-dev/askance/executor"
	"github.com/askance-dev/askance/gateway"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/api"
	"github.com/askance-dev/askance/toolcall"
)

// tee forwards signals, and passes progress also to this process.
type tee struct {
	engine.Signals
	n *Node
}

// Progress implements engine.Signals.
func (t tee) Progress(c *toolcall.Call, p toolcall.ProgressRequest) {
	if t.n.cfg.Progress != nil {
		t.n.cfg.Progress(c, p)
	}
	t.n.heard.Tell(p)
	t.Signals.Progress(c, p)
}

// serve serves requests over NATS. The subject names the sender, and NATS permissions
// protect the subject.
func (n *Node) serve(ctx context.Context) error {
	surface := func(p toolcall.Principal, queue toolcall.Queue) api.Caller {
		if p.Role == toolcall.RoleWorker {
			return n.engine.Worker(p, queue)
		}
		return n.engine.As(p)
	}
	service, err := bus.Serve(ctx, n.conn, n.journal, surface, bus.ServiceOptions{Observer: n.engine, Auth: n.Auth(), Ledger: n.ledger, Keys: n.signing.Ring, Logger: n.cfg.Log})
	if err != nil {
		return err
	}
	n.onClose(func() error { service.Close(); return nil })
	return nil
}

// Gateway returns the space as package gateway serves it.
func (n *Node) Gateway() *gateway.Space {
	s := &gateway.Space{
		ID: n.cfg.Space,
		As: func(p toolcall.Principal) engine.Client { return n.engine.As(p) },
		Worker: func(p toolcall.Principal, queues []toolcall.Queue) api.Caller {
			return n.engine.RemoteWorker(p, queues)
		},
		Watch:    n.journal.WatchNew,
		Progress: n.heard.Add,
		Ready:    n.ready.check,
		Show:     func(c *toolcall.Call) *toolcall.Call { return n.engine.Show(c) },
	}
	for _, t := range n.cfg.Tools {
		s.Tools = append(s.Tools, t.Tool)
	}
	return s
}

// Outbox opens the outbox of the space.
func (n *Node) Outbox(ctx context.Context) (*journal.Outbox, error) {
	return journal.OpenOutbox(ctx, n.journal)
}

// lastSealTimeout bounds the last checkpoint: a stop must not take long.
const lastSealTimeout = time.Second

// openLedger opens the ledger, and makes sure that the last records are signed when the
// engine stops. If that fails, the next engine signs them.
func (n *Node) openLedger(ctx context.Context) (err error) {
	o := journal.LedgerOptions{Engine: creds.EngineName, Logger: n.cfg.Log}
	n.ledger, err = journal.OpenLedger(ctx, n.journal, o)
	if errors.Is(err, message.ErrFull) || errors.Is(err, message.ErrUnavailable) { // calls do not wait for their proof
		n.cfg.Log.Error("the ledger of checkpoints cannot be created now; the engine will try again", "err", err)
		o.Existing = true
		n.ledger, err = journal.OpenLedger(ctx, n.journal, o)
	}
	if err != nil {
		return err
	}
	n.onClose(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), lastSealTimeout)
		defer cancel()
		if _, err := n.ledger.Checkpoint(ctx); err != nil {
			n.cfg.Log.Warn("the end of the journal was not signed; the next engine will do so", "err", err)
		}
		return nil
	})
	return nil
}

// Ledger returns the ledger with the signed checkpoints of the journal.
func (n *Node) Ledger() *journal.Ledger { return n.ledger }

// lag is how long this engine can be behind another one.
func (n *Node) lag() time.Duration {
	if n.journal.Claim().Durability == journal.DurabilityQuorum {
		return 250 * time.Millisecond
	}
	return 0
}

func (n *Node) openEngine(ctx context.Context) error {
	opts := []engine.Option{
		engine.WithSigner(n.signing), engine.WithLogger(n.cfg.Log), engine.WithVersion(n.cfg.Version),
		engine.WithReadiness(n.ready.last), engine.WithPolicyStatus(n.policy.status), engine.WithPolicyText(n.policy.text), engine.WithProofs(journal.NewProofs(n.ledger)), engine.WithSignals(tee{bus.NewSignals(n.conn, n.cfg.Space, n.cfg.Log), n}),
		engine.WithWorkingDirs(n.cfg.Cwd, n.cfg.WorkingDirs...), engine.WithReminders(n.cfg.Remind),
		engine.WithReviewerLimits(n.cfg.Reviewers), engine.WithSnapshots(journal.NewSnapshots(n.ledger, n.files.Snapshot(n.cfg.Space))),
	}
	if n.cfg.NewTrace != nil {
		opts = append(opts, engine.WithNewTrace(n.cfg.NewTrace))
	}
	for _, tell := range n.cfg.Observers {
		opts = append(opts, engine.WithObserver(tell))
	}
	groups := gateway.Directory{} // the groups that people's HTTP logins name
	if n.People != nil {
		groups.Next = n.People
		opts = append(opts, engine.WithApproverKeys(n.People.ApproverKeys))
	}
	opts = append(opts, engine.WithDirectory(groups), engine.WithLag(n.lag))
	if n.cfg.Mode != "" {
		opts = append(opts, engine.WithMode(n.cfg.Mode))
	}
	if !n.cfg.Offline {
		opts = append(opts, engine.WithExecutor(n.cfg.Local))
	}
	opts = append(opts, n.cfg.Engine...)
	var err error
	if n.engine, err = engine.New(n.cfg.Space, n.journal, n.policy.Policy, n.tools, opts...); err != nil {
		return err
	}
	n.siblings.add(n)
	n.journal.Reserve(n.owedByAll)
	n.onClose(n.engine.Close)
	return n.engine.Start(ctx)
}

// engineTools returns the engine's tools, and registers a handler for each local tool that
// is a command.
func (n *Node) engineTools() ([]engine.Tool, error) {
	if n.cfg.Local == nil {
		n.cfg.Local = new(executor.Registry)
	}
	out := make([]engine.Tool, 0, len(n.cfg.Tools))
	for _, t := range n.cfg.Tools {
		out = append(out, t.Tool)
		switch {
		case n.cfg.Offline || t.Placement != toolcall.PlaceLocal:
		case len(t.Command) > 0:
			h, err := executor.Command{Argv: t.Command}.Handler()
			if err == nil {
				err = n.cfg.Local.Register(t.Name, h)
			}
			if err != nil {
				return nil, fmt.Errorf("tool %s: %w", t.Name, err)
			}
		case !n.cfg.Local.Has(t.Name):
			n.cfg.Log.Warn("nothing here can run a local tool: its calls wait for an engine that can", "tool", t.Name, "hint", "give it a command in the tools file")
		}
	}
	return out, nil
}

// readFiles reads what needs no server: the policy and the directory, or the parts of
// them that are not in a bucket, the tools, and the credentials.
func (n *Node) readFiles(ctx context.Context) (err error) {
	if n.tools, err = n.engineTools(); err != nil {
		return err
	}
	if n.policy, err = readPolicy(ctx, &n.cfg); err != nil {
		return err
	}
	if err := n.readDirectory(ctx); err != nil {
		return err
	}
	return n.readServer()
}

func (n *Node) openPolicy(ctx context.Context) (err error) {
	if n.cfg.PolicyBucket {
		n.policy, err = loadPolicy(ctx, &n.cfg, n.conn)
	}
	return err
}

// readDirectory reads the files that say who is in which group. An engine does not start
// with invalid files; files that become invalid later change nothing.
func (n *Node) readDirectory(ctx context.Context) (err error) {
	switch {
	case len(n.cfg.Directory) == 0:
		return nil
	case n.cfg.DirectoryBucket:
		_, err = directory.Load(n.cfg.Directory...)
	default:
		n.People, err = directory.Open(ctx, n.cfg.Directory, nil, n.cfg.Log)
	}
	return err
}

func (n *Node) openDirectory(ctx context.Context) error {
	if !n.cfg.DirectoryBucket {
		return nil
	}
	bucket, err := journal.OpenDirectoryBucket(ctx, n.conn, n.cfg.Space, journal.PolicyBucketOptions{Replicas: n.cfg.Replicas})
	if err != nil {
		return err
	}
	n.People, err = directory.Open(ctx, n.cfg.Directory, bucket, n.cfg.Log)
	return err
}

const (
	// lookAtJournal is how often the journal is asked whether it accepts new calls.
	lookAtJournal = time.Second
	// readyWithin bounds one such check: probes wait about as long.
	readyWithin = 2 * time.Second
)

// readiness tracks whether the journal accepts new calls. It logs each change.
type readiness struct {
	journal interface{ Ready(context.Context) error }
	log     *slog.Logger
	reason  atomic.Pointer[error] // of the last check; nil: it accepts them
}

// watch checks until ctx ends.
func (r *readiness) watch(ctx context.Context) {
	for range gateway.Every(ctx, lookAtJournal) {
		_ = r.look(ctx) // look stores and logs it
	}
}

// last returns why the journal accepted no new calls at the last check.
func (r *readiness) last() error {
	if why := r.reason.Load(); why != nil {
		return *why
	}
	return nil
}

// check returns the last error at once if there was one, else it asks the journal.
func (r *readiness) check(ctx context.Context) error {
	if err := r.last(); err != nil {
		return err
	}
	return r.look(ctx)
}

func (r *readiness) look(ctx context.Context) error {
	looking, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	err := r.journal.Ready(looking)
	if ctx.Err() != nil {
		return context.Cause(ctx) // the caller has gone: that says nothing about the journal
	}
	var next *error
	if err != nil {
		next = &err
	}
	switch before := r.reason.Swap(next); {
	case err == nil && before != nil:
		r.log.Warn("the journal accepts new calls again")
	case err != nil && before == nil && !errors.Is(err, message.ErrFull): // a full store is logged by its owner
		r.log.Error("the journal accepts no new calls", "err", err)
	}
	return err
}

// Archiving is what an engine archives while it runs.
type Archiving struct {
	// Retention says which calls; none if its OlderThan is 0.
	journal.Retention
	// Every is how often. Default: a day. Of several engines, one archives.
	Every time.Duration
}

const (
	archiveEvery = 24 * time.Hour
	// firstArchive is the latest time of the first archive after a start. It is random, so that
	// engines that start together do not archive together.
	firstArchive = time.Hour
)

// archiver archives while the engine runs.
type archiver struct {
	cfg    Archiving
	ledger *journal.Ledger
	log    *slog.Logger
}

// run completes archives that were interrupted, and archives what the settings say. alone
// means that this is the only engine of the space, which then completes them in any case.
func (a archiver) run(ctx context.Context, alone bool) {
	every := cmp.Or(a.cfg.Every, archiveEvery)
	if alone || a.cfg.OlderThan > 0 {
		a.resume(ctx)
	}
	for pause := rand.N(min(firstArchive, every)); a.cfg.OlderThan > 0; pause = every + rand.N(every/8+1) { //nolint:gosec // G404: spreading load needs no secret
		if sleep.For(ctx, pause) != nil {
			return
		}
		if age := time.Since(a.ledger.LastArchive()); age < 0 || age > every*3/4 { // else another engine archives
			a.archive(ctx)
		}
	}
}

func (a archiver) archive(ctx context.Context) {
	began := time.Now()
	done, err := a.ledger.Archive(ctx, a.cfg.Retention)
	a.reportHeldBack(done.HeldBack)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, message.ErrConflict): // probably another engine archives
		a.log.Info("finished calls were not archived; will try again later", "error", err)
	case err != nil:
		a.log.Error("finished calls could not be archived; will try again later", "error", err)
	default:
		a.log.Info("archived finished calls", "calls", done.Calls, "records", done.Records, "bytes", done.Bytes, "archives", done.Archives, "took", time.Since(began).Round(time.Millisecond).String())
	}
}

// reportHeldBack logs which destinations of webhooks keep replies in the journal.
func (a archiver) reportHeldBack(all []journal.HeldBack) {
	for _, h := range all {
		a.log.Warn("a destination of webhooks keeps old calls in the journal: if no webhooks file names it any more, run askance webhooks forget", "destination", h.Name, "replies", h.Replies, "waiting", h.Waiting)
	}
}

func (a archiver) resume(ctx context.Context) {
	done, err := a.ledger.ResumeArchives(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		a.log.Error("the records of an archive could not be deleted from the journal: run askance journal archive", "err", err)
	case done > 0:
		a.log.Info("an interrupted archive was completed", "records", done)
	}
}
