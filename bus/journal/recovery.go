package journal

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/askance-dev/askance/bus"
	"github.com/askance-dev/askance/bus/internal/jsapi"
	"github.com/askance-dev/askance/bus/keyfile"
	"github.com/askance-dev/askance/internal/strictjson"
	"github.com/askance-dev/askance/message"
	"github.com/askance-dev/askance/message/proof"
	"github.com/askance-dev/askance/toolcall"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Recovery makes a damaged journal usable again after an operator accepted its
// losses: BeginRecovery, Prepare, close open calls with Journal and CloseLost, then
// Finish. An interrupted recovery starts again from the beginning.
type Recovery struct {
	Exam   *Exam
	j      *Journal
	loss   proof.Loss
	cutOff map[bus.Entity]cutOff
}

// cutOff is the last record of an entity whose base is lost.
type cutOff struct {
	subject string
	link    *toolcall.Link
}

// BeginRecovery examines the journal, with the anchor, archives and signing keys of o. Nothing
// else may use the journal until Finish returns.
func BeginRecovery(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID, keys *keyfile.Keys, o Options) (*Recovery, error) {
	j, err := newJournal(nc, space, keys, o)
	if err != nil {
		return nil, err
	}
	if err := checkNoEngine(ctx, nc, space); err != nil {
		return nil, err
	}
	j.guard.alone = true
	r := &Recovery{j: j}
	if err := r.purgeFillers(ctx); err != nil {
		return nil, err
	}
	if r.Exam, err = j.guard.examineJournal(ctx); err != nil {
		return nil, err
	}
	for _, f := range r.Exam.Flaws {
		if f.Kind == FlawUnreadable {
			return nil, &message.Error{Code: message.CodeDamaged, Op: "accept loss", What: f.What, Hint: "delete that message with the nats command, then try again", Err: errUnreadableRecord}
		}
	}
	return r, nil
}

// checkNoEngine refuses if an engine takes requests. It refuses the request without an
// operation, and a server on which none listens says so.
func checkNoEngine(ctx context.Context, nc *nats.Conn, space toolcall.SpaceID) error {
	ctx, cancel := context.WithTimeout(ctx, jsapi.FlushTimeout)
	defer cancel()
	_, err := nc.RequestWithContext(ctx, bus.Subject{Space: space, Kind: bus.KindQuery, Who: bus.Encode("askance-engine")}.String(), nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil
	case err != nil:
		return &message.Error{Code: message.CodeUnavailable, Op: "accept loss", What: "cannot tell whether an engine of the space " + string(space) + " runs", Hint: "check the connection to NATS, then try again", Err: err}
	}
	return &message.Error{Code: message.CodeConflict, Op: "accept loss", What: "an engine of the space " + string(space) + " runs", Hint: "stop all engines of the space, then try again"}
}

var errUnreadableRecord = errors.New("the server counts a record that it cannot read")

// Prepare creates missing streams and moves the journal's end past every known
// sequence, so that no sequence is used twice.
func (r *Recovery) Prepare(ctx context.Context) error {
	x := r.Exam
	head, high := r.j.guard.anchor.currentMarks()
	known := max(x.Known, x.Signed, x.Last, head.To, high.seq)
	r.loss.Known = known
	want := streamConfig(r.j.space, r.j.codec.keys.ID(), StreamOptions{})
	if x.stream == nil {
		want.FirstSeq = known + 1
	}
	info, err := createOrCheck(ctx, r.j.store.js, "accept loss", want)
	if err != nil {
		return err
	}
	r.j.created = info.Created
	if err := r.prepareProof(ctx, head); err != nil {
		return err
	}
	if err := r.fillGaps(ctx, info.State.LastSeq, known+1); err != nil {
		return err
	}
	if r.loss.Missing, err = r.findMissing(ctx); err != nil {
		return err
	}
	const most = 10000
	if len(r.loss.Missing) > most {
		return &message.Error{Code: message.CodeTooLarge, Op: "accept loss", What: "the journal has too many separate holes", Hint: "restore a backup"}
	}
	for _, f := range x.Flaws {
		if f.Kind == FlawChanged {
			r.loss.Changed = append(r.loss.Changed, f.rangeOf())
		}
	}
	r.j.guard.high.Store(0)
	return nil
}

