package bus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/askance-dev/askance/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// JournalOptions may be left zero.
type JournalOptions struct {
	// Stream shapes the stream if it has to be made.
	Stream StreamOptions
	// Durability is what a single server's acknowledgement means; the server does
	// not tell. Pass Server.Durability of an embedded one, or fsynced for an
	// external one that has sync_interval: always. Default: cached, the least.
	// With three or more replicas it is quorum whatever is said here.
	Durability Durability
	// HeadRoom is how many bytes of a bounded stream are kept for finishing what
	// has begun: new calls and events are refused with CodeFull before it is
	// used. 0: a tenth of the stream's bound, at most 64 MiB.
	HeadRoom int64
	// Health tells of a store that does not write any more, where that can be
	// known: Server.Health of an embedded server. Only a *HealthError that names
	// the space's stream as broken counts. Nil: it is not known.
	Health func() error
	// Keys gives the space's keys as they are now, if they are rotated while the
	// journal is open: see [LiveKeys]. Nil: those that it is opened with.
	Keys func() *Keys
	// Publisher stores facts. Nil: one request each.
	Publisher Publisher
}

// Journal is a space's journal on JetStream; it implements engine.Journal.
// Facts that it writes are authenticated, and facts that it reads are checked:
// whatever was not written by an engine with these keys comes back as a Record
// with Invalid set and is never taken for the state of anything.
//
// All methods may be called from many goroutines at once. Closing the
// connection ends it; the journal itself holds nothing to close.
type Journal struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	space   message.SpaceID
	stream  string
	created time.Time    // of the stream: another one of that name is another journal
	keys    *Keys        // authenticates facts, for ever
	signing func() *Keys // signs checkpoints now
	pub     Publisher
	health  func() error
	ack     Durability
	room    room
	lanes   laneSet
	chain   chain
}

// OpenJournal opens the journal of a space and makes its stream if there is
// none. It refuses with CodeForeignStream a stream that something else made,
// that belongs to other engine keys or that was weakened.
func OpenJournal(ctx context.Context, nc *nats.Conn, space message.SpaceID, keys *Keys, o JournalOptions) (*Journal, error) {
	if err := CheckSpace(space); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, apiError("open journal", "JetStream of this connection", err)
	}
	info, err := ensureStream(ctx, js, space, keys.ID(), o.Stream)
	if err != nil {
		return nil, err
	}
	j := &Journal{
		nc: nc, js: js, space: space, stream: info.Config.Name, created: info.Created,
		keys: keys, pub: o.Publisher, health: o.Health, ack: durabilityOf(info, o.Durability),
	}
	if j.signing = o.Keys; j.signing == nil {
		j.signing = func() *Keys { return keys }
	}
	if j.pub == nil {
		j.pub = NewDirect(nc)
	}
	if j.health == nil {
		j.health = func() error { return nil }
	}
	j.room.set(info, o.HeadRoom)
	return j, nil
}

func durabilityOf(info *jetstream.StreamInfo, said Durability) Durability {
	switch {
	case info.Config.Replicas >= 3:
		return DurabilityQuorum
	case said == DurabilityFsynced:
		return said
	}
	return DurabilityCached
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
func (j *Journal) Space() message.SpaceID { return j.space }

// Durability names what Append's return means: cached, fsynced or quorum.
func (j *Journal) Durability() string { return string(j.ack) }
