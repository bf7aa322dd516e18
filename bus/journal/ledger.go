package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/internal/sleep"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Ledger keeps the signed checkpoints of a space's journal in a separate stream, so
// that the proof survives a purge of the journal. Because of the compare-and-swap on one
// subject, only one engine writes the next checkpoint, and none can begin a second history.
//
// All methods are safe for concurrent use.
type Ledger struct {
	j    *Journal
	kept checkpoints
	o    LedgerOptions
	log  *slog.Logger

	learnTime time.Duration // see learnTime; 0 if no engine runs

	mu   sync.Mutex // one checkpoint at a time in this process; guards last and loss
	last newest
	loss *proof.Loss // goes into the next checkpoint
}

// LedgerOptions may be left zero.
type LedgerOptions struct {
	// Stream configures a new stream.
	Stream StreamOptions
	// Existing is for readers: no stream is created before the first checkpoint.
	Existing bool
	// Alone states that no engine of the space runs, so that Archive need not wait for any.
	Alone bool
	// Engine is the replica's name in the checkpoints that it writes.
	Engine string
	// Logger logs the errors of Run. Nil means no log.
	Logger *slog.Logger
}

const kindLedger = "ledger"

// LedgerName returns the name of the stream with a space's checkpoints.
func LedgerName(space toolcall.SpaceID) string { return "ASKANCE_PROOF_" + string(space) }

func checkpointSubject(space toolcall.SpaceID) string {
	return bus.Subject{Space: space, Kind: bus.KindCheckpoint}.String()
}

// ledgerConfig configures the ledger's stream, which refuses deletions over the network.
func ledgerConfig(space toolcall.SpaceID, keyID string, o StreamOptions) jetstream.StreamConfig {
	c := streamConfig(space, keyID, o)
	c.Name, c.Description = LedgerName(space), "askance checkpoints of the space "+string(space)
	c.Subjects = []string{checkpointSubject(space)}
	c.Metadata[metaKind] = kindLedger
	c.DenyDelete, c.DenyPurge = true, true
	c.AllowAtomicPublish = false
	return c
}

// OpenLedger opens the ledger of a journal's space and creates its stream if there
// is none.
func OpenLedger(ctx context.Context, j *Journal, o LedgerOptions) (*Ledger, error) {
	o.Stream.Replicas = cmp.Or(o.Stream.Replicas, j.replicas)
	if !o.Existing {
		j.unsealed.startKeeping()
	}
	l := &Ledger{j: j, o: o, log: cmp.Or(o.Logger, noLog), kept: j.guard.checkpoints}
	l.kept.optional = o.Existing
	if !o.Alone {
		l.learnTime = learnTime
	}
	if o.Existing {
		return l, nil
	}
	return l, l.createStream(ctx)
}

func (l *Ledger) createStream(ctx context.Context) error {
	_, err := createOrCheck(ctx, l.j.store.js, "open ledger", ledgerConfig(l.j.space, l.j.codec.keys.ID(), l.o.Stream))
	return err
}

// Checkpoint signs everything in the journal that is not signed yet and returns the
// last checkpoint, or nil for an empty journal. If it is interrupted, the next call
// continues.
func (l *Ledger) Checkpoint(ctx context.Context) (*proof.Checkpoint, error) {
	return l.signAll(ctx, 0)
}

// Unsigned returns how many records no checkpoint signs, and when the first of them was stored;
// the zero time if there is none. It reads two messages.
func (l *Ledger) Unsigned(ctx context.Context) (records uint64, oldest time.Time, err error) {
	state, err := l.j.streamState(ctx)
	if err != nil {
		return 0, oldest, err
	}
	last, err := l.kept.readNewest(ctx)
	if err != nil || last.lastSequence() >= state.LastSeq {
		return 0, oldest, err
	}
	found, _, err := l.j.store.readPage(ctx, ">", last.lastSequence(), 1)
	if err != nil {
		return 0, oldest, jsapi.Error("read ledger", "stream "+l.j.store.stream, err)
	}
	if len(found) > 0 {
		oldest = found[0].time
	}
	return state.LastSeq - last.lastSequence(), oldest, nil
}

func (l *Ledger) signAll(ctx context.Context, pause time.Duration) (*proof.Checkpoint, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Existing {
		if err := l.createStream(ctx); err != nil {
			return nil, err
		}
	}
	if err := l.j.guard.endCause(); err != nil { // the remembered records may not be those of the journal
		return nil, err
	}
	state, err := l.j.streamState(ctx)
	if err != nil {
		return nil, err
	}
	for {
		if err = l.refreshCheckpoint(ctx); err != nil {
			return nil, err
		}
		if l.last.lastSequence() >= state.LastSeq {
			return l.last.checkpoint, nil
		}
		sealed, err := l.sealRange(ctx, state)
		if err != nil {
			return nil, err
		}
		if err := l.put(ctx, sealed); err != nil {
			return nil, err
		}
		l.loss = nil
		if sealed.Checkpoint.To < state.LastSeq && pause > 0 && sleep.For(ctx, pause) != nil {
			return nil, jsapi.Error("checkpoint", "sign the journal", context.Cause(ctx))
		}
	}
}

