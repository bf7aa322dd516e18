package journal

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	watchBatch     = 64 // with a byte limit instead, the server's status messages could fill the client's queue
	watchExpiry    = 30 * time.Second
	watchHeartbeat = 2 * time.Second  // a silent server is noticed after two of these
	watchLook      = 5 * time.Second  // how often the journal is examined while it is watched
	watchSilence   = 10 * time.Second // after which a watch that delivers nothing says why
	watchInactive  = time.Minute      // after which the server forgets the consumer of a dead process
	goneAfter      = 30 * time.Second // a stream that is missing for longer is gone
)

const watchDescription = "askance watch"

// WatchNew delivers to sink the records that are written from now on; see Watch.
func (j *Journal) WatchNew(ctx context.Context, sink toolcall.Sink) error {
	head, err := j.Head(ctx)
	if err != nil {
		return err
	}
	return j.Watch(ctx, head, sink)
}

// Watch implements engine.Journal. It reads through a consumer in the server's
// memory; after any problem it creates a new one after the last delivered record.
// It fails with CodeForeignStream, CodeDamaged or CodeUnavailable if the stream
// was replaced, lost records or stays unavailable.
func (j *Journal) Watch(ctx context.Context, after uint64, sink toolcall.Sink) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(j.guard.ended, func() { stop(j.guard.endCause()) })()
	w := &watcher{j: j, at: after, sink: sink, order: j.voids.newOrder(after)}
	failing := time.Now() // when it began to fail, or to say so
	for pause := jsapi.FirstPause; ; pause = min(2*pause, electionPause) {
		began, since := w.at, time.Now()
		err := w.run(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.isHopeless(err):
			if loss := errors.Unwrap(err); errors.Is(loss, message.ErrDamaged) { // no election explains it any more
				return loss
			}
			return err
		case w.at > began:
			pause, failing = jsapi.FirstPause, time.Now()
		case time.Since(since) > watchSilence: // there was nothing to deliver
			failing = time.Now()
		case time.Since(failing) > watchSilence:
			failing = time.Now()
			j.log.Warn("NATS delivers no new records of the journal; will try again", "after", w.at, "error", err)
		}
		if w.at == began && w.readOn(ctx) {
			continue
		}
		if sleep.For(ctx, jsapi.RandomPause(pause)) != nil {
			return context.Cause(ctx)
		}
	}
}

// watcher is the state of one Watch.
//
// Invariant: every record up to at was delivered, none after it.
type watcher struct {
	j        *Journal
	sink     toolcall.Sink
	at       uint64
	last     stored // the last delivered record
	started  bool
	caughtUp bool
	target   uint64 // the stream's end when Watch began
	order    *order
	missing  ranges    // sequences without a record that an operator accepted
	badSince time.Time // when the stream was first found wrong; zero: it is right
}

var errGap = errors.New("the consumer lost a message")

func (w *watcher) run(ctx context.Context) error {
	iter, done, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	for expect := uint64(1); ; {
		began := w.at
		expect, err = w.deliverTurn(ctx, iter, expect)
		if err == nil {
			err = w.checkJournal(ctx, w.at > began)
		}
		if err != nil {
			return err
		}
	}
}

// deliverTurn delivers records until it is time to check the whole journal. expect is the
// consumer's next sequence.
func (w *watcher) deliverTurn(ctx context.Context, iter jetstream.MessagesContext, expect uint64) (uint64, error) {
	turn, end := context.WithTimeout(ctx, watchLook)
	defer end()
	untilTurnEnds := []jetstream.NextOpt{jetstream.NextContext(turn)}
	for turn.Err() == nil {
		m, err := iter.Next(untilTurnEnds...)
		switch {
		case err != nil && turn.Err() != nil && ctx.Err() == nil:
			return expect, nil
		case err != nil:
			return expect, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return expect, err
		}
		if meta.Sequence.Consumer != expect || meta.Sequence.Stream <= w.at {
			return expect, errGap
		}
		if err := w.checkFollows(ctx, meta.Sequence.Stream); err != nil {
			return expect, err
		}
		if err := w.deliverRecord(ctx, stored{subject: m.Subject(), seq: meta.Sequence.Stream, time: meta.Timestamp.UTC(), header: m.Headers(), data: m.Data()}); err != nil {
			return expect, err
		}
		w.catchUp(w.at >= w.target || meta.NumPending == 0)
		expect++
	}
	return expect, context.Cause(ctx)
}

