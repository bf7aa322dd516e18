package journal

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/internal/secretfile"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/plainfile"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options may be left zero.
type Options struct {
	// Stream shapes a new stream.
	Stream StreamOptions
	// Durability is what an acknowledgement means, as the operator states it or as the
	// embedded server's Durability method returns it. Quorum needs a stream with three
	// replicas. Empty means not stated.
	Durability Durability
	// Syncs asks a server by name whether it syncs before it acknowledges: see
	// [SyncsBeforeAck]. A server whose answer is an error counts as not asked. If Syncs
	// is nil, no server can be asked.
	Syncs func(ctx context.Context, server string) (bool, error)
	// HeadRoom is how many bytes of a bounded store are reserved for open calls: new
	// calls and events are refused with CodeFull rather than use it. The tightest bound
	// of stream, account and embedded server counts. 0 means a tenth of it, at most 64 MiB.
	HeadRoom int64
	// Room returns what the limits of the whole store leave: the embedded server's
	// Room method. If nil, only the limits of stream and account are known.
	Room func() Room
	// Health is the embedded server's Health method. Only a *HealthError that names
	// the space's stream counts. Nil means unknown.
	Health func() error
	// Keys returns the space's current keys if they can be rotated while the
	// journal is open: see [keyfile.Live]. Nil means the keys it was opened with.
	Keys func() *keyfile.Keys
	// Publisher stores event records. Nil means a Batched.
	Publisher  Publisher
	asksHealth bool // Health was set
	// Anchor records outside the store how far the journal had got, to detect the loss
	// of journal and checkpoints together. If nil, only checkpoints are compared.
	Anchor *Anchor
	// Archives has the archived records of the journal. If it is nil and anything was
	// archived, new calls are refused.
	Archives ArchiveStore
	// Inspect also opens a damaged journal, which then refuses writes.
	Inspect bool
	// Logger logs what happens while the journal is opened and watched. Nil means no log.
	Logger *slog.Logger
}

// Journal is a space's journal on JetStream; it implements engine.Journal.
// It authenticates the event records that it writes and checks those that it
// reads. A message that no engine with these keys wrote becomes an entry with
// Invalid set, and never counts as the state of anything.
//
// All methods are safe for concurrent use. Closing the connection ends the journal,
// which itself holds nothing to close.
type Journal struct {
	*queues
	space    toolcall.SpaceID
	replicas int       // of the stream when it was opened, and of what the space stores later
	created  time.Time // of the stream: a stream created at another time is another journal
	store    reader
	codec    codec
	guard    *guard
	pub      Publisher
	claims   *claims
	room     *room
	storing  storing
	chain    *chain
	voids    *voids

	unsealed unsealed
	log      *slog.Logger
	// pauseAfter is how long an acknowledgement can take while this process runs; 0:
	// jsapi.AttemptTimeout.
	pauseAfter time.Duration
}

// Open opens the journal of a space and creates its stream if there is
// none. CodeForeignStream means that another program made the stream, that it belongs
// to other engine keys, or that its guarantees were weakened. CodeDamaged means that
// it lacks records that its checkpoints or its anchor name.
func Open(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, o Options) (*Journal, error) {
	if err := CheckReplicas(o.Stream.Replicas); err != nil {
		return nil, err
	}
	if o.Durability == DurabilityQuorum && o.Stream.Replicas == 0 {
		o.Stream.Replicas = quorumReplicas // for a stream that has to be created
	}
	j, err := newJournal(nc, space, keys, o)
	if err != nil {
		return nil, err
	}
	x, err := j.guard.admitJournal(ctx, streamConfig(space, keys.ID(), o.Stream))
	if err != nil {
		return nil, err
	}
	info, err := createOrCheck(ctx, j.store.js, "open journal", streamConfig(space, keys.ID(), o.Stream))
	if err != nil {
		return nil, err
	}
	j.created = info.Created
	if err := checkStated(o.Stream.Replicas, info, o.Durability); err != nil {
		return nil, err
	}
	j.replicas = max(1, info.Config.Replicas)
	if !o.Inspect {
		j.voids.learn = j.guard.learnArchivesFor
	}
	if err := j.claims.computeFirst(ctx, info, o.Syncs); err != nil {
		return nil, err
	}
	if err := j.guard.settleAnchor(x, o.Logger); err != nil {
		return nil, err
	}
	j.room.set(o.HeadRoom, j.room.readLimits(ctx, info))
	return j, nil
}

