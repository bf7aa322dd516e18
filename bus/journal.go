package bus

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/keyfile"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JournalOptions may be left zero.
type JournalOptions struct {
	// Stream shapes the stream if it has to be made.
	Stream StreamOptions
	// Durability is what the operator states of the servers' acknowledgements, or
	// what Server.Durability says of an embedded one. Quorum is refused of a stream
	// without three replicas. Empty: nothing is stated.
	Durability Durability
	// Syncs asks a server by its name whether it syncs before it acknowledges: see
	// [SyncsBeforeAck]. Servers that it gives an error for count as not asked. Nil:
	// they cannot be asked.
	Syncs func(ctx context.Context, server string) (bool, error)
	// HeadRoom is how many bytes of a bounded store are reserved for open calls.
	// New calls and events are refused with CodeFull before it is used. 0: a tenth of the bound, at most 64 MiB. The stream, the account and an
	// embedded server (see Room) may each have a bound; the tightest counts.
	HeadRoom int64
	// Room tells what the limits of the whole store leave: Server.Room of an
	// embedded server. Nil: only the stream's and the account's are known.
	Room func() Room
	// Health tells of a store that does not write any more, where that can be
	// known: Server.Health of an embedded server. Only a *HealthError that names
	// the space's stream as broken counts. Nil: it is not known.
	Health func() error
	// Keys gives the space's keys as they are now, if they are rotated while the
	// journal is open: see [keyfile.Live]. Nil: those that it is opened with.
	Keys func() *keyfile.Keys
	// Publisher stores event records. Nil: one request each.
	Publisher Publisher
	// Anchor remembers outside of the store how far the journal was, so that a loss
	// of journal and checkpoints together is noticed. Nil: the checkpoints alone
	// tell.
	Anchor *Anchor
	// Inspect opens a damaged journal, too. Nothing can be written to it then.
	Inspect bool
	// Logger gets what is worth knowing about the opening. Nil: nothing is logged.
	Logger *slog.Logger
}

// Journal is a space's journal on JetStream; it implements engine.Journal.
// Event records that it writes are authenticated, and event records that it reads are checked:
// whatever was not written by an engine with these keys comes back as a Record
// with Invalid set and is never taken for the state of anything.
//
// All methods may be called from many goroutines at once. Closing the
// connection ends it; the journal itself holds nothing to close.
type Journal struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	space   toolcall.SpaceID
	stream  string
	created time.Time            // of the stream: another one of that name is another journal
	keys    *keyfile.Keys        // authenticates event records, for ever
	signing func() *keyfile.Keys // signs checkpoints now
	pub     Publisher
	health  func() error
	claimed atomic.Pointer[DurabilityClaim]
	source  claimSource
	room    room
	store   func() Room
	queues  queueSet
	chain   chain

	anchor  *Anchor
	inspect bool
	high    atomic.Uint64   // the highest sequence that was acknowledged or delivered
	missing atomic.Uint64   // sequences without a record that operators accepted
	ended   context.Context //nolint:containedctx // the life of the journal: it ends when records are lost
	finish  context.CancelCauseFunc

	lossMu sync.Mutex // guards losses
	losses []proof.Loss
}

// OpenJournal opens the journal of a space and makes its stream if there is
// none. A stream that something else made, that belongs to other engine keys or
// that was weakened is an error with CodeForeignStream. A journal that lacks
// records which its checkpoints or its anchor know is one with CodeDamaged.
func OpenJournal(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, o JournalOptions) (*Journal, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, apiError("open journal", "JetStream of this connection", err)
	}
	if o.Durability == DurabilityQuorum && o.Stream.Replicas == 0 {
		o.Stream.Replicas = quorumReplicas // of a stream that has to be made
	}
	j := &Journal{
		nc: nc, js: js, space: space, stream: StreamName(space), keys: keys, pub: o.Publisher, health: o.Health, store: o.Room, anchor: o.Anchor, inspect: o.Inspect,
		source: claimSource{stated: o.Durability, server: nc.ConnectedServerName()},
	}
	j.ended, j.finish = context.WithCancelCause(context.Background())
	if j.signing = o.Keys; j.signing == nil {
		j.signing = func() *keyfile.Keys { return keys }
	}
	if j.pub == nil {
		j.pub = NewDirect(nc)
	}
	if j.health == nil {
		j.health = func() error { return nil }
	}
	x, err := j.admit(ctx, streamConfig(space, keys.ID(), o.Stream))
	if err != nil {
		return nil, err
	}
	info, err := ensureStream(ctx, js, space, keys.ID(), o.Stream)
	if err != nil {
		return nil, err
	}
	j.created = info.Created
	if err := j.claim(ctx, info, o.Syncs); err != nil {
		return nil, err
	}
	if err := j.settleAnchor(x, o.Logger); err != nil {
		return nil, err
	}
	j.room.set(o.HeadRoom, j.limits(ctx, info))
	return j, nil
}

// claim computes the first claim, after asking the servers that hold the stream.
func (j *Journal) claim(ctx context.Context, info *jetstream.StreamInfo, ask func(context.Context, string) (bool, error)) error {
	switch j.source.stated {
	case "", DurabilityCached, DurabilityFsynced, DurabilityQuorum:
	default:
		return &message.Error{Code: message.CodeInvalid, Op: "open journal", What: "there is no durability " + errtext.Quote(string(j.source.stated)), Hint: "state cached, fsynced or quorum"}
	}
	var unasked error
	j.source.syncs = map[string]bool{}
	for _, server := range j.source.holders(info) {
		if ask == nil {
			break
		}
		always, err := ask(ctx, server)
		if err != nil {
			unasked = err
			continue
		}
		j.source.syncs[server] = always
	}
	c, err := j.source.claim(info)
	if err != nil {
		return err
	}
	if c.Assumed && unasked != nil {
		c.Why = unasked.Error()
	}
	j.claimed.Store(&c)
	return nil
}

// observe takes over what a fresh reading of the stream says. A stream that lost
// replicas since the start is claimed to be no more than it is.
func (j *Journal) observe(info *jetstream.StreamInfo) {
	c, _ := j.source.claim(info) // an error comes with the least claim
	j.claimed.Store(&c)
}

// broken says why the stream takes nothing any more; nil: it is not known to.
func (j *Journal) broken() error {
	err := j.health()
	if h, ok := errors.AsType[*HealthError](err); ok && slices.Contains(h.Broken, j.stream) {
		return err
	}
	return nil
}

// Space is the space whose journal it is.
func (j *Journal) Space() toolcall.SpaceID { return j.space }

// Durability names what Append's return means: cached, fsynced or quorum.
func (j *Journal) Durability() string { return string(j.Claim().Durability) }

// Claim is Durability with the reason.
func (j *Journal) Claim() DurabilityClaim { return *j.claimed.Load() }