// checkFollows makes sure that no record lies between the last delivered one and seq.
func (w *watcher) checkFollows(ctx context.Context, seq uint64) error {
	if seq == w.at+1 || w.j.guard.inspect || w.missing.has(w.at+1, seq-1) {
		return nil
	}
	err := w.probeNext(ctx)
	if err == nil && !w.missing.has(w.at+1, seq-1) {
		err = errGap
	}
	return err
}

// probeNext reads the next record, which the consumer did not deliver. It returns errGap
// if another consumer may deliver the record, nil if the record was archived meanwhile.
func (w *watcher) probeNext(ctx context.Context) error {
	next := w.missing.endOfRun(w.at) + 1
	m, err := w.j.store.getSeq(ctx, next)
	switch {
	case err == nil && m.seq == next:
		return errGap
	case !errors.Is(err, errNone):
		return errtext.Because(errGap, err)
	}
	x, err := w.j.guard.check(ctx)
	switch {
	case errors.Is(err, message.ErrDamaged):
		return err
	case err != nil:
		return errtext.Because(errGap, err)
	case x.Last < next:
		return errGap
	}
	if w.missing = x.missing; w.missing.has(next, next) {
		return nil
	}
	x.addFlaw(FlawUnreadable, next, next, "record %d is unreadable", next)
	return w.j.guard.refuseFlaws(x)
}

// checkJournal checks the journal and the consumer, because the server may skip an
// unreadable record or stop before it.
func (w *watcher) checkJournal(ctx context.Context, moved bool) error {
	x, err := w.j.guard.check(ctx)
	if err != nil {
		return err
	}
	w.missing = x.missing
	if moved || x.Last <= w.at || w.missing.has(w.at+1, x.Last) {
		return nil
	}
	return w.probeNext(ctx)
}

// readOn reads records without the consumer, for a while: the server may deliver none, and
// the client library does not deliver a stored message that looks like a status message of
// the server. It reports whether there was one.
func (w *watcher) readOn(ctx context.Context) bool {
	began := w.at
	for until := time.Now().Add(watchLook); w.readOne(ctx) && time.Now().Before(until); {
	}
	return w.at > began
}

func (w *watcher) readOne(ctx context.Context) bool {
	if !w.started || !w.j.store.nc.IsConnected() {
		return false
	}
	m, err := w.j.store.next(ctx, ">", w.at)
	if err != nil || w.checkFollows(ctx, m.seq) != nil {
		return false
	}
	if w.deliverRecord(ctx, m) != nil {
		return false
	}
	w.catchUp(w.at >= w.target)
	return true
}

// deliverRecord fails if the record cannot be expanded now.
func (w *watcher) deliverRecord(ctx context.Context, m stored) error {
	w.j.store.noteSeen(m.seq)
	if w.j.guard.archives.isLeftOver(m.seq) {
		w.at = m.seq
		return nil
	}
	void, err := w.order.isVoid(ctx, m)
	if err != nil {
		return err
	}
	if w.caughtUp && m.header.Get(headerBatchID) == "" { // the server shows a batch before it is on the disk
		w.raiseMark(m.seq, m) // before the sink reads what depends on the record
	}
	if void {
		w.sink.Record(voidEntry(m))
	} else if choosy, ok := w.sink.(toolcall.ChoosySink); !ok || choosy.Wants(m.seq, m.header.Get(headerID), m.time) {
		r := w.j.codec.decode(ctx, m)
		if isBaseUnread(r) {
			return r.Invalid
		}
		w.sink.Record(r)
	}
	w.at, w.last = m.seq, m
	return nil
}

