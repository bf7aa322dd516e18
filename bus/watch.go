package bus

import (
	"context"
	"errors"
	"time"

	"github.com/askance-dev/askance/bus/internal/errtext"

	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	watchBatch     = 512
	watchBytes     = 32 << 20
	watchExpiry    = 30 * time.Second
	watchHeartbeat = 2 * time.Second  // a silent server is noticed after two of these
	watchLook      = 5 * time.Second  // how often the journal is examined meanwhile
	watchInactive  = time.Minute      // the server then forgets the consumer of a dead process
	goneAfter      = 30 * time.Second // a stream missing for so long is gone, not moving
)

// WatchNew delivers to sink what is written from now on; see Watch.
func (j *Journal) WatchNew(ctx context.Context, sink toolcall.Sink) error {
	head, err := j.Head(ctx)
	if err != nil {
		return err
	}
	return j.Watch(ctx, head, sink)
}

// Watch implements engine.Journal. It reads through a consumer that the server
// keeps in memory only; whenever anything is wrong with it (a reconnect, a
// restarted server, a lost message) it is made anew behind the last record
// that was delivered. It gives up with CodeForeignStream or CodeUnavailable if
// the stream was replaced, lost records or stays away.
func (j *Journal) Watch(ctx context.Context, after uint64, sink toolcall.Sink) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(j.ended, func() { stop(j.lost()) })()
	w := &watcher{j: j, at: after, sink: sink}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		began := w.at
		err := w.run(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case w.hopeless(err):
			return err
		}
		if w.at > began {
			pause = firstPause
		} else if w.step(ctx) {
			continue
		}
		if !sleep(ctx, jitter(pause)) {
			return context.Cause(ctx)
		}
	}
}

// watcher is the state of one Watch. Invariant: every record up to at was
// delivered, none after it.
type watcher struct {
	j        *Journal
	sink     toolcall.Sink
	at       uint64
	started  bool
	caughtUp bool
	target   uint64    // the stream's end as Watch began
	missing  ranges    // sequences without a record that an operator accepted
	badSince time.Time // when the stream first was not as it must be; zero: it is
}

// errGap: the consumer skipped a message.
var errGap = errors.New("the consumer lost a message")

// run delivers records until something goes wrong.
func (w *watcher) run(ctx context.Context) error {
	iter, done, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	for expect := uint64(1); ; {
		began := w.at
		expect, err = w.turn(ctx, iter, expect)
		if err == nil {
			err = w.look(ctx, w.at > began)
		}
		if err != nil {
			return err
		}
	}
}

// turn delivers records until it is time to look at the journal as a whole.
// expect is what the consumer counts next.
func (w *watcher) turn(ctx context.Context, iter jetstream.MessagesContext, expect uint64) (uint64, error) {
	turn, end := context.WithTimeout(ctx, watchLook)
	defer end()
	for turn.Err() == nil {
		m, err := iter.Next(jetstream.NextContext(turn))
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
		if err := w.follows(ctx, meta.Sequence.Stream); err != nil {
			return expect, err
		}
		w.deliver(stored{subject: m.Subject(), seq: meta.Sequence.Stream, time: meta.Timestamp.UTC(), header: m.Headers(), data: m.Data()})
		w.catchUp(w.at >= w.target || meta.NumPending == 0)
		expect++
	}
	return expect, context.Cause(ctx)
}

// follows makes sure that there is no record between the last that was delivered
// and seq: nothing is ever deleted.
func (w *watcher) follows(ctx context.Context, seq uint64) error {
	if seq == w.at+1 || w.j.inspect || w.missing.has(w.at+1, seq-1) {
		return nil
	}
	return w.probe(ctx)
}

// probe reads the record that has to come next, which the consumer does not
// deliver. errGap: it is there, and another consumer may deliver it.
func (w *watcher) probe(ctx context.Context) error {
	next := w.at + 1
	for w.missing.has(next, next) {
		next++
	}
	m, err := w.j.getSeq(ctx, next)
	switch {
	case err == nil && m.seq == next:
		return errGap
	case !errors.Is(err, errNone):
		return errtext.Because(errGap, err)
	}
	x, err := w.j.confirm(ctx)
	switch {
	case errors.Is(err, message.ErrDamaged):
		return err
	case err != nil:
		return errtext.Because(errGap, err)
	case x.Last < next:
		return errGap
	}
	x.flaw(FlawUnreadable, next, next, "the record %d cannot be read", next)
	if x.patience() == 0 {
		w.j.lose(x.Error())
	}
	return x.Error()
}

