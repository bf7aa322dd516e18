package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go/jetstream"
)

// Outbox delivers the journal's event records to external destinations. Each destination
// has a durable consumer, so every event record written since the destination was first
// followed is delivered until it is acknowledged. Several processes can serve one
// destination; each event record goes to one process at a time.
//
// Failed deliveries are kept as dead letters in the space's outbox bucket. All methods
// are safe for concurrent use.
type Outbox struct {
	j    *Journal
	kv   jetstream.KeyValue
	name string
	most uint64 // dead letters
}

// Limits of an outbox.
const (
	// outboxWait is how long after its process died a delivery is repeated. A live process says
	// each outboxBeat that it still delivers.
	outboxWait, outboxBeat = 30 * time.Second, 10 * time.Second
	// outboxNote is how often a process notes what a destination has received.
	outboxNote = time.Minute
	// outboxPending limits the unacknowledged event records of one destination,
	// including those that wait to be repeated.
	outboxPending = 10_000
	// outboxAtOnce limits the simultaneous deliveries in one process.
	outboxAtOnce = 64
	// outboxForgotten is when NATS forgets a destination that no process serves.
	outboxForgotten = 30 * 24 * time.Hour
	// outboxLetters limits the dead letters of a space, to about 30 MB.
	outboxLetters = 100_000
	// kindOutbox marks the consumer of a destination.
	kindOutbox = "outbox"
	// MaxOutboxName is the maximum length of a destination's name.
	MaxOutboxName = 64
)

// OutboxBucketName returns the name of a space's bucket of dead letters, used one-time
// tokens and places of destinations.
func OutboxBucketName(space toolcall.SpaceID) string { return "ASKANCE_OUTBOX_" + string(space) }

// OpenOutbox opens the outbox of the journal's space and creates its bucket if
// there is none.
func OpenOutbox(ctx context.Context, j *Journal) (*Outbox, error) {
	const op = "open outbox"
	name := OutboxBucketName(j.space)
	kv, err := j.store.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		replicas := j.replicas // may have changed since the journal was opened
		if info, err := j.store.streamInfo(ctx); err == nil && info != nil {
			replicas = max(1, info.Config.Replicas)
		}
		kv, err = j.store.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "askance deliveries that failed in the space " + string(j.space), History: 1,
			Storage: jetstream.FileStorage, Replicas: replicas, LimitMarkerTTL: time.Minute,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // another process was first
			kv, err = j.store.js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, jsapi.Error(op, "bucket "+name, err)
	}
	return &Outbox{j: j, kv: kv, name: name, most: outboxLetters}, nil
}

// newDelivery returns the nth delivery of an event record.
func newDelivery(r toolcall.JournalEntry, n uint64, m jetstream.Msg) toolcall.Delivery {
	return toolcall.Delivery{
		Record: r, Attempt: int(min(n, 1<<30)),
		Done: func(ctx context.Context) error {
			if err := m.DoubleAck(ctx); err != nil {
				return jsapi.Error("acknowledge a delivery", "the event record will be delivered again", err)
			}
			return nil
		},
		Again: func(pause time.Duration) error {
			if err := m.NakWithDelay(pause); err != nil {
				return jsapi.Error("return a delivery", "the event record will be delivered again anyway", err)
			}
			return nil
		},
	}
}

// CheckOutboxName returns why a text cannot be the name of a destination.
func CheckOutboxName(name string) error {
	if name == "" || len(name) > MaxOutboxName || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return &message.Error{Code: message.CodeInvalid, Op: "name a destination", What: errtext.Quote(name) + " is not a valid name", Hint: fmt.Sprintf("use at most %d letters, digits, _ and -", MaxOutboxName)}
	}
	return nil
}