// raiseMark notes the record at seq, unless a higher one is known. m is that record, if it was read.
func (w *watcher) raiseMark(seq uint64, m stored) {
	if seq <= w.j.guard.high.Load() {
		return
	}
	var leaf proof.Hash
	if m.seq == seq {
		leaf = leafOf(m)
	}
	w.j.guard.raiseMark(seq, leaf)
}

// catchUp tells the sink, once, that it has received all older records.
func (w *watcher) catchUp(over bool) {
	if over && !w.caughtUp {
		w.caughtUp = true
		w.raiseMark(w.at, w.last)
		w.sink.CaughtUp()
	}
}

// open creates a consumer that starts after w.at. The iterator ends with the connection,
// because the server counts lost messages as delivered.
func (w *watcher) open(ctx context.Context) (jetstream.MessagesContext, func(), error) {
	j := w.j
	changed := j.store.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	forget := func() { j.store.nc.RemoveStatusListener(changed) }
	if err := w.inspectStream(ctx); err != nil {
		forget()
		return nil, nil, err
	}
	cons, err := j.store.js.CreateConsumer(ctx, j.store.stream, jetstream.ConsumerConfig{
		Description:       watchDescription,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       w.at + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: watchInactive,
	})
	if err == nil {
		if err = w.examineJournal(ctx); err != nil {
			w.remove(cons.CachedInfo().Name)
		}
	}
	if err != nil {
		forget()
		return nil, nil, err
	}
	w.catchUp(cons.CachedInfo().NumPending == 0)
	iter, err := cons.Messages(jetstream.PullMaxMessages(watchBatch), jetstream.PullExpiry(watchExpiry), jetstream.PullHeartbeat(watchHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		forget()
		return nil, nil, err
	}
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-changed:
			iter.Stop()
		case <-stop:
		}
	}()
	return iter, func() {
		close(stop)
		<-stopped
		iter.Stop()
		forget()
		w.remove(cons.CachedInfo().Name)
	}, nil
}

// remove deletes the consumer, which the server would otherwise forget after
// watchInactive.
func (w *watcher) remove(name string) {
	if !w.j.store.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.j.store.js.DeleteConsumer(ctx, w.j.store.stream, name)
}

// inspectStream makes sure that the stream is the one that was opened, and still has
// every delivered record.
func (w *watcher) inspectStream(ctx context.Context) error {
	const op = "watch journal"
	st, err := w.j.store.js.Stream(ctx, w.j.store.stream)
	if err != nil {
		return jsapi.Error(op, "stream "+w.j.store.stream, err)
	}
	info := st.CachedInfo()
	if !info.Created.Equal(w.j.created) {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "stream " + w.j.store.stream + " was replaced by another one", Hint: "restart the engine"}
	}
	if !w.started {
		w.started, w.target = true, info.State.LastSeq
	}
	return w.examineJournal(ctx)
}

func (w *watcher) examineJournal(ctx context.Context) error {
	if w.j.guard.inspect {
		return nil
	}
	x, err := w.j.guard.check(ctx)
	if err == nil {
		w.missing = x.missing
	}
	return err
}

// isHopeless reports whether a retry is useless: the connection is closed, or the
// stream was wrong for longer than an election takes.
func (w *watcher) isHopeless(err error) bool {
	if w.j.store.nc.IsClosed() {
		return true
	}
	bad := errors.Is(err, message.ErrForeignStream) || errors.Is(err, message.ErrDamaged) || errors.Is(err, jetstream.ErrStreamNotFound)
	switch {
	case !bad:
		w.badSince = time.Time{}
	case w.badSince.IsZero():
		w.badSince = time.Now()
	}
	return bad && time.Since(w.badSince) > goneAfter
}