// newJournal connects the parts of a journal and reads nothing.
func newJournal(nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, o Options) (*Journal, error) {
	if err := bus.CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, jsapi.Error("open journal", "JetStream of this connection", err)
	}
	if o.Keys == nil {
		o.Keys = func() *keyfile.Keys { return keys }
	}
	if o.asksHealth = o.Health != nil; !o.asksHealth {
		o.Health = func() error { return nil }
	}
	store := reader{nc: nc, js: js, stream: bus.StreamName(space), lag: &lag{}}
	known := &bases{store: store, list: toolcall.BaseCache{MaxBytes: maxBaseBytes}}
	j := &Journal{
		space: space, store: store, codec: codec{space: space, keys: keys, bases: known}, pub: o.Publisher,
		claims: &claims{stated: o.Durability, server: nc.ConnectedServerName()},
		chain:  &chain{store: store}, log: cmp.Or(o.Logger, noLog),
	}
	if j.pub == nil {
		j.pub = NewBatched(nc, j.syncsEach)
	}
	j.queues = &queues{js: js, space: space, codec: j.codec}
	j.guard = newGuard(store, j.codec, o)
	j.codec.bases.archives = j.guard.archives
	j.voids = &voids{store: store, codec: j.codec, archives: j.guard.archives}
	j.chain.isVoid = j.voids.isVoid
	j.room = &room{store: store, server: o.Room, observe: j.claims.observeInfo}
	return j, nil
}

var noLog = slog.New(slog.DiscardHandler)

// Space returns the space of the journal.
func (j *Journal) Space() toolcall.SpaceID { return j.space }

// Durability returns what Append guarantees when it returns: cached, fsynced or quorum.
func (j *Journal) Durability() string { return string(j.Claim().Durability) }

// syncsEach reports whether the server syncs each request before it acknowledges it.
// With a quorum, the server syncs together what arrives together.
func (j *Journal) syncsEach() bool {
	c := j.claims.now.Load()
	return c != nil && c.Durability == DurabilityFsynced
}

// WhyAssumed implements engine.AssumingJournal.
func (j *Journal) WhyAssumed() string {
	if c := j.Claim(); c.Assumed {
		return c.Why
	}
	return ""
}

// HasNewAnchor implements engine.AssumingJournal.
func (j *Journal) HasNewAnchor() bool { return j.guard.newAnchor }

// Claim returns the durability with the reason for it.
func (j *Journal) Claim() DurabilityClaim { return *j.claims.now.Load() }

// Ready returns why the journal accepts no new calls now: it lost records, NATS or a quorum
// of its servers does not answer or cannot write, the index of an archive cannot be read, or
// the store is full.
func (j *Journal) Ready(ctx context.Context) error {
	if err := j.guard.checkWritable(); err != nil {
		return err
	}
	if !j.store.nc.IsConnected() {
		return &message.Error{Code: message.CodeUnavailable, Op: "ready", What: "the engine has no connection to NATS", Hint: "check that a NATS server runs; the engine reconnects automatically"}
	}
	if err := j.guard.whyBroken(); err != nil {
		return &message.Error{Code: message.CodeFull, Op: "ready", What: "the store no longer writes: nothing is decided or started", Hint: restartHint, Err: err}
	}
	if err := j.guard.checkReachable(ctx, j.claims.observeInfo); err != nil {
		return err
	}
	if err := cmp.Or(j.storing.check(), j.guard.archives.checkReadable("ready")); err != nil {
		return err
	}
	if err := j.room.check(ctx); err != nil {
		return &message.Error{Code: message.CodeFull, Op: "ready", What: "the store has too little room left: new calls are refused", Hint: "let open calls finish, then make room: " + growHint, Err: err}
	}
	return nil
}

// Reserve sets the function that returns how many bytes the open calls still need.
// The journal keeps them free in addition to the head-room.
func (j *Journal) Reserve(owed func() int64) { j.room.reserveOwed(owed) }

// LoadOrCreateSpaceKeys is [keyfile.LoadOrCreate] for a space with an anchor. It creates
// the anchor before the keys: if keys have no anchor, a missing journal was lost, and if a
// used anchor has no keys, they were lost.
func LoadOrCreateSpaceKeys(keyPath, anchorPath string) (*keyfile.Keys, error) {
	if _, err := os.Stat(keyPath); errors.Is(err, fs.ErrNotExist) {
		if err := CreateAnchor(anchorPath); err != nil {
			return nil, err
		}
		b, _, err := plainfile.Read(anchorPath, 2*anchorBlock)
		switch {
		case err != nil:
			return nil, secretfile.Error("open anchor", anchorPath, err)
		case string(b) == anchorText: // new
		case !isFile(keyPath): // not even now: no other process created the anchor and then the keys
			return nil, &message.Error{Code: message.CodeForeignStream, Op: "load engine keys", What: "the key file " + keyPath + " is missing, but the anchor " + anchorPath + " says that the journal exists", Hint: "restore the key file from a backup, or name it with --keys"}
		}
	}
	return keyfile.LoadOrCreate(keyPath)
}