// refreshCheckpoint reads the last checkpoint and notes it in the anchor. l.mu is held.
func (l *Ledger) refreshCheckpoint(ctx context.Context) (err error) {
	before := l.last
	if l.last, err = l.kept.readNewest(ctx); err != nil {
		return err
	}
	if l.last.read = before.read; l.last.place != before.place || before.read.IsZero() {
		l.last.read = time.Now()
	}
	return l.j.guard.anchor.noteCheckpoint(l.last.checkpoint)
}

// sealRange signs the next range, as much as fits into a checkpoint. l.mu is held.
func (l *Ledger) sealRange(ctx context.Context, state jetstream.StreamState) (proof.Sealed, error) {
	c := proof.Checkpoint{Space: l.j.space, Number: 1, From: max(1, min(state.FirstSeq, state.LastSeq)), At: time.Now().UTC().Round(0), Engine: l.o.Engine}
	if last := l.last.checkpoint; last != nil {
		hash, err := last.Hash()
		if err != nil {
			return proof.Sealed{}, err
		}
		c.Number, c.From, c.Prev, c.Losses = last.Number+1, last.To+1, hash, last.Losses
		c.Archives, c.ArchiveAt = last.Archives, l.last.lastArchive()
	}
	if l.loss != nil {
		c.Loss, c.Losses = l.loss, c.Losses+1
	}
	entries, err := l.readEntries(ctx, c.From, state.LastSeq)
	if err != nil {
		return proof.Sealed{}, err
	}
	c.To = c.From + uint64(len(entries)) - 1
	return proof.Seal(c, entries, l.kept.signing().Signer())
}

// entryList has the entries of one checkpoint, one for each sequence.
type entryList struct {
	from    uint64 // the sequence of the first entry
	room    int    // left in the checkpoint, in bytes
	entries []proof.Entry
}

func (e *entryList) next() uint64 { return e.from + uint64(len(e.entries)) }

// add adds an entry, unless the checkpoint is full. There is always room for the first one.
func (e *entryList) add(entry proof.Entry) (hasRoom bool) {
	if e.room -= 2 * (len(entry.Subject) + len(proof.Hash{})); e.room < 0 && len(e.entries) > 0 {
		return false
	}
	e.entries = append(e.entries, entry)
	return true
}

// readEntries collects the entries of one checkpoint. It reads from the journal the records
// that this engine did not write recently.
func (l *Ledger) readEntries(ctx context.Context, from, through uint64) ([]proof.Entry, error) {
	through = min(through, from+proof.MaxRecords-1)
	if err := l.confirmRemembered(ctx, from, through); err != nil {
		return nil, err
	}
	list := &entryList{from: from, room: int(l.j.store.nc.MaxPayload()) / 2}
	for hasRoom := true; hasRoom && list.next() <= through; {
		if e, ok := l.j.unsealed.get(list.next()); ok {
			hasRoom = list.add(e)
			continue
		}
		var err error
		if hasRoom, err = l.addPage(ctx, list, through); err != nil {
			return nil, err
		}
	}
	return list.entries, nil
}

// addPage adds the records of one page of the journal, at most up to through.
func (l *Ledger) addPage(ctx context.Context, list *entryList, through uint64) (hasRoom bool, err error) {
	next := list.next()
	found, seen, err := l.j.store.readPage(ctx, ">", next-1, int(min(maxPage, through-next+1)))
	if err != nil {
		return false, jsapi.Error("checkpoint", "read the journal", err)
	}
	for _, m := range found {
		if m.seq > through {
			break
		}
		if err := l.addMissing(ctx, list, m.seq-1); err != nil {
			return false, err
		}
		entry := entryOf(m)
		if l.j.codec.isForeign(m) {
			entry = entry.Foreign()
		}
		if !list.add(entry) {
			return false, nil
		}
	}
	return true, l.addMissing(ctx, list, min(seen, through))
}

func entryOf(m stored) proof.Entry {
	return proof.Entry{Subject: m.subject, Content: proof.Content(provedHeader(m.header), m.data)}
}

// addMissing adds empty entries for the sequences up to through, which have no record.
func (l *Ledger) addMissing(ctx context.Context, list *entryList, through uint64) error {
	next := list.next()
	if err := l.checkMissing(ctx, next, through); err != nil || next > through {
		return err
	}
	list.entries = append(list.entries, make([]proof.Entry, through-next+1)...)
	return nil
}