// Follow delivers the event records written since the destination was first followed, in order except
// for repeated ones, until ctx ends and every f has returned; it returns the cause. f runs in up to 64
// goroutines and must call Done or Again for each delivery. NATS forgets a destination that no process
// has served for thirty days. One whose consumer was deleted continues after its last noted place. If
// the consumer is not of a destination, Follow returns ErrForeignStream.
func (o *Outbox) Follow(ctx context.Context, name string, f func(context.Context, toolcall.Delivery)) error {
	const op = "follow the journal for a destination"
	if err := CheckOutboxName(name); err != nil {
		return err
	}
	failing, last := time.Now(), outboxPlace{} // when it began to fail, or to say so
	for pause := jsapi.FirstPause; ; pause = min(2*pause, jsapi.MaxPause) {
		since := time.Now()
		err := o.followOnce(ctx, name, &last, f)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, jetstream.ErrConsumerExists):
			return &message.Error{Code: message.CodeForeignStream, Op: op, What: "the consumer " + outboxConsumer(name) + " of stream " + o.j.store.stream + " is not of a destination", Hint: "delete it, or rename the destination", Err: err}
		case time.Since(since) > watchSilence: // it worked
			pause, failing = jsapi.FirstPause, time.Now()
		case time.Since(failing) > watchSilence:
			failing = time.Now()
			o.j.log.Warn("NATS delivers no records for a destination; will try again", "destination", name, "err", err)
		}
		if sleep.For(ctx, jsapi.RandomPause(pause)) != nil {
			return context.Cause(ctx)
		}
	}
}

func (o *Outbox) followOnce(ctx context.Context, name string, last *outboxPlace, f func(context.Context, toolcall.Delivery)) error {
	c, err := o.openConsumer(ctx, name, last)
	if err != nil {
		return err
	}
	iter, err := c.Messages(jetstream.PullMaxMessages(1)) // more would wait here without a sign of life
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer o.giveBack(iter)
	noting, endNoting := context.WithCancel(ctx)
	defer endNoting()
	wg.Go(func() { o.notePlaces(noting, name, c, last) })
	room := make(chan struct{}, outboxAtOnce)
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		o.j.store.noteSeen(meta.Sequence.Stream)
		r, err := o.j.voids.decode(ctx, stored{subject: m.Subject(), seq: meta.Sequence.Stream, time: meta.Timestamp.UTC(), header: m.Headers(), data: m.Data()})
		if err != nil {
			<-room
			_ = m.NakWithDelay(jsapi.MaxPause) // if lost, the message returns after outboxWait
			continue
		}
		d := newDelivery(r, meta.NumDelivered, m)
		wg.Go(func() {
			defer func() { <-room }()
			defer keepDelivering(m)()
			f(ctx, d)
		})
	}
}

// keepDelivering says that a delivery is in progress, until the returned function is called.
func keepDelivering(m jetstream.Msg) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for sleep.For(ctx, outboxBeat) == nil {
			_ = m.InProgress() // the next one may arrive
		}
	})
	return func() { cancel(); wg.Wait() }
}

// giveBack stops reading and returns undelivered messages to the queue. If a message of it
// is lost, the record returns after outboxWait.
func (o *Outbox) giveBack(iter jetstream.MessagesContext) {
	ctx, cancel := context.WithTimeout(context.Background(), jsapi.FlushTimeout)
	defer cancel()
	iter.Drain()
	for {
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			break
		}
		_ = m.Nak() // if lost, it returns later
	}
	_ = o.j.store.nc.FlushWithContext(ctx) // fails only if the connection is lost
}

// Record reads one event record by its sequence, also an archived one.
func (o *Outbox) Record(ctx context.Context, seq uint64) (toolcall.JournalEntry, error) {
	m, err := o.j.store.getSeq(ctx, seq)
	if errors.Is(err, errNone) {
		if m, err = o.j.guard.archives.get(ctx, seq); err == nil {
			return o.j.codec.decode(ctx, m), nil
		}
	}
	if errors.Is(err, errNone) {
		return toolcall.JournalEntry{}, &message.Error{Code: message.CodeNotFound, Op: "read a record", What: "the journal has no record " + strconv.FormatUint(seq, 10), Err: err}
	}
	if err != nil {
		return toolcall.JournalEntry{}, jsapi.Error("read a record", "record "+strconv.FormatUint(seq, 10), err)
	}
	return o.j.voids.decode(ctx, m)
}

func deadLetterKey(destination string, seq uint64) string {
	return "dead." + destination + "." + strconv.FormatUint(seq, 10)
}