// look examines the journal and the consumer. The server omits a record that it
// cannot read, or stops before it.
func (w *watcher) look(ctx context.Context, moved bool) error {
	x, err := w.j.confirm(ctx)
	if err != nil {
		return err
	}
	w.missing = x.missing
	if moved || x.Last <= w.at || w.missing.has(w.at+1, x.Last) {
		return nil
	}
	return w.probe(ctx)
}

// step reads one record by itself, when the consumer makes no headway: the
// client takes a stored message that looks like a server's status for one and
// keeps it back.
func (w *watcher) step(ctx context.Context) bool {
	if !w.started || !w.j.nc.IsConnected() {
		return false
	}
	m, err := w.j.next(ctx, ">", w.at)
	if err != nil || w.follows(ctx, m.seq) != nil {
		return false
	}
	w.deliver(m)
	w.catchUp(w.at >= w.target)
	return true
}

func (w *watcher) deliver(m stored) {
	if choosy, ok := w.sink.(toolcall.ChoosySink); !ok || choosy.Wants(m.seq, m.header.Get(headerID), m.time) {
		w.sink.Record(w.j.record(m))
	}
	w.at = m.seq
	if w.caughtUp {
		w.j.reached(m.seq, proof.Hash{})
	}
}

// catchUp tells the sink once that the past is over.
func (w *watcher) catchUp(over bool) {
	if over && !w.caughtUp {
		w.caughtUp = true
		w.j.reached(w.at, proof.Hash{})
		w.sink.CaughtUp()
	}
}

// open makes a consumer behind w.at. The iterator ends when the connection is
// lost: what was on its way then is lost, too, and the server counts it as
// delivered.
func (w *watcher) open(ctx context.Context) (jetstream.MessagesContext, func(), error) {
	j := w.j
	changed := j.nc.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	forget := func() { j.nc.RemoveStatusListener(changed) }
	if err := w.inspect(ctx); err != nil {
		forget()
		return nil, nil, err
	}
	cons, err := j.js.CreateConsumer(ctx, j.stream, jetstream.ConsumerConfig{
		Description:       "askance watch",
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       w.at + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		MaxDeliver:        1,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: watchInactive,
	})
	if err != nil {
		forget()
		return nil, nil, err
	}
	w.catchUp(cons.CachedInfo().NumPending == 0)
	iter, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(watchBatch, watchBytes),
		jetstream.PullExpiry(watchExpiry), jetstream.PullHeartbeat(watchHeartbeat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
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

// remove spares the server the consumer; it would forget it by itself.
func (w *watcher) remove(name string) {
	if !w.j.nc.IsConnected() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.j.js.DeleteConsumer(ctx, w.j.stream, name)
}

// inspect makes sure that the stream is the one that was opened and still has
// what was delivered: a journal that went back must not be taken for one that
// goes on.
func (w *watcher) inspect(ctx context.Context) error {
	const op = "watch journal"
	st, err := w.j.js.Stream(ctx, w.j.stream)
	if err != nil {
		return apiError(op, "stream "+w.j.stream, err)
	}
	info := st.CachedInfo()
	if !info.Created.Equal(w.j.created) {
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "stream " + w.j.stream + " was replaced by another one", Hint: "start the engine again"}
	}
	if !w.started {
		w.started, w.target = true, info.State.LastSeq
	}
	if w.j.inspect {
		return nil
	}
	x, err := w.j.confirm(ctx)
	if err == nil {
		w.missing = x.missing
	}
	return err
}

// hopeless reports whether trying again makes no sense: the connection is
// closed for good, or the stream has been wrong for half a minute. (While a
// cluster elects a leader it may seem so for a moment.)
func (w *watcher) hopeless(err error) bool {
	if w.j.nc.IsClosed() {
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