// checkMissing makes sure that the sequences from … through have no record because of an accepted
// loss or an archive. Otherwise the leader may be behind, and what a checkpoint says stays.
func (l *Ledger) checkMissing(ctx context.Context, from, through uint64) error {
	if from > through || l.loss != nil { // the loss names them
		return nil
	}
	x, err := l.j.guard.examineJournal(ctx)
	if err == nil && !x.missing.has(from, through) {
		err = &message.Error{Code: message.CodeUnavailable, Op: "checkpoint", What: "the server that leads the journal has no record " + proof.Range{From: from, Through: through}.String(), Hint: "look for lost records with askance journal check; if there are none, try again"}
	}
	return err
}

// confirmRemembered forgets all remembered records if the journal has another one in place
// of the last of them: a server that lost records uses their sequences again.
func (l *Ledger) confirmRemembered(ctx context.Context, from, through uint64) error {
	for seq := through; seq >= from; seq-- {
		e, ok := l.j.unsealed.get(seq)
		if !ok {
			continue
		}
		m, err := l.j.store.getSeq(ctx, seq)
		if err != nil && !errors.Is(err, errNone) {
			return jsapi.Error("checkpoint", "read the journal", err)
		}
		if err != nil || leafOf(m) != e.Leaf() {
			l.j.unsealed.dropAll()
		}
		return nil
	}
	return nil
}

// put stores a checkpoint unless another engine was first. In either case the caller
// reads the last one again. l.mu is held.
func (l *Ledger) put(ctx context.Context, s proof.Sealed) error {
	const op = "checkpoint"
	body, err := s.Encode()
	if err != nil {
		return err
	}
	m := nats.NewMsg(checkpointSubject(l.j.space))
	m.Data = body
	m.Header.Set(headerPrev, strconv.FormatUint(l.last.seq, 10))
	m.Header.Set(HeaderKind, fmt.Sprintf("checkpoint %d", s.Checkpoint.Number))
	ctx, cancel := context.WithTimeout(ctx, jsapi.AttemptTimeout)
	defer cancel()
	ack, err := NewDirect(l.j.store.nc).Publish(ctx, Write{Msg: m})
	api, refused := errors.AsType[*jetstream.APIError](err)
	switch {
	case refused && jsapi.IsConflict(int(api.ErrorCode)):
		return nil
	case refused && jsapi.IsTransient(int(api.ErrorCode)):
		_ = sleep.For(ctx, jsapi.RandomPause(jsapi.FirstPause)) // the next request sees the end of ctx
		return nil
	case err != nil:
		return jsapi.Error(op, "stream "+l.kept.store.stream, err)
	case ack.Stream != l.kept.store.stream:
		return &message.Error{Code: message.CodeForeignStream, Op: op, What: "another stream stores this space's checkpoints", Hint: "remove their subject from it", Err: errOtherStream}
	}
	return nil
}

func (j *Journal) streamState(ctx context.Context) (jetstream.StreamState, error) {
	info, err := j.store.leaderInfo(ctx)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	j.claims.observeInfo(info)
	return info.State, nil
}

// Pace is how often Ledger.Run signs.
type Pace struct {
	// Every is the maximum age of an unsigned record. Default: a minute.
	Every time.Duration
	// Records is how many unsigned records are signed before Every. Default: 1024.
	Records int
}

const (
	lookEvery = 5 * time.Second
	// sealPause limits the signing of an old journal to about 40,000 records a
	// second, so that calls get their share of the machine.
	sealPause = 100 * time.Millisecond
)

// Run signs the journal as it grows, until ctx ends, and returns the cause. No call
// waits for it. It logs errors and retries. Several engines can call Run: the first
// one writes.
func (l *Ledger) Run(ctx context.Context, p Pace) error {
	p = Pace{Every: cmp.Or(max(0, p.Every), time.Minute), Records: cmp.Or(max(0, p.Records), 1024)}
	look := min(lookEvery, p.Every)
	for {
		due, err := l.isDue(ctx, p)
		if err == nil && due {
			_, err = l.signAll(ctx, sealPause)
		}
		if err != nil && ctx.Err() == nil {
			l.log.Warn("cannot sign a checkpoint of the journal, will retry", "err", err)
		}
		if sleep.For(ctx, jsapi.RandomPause(look)) != nil {
			return context.Cause(ctx)
		}
	}
}

// isDue reports whether it is time to sign. It reads the ledger only if signing is due by
// the last known checkpoint.
func (l *Ledger) isDue(ctx context.Context, p Pace) (bool, error) {
	state, err := l.j.streamState(ctx)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.isDue(l.last, state.LastSeq) {
		return false, nil
	}
	if err = l.refreshCheckpoint(ctx); err != nil {
		return false, err
	}
	return p.isDue(l.last, state.LastSeq), nil
}

func (p Pace) isDue(last newest, end uint64) bool {
	if end <= last.lastSequence() || last.checkpoint == nil {
		return end > last.lastSequence()
	}
	// The clock may have been set back since the checkpoint was signed, or its engine's may be ahead.
	age := max(time.Since(last.checkpoint.At), time.Since(last.read))
	return end-last.lastSequence() >= uint64(p.Records) || age >= p.Every
}