// AddDeadLetter keeps a dead letter until RemoveDeadLetter, and replaces an earlier failure of
// the same delivery. It returns ErrFull if there are too many others: the delivery then stays due.
func (o *Outbox) AddDeadLetter(ctx context.Context, l toolcall.DeadLetter) error {
	const op = "keep a dead letter"
	if err := CheckOutboxName(l.Destination); err != nil {
		return err
	}
	b, err := strictjson.Marshal(l)
	if err != nil {
		return err
	}
	key := deadLetterKey(l.Destination, l.Seq)
	if letters, err := o.countOthers(ctx, key); err != nil {
		return jsapi.Error(op, "bucket "+o.name, err)
	} else if letters >= o.most {
		return &message.Error{Code: message.CodeFull, Op: op, What: fmt.Sprintf("the bucket %s has %d dead letters, the most that are kept", o.name, letters), Hint: "retry or drop dead letters: askance webhooks list shows them"}
	}
	if _, err = o.kv.Put(ctx, key, b); err != nil {
		return jsapi.Error(op, "bucket "+o.name, err)
	}
	return nil
}

// countOthers returns how many dead letters limit a new one: none, if it replaces one, or if the whole
// bucket has fewer entries.
func (o *Outbox) countOthers(ctx context.Context, key string) (uint64, error) {
	all, err := o.kv.Status(ctx)
	if err != nil || all.Values() < o.most {
		return 0, err
	}
	if _, err := o.kv.Get(ctx, key); !errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, err
	}
	// The server counts what a new consumer would get, and removes the unused consumer.
	c, err := o.j.store.js.CreateConsumer(ctx, "KV_"+o.name, jetstream.ConsumerConfig{
		FilterSubject: "$KV." + o.name + ".dead.>", AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return 0, err
	}
	return c.CachedInfo().NumPending, nil
}

// RemoveDeadLetter deletes a dead letter. It returns ErrNotFound if there is none.
func (o *Outbox) RemoveDeadLetter(ctx context.Context, destination string, seq uint64) error {
	const op = "remove a dead letter"
	key := deadLetterKey(destination, seq)
	if err := CheckOutboxName(destination); err != nil {
		return err
	}
	if _, err := o.kv.Get(ctx, key); errors.Is(err, jetstream.ErrKeyNotFound) {
		return &message.Error{Code: message.CodeNotFound, Op: op, What: fmt.Sprintf("there is no dead letter %d for %q", seq, destination), Hint: "list the dead letters (askance webhooks list)", Err: err}
	} else if err != nil {
		return jsapi.Error(op, "bucket "+o.name, err)
	}
	if err := o.kv.Purge(ctx, key, jetstream.PurgeTTL(time.Minute)); err != nil {
		return jsapi.Error(op, "bucket "+o.name, err)
	}
	return nil
}

// DeadLetters lists the dead letters by destination and sequence.
func (o *Outbox) DeadLetters(ctx context.Context) ([]toolcall.DeadLetter, error) {
	const op = "list dead letters"
	out := []toolcall.DeadLetter{}
	err := readBucket(ctx, op, o.kv, "dead.>", func(e jetstream.KeyValueEntry) error {
		if e.Operation() != jetstream.KeyValuePut {
			return nil
		}
		var l toolcall.DeadLetter
		if err := strictjson.Unmarshal(e.Value(), &l); err != nil {
			return &message.Error{Code: message.CodeInvalid, Op: op, What: "the entry " + e.Key() + " of bucket " + o.name + " is not a dead letter", Hint: "find out who writes to the bucket", Err: err}
		}
		out = append(out, l)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b toolcall.DeadLetter) int {
		return cmp.Or(cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Seq, b.Seq))
	})
	return out, nil
}

// UseOnce reports whether this is the first use of a one-time token in any process of the
// space. It remembers the token for ttl, but at least a second.
func (o *Outbox) UseOnce(ctx context.Context, token string, ttl time.Duration) (first bool, err error) {
	sum := sha256.Sum256([]byte(token))
	_, err = o.kv.Create(ctx, "used."+hex.EncodeToString(sum[:]), nil, jetstream.KeyTTL(max(ttl, time.Second)))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, jetstream.ErrKeyExists):
		return false, nil
	}
	return false, jsapi.Error("use a one-time token", "bucket "+o.name, err)
}