// findMissing returns the sequences without a record that no accepted loss names.
func (r *Recovery) findMissing(ctx context.Context) ([]proof.Range, error) {
	st, err := r.j.store.streamInfo(ctx)
	if err != nil {
		return nil, err
	}
	gone, err := r.j.guard.findHoles(ctx, r.Exam.missing)
	if st != nil && st.State.Msgs == 0 && err == nil { // an empty stream does not list deleted sequences
		gone = r.Exam.missing.missingFrom(proof.Range{From: 1, Through: st.State.LastSeq})
	}
	return gone, err
}

// prepareProof creates the stream of checkpoints. A stream with holes cannot be repaired:
// it is created again, and Finish signs the remaining journal as it is.
func (r *Recovery) prepareProof(ctx context.Context, head anchorHead) error {
	x := r.Exam
	broken := slices.ContainsFunc(x.Flaws, func(f Flaw) bool { return f.Kind == FlawProof })
	if broken {
		r.loss.Checkpoints = max(head.Number, x.Checkpoint)
	}
	if p := x.proofs; p == nil || p.State.Msgs != p.State.LastSeq || x.last.checkpoint == nil {
		if some, err := r.j.guard.archives.hasAny(ctx); err != nil {
			return err
		} else if some { // new checkpoints would not refuse the ids of archived calls
			return &message.Error{Code: message.CodeDamaged, Op: "accept loss", What: "the stream of checkpoints is damaged, but only it says which records were archived",
				Hint: "restore a backup of the journal with its checkpoints; if you have none, move the folder of archives away: after that, calls with the ids of archived ones can run again"}
		}
	}
	if p := x.proofs; broken && p != nil && (p.State.Msgs != p.State.LastSeq || x.last.checkpoint == nil) {
		r.loss.Checkpoints = max(r.loss.Checkpoints, p.State.LastSeq)
		if err := r.j.store.js.DeleteStream(ctx, LedgerName(r.j.space)); err != nil {
			return jsapi.Error("accept loss", "stream "+LedgerName(r.j.space), err)
		}
		x.Losses, x.missing = nil, nil // only that stream had them
	}
	_, err := createOrCheck(ctx, r.j.store.js, "accept loss", ledgerConfig(r.j.space, r.j.codec.keys.ID(), StreamOptions{}))
	return err
}

// fillerSubject is the subject of messages that only use up sequences.
func (r *Recovery) fillerSubject() string {
	return strings.TrimSuffix(bus.EventsFilter(r.j.space), ">") + "filler"
}

func (r *Recovery) purgeFillers(ctx context.Context) error {
	st, err := r.j.store.js.Stream(ctx, r.j.store.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err == nil {
		err = st.Purge(ctx, jetstream.WithPurgeSubject(r.fillerSubject()))
	}
	if err != nil {
		return jsapi.Error("accept loss", "stream "+r.j.store.stream, err)
	}
	return nil
}

func (r *Recovery) fillGaps(ctx context.Context, last, to uint64) error {
	const window = 1000
	for last < to {
		var acks []jetstream.PubAckFuture
		for range min(window, to-last) {
			ack, err := r.j.store.js.PublishAsync(r.fillerSubject(), nil)
			if err != nil {
				return jsapi.Error("accept loss", "move the journal's end", err)
			}
			acks = append(acks, ack)
		}
		for _, ack := range acks {
			select {
			case a := <-ack.Ok():
				last = max(last, a.Sequence)
			case err := <-ack.Err():
				return jsapi.Error("accept loss", "move the journal's end", err)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return r.purgeFillers(ctx)
}

// Journal returns the remaining journal, for reading it and for closing its open calls.
func (r *Recovery) Journal() *Journal { return r.j }

// Survivors visits every remaining record in order, and notes the calls for CutOff.
func (r *Recovery) Survivors(ctx context.Context, visit func(toolcall.JournalEntry) error) error {
	r.cutOff = map[bus.Entity]cutOff{}
	in := r.j.voids.newOrder(0)
	return r.j.store.visitRecords(ctx, "accept loss", 0, math.MaxUint64, func(m stored) error {
		if r.j.guard.archives.isLeftOver(m.seq) {
			return nil
		}
		entry, err := in.decode(ctx, m)
		if err != nil {
			return err
		}
		r.noteEntity(m, entry)
		return visit(entry)
	})
}

// noteEntity notes an entity whose last record can no longer be read.
func (r *Recovery) noteEntity(m stored, entry toolcall.JournalEntry) {
	entity := bus.Entity(bus.EntityIn(m.subject))
	switch {
	case errors.Is(entry.Invalid, errBaseLost):
		r.cutOff[entity] = cutOff{m.subject, proof.LinkTo(m.seq, leafOf(m))}
	case entry.Record != nil || isUnreadable(entry):
		delete(r.cutOff, entity)
	}
}

// CutOff lists the subjects of the calls whose last record builds on a lost one. CloseLost
// closes them. Survivors must have returned.
func (r *Recovery) CutOff() []string {
	var out []string
	for _, c := range r.cutOff {
		out = append(out, c.subject)
	}
	slices.Sort(out)
	return out
}

// IsCutOff reports whether the last record of an entity builds on a lost one. The state
// in an earlier, readable record is then out of date.
func (r *Recovery) IsCutOff(key toolcall.Key) bool {
	s, err := bus.RecordSubject(key, toolcall.Queue{})
	if err != nil {
		return false
	}
	_, is := r.cutOff[s.Entity()]
	return is
}

// CloseLost stores an event record in an entity that is cut off or whose signed records
// are all lost, so that nothing can begin there again. It returns false for an entity with
// readable records. build receives hashes in place of names that are stored as hashes.
func (r *Recovery) CloseLost(ctx context.Context, subject string, build func(toolcall.Key) *toolcall.EventRecord) (bool, error) {
	s, err := bus.ParseSubject(subject)
	name := toolcall.EntityName(s.Name.Text())
	if err != nil || !s.IsRecord() || name != "" && !name.IsBudget() {
		return false, nil // a standing approval is revoked when its call is read
	}
	if s.Kind == bus.KindWork {
		s.Kind, s.Tool = bus.KindRecord, ""
	}
	entity := s.Entity()
	last, isCutOff := r.cutOff[entity]
	switch _, err := r.j.store.get(ctx, getRequest{LastFor: string(entity)}); {
	case isCutOff:
	case err == nil:
		return false, nil
	case !errors.Is(err, errNone):
		return false, jsapi.Error("accept loss", "read "+string(entity), err)
	}
	rec := build(toolcall.Key{Space: s.Space, Session: message.SessionID(s.Session.Text()), Reply: message.ReplyID(s.Reply.Text()), Call: message.CallID(s.Call.Text()), Entity: name})
	if rec.Prev = last.link; rec.Prev == nil {
		rec.Prev = &toolcall.Link{}
	}
	body, err := strictjson.Marshal(rec)
	if err != nil {
		return false, err
	}
	a := &appending{j: r.j, record: rec, key: rec.Key(), prev: rec.Prev.Seq, entity: entity, msg: recordMsgs.Get().(*recordMsg)}
	defer a.msg.returnToPool()
	a.msg.fillRecord(rec, s.String(), entity, body, nil)
	a.msg.setPredecessor(r.j.codec.keys, rec.Prev.Seq)
	if _, err = a.run(ctx); err != nil {
		return false, err
	}
	delete(r.cutOff, entity)
	return true, nil
}

// Finish signs the loss and the remaining journal in new checkpoints, and writes a new
// anchor. After that, engines can use the journal.
func (r *Recovery) Finish(ctx context.Context, by, reason, engine string, closed uint64) (*proof.Checkpoint, error) {
	loss := r.loss
	loss.By, loss.Reason, loss.Closed, loss.At = by, reason, closed, time.Now().UTC().Round(0)
	l, err := OpenLedger(ctx, r.j, LedgerOptions{Engine: engine})
	if err != nil {
		return nil, err
	}
	anchor := r.j.guard.anchor
	r.j.guard.anchor = nil // a new one is written below
	l.loss = &loss
	c, err := l.Checkpoint(ctx)
	r.j.guard.anchor, r.loss = anchor, loss
	if err == nil { // only now: without it, engines accept the journal
		err = r.j.setMetadata(ctx, metaRestored, "", "")
	}
	if err != nil {
		return nil, err
	}
	state, err := r.j.streamState(ctx)
	if err != nil {
		return nil, err
	}
	return c, anchor.create(c, highMark{seq: state.LastSeq, at: time.Now().UnixNano()})
}

// Loss returns the loss that Finish signs, as far as it is known.
func (r *Recovery) Loss() proof.Loss { return r.loss }
